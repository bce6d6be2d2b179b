package upsert

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
	"syncd/jobs"
)

// attempt is one try at one job.
type attempt struct {
	*Strategy
	j *jobs.Job
	// w is the write; its Link is what is known so far.
	w connectors.Write
	// at is when the attempt began.
	at time.Time

	// absent: the record, in doubt before, has proved not to be there.
	absent bool
	// rewritten: the fields were written in this attempt, after every earlier
	// write had had its time; whatever those did no longer counts.
	rewritten bool
	// resent: a create was sent again in this attempt, which may have made the record just now.
	resent bool
	// doubled: the record was created although an earlier create of it may still
	// come to light.
	doubled bool
	// lostLink: the link led nowhere.
	lostLink bool
	// removed: the link led nowhere because a removal of ours has deleted the record.
	removed bool
}

func (s *Strategy) attempt(j *jobs.Job) *attempt {
	return &attempt{Strategy: s, j: j, w: j.Write(s.flow), at: s.now()}
}

// end completes an outcome: the link that is known by now, and whether earlier
// writes are still in doubt.
func (a *attempt) end(o connectors.Outcome) connectors.Outcome {
	switch {
	case a.lostLink:
		o.Link = ""
	case o.Link == "", !o.Class.Confirmed() && o.Class != connectors.Unknown:
		// A refusal that names a record (the owner of a key that is taken) names
		// none of ours.
		o.Link = a.w.Link
	}
	o.MaybeDuplicate = false
	switch {
	case !a.j.Unresolved(), a.doubled:
		o.Resolved = false
	case o.Class.Confirmed():
		o.Resolved = o.Code != codeIgnored // nothing was found out
	case o.Class == connectors.Unknown:
		o.Resolved = a.absent
	default:
		o.Resolved = a.absent || a.rewritten
	}
	return o
}

// mayBeOurs reports whether a record found in the target may be our own work:
// it was confirmed before, or a write of it is in doubt. A record that is
// neither was there before us.
func (a *attempt) mayBeOurs() bool { return a.j.AppliedGeneration > 0 || a.j.Unresolved() }

// mayStand reports whether there is reason to think that the record is in the
// target although it is not found: it was there, or may be, or was said to be
// gone by a server that may only not have heard of it yet.
func (a *attempt) mayStand() bool {
	return a.mayBeOurs() || a.j.LastClass == connectors.Missing || a.j.LastCode == jobs.CodeAbsentOnce
}

// tried reports whether the row was ever tried before, in any generation.
func (a *attempt) tried() bool { return a.j.Number > 1 }

// renames reports whether the record may still stand under a key that it had
// before. What was begun is ended also when the flow says something else by now:
// nobody else knows of a record under the old key.
func (a *attempt) renames() bool {
	return a.j.RenamedFrom != "" && a.j.RenamedFrom != a.j.Key && a.finder != nil
}

// settledAt is when the earlier writes of a record in doubt have had their effect.
func (a *attempt) settledAt() time.Time { return a.j.UnresolvedAt.Add(a.settle) }

// unsettled reports whether an earlier write may still be at work in the target.
func (a *attempt) unsettled() bool {
	return a.j.Unresolved() && a.at.Before(a.settledAt()) && !mutant.On("no-settle-time")
}

// mustWait reports whether nothing may be written yet. A target that refuses an
// older stamp needs no waiting: a late write is refused as it arrives. That does
// not hold for a record that is still to be found or created or that is to be
// removed, where no record may be there yet to hold the stamp; nor in a flow
// record that holds one; nor where a late write has the same stamp and other
// references; nor for the steps after the fields.
func (a *attempt) mustWait() bool {
	guarded := a.info.Guarded && (a.upserts() || a.w.Link != "") && !a.j.Gone && a.advancer == nil && (!a.j.Refers || mutant.On("same-stamp")) &&
		a.flow.OnDelete != string(connectors.Delete) && a.flow.OnRename != "rename" && !a.renames()
	return a.unsettled() && !guarded
}

// settling is the outcome of a job that came before its time. Nothing was written.
func (a *attempt) settling() connectors.Outcome {
	o := connectors.Fail(connectors.Transient, jobs.CodeSettling,
		"an earlier write may still be at work in the target until %s", a.settledAt().UTC().Format(time.RFC3339))
	o.RetryAfter = max(a.settledAt().Sub(a.at), time.Millisecond)
	return o
}

