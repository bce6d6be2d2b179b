package breaker

import "time"

// Settings of a breaker. A field that is zero or out of its range has its default.
type Settings struct {
	// Window is how far back calls are counted for Ratio, by when they ended; at
	// least 1 s, default 1 min.
	Window time.Duration
	// MinCalls is how many calls there must be in the window; default 10.
	MinCalls int
	// Ratio is the share of failures in the window from which on the breaker opens,
	// above 0 up to 1; default 0.6.
	Ratio float64
	// ConsecutiveFailures opens the breaker whatever the traffic; default 5.
	ConsecutiveFailures int
	// MinDistinct is how many failures must have met wholly different records;
	// default 3. A failure without records, such as that of a listing, counts as one.
	MinDistinct int
	// SlowCall is from how long on a call that was served counts as failed; 0, the
	// default, for never. Not counted is how long it waited for leave to be made.
	SlowCall time.Duration
	// OpenFor is how long nothing is let through before a probe; default 30 s.
	OpenFor time.Duration
	// ProbeTimeout is how long a probe may take until it counts as failed; default
	// 30 s. It must not be shorter than a slow but good call takes.
	ProbeTimeout time.Duration
}

func (s Settings) withDefaults() Settings {
	set(&s.Window, time.Minute, s.Window >= time.Second)
	set(&s.MinCalls, 10, s.MinCalls > 0)
	set(&s.Ratio, 0.6, s.Ratio > 0 && s.Ratio <= 1)
	set(&s.ConsecutiveFailures, 5, s.ConsecutiveFailures > 0)
	set(&s.MinDistinct, 3, s.MinDistinct > 0)
	set(&s.OpenFor, 30*time.Second, s.OpenFor > 0)
	set(&s.ProbeTimeout, 30*time.Second, s.ProbeTimeout > 0)
	return s
}

func set[T any](v *T, def T, fine bool) {
	if !fine {
		*v = def
	}
}
