package sqlite

import (
	"context"
	"fmt"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// misplaced go through a client's ready rows. Those of shards that are no more come
// first, for each of them is misplaced: to take shards away does not read what stays
// where it is over and over.
var misplaced = []string{
	`SELECT id, entity, key, shard FROM jobs INDEXED BY jobs_due WHERE client = ?1 AND state = 'ready' AND shard >= ?2`,
	`SELECT id, entity, key, shard FROM jobs INDEXED BY jobs_due WHERE client = ?1 AND state = 'ready' AND shard < ?2`,
}

// Reshard implements jobs.Tx.
func (t *tx) Reshard(ctx context.Context, client string, shards, limit int) (int, error) {
	type move struct{ row, shard int64 }
	var moves []move
	some := int64(max(shards, 1))
	for _, sql := range misplaced {
		if len(moves) >= limit {
			break
		}
		err := t.query(ctx, sql, []any{id(client), some}, func(v row) error {
			var in stored.ReadIDs
			to := int64(jobs.ShardOf(jobs.EntityKey{Entity: in.ID(v.text(1)), Key: in.ID(v.text(2))}, shards))
			if in.Err != nil {
				return in.Err
			}
			if to != v.int(3) {
				moves = append(moves, move{v.int(0), to})
			}
			if len(moves) >= limit {
				return errEnough
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("find the rows of client %s that are of another shard: %w", client, err)
		}
	}
	for _, m := range moves {
		if _, err := t.exec(ctx, `UPDATE jobs SET shard = ?2 WHERE id = ?1`, m.row, m.shard); err != nil {
			return 0, fmt.Errorf("give rows of client %s to another shard: %w", client, err)
		}
	}
	return len(moves), nil
}

// CountReady implements jobs.Tx.
func (t *tx) CountReady(ctx context.Context, flow string, most int) (n int, err error) {
	err = t.query(ctx, countReady, []any{id(flow), int64(most)}, func(v row) error {
		n = int(v.int(0))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count the ready rows of flow %s: %w", flow, err)
	}
	return n, nil
}

// countReady goes through the ready rows of all flows, but only through their index.
const countReady = `SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_due WHERE state = 'ready' AND flow = ?1 LIMIT ?2)`
