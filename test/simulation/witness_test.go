package simulation

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/process"
	"syncd/jobs"
)

// witness sees what is stored.
type witness struct {
	jobs.Tx
	w *world
	// n is the daemon that stores it; nil for a person.
	n *node
	// paused are the clients whose pauses the transaction stores.
	paused []string
}

// committed notes what a transaction that has ended has stored.
func (x *witness) committed(err error) {
	if err != nil {
		return
	}
	for _, c := range x.paused {
		x.w.pauses[c] = x.w.st.moment
	}
	x.paused = nil
}

// PutPause notes that a pause is stored.
func (x *witness) PutPause(ctx context.Context, is jobs.ClientState) error {
	x.paused = append(x.paused, is.Client)
	return x.Tx.PutPause(ctx, is)
}

// AddClaim looks at what is about to be sent: nothing that is too old, and one job at
// a time of a flow that is suspended.
func (x *witness) AddClaim(ctx context.Context, c jobs.Claim) error {
	ids := make([]jobs.RowID, len(c.Jobs))
	for i := range c.Jobs {
		ids[i] = c.Jobs[i].RowID
	}
	rows, err := x.Tx.Rows(ctx, ids, false)
	if err != nil {
		return err
	}
	now := x.w.engine.Now()
	for i := range rows {
		r, f := &rows[i], x.w.flows[rows[i].Flow]
		if f.MaxAge > 0 && !r.Gone && r.Age(now) > f.MaxAge {
			x.w.st.violation("I9: %s is sent at an age of %s", r.RowID, r.Age(now))
		}
		read := r.ReadAt
		if r.Desired.Observed.After(read) {
			read = r.Desired.Observed
		}
		if f.FreshWithin > 0 && !r.Gone && r.AppliedGeneration == 0 && !r.Unresolved() && now.Sub(read) > f.FreshWithin {
			x.w.st.violation("I9: %s is created as it was read %s ago", r.RowID, now.Sub(read))
		}
	}
	if err := x.probes(ctx, rows); err != nil {
		return err
	}
	return x.Tx.AddClaim(ctx, c)
}

// probes looks at the rows that a claim takes of suspended flows. Those that were
// suspended by another daemon are known within a second.
func (x *witness) probes(ctx context.Context, rows []jobs.Row) error {
	fs, err := x.Tx.Flows(ctx)
	if err != nil || x.w.jumps {
		return err
	}
	for _, f := range fs {
		n := 0
		for i := range rows {
			if rows[i].Flow == f.Flow {
				n++
			}
		}
		if s := f.Suspended; s.Is() && n > 0 && x.w.engine.Now().Sub(s.Since) > time.Second {
			if x.w.st.seen("a suspended flow is probed"); n > 1 {
				x.w.st.violation("I9: %d jobs of flow %s are sent at once, and it is suspended", n, f.Flow)
			}
		}
	}
	return nil
}

// PutRows implements jobs.Tx.
func (x *witness) PutRows(ctx context.Context, rows []jobs.Row) error {
	if err := x.see(ctx, rows); err != nil {
		return err
	}
	return x.Tx.PutRows(ctx, rows)
}

// PatchRows implements jobs.Tx.
func (x *witness) PatchRows(ctx context.Context, rows []jobs.Row) error {
	if err := x.see(ctx, rows); err != nil {
		return err
	}
	return x.Tx.PatchRows(ctx, rows)
}

// Claims puts the claims in an order that the seed alone decides: their ids are random.
func (x *witness) Claims(ctx context.Context, client string) ([]jobs.Claim, error) {
	cs, err := x.Tx.Claims(ctx, client)
	slices.SortStableFunc(cs, func(a, b jobs.Claim) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Jobs[0].RowID.String(), b.Jobs[0].RowID.String()))
	})
	return cs, err
}

// PutDaemon stores a daemon as one of another machine, of which nobody knows whether
// it has ended: asking the system costs more than a step of a history.
func (x *witness) PutDaemon(ctx context.Context, m jobs.Daemon, d time.Duration) error {
	m.Process = jobs.Process{Host: m.Owner, PID: 1}
	return x.Tx.PutDaemon(ctx, m, d)
}

// Daemons tells of the daemons on the same machine that have died.
func (x *witness) Daemons(ctx context.Context) ([]jobs.Daemon, error) {
	ms, err := x.Tx.Daemons(ctx)
	if x.w.together {
		for i, m := range ms {
			if n := x.w.nodeNamed(m.Owner); n != nil && n.dead {
				ms[i].Process = ended
			}
		}
	}
	return ms, err
}

