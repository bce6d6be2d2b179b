package conformance

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

// primitive is one way to change something, and how to tell whether it did.
type primitive struct {
	name string
	// prepare makes what the primitive works on.
	prepare func(w *writer) (key, link string)
	do      func(w *writer, ctx context.Context, key, link string) connectors.Outcome
	// happened tells whether the write took effect in the target.
	happened func(w *writer, key string) bool
	// finds says that Find tells whether it did.
	finds bool
}

const wanted = "wanted"

func holdsWanted(w *writer, key string) bool {
	return slices.ContainsFunc(w.model.Held(key), func(h Held) bool { return h.Value == wanted })
}

func nothing(w *writer) (key, link string) { return w.newKey(), "" }

func existing(w *writer) (key, link string) {
	key = w.newKey()
	return key, w.model.Put(key, "before")
}

// primitives lists those that the entity offers.
func (w *writer) primitives() []primitive {
	var l []primitive
	if w.up != nil {
		l = append(l, primitive{name: "upsert", prepare: nothing, happened: holdsWanted, finds: true,
			do: func(w *writer, ctx context.Context, key, _ string) connectors.Outcome {
				return w.up.Upsert(ctx, []connectors.Write{w.write(key, "", wanted, 1)})[0]
			}})
	}
	if w.create != nil {
		l = append(l, primitive{name: "create", prepare: nothing, happened: holdsWanted, finds: true,
			do: func(w *writer, ctx context.Context, key, _ string) connectors.Outcome {
				return w.create.Create(ctx, w.write(key, "", wanted, 1))
			}})
	}
	if w.update != nil {
		l = append(l, primitive{name: "update", prepare: existing, happened: holdsWanted,
			do: func(w *writer, ctx context.Context, key, link string) connectors.Outcome {
				return w.update.Update(ctx, w.write(key, link, wanted, 1))
			}})
	}
	for _, how := range w.info.Removals {
		l = append(l, primitive{name: string(how), prepare: existing,
			happened: func(w *writer, key string) bool {
				held := w.model.Held(key)
				return len(held) == 0 || how == connectors.Archive && held[0].Archived
			},
			do: func(w *writer, ctx context.Context, key, link string) connectors.Outcome {
				return w.remove.Remove(ctx, connectors.Write{Key: key, Link: link, Removal: how,
					Stamp: connectors.Stamp{Version: at(9).UnixMicro(), Observed: at(10)}})
			}})
	}
	return l
}

// writeFaults plays each fault at each primitive's write and holds the outcome
// against what the target then holds.
func writeFaults(t *testing.T, start TargetHarness) {
	for _, f := range faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, start(t))
			for _, p := range w.primitives() {
				writeFault(w, p, f)
			}
		})
	}
}

func writeFault(w *writer, p primitive, f hostile.Fault) {
	w.t.Helper()
	if f.Status == http.StatusUnauthorized {
		w.connect(patient) // new credentials are not fetched twice in a row
	}
	key, o, sent := meetFault(w, p, f)
	if isSlow(f) {
		w.connect(patient)
	}
	judgeWrite(w, p, f, o, p.happened(w, key))
	judgeWire(w, p, f, sent)
	if f.Status == http.StatusTooManyRequests && !w.gate.throttled() {
		w.t.Errorf("%s: the gate was not shown the refusal for quota", p.name)
	}
	if p.finds && w.find != nil {
		held := len(w.model.Held(key))
		if l := w.found(connectors.Write{Key: key}); len(l) != held {
			w.t.Errorf("%s: found %d records afterwards, the target holds %d", p.name, len(l), held)
		}
	}
}

// meetFault writes until a write meets the fault. The first may not: the server
// may have closed the connection it went out on, as the fault before did, or be
// too busy for a client that gives up soon, which therefore takes its time more and more.
func meetFault(w *writer, p primitive, f hostile.Fault) (key string, o connectors.Outcome, sent int) {
	w.t.Helper()
	for try := range 5 {
		if isSlow(f) {
			w.connect(impatient << (2 * try))
		}
		key, link := p.prepare(w)
		sentWrites, came := w.recordWrites(f)
		o = p.do(w, w.t.Context(), key, link)
		if isSlow(f) && o.Class == connectors.Unknown {
			// An impatient client may have gone before a busy server has read its write.
			select {
			case <-came:
			case <-time.After(lateAtMost):
			}
		}
		w.model.Hostile.Calm()
		if sent = sentWrites(); sent > 0 {
			return key, o, sent
		}
		if p.happened(w, key) || o.Class != connectors.Unknown && o.Class != connectors.Transient {
			break
		}
	}
	w.t.Fatalf("%s: no write met the fault; the outcome is %+v", p.name, o)
	return key, o, sent
}

