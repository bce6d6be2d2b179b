package jobs

import (
	"fmt"
	"time"

	"syncd/connectors"
)

// Explanation says where a job stands, why, since when, and what comes next.
type Explanation struct {
	// State is running, ready, done, dead or held.
	State string
	// Reason is a word: a Reason, or a Decision for what beyond the row holds it up.
	Reason string
	// Due says that a claim would take the job now.
	Due bool
	// Text says it in a sentence.
	Text string
	// Since is when this began; zero when unknown.
	Since time.Time
	// Until is when the next step is due; zero when none is planned.
	Until time.Time
	// Next says what happens then, or what a person can do.
	Next string
	// Replay says that the job is dead or was given up, and can be replayed.
	Replay bool
	// Resolve says that a person has to say what became of its last write.
	Resolve bool
	// Older says that since a restore nobody knows which state of the record stands in the target, so that
	// the person has to say that, too: Verdict.Older. Only with Resolve.
	Older bool
	// Collision says who else claims the job's key, and what to do; "" for nobody.
	Collision string
}

// Surroundings is what beyond its row decides over a job.
type Surroundings struct {
	// Running names its attempt under way, begun at RunningSince.
	Running      *ClaimedJob
	RunningSince time.Time
	// Target and Source are the gates of the clients it writes to and is read from.
	Target, Source ClientState
	// Flow is nil when the flow is not run: Absent says why.
	Flow   *Flow
	Absent Absence
	// Claimants are the source records that claim the row's key while its own has it.
	Claimants []string
	// Await is what a waiting row waits for.
	Await Await
	// Asked is the request for the row's record that its source has not answered
	// yet; nil when there is none.
	Asked *Request
	// Redelivered says that a flow to the target client is being redelivered.
	Redelivered bool
	// Suspended and Restored are those of FlowState of the row's flow.
	Suspended Standing
	Restored  Restored
	// Heir is the row to which the record that had the row's key is still to move; nil
	// when there is none.
	Heir *Row
	// Newer is the dead row that stands for a newer state of the same source record,
	// under another key or as one that could not be mapped; nil when there is none.
	Newer *Row
	// Ahead is the row of its group that the row stands behind; nil for none.
	Ahead *Row
}

// Absence is why a flow is not run.
type Absence string

const (
	// FlowUnknown: such flows are not in the configuration.
	FlowUnknown Absence = ""
	// FlowDisabled: such flows are in the configuration, and rest.
	FlowDisabled Absence = "disabled"
	// FlowRetired: such flows are named as such in the configuration: their jobs are left as they are.
	FlowRetired Absence = "retired"
)

// why says it in a sentence, and until when a job of the flow waits.
func (a Absence) why() (text, next string) {
	switch a {
	case FlowDisabled:
		return "its flow is disabled (enabled: false)", "nothing until the flow is enabled again; then it goes on at once"
	case FlowRetired:
		return "its flow is retired", "nothing, unless the flow is put back into the configuration; then it goes on at once"
	}
	return "its flow is not in the configuration", "nothing until the flow is configured again; then it goes on at once"
}

// Why explains a row at a moment.
func Why(row *Row, s Surroundings, now time.Time) Explanation {
	e := Explanation{State: string(row.State), Reason: string(row.Reason)}
	if s.Running != nil {
		e.State, e.Reason, e.Since = "running", "", s.RunningSince
		e.Text = fmt.Sprintf("attempt %d is being written", s.Running.Attempt)
		e.Next = "its outcome is stored when the target answers"
		return e
	}
	switch row.State {
	case Done:
		whyDone(row, s, now, &e)
	case Dead, Held:
		whyDead(row, s, now, &e)
	default:
		whyReady(row, s, now, &e)
	}
	s.collision(row, &e)
	if row.Unresolved() && row.State != Ready {
		e.Text += "; " + s.doubt(row, now)
	}
	return e
}

func whyDone(row *Row, s Surroundings, now time.Time, e *Explanation) {
	e.Since = row.AppliedAt
	e.Next = "nothing, until the source has a newer version"
	if s.Flow != nil && s.Flow.Every() {
		e.Next = "nothing: an event is written once"
	}
	if s.Newer != nil {
		e.Next = fmt.Sprintf("nothing; a newer state of its source record is dead: see syncd explain %s", s.Newer.RowID)
	}
	switch row.Reason {
	case ReasonIgnored:
		e.Text = "the record is gone at the source, and the flow says that nothing is to be done"
		if !row.Gone {
			e.Text = "the target's record is left as it is, as the flow says (" + string(row.LastClass) + ")"
		}
		e.Since = row.LastAt
	case ReasonSuperseded:
		e.Text = "a newer state of the record has taken its place"
	case ReasonDiscarded:
		e.Text, e.Since = "a person gave it up", time.Time{} // when is in its history; the row has its last outcome
		if row.LastCode == codeRetention {
			e.Text, e.Since = row.LastMessage, row.LastAt
		}
		if s.Flow != nil && s.Newer == nil && replayable(row, s.Flow, now) == "" {
			e.Next, e.Replay = e.Next+"; or a replay takes that back", true
		}
	case ReasonRenamed:
		e.Text = "the record has another key now"
	case ReasonExpired:
		e.Text = "it was too old to be sent and was dropped, as the flow says"
		e.Since = row.LastAt
	default:
		e.Text = "the target confirmed the desired state"
		if row.LastCode == codeResolved {
			e.Text = "a person said that the target has the desired state"
		}
		if row.LastClass == connectors.Stale {
			e.Text = "the target holds a newer version"
		}
	}
}

