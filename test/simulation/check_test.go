package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// sent looks at a request on its way: its daemon must have the lane (one owner).
func (w *world) sent(n *node, h *jobs.Hold, what, key string) {
	if w.jumps {
		return // a lease may lapse early; what it wrote is fenced all the same
	}
	err := w.engine.View(context.Background(), func(tx jobs.Tx) error {
		ls, err := tx.Leases(context.Background())
		i := slices.IndexFunc(ls, func(l jobs.Lease) bool { return l.LaneID == h.LaneID })
		if err == nil && (i < 0 || ls[i].Token != h.Token) {
			w.st.violation("I6: %s is about to %s %s, and lane %s is another daemon's", n.name, what, key, h.LaneID)
		}
		return err
	})
	if err != nil {
		w.st.violation("the leases cannot be read: %v", err)
	}
}

// settled looks at an outcome that was stored.
func (w *world) settled(n *node, s jobs.Settled) {
	if s.Class == connectors.Throttled && s.State != jobs.Ready {
		w.st.violation("I8: a throttled job is %s: %s", s.State, s.RowID)
	}
}

// atWork checks that whatever may be in doubt is marked so (unknown is not failed): a
// write that is still to take effect in the target belongs to a row in doubt, or to
// one that is being written.
func (w *world) atWork() {
	rows, running, err := w.beside.List(context.Background(), jobs.Filter{Limit: 100})
	if err != nil {
		w.st.violation("listing failed: %v", err)
		return
	}
	byID := map[jobs.RowID]*jobs.Row{}
	for i := range rows {
		byID[rows[i].RowID] = &rows[i]
	}
	for name, e := range w.entities {
		if e.Info().Guarded {
			continue // a later write that was confirmed makes an earlier one harmless
		}
		for _, key := range e.Pending() {
			id := jobs.RowID{Flow: name, Key: key}
			if r := byID[id]; r == nil || !running[id] && !r.Unresolved() {
				w.st.violation("I4: a write of %s is at work in the target, and its row is not in doubt", id)
			}
		}
	}
}

// quiet reports whether nothing is left to do.
func (w *world) quiet() bool {
	for _, f := range w.sortedFlows() {
		fs, err := w.beside.Cursor(context.Background(), f.Name)
		if err != nil || string(fs.Cursor) != itoa(len(w.source.log)) && len(w.source.log) > 0 {
			return false
		}
	}
	rows, running, err := w.beside.List(context.Background(), jobs.Filter{Limit: 100})
	if err != nil || len(running) > 0 {
		return false
	}
	return !slices.ContainsFunc(rows, func(r jobs.Row) bool { return r.State != jobs.Done })
}

// end holds the target against the source.
func (w *world) end() {
	w.land()
	for _, f := range w.sortedFlows() {
		e := w.entities[f.Name]
		for id, it := range w.source.newest {
			w.one(f, e, "K"+id, it)
		}
		guarded := e.Info().Guarded
		for _, x := range e.Effects() {
			// An unguarded target may hold an older state for a while where a clock jumped.
			if x.Back && (guarded || !w.jumps) {
				w.st.violation("I3: an older state was written over a newer one: %s %+v", f.Name, x)
			}
		}
		if n := e.Mismatches(); n > 0 {
			w.st.violation("I5: %d times other bytes were sent under a key of %s", n, f.Name)
		}
	}
}

// one checks one record of a flow.
func (w *world) one(f *jobs.Flow, e *faketarget.Entity, key string, it *jobs.Item) {
	if n := e.MostAtOnce(key); n > 1 {
		w.st.violation("I1: %d records of %s %s stood at once", n, f.Name, key)
	}
	rs := e.Records(key)
	switch {
	case it.Gone && f.OnDelete == "delete" && len(rs) > 0:
		w.st.violation("I2: %s %s is gone at the source and stands in the target", f.Name, key)
	case it.Gone:
	case len(rs) != 1:
		w.st.violation("I2: the target has %d records of %s %s", len(rs), f.Name, key)
	case rs[0].Body != string(it.Pairs[0].Body) && slices.ContainsFunc(e.Effects(), func(x faketarget.Effect) bool {
		return x.Key == key && x.Body == string(it.Pairs[0].Body) && x.Stamp.Version == it.Version
	}):
		w.st.violation("I3: %s %s stood as %s, and went back to %s", f.Name, key, it.Pairs[0].Body, rs[0].Body)
	case rs[0].Body != string(it.Pairs[0].Body):
		w.st.violation("I2: %s %s is %s, want %s", f.Name, key, rs[0].Body, it.Pairs[0].Body)
	}
}

// open names what is left to do.
func (w *world) open() string {
	rows, running, err := w.beside.List(context.Background(), jobs.Filter{Limit: 100})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, r := range rows {
		if r.State != jobs.Done || running[r.RowID] {
			out = append(out, fmt.Sprintf("%s is %s %s (running %v, due %s, in doubt %v, last %s %s %s)", r.RowID, r.State, r.Reason, running[r.RowID],
				r.DueAt.Format("04:05.000"), r.Unresolved(), r.LastClass, r.LastCode, r.LastMessage))
		}
	}
	return strings.Join(out, "; ")
}
