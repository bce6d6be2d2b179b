package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/internal/field"
	"syncd/internal/gatetest"
	"syncd/jobs"
	"syncd/jobs/memory"
	"syncd/ratelimit"
)

// fleet is several daemons on one journal, between one shop and one ERP, on a fake
// clock.
type fleet struct {
	*testing.T
	shop   *shop
	orders *faketarget.Entity
	engine *memory.Engine
	plan   func() *Plan
	terms  jobs.Terms

	// stall, if there is one, is called before each change of the journal.
	stall func(ctx context.Context, m *member)

	// hang is how long a create hangs after its effect, in nanoseconds.
	hang atomic.Int64

	mu     sync.Mutex
	pulled map[string]int // by daemon: its pulls
	wrote  map[string]int // by daemon: its writes
}

// member is one daemon of a fleet.
type member struct {
	*fleet
	name   string
	link   *wire
	daemon *Daemon
	logged strings.Builder
	reload chan Reload
	stop   context.CancelFunc
	done   chan error
}

// wire is a daemon's way to the journal and to the platforms; it can be cut.
type wire struct {
	jobs.Engine
	cut   atomic.Bool
	stall func(ctx context.Context)
}

var errCut = errors.New("the network is down")

func (w *wire) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	if w.cut.Load() {
		return errCut
	}
	w.stall(ctx)
	return w.Engine.Update(ctx, fn)
}

func (w *wire) View(ctx context.Context, fn func(jobs.Tx) error) error {
	if w.cut.Load() {
		return errCut
	}
	return w.Engine.View(ctx, fn)
}

func inFleet(t *testing.T, prove func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		now := func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
		f := &fleet{T: t, shop: &shop{present: map[string]connectors.Event{}}, engine: memory.Open(memory.Options{Now: now}),
			terms: jobs.DefaultTerms(), pulled: map[string]int{}, wrote: map[string]int{}}
		f.orders = faketarget.New(faketarget.Options{Name: "order", Unique: true, SettleTime: time.Minute}, now)
		f.plan = func() *Plan { return f.planned(1) }
		prove(f)
	})
}

// planned is two shops and two ERPs, of which the first of each is used, the ERP
// split into so many shards.
func (f *fleet) planned(shards int) *Plan {
	w := &world{T: f.T}
	flow := w.flow("orders", "order", `.`, `.key`)
	flow.Shards = shards
	p := &Plan{Clients: map[string]*ClientPlan{}, Flows: map[string]*FlowPlan{"orders": flow}}
	for _, name := range []string{"shop", "shop2", "erp", "erp2"} {
		p.Clients[name] = &ClientPlan{Name: name, Concurrency: 4, Timeout: 10 * time.Second, Breaker: quiet, Shards: 1}
	}
	p.Clients["erp"].Shards = shards
	return p
}

// seen is the shop or the ERP as one daemon reaches it.
type seen struct {
	*fleet
	m    *member
	kind string
}

func (*seen) Fields(*field.Set)                                              {}
func (*seen) Streams() []connectors.StreamInfo                               { return (&settings{}).Streams() }
func (s *seen) Entities() []connectors.EntityInfo                            { return []connectors.EntityInfo{s.orders.Info()} }
func (*seen) Close() error                                                   { return nil }
func (s *seen) Target() connectors.Target                                    { return s }
func (s *seen) Source() connectors.Source                                    { return s }
func (s *seen) Entity(string) (connectors.Entity, error)                     { return &seenEntity{s.orders, s}, nil }
func (*seen) Check(context.Context, []string, []string) []connectors.Finding { return nil }
func (s *seen) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	return s, nil
}

func (s *seen) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	if s.m.link.cut.Load() {
		return connectors.Page{}, errCut
	}
	s.mu.Lock()
	s.pulled[s.m.name]++
	s.mu.Unlock()
	return s.shop.Pull(ctx, req)
}

func (s *seen) Fetch(ctx context.Context, stream, id string) (connectors.Event, error) {
	return s.shop.Fetch(ctx, stream, id)
}

// seenEntity counts the writes of a daemon.
type seenEntity struct {
	*faketarget.Entity
	s *seen
}

func (e *seenEntity) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	e.s.mu.Lock()
	e.s.wrote[e.s.m.name]++
	e.s.mu.Unlock()
	o := e.Entity.Create(ctx, w)
	if d := time.Duration(e.s.hang.Load()); d > 0 {
		sleep(ctx, d)
		return connectors.Fail(connectors.Unknown, "timeout", "no answer")
	}
	return o
}

