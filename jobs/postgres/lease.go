package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// leaseWait bounds the wait of a takeover for transactions under the old lease,
// lockTimeout that for any other row.
const (
	leaseWait   = "2s"
	lockTimeout = "10s"
)

// Fence implements jobs.Tx. It costs no round trip: the lease is looked at along
// with the first statement that writes, or with the COMMIT if there is none. So a
// transaction that only looks, as most claims do while nothing is due, has
// nothing to write to the server's log.
func (t *tx) Fence(_ context.Context, f jobs.Fence) error {
	switch {
	case t.ended:
		return errEnded
	case !t.write:
		return errView
	case f.Token == "":
		return t.note(fenced(f))
	case !slices.Contains(t.fences, f) && !slices.Contains(t.held, f):
		t.fences = append(t.fences, f)
	}
	return nil
}

func fenced(f jobs.Fence) error { return fmt.Errorf("%w: %s", jobs.ErrFenced, f.LaneID) }

func laneArgs(l jobs.LaneID, more ...any) []any {
	return append([]any{stored.ID(l.Client), int32(l.Shard)}, more...)
}

func fenceArgs(f jobs.Fence) []any { return laneArgs(f.LaneID, stored.ID(f.Token)) }

// Leases implements jobs.Tx.
func (t *tx) Leases(ctx context.Context) (out []jobs.Lease, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var l jobs.Lease
		if err := rows.Scan(&l.Client, &l.Shard, &l.Owner, &l.Token, &l.Since, &l.Until, &l.Lapsed); err != nil {
			return err
		}
		var in stored.ReadIDs
		l.Client, l.Owner, l.Token = in.ID(l.Client), in.ID(l.Owner), in.ID(l.Token)
		l.Since, l.Until = l.Since.UTC(), l.Until.UTC()
		out = append(out, l)
		return in.Err
	}, t.q.leases)
	if err != nil {
		return nil, fmt.Errorf("read the leases: %w", err)
	}
	return out, nil
}

// TakeLease implements jobs.Tx. FOR UPDATE waits for the transactions that hold
// the row FOR KEY SHARE; changing the row would not.
func (t *tx) TakeLease(ctx context.Context, l jobs.Lease, was string, d time.Duration) (bool, error) {
	owner, token, old := stored.ID(l.Owner), stored.ID(l.Token), stored.ID(was)
	n, err := t.send(ctx,
		statement{t.q.leaseWait, nil},
		statement{t.q.leaseFirst, laneArgs(l.LaneID, owner, token, old, d)},
		statement{t.q.leaseLock, laneArgs(l.LaneID, old)},
		statement{t.q.leaseTake, laneArgs(l.LaneID, old, owner, token, d, stamp(l.Until))},
		statement{t.q.patient, nil})
	if sqlstate(err) == lockNotAvailable {
		// Not the transaction's own, to be run again: the caller may have better to do.
		err = fmt.Errorf("%w: a transaction under its lease has not ended (%w)", jobs.ErrBusy, err)
		t.failed = err
	}
	if err != nil {
		return false, fmt.Errorf("take the lease of %s: %w", l.LaneID, err)
	}
	return n[1]+n[3] > 0, nil
}

// RenewLeases implements jobs.Tx.
func (t *tx) RenewLeases(ctx context.Context, tokens []string, d time.Duration) (lost []string, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	left := map[string]bool{}
	for _, token := range tokens {
		left[token] = true
	}
	if err = t.hold(ctx); err == nil {
		err = t.query(ctx, func(rows pgx.Rows) error {
			var token string
			if err := rows.Scan(&token); err != nil {
				return err
			}
			token, err := stored.ParseID(token)
			delete(left, token)
			return err
		}, t.q.leaseRenew, stored.IDs(tokens), d)
	}
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(tokens), err)
	}
	for token := range left {
		lost = append(lost, token)
	}
	return lost, nil
}

// FreeLease implements jobs.Tx. Who takes it next waits for what is under way.
func (t *tx) FreeLease(ctx context.Context, f jobs.Fence) error {
	if _, err := t.exec(ctx, t.q.leaseFree, fenceArgs(f)...); err != nil {
		return fmt.Errorf("give the lease of %s back: %w", f.LaneID, err)
	}
	return nil
}

// Daemons implements jobs.Tx.
func (t *tx) Daemons(ctx context.Context) (out []jobs.Daemon, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		m, err := readDaemon(rows)
		out = append(out, m)
		return err
	}, t.q.members)
	if err != nil {
		return nil, fmt.Errorf("read which daemons are at work: %w", err)
	}
	return out, nil
}

func readDaemon(rows pgx.Rows) (m jobs.Daemon, err error) {
	var since pgtype.Timestamptz
	var process, lanes string
	if err := rows.Scan(&m.Owner, &process, &since, &m.Until, &m.Lapsed, &lanes, &m.Leaving); err != nil {
		return m, err
	}
	m.Since, m.Until = moment(since), m.Until.UTC()
	if m.Owner, err = stored.ParseID(m.Owner); err != nil {
		return m, err
	}
	if m.Process, err = stored.ParseProcess(process); err != nil {
		return m, fmt.Errorf("daemon %s: %w", m.Owner, err)
	}
	if m.Lanes, err = stored.ParseLanes(lanes); err != nil {
		return m, fmt.Errorf("daemon %s: %w", m.Owner, err)
	}
	return m, nil
}

// PutDaemon implements jobs.Tx.
func (t *tx) PutDaemon(ctx context.Context, m jobs.Daemon, d time.Duration) error {
	process, err := stored.Process(m.Process)
	if err != nil {
		return err
	}
	lanes, err := stored.Lanes(m.Lanes)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, t.q.memberPut, stored.ID(m.Owner), process, stamp(m.Since), d, lanes, m.Leaving); err != nil {
		return fmt.Errorf("store daemon %s: %w", m.Owner, err)
	}
	return nil
}

// DeleteDaemon implements jobs.Tx.
func (t *tx) DeleteDaemon(ctx context.Context, owner string) error {
	if _, err := t.exec(ctx, t.q.memberDelete, stored.ID(owner)); err != nil {
		return fmt.Errorf("remove daemon %s: %w", owner, err)
	}
	return nil
}
