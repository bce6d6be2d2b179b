package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"syncd/connectors"
)

// Target runs the suite for targets: for each primitive that the entity
// offers, that it does what it says and says what it did.
func Target(t *testing.T, start TargetHarness) {
	t.Helper()
	w := newWriter(t, start(t))
	for _, c := range []struct {
		name  string
		run   func(w *writer)
		needs bool
	}{
		{"info is complete", infoComplete, true},
		{"upsert creates and updates under one key", upsertTwice, w.up != nil},
		{"upsert answers each record in order, and one refused record refuses no other", upsertBatch, w.up != nil},
		{"upsert refuses an older state", upsertStale, w.up != nil && w.info.Guarded},
		{"create makes one record and names it", createOnce, w.create != nil},
		{"create of a key that is taken is refused as a duplicate", createTaken, w.create != nil && w.info.Carries(connectors.ExternalRef)},
		{"create of a record the target refuses", createRefused, w.create != nil && w.model.Refused != nil},
		{"what a create sends can be composed beforehand", composedAgain, w.keyed()},
		{"a create that is sent again under its key makes one record", createdAgain, w.keyed()},
		{"another key is another create", otherKey, w.keyed() && w.model.SecretlyTwice != nil},
		{"a known key with another body comes to what is declared", otherBody, w.keyed()},
		{"a create under a key whose answer is lost is sent again in the same bytes", keyedLost, w.keyed() && w.model.Hostile != nil},
		{"find tells what the target holds", findTruth, w.find != nil},
		{"find tells two keys apart that begin alike", findExact, w.find != nil},
		{"find shows every record under a key", findTwo, w.find != nil && w.model.SecretlyTwice != nil},
		{"find tells whether the record is as desired", findSame, w.find != nil},
		{"update changes the record behind the link", updateOne, w.update != nil},
		{"update leaves other fields alone", updateOthers, w.update != nil && w.model.Other != nil},
		{"update through a link that leads nowhere", updateMissing, w.update != nil},
		{"remove", removeTwice, w.remove != nil && len(w.info.Removals) > 0},
		{"a closed gate lets nothing out", writeGateClosed, true},
		{"a caller who gave up before sends nothing", canceledBefore, true},
		{"an unknown entity is refused", unknownEntity, true},
	} {
		if !c.needs {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(newWriter(t, start(t))) })
	}
	if w.model.Hostile != nil {
		t.Run("faults", func(t *testing.T) { writeFaults(t, start) })
		t.Run("a caller who gives up during a write leaves it in doubt", func(t *testing.T) { canceledDuring(t, start) })
	}
}

// writer holds an entity by its primitives; those it lacks are nil.
type writer struct {
	t       testing.TB
	model   TargetModel
	gate    *gate
	target  connectors.Target
	entity  connectors.Entity
	info    connectors.EntityInfo
	up      connectors.Upserter
	create  connectors.Creator
	compose connectors.Composer
	find    connectors.Finder
	update  connectors.Updater
	remove  connectors.Remover
	keys    int
}

func newWriter(t testing.TB, m TargetModel) *writer {
	t.Helper()
	w := &writer{t: t, model: m, gate: &gate{}}
	w.connect(patient)
	return w
}

// connect opens a fresh instance.
func (w *writer) connect(timeout time.Duration) {
	w.t.Helper()
	w.target = open(w.t, w.model.Open, lend(w.t, w.gate, timeout, 0)).Target()
	if w.target == nil {
		w.t.Fatal("the instance is no target")
	}
	var err error
	if w.entity, err = w.target.Entity(w.model.Entity); err != nil {
		w.t.Fatalf("entity %s: %v", w.model.Entity, err)
	}
	w.info = w.entity.Info()
	can := connectors.PrimitivesOf(w.entity)
	w.up, w.create, w.compose, w.find, w.update, w.remove = can.Upserter, can.Creator, can.Composer, can.Finder, can.Updater, can.Remover
}

// keyed reports whether the entity creates under idempotency keys.
func (w *writer) keyed() bool { return w.info.Carries(connectors.IdempotencyKey) }

