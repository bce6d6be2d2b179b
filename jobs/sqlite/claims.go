package sqlite

import (
	"context"
	"fmt"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddClaim implements jobs.Tx.
func (t *tx) AddClaim(ctx context.Context, c jobs.Claim) error {
	names, err := stored.ClaimedJobs(c.Jobs)
	if err == nil {
		_, err = t.exec(ctx, `INSERT INTO claims (id, client, shard, owner, at, open, jobs) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			id(c.ID), id(c.Client), int64(c.Shard), id(c.Owner), stamp(c.At), int64(c.Open), names)
	}
	if err != nil {
		return fmt.Errorf("store claim %s of client %s: %w", c.ID, c.Client, err)
	}
	return nil
}

// Claims implements jobs.Tx.
func (t *tx) Claims(ctx context.Context, client string) (out []jobs.Claim, err error) {
	sql, args := `SELECT id, client, owner, at, open, jobs, shard FROM claims`, []any(nil)
	if client != "" {
		sql, args = sql+` WHERE client = ?`, []any{id(client)}
	}
	err = t.query(ctx, sql, args, func(v row) error {
		var in stored.ReadIDs
		c := jobs.Claim{ID: in.ID(v.text(0)), Client: in.ID(v.text(1)), Owner: in.ID(v.text(2)), At: v.time(3), Open: int(v.int(4)),
			Shard: int(v.int(6))}
		names, err := stored.ParseClaimedJobs(v.blob(5))
		if err != nil {
			return fmt.Errorf("claim %s: %w", c.ID, err)
		}
		c.Jobs = names
		out = append(out, c)
		return in.Err
	})
	if err != nil {
		return nil, fmt.Errorf("read the open claims: %w", err)
	}
	return out, nil
}

// ReduceClaim implements jobs.Tx.
func (t *tx) ReduceClaim(ctx context.Context, claim, owner string, n int) (bool, error) {
	found, err := t.exec(ctx, `UPDATE claims SET open = open - ?3 WHERE id = ?1 AND owner = ?2`, id(claim), id(owner), int64(n))
	if err == nil && found > 0 {
		_, err = t.exec(ctx, `DELETE FROM claims WHERE id = ?1 AND owner = ?2 AND open <= 0`, id(claim), id(owner))
	}
	if err != nil {
		return false, fmt.Errorf("take %d jobs off claim %s: %w", n, claim, err)
	}
	return found > 0, nil
}
