package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// erp is a target over HTTP that keeps a ledger of what was done to it, and answers as ERPs do on a bad day: late, never, or with an error
// after the work was done.
type erp struct {
	server
	kinds map[string]*kind
	byID  map[int64]*document
	// mood is what happens to every write.
	mood mood
	// confirmed is told of each write whose answer was given, with the time when it came.
	confirmed func(came time.Time)
}

// kind is one kind of document.
type kind struct {
	ledger *ledger
	// unique: the reference of a document is refused for a second one.
	unique bool
	// keys are the idempotency keys that are remembered; nil where none are.
	keys  map[string]*remembered
	byRef map[string][]*document
}

// remembered is a create under an idempotency key, and what was answered to it.
type remembered struct {
	since  time.Time
	body   string
	status int // 0 while it is at work
	answer any
	// forgotten: syncd cannot know any more what it has sent under the key.
	forgotten bool
}

// keyTime is how long a key is remembered: what torture.yaml says, and not longer.
const keyTime = 12 * time.Second

type document struct {
	id   int64
	kind string
	ref  string
	body map[string]any
}

// mood is what an ERP does to the writes that it gets.
type mood int

const (
	asUsual mood = iota
	hangBefore
	hangAfter
	resetAfter
	failAfter
	failBefore
	throttle
	// workLate has all of them done late, also when their caller has gone meanwhile.
	workLate
)

// workTime is how long the ERP works on a write at most, also when its caller has gone: longer than a daemon takes to start, or a write that
// was sent twice would always meet what the first one did. The settle_time in the configuration is longer by far.
const workTime = time.Second

// slowTime is from when on it does nothing any more about a write that it has begun to read.
const slowTime = workTime + workTime/2

func newERP(seed uint64) (*erp, error) {
	e := &erp{kinds: map[string]*kind{}, byID: map[int64]*document{}, confirmed: func(time.Time) {}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{kind}", e.create)
	mux.HandleFunc("GET /{kind}", e.find)
	mux.HandleFunc("PATCH /{kind}/{id}", e.update)
	mux.HandleFunc("PUT /{kind}/{ref}", e.put)
	return e, e.open(seed, mux)
}

func (e *erp) keep(name string, unique bool, l *ledger) {
	e.kinds[name] = &kind{ledger: l, unique: unique, byRef: map[string][]*document{}}
}

// keepKeyed is keep for documents that nothing but the key of their create keeps from being doubled.
func (e *erp) keepKeyed(name string, l *ledger) {
	e.keep(name, false, l)
	e.kinds[name].keys = map[string]*remembered{}
}

// recall answers a create whose key is known; nil for one that is to be done, which is remembered now.
func (e *erp) recall(k *kind, key, body, ref string) *remembered {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := k.keys[key]
	switch {
	case key == "":
		return &remembered{status: http.StatusBadRequest, answer: map[string]any{"error": "a key is required"}}
	case r == nil || time.Since(r.since) > keyTime:
		k.keys[key] = &remembered{since: time.Now(), body: body}
		return nil
	case r.body != body:
		if !r.forgotten {
			k.ledger.blame(ref, "another body came under the key of an earlier create")
		}
		return &remembered{status: http.StatusUnprocessableEntity, answer: map[string]any{"error": "the key belongs to another body"}}
	case r.status == 0:
		return &remembered{status: http.StatusConflict, answer: map[string]any{"error": "a create under this key is at work"}}
	}
	return r
}

// remember notes what came of a create under a key; a status of 0 forgets it, because nothing was done.
func (e *erp) remember(k *kind, key string, status int, answer any) {
	if r := k.keys[key]; r != nil {
		r.status, r.answer = status, answer
		if status == 0 {
			delete(k.keys, key)
		}
	}
}

// forgotten tells that the journal was put back to its state of a time.
func (e *erp) forgotten(asOf time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.kinds {
		for _, r := range k.keys {
			r.forgotten = r.forgotten || !r.since.Before(asOf)
		}
	}
}

// refused reports whether a document is never accepted as it is.
func (k *kind) refused(body map[string]any) bool {
	rev, _ := body["rev"].(json.Number)
	return k.ledger.refuses != nil && k.ledger.refuses(rev.String())
}

// be sets what happens to every write from now on.
func (e *erp) be(m mood) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mood = m
}

// dice says what happens to one write, and how long the work on it takes.
func (e *erp) dice() (mood, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.mood
	if m == asUsual && !e.calm {
		switch p := e.rnd.Float64(); {
		case p < 0.01:
			m = hangBefore
		case p < 0.02:
			m = hangAfter
		case p < 0.03:
			m = resetAfter
		case p < 0.04:
			m = failAfter
		}
	}
	if m == workLate {
		return asUsual, workTime - time.Duration(e.rnd.Int64N(int64(workTime/4)))
	}
	if m == asUsual && !e.calm && e.chance(0.1) {
		return m, time.Duration(e.rnd.Int64N(int64(workTime)))
	}
	return m, 0
}