// viewIsCurrent reports whether what the target says of the record takes our own
// last write into account. Its index, or a replica that answers, may be behind by
// SettleTime: until then it shows a state that we have replaced, or denies a
// record that we have created.
func (a *attempt) viewIsCurrent() bool {
	last := a.j.LastAt
	if a.j.AppliedAt.After(last) {
		last = a.j.AppliedAt // under the key that the record had before
	}
	if a.resent {
		last = a.at
	}
	return last.IsZero() || !a.at.Before(last.Add(a.settle))
}

// lagging is the outcome of a job that needs an answer which knows of our own writes.
func (a *attempt) lagging() connectors.Outcome {
	o := connectors.Fail(connectors.Transient, jobs.CodeSettling, "what the target says of the record may not take our last write into account yet")
	o.RetryAfter = max(a.settle, time.Second)
	return o
}

// absentOnce asks for a second look at a record that was not found although it
// may be there, and reports whether it is still to come. The looks are SettleTime
// apart, and neither is earlier than SettleTime after a write in doubt.
//
// The first negative look is remembered in the row: the outcome's code is
// jobs.CodeAbsentOnce, which the journal stores with its time, and nothing is
// sent between it and the next attempt. Any other outcome in between (a pause, a
// failed read) makes the next negative look the first one again.
func (a *attempt) absentOnce() (connectors.Outcome, bool) {
	if mutant.On("one-look-believed") {
		return connectors.Outcome{}, false
	}
	gap := max(a.settle, time.Second)
	first := a.j.LastAt
	if a.j.LastCode == jobs.CodeAbsentOnce && !first.Before(a.settledAt()) && !a.at.Before(first.Add(gap)) {
		return connectors.Outcome{}, false
	}
	o := connectors.Fail(connectors.Transient, jobs.CodeAbsentOnce,
		"not found in the target, where it may be; looked for once more before anything follows from that")
	o.RetryAfter = gap
	return o, true
}

// findOne looks up the one record that carries the key. f is nil when there is
// none. ended says that o is the outcome: the look-up failed, or several records
// carry the key.
func (a *attempt) findOne(ctx context.Context, key string) (f *connectors.Found, o connectors.Outcome, ended bool) {
	w := a.w
	w.Key, w.Link = key, ""
	found, o, failed := a.find(ctx, w)
	switch {
	case failed:
		return nil, o, true
	case len(found) > 1:
		return nil, ambiguous(a.flow.Entity, key, found), true
	case len(found) == 1:
		return &found[0], o, false
	default:
		return nil, o, false
	}
}

// ambiguous refuses a key that several records carry. Picking one of them would
// be a guess, and a person has to say which of them is the record.
func ambiguous(entity, key string, found []connectors.Found) connectors.Outcome {
	const most = 10
	var ids []string
	for _, f := range found[:min(len(found), most)] {
		id := f.Link
		if f.Archived {
			id += " (archived)"
		}
		ids = append(ids, id)
	}
	list := strings.Join(ids, ", ")
	if n := len(found) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return connectors.Fail(connectors.Invalid, CodeAmbiguous,
		"%d records of %s carry the key %s: %s; leave the key to one of them, then replay this job", len(found), entity, key, list)
}

// stale is the outcome for a record that holds a newer version of ours. The
// comparison is left to the target once the source has begun anew: versions of
// another epoch say nothing, and one that holds none was not written by us.
func (a *attempt) stale(f connectors.Found) (connectors.Outcome, bool) {
	if a.w.Stamp.Epoch != 0 || f.Version == 0 || f.Version <= a.w.Stamp.Version {
		return connectors.Outcome{}, false
	}
	return connectors.Fail(connectors.Stale, "newer_version", "the target holds version %d, newer than %d", f.Version, a.w.Stamp.Version), true
}

// wrote reports whether an outcome says that the record stands as the write
// asks. A stale write is confirmed too, but nothing more may be done for it.
func wrote(o connectors.Outcome) bool { return o.Class.Confirmed() && o.Class != connectors.Stale }
