package upsert

import (
	"context"

	"syncd/connectors"
)

// rename finds the record under the key that it had before and gives it the
// new one. ended is false when no record stands under the old key: then the
// new key is written as any other.
//
// The journal lets go of RenamedFrom when another source record takes the old
// key over; a record found under it is this one.
func (a *attempt) rename(ctx context.Context) (o connectors.Outcome, ended bool) {
	old, o, ended := a.findOne(ctx, a.j.RenamedFrom)
	switch {
	case ended:
		return o, true
	case old == nil && !a.viewIsCurrent():
		return a.lagging(), true
	case old == nil:
		return o, false
	}
	taken, o, ended := a.findOne(ctx, a.w.Key)
	if ended {
		return o, true
	}
	if taken != nil && taken.Link != old.Link {
		return connectors.Fail(connectors.Invalid, CodeExists,
			"%s %s cannot get the key %s: it is %s, and %s has that key; leave the key to one of them, then replay this job",
			a.flow.Entity, a.j.RenamedFrom, a.w.Key, old.Link, taken.Link), true
	}
	if o, failed := a.keep(ctx, old.Link); failed {
		return o, true
	}
	return a.throughLink(ctx), true
}
