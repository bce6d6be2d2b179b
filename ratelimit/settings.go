package ratelimit

import (
	"fmt"
	"math"
	"time"
)

// Limits and defaults of Settings.
const (
	// MinRate and MaxRate bound a configured rate, in calls per second. The lower
	// one is about a call in twelve days.
	MinRate = 1e-6
	MaxRate = 1e6
	// MaxBurst bounds a configured burst.
	MaxBurst = 1_000_000
	// MaxShare bounds what is left to others.
	MaxShare = 0.95

	defaultMaxPause   = 24 * time.Hour
	defaultFirstPause = time.Second
	// growthCap ends the growth of pauses that the server gave no length for.
	growthCap = 5 * time.Minute
	// minPause keeps a server that asks for "0 seconds" or for a date in the past
	// from being called in a hot loop.
	minPause = time.Second
	// longestMeant is the longest pause that a server can mean.
	longestMeant = 366 * 24 * time.Hour
)

// Settings of a client's gate.
type Settings struct {
	// Rate is how many calls may be made per second: 0, meaning that no rate is
	// configured, or MinRate to MaxRate.
	Rate float64
	// Burst is how many calls may be made at once after a quiet time; 0 means 1,
	// at most MaxBurst. It is not used without a Rate.
	Burst int
	// Share is the part of every quota that is left to others who use it, from 0 to 0.95.
	Share float64
	// MaxPause is what a server may ask for without anybody looking; 0 means 24 h. For more the client is paused for ReasonBeyond. What
	// cannot be meant, more than a year, counts as MaxPause.
	MaxPause time.Duration
	// DefaultPause is the first pause after a refusal for quota without a usable
	// Retry-After; 0 means 1 s. It doubles with each further one, up to 5 min, and
	// half of it is random.
	DefaultPause time.Duration
}

// Validate reports the first setting that is out of its range.
func (s Settings) Validate() error {
	if s.Rate != 0 && !(s.Rate >= MinRate && s.Rate <= MaxRate) { // also false for NaN
		return fmt.Errorf("rate %v per second is not between %v and %v (leave it out for no limit of our own)", s.Rate, MinRate, MaxRate)
	}
	if s.Burst < 0 || s.Burst > MaxBurst {
		return fmt.Errorf("burst %d is not between 0 and %d", s.Burst, MaxBurst)
	}
	if !(s.Share >= 0 && s.Share <= MaxShare) {
		return fmt.Errorf("share %v is not between 0 and %v", s.Share, MaxShare)
	}
	if s.MaxPause < 0 {
		return fmt.Errorf("max_pause %s is negative", s.MaxPause)
	}
	if s.DefaultPause < 0 {
		return fmt.Errorf("default_pause %s is negative", s.DefaultPause)
	}
	return nil
}

func (s Settings) withDefaults() Settings {
	if s.Burst == 0 {
		s.Burst = 1
	}
	if s.MaxPause == 0 {
		s.MaxPause = defaultMaxPause
	}
	if s.DefaultPause == 0 {
		s.DefaultPause = defaultFirstPause
	}
	return s
}

// grown is the pause after the given number of strikes (1 for the first): it
// doubles from first up to growthCap, and lies between half of that and the
// whole, so that a refusal is never followed by a call at once.
func grown(first time.Duration, strikes int, random float64) time.Duration {
	// In floating point and bounded before it becomes a duration: a shift of
	// time.Second by 34 is negative, by 64 it is zero.
	whole := math.Min(float64(growthCap), float64(max(first, 1))*math.Pow(2, float64(max(strikes, 1)-1)))
	half := whole / 2
	return time.Duration(half + half*random)
}

// hinted is the pause for a server that asked for hint: never shorter, and a
// little longer by chance, so that many clients do not come back in step.
func hinted(hint time.Duration, random float64) time.Duration {
	spread := min(hint/10, 5*time.Second)
	return hint + time.Duration(float64(spread)*random)
}
