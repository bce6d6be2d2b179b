package jobs

import (
	"fmt"
	"time"
)

// Surroundings are what Why decides by, as a claim does by what it reads.

func (s Surroundings) flow(*Row) *Flow { return s.Flow }

func (s Surroundings) busy(*Row) bool { return s.Running != nil }

func (s Surroundings) behind(*Row) bool { return s.Ahead != nil }

func (s Surroundings) paused() time.Time { return s.Target.PausedUntil }

func (s Surroundings) redelivered() (bool, error) { return s.Redelivered, nil }

func (s Surroundings) suspended(*Row) (Standing, error) { return s.Suspended, nil }

func (s Surroundings) expiryHeld() (Standing, error) { return s.Target.ExpiryHeld, nil }

func (s Surroundings) moving(*Row) (bool, error) { return s.Heir != nil, nil }

// whyReady explains a ready row: what is the matter with it, and then what a claim
// would do about it now.
func whyReady(row *Row, s Surroundings, now time.Time, e *Explanation) {
	e.Since, e.Until = row.OpenSince, row.DueAt
	e.Next = fmt.Sprintf("attempt %d", row.Attempt+1)
	d, _ := decide(row, s, now) // nothing that is asked here can fail
	e.Due = d == Due
	if d == NoFlow {
		e.Reason, e.Until = string(NoFlow), time.Time{}
		e.Text, e.Next = s.Absent.why()
		return
	}
	if d == Behind || row.Reason == ReasonBehind && d == NotYet {
		s.whyBehind(row, e)
		return
	}
	if row.Reason == ReasonRefresh && (d == NotYet || d == AskAnew || d == ClientPaused) {
		s.refreshing(row, now, e)
		return
	}
	s.matter(row, now, e)
	if row.Reason == ReasonNone && row.DueAt.After(now) {
		e.Text = "not due yet"
	}
	switch d {
	case ClientPaused:
		// The gate of the target outlasts whatever the row itself waits for.
		e.Reason, e.Until = string(ClientPaused), s.Target.PausedUntil
		e.Text += fmt.Sprintf("; client %s is paused (%s: %s)", s.Target.Client, s.Target.Reason, s.Target.Evidence)
		s.Target.resumable(e)
	case Redelivered:
		e.Reason, e.Until = string(Redelivered), time.Time{}
		e.Text += fmt.Sprintf("; what was written to client %s is being taken back, because the target was restored", row.Client)
		e.Next = "nothing is written to the client before that has ended; syncd runs shows how far it has come"
	case FlowSuspended:
		e.Reason, e.Since, e.Until = string(FlowSuspended), s.Suspended.Since, later(s.Suspended.Until, row.DueAt)
		e.Text += fmt.Sprintf("; paused with its flow, which is suspended: %s", s.Suspended.Message)
		e.Next = "one job of the flow is tried as a probe, and all go on when it succeeds; mend the cause, then reload or restart to try at once"
	case AskAnew:
		e.Reason = string(ReasonRefresh)
		e.Text += "; " + s.tooOld(row, now)
		e.Next = "its source is asked for its present state, before anything is sent"
	case Enough:
		e.Text += "; " + s.tooOld(row, now)
		e.Next = "it ends as done without that reference"
	case Expires:
		e.Reason = string(ReasonExpired)
		e.Text += fmt.Sprintf("; %s, and its source cannot be asked for it", s.tooOld(row, now))
		e.Next = "it ends as a dead letter; a newer version of the record heals it"
		if s.Flow.OnExpire == "drop" {
			e.Next = "it is dropped, as the flow says"
		}
	case ExpiryHeld:
		held := s.Target.ExpiryHeld
		e.Reason, e.Since, e.Until = string(ExpiryHeld), held.Since, held.Until
		e.Text += fmt.Sprintf("; %s, but nothing expires now: %s", s.tooOld(row, now), held.Message)
		e.Next = fmt.Sprintf("nothing over-aged is sent; look at the clock, then let it expire: syncd expiry resume %s", s.Target.Client)
	case Bare:
		e.Reason = string(Bare)
		e.Text += "; what it was is not kept any more"
		e.Next = "its source is asked for its present state"
		if !askable(row, s.Flow) {
			e.Next = "it ends as a dead letter, because its source cannot be asked for one record; its next change at the source is written"
		}
	case KeyMoves:
		e.Reason = string(ReasonWaiting)
		if row.Reason != ReasonWaiting {
			e.Text = fmt.Sprintf("waits until %s has got its new key", s.Heir.RowID)
		}
	}
	if e.Due {
		if s.Suspended.Is() {
			e.Text += fmt.Sprintf("; its flow is suspended, and one job is tried now: %s", s.Suspended.Message)
		}
		e.Text += "; written when the client has a slot free and the daemon runs"
	}
}

// matter says what is the matter with a row for itself.
func (s Surroundings) matter(row *Row, now time.Time, e *Explanation) {
	switch row.Reason {
	case ReasonRetry:
		e.Text = fmt.Sprintf("attempt %d failed (%s)", row.Attempt, failure(row))
	case ReasonUnresolved:
		e.Text = fmt.Sprintf("%s (%s)", s.doubt(row, now), failure(row))
		e.Next = "find out whether it was done, before anything is sent again"
	case ReasonThrottled:
		e.Text = "the client could not be called (" + failure(row) + "); no attempt was used up"
	case ReasonAuth:
		e.Text = "the client's credentials were refused; no attempt was used up"
	case ReasonWaiting:
		whyWaiting(row, s, e)
	case ReasonNoFlow:
		e.Text = fmt.Sprintf("the daemon that writes to client %s does not have its flow", row.Client)
		e.Next = "reload that daemon with the configuration that has the flow (syncd status shows which it is), and it goes on at once; else it is looked at again"
	default:
		e.Text = "due"
	}
}

// tooOld says in which respect a row is too old to be sent.
func (s Surroundings) tooOld(row *Row, now time.Time) string {
	if tooOldToSend(row, s.Flow, now) {
		return fmt.Sprintf("older than max_age %s", s.Flow.MaxAge)
	}
	return fmt.Sprintf("it has waited longer than fresh_within %s since it was read", s.Flow.FreshWithin)
}

// refreshing explains a row whose present state was asked for.
func (s Surroundings) refreshing(row *Row, now time.Time, e *Explanation) {
	e.Text = s.tooOld(row, now) + "; its present state is asked for"
	if s.Asked != nil {
		e.Text += ", since " + stampText(s.Asked.At)
	}
	e.Next = "sent as a new generation when the source has answered"
	if s.Source.PausedUntil.After(now) {
		e.Reason, e.Until = string(ClientPaused), s.Source.PausedUntil
		e.Text += fmt.Sprintf("; the source client %s is paused (%s)", s.Source.Client, s.Source.Reason)
		s.Source.resumable(e)
	}
}
