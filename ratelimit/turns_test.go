package ratelimit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// answeredWith makes one call that is answered so.
func answeredWith(t *testing.T, g *Gate, status int, lines ...string) {
	t.Helper()
	p, err := g.Enter(t.Context(), Ask{})
	if err != nil {
		t.Fatal(err)
	}
	p.Answer(t.Context(), Automatic.Read(status, told(lines...), time.Now()), time.Now())
}

// A refusal that the told quota explains teaches nothing about another one.
func TestARefusalThatWasToldToComeTeachesNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		defer g.Close()
		for range 20 {
			answeredWith(t, g, 200, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 500", "X-RateLimit-Reset: 60")
			time.Sleep(time.Second)
		}
		answeredWith(t, g, 429, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 40")
		time.Sleep(45 * time.Second)
		answeredWith(t, g, 200, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 999", "X-RateLimit-Reset: 60")
		if l := g.State(time.Now()).Learned; l.Rate != 0 {
			t.Errorf("a rate of %g was learned", l.Rate)
		}
		// One that nothing explains is about something that the server does not tell of.
		for range 20 {
			answeredWith(t, g, 200, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 900", "X-RateLimit-Reset: 60")
			time.Sleep(time.Second)
		}
		answeredWith(t, g, 429, "Retry-After: 1")
		time.Sleep(3 * time.Second)
		answeredWith(t, g, 200)
		if l := g.State(time.Now()).Learned; l.Rate == 0 {
			t.Error("nothing was learned of a quota that the server does not tell of")
		}
	})
}

func TestTheShareOfCallsAtOneTimeIsLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Share: 0.4}, nil)
		defer g.Close()
		answeredWith(t, g, 200, `RateLimit: "slots";r=9`, `RateLimit-Policy: "slots";q=10;qu="concurrent-requests"`)
		n := 0
		for ; n < 20; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := g.Enter(ctx, Ask{})
			cancel()
			if err != nil {
				break
			}
		}
		if n != 6 {
			t.Errorf("%d calls are under way at one time, want 6 of 10", n)
		}
	})
}

// What was told some time ago may have been spent by others since: one call finds out.
func TestAfterAQuietTimeOneCallFindsOutWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		defer g.Close()
		answeredWith(t, g, 200, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 900", "X-RateLimit-Reset: 3600")
		time.Sleep(time.Minute)
		var passes []Pass
		var mu sync.Mutex
		for range 5 {
			go func() {
				if p, err := g.Enter(t.Context(), Ask{}); err == nil {
					mu.Lock()
					passes = append(passes, p)
					mu.Unlock()
				}
			}()
		}
		synctest.Wait()
		if len(passes) != 1 {
			t.Fatalf("%d calls went at once, want one", len(passes))
		}
		passes[0].Answer(t.Context(), Automatic.Read(200, told("X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 800", "X-RateLimit-Reset: 3540"), time.Now()), time.Now())
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(passes) < 5 {
			t.Errorf("%d calls went after its answer, want the others, too", len(passes)-1)
		}
		for _, p := range passes[1:] {
			p.Drop(false)
		}
		time.Sleep(time.Hour)
	})
}

// A dear call is not overtaken for ever by cheaper ones of its kind.
func TestCallsOfOneKindGoInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		defer g.Close()
		p, err := g.Enter(t.Context(), Ask{Shape: "a", Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		p.Answer(t.Context(), Signal{Status: 200, Quotas: []Quota{{Limit: 100, Remaining: 20, Known: true, Restore: 1, Cost: 1}}}, time.Now())
		var order []float64
		var mu sync.Mutex
		for _, cost := range []float64{60, 1, 1} {
			go func() {
				p, err := g.Enter(t.Context(), Ask{Shape: "a", Cost: cost})
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, cost)
				mu.Unlock()
				p.Drop(false)
			}()
			synctest.Wait()
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 3 || order[0] != 60 {
			t.Errorf("they went in the order %v, want that in which they came", order)
		}
	})
}

// Who gives up at the very moment at which it is let go holds nothing afterwards.
func TestWhoGivesUpAtTheLastMomentHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 1.0 / 3600}, nil)
		defer g.Close()
		mustWait(t, g)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan Pass, 1)
			go func() {
				p, _ := g.Enter(ctx, Ask{})
				done <- p
			}()
			synctest.Wait()
			// It is let go and gives up before it can look.
			g.mu.Lock()
			cancel()
			for _, q := range g.queues {
				for _, w := range q {
					g.leave(w)
					w.flight = g.pacer.take(time.Now(), w.ask)
					close(w.done)
				}
			}
			g.mu.Unlock()
			if p := <-done; p != nil {
				p.Drop(false)
			}
			time.Sleep(time.Second)
		}
		if n := g.State(time.Now()).InFlight; n != 0 {
			t.Errorf("%d calls count as under way, and none is", n)
		}
	})
}

// How a quota comes back that nobody tells of is learned from what happens to calls that
// left after a refused one.
func TestHowAQuotaComesBackIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l learner
		episode := func(accepted, refused int) int {
			seq := uint64(0)
			call := func() *flight { seq++; return &flight{seq: seq, cost: 1} }
			for range 100 {
				l.accept(time.Now(), call())
				time.Sleep(10 * time.Millisecond)
			}
			l.refuse(time.Now(), call(), true)
			for range accepted {
				l.accept(time.Now(), call())
			}
			for range refused {
				l.refuse(time.Now(), call(), false)
			}
			time.Sleep(time.Second)
			l.reopened(time.Now())
			return l.fills
		}
		for _, c := range []struct{ accepted, refused, fills int }{{0, 5, -1}, {3, 0, 0}, {1, 4, 1}, {0, 1, 1}, {0, 0, 1}, {2, 0, 2}, {1, 0, 3}, {1, 0, 3}} {
			if got := episode(c.accepted, c.refused); got != c.fills {
				t.Errorf("after %d were accepted and %d refused that left later it is %d, want %d", c.accepted, c.refused, got, c.fills)
			}
		}
	})
}
