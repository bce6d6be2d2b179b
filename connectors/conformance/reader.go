package conformance

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

// maxPulls bounds a drain: no story of this suite needs as many.
const maxPulls = 400

// maxCursor is the contract's bound.
const maxCursor = 64 << 10

// reader reads a stream as a daemon does: it keeps the newest state of each
// record and the cursor.
type reader struct {
	t      testing.TB
	model  SourceModel
	gate   *gate
	skew   time.Duration
	wait   time.Duration // the timeout of its requests
	start  connectors.Start
	limit  int
	source connectors.Source
	cursor json.RawMessage
	state  map[string]state
	// problems are the texts of events without a usable record.
	problems []string
	events   int
	notes    []string
}

type state struct {
	version int64
	value   string
	gone    bool
}

func newReader(t testing.TB, m SourceModel) *reader {
	t.Helper()
	r := &reader{t: t, model: m, gate: &gate{}, wait: patient, start: connectors.Start{All: true}, limit: 2, state: map[string]state{}}
	r.restart()
	return r
}

// restart opens a fresh instance: all that stays is the cursor.
func (r *reader) restart() {
	r.t.Helper()
	r.source = open(r.t, r.model.Open, lend(r.t, r.gate, r.wait, r.skew)).Source()
	if r.source == nil {
		r.t.Fatal("the instance is no source")
	}
}

// fork is a reader with the same history that goes its own way.
func (r *reader) fork() *reader {
	f := *r
	f.state = maps.Clone(r.state)
	f.cursor = slices.Clone(r.cursor)
	f.problems = slices.Clone(r.problems)
	return &f
}

// pull takes one page into account.
func (r *reader) pull() (more bool, err error) {
	r.t.Helper()
	page, err := r.source.Pull(r.t.Context(), connectors.PullRequest{Stream: r.model.Stream, Cursor: r.cursor, Start: r.start, Limit: r.limit})
	if err != nil {
		var e *connectors.Error
		if !errors.As(err, &e) {
			r.t.Fatalf("pull: the error is a %T, not a *connectors.Error: %v", err, err)
		}
		return false, err
	}
	r.check(page)
	for _, e := range page.Events {
		r.take(e)
	}
	r.cursor = slices.Clone(page.Next)
	r.notes = append(r.notes, page.Notes...)
	return page.More, nil
}

// check holds a page against the contract.
func (r *reader) check(p connectors.Page) {
	r.t.Helper()
	if len(p.Next) > maxCursor {
		r.t.Errorf("a cursor of %d bytes, more than %d", len(p.Next), maxCursor)
	}
	if !json.Valid(p.Next) {
		r.t.Errorf("the cursor %q is not JSON", p.Next)
	}
	if p.Observed.IsZero() {
		// A page without a request of its own need not say when it was observed.
		if len(p.Events) > 0 {
			r.t.Error("the page does not say when it was observed")
		}
	}
	for _, n := range p.Notes {
		if strings.Contains(n, "\n") || n == "" {
			r.t.Errorf("a note is not one line: %q", n)
		}
	}
}

// take keeps an event as the journal does: the newer state of a record counts,
// of equal ones the one read later.
func (r *reader) take(e connectors.Event) {
	r.events++
	if e.Problem != "" || e.SourceID == "" {
		r.problems = append(r.problems, e.SourceID+": "+e.Problem)
		return
	}
	if old, ok := r.state[e.SourceID]; ok && e.HasVersion() && old.version > e.Version {
		return
	}
	s := state{version: e.Version, gone: e.Gone}
	if !e.Gone {
		s.value = r.model.Value(e.Body)
	}
	r.state[e.SourceID] = s
}

// drain pulls until there is no more.
func (r *reader) drain() {
	r.t.Helper()
	if err := r.tryDrain(); err != nil {
		r.t.Fatalf("pull: %v", err)
	}
}

func (r *reader) tryDrain() error {
	r.t.Helper()
	for range maxPulls {
		more, err := r.pull()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	r.t.Fatalf("after %d pages the listing has not come to its end", maxPulls)
	return nil
}

// want compares what was read with what the model holds.
func (r *reader) want(values map[string]string) {
	r.t.Helper()
	for id, v := range values {
		got, ok := r.state[id]
		switch {
		case !ok:
			r.t.Errorf("record %s was never read", id)
		case got.gone:
			r.t.Errorf("record %s was read as gone", id)
		case got.value != v:
			r.t.Errorf("record %s was last read as %q, and is %q", id, got.value, v)
		}
	}
	for id, s := range r.state {
		if _, ok := values[id]; !ok && !s.gone {
			r.t.Errorf("record %q was read, which the model never had or has deleted", id)
		}
	}
	if r.t.Failed() {
		r.t.Logf("cursor: %s; notes: %q; problems: %q", r.cursor, r.notes, r.problems)
	}
}
