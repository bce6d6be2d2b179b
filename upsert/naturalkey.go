package upsert

import (
	"context"
	"fmt"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// beforeUpsert does what comes before a record is created or updated by its
// key in one step; ended is false when the upsert itself is to be sent.
func (a *attempt) beforeUpsert(ctx context.Context) (o connectors.Outcome, ended bool) {
	switch {
	case a.mustWait():
		return a.settling(), true
	case a.renames() && a.w.Link == "":
		return a.rename(ctx)
	case a.renames():
		// The link leads to the record under its old key; an upsert by the new key
		// would create a second one.
		if o := a.throughLink(ctx); !a.removedByUs(o) {
			return o, true
		}
		a.forgetRemoved()
		return a.rename(ctx)
	case a.flow.OnExisting == "refuse" && !a.mayBeOurs() && a.w.Link == "":
		f, o, ended := a.findOne(ctx, a.w.Key)
		if ended || f == nil {
			return o, ended
		}
		return a.exists(*f), true
	}
	return o, false
}

// exists refuses a record that was in the target before us.
func (a *attempt) exists(f connectors.Found) connectors.Outcome {
	return connectors.Fail(connectors.Invalid, CodeExists,
		"the target already holds %s %s, as %s, and flow %s says on_existing: refuse; remove it there, or say on_existing: adopt, then replay this job",
		a.flow.Entity, a.w.Key, f.Link, a.flow.Name)
}

// upsert sends one batch and returns an outcome per attempt.
func (s *Strategy) upsert(ctx context.Context, as []*attempt) []connectors.Outcome {
	out := make([]connectors.Outcome, len(as))
	if ctx.Err() != nil {
		for i := range out {
			out[i] = stopping(ctx)
		}
		return out
	}
	ws := make([]connectors.Write, len(as))
	for i, a := range as {
		ws[i] = a.w
	}
	answers := s.callUpsert(ctx, as, ws)
	for i, a := range as {
		out[i] = a.upserted(ctx, answers[i])
	}
	return out
}

// callUpsert returns exactly one outcome per write. A batch that was answered
// for another number of records is in doubt as a whole: which answer belongs to
// which record can no longer be told.
func (s *Strategy) callUpsert(ctx context.Context, as []*attempt, ws []connectors.Write) (out []connectors.Outcome) {
	all := func(o connectors.Outcome) []connectors.Outcome {
		os := make([]connectors.Outcome, len(ws))
		for i := range os {
			os[i] = o
		}
		return os
	}
	defer func() {
		if v := recover(); v != nil {
			text := as[0].panicked("upsert", v)
			if len(as) > 1 {
				text += fmt.Sprintf(" of %d records", len(as))
			}
			out = all(connectors.Fail(connectors.Unknown, CodePanic, "%s", text))
		}
	}()
	got := s.upserter.Upsert(ctx, ws)
	if len(got) != len(ws) {
		return all(connectors.Fail(connectors.Unknown, CodeShortAnswer,
			"%d records were sent and %d answered, so no answer can be told to be this record's", len(ws), len(got)))
	}
	for i := range got {
		got[i] = checked(ctx, got[i])
	}
	return got
}

// mayBeAnew reports whether an upsert may have created the record anew although its
// link is known: a removal of it, whose answer was lost, may have been done.
func (a *attempt) mayBeAnew() bool {
	inDoubt := a.w.Link != "" && a.j.Unresolved() && a.flow.OnDelete == string(connectors.Delete)
	return (a.removed || inDoubt) && !mutant.On("link-of-the-removed") // a removed one's link is stored still
}

// upserted goes on after the record's fields were written.
func (a *attempt) upserted(ctx context.Context, o connectors.Outcome) connectors.Outcome {
	if !wrote(o) {
		return o
	}
	a.rewritten = true
	if o.Link == "" && a.mayBeAnew() && a.finder != nil {
		f, fo, ended := a.findOne(ctx, a.w.Key)
		if ended || f == nil {
			return connectors.Fail(connectors.Unknown, CodeNoLink,
				"the target wrote the record, which may have been removed before, and does not say under which id: %s", fo.Message)
		}
		o.Link = f.Link
	}
	if a.advancer == nil {
		return o
	}
	if o.Link == "" && a.w.Link == "" {
		return connectors.Fail(connectors.Unknown, CodeNoLink, "the target wrote the record but did not say under which id")
	}
	return a.linked(ctx, o)
}
