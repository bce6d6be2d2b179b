package memory

import (
	"context"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// defaultLimit is the length of a listing that asks for none.
const defaultLimit = 100

// List implements jobs.Tx.
func (t *tx) List(_ context.Context, f jobs.Filter) ([]jobs.Row, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	after := rowKey(f.After)
	first := after
	if flow := id(f.Flow); first[0] < flow {
		first = pair{flow}
	}
	limit := f.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	var out []jobs.Row
	for k, r := range t.s.rows.from(first) {
		if f.Flow != "" && r.Flow != f.Flow || len(out) >= limit {
			break
		}
		if t.matches(r, &f) && (f.After == jobs.RowID{} || k.compare(after) > 0) {
			out = append(out, rowOut(r, f.Bodies))
		}
	}
	return out, nil
}

func (t *tx) matches(r *jobs.Row, f *jobs.Filter) bool {
	return (f.State == "" || r.State == f.State) &&
		(f.Class == "" || r.LastClass == connectors.Class(f.Class)) &&
		(f.Reason == "" || r.Reason == f.Reason) &&
		(len(f.Keys) == 0 || slices.Contains(f.Keys, r.Key)) &&
		(!f.Unresolved || r.Unresolved()) &&
		(f.SourceID == "" || r.SourceID == f.SourceID) &&
		(f.Before.IsZero() || r.LastAt.Before(moment(f.Before))) &&
		(f.Since.IsZero() || !r.LastAt.Before(moment(f.Since))) &&
		(!f.Bodies || r.Body != nil) &&
		(!f.Contended || len(t.contendersFor(r.RowID)) > 0)
}

// Destinations implements jobs.Tx.
func (t *tx) Destinations(_ context.Context, flow string) ([]jobs.Destination, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var found tree[pair, jobs.Destination]
	for _, r := range t.s.rows.from(pair{id(flow)}) {
		if r.Flow != flow {
			break
		}
		found.put(0, pair{id(r.Client), id(r.Entity)}, jobs.Destination{Client: r.Client, Entity: r.Entity})
	}
	return among(&found, pair{}, all, same), nil
}

// Counts implements jobs.Tx.
func (t *tx) Counts(_ context.Context, now time.Time) ([]jobs.Count, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var groups tree[quad, *jobs.Count]
	for at, r := range t.s.rows.from(pair{}) {
		class := string(r.LastClass)
		if r.State == jobs.Done && r.Reason == jobs.ReasonNone {
			class = ""
		}
		k := quad{at[0], string(r.State), string(r.Reason), class}
		c, ok := groups.get(k)
		if !ok {
			c = &jobs.Count{Flow: r.Flow, State: r.State, Reason: r.Reason, Class: class}
			groups.put(0, k, c)
		}
		count(c, r, now)
	}
	var out []jobs.Count
	for _, c := range groups.from(quad{}) {
		out = append(out, *c)
	}
	return out, nil
}

func count(c *jobs.Count, r *jobs.Row, now time.Time) {
	c.N++
	if r.Unresolved() {
		c.Unresolved++
	}
	if r.State == jobs.Done {
		return
	}
	c.OldestOpen, c.OldestDue = earlier(c.OldestOpen, r.OpenSince), earlier(c.OldestDue, r.DueAt)
	if r.State == jobs.Ready && !r.DueAt.After(now) {
		c.Due++
	}
}

// earlier is the earlier of two times, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Meta implements jobs.Tx.
func (t *tx) Meta(context.Context) (map[string]string, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, value := range t.s.meta.from("") {
		out[string(name)] = value
	}
	return out, nil
}

// PutMeta implements jobs.Tx.
func (t *tx) PutMeta(_ context.Context, name, value string) error {
	if err := t.writes(); err != nil {
		return err
	}
	t.s.meta.put(t.edit, text(name), value)
	return nil
}