// write carries out one write.
func (e *erp) write(w http.ResponseWriter, r *http.Request, do func(k *kind, body map[string]any) (int, any)) {
	came := time.Now()
	k := e.kinds[r.PathValue("kind")]
	var body map[string]any
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if k == nil || err != nil || d.Decode(&body) != nil {
		answer(w, http.StatusBadRequest, map[string]any{"error": "no such kind, or no JSON object"})
		return
	}
	m, work := e.dice()
	if m == throttle {
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, map[string]any{"error": "over quota"})
		return
	}
	key := ""
	if k.keys != nil && r.Method == http.MethodPost {
		if m == failAfter {
			m = failBefore // under a key a failure has done nothing, or the key could not be used again
		}
		key = r.Header.Get("Idempotency-Key")
		ref, _ := body["ref"].(string)
		if was := e.recall(k, key, string(text), ref); was != nil {
			answer(w, was.status, was.answer)
			if was.status < 300 {
				e.confirmed(came)
			}
			return
		}
	}
	if work > 0 {
		t := time.NewTimer(work)
		defer t.Stop()
		select {
		case <-t.C:
		case <-e.closed:
			return
		}
	}
	status, out := 0, any(nil)
	e.mu.Lock()
	// A machine that is too slow for what the ERP promises has it do nothing.
	slow := time.Since(came) >= slowTime
	if m != hangBefore && m != failBefore && !slow {
		status, out = do(k, body)
	}
	if key != "" {
		e.remember(k, key, status, out)
	}
	e.mu.Unlock()
	if slow {
		return
	}
	switch m {
	case hangBefore, hangAfter:
		select {
		case <-r.Context().Done():
		case <-e.closed:
		}
	case resetAfter:
		reset(w)
	case failAfter, failBefore:
		answer(w, http.StatusInternalServerError, map[string]any{"error": "internal error"})
	default:
		answer(w, status, out)
		if status < 300 {
			e.confirmed(came)
		}
	}
}

// attended returns when nothing can come any more of what was sent to the ERP before. On a machine that is too busy a request may lie unread
// for longer than any settle_time, and a person who looks then sees nothing of it. What is asked later, twice, over connections of their own,
// is answered after it was read; what was read is done within the time that write allows, or not at all.
func (e *erp) attended(ctx context.Context) error {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/nothing?ref=nothing", nil)
		if err != nil {
			return err
		}
		a, err := c.Do(r)
		if err != nil {
			return fmt.Errorf("look at the ERP: %w", err)
		}
		_ = a.Body.Close()
	}
	t := time.NewTimer(slowTime)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reset cuts the connection so that the caller sees a reset.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (e *erp) create(w http.ResponseWriter, r *http.Request) {
	e.write(w, r, func(k *kind, body map[string]any) (int, any) {
		ref, _ := body["ref"].(string)
		if ref == "" {
			return http.StatusUnprocessableEntity, map[string]any{"error": "ref is required"}
		}
		if k.refused(body) {
			return http.StatusUnprocessableEntity, map[string]any{"error": "this is never accepted"}
		}
		if k.unique && len(k.byRef[ref]) > 0 {
			return http.StatusConflict, map[string]any{"error": "ref is taken"}
		}
		x := &document{id: int64(len(e.byID) + 1), kind: r.PathValue("kind"), ref: ref, body: body}
		e.byID[x.id] = x
		k.byRef[ref] = append(k.byRef[ref], x)
		k.ledger.did(ref, e.effect(x, true))
		return http.StatusCreated, x.json()
	})
}

// put creates or changes the document of a reference.
func (e *erp) put(w http.ResponseWriter, r *http.Request) {
	e.write(w, r, func(k *kind, body map[string]any) (int, any) {
		ref := r.PathValue("ref")
		if xs := k.byRef[ref]; len(xs) > 0 {
			return e.change(k, xs[0], body)
		}
		x := &document{id: int64(len(e.byID) + 1), kind: r.PathValue("kind"), ref: ref, body: body}
		e.byID[x.id], k.byRef[ref] = x, []*document{x}
		k.ledger.did(ref, e.effect(x, true))
		return http.StatusCreated, x.json()
	})
}

// change writes fields of a document.
func (e *erp) change(k *kind, x *document, body map[string]any) (int, any) {
	before := fmt.Sprint(x.body)
	for f, v := range body {
		x.body[f] = v
	}
	if fmt.Sprint(x.body) != before {
		k.ledger.did(x.ref, e.effect(x, false))
	}
	return http.StatusOK, x.json()
}

func (e *erp) update(w http.ResponseWriter, r *http.Request) {
	e.write(w, r, func(k *kind, body map[string]any) (int, any) {
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
		x := e.byID[id]
		if x == nil || x.kind != r.PathValue("kind") {
			return http.StatusNotFound, map[string]any{"error": "no such document"}
		}
		if k.refused(body) {
			return http.StatusUnprocessableEntity, map[string]any{"error": "this is never accepted"}
		}
		return e.change(k, x, body)
	})
}

// effect is what the ledger notes of a document that has just been written.
func (e *erp) effect(x *document, create bool) effect {
	body := strconv.FormatInt(x.number("rev"), 10)
	if of := e.byID[x.number("of")]; of != nil {
		body += " of " + of.ref
	}
	if in, ok := x.body["in"].(json.Number); ok {
		body += " in " + in.String()
	}
	return effect{at: time.Now(), create: create, id: strconv.FormatInt(x.id, 10), version: x.number("version"), body: body}
}

func (x *document) number(field string) int64 {
	n, _ := x.body[field].(json.Number)
	v, _ := n.Int64()
	return v
}

func (e *erp) find(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []any{}
	if k := e.kinds[r.PathValue("kind")]; k != nil {
		for _, x := range k.byRef[r.FormValue("ref")] {
			out = append(out, x.json())
		}
	}
	answer(w, http.StatusOK, map[string]any{"data": out})
}

// holds is the id of the one document of a reference, and the version that it has; 0 for none.
func (e *erp) holds(name, ref string) (id, version int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if xs := e.kinds[name].byRef[ref]; len(xs) > 0 {
		return xs[0].id, xs[0].number("version")
	}
	return 0, 0
}

func (x *document) json() map[string]any {
	out := map[string]any{"id": x.id}
	for f, v := range x.body {
		out[f] = v
	}
	return out
}
