package upsert

import (
	"context"
	"time"

	"syncd/connectors"
	"syncd/internal/crash"
	"syncd/internal/mutant"
	"syncd/jobs"
)

// reference brings a record to its state by its link, or finds or creates it by
// its key. It carries every strategy but natural_key, and create_only flows of that
// one too.
func (a *attempt) reference(ctx context.Context) connectors.Outcome {
	if a.mustWait() || a.mayBeTwo() && a.unsettled() {
		return a.early(ctx)
	}
	if a.mayBeTwo() {
		f, o, ended := a.findOne(ctx, a.w.Key)
		if ended {
			return o
		}
		if f != nil && f.Link == a.w.Link {
			return a.adopt(ctx, *f)
		}
		if f != nil && a.renames() {
			return a.yield(ctx, *f)
		}
	}
	if a.w.Link != "" {
		o := a.throughLink(ctx)
		if o.Class == connectors.Invalid && a.renames() && a.j.Unresolved() && a.flow.OnExisting == "adopt" {
			f, fo, ended := a.findOne(ctx, a.w.Key)
			switch {
			case ended:
				return fo
			case f != nil && f.Link != a.w.Link:
				return a.yield(ctx, *f)
			}
		}
		if !a.removedByUs(o) {
			return o
		}
		a.forgetRemoved()
	}
	if a.w.Link == "" && a.renames() && !(a.removed && mutant.On("old-key-forgotten")) {
		if o, ended := a.rename(ctx); ended {
			return o
		}
	}
	if a.finder == nil && a.j.Applied() {
		return a.standsUnnamed()
	}
	if a.findsFirst() {
		f, o, ended := a.findOne(ctx, a.w.Key)
		if ended {
			return o
		}
		if f != nil {
			return a.adopt(ctx, *f)
		}
	}
	if a.sentUnremembered() {
		p, o, ok := a.pin(ctx)
		if !ok {
			return o
		}
		a.j.Pin = p
	}
	if a.mayResend() {
		return a.resend(ctx)
	}
	if a.finder == nil && a.j.Unresolved() {
		return a.unresolvable()
	}
	if a.findsFirst() {
		if o, again := a.provenAbsent(); again {
			return o
		}
		crash.At("job.absent")
	}
	return a.create(ctx)
}

// yield gives up the move of a record to a key under which a create of ours, in doubt when
// the record was moved, has made another one: that one is the key's record from now on,
// and the moved one is removed, where the flow removes records that are gone.
func (a *attempt) yield(ctx context.Context, f connectors.Found) connectors.Outcome {
	if a.remover != nil && (a.flow.OnDelete == string(connectors.Delete) || a.flow.OnDelete == string(connectors.Archive)) {
		w := a.w
		a.w.Key, a.w.Body, a.w.Removal = a.j.RenamedFrom, nil, connectors.Removal(a.flow.OnDelete)
		o := a.remove(ctx)
		a.w, a.lostLink = w, false
		if !wrote(o) {
			return o
		}
	}
	return a.adopt(ctx, f)
}

// mayBeTwo reports whether a record in doubt that has a link may have a twin
// which only its key tells of: nothing but our look-ups kept it from being
// created twice, and a server that was slower than it says has done it.
func (a *attempt) mayBeTwo() bool {
	return a.unguarded() && a.j.Unresolved() && a.w.Link != "" && a.finder != nil
}

// unguarded reports whether the target would take a second create of the record:
// what it would refuse it by is not there, or not used.
func (a *attempt) unguarded() bool {
	return a.flow.Strategy != connectors.NaturalKey && a.flow.Strategy != connectors.ExternalRef
}

