package jobs

import (
	"time"

	"syncd/connectors"
)

// Nearly all writes are confirmed at once, of rows to which nothing has happened
// since they were claimed. Such a row needs not be read and stored whole again:
// Tx.CloseRows ends it where it is. Whatever else is to be noted of a row, or
// might be, goes the way of settling.

// Closing is a row that Tx.CloseRows is to end, because its write was confirmed.
type Closing struct {
	RowID
	// Generation and Attempt are those of the job that was written.
	Generation, Attempt int64
	// Class is what its write came to; "" for a row that is held and returned, but
	// not ended.
	Class connectors.Class
}

// Fits reports whether a row of a client is still as the job found it, and whether
// there is nothing to note of it but that it is done. Engines ask the same in
// their own words.
func (c *Closing) Fits(client string, r *Row) bool {
	return c.Class != "" && r.Client == client && r.Generation == c.Generation && r.Attempt == c.Attempt-1 &&
		r.State == Ready && !r.Gone && !r.Unresolved() && r.quiet() &&
		r.Group == "" && r.WaitEntity == "" && r.WaitKey == "" && r.RenamedFrom == ""
}

// Close ends a row that fits, as settling does. Engines do the same in their own words.
func (c *Closing) Close(r *Row, now time.Time) {
	r.Attempt = c.Attempt
	r.Solo, r.Misses, r.MissCode = false, 0, ""
	r.AppliedGeneration, r.AppliedHash, r.AppliedGone, r.AppliedAt = r.Generation, r.Hash, false, now
	r.LastClass, r.LastCode, r.LastMessage, r.LastAt = c.Class, "", "", now
	r.close(ReasonNone)
}

// quiet reports whether nothing that the row's history tells has become of it since
// it was confirmed last: the next confirmation needs no entry there either.
func (r *Row) quiet() bool { return r.LastClass == "" || r.LastClass.Confirmed() }

// closings are what CloseRows is to be asked for these settlements; nil when it
// could end none.
func closings(client string, ss []Settlement) []Closing {
	cs := make([]Closing, len(ss))
	seen := make(map[RowID]bool, len(ss))
	some := false
	for i := range ss {
		s, jb := &ss[i], ss[i].Job
		if seen[jb.RowID] {
			return nil // of two outcomes of one job the first counts
		}
		seen[jb.RowID] = true
		cs[i] = Closing{RowID: jb.RowID, Generation: jb.Generation, Attempt: jb.Number, Class: s.Outcome.Class}
		if s.plain() && cs[i].Fits(client, &jb.Row) {
			some = true
		} else {
			cs[i].Class = ""
		}
	}
	if !some {
		return nil
	}
	return cs
}

// plain reports whether an outcome says nothing but that the job's row is done.
func (s *Settlement) plain() bool {
	switch s.Outcome.Class {
	case connectors.Applied, connectors.Unchanged, connectors.AlreadyApplied:
	default:
		return false
	}
	return s.Outcome.Code == "" && s.Outcome.Message == "" && s.Reopen == (EntityKey{}) && s.Flow.Strategy != connectors.IdempotencyKey
}
