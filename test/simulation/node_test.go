package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"syncd/breaker"
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
	// How it is configured.
	shards, settings int
	lanes            []jobs.LaneID
	flows            map[string]*jobs.Flow
	// frozen is until when the process is stopped.
	frozen time.Time
	// cut is until when it cannot reach the journal.
	cut time.Time
	// clients are those of lanes that were recovered.
	clients map[jobs.LaneID]*client
	// refused are lanes that cannot be run yet, with when they are tried again.
	refused map[jobs.LaneID]time.Time
	// giving are lanes to be given back as soon as nothing of them is under way.
	giving map[jobs.LaneID]bool
	// given are jobs of lanes whose lease was over before what became of them could be stored.
	given map[jobs.LaneID][]*jobs.Job
	// busy are the rows and records being written.
	rows    map[jobs.RowID]bool
	records map[jobs.EntityKey]bool
	under   map[jobs.LaneID]int
	served  time.Time
}

// start begins a daemon.
func (w *world) start(name string) *node {
	n := &node{w: w, name: name, doers: map[string]*upsert.Strategy{}, clients: map[jobs.LaneID]*client{}, giving: map[jobs.LaneID]bool{}, given: map[jobs.LaneID][]*jobs.Job{},
		rows: map[jobs.RowID]bool{}, records: map[jobs.EntityKey]bool{}, under: map[jobs.LaneID]int{}, refused: map[jobs.LaneID]time.Time{},
		shards: w.shards, settings: w.settings, lanes: lanes(w.shards), flows: w.configured(w.shards)}
	n.journal = jobs.New(&wire{w, n}, jobs.Options{Owner: name, Rand: w.st.r.Float64})
	for name, f := range n.flows {
		s, err := upsert.New(f, w.reached(n, w.flows[name]), late{n.journal, n}, n.journal.Now)
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
	for _, l := range n.lanes[1:] {
		w.st.act(n, name+" lane "+l.String(), func(ctx context.Context, a *actor) { n.lane(ctx, a, l) })
	}
	w.st.act(n, name+" requests", n.requests)
	if w.errand == "redeliver" || w.errand == "remap" {
		w.st.act(n, name+" errands", n.errands)
	}
	return n
}

// close ends what a daemon that has died had begun outside of its actors.
func (n *node) close() {
	for _, c := range n.clients {
		c.gate.Close()
	}
}

// client is that of a lane whose lease may be used; nil for none.
func (n *node) client(l jobs.LaneID) *client {
	if c := n.clients[l]; c != nil && c.hold.Valid() {
		return c
	}
	return nil
}

// own joins the daemons and takes, renews and gives leases.
func (n *node) own(ctx context.Context, a *actor) {
	for n.journal.Join(ctx, n.lanes, terms) != nil {
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
		at := a.st.moment
		s, err := n.journal.Survey(ctx)
		if err != nil {
			continue
		}
		n.heed(ctx, &s, at)
		for l, js := range n.given {
			if !slices.ContainsFunc(n.journal.Holds(), func(h *jobs.Hold) bool { return h.LaneID == l }) {
				n.over(js)
				delete(n.given, l)
			}
		}
		for _, l := range n.lanes {
			if !slices.ContainsFunc(n.journal.Holds(), func(h *jobs.Hold) bool { return h.LaneID == l }) {
				n.take(ctx, &s, l)
			}
		}
		for _, h := range n.journal.Holds() {
			if c := n.clients[h.LaneID]; c == nil || c.hold != h {
				n.ready(ctx, h)
			}
		}
		if a.st.chance(60) {
			n.giving[n.lanes[a.st.r.IntN(len(n.lanes))]] = true
			a.st.seen("a lane is given back")
		}
		for _, l := range n.lanes {
			if c := n.clients[l]; n.giving[l] && c != nil && n.under[l] == 0 {
				delete(n.clients, l)
				c.gate.Close()
				_ = n.journal.Release(ctx, c.hold) // it lapses by itself
				delete(n.giving, l)
				a.sleep(a.st.upTo(2 * time.Second))
			}
		}
	}
}

func (n *node) take(ctx context.Context, s *jobs.Survey, l jobs.LaneID) {
	was, free := s.Free(l, n.journal.Me(), false)
	// Nothing of an earlier tenure of this daemon may be under way.
	if !free || n.under[l] > 0 || n.w.st.r.IntN(3) == 0 || time.Now().Before(n.refused[l]) {
		return
	}
	if was.Token != "" && !was.Lapsed {
		n.w.st.seen("the lane of a daemon that is known to have ended is taken")
	}
	_, _ = n.journal.Take(ctx, was) // tried again
}

// ready makes a lane ready that was taken. One that cannot be run yet is given back.
func (n *node) ready(ctx context.Context, h *jobs.Hold) {
	if _, err := n.journal.Recover(ctx, h.LaneID, n.flows); err != nil {
		return
	}
	if h.Client == erp {
		if err := n.split(ctx, h); err != nil {
			var re *jobs.ReshardError
			if errors.As(err, &re) {
				n.w.st.seen("a lane waits for another split")
				n.refused[h.LaneID] = time.Now().Add(2 * time.Second)
				_ = n.journal.Release(ctx, h) // it lapses by itself
			}
			return
		}
	}
	c, err := n.open(ctx, h)
	if err != nil {
		return
	}
	if h.Client == erp && n.journal.ProbeNow(ctx, n.flows) != nil {
		return
	}
	if old := n.clients[h.LaneID]; old != nil {
		old.gate.Close()
	}
	n.over(n.given[h.LaneID])
	delete(n.given, h.LaneID)
	n.clients[h.LaneID] = c
}

// split sees to it that the rows are split as this daemon is configured, as daemon does.
func (n *node) split(ctx context.Context, h *jobs.Hold) error {
	if h.Shard == 0 {
		return n.journal.Reshard(ctx, h.Client, n.shards, n.flows)
	}
	has, err := n.journal.Sharded(ctx, h.Client)
	if err == nil && has != n.shards {
		err = &jobs.ReshardError{Client: h.Client, Has: has, Get: n.shards, Why: "the first lane of it is taken up"}
	}
	return err
}

// poll reads a flow's stream.
func (n *node) poll(ctx context.Context, a *actor, f *flow) {
	for {
		a.sleep(a.st.upTo(2 * time.Second))
		c := n.client(n.lanes[0])
		if c == nil || !c.isOpen() {
			continue
		}
		fs, err := n.journal.Cursor(ctx, f.Name)
		if err != nil {
			continue
		}
		observed := n.journal.Now()
		a.step("pulls ", f.Name)
		if _, may := c.may(ctx, "pull", f.Name); !may || n.w.source.down {
			continue
		}
		if a.st.chance(15) {
			n.under[n.lanes[0]]++ // a daemon takes no lane again before its pollers of before have ended
			c.throttled(ctx, a, throttling(a.st))
			n.under[n.lanes[0]]--
			continue
		}
		xs, next := n.w.source.pull(fs.Cursor, f.logged)
		a.step("has pulled ", f.Name)
		if string(next) == string(fs.Cursor) && len(xs) == 0 {
			continue
		}
		items := make([]jobs.Item, len(xs))
		for i, x := range xs {
			items[i] = f.item(x, n.settings, observed)
			if a.st.told() {
				a.st.note(fmt.Sprintf("%s brings %s version %d as %s, gone %v", f.Name, x.id, x.version, f.key(x), x.gone))
			}
		}
		_, err = n.journal.Admit(onLane(ctx, n.lanes[0]), jobs.Admission{Flow: n.flows[f.Name], Move: true, From: fs.Cursor, Next: next, Epoch: fs.Epoch, Items: items})
		if err != nil && !errors.Is(err, jobs.ErrCursorMoved) {
			a.sleep(a.st.upTo(time.Second))
		}
	}
}

func throttling(st *stage) connectors.Outcome {
	o := connectors.Fail(connectors.Throttled, "http_429", "too many requests")
	if st.r.IntN(2) == 0 {
		o.RetryAfter = st.upTo(5 * time.Second)
	}
	return o
}

// requests answers wishes for the present state of records, as daemon does.
func (n *node) requests(ctx context.Context, a *actor) {
	for {
		a.sleep(a.st.upTo(2 * time.Second))
		c := n.client(n.lanes[0])
		if c == nil || !c.isOpen() {
			continue
		}
		rs, err := n.journal.Requests(ctx, shop, 50)
		if err != nil {
			continue
		}
		for _, r := range rs {
			if !n.serve(ctx, a, c, r) {
				break
			}
		}
	}
}

func (n *node) serve(ctx context.Context, a *actor, c *client, r jobs.Request) bool {
	f := n.w.flows[r.Flow]
	if !f.CanRefresh {
		_ = n.journal.DropRequest(ctx, r.ID) // it is asked for again
		return true
	}
	fs, err := n.journal.Cursor(ctx, f.Name)
	if err != nil {
		return false
	}
	observed := n.journal.Now()
	a.step("fetches ", r.SourceID)
	if _, may := c.may(ctx, "fetch", r.SourceID); !may || n.w.source.down {
		return false
	}
	it := jobs.Item{SourceID: r.SourceID, Gone: true, Log: f.logged, Observed: observed}
	if x := n.w.source.newest[r.SourceID]; x != nil {
		it = f.item(x, n.settings, observed)
	}
	a.st.seen("a record is read anew for " + string(r.Kind))
	it.Refresh = r.Kind == jobs.Refresh || r.Key != ""
	a.step("has fetched ", r.SourceID)
	_, err = n.journal.Admit(onLane(ctx, n.lanes[0]), jobs.Admission{Flow: n.flows[f.Name], Epoch: fs.Epoch, Items: []jobs.Item{it}, Requests: []int64{r.ID}})
	return err == nil
}

// errands goes on with what a person asked for that takes long.
func (n *node) errands(ctx context.Context, a *actor) {
	for {
		a.sleep(a.st.upTo(time.Second))
		rs, err := n.journal.Runs(ctx, true, 10)
		if err != nil {
			continue
		}
		for _, r := range rs {
			if n.client(jobs.LaneID{Client: r.Client}) != nil {
				_, _ = n.journal.StepRun(ctx, r.ID, n.flows) // tried again
			}
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
		c := n.client(l)
		if c == nil || n.giving[l] {
			if c == nil {
				unsure = nil // they are an earlier owner's
			}
			continue
		}
		if len(unsure) > 0 {
			if _, err := n.journal.RecoverOwn(ctx, l, n.flows, unsure...); err != nil {
				continue
			}
			unsure = nil
			if n.client(l) != c {
				continue // the lane was lost, and perhaps had anew, meanwhile
			}
		}
		if units >= mostUnits || !c.isOpen() || c.breaker.State().State == breaker.Open {
			continue
		}
		limit := 4
		if c.breaker.State().State != breaker.Closed {
			limit = 1
		}
		restores := n.w.restores
		n.under[l]++ // a lease is not given back between a claim and its units
		got, err := n.journal.Claim(onLane(ctx, l), jobs.ClaimRequest{Client: l.Client, Shard: l.Shard, Limit: limit, Flows: n.flows, InFlight: len(n.rows),
			Busy:   func(id jobs.RowID, k jobs.EntityKey) bool { return n.rows[id] || n.records[k] },
			Paused: c.gate.State(n.journal.Now()).Pause.Until})
		if err != nil {
			unsure = append(unsure, got.ID)
		}
		for _, u := range n.units(got.Jobs) {
			units++
			n.under[l]++
			for _, jb := range u {
				n.rows[jb.RowID], n.records[jb.EntityKey()] = true, true
			}
			n.w.st.act(n, n.name+" unit "+u[0].Key, func(ctx context.Context, a *actor) {
				n.write(context.WithValue(context.WithValue(ctx, clientKey{}, c), restoresKey{}, restores), a, l, u)
				units--
				n.under[l]--
			})
		}
		n.under[l]--
	}
}

type clientKey struct{}

// restoresKey is for how often the target had been restored when a job was claimed.
type restoresKey struct{}

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
	c := ctx.Value(clientKey{}).(*client)
	f := n.flows[u[0].Flow]
	ctx = context.WithValue(ctx, unitKey{}, u)
	ss := make([]jobs.Settlement, len(u))
	var sent []*jobs.Job
	var at []int
	for i, jb := range u {
		ss[i] = jobs.Settlement{Job: jb, Flow: f}
		if o, ok := n.resolve(ctx, jb, &ss[i]); !ok {
			ss[i].Outcome = o
			continue
		}
		sent, at = append(sent, jb), append(at, i)
	}
	if len(sent) > 0 {
		out := n.apply(ctx, c, f, sent)
		for k, i := range at {
			ss[i].Outcome, ss[i].Batch = out[k], len(sent) > 1
		}
	}
	now := n.journal.Now()
	for i := range ss {
		ss[i].SentAt, ss[i].Served = now, n.served
		o := ss[i].Outcome
		if o.Class.Confirmed() {
			n.served = now
		}
		if a.st.told() {
			a.st.note(fmt.Sprintf("%s %s/%s attempt %d: %s %s", n.name, f.Name, u[i].Key, u[i].Number, o.Class, o.Code))
		}
		c.throttled(ctx, a, o)
	}
	stored := false
	for c.hold.Valid() && !stored {
		done, err := n.journal.Settle(onLane(ctx, l), l.Client, ss)
		if err == nil {
			for _, s := range done {
				n.w.settled(n, s)
				if s.Freed.Is() {
					a.st.seen("a flow goes on")
					_ = n.journal.AfterSuspension(ctx, s.Flow, s.Freed) // they are due at the next probe all the same
				}
			}
			stored = true
			break
		}
		if stored = errors.Is(err, jobs.ErrFenced); stored {
			break // by whoever has the lane now
		}
		a.sleep(a.st.upTo(time.Second))
	}
	if !stored && n.clients[l] == c {
		// They are under way until the lane is had anew, and what became of them was found out about.
		n.given[l] = append(n.given[l], u...)
		return
	}
	n.over(u)
}

// over forgets jobs that are not under way any more.
func (n *node) over(js []*jobs.Job) {
	for _, jb := range js {
		delete(n.rows, jb.RowID)
		delete(n.records, jb.EntityKey())
	}
}

// apply has the strategy write jobs under the client's breaker, as daemon does.
func (n *node) apply(ctx context.Context, c *client, f *jobs.Flow, js []*jobs.Job) []connectors.Outcome {
	call, err := c.breaker.Allow()
	if err != nil {
		return slices.Repeat([]connectors.Outcome{connectors.Fail(connectors.Paused, "breaker", "%s", err)}, len(js))
	}
	out := n.doers[f.Name].Apply(ctx, js)
	res := breaker.Result{Verdict: breaker.Ignore}
	for i, o := range out {
		switch verdict(o) {
		case breaker.Success:
			res = breaker.Result{Verdict: breaker.Success}
		case breaker.Failure:
			if res.Verdict != breaker.Success {
				res.Verdict, res.Err, res.Records = breaker.Failure, o.Code, append(res.Records, js[i].Key)
			}
		}
	}
	call.Done(res)
	return out
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
	a := x.w.st.actorOf(ctx)
	a.step("before a transaction")
	st := a.st
	unseen := fn
	seen := &witness{w: x.w, n: x.n}
	fn = func(tx jobs.Tx) error {
		seen.Tx = tx
		if err := unseen(seen); err != nil {
			return err
		}
		return x.w.stored(ctx, x.n, tx)
	}
	fate := st.fateOfCall()
	if fate == lastBefore {
		x.w.ends(x.n, a)
	}
	if time.Now().Before(x.n.cut) || fate == neverBegun {
		return errAway
	}
	if fate == undone { // the server rolls back, and nobody hears of it
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
	seen.committed(err)
	if fate == lastAfter {
		x.w.ends(x.n, a)
	}
	a.step("after a transaction")
	if err == nil && fate == unheard {
		return fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, errAway)
	}
	return err
}

func (x *wire) View(ctx context.Context, fn func(jobs.Tx) error) error {
	a := x.w.st.actorOf(ctx)
	if time.Now().Before(x.n.cut) || a.st.chance(100) {
		return errAway
	}
	return x.w.engine.View(ctx, func(tx jobs.Tx) error { return fn(&witness{Tx: tx, w: x.w, n: x.n}) })
}

// fate is what becomes of a transaction.
type fate string

const (
	committed  fate = "committed"
	neverBegun fate = "the journal is away"
	undone     fate = "a commit is lost"
	unheard    fate = "the answer to a commit is lost"
	lastBefore fate = "the daemon dies before a commit"
	lastAfter  fate = "the daemon dies after a commit"
)

// fateOfCall draws what becomes of the next transaction.
func (st *stage) fateOfCall() fate {
	st.calls++
	f := committed
	switch {
	case st.failAt != 0:
		if st.calls == st.failAt {
			f = st.failAs
		}
	case st.chance(60):
		f = neverBegun
	case st.chance(80):
		f = undone
	case st.chance(80):
		f = unheard
	}
	if f != committed {
		st.seen(string(f))
	}
	return f
}
