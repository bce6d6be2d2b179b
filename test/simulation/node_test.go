package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/upsert"
)

// terms are those of the leases, short so that histories are.
var terms = jobs.Terms{For: 6 * time.Second, Renew: 2 * time.Second, Margin: time.Second}

// node is one daemon from its start to its end.
type node struct {
	w       *world
	name    string
	journal *jobs.Journal
	doers   map[string]*upsert.Strategy
	dead    bool
	// frozen is until when the process is stopped.
	frozen time.Time
	// cut is until when it cannot reach the journal.
	cut time.Time
	// ready are the leases whose lanes were recovered.
	ready map[jobs.LaneID]*jobs.Hold
	// giving are lanes to be given back as soon as nothing of them is under way.
	giving map[jobs.LaneID]bool
	// busy are the rows and records being written.
	rows    map[jobs.RowID]bool
	records map[jobs.EntityKey]bool
	under   map[jobs.LaneID]int
	served  time.Time
}

// start begins a daemon.
func (w *world) start(name string) *node {
	n := &node{w: w, name: name, doers: map[string]*upsert.Strategy{}, ready: map[jobs.LaneID]*jobs.Hold{}, giving: map[jobs.LaneID]bool{},
		rows: map[jobs.RowID]bool{}, records: map[jobs.EntityKey]bool{}, under: map[jobs.LaneID]int{}}
	n.journal = jobs.New(&wire{w, n}, jobs.Options{Owner: name, Rand: w.st.r.Float64})
	for name, f := range w.flows {
		s, err := upsert.New(f, w.reached(n, f), n.journal, n.journal.Now)
		if err != nil {
			panic(err)
		}
		n.doers[name] = s
	}
	w.nodes = append(w.nodes, n)
	w.st.note("start of ", name)
	w.st.act(n, name+" owner", n.own)
	for _, f := range w.sortedFlows() {
		w.st.act(n, name+" poll "+f.Name, func(ctx context.Context, a *actor) { n.poll(ctx, a, f) })
	}
	for _, l := range w.lanes[1:] {
		w.st.act(n, name+" lane "+l.String(), func(ctx context.Context, a *actor) { n.lane(ctx, a, l) })
	}
	return n
}

// hold is the lease of a lane that may be used; nil for none.
func (n *node) hold(l jobs.LaneID) *jobs.Hold {
	if h := n.ready[l]; h != nil && h.Valid() {
		return h
	}
	return nil
}

// own joins the daemons and takes, renews and gives leases.
func (n *node) own(ctx context.Context, a *actor) {
	for n.journal.Join(ctx, n.w.lanes, terms) != nil {
		a.sleep(200 * time.Millisecond)
	}
	renewed := time.Now()
	for {
		a.sleep(a.st.upTo(time.Second))
		if time.Since(renewed) >= terms.Renew {
			if n.journal.Renew(ctx) == nil {
				renewed = time.Now()
			}
		}
		s, err := n.journal.Survey(ctx)
		if err != nil {
			continue
		}
		for _, l := range n.w.lanes {
			if !slices.ContainsFunc(n.journal.Holds(), func(h *jobs.Hold) bool { return h.LaneID == l }) {
				n.take(ctx, &s, l)
			}
		}
		for _, h := range n.journal.Holds() {
			if n.ready[h.LaneID] == h {
				continue
			}
			if _, err := n.journal.Recover(ctx, h.LaneID, n.w.flows); err == nil {
				n.ready[h.LaneID] = h
			}
		}
		if a.st.chance(60) {
			n.giving[n.w.lanes[a.st.r.IntN(len(n.w.lanes))]] = true
		}
		for _, l := range n.w.lanes {
			if h := n.ready[l]; n.giving[l] && h != nil && n.under[l] == 0 {
				delete(n.ready, l)
				_ = n.journal.Release(ctx, h) // it lapses by itself
				delete(n.giving, l)
				a.sleep(a.st.upTo(2 * time.Second))
			}
		}
	}
}

func (n *node) take(ctx context.Context, s *jobs.Survey, l jobs.LaneID) {
	was, free := s.Free(l, n.journal.Me(), false)
	// Nothing of an earlier tenure of this daemon may be under way.
	if !free || n.under[l] > 0 || n.w.st.r.IntN(3) == 0 {
		return
	}
	_, _ = n.journal.Take(ctx, was) // tried again
}

// poll reads a flow's stream.
func (n *node) poll(ctx context.Context, a *actor, f *jobs.Flow) {
	for {
		a.sleep(a.st.upTo(2 * time.Second))
		if n.hold(n.w.lanes[0]) == nil {
			continue
		}
		fs, err := n.journal.Cursor(ctx, f.Name)
		if err != nil {
			continue
		}
		observed := n.journal.Now()
		a.step("pulls ", f.Name)
		items, next := n.w.source.pull(fs.Cursor, observed)
		a.step("has pulled ", f.Name)
		if len(items) == 0 {
			continue
		}
		_, err = n.journal.Admit(onLane(ctx, n.w.lanes[0]), jobs.Admission{Flow: f, Move: true, From: fs.Cursor, Next: next, Items: items})
		if err != nil && !errors.Is(err, jobs.ErrCursorMoved) {
			a.sleep(a.st.upTo(time.Second))
		}
	}
}

// mostUnits is how many units of a lane are under way at most.
const mostUnits = 3

