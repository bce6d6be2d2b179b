package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddClaim implements jobs.Tx.
func (t *tx) AddClaim(ctx context.Context, c jobs.Claim) error {
	names, err := stored.ClaimedJobs(c.Jobs)
	if err == nil {
		_, err = t.exec(ctx, t.q.claimAdd, stored.ID(c.ID), stored.ID(c.Client), stored.ID(c.Owner), stamp(c.At), int64(c.Open), names, int32(c.Shard))
	}
	if err != nil {
		return fmt.Errorf("store claim %s of client %s: %w", c.ID, c.Client, err)
	}
	return nil
}

// Claims implements jobs.Tx.
func (t *tx) Claims(ctx context.Context, client string) (out []jobs.Claim, err error) {
	sql, args := t.q.claims, []any(nil)
	if client != "" {
		sql, args = sql+` WHERE client = $1`, []any{stored.ID(client)}
	}
	err = t.query(ctx, func(rows pgx.Rows) error {
		var c jobs.Claim
		var at pgtype.Timestamptz
		var names []byte
		if err := rows.Scan(&c.ID, &c.Client, &c.Owner, &at, &c.Open, &names, &c.Shard); err != nil {
			return err
		}
		var in stored.ReadIDs
		c.ID, c.Client, c.Owner, c.At = in.ID(c.ID), in.ID(c.Client), in.ID(c.Owner), moment(at)
		if in.Err != nil {
			return in.Err
		}
		if c.Jobs, err = stored.ParseClaimedJobs(names); err != nil {
			return fmt.Errorf("claim %s: %w", c.ID, err)
		}
		out = append(out, c)
		return nil
	}, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the open claims: %w", err)
	}
	return out, nil
}

// ReduceClaim implements jobs.Tx. The update holds the claim's row, so that of two
// at once the second sees what the first left.
func (t *tx) ReduceClaim(ctx context.Context, id, owner string, n int) (bool, error) {
	id, owner = stored.ID(id), stored.ID(owner)
	touched, err := t.send(ctx, statement{t.q.claimReduce, []any{id, owner, int64(n)}}, statement{t.q.claimEnd, []any{id, owner}})
	if err != nil {
		return false, fmt.Errorf("take %d jobs off claim %s: %w", n, id, err)
	}
	return touched[0] > 0, nil
}

// Links implements jobs.Tx.
func (t *tx) Links(ctx context.Context, client string, keys []jobs.EntityKey) (out []jobs.Link, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	entities, ks := entityArgs(stored.EntityKeys(keys))
	if out, err = t.readLinks(ctx, t.q.links, stored.ID(client), entities, ks); err != nil {
		return nil, fmt.Errorf("read %d links of client %s: %w", len(keys), client, err)
	}
	return out, nil
}

func (t *tx) readLinks(ctx context.Context, sql string, args ...any) (out []jobs.Link, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var l jobs.Link
		var seen pgtype.Timestamptz
		if err := rows.Scan(&l.Entity, &l.Key, &l.Link, &seen); err != nil {
			return err
		}
		var in stored.ReadIDs
		l.Entity, l.Key, l.Link, l.SeenAt = in.ID(l.Entity), in.ID(l.Key), in.ID(l.Link), moment(seen)
		out = append(out, l)
		return in.Err
	}, sql, args...)
	return out, err
}

// PutLinks implements jobs.Tx.
func (t *tx) PutLinks(ctx context.Context, client string, ls []jobs.Link) error {
	if len(ls) == 0 {
		return nil
	}
	ls = stored.Links(ls)
	for i := range ls {
		if err := stored.Fit(ls[i].Key); err != nil {
			return fmt.Errorf("store a link of client %s: %w", client, err)
		}
	}
	_, err := t.exec(ctx, t.q.linksPut, stored.ID(client),
		column(ls, func(l *jobs.Link) string { return stored.ID(l.Entity) }),
		column(ls, func(l *jobs.Link) string { return stored.ID(l.Key) }),
		column(ls, func(l *jobs.Link) string { return stored.ID(l.Link) }),
		column(ls, func(l *jobs.Link) pgtype.Timestamptz { return stamp(l.SeenAt) }))
	if err != nil {
		return fmt.Errorf("store %d links of client %s: %w", len(ls), client, err)
	}
	return nil
}

// DeleteLinks implements jobs.Tx.
func (t *tx) DeleteLinks(ctx context.Context, client string, keys []jobs.EntityKey) error {
	if len(keys) == 0 {
		return nil
	}
	entities, ks := entityArgs(stored.EntityKeys(keys))
	if _, err := t.exec(ctx, t.q.linksDelete, stored.ID(client), entities, ks); err != nil {
		return fmt.Errorf("remove %d links of client %s: %w", len(keys), client, err)
	}
	return nil
}