// start sets a daemon going.
func (f *fleet) start(name string) *member {
	m := &member{fleet: f, name: name, link: &wire{Engine: f.engine}, reload: make(chan Reload), done: make(chan error, 1)}
	m.daemon = New(jobs.New(m.link, jobs.Options{Owner: name}), Options{Grace: 20 * time.Second, Terms: f.terms,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(f.Output(), &m.logged), &slog.HandlerOptions{Level: slog.LevelDebug})).With("daemon", name)})
	m.link.stall = func(ctx context.Context) {
		if f.stall != nil {
			f.stall(ctx, m)
		}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(f.Context()))
	m.stop = stop
	go func() { m.done <- m.daemon.Run(ctx, m.own(f.plan()), m.reload) }()
	return m
}

// own has a plan's clients be reached by this daemon.
func (m *member) own(p *Plan) *Plan {
	for _, c := range p.Clients {
		c.Settings = &seen{m.fleet, m, c.Name}
	}
	return p
}

func (m *member) end() {
	m.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		m.Errorf("daemon %s ended with %v", m.name, err)
	}
}

// kill takes the daemon off the world, as SIGKILL would: nothing of it reaches the
// journal or the platforms any more.
func (m *member) kill() {
	m.link.cut.Store(true)
}

// lanes are those that the daemon runs.
func (m *member) lanes() (out []string) {
	for _, c := range m.daemon.Clients() {
		out = append(out, c.Lane.String())
	}
	return out
}

func (f *fleet) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// orderOf puts order n into the shop.
func (f *fleet) order(n int) string {
	key := fmt.Sprintf("O-%d", n)
	f.shop.put(fmt.Sprint(n), 1, fmt.Sprintf(`{"key":%q,"n":%d}`, key, n))
	return key
}

func (f *fleet) written(key string) {
	f.Helper()
	if n := len(f.orders.Records(key)); n != 1 {
		f.Errorf("the ERP has %d records of %s, want 1", n, key)
	}
}

func TestDaemonsShareTheClientsOut(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		if got := a.lanes(); len(got) != 4 {
			t.Fatalf("the only daemon runs %v, want all four clients", got)
		}
		b := f.start("b")
		f.pass(2 * time.Minute)
		got := append(slices.Clone(a.lanes()), b.lanes()...)
		slices.Sort(got)
		if want := []string{"erp", "erp2", "shop", "shop2"}; !slices.Equal(got, want) || len(a.lanes()) != 2 {
			t.Errorf("one runs %v, the other %v, want two of four clients each", a.lanes(), b.lanes())
		}
		if n := strings.Count(a.logged.String(), "handing a client over"); n != 2 {
			t.Errorf("clients were handed over %d times, want 2", n)
		}
		for n := range 20 {
			defer f.written(f.order(n))
		}
		f.pass(10 * time.Second)
		a.end()
		f.pass(3 * time.Second)
		if got := b.lanes(); len(got) != 4 {
			t.Errorf("after the other one has ended it runs %v, want all", got)
		}
		for n := range 20 {
			defer f.written(f.order(100 + n))
		}
		f.pass(10 * time.Second)
		b.end()
	})
}

func TestACrashedDaemonIsFollowedWithinLeaseAndASecond(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(time.Minute)
		f.hang.Store(int64(time.Hour))
		first := f.order(1) // its write is under way when its daemon dies
		f.pass(3 * time.Second)
		dead, alive := a, b
		if slices.Contains(b.lanes(), "erp") {
			dead, alive = b, a
		}
		dead.kill()
		died := time.Now()
		f.hang.Store(0)
		for len(alive.lanes()) < 4 {
			if took := time.Since(died); took > f.terms.For+time.Second {
				t.Fatalf("after %s the other daemon runs %v", took, alive.lanes())
			}
			f.pass(100 * time.Millisecond)
		}
		second := f.order(2)
		f.pass(5 * time.Minute)
		f.written(first)
		f.written(second)
		f.pass(time.Hour)
		if s, err := alive.daemon.journal.Survey(t.Context()); err != nil || len(s.Daemons) != 1 {
			t.Errorf("the list of daemons is %v (%v), want the living one alone", s.Daemons, err)
		}
		d, _, err := alive.daemon.journal.Get(t.Context(), jobs.RowID{Flow: "orders", Key: first})
		if err != nil || d.Row.State != jobs.Done {
			t.Errorf("%s is %s (%v), want done", first, d.Row.State, err)
		}
		if !slices.ContainsFunc(d.Attempts, func(a jobs.Attempt) bool { return a.Class == connectors.Lost }) {
			t.Errorf("the history of %s does not say that an attempt was lost: %v", first, d.Attempts)
		}
		alive.end()
		dead.end()
	})
}

