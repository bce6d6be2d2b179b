package connectors

import (
	"fmt"
	"time"
)

// Class says what one attempt came to. The list is closed: a connector
// translates every answer of its platform into one of these, and what each
// class leads to stands once, in package jobs.
type Class string

const (
	// Applied is a confirmed write: an answer that parses and names the record.
	Applied Class = "applied"
	// Unchanged means that the target, or a comparison with it, says there is nothing to do.
	Unchanged Class = "unchanged"
	// AlreadyApplied is a refused duplicate that proved to be our own earlier write.
	AlreadyApplied Class = "already_applied"
	// Throttled means that the target asks for fewer calls; nothing was done.
	Throttled Class = "throttled"
	// Paused means that our own gate let nothing out: nothing was sent.
	Paused Class = "paused"
	// Transient means that nothing was done and a later try may succeed: nothing
	// was sent, or the target proves that it rolled back.
	Transient Class = "transient"
	// Unknown means that a write may have been done: its answer was not read.
	Unknown Class = "unknown"
	// Invalid means that the record itself is refused; the same record will be refused again.
	Invalid Class = "invalid"
	// Auth means that the credentials are refused, for the client as a whole.
	Auth Class = "auth"
	// Conflict means that the target's record changed between our reading and our writing.
	Conflict Class = "conflict"
	// Missing means that the record is gone under the link we hold.
	Missing Class = "missing"
	// Frozen means that the target's document can no longer be changed.
	Frozen Class = "frozen"
	// Stale means that the target holds a newer version than ours.
	Stale Class = "stale"
	// Waiting means that another record is needed first, or that the key is taken.
	Waiting Class = "waiting"
	// Lost is given by the journal to a claimed job whose owner ended without
	// settling it. No connector returns it.
	Lost Class = "lost"
	// Expired is given by the journal to a job older than its flow's max_age.
	// No connector returns it.
	Expired Class = "expired"
)

// Classes lists every class, in the order in which they are documented.
func Classes() []Class {
	return []Class{Applied, Unchanged, AlreadyApplied, Throttled, Paused, Transient, Unknown, Invalid,
		Auth, Conflict, Missing, Frozen, Stale, Waiting, Lost, Expired}
}

// Confirmed reports whether the record is known to stand in the target as
// desired, or newer.
func (c Class) Confirmed() bool {
	return c == Applied || c == Unchanged || c == AlreadyApplied || c == Stale
}

// Outcome is what one attempt at one record came to.
type Outcome struct {
	Class Class
	// Code is a short stable name of the cause, safe to show and to count:
	// "http_500", "sqlstate_23505", "user_error".
	Code string
	// Message tells a person what happened. It holds no credential and no payload.
	Message string
	// Link is the target's own id of the record as a JSON scalar (`12`, `"gid-7"`), if known.
	Link string
	// RetryAfter is how long from now no new try is made: what the server asks for, at
	// most the client's max_pause, or what a strategy needs; 0 for nothing of the kind.
	RetryAfter time.Duration
	// MaybeDuplicate is set on a refused create whose refusal may mean that the
	// record exists already. The strategy then looks it up by key.
	MaybeDuplicate bool
	// Answered is set on an Unknown that the target's own application answered
	// (a 500 with its body), as against a timeout, a reset or a gateway.
	Answered bool
	// Resolved is set by a strategy that has found out that no earlier write of
	// this record is still in doubt, whatever the class of this attempt.
	Resolved bool
	// WaitEntity and WaitKey name the record that is waited for, with Waiting.
	WaitEntity, WaitKey string
}

// Error is the outcome of a read, or of a write's preparation, as an error.
type Error struct {
	Outcome
	// Op says what was attempted on what: "list orders", "find party VC-12".
	Op string
	// Err is the cause, if there is one to unwrap.
	Err error
}

func (e *Error) Error() string {
	s := e.Op
	if s != "" {
		s += ": "
	}
	s += string(e.Class)
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of a class with a code and a message for people.
func Errorf(c Class, code, format string, args ...any) *Error {
	return &Error{Outcome: Outcome{Class: c, Code: code, Message: fmt.Sprintf(format, args...)}}
}

// Fail makes an outcome of a class with a code and a message for people.
func Fail(c Class, code, format string, args ...any) Outcome {
	return Outcome{Class: c, Code: code, Message: fmt.Sprintf(format, args...)}
}
