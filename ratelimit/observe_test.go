package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func throttled(after time.Duration) Signal {
	return Signal{Throttled: true, HasRetryAfter: true, RetryAfter: after, Status: 429, Evidence: "429 Retry-After: 60"}
}

func TestSignalsPauseForAsLongAsTheySay(t *testing.T) {
	tests := []struct {
		name   string
		sig    Signal
		want   time.Duration // 0: no pause
		reason string
	}{
		{"429 with 60 s", throttled(time.Minute), time.Minute, ReasonThrottled},
		{"429 with half a second waits our least", throttled(500 * time.Millisecond), time.Second, ReasonThrottled},
		{"429 with zero or the past waits our least", throttled(0), time.Second, ReasonThrottled},
		{"429 without a usable header starts at half of one second, and waits our least", Signal{Throttled: true, Status: 429}, time.Second, ReasonThrottled},
		{"429 with many years is capped", throttled(maxRetryAfter), 24 * time.Hour, ReasonThrottled},
		{"vendor's refusal in a 200", Signal{Throttled: true, HasRetryAfter: true, RetryAfter: 7600 * time.Millisecond, Status: 200}, 7600 * time.Millisecond, ReasonThrottled},
		{"503 with half an hour", Signal{HasRetryAfter: true, RetryAfter: 30 * time.Minute, Status: 503}, 30 * time.Minute, ReasonUnavailable},
		{"503 with zero waits our least", Signal{HasRetryAfter: true, Status: 503}, time.Second, ReasonUnavailable},
		{"503 without a header is no pause", Signal{Status: 503}, 0, ""},
		{"500 with a header is no pause", Signal{HasRetryAfter: true, RetryAfter: time.Minute, Status: 500}, 0, ""},
		{"200 with a header is no pause", Signal{HasRetryAfter: true, RetryAfter: time.Minute, Status: 200}, 0, ""},
		{"403 is no pause", Signal{Status: 403}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, Settings{}, nil)
				paused := observe(g, t.Context(), tt.sig, time.Now())
				if paused != (tt.want > 0) {
					t.Fatalf("paused: %t", paused)
				}
				if !paused {
					mustWait(t, g)
					return
				}
				p := wantPaused(t, g, tt.reason)
				if got := time.Until(p.Until); got != tt.want {
					t.Errorf("paused for %s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestPauseOnlyGrowsBySignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		g := newGate(t, Settings{}, store)
		begin := time.Now().UTC()
		observe(g, t.Context(), throttled(time.Minute), time.Now())
		time.Sleep(time.Second)
		observe(g, t.Context(), throttled(10*time.Second), time.Now())
		if got := wantPaused(t, g, ReasonThrottled); !got.Until.Equal(begin.Add(time.Minute)) {
			t.Errorf("shortened to %s", got.Until)
		}
		observe(g, t.Context(), Signal{HasRetryAfter: true, RetryAfter: 2 * time.Minute, Status: 503, Evidence: "503 Retry-After: 120"}, time.Now())
		got := wantPaused(t, g, ReasonUnavailable)
		want := Pause{Until: begin.Add(121 * time.Second), Reason: ReasonUnavailable,
			Evidence: "503 Retry-After: 120 at 2000-01-01T00:00:01Z", Since: begin, Strikes: 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pause (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, store.last(t)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestOperatorsPauseOutlastsASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{MaxPause: time.Hour}, nil)
		if err := g.Suspend(t.Context(), ReasonOperator, "stocktaking", 0); err != nil {
			t.Fatal(err)
		}
		observe(g, t.Context(), throttled(time.Minute), time.Now())
		time.Sleep(1000 * time.Hour)
		wantPaused(t, g, ReasonOperator)
		if err := g.Resume(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		mustWait(t, g)
	})
}

func TestRefusalsWithoutLengthPauseLongerEachTimeUntilServedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGate("shop", Settings{DefaultPause: 4 * time.Second}, nil, nil, func() float64 { return 0.5 }, nil)
		if err != nil {
			t.Fatal(err)
		}
		refused := func() time.Duration {
			mustWait(t, g)
			// Three workers were on the wire and are all refused: one strike.
			for range 3 {
				observe(g, t.Context(), Signal{Throttled: true, Status: 429}, time.Now())
			}
			d := time.Until(g.State(time.Now()).Pause.Until)
			time.Sleep(d)
			return d
		}
		want := []time.Duration{3, 6, 12, 24, 48, 96, 192, 225, 225}
		for i, w := range want {
			if got := refused(); got != w*time.Second {
				t.Errorf("pause %d lasts %s, want %s", i+1, got, w*time.Second)
			}
		}
		observe(g, t.Context(), Signal{Status: 500}, time.Now())
		if n := g.State(time.Now()).Strikes; n != len(want) {
			t.Errorf("%d strikes after a 500, want %d", n, len(want))
		}
		observe(g, t.Context(), Signal{Status: 200}, time.Now())
		if got := refused(); got != 3*time.Second {
			t.Errorf("after a good answer the pause lasts %s, want 3s", got)
		}
	})
}

func TestGoodAnswerDuringAPauseProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, nil)
		observe(g, t.Context(), Signal{Throttled: true, Status: 429}, time.Now())
		observe(g, t.Context(), Signal{Status: 200}, time.Now())
		if s := g.State(time.Now()); s.Open || s.Strikes != 1 {
			t.Errorf("state is %+v", s)
		}
	})
}

func TestRetryAfterIsNeverUndercutAndSpreadALittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, random := range []float64{0, 0.25, 0.999} {
			g, err := NewGate("shop", Settings{}, nil, nil, func() float64 { return random }, nil)
			if err != nil {
				t.Fatal(err)
			}
			observe(g, t.Context(), throttled(time.Minute), time.Now())
			if d := time.Until(g.State(time.Now()).Pause.Until); d < time.Minute || d > 65*time.Second {
				t.Errorf("asked for a minute, random %v: pause of %s", random, d)
			}
		}
	})
}

func TestServerThatAsksForMoreThanMaxPauseIsNotCalledEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g, err := NewGate("shop", Settings{MaxPause: 15 * time.Minute}, nil, nil, nil, slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		observe(g, t.Context(), Signal{HasRetryAfter: true, RetryAfter: 9999 * time.Second, Status: 503, Evidence: "503 Retry-After: 9999"}, time.Now())
		p := wantPaused(t, g, ReasonBeyond)
		if want := "503 Retry-After: 9999 at 2000-01-01T00:00:00Z (more than max_pause, 15m0s)"; p.Evidence != want {
			t.Errorf("evidence is %q, want %q", p.Evidence, want)
		}
		if d := time.Until(p.Until); d < 9999*time.Second || d > 9999*time.Second+5*time.Second {
			t.Errorf("paused for %s", d)
		}
		if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "syncd resume shop") {
			t.Errorf("the log raises no alarm: %s", out.String())
		}
		again := newGate(t, Settings{MaxPause: 15 * time.Minute}, nil)
		again.Restore(p)
		if r := wantPaused(t, again, ReasonBeyond); !r.Until.Equal(p.Until) {
			t.Errorf("after a restart it is paused until %s, want %s", r.Until, p.Until)
		}
	})
}

func TestPauseThatCannotBeMeantIsCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{MaxPause: 15 * time.Minute}, nil)
		observe(g, t.Context(), throttled(maxRetryAfter), time.Now())
		p := wantPaused(t, g, ReasonThrottled)
		if d := time.Until(p.Until); d != 15*time.Minute || !strings.Contains(p.Evidence, "cannot be meant; paused for 15m0s") {
			t.Errorf("paused for %s: %s", d, p.Evidence)
		}
	})
}

func TestPauseForIsCappedAndSuspendIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{MaxPause: time.Hour}, nil)
		if err := g.PauseFor(t.Context(), ReasonBreaker, "connect: refused", 5*time.Hour); err != nil {
			t.Fatal(err)
		}
		p := wantPaused(t, g, ReasonBreaker)
		if time.Until(p.Until) != time.Hour || p.Evidence != "connect: refused (asked for 5h0m0s, capped at 1h0m0s)" {
			t.Errorf("pause is %+v", p)
		}
		if err := g.Suspend(t.Context(), ReasonSuspended, "401 twice", 5*time.Hour); err != nil {
			t.Fatal(err)
		}
		if p := wantPaused(t, g, ReasonSuspended); time.Until(p.Until) != 5*time.Hour {
			t.Errorf("suspended until %s", p.Until)
		}
	})
}

