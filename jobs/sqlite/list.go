package sqlite

import (
	"context"
	"fmt"
	"strings"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// defaultLimit is the length of a listing that asks for none.
const defaultLimit = 100

// List implements jobs.Tx.
func (t *tx) List(ctx context.Context, f jobs.Filter) (out []jobs.Row, err error) {
	var where []string
	var args []any
	add := func(cond string, vs ...any) {
		where, args = append(where, cond), append(args, vs...)
	}
	if f.Flow != "" {
		add(`j.flow = ?`, id(f.Flow))
	}
	if f.State != "" {
		add(`j.state = ?`, string(f.State))
	}
	if f.State == jobs.Dead || f.State == jobs.Held {
		// Spelt out once more as the predicate of the index over such rows.
		add(`j.state IN ('dead', 'held')`)
	}
	if f.Class != "" {
		add(`j.last_class = ?`, f.Class)
	}
	if f.Reason != "" {
		add(`j.reason = ?`, string(f.Reason))
	}
	if len(f.Keys) > 0 {
		add(`j.key IN (SELECT value FROM json_each(?))`, list(stored.Strings(f.Keys)))
	}
	if f.Unresolved {
		add(`j.unresolved_at IS NOT NULL`)
	}
	if f.Contended {
		add(`(j.flow, j.key) IN (SELECT flow, key FROM contenders)`)
	}
	if f.SourceID != "" {
		add(`j.source_id = ?`, id(f.SourceID))
	}
	if !f.Before.IsZero() {
		add(`(j.last_at IS NULL OR j.last_at < ?)`, f.Before.UnixMicro())
	}
	if !f.Since.IsZero() {
		add(`j.last_at >= ?`, f.Since.UnixMicro())
	}
	if f.After != (jobs.RowID{}) {
		add(`(j.flow, j.key) > (?, ?)`, id(f.After.Flow), id(f.After.Key))
	}
	sql := "SELECT " + t.sql.columns + " FROM jobs j"
	if f.Bodies {
		// CROSS JOIN keeps the rows' order without sorting them.
		sql = "SELECT " + t.sql.columns + ", b.body FROM jobs j CROSS JOIN bodies b ON b.id = j.id"
	}
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	limit := f.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	err = t.query(ctx, sql+" ORDER BY j.flow, j.key LIMIT ?", append(args, int64(limit)), func(v row) error {
		r, err := readRow(v)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	return out, nil
}

// Destinations implements jobs.Tx.
func (t *tx) Destinations(ctx context.Context, flow string) (out []jobs.Destination, err error) {
	err = t.query(ctx, `SELECT DISTINCT client, entity FROM jobs WHERE flow = ? ORDER BY client, entity`, []any{id(flow)}, func(v row) error {
		var in stored.ReadIDs
		out = append(out, jobs.Destination{Client: in.ID(v.text(0)), Entity: in.ID(v.text(1))})
		return in.Err
	})
	if err != nil {
		return nil, fmt.Errorf("read where the rows of flow %s are written: %w", flow, err)
	}
	return out, nil
}

// Meta implements jobs.Tx.
func (t *tx) Meta(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	err := t.query(ctx, `SELECT name, value FROM meta UNION ALL SELECT 'schema', CAST(max(version_id) AS TEXT) FROM goose_db_version`,
		nil, func(v row) error {
			out[v.text(0)] = v.text(1)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the journal's own facts: %w", err)
	}
	return out, nil
}

// PutMeta implements jobs.Tx.
func (t *tx) PutMeta(ctx context.Context, name, value string) error {
	_, err := t.exec(ctx, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	if err != nil {
		return fmt.Errorf("write the journal's own fact %s: %w", name, err)
	}
	return nil
}