// lane claims due jobs and has them written.
func (n *node) lane(ctx context.Context, a *actor, l jobs.LaneID) {
	var unsure []string
	units := 0
	for {
		a.sleep(a.st.upTo(500 * time.Millisecond))
		h := n.hold(l)
		if h == nil || n.giving[l] || units >= mostUnits {
			if h == nil {
				unsure = nil // they are an earlier owner's
			}
			continue
		}
		if len(unsure) > 0 {
			if _, err := n.journal.RecoverOwn(ctx, l, n.w.flows, unsure...); err != nil {
				continue
			}
			unsure = nil
		}
		n.under[l]++ // a lease is not given back between a claim and its units
		got, err := n.journal.Claim(onLane(ctx, l), jobs.ClaimRequest{Client: l.Client, Shard: l.Shard, Limit: 4, Flows: n.w.flows, InFlight: len(n.rows),
			Busy: func(id jobs.RowID, k jobs.EntityKey) bool { return n.rows[id] || n.records[k] }})
		if err != nil {
			unsure = append(unsure, got.ID)
		}
		for _, u := range n.units(got.Jobs) {
			units++
			n.under[l]++
			for _, jb := range u {
				n.rows[jb.RowID], n.records[jb.EntityKey()] = true, true
			}
			n.w.st.act(n, fmt.Sprintf("%s unit %s/%s", n.name, u[0].Flow, u[0].Key), func(ctx context.Context, a *actor) {
				n.write(context.WithValue(ctx, holdKey{}, h), a, l, u)
				units--
				n.under[l]--
			})
		}
		n.under[l]--
	}
}

type holdKey struct{}

// unitKey is for the jobs that are being written.
type unitKey struct{}

type laneKey struct{}

// onLane says that what is written to the journal is written for a lane.
func onLane(ctx context.Context, l jobs.LaneID) context.Context {
	return context.WithValue(ctx, laneKey{}, l)
}

// units groups jobs into what is written in one go.
func (n *node) units(js []*jobs.Job) (out [][]*jobs.Job) {
	open := map[string]int{}
	for _, jb := range js {
		i, ok := open[jb.Flow]
		if ok && !jb.Solo && len(out[i]) < n.doers[jb.Flow].MaxBatch() {
			out[i] = append(out[i], jb)
			continue
		}
		if out = append(out, []*jobs.Job{jb}); !jb.Solo {
			open[jb.Flow] = len(out) - 1
		}
	}
	return out
}

// write applies a unit and stores its outcomes.
func (n *node) write(ctx context.Context, a *actor, l jobs.LaneID, u []*jobs.Job) {
	h := ctx.Value(holdKey{}).(*jobs.Hold)
	f := n.w.flows[u[0].Flow]
	ctx = context.WithValue(ctx, unitKey{}, u)
	out := n.doers[f.Name].Apply(ctx, u)
	now := n.journal.Now()
	ss := make([]jobs.Settlement, len(u))
	for i := range u {
		ss[i] = jobs.Settlement{Job: u[i], Flow: f, Outcome: out[i], SentAt: now, Batch: len(u) > 1, Served: n.served}
		if out[i].Class.Confirmed() {
			n.served = now
		}
		if a.st.told() {
			a.st.note(fmt.Sprintf("%s %s/%s attempt %d: %s %s", n.name, f.Name, u[i].Key, u[i].Number, out[i].Class, out[i].Code))
		}
	}
	for h.Valid() {
		done, err := n.journal.Settle(onLane(ctx, l), l.Client, ss)
		if err == nil {
			for _, s := range done {
				n.w.settled(n, s)
			}
			break
		}
		if errors.Is(err, jobs.ErrFenced) {
			break
		}
		a.sleep(a.st.upTo(time.Second))
	}
	for _, jb := range u {
		delete(n.rows, jb.RowID)
		delete(n.records, jb.EntityKey())
	}
}

// wire is a daemon's way to the journal.
type wire struct {
	w *world
	n *node
}

var errAway = errors.New("the database cannot be reached")

func (x *wire) Now() time.Time   { return x.w.engine.Now() }
func (x *wire) Describe() string { return x.w.engine.Describe() }
func (x *wire) Close() error     { return nil }

func (x *wire) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	a := actorOf(ctx)
	a.step("before a transaction")
	st := a.st
	unseen := fn
	fn = func(tx jobs.Tx) error {
		if err := unseen(&witness{tx, x.w}); err != nil {
			return err
		}
		return x.w.stored(ctx, x.n, tx)
	}
	if time.Now().Before(x.n.cut) || st.chance(60) {
		return errAway
	}
	if st.chance(80) { // the server rolls back, and nobody hears of it
		err := x.w.engine.Update(ctx, func(tx jobs.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return errAway
		})
		if errors.Is(err, errAway) {
			err = fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, errAway)
		}
		return err
	}
	err := x.w.engine.Update(ctx, fn)
	a.step("after a transaction")
	if err == nil && st.chance(80) {
		return fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, errAway)
	}
	return err
}

func (x *wire) View(ctx context.Context, fn func(jobs.Tx) error) error {
	a := actorOf(ctx)
	if time.Now().Before(x.n.cut) || a.st.chance(100) {
		return errAway
	}
	return x.w.engine.View(ctx, func(tx jobs.Tx) error { return fn(&witness{tx, x.w}) })
}

var _ connectors.Entity = (*reach)(nil)
