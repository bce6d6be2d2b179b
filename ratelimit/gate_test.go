package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a store in memory that can fail, and that can be made to wait.
type shelf struct {
	mu    sync.Mutex
	saved []Pause
	err   error
	hold  chan struct{}
}

func (s *shelf) SavePause(ctx context.Context, client string, p Pause) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.saved = append(s.saved, p)
	return nil
}

func (s *shelf) last(t *testing.T) Pause {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.saved) == 0 {
		t.Fatal("nothing was stored")
	}
	return s.saved[len(s.saved)-1]
}

// newGate makes a gate whose jitter is nil.
func newGate(t *testing.T, s Settings, store Store) *Gate {
	t.Helper()
	g, err := NewGate("shop", s, store, nil, func() float64 { return 0 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.pacer.ramp = 0 // as after a while
	return g
}

func mustWait(t *testing.T, g *Gate) {
	t.Helper()
	if err := enter(g, t.Context()); err != nil {
		t.Fatalf("wait: %v", err)
	}
}

func wantPaused(t *testing.T, g *Gate, reason string) Pause {
	t.Helper()
	begin := time.Now()
	err := enter(g, t.Context())
	var paused *PausedError
	if !errors.As(err, &paused) {
		t.Fatalf("wait gave %v, want a pause", err)
	}
	if paused.Pause.Reason != reason {
		t.Errorf("paused as %q, want %q", paused.Pause.Reason, reason)
	}
	if took := time.Since(begin); took != 0 {
		t.Errorf("wait took %s to say so", took)
	}
	return paused.Pause
}

func TestCallsFollowTheRate(t *testing.T) {
	tests := []struct {
		name  string
		s     Settings
		calls int
		want  time.Duration
	}{
		{"two a second", Settings{Rate: 2, Burst: 1}, 9, 4 * time.Second},
		{"one in two seconds", Settings{Rate: 0.5, Burst: 1}, 4, 6 * time.Second},
		{"burst of five first", Settings{Rate: 1, Burst: 5}, 8, 3 * time.Second},
		{"burst left out is one, never zero", Settings{Rate: 2}, 3, time.Second},
		{"no rate configured", Settings{}, 1000, 0},
		{"burst without a rate", Settings{Burst: 3}, 1000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, tt.s, nil)
				begin := time.Now()
				var all sync.WaitGroup
				for range tt.calls {
					all.Go(func() { mustWait(t, g) })
				}
				all.Wait()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("%d calls took %s, want %s", tt.calls, took, tt.want)
				}
			})
		})
	}
}

func TestPausedClientRefusesAtOnceAndCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 2, Burst: 1}, nil)
		mustWait(t, g)
		observe(g, t.Context(), Signal{Throttled: true, HasRetryAfter: true, RetryAfter: time.Minute, Status: 429, Evidence: "429 Retry-After: 60"}, time.Now())
		for range 20 {
			wantPaused(t, g, ReasonThrottled)
		}
		time.Sleep(time.Minute - 1)
		wantPaused(t, g, ReasonThrottled)
		time.Sleep(time.Nanosecond)
		mustWait(t, g)
	})
}

func TestPauseReachesThoseWhoAlreadyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 0.01, Burst: 1}, nil)
		mustWait(t, g)
		var all sync.WaitGroup
		begin := time.Now()
		for range 20 {
			all.Go(func() {
				var paused *PausedError
				if err := enter(g, t.Context()); !errors.As(err, &paused) {
					t.Errorf("waiter got %v, want a pause", err)
				}
			})
		}
		synctest.Wait()
		if n := g.State(time.Now()).Waiting; n != 20 {
			t.Errorf("%d wait, want 20", n)
		}
		if err := g.PauseFor(t.Context(), ReasonBreaker, "", time.Hour); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if took := time.Since(begin); took != 0 {
			t.Errorf("the pause took %s to reach them", took)
		}
		if n := g.State(time.Now()).Waiting; n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// hooked is a context that runs a hook when it is first waited for.
type hooked struct {
	context.Context
	hook func()
}

func (c *hooked) Done() <-chan struct{} {
	if c.hook != nil {
		c.hook()
		c.hook = nil
	}
	return c.Context.Done()
}

func TestPauseThatComesWhileATokenIsTakenIsSeen(t *testing.T) {
	for range 50 { // the token and the news of the pause race each time
		g := newGate(t, Settings{Rate: 1, Burst: 1}, nil)
		ctx := &hooked{t.Context(), func() { _ = g.PauseFor(t.Context(), ReasonOperator, "", time.Hour) }}
		var paused *PausedError
		if err := enter(g, ctx); !errors.As(err, &paused) {
			t.Fatalf("got %v, want a pause", err)
		}
	}
}

func TestShutdownInterruptsAWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 0.001, Burst: 1}, nil)
		mustWait(t, g)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := enter(g, ctx); err != context.Canceled {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		cancel()
		all.Wait()
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}