func TestGatesOfOneClientHeedEachOther(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		ours   time.Duration // how long this gate is paused; none for not
		reason string        // why it is; "" for throttled
		theirs time.Duration // what another gate stored, from now; none for no pause
		why    string        // its reason; "" for throttled, if it is a pause
		lasts  time.Duration // how long this gate is paused then; none for not
		stored bool          // whether its own pause is stored once more
	}{
		"a pause is taken over":                           {ours: none, theirs: time.Minute, lasts: time.Minute},
		"a longer one too":                                {ours: time.Minute, theirs: time.Hour, lasts: time.Hour},
		"a shorter one shortens nothing":                  {ours: time.Hour, theirs: time.Minute, lasts: time.Hour, stored: true},
		"one that is over shortens nothing":               {ours: time.Hour, theirs: -time.Minute, lasts: time.Hour, stored: true},
		"the same says nothing":                           {ours: time.Hour, theirs: time.Hour - time.Nanosecond, lasts: time.Hour},
		"the end of a pause ends it":                      {ours: time.Hour, theirs: none, lasts: none},
		"the end of none is none":                         {ours: none, theirs: none, lasts: none},
		"a breaker that opens is its own":                 {ours: none, theirs: time.Minute, why: ReasonBreaker, lasts: none},
		"it takes no pause's place":                       {ours: time.Hour, theirs: 2 * time.Hour, why: ReasonBreaker, lasts: time.Hour, stored: true},
		"nor does one that closes":                        {ours: time.Hour, theirs: none, why: ReasonBreaker, lasts: time.Hour, stored: true},
		"credentials that are tried end it":               {ours: time.Hour, reason: ReasonSuspended, theirs: 0, why: ReasonSuspended, lasts: none},
		"they end no pause for another reason":            {ours: time.Hour, theirs: 0, why: ReasonSuspended, lasts: time.Hour, stored: true},
		"a person's pause is over once another is stored": {ours: time.Hour, reason: ReasonOperator, theirs: time.Minute, lasts: time.Minute},
		"a breaker's in its place says so too":            {ours: time.Hour, reason: ReasonOperator, theirs: time.Minute, why: ReasonBreaker, lasts: none},
		"a person may shorten it":                         {ours: time.Hour, reason: ReasonOperator, theirs: time.Minute, why: ReasonOperator, lasts: time.Minute},
		"and it stands while it is stored":                {ours: time.Hour, reason: ReasonOperator, theirs: time.Hour, why: ReasonOperator, lasts: time.Hour},
		"refused credentials are for all of them":         {ours: none, theirs: time.Hour, why: ReasonSuspended, lasts: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &shelf{}
				g := newGate(t, Settings{}, store)
				if c.ours != none {
					reason := ReasonThrottled
					if c.reason != "" {
						reason = c.reason
					}
					if err := g.PauseFor(t.Context(), reason, "429", c.ours+time.Second); err != nil {
						t.Fatal(err)
					}
				}
				before := len(store.saved)
				time.Sleep(time.Second)
				now := time.Now()
				p := Pause{Reason: c.why}
				if c.theirs != none {
					p.Until = now.Add(c.theirs)
					if c.why == "" {
						p.Reason = ReasonThrottled
					}
				}
				if err := g.Heed(t.Context(), p, now); err != nil {
					t.Fatal(err)
				}
				st := g.State(now)
				if st.Open != (c.lasts == none) || !st.Open && st.Pause.Until.Sub(now) != c.lasts {
					t.Errorf("open: %v, %+v, want a pause of %s", st.Open, st.Pause, c.lasts)
				}
				if n := len(store.saved) - before; n > 1 || (n == 1) != c.stored || c.stored && store.last(t) != st.Pause {
					t.Errorf("stored %d times more: %+v", n, store.saved)
				}
			})
		})
	}
}

