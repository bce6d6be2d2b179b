package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// calls tells of n calls that each took trip to be answered by sig, begun one after the other as the gate let them.
func calls(t *testing.T, g *Gate, n int, a Ask, trip time.Duration, sig Signal) (took time.Duration) {
	t.Helper()
	begun := time.Now()
	for range n {
		p, err := g.Enter(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(trip)
		p.Answer(t.Context(), sig, time.Now())
	}
	return time.Since(begun)
}

func says(quotas ...Quota) Signal { return Signal{Status: 200, Quotas: quotas} }

func TestWhatIsLeftIsSpreadOverTheRestOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		end := time.Now().Add(time.Minute)
		for left := 99.0; left > 0; left-- {
			p, err := g.Enter(t.Context(), Ask{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			p.Answer(t.Context(), says(Quota{Limit: 100, Remaining: left, Known: true, Window: time.Minute, Reset: time.Until(end)}), time.Now())
		}
		if over := time.Until(end); over < 0 || over > 3*time.Second {
			t.Errorf("the quota was spent %s before the end of its window", over)
		}
	})
}

func TestAQuotaThatIsUsedUpIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		calls(t, g, 1, Ask{}, time.Millisecond, says(Quota{Limit: 100, Remaining: 0, Known: true, Reset: 40*time.Second + 500*time.Millisecond}))
		if st := g.State(time.Now()); !st.Open || len(st.Quotas) != 1 || st.Quotas[0].Left != 0 || time.Until(st.Quotas[0].Resets) < 40*time.Second {
			t.Errorf("%+v", st)
		}
		begun := time.Now()
		p, err := g.Enter(t.Context(), Ask{})
		if took := time.Since(begun); err != nil || took < 40500*time.Millisecond || took > 41*time.Second {
			t.Fatalf("waited %s, %v", took, err)
		}
		// It went alone: nobody knows yet what there is now.
		ctx, cancel := context.WithTimeout(t.Context(), patience-time.Second)
		defer cancel()
		if _, err := g.Enter(ctx, Ask{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another went beside it: %v", err)
		}
		p.Answer(t.Context(), says(Quota{Limit: 100, Remaining: 99, Known: true, Reset: time.Minute}), time.Now())
		if took := calls(t, g, 5, Ask{}, time.Millisecond, says(Quota{Limit: 100, Remaining: 90, Known: true, Reset: time.Minute})); took > 5*time.Second { // others took all of the last one
			t.Errorf("the next five took %s", took)
		}
	})
}

func TestTheShareOfOthersIsLeftToThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Share: 0.25}, nil)
		calls(t, g, 1, Ask{}, time.Millisecond, says(Quota{Limit: 100, Remaining: 25.5, Known: true, Reset: time.Minute}))
		begun := time.Now()
		if err := g.Ready(t.Context(), Ask{}); err != nil || time.Since(begun) < time.Minute {
			t.Errorf("ready after %s, %v", time.Since(begun), err)
		}
	})
}

func TestTheMostRestrictiveQuotaCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		sig := says(Quota{Scope: "minute", Limit: 60, Remaining: 59, Known: true, Reset: time.Minute},
			Quota{Scope: "day", Limit: 1000, Remaining: 0, Known: true, Reset: 10 * time.Minute})
		calls(t, g, 1, Ask{}, time.Millisecond, sig)
		begun := time.Now()
		if err := g.Ready(t.Context(), Ask{}); err != nil || time.Since(begun) < 10*time.Minute {
			t.Errorf("ready after %s, %v", time.Since(begun), err)
		}
	})
}

func TestABucketIsDebitedByWhatCallsOfAShapeCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		bucket := func(left, cost float64) Signal {
			return says(Quota{Limit: 1000, Remaining: left, Known: true, Restore: 50, Cost: cost})
		}
		calls(t, g, 1, Ask{Shape: "big"}, time.Millisecond, bucket(500, 400))
		calls(t, g, 1, Ask{Shape: "small"}, time.Millisecond, bucket(110, 1))
		if took := calls(t, g, 3, Ask{Shape: "small"}, time.Millisecond, bucket(110, 1)); took > time.Second {
			t.Errorf("three small ones took %s", took)
		}
		begun := time.Now()
		if err := g.Ready(t.Context(), Ask{Shape: "big"}); err != nil || time.Since(begun) < 5*time.Second || time.Since(begun) > 10*time.Second {
			t.Errorf("the big one waited for %s, %v", time.Since(begun), err)
		}
		// What can never fit goes when all is there; the server will say what it thinks of it.
		begun = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Ready(ctx, Ask{Shape: "huge", Cost: 5000}); err != nil {
			t.Errorf("one that can never fit: %v after %s", err, time.Since(begun))
		}
	})
}

func TestCallsOfShapesThatAreCountedApartDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		calls(t, g, 1, Ask{Shape: "orders"}, time.Millisecond, says(Quota{Limit: 20, Remaining: 0, Known: true, Reset: time.Minute}))
		p, err := g.Enter(t.Context(), Ask{Kind: Writing, Shape: "stock"}) // nothing is known of it, so it waits for the orders'
		if err != nil {
			t.Fatal(err)
		}
		p.Answer(t.Context(), says(Quota{Limit: 500, Remaining: 400, Known: true, Reset: time.Minute}), time.Now())
		calls(t, g, 1, Ask{Shape: "orders"}, time.Millisecond, says(Quota{Limit: 20, Remaining: 0, Known: true, Reset: time.Minute}))
		if took := calls(t, g, 10, Ask{Kind: Writing, Shape: "stock"}, time.Millisecond, says(Quota{Limit: 500, Remaining: 390, Known: true, Reset: time.Minute})); took > 5*time.Second {
			t.Errorf("ten for the stock took %s", took)
		}
	})
}

func TestReadingAndWritingTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 1, Burst: 1}, nil)
		var went []Kind
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		done := make(chan struct{})
		for i := range 40 { // a crowd of writers, and two readers
			kind := Writing
			if i >= 38 {
				kind = Reading
			}
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					p, err := g.Enter(ctx, Ask{Kind: kind})
					if err != nil {
						return
					}
					went = append(went, kind) // one in a second
					p.Answer(ctx, Signal{Status: 200}, time.Now())
				}
			}()
		}
		for range 40 {
			<-done
		}
		if n := len(slices.DeleteFunc(slices.Clone(went), func(k Kind) bool { return k == Writing })); n < 9 || n > 11 {
			t.Errorf("of %d calls %d were readings, want half: %v", len(went), n, went)
		}
	})
}

func TestAfterAPauseCallsBeginAgainOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		observe(g, t.Context(), throttled(10*time.Second), time.Now())
		time.Sleep(20 * time.Second)
		// What each round lets out together: one, then twice as many.
		for _, want := range []int{1, 2, 4, 8, 16, 32, 64} {
			var round []Pass
			for len(round) < 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				p, err := g.Enter(ctx, Ask{})
				cancel()
				if err != nil {
					break
				}
				round = append(round, p)
			}
			if len(round) != want && want < 64 {
				t.Errorf("%d went together, want %d", len(round), want)
			}
			time.Sleep(10 * time.Millisecond)
			for _, p := range round {
				p.Answer(t.Context(), Signal{Status: 200}, time.Now())
			}
		}
		if g.pacer.ramp != 0 {
			t.Errorf("the ramp has no end: %d", g.pacer.ramp)
		}
	})
}

func TestTheFirstCallGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGate("shop", Settings{}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := g.Enter(t.Context(), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan time.Time)
		go func() {
			p, err := g.Enter(t.Context(), Ask{})
			if err != nil {
				t.Error(err)
				return
			}
			p.Drop(true)
			second <- time.Now()
		}()
		time.Sleep(time.Second)
		answered := time.Now()
		first.Answer(t.Context(), Signal{Status: 200}, answered)
		if at := <-second; at.Before(answered) {
			t.Errorf("the second went %s before the first was answered", answered.Sub(at))
		}
		// But nobody waits for ever for an answer.
		g, _ = NewGate("shop", Settings{}, nil, nil, nil, nil)
		begun := time.Now()
		for range 2 {
			if _, err := g.Enter(t.Context(), Ask{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != patience {
			t.Errorf("the second waited for %s", took)
		}
	})
}

func TestWhatWasLearnedIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		calls(t, g, 300, Ask{}, 100*time.Millisecond, Signal{Status: 200})
		observe(g, t.Context(), throttled(time.Second), time.Now())
		time.Sleep(2 * time.Second)
		calls(t, g, 1, Ask{}, time.Millisecond, Signal{Status: 200})
		l := g.State(time.Now()).Learned
		if l.Rate < 8 || l.Rate > 11 {
			t.Fatalf("learned %+v", l)
		}
		next := newGate(t, Settings{}, nil)
		next.Recall(l)
		if took := calls(t, next, 90, Ask{}, time.Millisecond, Signal{Status: 200}); took < 5*time.Second || took > 12*time.Second {
			t.Errorf("90 calls took %s", took)
		}
		wrong := newGate(t, Settings{}, nil)
		wrong.Recall(Learned{Rate: -1})
		if took := calls(t, wrong, 90, Ask{}, time.Millisecond, Signal{Status: 200}); took > time.Second {
			t.Errorf("90 calls took %s", took)
		}
	})
}

