package jobs

import (
	"bytes"
	"time"

	"syncd/internal/mutant"
)

// Decision is what a claim does about a ready row at a moment. It is made in one
// place, for the claim and for whoever explains it.
type Decision string

const (
	// Due: the row is taken.
	Due Decision = "due"
	// NotYet: its own time has not come.
	NotYet Decision = "not_yet"
	// NoFlow: its flow is not configured.
	NoFlow Decision = "no_flow"
	// UnderWay: its record is being written.
	UnderWay Decision = "under_way"
	// Behind: another row of its group comes before it.
	Behind Decision = "behind"
	// ClientPaused: the client that it is written to may not be called.
	ClientPaused Decision = "paused"
	// FlowSuspended: the target refused record after record of its flow.
	FlowSuspended Decision = "flow_suspended"
	// Redelivered: what was written to its client is being taken back, because the target
	// was restored.
	Redelivered Decision = "redelivered"
	// Enough: it is too old to be sent, and stands in the target with all but an
	// optional reference, so nothing is missing.
	Enough Decision = "enough"
	// AskAnew: it is too old to be sent, or to be created without another look at its
	// source, so its present state is asked for.
	AskAnew Decision = "refresh"
	// Expires: it is too old to be sent and cannot be asked for.
	Expires Decision = "expires"
	// ExpiryHeld: it would expire, if so much had not expired at once.
	ExpiryHeld Decision = "expiry_held"
	// Bare: nothing is kept of it that could be sent.
	Bare Decision = "no_body"
	// KeyMoves: another record has its key still.
	KeyMoves Decision = "key_moves"
)

// view is what beyond its row decides over it.
type view interface {
	// flow is nil for one that is not configured.
	flow(row *Row) *Flow
	busy(row *Row) bool
	// behind reports whether the row stands behind another of its group.
	behind(row *Row) bool
	// paused says until when the target client may not be called.
	paused() time.Time
	// redelivered reports whether a flow to the target client is being redelivered.
	redelivered() (bool, error)
	// suspended is FlowState.Suspended of the row's flow.
	suspended(row *Row) (Standing, error)
	// expiryHeld is ClientState.ExpiryHeld of the target client.
	expiryHeld() (Standing, error)
	// moving reports whether the record that had the row's key is still to get its
	// new one.
	moving(row *Row) (bool, error)
}

// decide says what becomes of a ready row at a moment. What costs a look at the
// journal is asked last.
func decide(row *Row, v view, now time.Time) (Decision, error) {
	f := v.flow(row)
	switch {
	case f == nil:
		return NoFlow, nil
	case v.busy(row):
		return UnderWay, nil
	case v.behind(row):
		return Behind, nil
	case v.paused().After(now) && v.paused().After(row.DueAt):
		return ClientPaused, nil
	}
	if redelivered, err := v.redelivered(); err != nil || redelivered {
		return Redelivered, err
	}
	s, err := v.suspended(row)
	switch {
	case err != nil:
		return "", err
	case s.Is() && (s.Until.After(now) || row.DueAt.After(now)):
		return FlowSuspended, nil
	case row.DueAt.After(now):
		// It may have been put off because nothing expires now.
		if tooOldToSend(row, f, now) {
			if d, err := overAge(row, f, v, now); err != nil || d == ExpiryHeld {
				return d, err
			}
		}
		return NotYet, nil
	case tooOldToSend(row, f, now):
		return overAge(row, f, v, now)
	case staleCreate(row, f, now):
		return AskAnew, nil
	case len(row.Body) == 0 && !row.Gone:
		return Bare, nil
	}
	moving, err := v.moving(row)
	switch {
	case err != nil:
		return "", err
	case moving:
		return KeyMoves, nil
	}
	return Due, nil
}

// tooOldToSend reports whether a row is past its flow's max_age.
func tooOldToSend(row *Row, f *Flow, now time.Time) bool {
	return f.MaxAge > 0 && !mutant.On("too-old-sent") && !row.Gone && row.Age(now) > f.MaxAge
}

// overAge decides on a row that is too old to be sent.
func overAge(row *Row, f *Flow, v view, now time.Time) (Decision, error) {
	switch {
	case row.Reason == ReasonWaiting && row.Applied() && !row.Unresolved() && bytes.Equal(row.AppliedHash, row.Hash):
		return Enough, nil
	case askable(row, f):
		return AskAnew, nil
	}
	held, err := v.expiryHeld()
	if err == nil && holdStands(held, now) {
		return ExpiryHeld, nil
	}
	return Expires, err
}

// askable reports whether the source can be asked for a row's record.
func askable(row *Row, f *Flow) bool { return f.CanRefresh && row.SourceID != "" }
