package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// Reasons of a pause.
const (
	// ReasonThrottled is a refusal for quota: a 429, or a vendor's word for it.
	ReasonThrottled = "throttled"
	// ReasonUnavailable is a 503 that said when to come back.
	ReasonUnavailable = "unavailable"
	// ReasonSuspended waits for something only a person or a probe can mend,
	// such as refused credentials.
	ReasonSuspended = "suspended"
	// ReasonBeyond is a server that asked for a longer wait than MaxPause: it gets it, and somebody is to look.
	ReasonBeyond = "beyond_max_pause"
	// ReasonBreaker is an open breaker.
	ReasonBreaker = "breaker"
	// ReasonAnew is no pause: it is stored of an open client where a person wishes that
	// what is believed of its limits be found out anew.
	ReasonAnew = "anew"
	// ReasonOperator is a person's wish.
	ReasonOperator = "operator"
)

// Forever is the end of a pause that only Resume ends. It is a real date, so
// that stores need no special case for it.
func Forever() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }

// Pause is why and until when nothing may be sent to a client.
type Pause struct {
	// Until is when calls may begin again, UTC; zero when the client is not paused.
	Until time.Time
	// Reason is one of the Reason constants; "" when the client is not paused.
	Reason string
	// Evidence is what was seen, from status and header only, never from a body:
	// "429 Retry-After: 60 at 2026-11-29T10:00:00Z".
	Evidence string
	// Since is when calls stopped. It stays when a pause is lengthened.
	Since time.Time
	// Strikes counts the pauses asked for by the server since its last good answer.
	Strikes int
}

// Active reports whether the pause still holds at now.
func (p Pause) Active(now time.Time) bool { return now.Before(p.Until) }

// OpenEnded reports whether only Resume ends the pause.
func (p Pause) OpenEnded() bool { return !p.Until.Before(Forever()) }

// PausedError says that the gate let nothing out. Nothing was sent.
type PausedError struct {
	Client string
	Pause  Pause
}

func (e *PausedError) Error() string {
	s := fmt.Sprintf("client %q is paused (%s)", e.Client, e.Pause.Reason)
	if !e.Pause.OpenEnded() {
		s += " until " + e.Pause.Until.UTC().Format(time.RFC3339)
	}
	if e.Pause.Evidence != "" {
		s += ": " + e.Pause.Evidence
	}
	return s
}

// Store keeps pauses beyond the process.
type Store interface {
	// SavePause replaces what is stored of the client's pause and returns when
	// that is durable. A pause whose Until is zero means: not paused.
	SavePause(ctx context.Context, client string, p Pause) error
}

// Noter is a Store that keeps, beneath a person's pause, what the client's gate learned
// during it.
type Noter interface {
	// NotePause keeps p, which ends no later than the person's pause that is stored,
	// and returns when that is durable. Where no such pause is stored it does nothing.
	NotePause(ctx context.Context, client string, p Pause) error
}
