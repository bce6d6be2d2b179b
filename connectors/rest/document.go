package rest

import (
	"context"
	"net/http"
	"slices"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// remover is an entity with remove.
type remover struct{ *entity }

// Remove archives or deletes the record.
func (r remover) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	set := r.set.Remove
	req, tmpl := &httpx.Request{}, ""
	switch w.Removal {
	case connectors.Delete:
		req.Method, tmpl = http.MethodDelete, set.Delete
	case connectors.Archive:
		req.Method, req.Body, tmpl = set.Archive.Method, set.Archive.Body, set.Archive.Path
	}
	if tmpl == "" {
		return connectors.Fail(connectors.Invalid, "no_removal", "the entity describes no removal of the kind %q", w.Removal)
	}
	var err error
	req.Shape = shape(req.Method, tmpl)
	if req.Path, err = address(tmpl, w); err != nil {
		return unsendable(err)
	}
	want := wantAnswer
	if set.Answer == "none" {
		want = wantStatus
	}
	a, o, done := r.write(ctx, req, want)
	if !done {
		if o = r.throughLink(a, o); o.Class == connectors.Missing {
			o.Class = connectors.Unchanged
		}
		return o
	}
	return connectors.Outcome{Class: connectors.Applied, Link: w.Link}
}

// advancer is an entity with steps.
type advancer struct{ *entity }

// Advance takes the steps that the record asks for and the document has not
// behind it. Before each the document is read again, so that a step whose answer
// was lost is not taken twice.
func (v advancer) Advance(ctx context.Context, w connectors.Write) connectors.Outcome {
	want, err := parse(w.Body)
	if err != nil {
		return unsendable(err)
	}
	o := connectors.Outcome{Class: connectors.Unchanged, Link: w.Link}
	for _, step := range v.set.Advance.Steps {
		if !step.asked(want) {
			continue
		}
		done, bad := v.isDone(ctx, step, w)
		if bad != nil {
			return *bad
		}
		if done {
			continue
		}
		if bad := v.take(ctx, step, w); bad != nil {
			return *bad
		}
		o.Class = connectors.Applied
	}
	return o
}

func (s *stepSettings) asked(want raw) bool {
	val, found, err := s.When.in(want)
	return err == nil && found && slices.Contains(s.Equals, val.word())
}

// isDone reads the document and tells whether the step is behind it.
func (v advancer) isDone(ctx context.Context, step *stepSettings, w connectors.Write) (done bool, bad *connectors.Outcome) {
	fail := func(o connectors.Outcome) (bool, *connectors.Outcome) { return false, &o }
	p, err := address(v.set.Advance.Read, w)
	if err != nil {
		return fail(unsendable(err))
	}
	_, body, err := v.api.read(ctx, &httpx.Request{Path: p, Shape: shape("", v.set.Advance.Read)})
	if err != nil {
		return fail(goneOr(err, connectors.Missing))
	}
	doc, found, err := v.set.Advance.Record.in(body)
	if err != nil || !found {
		return fail(connectors.Fail(connectors.Transient, "answer_shape", "the answer holds no document at %s", v.set.Advance.Record))
	}
	state, found, err := step.Done.in(doc)
	if err != nil || !found {
		return fail(connectors.Fail(connectors.Transient, "answer_shape", "the document holds no %s", step.Done))
	}
	return slices.Contains(step.In, state.word()), nil
}

// take sends the step and makes sure that the document has taken it.
func (v advancer) take(ctx context.Context, step *stepSettings, w connectors.Write) (bad *connectors.Outcome) {
	p, err := address(step.Path, w)
	if err != nil {
		o := unsendable(err)
		return &o
	}
	a, o, ok := v.write(ctx, &httpx.Request{Method: step.Method, Path: p, Body: step.Body, Shape: shape(step.Method, step.Path)}, wantStatus)
	if !ok {
		o = v.throughLink(a, o)
		return &o
	}
	done, bad := v.isDone(ctx, step, w)
	if bad != nil {
		// The step was accepted; what cannot be read now is read the next time.
		bad.Class = connectors.Transient
		return bad
	}
	if !done {
		o := connectors.Fail(connectors.Transient, "step_pending", "the step %s was accepted, but %s does not show it yet", step.Path, step.Done)
		return &o
	}
	return nil
}