// standsUnnamed handles a record that is known to be in the target under an id that
// nobody knows, where it cannot be asked for by its key.
func (a *attempt) standsUnnamed() connectors.Outcome {
	if a.flow.CreateOnly {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	return connectors.Fail(connectors.Invalid, CodeNoLink,
		"the record was written, but its id in the target is not known, and the target cannot be asked for it by its key")
}

// findsFirst reports whether the key is looked up before a create is sent. It
// need not be for a new record under a reference that the target keeps unique:
// a duplicate is refused and then looked up. Where an existing record must not
// be touched it is looked up all the same, since after a create whose answer
// was lost nobody could tell it from our own.
func (a *attempt) findsFirst() bool {
	return a.finder != nil &&
		(a.flow.Strategy != connectors.ExternalRef || a.flow.OnExisting == "refuse" || a.mayBeOurs() || a.tried())
}

// removedByUs reports that the link leads nowhere because a removal of ours,
// confirmed or in doubt, has deleted the record.
func (a *attempt) removedByUs(o connectors.Outcome) bool {
	return o.Class == connectors.Missing && a.flow.OnDelete == string(connectors.Delete) &&
		(a.j.AppliedGone || a.j.Unresolved())
}

// forgetRemoved goes on without the link of a record that a removal of ours has
// deleted. It may have been created anew since, under the key that it had then.
func (a *attempt) forgetRemoved() { a.w.Link, a.lostLink, a.removed = "", false, true }

// early handles a record in doubt whose earlier write may still be at work.
// That it is not found proves nothing yet. That it is found proves that it is
// there, and is ours; but what it holds may still change under our hands, so it
// is not written to. Only a first create that is complete is believed at once.
func (a *attempt) early(ctx context.Context) connectors.Outcome {
	if a.w.Link != "" || a.renames() || a.finder == nil {
		return a.settling()
	}
	f, o, ended := a.findOne(ctx, a.w.Key)
	if ended {
		return o
	}
	if f == nil {
		return a.settling()
	}
	if o, failed := a.keep(ctx, f.Link); failed {
		return o
	}
	complete := a.advancer == nil && (f.Same || a.flow.CreateOnly)
	if _, newer := a.stale(*f); !newer && complete && a.j.AppliedGeneration == 0 {
		return connectors.Outcome{Class: connectors.AlreadyApplied}
	}
	return a.settling()
}

// provenAbsent notes that the record is not in the target, or asks for a second
// look. It is not come to before what is in doubt has settled: mustWait sees to that.
func (a *attempt) provenAbsent() (o connectors.Outcome, again bool) {
	// Under a unique reference a create that comes too early is refused; a removal
	// that is given up too early is not.
	if (a.unguarded() || a.j.Gone) && a.mayStand() {
		if o, again := a.absentOnce(); again {
			return o, true
		}
	}
	a.absent = a.j.Unresolved()
	return o, false
}

// create creates the record under its key.
func (a *attempt) create(ctx context.Context) connectors.Outcome {
	if ctx.Err() != nil {
		return stopping(ctx)
	}
	var o connectors.Outcome
	if a.keyed() {
		o = a.createKeyed(ctx)
	} else {
		o = a.write(ctx, opCreate, a.creator.Create)
	}
	switch {
	case o.Class.Confirmed() && o.Link == "":
		return connectors.Fail(connectors.Unknown, CodeNoLink, "the target created the record but did not say under which id")
	case o.Class.Confirmed():
		crash.At("job.created")
		return a.created(ctx, o)
	case o.MaybeDuplicate && o.Class != connectors.Unknown && a.finder != nil:
		return a.duplicate(ctx, o)
	default:
		return o
	}
}

// created goes on with a record just created. Where an earlier create of it was
// only looked for in vain, and the target would not refuse a second one, the
// doubt stays until one more look: a pair is found then, and told.
func (a *attempt) created(ctx context.Context, o connectors.Outcome) connectors.Outcome {
	a.doubled = a.unguarded() && a.j.Unresolved()
	o = a.linked(ctx, o)
	if !a.doubled || !o.Class.Confirmed() {
		return o
	}
	o = connectors.Fail(connectors.Transient, jobs.CodeCreatedInDoubt,
		"created, after an earlier try had not shown; looked up once more in case that one comes to light")
	o.RetryAfter = max(a.settle, time.Second)
	return o
}

// duplicate reads back what may have refused a create as a duplicate. When
// nothing carries the key, the refusal had another cause and stands; but where
// there is reason to think that the record is there, its index may lag, and it
// is looked for once more.
func (a *attempt) duplicate(ctx context.Context, refusal connectors.Outcome) connectors.Outcome {
	absent := a.absent
	a.absent = false // the refusal may say otherwise
	f, o, ended := a.findOne(ctx, a.w.Key)
	switch {
	case ended:
		return o
	case f != nil:
		return a.adopt(ctx, *f)
	}
	if a.mayStand() {
		if o, again := a.absentOnce(); again {
			return o
		}
	}
	a.absent = absent
	return refusal
}

// adopt goes on with a record that was found by its key.
func (a *attempt) adopt(ctx context.Context, f connectors.Found) connectors.Outcome {
	ours := a.mayBeOurs()
	if !ours && a.flow.OnExisting == "refuse" {
		return a.exists(f)
	}
	if o, failed := a.keep(ctx, f.Link); failed {
		return o
	}
	o := connectors.Outcome{Class: connectors.Unchanged}
	if ours {
		o.Class = connectors.AlreadyApplied
	}
	if st, newer := a.stale(f); newer {
		return st
	}
	switch {
	case a.flow.CreateOnly && ours && a.j.AppliedGeneration == 0:
		return a.advance(ctx, o) // our own create, perhaps not yet complete
	case a.flow.CreateOnly:
		return o
	case f.Same && !f.Archived && a.viewIsCurrent():
		a.rewritten = true
		return a.advance(ctx, o)
	}
	if o := a.throughLink(ctx); !a.removedByUs(o) {
		return o
	}
	// What was found is the record that we have deleted ourselves.
	return a.lagging()
}

// keep commits the link of a record that was found. Nothing has been written
// when that fails.
func (a *attempt) keep(ctx context.Context, link string) (o connectors.Outcome, failed bool) {
	if err := a.putLink(ctx, link); err != nil {
		return connectors.Fail(connectors.Transient, CodeLinkNotStored, "the record was found as %s, but that could not be stored: %v", link, err), true
	}
	a.w.Link = link
	return o, false
}

// throughLink updates the record behind the link that is known.
func (a *attempt) throughLink(ctx context.Context) connectors.Outcome {
	if a.flow.CreateOnly {
		// A record of which no attempt was ever confirmed may be our own create that
		// was not brought to its state.
		if a.j.AppliedGeneration == 0 && a.tried() {
			return a.advance(ctx, connectors.Outcome{Class: connectors.Unchanged})
		}
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	if ctx.Err() != nil {
		return stopping(ctx)
	}
	o := a.write(ctx, "update", a.updater.Update)
	switch {
	case o.Class.Confirmed() && o.Link != "" && o.Link != a.w.Link:
		f := connectors.Fail(connectors.Unknown, CodeForeignAnswer, "record %s was updated, and the answer names %s", a.w.Link, o.Link)
		f.Link = a.w.Link
		return f
	case wrote(o):
		a.rewritten = true
		return a.advance(ctx, o)
	case o.Class == connectors.Missing && !a.viewIsCurrent() && !a.removedByUs(o):
		// The server that answered may not have heard of the record yet. To forget the
		// link now would lose what we know of it.
		return a.lagging()
	case o.Class == connectors.Missing:
		a.lostLink = true
		return o
	case o.Class == connectors.Frozen:
		return a.frozen(ctx, o)
	default:
		return o
	}
}

// frozen looks whether a document that can no longer be changed already is as
// asked. It may be that our own last step, whose answer was lost, has frozen it.
func (a *attempt) frozen(ctx context.Context, refusal connectors.Outcome) connectors.Outcome {
	if a.finder == nil {
		return refusal
	}
	found, o, failed := a.find(ctx, a.w)
	if failed {
		return o
	}
	for _, f := range found {
		switch {
		case f.Link != a.w.Link || !f.Same:
		case !a.viewIsCurrent():
			return a.lagging()
		default:
			a.rewritten = true
			return a.advance(ctx, connectors.Outcome{Class: connectors.AlreadyApplied})
		}
	}
	return refusal
}

// linked commits the link of a record just written, then brings it to its state.
func (a *attempt) linked(ctx context.Context, o connectors.Outcome) connectors.Outcome {
	if o.Link != "" && o.Link != a.w.Link {
		a.w.Link = o.Link
		if err := a.putLink(ctx, o.Link); err != nil {
			f := connectors.Fail(connectors.Unknown, CodeLinkNotStored, "the record was written as %s, but that could not be stored: %v", o.Link, err)
			f.Link = o.Link
			return f
		}
	}
	a.absent, a.rewritten = false, true
	if !wrote(o) {
		return o
	}
	return a.advance(ctx, o)
}

// advance brings a document whose fields are written to the state it asks for.
func (a *attempt) advance(ctx context.Context, base connectors.Outcome) connectors.Outcome {
	if a.advancer == nil {
		return base
	}
	if ctx.Err() != nil {
		return stopping(ctx)
	}
	o := a.write(ctx, "advance", a.advancer.Advance)
	o.Link = a.w.Link
	if o.Class == connectors.Unchanged || o.Class == connectors.AlreadyApplied {
		base.Link = a.w.Link
		return base
	}
	return o
}
