package jobs

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelaysGrowToTheirBoundAndNeverOverflow(t *testing.T) {
	for _, r := range []Retry{
		DefaultRetry(),
		{InitialDelay: 200 * time.Millisecond, Multiplier: 2, MaxDelay: 5 * time.Minute},
		{InitialDelay: time.Second, Multiplier: 10, MaxDelay: 24 * time.Hour},
		{InitialDelay: time.Nanosecond, Multiplier: 1, MaxDelay: time.Nanosecond},
	} {
		last := time.Duration(0)
		for _, n := range []int{0, 1, 2, 5, 33, 34, 36, 63, 64, 100, 1 << 31, math.MaxInt} {
			d := r.Bound(n)
			if d < last || d <= 0 || d > max(r.MaxDelay, r.InitialDelay) {
				t.Errorf("%+v: bound of failure %d is %s after %s", r, n, d, last)
			}
			last = d
		}
	}
}

func TestDelaysGrowAsConfigured(t *testing.T) {
	r := Retry{InitialDelay: 200 * time.Millisecond, Multiplier: 2, MaxDelay: 5 * time.Minute}
	for n := range 100 {
		want := 5 * time.Minute
		if n < 11 {
			want = 200 * time.Millisecond << n
		}
		if d := r.Bound(n); d != want {
			t.Errorf("failure %d is bound to %s, want %s", n, d, want)
		}
		if d := r.Delay(n, 0, func() float64 { return 0.25 }); d != want/4 {
			t.Errorf("failure %d waits %s, want a quarter of %s", n, d, want)
		}
	}
	r.NoJitter = true
	if d := r.Delay(3, 0, func() float64 { return 0.25 }); d != 1600*time.Millisecond {
		t.Errorf("without jitter it waits %s", d)
	}
	for _, first := range []time.Duration{-time.Second, 0, 1, 9} {
		for _, random := range []float64{0, 0.5, 0.999999} {
			r := Retry{InitialDelay: first, MaxDelay: first, Multiplier: 2}
			if d := r.Delay(3, 0, func() float64 { return random }); d < 0 || d > max(first, 0) {
				t.Errorf("with a first delay of %d it waits %d", first, d)
			}
		}
	}
}

func TestAWaitIsWithinItsBoundAndNeverBelowWhatTheServerAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{InitialDelay: time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "initial")),
			MaxDelay:   time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "max")),
			Multiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"), NoJitter: rapid.Bool().Draw(t, "none")}
		n := rapid.IntRange(-3, math.MaxInt32).Draw(t, "n")
		floor := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "floor"))
		u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
		d := r.Delay(n, floor, func() float64 { return u })
		if d < floor || d > max(r.Bound(n), floor) || d < 0 {
			t.Fatalf("%+v: wait %s, bound %s, floor %s", r, d, r.Bound(n), floor)
		}
	})
}

func TestAJobIsGivenUpAfterItsAttemptsAndNotBeforeRetryFor(t *testing.T) {
	r := Retry{MaxAttempts: 3, RetryFor: time.Hour}
	first := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		tries int
		after time.Duration
		spent bool
	}{
		{"attempts left", 2, 2 * time.Hour, false},
		{"too early", 3, time.Minute, false},
		{"both over", 3, time.Hour, true},
	} {
		if got := r.Spent(c.tries, first, first.Add(c.after)); got != c.spent {
			t.Errorf("%s: given up %v", c.name, got)
		}
	}
}
