package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/mapping"
)

// sent looks at a request on its way: its daemon must have the lane (one owner), and
// nothing that it knows of may have paused the client.
func (w *world) sent(c *client, what, key string) {
	n := c.n
	if time.Now().Before(c.asked) && !w.jumps {
		w.st.violation("I7: %s is about to %s %s, and %s has asked it for a pause", n.name, what, key, c.hold.Client)
	}
	err := w.engine.View(w.st.nobody(), func(tx jobs.Tx) error {
		cs, err := tx.Clients(w.st.nobody())
		for _, s := range cs {
			if s.Client == c.hold.Client && held(s, w.engine.Now()) && !w.jumps && w.pauses[s.Client] < c.heard {
				w.st.violation("I7: %s is about to %s %s, and the client is paused (%s)", n.name, what, key, s.Reason)
			}
		}
		if err != nil || w.jumps {
			return err // a lease may lapse early; what it wrote is fenced all the same
		}
		ls, err := tx.Leases(w.st.nobody())
		i := slices.IndexFunc(ls, func(l jobs.Lease) bool { return l.LaneID == c.hold.LaneID })
		if err == nil && (i < 0 || ls[i].Token != c.hold.Token) {
			w.st.violation("I6: %s is about to %s %s, and lane %s is another daemon's", n.name, what, key, c.hold.LaneID)
		}
		return err
	})
	if err != nil {
		w.st.violation("the leases cannot be read: %v", err)
	}
}

// settled looks at an outcome that was stored.
func (w *world) settled(n *node, s jobs.Settled) {
	// Where its record has another key by now, the row of the old one is over, and what
	// became of the attempt is the other row's.
	moved := s.State == jobs.Done && w.flows[s.Flow].kind == renaming
	if s.Class == connectors.Throttled && s.State != jobs.Ready && !moved {
		w.st.violation("I8: a throttled job is %s: %s", s.State, s.RowID)
	}
	if s.Suspended.Is() {
		w.st.seen("a flow is suspended")
	}
	if s.Reason != jobs.ReasonNone {
		w.st.seen("reason: " + string(s.Reason))
	}
}

// atWork checks that whatever may be in doubt is marked so (unknown is not failed): a
// write that is still to take effect in the target belongs to a row in doubt, or to
// one that is being written.
func (w *world) atWork() {
	var byID map[jobs.RowID]*jobs.Row
	var running map[jobs.RowID]bool
	for name, f := range w.flows {
		if f.e.Info().Guarded || f.kind == renaming {
			continue // a later write that was confirmed makes an earlier one harmless; the doubt moves with the key
		}
		for _, key := range f.e.Pending() {
			if byID == nil {
				byID = map[jobs.RowID]*jobs.Row{}
				rows, r, err := w.beside.List(w.st.nobody(), jobs.Filter{Limit: 1000})
				if err != nil {
					w.st.violation("listing failed: %v", err)
					return
				}
				for i := range rows {
					byID[rows[i].RowID] = &rows[i]
				}
				running = r
			}
			id := jobs.RowID{Flow: name, Key: key}
			if r := byID[id]; r == nil || !running[id] && !r.Unresolved() {
				w.st.violation("I4: a write of %s is at work in the target, and its row is not in doubt", id)
			}
		}
	}
}

// quiet reports whether nothing is left to do.
func (w *world) quiet() bool {
	if w.errand != "" {
		return false
	}
	for _, f := range w.sortedFlows() {
		fs, err := w.beside.Cursor(w.st.nobody(), f.Name)
		if err != nil || string(fs.Cursor) != itoa(len(w.source.log)) && len(w.source.log) > 0 {
			return false
		}
	}
	rows, running, err := w.beside.List(w.st.nobody(), jobs.Filter{Limit: 1000})
	if err != nil || len(running) > 0 {
		return false
	}
	return !slices.ContainsFunc(rows, func(r jobs.Row) bool { return r.State != jobs.Done && !w.over(&r) })
}

// over reports whether a row was too old to be sent, and its record is gone by now: it
// is visible as such, and nothing is left to be done.
func (w *world) over(r *jobs.Row) bool {
	x := w.source.newest[strings.TrimPrefix(r.Key, "K")]
	return r.State == jobs.Dead && r.Reason == jobs.ReasonExpired && r.SourceID == "" && (x == nil || x.gone)
}

// judge holds the target against the source.
func (w *world) judge() {
	w.land()
	w.tellRows()
	for _, f := range w.sortedFlows() {
		if f.kind == events {
			f.judgeEvents()
		} else {
			f.judgeRecords()
		}
		guarded := f.e.Info().Guarded
		for _, x := range f.e.Effects() {
			// An unguarded target may hold an older state for a while where a clock jumped.
			if x.Back && (guarded || !w.jumps) {
				w.st.violation("I3: an older state was written over a newer one: %s %+v", f.Name, x)
			}
		}
		if n := f.e.Mismatches(); n > 0 {
			w.st.violation("I5: %d times other bytes were sent under a key of %s", n, f.Name)
		}
	}
}

// judgeRecords holds each record against its newest state.
func (f *flow) judgeRecords() {
	want := map[string]*state{}
	for _, x := range f.w.source.newest {
		if !x.gone {
			want[f.key(x)] = x
		}
	}
	seen := map[string]bool{}
	for _, x := range f.w.source.past {
		key := f.key(x)
		if seen[key] {
			continue
		}
		seen[key] = true
		if n := f.e.MostAtOnce(key); n > 1 {
			f.w.st.violation("I1: %d records of %s %s stood at once", n, f.Name, key)
		}
		f.one(key, want[key])
	}
}