func TestCallsAtOneTimeAreKeptToWhatTheServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		var under []Pass
		for range 10 {
			p, err := g.Enter(t.Context(), Ask{})
			if err != nil {
				t.Fatal(err)
			}
			under = append(under, p)
		}
		under[9].Answer(t.Context(), Signal{Status: 429, Throttled: true, Concurrent: true, Evidence: "429"}, time.Now())
		for _, p := range under[:9] {
			p.Answer(t.Context(), Signal{Status: 200}, time.Now())
		}
		most := func() (n int) {
			var open []Pass
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				p, err := g.Enter(ctx, Ask{})
				cancel()
				if err != nil || n == 100 {
					break
				}
				open = append(open, p)
				n++
			}
			for _, p := range open {
				p.Answer(t.Context(), Signal{Status: 200}, time.Now())
			}
			return n
		}
		time.Sleep(10 * time.Second)
		for range 8 { // past the ramp
			most()
		}
		if n := most(); n != 9 {
			t.Errorf("%d at once, want 9", n)
		}
		time.Sleep(atOnceEvery)
		if n := most(); n != 10 {
			t.Errorf("%d at once later, want 10", n)
		}
	})
}

func TestCallsThatWaitByThemselvesDoSoAtAnotherGateToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{MaxPause: time.Hour}, nil)
		now := time.Now()
		g.RecallShapes([]ShapePause{
			{"a", Pause{Until: now.Add(time.Minute), Evidence: "429"}},
			{"b", Pause{Until: now.Add(-time.Minute)}},
			{"c", Pause{Until: now.Add(30 * 24 * time.Hour)}},
			{"", Pause{Until: now.Add(time.Minute)}},
		})
		for shape, waits := range map[string]time.Duration{"a": time.Minute, "b": 0, "c": time.Hour, "": 0} {
			p, err := g.Enter(t.Context(), Ask{Shape: shape})
			var paused *PausedError
			switch {
			case waits == 0 && err == nil:
				p.Drop(false)
			case waits == 0 || !errors.As(err, &paused) || paused.Pause.Until.Sub(now) != waits:
				t.Errorf("calls of %q: %v, want them to wait for %s", shape, err, waits)
			}
		}
		if s := g.State(now); !s.Open || len(s.Shapes) != 2 || s.Shapes[0].Shape != "a" {
			t.Errorf("shown is %+v", s)
		}
		time.Sleep(2 * time.Minute)
		if s := g.State(time.Now()); len(s.Shapes) != 1 {
			t.Errorf("later shown is %+v", s.Shapes)
		}
	})
}

// An answer that says that too many calls are under way, and not for sure that it is a
// refusal, lowers how many go at one time and pauses nobody.
func TestACrowdIsThinnedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		var under []Pass
		for range 10 {
			p, err := g.Enter(t.Context(), Ask{})
			if err != nil {
				t.Fatal(err)
			}
			under = append(under, p)
		}
		under[9].Answer(t.Context(), Signal{Status: 503, Concurrent: true}, time.Now())
		if s := g.State(time.Now()); !s.Open || s.HeldBy != "" {
			t.Errorf("it is %+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Enter(ctx, Ask{}); err == nil {
			t.Error("a tenth call goes beside nine")
		}
		under[8].Answer(t.Context(), Signal{Status: 200}, time.Now())
		if _, err := g.Enter(t.Context(), Ask{}); err != nil {
			t.Error("none goes beside eight:", err)
		}
	})
}