func TestAStartThatIsSlowerThanItsLeasesGoesOn(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var mu sync.Mutex
		var until time.Time
		f.stall = func(ctx context.Context, m *member) {
			mu.Lock()
			if until.IsZero() && len(m.daemon.journal.Holds()) == 4 {
				until = time.Now().Add(f.terms.For + time.Second)
			}
			wait := time.Until(until)
			mu.Unlock()
			if !jobs.IsUrgent(ctx) {
				wait += time.Minute // the leases have been looked at again by then
			}
			sleep(ctx, wait)
		}
		key := f.order(1)
		m := f.start("a")
		f.pass(5 * time.Minute)
		f.written(key)
		if n := len(m.lanes()); n != 4 {
			t.Errorf("it runs %d clients", n)
		}
		m.end()
	})
}

func TestADaemonThatStopsHandsOverAtOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(time.Minute)
		a.end()
		left := time.Now()
		for len(b.lanes()) < 4 {
			if took := time.Since(left); took > time.Second {
				t.Fatalf("after %s the other daemon runs %v", took, b.lanes())
			}
			f.pass(50 * time.Millisecond)
		}
		s, err := b.daemon.journal.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Daemons) != 1 || s.Daemons[0].Owner != "b" {
			t.Errorf("the list of daemons is %v, want b alone", s.Daemons)
		}
		b.end()
	})
}

func TestADaemonCutOffFromTheJournalSendsNothingAfterItsLease(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		f.hang.Store(int64(time.Hour))
		key := f.order(1)
		f.pass(3 * time.Second)
		if a.daemon.Clients()[0].InFlight != 1 {
			t.Fatalf("the write is not under way: %+v", a.daemon.Clients())
		}
		hold := a.daemon.journal.Holds()[0]
		gate := leased{openGate{}, "erp", hold, time.Now, 0}
		if _, err := gate.Enter(t.Context(), ratelimit.Ask{}); err != nil {
			t.Errorf("with a lease nothing is let out: %v", err)
		}
		a.link.cut.Store(true)
		f.pass(f.terms.For - f.terms.Margin + time.Millisecond)
		if _, err := gate.Enter(t.Context(), ratelimit.Ask{}); err == nil {
			t.Error("without a lease a request is let out")
		}
		// The lease is not over for the others yet, and the write was cut off.
		if n := len(a.daemon.Clients()); n != 0 {
			t.Errorf("%d clients are still run", n)
		}
		b := f.start("b")
		f.hang.Store(0)
		f.pass(f.terms.For)
		a.link.cut.Store(false)
		f.pass(5 * time.Minute)
		f.written(key)
		got := append(slices.Clone(a.lanes()), b.lanes()...)
		slices.Sort(got)
		if len(got) != 4 || len(slices.Compact(got)) != 4 {
			t.Errorf("one runs %v, the other %v", a.lanes(), b.lanes())
		}
		b.end()
		a.end()
	})
}

// openGate lets everything out.
type openGate struct{}

func (openGate) Wait(context.Context) error { return nil }
func (g openGate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (openGate) Longest() time.Duration                                    { return time.Hour }
func (openGate) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

func TestAReloadKeepsTheLeases(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		before := a.daemon.journal.Holds()
		done := make(chan error, 1)
		a.reload <- Reload{Plan: a.own(f.plan()), Done: done}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.pass(time.Second)
		if !slices.Equal(before, a.daemon.journal.Holds()) {
			t.Error("a reload took new leases")
		}
		p := a.own(f.plan())
		delete(p.Clients, "erp2")
		a.reload <- Reload{Plan: p, Done: done}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.pass(time.Second)
		if got := a.lanes(); len(got) != 3 {
			t.Errorf("without erp2 it runs %v", got)
		}
		a.end()
	})
}

