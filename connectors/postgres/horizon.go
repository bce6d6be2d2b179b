package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// horizon is what the server tells of the transactions that were running just before a page was read.
type horizon struct {
	clock time.Time
	// open are the starts of other transactions that could still write, in microseconds since 1970, in ascending order.
	open []int64
	// next is the number that the next transaction to write will have, and xmin one below which every transaction that could write to this
	// database has ended. The snapshot's own xmin would do, too, but it waits for the transactions of all other databases.
	next, xmin int64
	// sure says that open is complete. It is not on a standby, whose primary has transactions of its own, nor where sessions of other roles
	// are hidden from us.
	sure bool
	why  string // why not
	// control says that we may ask which server this is.
	control bool
}

// settle is how long after its start a transaction may not be seen yet among those that run.
const settle = 2 * time.Second

// look reads the horizon. It must be a statement before the one that reads rows, never the same: a transaction that commits between the
// snapshot of a statement and that statement's look at pg_stat_activity would be in neither.
func (h *horizon) look(ctx context.Context, tx pgx.Tx) error {
	const sql = `WITH others AS MATERIALIZED (
  SELECT xact_start AS began, backend_xid AS xid, query = '<insufficient privilege>' AS hidden FROM pg_catalog.pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type IS DISTINCT FROM 'autovacuum worker'
    AND backend_type IS DISTINCT FROM 'walsender' AND backend_type IS DISTINCT FROM 'parallel worker'
  UNION ALL SELECT prepared, transaction, false FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()
)
SELECT clock_timestamp(), pg_is_in_recovery(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
  EXISTS (SELECT FROM others WHERE hidden),
  ARRAY(SELECT (extract(epoch FROM began) * 1000000)::bigint FROM others WHERE began IS NOT NULL ORDER BY 1),
  ARRAY(SELECT xid::text::bigint FROM others WHERE xid IS NOT NULL), has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')`
	var standby, hidden bool
	var xids []int64
	if err := tx.QueryRow(ctx, sql).Scan(&h.clock, &standby, &h.xmin, &h.next, &hidden, &h.open, &xids, &h.control); err != nil {
		return err
	}
	h.clock = h.clock.UTC()
	switch {
	case standby:
		h.why = "this server is a standby, where the transactions of its primary cannot be seen"
	case hidden:
		h.why = "sessions of other roles are hidden; GRANT pg_read_all_stats to this role"
	}
	if h.sure = h.why == ""; h.sure {
		h.xmin = h.next
		for _, x := range xids {
			h.xmin = min(h.xmin, h.full(x))
		}
	}
	return nil
}

// full is the number of a transaction in 64 bits, from the 32 by which the server calls one that lives.
func (h *horizon) full(x int64) int64 { return h.next - int64(int32(uint32(h.next)-uint32(x))) }

// ended lists those of before that are no longer among now; both are in ascending order, and equal starts are counted.
func ended(before, now []int64) []int64 {
	var gone []int64
	for _, b := range before {
		i, found := slices.BinarySearch(now, b)
		now = now[i:]
		if !found {
			gone = append(gone, b)
			continue
		}
		now = now[1:]
	}
	return gone
}
