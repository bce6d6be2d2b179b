package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
)

// target is an ERP of a few lines: nothing in it is unique, it refuses nothing,
// and a write may take effect long after it was sent.
type target struct {
	s       *stage
	records []*record
	late    []lateWrite
	wrong   string // the first broken promise
}

type record struct {
	id   int
	key  string
	gone bool
	// body and generation hold what each flow has written.
	body       map[string]string
	generation map[jobs.RowID]int64
}

type lateWrite struct {
	at time.Time
	do func() string
}

// land lets what is due take effect.
func (g *target) land() {
	slices.SortStableFunc(g.late, func(a, b lateWrite) int { return a.at.Compare(b.at) })
	for len(g.late) > 0 && !g.late[0].at.After(g.s.at) {
		w := g.late[0]
		g.late = g.late[1:]
		w.do()
	}
}

func (g *target) alive() (out []*record) {
	for _, r := range g.records {
		if !r.gone {
			out = append(out, r)
		}
	}
	return out
}

func (g *target) by(match func(*record) bool) *record {
	if i := slices.IndexFunc(g.records, func(r *record) bool { return !r.gone && match(r) }); i >= 0 {
		return g.records[i]
	}
	return nil
}

func (g *target) byKey(key string) *record {
	return g.by(func(r *record) bool { return r.key == key })
}

// prepare looks records up and returns the request that follows: it creates, or
// changes or removes one record, whenever it takes effect. missing says that the
// link leads nowhere; nil that nothing is to be sent.
func (g *target) prepare(jb *jobs.Job, f *jobs.Flow) (do func() string, missing bool) {
	var r *record
	if jb.Link != "" {
		r = g.by(func(r *record) bool { return strconv.Itoa(r.id) == jb.Link })
		missing = r == nil
	}
	if r == nil && jb.RenamedFrom != "" {
		r = g.byKey(jb.RenamedFrom)
	}
	if r == nil {
		r = g.byKey(jb.Key)
	}
	switch {
	case jb.Gone && (jb.Write(f).Removal == "" || r == nil):
		return nil, false
	case jb.Gone:
		return func() string { r.gone = true; return "" }, false
	case missing:
		return nil, true
	case r != nil:
		return func() string { return g.change(r, jb) }, false
	default:
		return func() string { return g.create(jb) }, false
	}
}

func (g *target) create(jb *jobs.Job) string {
	if other := g.byKey(jb.Key); other != nil {
		g.fault("record %d of key %s is created although %d is there", len(g.records)+1, jb.Key, other.id)
	}
	r := &record{id: len(g.records) + 1, body: map[string]string{}, generation: map[jobs.RowID]int64{}}
	g.records = append(g.records, r)
	return g.change(r, jb)
}

func (g *target) change(r *record, jb *jobs.Job) string {
	if r.gone {
		return ""
	}
	if jb.Generation < r.generation[jb.RowID] {
		g.fault("%s: generation %d is written over %d", jb.RowID, jb.Generation, r.generation[jb.RowID])
	}
	if other := g.byKey(jb.Key); other != nil && other != r {
		g.fault("record %d gets key %s, which record %d has", r.id, jb.Key, other.id)
	}
	r.key, r.body[jb.Flow], r.generation[jb.RowID] = jb.Key, string(jb.Body), jb.Generation
	return strconv.Itoa(r.id)
}

func (g *target) fault(format string, args ...any) {
	if g.wrong == "" {
		g.wrong = fmt.Sprintf(format, args...)
	}
}

// fates are what may become of a request.
var fates = []string{"done", "done", "done", "refused", "throttled", "unauthorised", "waiting", "invalid", "answer lost",
	"request lost", "done late", "conflict"}

// sendSome sends some of the claimed jobs.
func (h *history) sendSome() {
	for _, s := range h.under {
		switch {
		case s.o != nil:
		case h.calm:
			h.send(s, "done")
		case rapid.IntRange(0, 2).Draw(h.T, "not sent yet") > 0:
			h.send(s, rapid.SampledFrom(fates).Draw(h.T, "fate"))
		}
	}
}

// send is a strategy of a few lines: it waits until what is in doubt has
// settled, looks the record up, and sends one request.
func (h *history) send(s *sent, fate string) {
	jb := s.job
	s.at = h.s.at
	done := func(o connectors.Outcome) { s.o = &o }
	if settled := jb.UnresolvedAt.Add(settleTime); jb.Unresolved() && h.s.at.Before(settled) {
		o := connectors.Fail(connectors.Transient, jobs.CodeSettling, "too early")
		o.RetryAfter = settled.Sub(h.s.at)
		done(o)
		return
	}
	do, missing := h.target.prepare(jb, s.flow)
	switch {
	case missing:
		done(connectors.Outcome{Class: connectors.Missing, Resolved: jb.Unresolved()})
		return
	case do == nil:
		done(connectors.Outcome{Class: connectors.Unchanged, Resolved: jb.Unresolved() && !(jb.Gone && s.flow.OnDelete == "ignore")})
		return
	}
	switch fate {
	case "done":
		done(connectors.Outcome{Class: connectors.Applied, Link: do(), Resolved: jb.Unresolved()})
	case "refused":
		done(connectors.Fail(connectors.Transient, "connect", "refused"))
	case "throttled":
		done(connectors.Fail(connectors.Throttled, "http_429", "slow down"))
	case "unauthorised":
		done(connectors.Fail(connectors.Auth, "http_401", "no"))
	case "conflict":
		done(connectors.Fail(connectors.Conflict, "http_409", "changed meanwhile"))
	case "invalid":
		done(connectors.Fail(connectors.Invalid, "http_422", "no"))
	case "waiting":
		o := connectors.Fail(connectors.Waiting, "reference", "not there")
		o.WaitEntity, o.WaitKey = "order", rapid.SampledFrom([]string{"A", "B", "Z"}).Draw(h.T, "waits for")
		done(o)
	default:
		o := unknown
		o.Answered = rapid.Bool().Draw(h.T, "answered")
		o.Resolved = jb.Unresolved() // what was in doubt before was found out about
		done(o)
		h.happen(do, fate)
	}
}

// happen lets a write whose answer nobody reads take effect: now, later or never.
func (h *history) happen(do func() string, fate string) {
	switch fate {
	case "answer lost":
		do()
	case "done late":
		at := h.s.at.Add(time.Duration(rapid.IntRange(1, int(settleTime/time.Second)).Draw(h.T, "after seconds")) * time.Second)
		h.target.late = append(h.target.late, lateWrite{at, do})
	}
}

// lose is a job whose daemon ends: whether it was sent, nobody knows.
func (h *history) lose(s *sent) {
	if s.job.Unresolved() && h.s.at.Before(s.job.UnresolvedAt.Add(settleTime)) {
		return
	}
	if do, missing := h.target.prepare(s.job, s.flow); do != nil && !missing {
		h.happen(do, rapid.SampledFrom([]string{"answer lost", "request lost", "done late"}).Draw(h.T, "last write"))
	}
}