// newKey is a key that was not used before.
func (w *writer) newKey() string {
	w.keys++
	return w.model.key(w.keys)
}

// write makes a write whose state is the n-th of its record.
func (w *writer) write(key, link, value string, n int) connectors.Write {
	return connectors.Write{Key: key, Link: link, Body: w.model.Body(value),
		Stamp: connectors.Stamp{Version: at(n).UnixMicro(), Observed: at(n + 1)}}
}

// holds compares what the target holds under a key with one record, or with
// none for value "".
func (w *writer) holds(key, value string) {
	w.t.Helper()
	held := w.model.Held(key)
	switch {
	case value == "" && len(held) == 0:
	case value == "" || len(held) != 1:
		w.t.Errorf("under key %s the target holds %d records: %+v", key, len(held), held)
	case held[0].Value != value:
		w.t.Errorf("under key %s the target holds %q, not %q", key, held[0].Value, value)
	}
}

// is checks the class of an outcome.
func (w *writer) is(o connectors.Outcome, want ...connectors.Class) {
	w.t.Helper()
	for _, c := range want {
		if o.Class == c {
			return
		}
	}
	w.t.Errorf("the outcome is %+v; the class should be one of %v", o, want)
}

// sameLink compares links by the text they hold.
func sameLink(a, b string) bool { return a != "" && linkText(a) == linkText(b) }

func linkText(link string) string {
	var s string
	if json.Unmarshal([]byte(link), &s) == nil {
		return s
	}
	return link
}

func infoComplete(w *writer) {
	i := w.info
	if i.Name != w.model.Entity {
		w.t.Errorf("the entity calls itself %q", i.Name)
	}
	if i.Doc == "" || len(i.Strategies) == 0 {
		w.t.Errorf("no doc, or no strategies: %+v", i)
	}
	if i.SettleTime <= 0 {
		w.t.Errorf("settle time %v: a request whose answer is lost may still be worked on", i.SettleTime)
	}
	if i.Carries(connectors.NaturalKey) && w.up == nil {
		w.t.Error("natural_key without Upsert")
	}
	if (i.Carries(connectors.ExternalRef) || i.Carries(connectors.Lookup)) && (w.create == nil || w.find == nil) {
		w.t.Error("external_ref or lookup without Create and Find")
	}
	if i.Carries(connectors.IdempotencyKey) && (w.create == nil || w.compose == nil || i.Idempotency == nil) {
		w.t.Error("idempotency_key without Create and Compose, or without what the target does with keys")
	}
	if i.Idempotency != nil && i.Idempotency.Problem() != "" {
		w.t.Error(i.Idempotency.Problem())
	}
	if i.Carries(connectors.AtMostOnce) && w.create == nil {
		w.t.Error("at_most_once without Create")
	}
	if i.Finds != (w.find != nil) {
		w.t.Errorf("it says that it can be looked up: %v, and has Find: %v", i.Finds, w.find != nil)
	}
	if len(i.Removals) > 0 && w.remove == nil {
		w.t.Error("removals without Remove")
	}
	for _, s := range i.Strategies {
		if s.Field == "" || s.KeyField == "" {
			w.t.Errorf("strategy %s does not say by which field: %q, %q", s.Strategy, s.Field, s.KeyField)
		}
	}
}

func (w *writer) upsertOne(x connectors.Write) connectors.Outcome {
	w.t.Helper()
	out := w.up.Upsert(w.t.Context(), []connectors.Write{x})
	if len(out) != 1 {
		w.t.Fatalf("%d outcomes for one record", len(out))
	}
	return out[0]
}

func upsertTwice(w *writer) {
	key := w.newKey()
	w.is(w.upsertOne(w.write(key, "", "one", 1)), connectors.Applied)
	w.holds(key, "one")
	w.is(w.upsertOne(w.write(key, "", "one", 1)), connectors.Applied, connectors.Unchanged)
	w.holds(key, "one")
	w.is(w.upsertOne(w.write(key, "", "two", 2)), connectors.Applied)
	w.holds(key, "two")
}