// doubt says which write of a row is in doubt.
func (s *Surroundings) doubt(row *Row, now time.Time) string {
	if !s.sinceRestore(row) {
		return fmt.Sprintf("a write sent no later than %s is in doubt", stampText(row.UnresolvedAt))
	}
	text := fmt.Sprintf("the journal was restored at %s, and would not remember if the record had been written before", stampText(s.Restored.At))
	switch {
	case s.Restored.Caught.IsZero():
		text += "; that is so of all records until the source has been read to its end, and ten minutes more"
	case now.Before(s.Restored.Caught.Add(RestoreMargin)):
		text += fmt.Sprintf("; that is so of all records that are read until %s", stampText(s.Restored.Caught.Add(RestoreMargin)))
	}
	return text
}

// sinceRestore reports whether a row is in doubt since the journal was restored.
func (s *Surroundings) sinceRestore(row *Row) bool {
	return row.Unresolved() && row.UnresolvedAt.Equal(s.Restored.At)
}

func whyDead(row *Row, s Surroundings, now time.Time, e *Explanation) {
	e.Since = row.LastAt
	e.Text = fmt.Sprintf("attempt %d ended it (%s)", row.Attempt, failure(row))
	switch row.Reason {
	case ReasonMapping:
		e.Text = "its event could not be mapped: " + row.LastMessage
	case ReasonRenamed, ReasonExpired:
		e.Text = row.LastMessage
	}
	if row.State == Held {
		e.Text = "nobody knows whether its last write was done (" + failure(row) + ")"
		e.Resolve = true
		e.Older = row.LastCode == codeRestored || row.LastCode == codeJournalRestored || s.sinceRestore(row)
		what, word := ", also for newer versions of the record,", "whether the write was done"
		if row.Group != "" {
			what = " of group " + row.Group
		}
		if e.Older {
			word = "in which state it is there, if at all"
		}
		e.Next = "nothing" + what + " before a person has looked for it in the target and said " + word
		if s.Flow == nil && s.Absent != FlowDisabled {
			text, _ := s.Absent.why()
			e.Text += "; " + text
			e.Next = "nothing; to say what became of it, put the flow back into the configuration first (enabled: false lets it rest), then syncd resolve"
			e.Resolve, e.Older = false, false
		}
		return
	}
	if s.Asked != nil {
		s.asked(now, e)
		return
	}
	if row.SourceID == "" && (row.Reason == ReasonMapping || row.Reason == ReasonExpired) {
		e.Next = fmt.Sprintf("nothing happens by itself: correct it at the source, then syncd discard %s", row.RowID)
		if row.Reason == ReasonExpired {
			e.Next = fmt.Sprintf("nothing, unless the record comes back at the source; syncd discard %s ends it", row.RowID)
		}
		return
	}
	if s.Flow != nil && s.Flow.Every() {
		s.whyDeadEvent(row, now, e)
		return
	}
	heals, replay := "a newer version of the record heals it", "; or mend the cause and replay it"
	if row.Reason == ReasonFailed && s.Flow != nil && s.Flow.CanRefresh {
		replay += " (with --remap if that was the mapping)"
	}
	if row.Reason == ReasonRenamed {
		can := "rename or recreate"
		if s.Flow != nil {
			can = s.Flow.Renamings()
		}
		heals, replay = "with on_rename: "+can+" in its flow, "+heals, ", and so does a replay"
	}
	e.Next = heals + replay
	no := replayable(row, s.Flow, now)
	if s.Flow == nil {
		no, _ = s.Absent.why()
	}
	if e.Replay = no == ""; !e.Replay {
		e.Next = heals + "; it cannot be replayed: " + no
	}
}

// asked says that the record was asked of its source, and what that waits for.
func (s Surroundings) asked(now time.Time, e *Explanation) {
	e.Text += fmt.Sprintf("; asked of the source at %s, which waits for client %s", stampText(s.Asked.At), s.Asked.Client)
	e.Next = "mapped anew when the source has answered"
	switch {
	case s.Source.PausedUntil.After(now):
		e.Until = s.Source.PausedUntil
		if s.Source.pause().OpenEnded() {
			e.Text += fmt.Sprintf(" until that is resumed (%s)", s.Source.Reason)
		} else {
			e.Text += fmt.Sprintf(" until %s (%s)", stampText(e.Until), s.Source.Reason)
		}
		s.Source.resumable(e)
	case s.Asked.DueAt.After(now):
		e.Until = s.Asked.DueAt
		e.Text += fmt.Sprintf("; it is asked again at %s", stampText(e.Until))
	default:
		e.Text += " and for the daemon"
	}
}

func failure(row *Row) string {
	s := string(row.LastClass)
	if row.LastCode != "" {
		s += ", " + row.LastCode
	}
	if row.LastMessage != "" {
		s += ": " + row.LastMessage
	}
	return s
}

func stampText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
