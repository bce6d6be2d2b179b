package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

const runColumns = `kind, flow, client, settings, total, done, failed, after_flow, after_key, at, ended_at, asked_by, why, message`

func runArgs(r *jobs.Run) []any {
	var settings any
	if r.Settings != nil {
		settings = id(string(r.Settings))
	}
	return []any{stored.Message(r.Kind), id(r.Flow), id(r.Client), settings, r.Total, r.Done, r.Failed,
		id(r.After.Flow), id(r.After.Key), stamp(r.At), stamp(r.EndedAt), stored.Message(r.By), stored.Message(r.Why), stored.Message(r.Message)}
}

// readRun reads runColumns and, behind them, the id.
func readRun(v row) (jobs.Run, error) {
	var in stored.ReadIDs
	r := jobs.Run{Kind: v.text(0), Flow: in.ID(v.text(1)), Client: in.ID(v.text(2)), Total: v.int(4), Done: v.int(5), Failed: v.int(6),
		After: jobs.RowID{Flow: in.ID(v.text(7)), Key: in.ID(v.text(8))}, At: v.time(9), EndedAt: v.time(10),
		By: v.text(11), Why: v.text(12), Message: v.text(13), ID: v.int(14)}
	if v[3] != nil {
		r.Settings = json.RawMessage(in.ID(v.text(3)))
	}
	return r, in.Err
}

// AddRun implements jobs.Tx.
func (t *tx) AddRun(ctx context.Context, r jobs.Run) (number int64, err error) {
	_, err = t.exec(ctx, `INSERT INTO runs (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, runArgs(&r)...)
	if err == nil {
		err = t.query(ctx, `SELECT last_insert_rowid()`, nil, func(v row) error { number = v.int(0); return nil })
	}
	if err != nil {
		return 0, fmt.Errorf("store an errand to %s: %w", r.Kind, err)
	}
	return number, nil
}

// PutRun implements jobs.Tx.
func (t *tx) PutRun(ctx context.Context, r jobs.Run) error {
	_, err := t.exec(ctx, `UPDATE runs SET (`+runColumns+`) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?`, append(runArgs(&r), r.ID)...)
	if err != nil {
		return fmt.Errorf("store how far errand %d has come: %w", r.ID, err)
	}
	return nil
}

const (
	allRuns  = `SELECT ` + runColumns + `, id FROM runs ORDER BY id DESC LIMIT ?`
	openRuns = `SELECT ` + runColumns + `, id FROM runs WHERE ended_at IS NULL ORDER BY id DESC LIMIT ?`
)

// Runs implements jobs.Tx.
func (t *tx) Runs(ctx context.Context, open bool, limit int) (out []jobs.Run, err error) {
	sql := allRuns
	if open {
		sql = openRuns
	}
	err = t.query(ctx, sql, []any{int64(limit)}, func(v row) error {
		r, err := readRun(v)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the errands: %w", err)
	}
	return out, nil
}

// RunFlows implements jobs.Tx.
func (t *tx) RunFlows(ctx context.Context, kind string) (out []string, err error) {
	err = t.query(ctx, `SELECT DISTINCT flow FROM runs WHERE ended_at IS NULL AND kind = ?`, []any{stored.Message(kind)}, func(v row) error {
		var in stored.ReadIDs
		out = append(out, in.ID(v.text(0)))
		return in.Err
	})
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
	if _, err := t.exec(ctx, `DELETE FROM runs WHERE id IN (SELECT value FROM json_each(?))`, numbers(ids)); err != nil {
		return fmt.Errorf("remove %d errands: %w", len(ids), err)
	}
	return nil
}
