package conformance

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

// parcel is a create under an idempotency key, composed as a strategy does it.
func (w *writer) parcel(key, value, idempotencyKey string) connectors.Write {
	w.t.Helper()
	x := w.write(key, "", value, 1)
	sent, err := w.compose.Compose(x)
	if err != nil || len(sent) == 0 {
		w.t.Fatalf("compose: %d bytes, %v", len(sent), err)
	}
	x.Body, x.Sent, x.IdempotencyKey = nil, sent, idempotencyKey
	return x
}

const someKey = "5f0c3f0e-8f6d-4c0b-9a54-0d6f2f1f3a77"

// composedAgain: what is sent of a record does not depend on when it is composed.
func composedAgain(w *writer) {
	key := w.newKey()
	a, b := w.parcel(key, "one", someKey), w.parcel(key, "one", someKey)
	if !bytes.Equal(a.Sent, b.Sent) {
		w.t.Errorf("the same record is composed as %q and as %q", a.Sent, b.Sent)
	}
	w.holds(key, "")
	if n := w.requests(); n > 0 {
		w.t.Errorf("composing made %d requests", n)
	}
}

// createdAgain: the same under the same key is done once, and answered alike.
func createdAgain(w *writer) {
	key := w.newKey()
	x := w.parcel(key, "one", someKey)
	first := w.create.Create(w.t.Context(), x)
	w.is(first, connectors.Applied)
	x.Stamp = w.write(key, "", "", 7).Stamp // what was composed counts, and nothing else
	second := w.create.Create(w.t.Context(), x)
	w.is(second, connectors.Applied)
	if !sameLink(first.Link, second.Link) {
		w.t.Errorf("the links are %q and %q", first.Link, second.Link)
	}
	w.holds(key, "one")
}

// otherKey: under another key it is another create.
func otherKey(w *writer) {
	key := w.newKey()
	x := w.parcel(key, "one", someKey)
	w.is(w.create.Create(w.t.Context(), x), connectors.Applied)
	x.IdempotencyKey = strings.Replace(someKey, "5", "6", 1)
	w.is(w.create.Create(w.t.Context(), x), connectors.Applied)
	if n := len(w.model.Held(key)); n != 2 {
		w.t.Errorf("two keys made %d records", n)
	}
}

// otherBody: a known key with another body comes to what the entity declares.
func otherBody(w *writer) {
	key := w.newKey()
	first := w.create.Create(w.t.Context(), w.parcel(key, "one", someKey))
	w.is(first, connectors.Applied)
	second := w.create.Create(w.t.Context(), w.parcel(key, "two", someKey))
	n := len(w.model.Held(key))
	switch m := w.info.Idempotency.Mismatch; {
	case m == connectors.MismatchRefused && (second.Class.Confirmed() || n != 1),
		m == connectors.MismatchIgnored && (!sameLink(first.Link, second.Link) || n != 1),
		m == connectors.MismatchCreates && n != 2:
		w.t.Errorf("it declares %s; %d records are held, and the outcome is %+v", m, n, second)
	}
}

// keyedLost: a create whose answer is lost goes out once, and once more when it is
// sent again, in the same bytes and under the same key.
func keyedLost(w *writer) {
	key := w.newKey()
	x := w.parcel(key, "one", someKey)
	w.model.Hostile.Next(hostile.Named("reset_after"), w.model.isWrite)
	w.is(w.create.Create(w.t.Context(), x), connectors.Unknown)
	w.is(w.create.Create(w.t.Context(), x), connectors.Applied)
	w.holds(key, "one")
	var bodies []string
	for _, e := range w.model.Hostile.Log() {
		if slices.ContainsFunc(headerValues(e.Header), func(v string) bool { return strings.Contains(v, someKey) }) {
			bodies = append(bodies, e.BodyHash)
		}
	}
	if len(bodies) != 2 || bodies[0] != bodies[1] {
		w.t.Errorf("%d requests bore the key, with the bodies %v", len(bodies), bodies)
	}
}

func headerValues(h http.Header) (all []string) {
	for _, vs := range h {
		all = append(all, vs...)
	}
	return all
}