// lateAtMost is how long a write that was sent is waited for.
const lateAtMost = 5 * time.Second

// recordWrites plans a fault for the next write, and returns a function that
// tells how many writes there have been since, and what is closed by the first.
func (w *writer) recordWrites(f hostile.Fault) (sent func() int, came <-chan struct{}) {
	var mu sync.Mutex
	first := make(chan struct{})
	n := 0
	seen := map[*http.Request]bool{}
	isWrite := func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		is, known := seen[r]
		if !known {
			is = w.model.isWrite(r)
			seen[r] = is
			if is {
				if n++; n == 1 {
					close(first)
				}
			}
		}
		return is
	}
	// A plan that matches nothing is asked for every request, and so counts them.
	w.model.Hostile.Next(hostile.Fault{}, func(r *http.Request) bool { isWrite(r); return false })
	w.model.Hostile.Next(f, isWrite)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}, first
}

// judgeWrite holds an outcome against the truth.
func judgeWrite(w *writer, p primitive, f hostile.Fault, o connectors.Outcome, happened bool) {
	w.t.Helper()
	bad := func(why string) {
		w.t.Errorf("%s: the outcome is %+v, and the write took effect: %v; %s", p.name, o, happened, why)
	}
	lied := f.Status == http.StatusNotFound || f.Status == http.StatusGone // "there is no such record", where there is
	switch o.Class {
	case connectors.Unknown:
		if refusedOutright(f) {
			bad("the server refused it in so many words")
		}
	case connectors.Applied, connectors.AlreadyApplied, connectors.Unchanged:
		if !happened && !lied {
			bad("it was not done")
		}
	default:
		if happened {
			bad("it was done, and would be done again")
		}
	}
	want := writeClasses(f, w.model.Refreshes)
	if want != nil && !slices.Contains(want, o.Class) {
		bad("the class should be one of " + join(want))
	}
	if o.Class.Confirmed() {
		return
	}
	if o.Code == "" || o.Message == "" {
		bad("without a code or a message nobody learns why")
	}
	if o.RetryAfter < 0 || o.RetryAfter > 11*366*24*time.Hour {
		bad("the time to wait is nonsense")
	}
}

// refusedOutright tells whether a fault's answer says that nothing was done.
func refusedOutright(f hostile.Fault) bool {
	return f.Status >= 400 && f.Status < 500 && f.Status != http.StatusRequestTimeout && !f.Garbled || f.Status == 501 || f.Status == 509
}

// writeClasses are the classes that the design gives to a fault; nil where any
// that tells the truth will do.
func writeClasses(f hostile.Fault, refreshes bool) []connectors.Class {
	switch s := f.Status; {
	case s == 429 || s == 509:
		return []connectors.Class{connectors.Throttled}
	case s == 401 && refreshes:
		return []connectors.Class{connectors.Applied}
	case s == 401 || s == 402:
		return []connectors.Class{connectors.Auth}
	case s == 409 || s == 412 || s == 423:
		return []connectors.Class{connectors.Conflict}
	case s >= 300 && s < 400:
		return []connectors.Class{connectors.Invalid, connectors.Unknown}
	case s == 408 || s >= 500 && s != 501, s == 0:
		return []connectors.Class{connectors.Unknown}
	case s == 400 || s == 413 || s == 422:
		return []connectors.Class{connectors.Invalid}
	}
	return nil
}

func join(cs []connectors.Class) string {
	s := ""
	for i, c := range cs {
		if i > 0 {
			s += ", "
		}
		s += string(c)
	}
	return s
}

// judgeWire makes sure that nothing was sent behind our back.
func judgeWire(w *writer, p primitive, f hostile.Fault, sent int) {
	w.t.Helper()
	most := 1
	if f.Status == http.StatusUnauthorized && w.model.Refreshes {
		most = 2
	}
	if sent > most {
		w.t.Errorf("%s: %d writes on the wire for one attempt", p.name, sent)
	}
	if n := len(w.model.Hostile.Elsewhere()); n > 0 {
		w.t.Errorf("%s: %d requests, with whatever they carried, went to another host", p.name, n)
	}
}

// canceledDuring gives up on each primitive while the server has done its work
// and not answered yet.
func canceledDuring(t *testing.T, start TargetHarness) {
	w := newWriter(t, start(t))
	for _, p := range w.primitives() {
		key, link := p.prepare(w)
		w.model.Hostile.Next(hostile.Named("hang_after"), w.model.isWrite)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan connectors.Outcome, 1)
		go func() { done <- p.do(w, ctx, key, link) }()
		for !p.happened(w, key) {
			select {
			case o := <-done:
				t.Fatalf("%s: ended early with %+v", p.name, o)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		w.is(<-done, connectors.Unknown)
	}
}