func upsertBatch(w *writer) {
	var ws []connectors.Write
	n := min(max(w.info.MaxBatch, 3), 7)
	bad := -1
	for i := range n {
		x := w.write(w.newKey(), "", "value", 1)
		if w.model.Refused != nil && i == n/2 {
			bad, x.Body = i, w.model.Refused()
		}
		ws = append(ws, x)
	}
	var out []connectors.Outcome
	for batch := range slices.Chunk(ws, max(w.info.MaxBatch, 1)) {
		got := w.up.Upsert(w.t.Context(), batch)
		if len(got) != len(batch) {
			w.t.Fatalf("%d outcomes for %d records", len(got), len(batch))
		}
		out = append(out, got...)
	}
	for i, o := range out {
		if i == bad {
			w.is(o, connectors.Invalid)
			w.holds(ws[i].Key, "")
			continue
		}
		w.is(o, connectors.Applied)
		w.holds(ws[i].Key, "value")
	}
}

func upsertStale(w *writer) {
	key := w.newKey()
	w.is(w.upsertOne(w.write(key, "", "new", 20)), connectors.Applied)
	w.is(w.upsertOne(w.write(key, "", "old", 10)), connectors.Stale)
	w.holds(key, "new")
	w.is(w.upsertOne(w.write(key, "", "newer", 30)), connectors.Applied)
	w.holds(key, "newer")
	// At equal versions the later reading counts.
	x := w.write(key, "", "read later", 30)
	x.Stamp.Observed = x.Stamp.Observed.Add(time.Second)
	w.is(w.upsertOne(x), connectors.Applied)
	w.holds(key, "read later")
	// A source that began anew counts above any version of the old one.
	y := w.write(key, "", "new epoch", 5)
	y.Stamp.Epoch = 1
	w.is(w.upsertOne(y), connectors.Applied)
	w.holds(key, "new epoch")
}

func createOnce(w *writer) {
	key := w.newKey()
	o := w.create.Create(w.t.Context(), w.write(key, "", "one", 1))
	w.is(o, connectors.Applied)
	w.holds(key, "one")
	if held := w.model.Held(key); len(held) == 1 && !sameLink(held[0].Link, o.Link) {
		w.t.Errorf("the link is %q, the record's id %s", o.Link, held[0].Link)
	}
}

func createTaken(w *writer) {
	key := w.newKey()
	w.model.Put(key, "theirs")
	o := w.create.Create(w.t.Context(), w.write(key, "", "ours", 1))
	if !o.MaybeDuplicate || o.Class.Confirmed() {
		w.t.Errorf("the outcome is %+v: it should be a refusal that may be a duplicate", o)
	}
	w.holds(key, "theirs")
}

func createRefused(w *writer) {
	key := w.newKey()
	x := w.write(key, "", "", 1)
	x.Body = w.model.Refused()
	w.is(w.create.Create(w.t.Context(), x), connectors.Invalid)
	w.holds(key, "")
}

// found looks a key up and fails for an error.
func (w *writer) found(x connectors.Write) []connectors.Found {
	w.t.Helper()
	l, err := w.find.Find(w.t.Context(), x)
	if err != nil {
		w.t.Fatalf("find %s: %v", x.Key, err)
	}
	return l
}

func findTruth(w *writer) {
	key := w.newKey()
	if l := w.found(connectors.Write{Key: key}); len(l) != 0 {
		w.t.Errorf("before there was any: %+v", l)
	}
	link := w.model.Put(key, "theirs")
	w.model.Put(w.newKey(), "another")
	l := w.found(connectors.Write{Key: key})
	if len(l) != 1 || !sameLink(l[0].Link, link) {
		w.t.Errorf("found %+v, the record's link is %s", l, link)
	}
	w.model.Erase(link)
	if l := w.found(connectors.Write{Key: key}); len(l) != 0 {
		w.t.Errorf("after it was erased: %+v", l)
	}
}

func findExact(w *writer) {
	key := w.newKey()
	w.model.Put(key+"0", "another")
	if l := w.found(connectors.Write{Key: key}); len(l) != 0 {
		w.t.Errorf("key %s found %+v, which is %s0", key, l, key)
	}
}

