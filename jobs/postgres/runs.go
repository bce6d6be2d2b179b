package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

func runArgs(r *jobs.Run) []any {
	var settings *string
	if r.Settings != nil {
		text := stored.ID(string(r.Settings))
		settings = &text
	}
	return []any{stored.ID(r.Kind), stored.ID(r.Flow), stored.ID(r.Client), settings, r.Total, r.Done, r.Failed,
		stored.ID(r.After.Flow), stored.ID(r.After.Key), stamp(r.At), stamp(r.EndedAt),
		stored.Message(r.By), stored.Message(r.Why), stored.Message(r.Message)}
}

// AddRun implements jobs.Tx.
func (t *tx) AddRun(ctx context.Context, r jobs.Run) (id int64, err error) {
	if err = t.hold(ctx); err == nil {
		err = t.query(ctx, func(rows pgx.Rows) error { return rows.Scan(&id) }, t.q.runAdd, runArgs(&r)...)
	}
	if err != nil {
		return 0, fmt.Errorf("store an errand of kind %s: %w", r.Kind, err)
	}
	return id, nil
}

// PutRun implements jobs.Tx.
func (t *tx) PutRun(ctx context.Context, r jobs.Run) error {
	if _, err := t.exec(ctx, t.q.runPut, append(runArgs(&r), r.ID)...); err != nil {
		return fmt.Errorf("store how far errand %d has come: %w", r.ID, err)
	}
	return nil
}

// Runs implements jobs.Tx.
func (t *tx) Runs(ctx context.Context, open bool, limit int) (out []jobs.Run, err error) {
	sql := t.q.runs
	if open {
		sql = t.q.runsOpen
	}
	if t.write {
		sql += held
	}
	err = t.query(ctx, func(rows pgx.Rows) error {
		var r jobs.Run
		var settings *string
		var at, ended pgtype.Timestamptz
		if err := rows.Scan(&r.ID, &r.Kind, &r.Flow, &r.Client, &settings, &r.Total, &r.Done, &r.Failed,
			&r.After.Flow, &r.After.Key, &at, &ended, &r.By, &r.Why, &r.Message); err != nil {
			return err
		}
		var in stored.ReadIDs
		r.Kind, r.Flow, r.Client = in.ID(r.Kind), in.ID(r.Flow), in.ID(r.Client)
		r.After = jobs.RowID{Flow: in.ID(r.After.Flow), Key: in.ID(r.After.Key)}
		r.At, r.EndedAt = moment(at), moment(ended)
		if settings != nil {
			r.Settings = json.RawMessage(in.ID(*settings))
		}
		out = append(out, r)
		return in.Err
	}, sql, limit)
	if err != nil {
		return nil, fmt.Errorf("read the errands: %w", err)
	}
	return out, nil
}

// RunFlows implements jobs.Tx.
func (t *tx) RunFlows(ctx context.Context, kind string) (out []string, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var flow string
		if err := rows.Scan(&flow); err != nil {
			return err
		}
		flow, err := stored.ParseID(flow)
		out = append(out, flow)
		return err
	}, t.q.runFlows, stored.ID(kind))
	if err != nil {
		return nil, fmt.Errorf("read for which flows errands to %s go on: %w", kind, err)
	}
	return out, nil
}

// DeleteRuns implements jobs.Tx.
func (t *tx) DeleteRuns(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, t.q.runsDelete, ids); err != nil {
		return fmt.Errorf("remove %d errands: %w", len(ids), err)
	}
	return nil
}