func TestAChangeIsAcceptedByTheOnlyDaemonAlone(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.order(1)
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(time.Minute)
		changed := func() *Plan {
			p := f.planned(1)
			p.Flows["orders"].Key = `"X-" + .key`
			return p
		}
		cs, err := b.daemon.journal.Changes(t.Context(), changed().JobFlows())
		if err != nil || len(cs) != 1 {
			t.Fatalf("changes: %v, %v", cs, err)
		}
		accepted := func() *Plan {
			p := changed()
			p.Flows["orders"].AcceptChange = cs[0].Token
			return p
		}
		done := make(chan error, 1)
		b.reload <- Reload{Plan: b.own(accepted()), Done: done}
		var oe *jobs.OthersError
		if err := <-done; !errors.As(err, &oe) {
			t.Fatalf("the change was met with %v, want a refusal while another daemon runs", err)
		}
		a.end()
		b.reload <- Reload{Plan: b.own(accepted()), Done: done}
		if err := <-done; err != nil {
			t.Fatalf("the change was met with %v by the only daemon", err)
		}
		// One that still has the old configuration gets nothing to run.
		b.end()
		old := f.start("old")
		if err := <-old.done; err == nil {
			t.Error("a daemon with the old configuration runs")
		}
		old.stop()
	})
}

// TestAFleetKeepsItsPromisesWhateverFails has daemons come, stop, die and be cut off
// from their journal, between a shop that changes and an ERP that loses, delays and
// doubles answers, and looks at the ERP when all failures have ended.
func TestAFleetKeepsItsPromisesWhateverFails(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inFleet(t, func(f *fleet) { f.rough(rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

// rough plays one history.
func (f *fleet) rough(r *rand.Rand) {
	shards := 1 + r.IntN(3)
	f.plan = func() *Plan { return f.planned(shards) }
	faults := []faketarget.Kind{faketarget.NotSent, faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.Late, faketarget.FailDone,
		faketarget.FailUndone, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.NoLink}
	fr := rand.New(rand.NewPCG(r.Uint64(), 4))
	f.orders.Plan(func(faketarget.Call) faketarget.Fault {
		if fr.IntN(3) > 0 {
			return faketarget.Fault{}
		}
		return faketarget.Fault{Kind: faults[fr.IntN(len(faults))], Delay: time.Duration(fr.IntN(55)) * time.Second, Code: fmt.Sprint("http_", fr.IntN(1000))}
	})
	var alive, dead []*member
	begun := 0
	start := func() {
		begun++
		alive = append(alive, f.start(fmt.Sprint("d", begun)))
	}
	start()
	newest := map[string]string{}
	for version := range int64(60) {
		i := r.IntN(6)
		key := fmt.Sprint("O-", i)
		newest[key] = fmt.Sprintf(`{"key":%q,"n":%d}`, key, version)
		f.shop.put(fmt.Sprint(i), version+1, newest[key])
		f.pass(time.Duration(r.IntN(20000)) * time.Millisecond)
		k := r.IntN(len(alive))
		switch m := alive[k]; r.IntN(8) {
		case 0:
			m.kill()
			dead = append(dead, m)
			alive = slices.Delete(alive, k, k+1)
		case 1:
			m.end()
			alive = slices.Delete(alive, k, k+1)
		case 2: // longer than its lease
			m.link.cut.Store(true)
			f.pass(time.Duration(r.IntN(60)) * time.Second)
			m.link.cut.Store(false)
		case 3:
			m.reload <- Reload{Plan: m.own(f.plan())}
		}
		for len(alive) == 0 || len(alive) < 3 && r.IntN(3) == 0 {
			start()
		}
	}
	f.orders.Plan(nil)
	f.pass(30 * time.Minute)
	rows, running, err := alive[0].daemon.journal.List(f.Context(), jobs.Filter{Limit: 1000})
	if err != nil || len(running) > 0 {
		f.Errorf("%d jobs are under way, %v", len(running), err)
	}
	for _, r := range rows {
		if r.State != jobs.Done || r.Unresolved() {
			f.Errorf("%s is %s %s, in doubt %v: %s %s", r.RowID, r.State, r.Reason, r.Unresolved(), r.LastClass, r.LastMessage)
		}
	}
	for key, body := range newest {
		f.written(key)
		if n := f.orders.MostAtOnce(key); n > 1 {
			f.Errorf("%d records of %s stood at once", n, key)
		}
		if rs := f.orders.Records(key); len(rs) == 1 && rs[0].Body != body {
			f.Errorf("%s is %s, want %s", key, rs[0].Body, body)
		}
	}
	for _, e := range f.orders.Effects() {
		if e.Back {
			f.Errorf("an older state was written over a newer one: %+v", e)
		}
	}
	for _, m := range append(alive, dead...) {
		m.end()
	}
}