func findTwo(w *writer) {
	key := w.newKey()
	a := w.model.Put(key, "one")
	b := w.model.SecretlyTwice(key, "two")
	l := w.found(connectors.Write{Key: key})
	if len(l) != 2 || sameLink(l[0].Link, l[1].Link) || !sameLink(l[0].Link, a) && !sameLink(l[0].Link, b) {
		w.t.Errorf("found %+v, the target holds %s and %s", l, a, b)
	}
}

func findSame(w *writer) {
	key := w.newKey()
	w.model.Put(key, "theirs")
	if l := w.found(w.write(key, "", "ours", 1)); len(l) != 1 || l[0].Same {
		w.t.Errorf("found %+v; the record differs from what is desired", l)
	}
}

func updateOne(w *writer) {
	key := w.newKey()
	link := w.model.Put(key, "before")
	o := w.update.Update(w.t.Context(), w.write(key, link, "after", 1))
	w.is(o, connectors.Applied)
	w.holds(key, "after")
	if o.Link != "" && !sameLink(o.Link, link) {
		w.t.Errorf("the link became %s, it was %s", o.Link, link)
	}
	w.is(w.update.Update(w.t.Context(), w.write(key, link, "after", 1)), connectors.Applied, connectors.Unchanged)
	w.holds(key, "after")
}

func updateOthers(w *writer) {
	key := w.newKey()
	link := w.model.Put(key, "before")
	w.model.SetOther(key, "somebody's")
	w.is(w.update.Update(w.t.Context(), w.write(key, link, "after", 1)), connectors.Applied)
	if got := w.model.Other(key); got != "somebody's" {
		w.t.Errorf("a field that was not sent became %q", got)
	}
}

func updateMissing(w *writer) {
	key := w.newKey()
	link := w.model.Put(key, "before")
	w.model.Erase(link)
	w.is(w.update.Update(w.t.Context(), w.write(key, link, "after", 1)), connectors.Missing)
	w.holds(key, "")
}

func removeTwice(w *writer) {
	for _, how := range w.info.Removals {
		key := w.newKey()
		link := w.model.Put(key, "there")
		x := connectors.Write{Key: key, Link: link, Removal: how, Stamp: connectors.Stamp{Version: at(9).UnixMicro(), Observed: at(10)}}
		w.is(w.remove.Remove(w.t.Context(), x), connectors.Applied)
		held := w.model.Held(key)
		if how == connectors.Delete && len(held) != 0 {
			w.t.Errorf("deleted, and the target holds %+v", held)
		}
		if how == connectors.Archive && (len(held) != 1 || !held[0].Archived) {
			w.t.Errorf("archived, and the target holds %+v", held)
		}
		w.is(w.remove.Remove(w.t.Context(), x), connectors.Unchanged, connectors.Applied)
		w.model.Erase(link)
		w.is(w.remove.Remove(w.t.Context(), x), connectors.Unchanged)
	}
}

func writeGateClosed(w *writer) {
	w.gate.set(true)
	for _, p := range w.primitives() {
		key, link := p.prepare(w)
		before := w.requests()
		w.is(p.do(w, w.t.Context(), key, link), connectors.Paused)
		if n := w.requests() - before; n > 0 {
			w.t.Errorf("%s: %d requests while the client is paused", p.name, n)
		}
	}
	if w.find != nil {
		_, err := w.find.Find(w.t.Context(), connectors.Write{Key: w.newKey()})
		var e *connectors.Error
		if !errors.As(err, &e) || e.Class != connectors.Paused {
			w.t.Errorf("find: %v", err)
		}
	}
}

func canceledBefore(w *writer) {
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	for _, p := range w.primitives() {
		key, link := p.prepare(w)
		o := p.do(w, ctx, key, link)
		w.is(o, connectors.Transient)
		if p.happened(w, key) {
			w.t.Errorf("%s: took effect after the caller gave up", p.name)
		}
	}
}

func unknownEntity(w *writer) {
	if _, err := w.target.Entity("no such entity"); err == nil {
		w.t.Error("an entity that does not exist was given")
	}
}

func (w *writer) requests() int {
	if w.model.Hostile == nil {
		return 0
	}
	return len(w.model.Hostile.Log())
}
