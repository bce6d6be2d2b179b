package jobs

import (
	"math"
	"time"

	"syncd/internal/mutant"
)

// MaxWait bounds how long an outcome can put a job or a reading off, whatever it
// says. It is the greatest max_pause that a client can have; that setting bounds
// what a server asks for before it comes here.
const MaxWait = 30 * 24 * time.Hour

// Retry says how often and how fast a failed job is tried again.
type Retry struct {
	// MaxAttempts is how many attempts a generation has; 1 to 100.
	MaxAttempts int
	// InitialDelay bounds the first wait; it may be 0.
	InitialDelay time.Duration
	// MaxDelay bounds every wait; at most 24 h.
	MaxDelay time.Duration
	// Multiplier is the growth of the bound from one wait to the next; 1 to 10.
	Multiplier float64
	// NoJitter waits exactly the bound instead of a random part of it.
	NoJitter bool
	// Timeout bounds one attempt as a whole; at most 24 h.
	Timeout time.Duration
	// RetryFor is how long a job is tried at least before it may be given up.
	RetryFor time.Duration
}

// DefaultRetry suits production: 10 attempts, 2 s doubling to 30 min, and not
// given up before two hours are over.
func DefaultRetry() Retry {
	return Retry{MaxAttempts: 10, InitialDelay: 2 * time.Second, MaxDelay: 30 * time.Minute,
		Multiplier: 2, Timeout: 5 * time.Minute, RetryFor: 2 * time.Hour}
}

// Bound returns min(MaxDelay, InitialDelay·Multiplierⁿ) for the n-th failure in
// a row, n from 0. It neither overflows nor turns negative, whatever n is.
func (r Retry) Bound(n int) time.Duration {
	if r.InitialDelay <= 0 {
		return 0
	}
	maxDelay := max(r.MaxDelay, r.InitialDelay)
	m := max(r.Multiplier, 1)
	// Compare in floating point before any conversion: 1 s doubled 34 times is
	// already beyond what a duration can hold.
	d := float64(r.InitialDelay) * math.Pow(m, float64(max(n, 0)))
	if math.IsInf(d, 0) || math.IsNaN(d) || d >= float64(maxDelay) {
		return maxDelay
	}
	return time.Duration(d)
}

// Delay returns the wait before the next attempt after n earlier failures in a
// row: uniform in [0, Bound(n)] with full jitter, never below floor (what the
// server asked for). rnd returns a number in [0, 1).
func (r Retry) Delay(n int, floor time.Duration, rnd func() float64) time.Duration {
	d := r.Bound(n)
	if !r.NoJitter {
		d = time.Duration(rnd() * float64(d))
	}
	return max(d, floor, 0)
}

// Spent reports whether a generation that was tried that often since then is given up.
func (r Retry) Spent(tries int, first, now time.Time) bool {
	return !mutant.On("never-given-up") && tries >= max(r.MaxAttempts, 1) && (first.IsZero() || now.Sub(first) >= r.RetryFor)
}
