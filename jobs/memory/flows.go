package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// LockFlow implements jobs.Tx. The one who writes holds every flow.
func (t *tx) LockFlow(_ context.Context, flow string) (jobs.FlowState, error) {
	if err := t.reads(); err != nil {
		return jobs.FlowState{Flow: flow}, err
	}
	s, ok := t.s.flows.get(text(id(flow)))
	if !ok {
		s = jobs.FlowState{Flow: flow}
		if t.write {
			t.s.flows.put(t.edit, text(id(flow)), s)
		}
	}
	return flowOut(s), nil
}

// SaveFlow implements jobs.Tx.
func (t *tx) SaveFlow(_ context.Context, s jobs.FlowState) error {
	if err := t.writes(); err != nil {
		return err
	}
	t.s.flows.put(t.edit, text(id(s.Flow)), flowIn(s))
	return nil
}

// Flows implements jobs.Tx.
func (t *tx) Flows(context.Context) ([]jobs.FlowState, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	return among(&t.s.flows, "", all, flowOut), nil
}

func all[K any](K) bool { return true }

// Sources implements jobs.Tx.
func (t *tx) Sources(_ context.Context, flow string, ids []string) ([]jobs.SourceRecord, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.SourceRecord
	for _, s := range stored.Strings(ids) {
		if r, ok := t.s.sources.get(pair{id(flow), id(s)}); ok {
			out = append(out, sourceOut(r))
		}
	}
	return out, nil
}

// PutSources implements jobs.Tx.
func (t *tx) PutSources(_ context.Context, flow string, rs []jobs.SourceRecord) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, r := range rs {
		if err := stored.Fit(r.ID); err != nil {
			return t.fail(err, "store source record %s of flow %s", r.ID, flow)
		}
		t.s.sources.put(t.edit, pair{id(flow), id(r.ID)}, sourceIn(r))
	}
	return nil
}

// contendersFor returns the contenders for one key, in the order of their ids.
func (t *tx) contendersFor(r jobs.RowID) []jobs.Contender {
	k := rowKey(r)
	return among(&t.s.contenders, triple{k[0], k[1]}, func(c triple) bool { return pair{c[0], c[1]} == k }, contenderOut)
}

// Contenders implements jobs.Tx.
func (t *tx) Contenders(_ context.Context, flow string, keys []string) ([]jobs.Contender, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Contender
	for _, k := range stored.Strings(keys) {
		out = append(out, t.contendersFor(jobs.RowID{Flow: flow, Key: k})...)
	}
	slices.SortStableFunc(out, func(a, b jobs.Contender) int { return a.Since.Compare(b.Since) })
	return out, nil
}

// PutContender implements jobs.Tx.
func (t *tx) PutContender(_ context.Context, c jobs.Contender) error {
	if err := t.writes(); err != nil {
		return err
	}
	err := stored.Fit(c.Key, c.SourceID)
	if n := len(c.Body); n > stored.MaxBody {
		err = cmp.Or(err, fmt.Errorf("%w: it has %d bytes", stored.ErrTooLarge, n))
	}
	if err != nil {
		return t.fail(err, "store contender %s for %s", c.SourceID, c.RowID)
	}
	t.s.contenders.put(t.edit, triple{id(c.Flow), id(c.Key), id(c.SourceID)}, contenderIn(c))
	return nil
}

// DeleteContender implements jobs.Tx.
func (t *tx) DeleteContender(_ context.Context, r jobs.RowID, sourceID string) error {
	if err := t.writes(); err != nil {
		return err
	}
	t.s.contenders.remove(t.edit, triple{id(r.Flow), id(r.Key), id(sourceID)})
	return nil
}

// CountContenders implements jobs.Tx.
func (t *tx) CountContenders(context.Context) (map[string]int, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, c := range t.s.contenders.from(triple{}) {
		out[c.Flow]++
	}
	return out, nil
}
