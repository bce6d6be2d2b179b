package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// reshardPage is how many rows are looked at in one step.
const reshardPage = 5000

// Reshard implements jobs.Tx. The server does not know ShardOf, so the rows'
// names are read, page by page, until enough are found that are not where they belong.
func (t *tx) Reshard(ctx context.Context, client string, shards, limit int) (int, error) {
	n, err := t.reshard(ctx, client, shards, limit)
	if err != nil {
		return 0, fmt.Errorf("share the rows of client %s out to %d shards: %w", client, shards, err)
	}
	return n, nil
}

func (t *tx) reshard(ctx context.Context, client string, shards, limit int) (int, error) {
	ids, err := t.misplaced(ctx, client, shards, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	rows, err := t.Rows(ctx, ids, false)
	if err != nil {
		return 0, err
	}
	to := map[int][]jobs.RowID{}
	n := 0
	for i := range rows {
		r := &rows[i]
		shard := jobs.ShardOf(r.EntityKey(), shards)
		// It may have changed before it was held.
		if r.State != jobs.Ready || r.Client != client || r.Shard == shard {
			continue
		}
		to[shard] = append(to[shard], r.RowID)
		r.Shard = shard
		t.touched.add(r)
		n++
	}
	var statements []statement
	for shard, ids := range to {
		statements = append(statements, statement{t.q.place, append([]any{int32(shard)}, keyArgs(stored.RowIDs(ids))...)})
	}
	_, err = t.send(ctx, statements...)
	return n, err
}

// misplaced names ready rows of a client that are not of their shard, at most limit.
func (t *tx) misplaced(ctx context.Context, client string, shards, limit int) (ids []jobs.RowID, err error) {
	if err := t.hold(ctx); err != nil {
		return nil, err
	}
	// The rows behind the page that is fetched are not read.
	err = t.query(ctx, func(pgx.Rows) error { return nil }, t.q.rowsOf, stored.ID(client))
	for more := err == nil; more && len(ids) < limit; {
		more = false
		err = t.query(ctx, func(rows pgx.Rows) error {
			more = true
			var r jobs.Row
			if err := rows.Scan(&r.Flow, &r.Key, &r.Entity, &r.Shard); err != nil {
				return err
			}
			var in stored.ReadIDs
			r.RowID, r.Entity = jobs.RowID{Flow: in.ID(r.Flow), Key: in.ID(r.Key)}, in.ID(r.Entity)
			if in.Err == nil && len(ids) < limit && r.Shard != jobs.ShardOf(r.EntityKey(), shards) {
				ids = append(ids, r.RowID)
			}
			return in.Err
		}, t.q.rowsNext)
		more = more && err == nil
	}
	if err != nil {
		return nil, err
	}
	return ids, t.query(ctx, func(pgx.Rows) error { return nil }, t.q.rowsEnd)
}

// DropBodies implements jobs.Tx.
func (t *tx) DropBodies(ctx context.Context, ids []jobs.RowID) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n, err := t.exec(ctx, t.q.dropBody, keyArgs(stored.RowIDs(ids))...)
	if err != nil {
		return 0, fmt.Errorf("remove the bodies of %d rows: %w", len(ids), err)
	}
	return int(n), nil
}

// CountReady implements jobs.Tx.
func (t *tx) CountReady(ctx context.Context, flow string, most int) (n int, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error { return rows.Scan(&n) }, t.q.countReady, stored.ID(flow), most)
	if err != nil {
		return 0, fmt.Errorf("count the ready rows of flow %s: %w", flow, err)
	}
	return n, nil
}