func TestWhereOneKindOfCallsAloneIsRefusedItAloneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		call := func(shape string, sig Signal) error {
			p, err := g.Enter(t.Context(), Ask{Shape: shape})
			if err != nil {
				return err
			}
			p.Answer(t.Context(), sig, time.Now())
			return nil
		}
		if err := call("exports", throttled(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		var paused *PausedError
		if err := call("orders", Signal{Status: 200}); !errors.As(err, &paused) {
			t.Fatalf("the first refusal closes the client for everyone: %v", err)
		}
		time.Sleep(20 * time.Second)
		if err := call("orders", Signal{Status: 200}); err != nil {
			t.Fatal(err)
		}
		if err := call("exports", throttled(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := call("orders", Signal{Status: 200}); err != nil {
				t.Errorf("orders wait too: %v", err)
			}
		}
		if err := call("exports", Signal{Status: 200}); !errors.As(err, &paused) || time.Until(paused.Pause.Until) < 59*time.Second || !strings.Contains(paused.Pause.Evidence, `only calls of "exports" are refused`) {
			t.Errorf("exports go on: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := call("exports", Signal{Status: 200}); err != nil {
			t.Errorf("exports wait for ever: %v", err)
		}
		// Served once, they are like all others.
		if err := call("exports", throttled(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := call("orders", Signal{Status: 200}); !errors.As(err, &paused) {
			t.Errorf("the client goes on: %v", err)
		}
	})
}

func TestAnswersThatComeInAnotherOrderDoNotMislead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		quota := func(left float64) Signal {
			return says(Quota{Limit: 100, Remaining: left, Known: true, Reset: time.Minute})
		}
		var under []Pass
		for range 3 {
			p, err := g.Enter(t.Context(), Ask{})
			if err != nil {
				t.Fatal(err)
			}
			under = append(under, p)
		}
		under[2].Answer(t.Context(), quota(7), time.Now())
		under[0].Answer(t.Context(), quota(9), time.Now())
		under[1].Answer(t.Context(), quota(8), time.Now())
		if st := g.State(time.Now()); len(st.Quotas) != 1 || st.Quotas[0].Left != 7 {
			t.Errorf("%+v", st.Quotas)
		}
	})
}

func TestARefusalOfTheFirstCallEverTeachesNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		for range 5 {
			time.Sleep(time.Hour)
			observe(g, t.Context(), throttled(time.Second), time.Now())
		}
		time.Sleep(time.Hour)
		if took := calls(t, g, 100, Ask{}, time.Millisecond, Signal{Status: 200}); took > time.Second {
			t.Errorf("a hundred calls took %s", took)
		}
	})
}

func TestAPassIsEndedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		p, err := g.Enter(t.Context(), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		p.Answer(t.Context(), Signal{Status: 200}, time.Now())
		p.Drop(true)
		if p.Answer(t.Context(), throttled(time.Minute), time.Now()) {
			t.Error("the second answer counted")
		}
		p, _ = g.Enter(t.Context(), Ask{})
		p.Drop(false)
		p.Drop(false)
		if st := g.State(time.Now()); !st.Open || st.InFlight != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// FuzzPace has a gate told anything, and looks whether it still answers.
func FuzzPace(f *testing.F) {
	f.Add("100", "5", "30", "", int64(1))
	f.Add("-1", "1e300", "99999999999999999999", "0.00001", int64(-1))
	f.Fuzz(func(t *testing.T, limit, remaining, reset, retry string, cost int64) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, Settings{Share: 0.5}, nil)
			h := http.Header{"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}}
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 365*24*time.Hour)
				p, err := g.Enter(ctx, Ask{Cost: float64(cost), Shape: fmt.Sprint(i % 3)})
				cancel()
				if err != nil {
					return
				}
				status := 200
				if i%7 == 6 {
					status = 429
					h.Set("Retry-After", retry)
				}
				p.Answer(t.Context(), Automatic.Read(status, h, time.Now()), time.Now())
				if n := g.Within(time.Second, Ask{}); n < 0 {
					t.Fatalf("%d within a second", n)
				}
			}
		})
	})
}
