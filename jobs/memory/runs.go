package memory

import (
	"context"
	"slices"

	"syncd/jobs"
)

// AddRun implements jobs.Tx.
func (t *tx) AddRun(_ context.Context, r jobs.Run) (int64, error) {
	if err := t.writes(); err != nil {
		return 0, err
	}
	t.s.lastRun++
	r.ID = int64(t.s.lastRun)
	t.s.runs.put(t.edit, t.s.lastRun, runIn(r))
	return r.ID, nil
}

// PutRun implements jobs.Tx.
func (t *tx) PutRun(_ context.Context, r jobs.Run) error {
	if err := t.writes(); err != nil {
		return err
	}
	if _, ok := t.s.runs.get(number(r.ID)); ok {
		t.s.runs.put(t.edit, number(r.ID), runIn(r))
	}
	return nil
}

// Runs implements jobs.Tx.
func (t *tx) Runs(_ context.Context, open bool, limit int) ([]jobs.Run, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Run
	for _, r := range t.s.runs.backwards() {
		if len(out) >= limit {
			break
		}
		if !open || r.EndedAt.IsZero() {
			out = append(out, runOut(r))
		}
	}
	return out, nil
}

// RunFlows implements jobs.Tx.
func (t *tx) RunFlows(_ context.Context, kind string) ([]string, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []string
	for _, r := range t.s.runs.backwards() {
		if r.Kind == kind && r.EndedAt.IsZero() && !slices.Contains(out, r.Flow) {
			out = append(out, r.Flow)
		}
	}
	return out, nil
}

// DeleteRuns implements jobs.Tx.
func (t *tx) DeleteRuns(_ context.Context, ids []int64) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, n := range ids {
		t.s.runs.remove(t.edit, number(n))
	}
	return nil
}