func TestDeadlineBeforeTheNextTokenIsTheContextsErrorAndCostsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 0.5, Burst: 1}, nil)
		mustWait(t, g)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := enter(g, ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("gave up after %s, before its deadline", took)
		}
		mustWait(t, g)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("next token after %s, want the one that was given back at 2 s", took)
		}
	})
}

func TestNewRateReachesThoseWhoAlreadyWait(t *testing.T) {
	tests := []struct {
		name string
		rate float64
		want time.Duration // for the ten who wait, from the change
	}{
		{"slower", 1, 10 * time.Second},
		{"faster", 1000, 10 * time.Millisecond},
		{"none", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, Settings{Rate: 10, Burst: 1}, nil)
				mustWait(t, g)
				begin := time.Now()
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { mustWait(t, g) })
				}
				synctest.Wait()
				if err := g.SetRate(tt.rate, 1); err != nil {
					t.Fatal(err)
				}
				all.Wait()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("ten waiters took %s, want %s", took, tt.want)
				}
			})
		})
	}
}

func TestWorkGoesOnAfterARateIsSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		for _, r := range []float64{0.001, 2} {
			if err := g.SetRate(r, 0); err != nil {
				t.Fatal(err)
			}
			mustWait(t, g)
		}
		if err := g.SetRate(-1, 0); err == nil {
			t.Error("a negative rate was taken")
		}
		if s := g.State(time.Now()); s.Rate != 2 || s.Burst != 1 {
			t.Errorf("rate %v, burst %d after a refused change", s.Rate, s.Burst)
		}
	})
}

func TestSettingTheSameRateManyTimesMintsNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 10, Burst: 10}, nil)
		begin, calls := time.Now(), 0
		for time.Since(begin) < time.Second {
			if err := g.SetRate(10, 10+calls%2); err != nil {
				t.Fatal(err)
			}
			mustWait(t, g)
			calls++
		}
		if calls > 22 {
			t.Errorf("%d calls in a second, at 10 per second and a burst of 10", calls)
		}
	})
}

func TestAfterAPauseCallsFollowTheRateNotTheSavedUpBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 2, Burst: 20}, nil)
		observe(g, t.Context(), Signal{Throttled: true, HasRetryAfter: true, RetryAfter: time.Minute, Status: 429}, time.Now())
		time.Sleep(time.Minute)
		begin, inFirstSecond := time.Now(), 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				mustWait(t, g)
				mu.Lock()
				defer mu.Unlock()
				if time.Since(begin) < time.Second {
					inFirstSecond++
				}
			})
		}
		all.Wait()
		if inFirstSecond > 3 {
			t.Errorf("%d of 20 went out in the first second after the pause, at 2 per second", inFirstSecond)
		}
	})
}

// refusing is a server that allows two calls a second and refuses the others
// with "Retry-After: 2".
type refusing struct {
	mu       sync.Mutex
	times    []time.Time
	refusals int
}

func (s *refusing) call() Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	recent := 0
	for _, at := range s.times {
		if now.Sub(at) < time.Second {
			recent++
		}
	}
	s.times = append(s.times, now)
	if recent >= 2 {
		s.refusals++
		return Signal{Throttled: true, HasRetryAfter: true, RetryAfter: 2 * time.Second, Status: 429, Evidence: "429 Retry-After: 2"}
	}
	return Signal{Status: 200}
}

func TestTwentyWorkersAreRefusedOnlyAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{Rate: 2, Burst: 5}, nil)
		var server refusing
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for {
					changed := g.Changed()
					if err := enter(g, t.Context()); err != nil {
						<-changed
						continue
					}
					sig := server.call()
					observe(g, t.Context(), sig, time.Now())
					if !sig.Throttled {
						return
					}
				}
			})
		}
		all.Wait()
		if server.refusals > 4 {
			t.Errorf("%d of %d calls were refused", server.refusals, len(server.times))
		}
	})
}

func TestWhoWaitsForChangesIsToldOfBothEndsOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		closed := g.Changed()
		if err := g.PauseFor(t.Context(), ReasonUnavailable, "", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		<-closed
		opened := g.Changed()
		time.Sleep(4 * time.Second)
		if err := g.PauseFor(t.Context(), ReasonUnavailable, "", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		<-opened
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("told after %s, want at the end of the lengthened pause, 10 s", took)
		}
		if s := g.State(time.Now()); !s.Open || s.Pause != (Pause{}) {
			t.Errorf("state is %+v", s)
		}
	})
}

func TestPausedErrorSaysWhyAndUntilWhen(t *testing.T) {
	end := time.Date(2026, 11, 29, 10, 1, 0, 0, time.UTC)
	tests := []struct {
		name string
		p    Pause
		want string
	}{
		{"throttled", Pause{Until: end, Reason: ReasonThrottled, Evidence: "429 Retry-After: 60 at 2026-11-29T10:00:00Z"},
			`client "shop" is paused (throttled) until 2026-11-29T10:01:00Z: 429 Retry-After: 60 at 2026-11-29T10:00:00Z`},
		{"open-ended", Pause{Until: Forever(), Reason: ReasonOperator}, `client "shop" is paused (operator)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(&PausedError{Client: "shop", Pause: tt.p}); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
