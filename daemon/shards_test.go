package daemon

import (
	"slices"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

func TestShardsShareAClient(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.plan = func() *Plan { return f.planned(4) }
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(3 * time.Minute)
		for n := range 60 {
			defer f.written(f.order(n))
		}
		f.pass(30 * time.Second)
		if f.wrote["a"]+f.wrote["b"] != 60 || f.wrote["a"] < 10 || f.wrote["b"] < 10 {
			t.Errorf("the daemons wrote %v, want both some of 60", f.wrote)
		}
		// Another number waits until every daemon is configured so.
		f.plan = func() *Plan { return f.planned(3) }
		done := make(chan error, 1)
		a.reload <- Reload{Plan: a.own(f.plan()), Done: done}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.pass(time.Minute)
		if n, err := a.daemon.journal.Sharded(t.Context(), "erp"); n != 4 || err != nil {
			t.Errorf("split into %d (%v) while a daemon is configured for 4", n, err)
		}
		b.reload <- Reload{Plan: b.own(f.plan()), Done: done}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.pass(3 * time.Minute)
		if n, err := a.daemon.journal.Sharded(t.Context(), "erp"); n != 3 || err != nil {
			t.Errorf("split into %d (%v), want 3", n, err)
		}
		for n := range 60 {
			defer f.written(f.order(100 + n))
		}
		f.pass(30 * time.Second)
		b.end()
		f.pass(3 * time.Second)
		a.end()
	})
}

// lanesOf are the lanes of a client that these daemons run.
func (f *fleet) lanesOf(client string, ms ...*member) (out []*tenure) {
	for _, m := range ms {
		m.daemon.mu.Lock()
		r := m.daemon.current
		m.daemon.mu.Unlock()
		for _, t := range r.all() {
			if t.hold.Client == client {
				out = append(out, t)
			}
		}
	}
	return out
}

func TestShardsPauseAndGoOnTogether(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.plan = func() *Plan { return f.planned(4) }
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(3 * time.Minute)
		lanes, many, few := f.lanesOf("erp", a, b), a, b
		if len(f.lanesOf("erp", a)) < 2 {
			many, few = b, a
		}
		mine, others := f.lanesOf("erp", many), f.lanesOf("erp", few)
		if len(mine) < 2 || len(others) < 1 {
			t.Errorf("one daemon has %d lanes of the client, the other %d", len(mine), len(others))
			b.end()
			a.end()
			return
		}
		one, two, other := mine[0], mine[1], others[0]
		pause := func(l *tenure, d time.Duration) {
			t.Helper()
			if err := l.client.gate.PauseFor(t.Context(), ratelimit.ReasonThrottled, "429", d); err != nil {
				t.Fatal(err)
			}
		}
		all := func(when string, open bool) {
			t.Helper()
			for _, l := range lanes {
				if st := l.client.gate.State(time.Now()); st.Open != open {
					t.Errorf("%s: lane %s is open: %v (%+v)", when, l.hold.LaneID, st.Open, st.Pause)
				}
			}
		}
		all("at first", true)
		began := time.Now()
		pause(one, 10*time.Minute)
		f.pass(1200 * time.Millisecond)
		all("after one lane was paused", false)
		f.pass(time.Until(began.Add(10*time.Minute + 2*time.Second)))
		all("when the pause is over", true)

		// Each is stored before the other is known; the breaker of a third lane closes.
		began = time.Now()
		pause(other, 10*time.Minute)
		pause(one, 5*time.Second)
		two.client.keepBreaker(many.daemon.journal, breaker.Closed, breaker.Why{})
		f.pass(3 * time.Second)
		all("after a long and a short pause", false)
		f.pass(10 * time.Second)
		all("when the short one is over", false)
		cs, err := a.daemon.journal.Clients(t.Context())
		if i := slices.IndexFunc(cs, func(c jobs.ClientState) bool { return c.Client == "erp" }); err != nil || i < 0 || cs[i].PausedUntil.Before(began.Add(9*time.Minute)) {
			t.Errorf("stored is %+v, %v", cs, err)
		}

		// One lane finds that it may go on, and another one is refused right after.
		if err := one.client.gate.Resume(t.Context(), "an answer"); err != nil {
			t.Fatal(err)
		}
		f.pass(1200 * time.Millisecond)
		all("after one lane went on", true)
		if err := two.client.gate.Resume(t.Context(), "an answer"); err != nil {
			t.Fatal(err)
		}
		pause(two, time.Minute)
		f.pass(2500 * time.Millisecond)
		all("after one lane was paused again", false)
		b.end()
		a.end()
	})
}

func TestAWriteLongerThanTheLeaseStaysWithItsDaemon(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(2 * time.Minute)
		f.hang.Store(int64(10 * f.terms.For))
		key := f.order(1)
		f.pass(5 * f.terms.For)
		if n := f.wrote["a"] + f.wrote["b"]; n != 1 {
			t.Errorf("the write was begun %d times while it is under way, want once", n)
		}
		f.hang.Store(0)
		f.pass(10 * f.terms.For)
		f.written(key)
		d, _, err := a.daemon.journal.Get(t.Context(), jobs.RowID{Flow: "orders", Key: key})
		if err != nil || d.Row.State != jobs.Done || slices.ContainsFunc(d.Attempts, func(a jobs.Attempt) bool { return a.Class == connectors.Lost }) {
			t.Errorf("it is %s (%v), after %+v", d.Row.State, err, d.Attempts)
		}
		b.end()
		a.end()
	})
}

func TestEachPartOfASmallRateIsARate(t *testing.T) {
	for _, rate := range []float64{0, 1. / (11 * 24 * 3600), 1. / (24 * 3600), 0.5, 2, 1e6} {
		for _, shards := range []int{1, 2, 12, 256} {
			whole := &ClientPlan{Name: "erp", Concurrency: 256, Shards: shards, Gate: ratelimit.Settings{Rate: rate, Burst: 3}}
			sum := 0.0
			for i := range shards {
				part := whole.shard(&jobs.Hold{LaneID: jobs.LaneID{Client: "erp", Shard: i}})
				sum += part.Gate.Rate
				g, err := ratelimit.NewGate("erp", part.Gate, nil, nil, nil, nil)
				if err != nil {
					t.Fatalf("part %d of %d of %v a second: %v", i, shards, rate, err)
				}
				if st := g.State(time.Now()); rate > 0 && (st.Rate <= 0 || st.Burst < 1) || rate == 0 && st.Rate != 0 {
					t.Errorf("part %d of %d of %v a second is %v, %d at once", i, shards, rate, st.Rate, st.Burst)
				}
			}
			if sum < rate*0.999 || sum > 1.001*max(rate, ratelimit.MinRate*float64(shards)) {
				t.Errorf("%d parts of %v a second are %v together", shards, rate, sum)
			}
		}
	}
}
