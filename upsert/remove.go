package upsert

import (
	"context"

	"syncd/connectors"
)

// Codes of removals for which nothing was to be done.
const (
	codeIgnored      = "ignored"       // the flow leaves records that are gone alone
	codeNeverWritten = "never_written" // the target never had the record from us
	codeNotThere     = "not_there"     // the target has it no more
)

// gone handles a record that no longer exists at the source.
func (a *attempt) gone(ctx context.Context) connectors.Outcome {
	switch {
	case a.mustWait():
		return a.settling()
	case a.w.Removal == "":
		return connectors.Outcome{Class: connectors.Unchanged, Code: codeIgnored}
	case !a.mayStand() && a.w.Link == "" && !a.renames():
		return connectors.Outcome{Class: connectors.Unchanged, Code: codeNeverWritten}
	case a.upserts():
		return a.removeByKey(ctx)
	default:
		return a.removeByLink(ctx)
	}
}

// removeByKey removes the record of an entity that works by key, also from
// under the key that it had before.
func (a *attempt) removeByKey(ctx context.Context) connectors.Outcome {
	o := a.removeLinked(ctx)
	if !wrote(o) || !a.renames() {
		return o
	}
	old, fo, ended := a.findOne(ctx, a.j.RenamedFrom)
	switch {
	case ended:
		return fo
	case old == nil && !a.viewIsCurrent():
		return a.lagging()
	case old == nil:
		return o
	}
	a.w.Key, a.w.Link = a.j.RenamedFrom, old.Link
	return a.remove(ctx)
}

// removeByLink removes the record behind the link, or, where none is known or
// it leads nowhere, the one that is found by its key.
func (a *attempt) removeByLink(ctx context.Context) connectors.Outcome {
	if a.w.Link != "" {
		if o := a.removeLinked(ctx); !a.lostLink {
			return o
		}
		a.w.Link, a.lostLink = "", false
	}
	keys := []string{a.w.Key}
	if a.renames() {
		keys = append(keys, a.j.RenamedFrom)
	}
	for _, k := range keys {
		f, o, ended := a.findOne(ctx, k)
		if ended {
			return o
		}
		if f != nil {
			return a.removeFound(ctx, *f)
		}
	}
	if o, again := a.provenAbsent(); again {
		return o
	}
	return connectors.Outcome{Class: connectors.Unchanged, Code: codeNotThere}
}

// removeLinked removes the record behind the link that is known. A write in doubt may
// have created the record under an id that we never learnt, so its key is looked up as
// well: anew where nothing was there, or beside one that was moved to the key meanwhile.
func (a *attempt) removeLinked(ctx context.Context) connectors.Outcome {
	o := a.remove(ctx)
	if !wrote(o) || a.lostLink || a.w.Link == "" || !a.j.Unresolved() || a.finder == nil {
		return o
	}
	f, fo, ended := a.findOne(ctx, a.w.Key)
	switch {
	case ended:
		return fo
	case f == nil || f.Link == a.w.Link:
		return o
	default:
		return a.removeFound(ctx, *f)
	}
}

// removeFound removes a record that was found by its key.
func (a *attempt) removeFound(ctx context.Context, f connectors.Found) connectors.Outcome {
	// Kept before the removal is sent: should its answer be lost, the record must
	// not be taken for a create that has arrived.
	if o, failed := a.keep(ctx, f.Link); failed {
		return o
	}
	if st, newer := a.stale(f); newer {
		return st
	}
	return a.remove(ctx)
}

// remove sends the removal. A link that leads nowhere is noted; for an entity
// that works by key it means that the record is not there.
func (a *attempt) remove(ctx context.Context) connectors.Outcome {
	if ctx.Err() != nil {
		return stopping(ctx)
	}
	o := a.write(ctx, "remove", a.remover.Remove)
	switch {
	case o.Class != connectors.Missing:
		return o
	case !a.viewIsCurrent():
		return a.lagging()
	}
	a.lostLink = true
	return connectors.Outcome{Class: connectors.Unchanged, Code: codeNotThere, Message: o.Message}
}