// one checks one record of a flow, which should be as in x; nil for one that should
// not be there.
func (f *flow) one(key string, x *state) {
	st := f.w.st
	rs := f.e.Records(key)
	if x == nil {
		// One that came about after the backup of its source, nobody has told to be gone.
		if f.OnDelete == "delete" && len(rs) > 0 && f.w.source.epoch == 0 {
			st.violation("I2: %s %s is gone at the source and stands in the target", f.Name, key)
		}
		return
	}
	want := f.linked(f.body(x, f.w.settings))
	switch {
	case len(rs) != 1:
		st.violation("I2: the target has %d records of %s %s", len(rs), f.Name, key)
	case rs[0].Body != want && slices.ContainsFunc(f.e.Effects(), func(e faketarget.Effect) bool {
		return e.Key == key && e.Body == want && e.Stamp.Version == x.version && e.Stamp.Epoch == x.epoch
	}):
		st.violation("I3: %s %s stood as %s, and went back to %s", f.Name, key, want, rs[0].Body)
	case rs[0].Body != want:
		st.violation("I2: %s %s is %s, want %s", f.Name, key, rs[0].Body, want)
	}
}

// linked is a record as it should stand, with the ids of what it refers to.
func (f *flow) linked(body []byte) string {
	if f.refers == "" {
		return string(body)
	}
	out, missing, err := mapping.ResolveRefs(body, func(r mapping.Ref) (json.RawMessage, bool) {
		rs := f.w.flows[r.Entity].e.Records(r.Key)
		if len(rs) == 0 {
			return nil, false
		}
		return json.RawMessage(rs[0].Link()), true
	})
	if err != nil || len(missing) > 0 {
		f.w.st.violation("I2: what %s refers to is not there: %v", body, err)
	}
	return string(out)
}

// judgeEvents looks whether each event was written once.
func (f *flow) judgeEvents() {
	for _, x := range f.w.source.log {
		if x.epoch > 0 && x.seq > 0 && f.w.source.epoch > x.epoch {
			continue
		}
		rs := f.e.Records(f.key(x))
		switch {
		case len(rs) != 1:
			f.w.st.violation("I2: the target has %d records of event %s of %s", len(rs), f.key(x), f.Name)
		case rs[0].Body != string(f.body(x, 0)):
			f.w.st.violation("I2: event %s of %s is %s, want %s", f.key(x), f.Name, rs[0].Body, f.body(x, 0))
		}
	}
	for _, x := range f.w.source.past {
		if n := f.e.MostAtOnce(f.key(x)); n > 1 {
			f.w.st.violation("I1: event %s of %s stood %d times", f.key(x), f.Name, n)
		}
	}
	f.inOrder()
}

// inOrder looks whether the events of each group took effect in their order.
func (f *flow) inOrder() {
	of := map[string]*state{}
	for _, x := range f.w.source.past {
		of[f.key(x)] = x
	}
	last := map[string]*state{}
	done := map[string]bool{}
	for _, e := range f.e.Effects() {
		x := of[e.Key]
		if x == nil || done[e.Key] {
			continue
		}
		done[e.Key] = true
		if f.freed[e.Key] {
			continue // a person had it written although its turn was over
		}
		if l := last[x.id]; l != nil && (x.born < l.born || x.born == l.born && x.seq < l.seq) {
			f.w.st.violation("I3: event %s of %s was written after %s of its group", e.Key, f.Name, f.key(l))
		}
		last[x.id] = x
	}
}

// replayed notes that a person has a dead event written. Where its group went on
// without it, its place in the order is over.
func (f *flow) replayed(r *jobs.Row) {
	if f.OnDead == "skip" || r.Reason == jobs.ReasonLate {
		if f.freed == nil {
			f.freed = map[string]bool{}
		}
		f.freed[r.Key] = true
	}
}

// tellRows tells of all rows, where the history is to be seen.
func (w *world) tellRows() {
	if w.st.trace == nil {
		return
	}
	rows, _, err := w.beside.List(w.st.nobody(), jobs.Filter{Limit: 1000})
	w.st.note(fmt.Sprintf("%d rows, %v", len(rows), err))
	for _, r := range rows {
		w.st.note(fmt.Sprintf("%s of %q: %s %s, generation %d, version %d, gone %v, applied %d (gone %v), last %s %s", r.RowID, r.SourceID, r.State, r.Reason,
			r.Generation, r.Desired.Version, r.Gone, r.AppliedGeneration, r.AppliedGone, r.LastClass, r.LastCode))
	}
}

// open names what is left to do.
func (w *world) open() string {
	rows, running, err := w.beside.List(w.st.nobody(), jobs.Filter{Limit: 1000})
	if err != nil {
		return err.Error()
	}
	var out []string
	if w.errand != "" {
		out = append(out, "errand "+w.errand)
	}
	for _, r := range rows {
		if r.State != jobs.Done || running[r.RowID] {
			out = append(out, fmt.Sprintf("%s is %s %s (running %v, shard %d, due %s, in doubt %v, last %s %s %s, waits for %s %s)", r.RowID, r.State, r.Reason, running[r.RowID], r.Shard,
				r.DueAt.Format("04:05.000"), r.Unresolved(), r.LastClass, r.LastCode, r.LastMessage, r.WaitEntity, r.WaitKey))
		}
	}
	return strings.Join(out, "; ")
}
