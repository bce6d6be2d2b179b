package jobs

import (
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// voiding takes back what is known of rows in a target that was restored.
type voiding struct {
	now, since time.Time
	f          *Flow
	// void are the records whose links mean nothing any more, with when they were first seen.
	void         map[EntityKey]time.Time
	patches      []Row
	history      []Attempt
	asks         []Request
	held, failed int64
}

// codeRestored is a redelivery in a row's history.
const codeRestored = "restored"

func (v *voiding) row(row *Row) {
	what := "the target was restored to its state of " + stampText(v.since)
	row.AppliedHash = nil
	row.KeyEpoch++
	asks := v.asksAPerson(row)
	if v.mayBeBack(row) && row.Gone && !row.Unresolved() && row.AppliedGeneration > 0 {
		row.UnresolvedAt = row.AppliedAt // should it come again, a person has to look before it is created
	}
	if v.isVoid(row) {
		row.AppliedGone = row.AppliedGeneration > 0 // it came after the backup
	}
	if v.f.findsAgain() && row.AppliedGone && !(row.State == Done && row.Gone) && !mutant.On("void-is-absent") {
		// Or just before: its answer was read after it, or the time that was given is
		// earlier. Or it was removed since then. Should it be gone by now, or get another
		// key, it is looked for.
		row.UnresolvedAt = later(row.UnresolvedAt, row.AppliedAt)
	}
	class := connectors.Transient
	switch {
	case row.State == Held:
		what += "; it waited for a person before, who has to look once more"
		// What is wanted to know of it is another thing now, and is to be told to whoever looks.
		row.LastCode, row.LastMessage, row.LastAt = codeRestored, clip(what), v.now
	case asks:
		// Nobody else can be asked whether the backup has it.
		v.held++
		class = connectors.Unknown
		what += "; only a person can find out whether it is there, and as it should be"
		row.UnresolvedAt = later(row.AppliedAt, v.void[row.EntityKey()])
		if row.State == Done {
			row.OpenSince = v.now
		}
		row.State, row.Reason, row.DueAt = Held, ReasonNone, time.Time{}
		row.LastClass, row.LastCode, row.LastMessage, row.LastAt = class, codeRestored, clip(what), v.now
	case row.State == Done:
		what += v.again(row)
	default:
		what += "; it is " + string(row.State) + " and stays so"
	}
	generation := row.Generation
	if class == connectors.Unknown {
		generation = row.AppliedGeneration // what a person is asked about
		if generation == 0 {
			generation = row.Generation // it was created, and is not yet as it should be
		}
	}
	v.patches = append(v.patches, *row)
	v.history = append(v.history, Attempt{RowID: row.RowID, Number: row.Attempt, Generation: generation, At: v.now,
		Class: class, Code: codeRestored, Message: clip(what)})
}

// asksAPerson reports whether a record may stand in the backup, cannot be looked for,
// and would be doubled or written twice if it were written once more. Under idempotency
// keys that is one that was created since then: its answer may have been read after the
// backup, or the time that was given is earlier, and its key is over; or one that was
// removed since then, and has come again.
func (v *voiding) asksAPerson(row *Row) bool {
	if row.Unresolved() || row.AppliedGeneration == 0 && !v.isVoid(row) || row.Gone {
		return false
	}
	switch v.f.Strategy {
	case connectors.AtMostOnce:
		return true
	case connectors.IdempotencyKey:
		return v.mayBeBack(row) && !mutant.On("void-key-renewed")
	}
	return false
}

// isVoid reports whether the record's link means nothing any more.
func (v *voiding) isVoid(row *Row) bool { return !v.void[row.EntityKey()].IsZero() }

// mayBeBack reports whether the backup may have a record of which nobody but a person
// can say so: its id is void, or it was removed.
func (v *voiding) mayBeBack(row *Row) bool {
	return v.f.blind() && (v.isVoid(row) || row.AppliedGone)
}

// blind reports whether nobody but a person can find a record of the flow of whose id
// nothing is known, and a second create doubles it.
func (f *Flow) blind() bool {
	return !f.CanFind && (f.Strategy == connectors.AtMostOnce || f.Strategy == connectors.IdempotencyKey)
}

// findsAgain reports whether a record of the flow that stands in the target although
// nothing is known of it can be found, and would have to be removed or given its key.
func (f *Flow) findsAgain() bool {
	return f.CanFind && f.Strategy != connectors.AtMostOnce && (f.OnDelete != "ignore" || f.OnRename == "rename")
}

// again opens a row that was done.
func (v *voiding) again(row *Row) string {
	switch {
	case row.Reason == ReasonDiscarded || row.Reason == ReasonRenamed || row.Reason == ReasonSuperseded:
		v.failed++
		return "; it was given up, and is left alone"
	case row.Gone && v.f.OnDelete == "ignore":
		return "; it is not wanted there, and is left alone"
	case row.Gone && !v.f.CanFind && v.f.Strategy != connectors.NaturalKey:
		v.failed++
		return "; if the record is there again, it has to be removed by hand: it cannot be looked for by its key"
	case row.Gone:
		row.AppliedGone = false
		row.Generation++
		row.reopen(v.f, v.now)
		return "; it is removed again"
	case len(row.Body) == 0 && (!v.f.CanRefresh || row.SourceID == ""):
		v.failed++
		return "; what it was is not kept any more, and its source cannot be asked for one record; it stays as it is"
	case len(row.Body) == 0:
		v.asks = append(v.asks, ask(row, v.f, Refresh, v.now))
		row.OpenSince = v.now
		row.State, row.Reason, row.DueAt = Ready, ReasonRefresh, v.now.Add(refreshEvery)
		return "; it is read again and written once more"
	}
	row.Generation++
	row.reopen(v.f, v.now)
	return "; it is written once more"
}