// A pause that began after another gate's word was given is not ended by it.
func TestEndOfAnEarlierPauseEndsNoLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, &shelf{})
		at := time.Now()
		time.Sleep(time.Second)
		if err := g.PauseFor(t.Context(), ReasonThrottled, "429", time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := g.Heed(t.Context(), Pause{}, at); err != nil {
			t.Fatal(err)
		}
		wantPaused(t, g, ReasonThrottled)
	})
}

func TestPauseIsStoredBeforeObserveReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{hold: make(chan struct{})}
		g := newGate(t, Settings{}, store)
		returned := make(chan struct{})
		go func() {
			observe(g, t.Context(), throttled(time.Minute), time.Now())
			close(returned)
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("returned before the store did")
		default:
		}
		wantPaused(t, g, ReasonThrottled) // though not stored yet
		close(store.hold)
		<-returned
		store.last(t)
	})
}

func TestPauseLearnedWhileShuttingDownIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		g := newGate(t, Settings{}, store)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		observe(g, ctx, throttled(time.Minute), time.Now())
		if p := store.last(t); p.Reason != ReasonThrottled {
			t.Errorf("stored %+v", p)
		}
	})
}

func TestPauseHoldsWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{err: errors.New("disk full")}
		g := newGate(t, Settings{}, store)
		observe(g, t.Context(), throttled(time.Minute), time.Now())
		wantPaused(t, g, ReasonThrottled)
		if err := g.State(time.Now()).Unsaved; err == nil || err.Error() != `store pause of client "shop": disk full` {
			t.Errorf("unsaved: %v", err)
		}
		if err := g.PauseFor(t.Context(), ReasonBreaker, "", time.Hour); !errors.Is(err, store.err) {
			t.Errorf("PauseFor gave %v", err)
		}
		store.err = nil
		// A shorter pause changes nothing, but what is not stored yet is stored now.
		if err := g.PauseFor(t.Context(), ReasonBreaker, "", time.Second); err != nil {
			t.Error(err)
		}
		if p := store.last(t); p.Reason != ReasonBreaker || g.State(time.Now()).Unsaved != nil {
			t.Errorf("stored %+v, unsaved %v", p, g.State(time.Now()).Unsaved)
		}
	})
}

func TestStoreThatHangsHoldsUpAnAnswerForSecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Settings{}, &shelf{hold: make(chan struct{})})
		begin := time.Now()
		observe(g, t.Context(), throttled(time.Minute), time.Now())
		if took := time.Since(begin); took != saveTimeout {
			t.Errorf("took %s", took)
		}
		wantPaused(t, g, ReasonThrottled)
	})
}

func TestStoreEndsWithTheNewestOfManySignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		g := newGate(t, Settings{}, store)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() { observe(g, t.Context(), throttled(time.Duration(i+1)*time.Second), time.Now()) })
		}
		all.Wait()
		if got, want := store.last(t), g.State(time.Now()).Pause; got != want || time.Until(got.Until) != 50*time.Second {
			t.Errorf("stored %+v, in force %+v", got, want)
		}
	})
}

func TestResumeIsStoredAndForgetsStrikes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		g := newGate(t, Settings{}, store)
		observe(g, t.Context(), throttled(time.Hour), time.Now())
		changed := g.Changed()
		if err := g.Resume(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		<-changed
		mustWait(t, g)
		if p := store.last(t); p != (Pause{}) {
			t.Errorf("stored %+v", p)
		}
		if s := g.State(time.Now()); s.Strikes != 0 || !s.Open {
			t.Errorf("state is %+v", s)
		}
	})
}

func TestPauseSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		before := newGate(t, Settings{}, store)
		observe(before, t.Context(), throttled(time.Minute), time.Now())
		time.Sleep(20 * time.Second)

		after := newGate(t, Settings{}, store)
		after.Restore(store.last(t))
		wantPaused(t, after, ReasonThrottled)
		changed := after.Changed()
		begin := time.Now()
		<-changed
		if rest := time.Since(begin); rest != 40*time.Second {
			t.Errorf("the rest of the pause lasted %s, want 40s", rest)
		}
		mustWait(t, after)
		if n := len(store.saved); n != 1 {
			t.Errorf("%d saves, want 1: what was read need not be written", n)
		}
	})
}

func TestGateThatWasClosedTellsNothingAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := newGate(t, Settings{}, nil), newGate(t, Settings{}, nil)
		observe(before, t.Context(), throttled(time.Minute), time.Now())
		before.Close()
		after.Close()
		observe(after, t.Context(), throttled(time.Minute), time.Now()) // an answer that came late
		told := map[string]<-chan struct{}{"closed in a pause": before.Changed(), "paused after it was closed": after.Changed()}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for name, changed := range told {
			select {
			case <-changed:
				t.Errorf("%s: the end of the pause was told", name)
			default:
			}
		}
	})
}

func TestRestoredPauseIsBoundedAfterAClockJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := time.Now().Add(10_000 * time.Hour)
		tests := []struct {
			name   string
			reason string
			until  time.Time
			want   time.Duration
		}{
			{"signal", ReasonThrottled, far, 24 * time.Hour},
			{"operator", ReasonOperator, far, 10_000 * time.Hour},
			{"suspended", ReasonSuspended, far, 10_000 * time.Hour},
			{"past", ReasonThrottled, time.Now().Add(-time.Second), 0},
			{"none", "", time.Time{}, 0},
		}
		for _, tt := range tests {
			g := newGate(t, Settings{}, nil)
			g.Restore(Pause{Until: tt.until, Reason: tt.reason, Strikes: 3})
			s := g.State(time.Now())
			if s.Open != (tt.want == 0) || !s.Open && time.Until(s.Pause.Until) != tt.want || s.Strikes != 3 {
				t.Errorf("%s: state is %+v, want a pause of %s", tt.name, s, tt.want)
			}
		}
	})
}

func TestPauseEndsByTheWallClockAfterItWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		var mu sync.Mutex
		// A clock without the monotonic reading, as after a restart.
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Round(0).Add(-back)
		}
		g, err := NewGate("shop", Settings{}, nil, now, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Restore(Pause{Until: now().Add(time.Minute), Reason: ReasonThrottled})
		mu.Lock()
		back = time.Hour
		mu.Unlock()
		changed, begin := g.Changed(), time.Now()
		<-changed
		if took := time.Since(begin); took != time.Hour+time.Minute {
			t.Errorf("told of the end after %s", took)
		}
		mustWait(t, g)
	})
}

// noting is a shelf that also keeps what lies beneath a person's pause.
type noting struct {
	shelf
	beneath []Pause
}

func (s *noting) NotePause(_ context.Context, _ string, p Pause) error {
	s.beneath = append(s.beneath, p)
	return nil
}

func TestAPersonsPauseIsNotEndedByAnAnswerNorOverwrittenByAShorterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &noting{}
		g := newGate(t, Settings{}, store)
		persons := Pause{Until: time.Now().Add(2 * time.Hour), Reason: ReasonOperator, Since: time.Now()}
		g.Restore(persons)
		observe(g, t.Context(), throttled(time.Hour), time.Now())
		if err := g.Suspend(t.Context(), ReasonSuspended, "401", time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := g.Mend(t.Context(), "an answer"); err != nil {
			t.Fatal(err)
		}
		if s := g.State(time.Now()); s.Pause != persons || len(store.saved) != 0 {
			t.Errorf("the gate has %+v and stored %+v", s.Pause, store.saved)
		}
		if b := store.beneath; len(b) != 2 || b[0].Reason != ReasonThrottled || time.Until(b[0].Until) != time.Hour || b[1].Reason != ReasonSuspended {
			t.Errorf("kept beneath is %+v", b)
		}
		// One that ends later takes its place.
		observe(g, t.Context(), throttled(3*time.Hour), time.Now())
		wantPaused(t, g, ReasonThrottled)
		if err := g.Mend(t.Context(), "an answer"); err != nil {
			t.Fatal(err)
		}
		mustWait(t, g)
	})
}
