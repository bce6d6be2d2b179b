package jobs

import "time"

// A create that has waited longer than its flow's fresh_within is read anew at its
// source before it is sent, because what it stands for may have been cancelled
// meanwhile. The answer is a new generation which is young again and takes the
// place that the row had among the due ones, so that no backlog makes it old once more.

// staleCreate reports whether a row is a create that has to be read anew first.
func staleCreate(row *Row, f *Flow, now time.Time) bool {
	create := row.AppliedGeneration == 0 && !row.Gone && !row.Unresolved()
	return f.FreshWithin > 0 && !f.Every() && create && askable(row, f) && now.Sub(row.lastRead()) > f.FreshWithin
}

// lastRead is when the source last gave the row's desired state, also if that is
// an entry of a log, which does not become young by being read again.
func (r *Row) lastRead() time.Time { return later(r.ReadAt, r.Desired.Observed) }