// ended is a process of this machine with a number that none has.
var ended = func() jobs.Process {
	p := process.This()
	p.PID = math.MaxInt32
	return p
}()

// see holds rows against what they were.
func (x *witness) see(ctx context.Context, rows []jobs.Row) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]jobs.RowID, len(rows))
	for i := range rows {
		ids[i] = rows[i].RowID
	}
	before, err := x.Rows(ctx, ids, false)
	if err != nil {
		return err
	}
	for i := range rows {
		is := &rows[i]
		x.w.holds(is)
		if k := slices.IndexFunc(before, func(r jobs.Row) bool { return r.RowID == is.RowID }); k >= 0 {
			x.w.changed(ctx, &before[k], is)
		}
	}
	return nil
}

// holds looks whether a row is to become what the source was in that version.
func (w *world) holds(is *jobs.Row) {
	f := w.flows[is.Flow]
	if f.kind == renaming {
		return // what stands under a key is of one record and then of another
	}
	for _, x := range w.source.past {
		if f.key(x) != is.Key || x.version != is.Desired.Version || x.epoch != is.Desired.Epoch || f.kind == events {
			continue
		}
		if x.gone != is.Gone || !x.gone && !f.hashed(x, is.Hash) {
			w.st.violation("I3: %s is to be as in version %d, and has the content of another", is.RowID, x.version)
		}
	}
}

// hashed reports whether a hash is that of a state, as it is or was mapped.
func (f *flow) hashed(x *state, hash []byte) bool {
	for n := range f.w.settings + 1 {
		if bytes.Equal(jobs.HashBody(f.body(x, n)), hash) {
			return true
		}
	}
	return false
}

// free are the outcomes that cost no attempt.
var free = []connectors.Class{connectors.Throttled, connectors.Paused, connectors.Auth, connectors.Waiting, connectors.Expired}

// changed looks at a row that was something else before.
func (w *world) changed(ctx context.Context, was, is *jobs.Row) {
	if was.State == jobs.Held && was.LastCode != is.LastCode && is.LastCode == "restored" {
		w.st.seen("a held job meets a redelivery")
	}
	if is.Attempt < was.Attempt || is.Generation < was.Generation {
		w.st.violation("I9: %s goes back from generation %d, attempt %d, to generation %d, attempt %d", is.RowID, was.Generation, was.Attempt, is.Generation, is.Attempt)
	}
	renames := w.flows[is.Flow].kind == renaming // a record brings its versions along
	if d, old := is.Desired, was.Desired; !renames && (d.Epoch < old.Epoch || d.Epoch == old.Epoch && d.Version < old.Version) {
		w.st.violation("I3: what %s should be goes back from version %d to %d", is.RowID, old.Version, d.Version)
	}
	_, own := ctx.Value(unitKey{}).([]*jobs.Job) // whoever has sent it knows what the answer was
	if n, ok := w.wrote[is.RowID]; ok && !own && !renames && was.Attempt < n && is.Attempt >= n && !is.Unresolved() {
		w.st.violation("I4: nobody knows what became of attempt %d of %s, and the row is not in doubt", n, is.RowID)
	}
	if is.Tries > was.Tries && slices.Contains(free, is.LastClass) {
		w.st.violation("I8: %s cost %s an attempt", is.LastClass, is.RowID)
	}
}

// begun looks at jobs of which something is about to be sent: each is an attempt that
// is counted for itself.
func (w *world) begun(js []*jobs.Job, writes bool, keys string) {
	for _, jb := range js {
		if writes && slices.Contains(strings.Split(keys, ","), jb.Key) {
			w.wrote[jb.RowID] = jb.Number
		}
		// By a clock that jumps a lease is over early, and who had it has not sent all yet.
		if n := w.newest[jb.RowID]; n != nil && n != jb && (n.Number == jb.Number || n.Number > jb.Number && !w.jumps) {
			w.st.violation("I9: attempt %d of %s is made, and attempt %d was", jb.Number, jb.RowID, n.Number)
		}
		w.newest[jb.RowID] = jb
	}
}

// stored looks at a transaction for a lane before it is committed: its daemon must
// have the lane.
func (w *world) stored(ctx context.Context, n *node, tx jobs.Tx) error {
	lane, ok := ctx.Value(laneKey{}).(jobs.LaneID)
	if !ok {
		return nil
	}
	ls, err := tx.Leases(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ls, func(l jobs.Lease) bool { return l.LaneID == lane && l.Token != "" && l.Owner == n.name }) {
		w.st.violation("I6: %s writes to the journal for lane %s, which it does not have", n.name, lane)
	}
	return nil
}
