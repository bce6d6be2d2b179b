package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// defaultLimit is the length of a listing that asks for none.
const defaultLimit = 100

// List implements jobs.Tx.
func (t *tx) List(ctx context.Context, f jobs.Filter) ([]jobs.Row, error) {
	var where []string
	var args []any
	add := func(cond string, vs ...any) {
		for _, v := range vs {
			args = append(args, v)
			cond = strings.Replace(cond, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, cond)
	}
	if f.Flow != "" {
		add(`j.flow = ?`, stored.ID(f.Flow))
	}
	if f.State != "" {
		add(`j.state = ?`, string(f.State))
	}
	if f.State == jobs.Dead || f.State == jobs.Held {
		// Spelt out once more as the predicate of the index over such rows.
		add(`j.state IN ('dead', 'held')`)
	}
	if f.Class != "" {
		add(`j.last_class = ?`, stored.Message(f.Class))
	}
	if f.Reason != "" {
		add(`j.reason = ?`, string(f.Reason))
	}
	if len(f.Keys) > 0 {
		add(`j.key = ANY (?::text[])`, stored.IDs(stored.Strings(f.Keys)))
	}
	if f.Unresolved {
		add(`j.unresolved_at IS NOT NULL`)
	}
	if f.Contended {
		add(`(j.flow, j.key) IN (SELECT flow, key FROM ` + t.q.contended + `)`)
	}
	if f.SourceID != "" {
		add(`j.source_id = ?`, stored.ID(f.SourceID))
	}
	if !f.Before.IsZero() {
		add(`(j.last_at IS NULL OR j.last_at < ?)`, f.Before)
	}
	if !f.Since.IsZero() {
		add(`j.last_at >= ?`, f.Since)
	}
	if f.Bodies {
		// Looked up row by row: as a join it could read all bodies.
		add(`EXISTS (SELECT 1 FROM ` + t.q.bodied + ` b WHERE b.flow = j.flow AND b.key = j.key OFFSET 0)`)
	}
	if f.After != (jobs.RowID{}) {
		add(`(j.flow, j.key) > (?, ?)`, stored.ID(f.After.Flow), stored.ID(f.After.Key))
	}
	sql := "SELECT " + t.q.columns + " FROM " + t.q.jobs + " j"
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	limit := f.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	args = append(args, limit)
	out, err := t.readRows(ctx, sql+fmt.Sprintf(" ORDER BY j.flow, j.key LIMIT $%d", len(args)), maxRoom, args...)
	if err == nil && f.Bodies && len(out) > 0 {
		err = t.addBodies(ctx, out, keyArgs(column(out, func(r *jobs.Row) jobs.RowID { return r.RowID })))
	}
	if err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	return out, nil
}

// Counts implements jobs.Tx.
func (t *tx) Counts(ctx context.Context, now time.Time) (out []jobs.Count, err error) {
	// The one statement that reads the whole table does so in the table's order.
	if _, err := t.p.Exec(ctx, `SET LOCAL enable_seqscan = on`); err != nil {
		return nil, fmt.Errorf("count rows: %w", t.note(err))
	}
	defer func() {
		if _, e := t.p.Exec(ctx, `SET LOCAL enable_seqscan = off`); err == nil && e != nil {
			out, err = nil, fmt.Errorf("count rows: %w", t.note(e))
		}
	}()
	err = t.query(ctx, func(rows pgx.Rows) error {
		var c jobs.Count
		var state, reason string
		var open, dueAt pgtype.Timestamptz
		if err := rows.Scan(&c.Flow, &state, &reason, &c.Class, &c.N, &open, &dueAt, &c.Due, &c.Unresolved); err != nil {
			return err
		}
		var in stored.ReadIDs
		c.Flow, c.State, c.Reason = in.ID(c.Flow), jobs.State(state), jobs.Reason(reason)
		c.OldestOpen, c.OldestDue = moment(open), moment(dueAt)
		out = append(out, c)
		return in.Err
	}, t.q.counts, now)
	if err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	return out, nil
}

// Destinations implements jobs.Tx.
func (t *tx) Destinations(ctx context.Context, flow string) (out []jobs.Destination, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var d jobs.Destination
		if err := rows.Scan(&d.Client, &d.Entity); err != nil {
			return err
		}
		var in stored.ReadIDs
		d.Client, d.Entity = in.ID(d.Client), in.ID(d.Entity)
		out = append(out, d)
		return in.Err
	}, t.q.destinations, stored.ID(flow))
	if err != nil {
		return nil, fmt.Errorf("read where the rows of flow %s are written: %w", flow, err)
	}
	return out, nil
}

// Meta implements jobs.Tx.
func (t *tx) Meta(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	err := t.query(ctx, func(rows pgx.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		out[name] = value
		return nil
	}, t.q.meta)
	if err != nil {
		return nil, fmt.Errorf("read the journal's own facts: %w", err)
	}
	return out, nil
}

// PutMeta implements jobs.Tx.
func (t *tx) PutMeta(ctx context.Context, name, value string) error {
	if _, err := t.exec(ctx, t.q.metaPut, name, value); err != nil {
		return fmt.Errorf("write the journal's own fact %s: %w", name, err)
	}
	return nil
}
