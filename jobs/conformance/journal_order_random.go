package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
)

// EventHistories plays random histories of a flow with order: every against a
// journal and a target that only appends: events that are read late, twice or with other
// content, claims that are settled in part or never, daemons that die, an operator
// who replays and discards, and a flow that holds or skips. At each moment at most one of
// a group is under way and none overtakes another; in the end each event was
// written once, given up, or is visible.
func EventHistories(t *testing.T, open func(t *testing.T, now func() time.Time) jobs.Engine) {
	s := &stage{at: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	s.engine = open(t, func() time.Time { return s.at })
	rapid.Check(t, func(rt *rapid.T) {
		s.n++
		h := newEvents(rt, s)
		rt.Repeat(map[string]func(*rapid.T){
			"happen": func(*rapid.T) { h.happen() }, "happen again": func(*rapid.T) { h.happen() },
			"read":    func(*rapid.T) { h.read() },
			"repeat":  func(*rapid.T) { h.repeat() },
			"falsify": func(*rapid.T) { h.falsify() },
			"claim":   func(*rapid.T) { h.claim() }, "claim again": func(*rapid.T) { h.claim() },
			"settle": func(*rapid.T) { h.settle() }, "settle again": func(*rapid.T) { h.settle() },
			"die":     func(*rapid.T) { h.die() },
			"replay":  func(*rapid.T) { h.act(h.replay) },
			"discard": func(*rapid.T) { h.act(h.discard) },
			"switch":  func(*rapid.T) { h.change() },
			"minute":  func(*rapid.T) { h.s.at = h.s.at.Add(time.Minute) },
			"hours":   func(*rapid.T) { h.s.at = h.s.at.Add(3 * time.Hour) },
			"":        func(*rapid.T) { h.look() },
		})
		h.rest()
	})
}

// happening is an event at its source.
type happening struct {
	key, group string
	version    int64
	read       bool
	// free: it came late, or a person replayed it, so that it need not be in order.
	free bool
	// times is how often it was written to the target.
	times int
}

type events struct {
	*rapid.T
	s       *stage
	flow    *jobs.Flow
	flows   map[string]*jobs.Flow
	journal *jobs.Journal
	starts  int
	all     []*happening
	under   []*jobs.Job
	// last is the newest event of a group that was written in order.
	last map[string]*happening
	calm bool
}

func newEvents(t *rapid.T, s *stage) *events {
	h := &events{T: t, s: s, last: map[string]*happening{}}
	h.flow = &jobs.Flow{Name: fmt.Sprint("movements-", s.n), SourceClient: "wms", Stream: "movements", Client: fmt.Sprint("ledger-", s.n), Entity: "movement",
		Strategy: connectors.ExternalRef, SettleTime: settleTime, Retry: jobs.DefaultRetry(), Order: "every", Group: ".group",
		OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead"}
	h.flow.OnDead = rapid.SampledFrom([]string{"hold", "skip"}).Draw(t, "on_dead")
	h.flow.Retry.MaxAttempts, h.flow.Retry.RetryFor = rapid.IntRange(1, 3).Draw(t, "attempts"), 0
	h.flows = map[string]*jobs.Flow{h.flow.Name: h.flow}
	h.start()
	return h
}

func (h *events) start() {
	h.starts++
	h.journal = jobs.New(h.s.engine, jobs.Options{Owner: fmt.Sprint("ledger-", h.s.n, "-", h.starts), Rand: func() float64 { return 0.5 }})
	if _, err := h.journal.Recover(context.Background(), jobs.LaneID{Client: h.flow.Client}, h.flows); err != nil {
		h.Fatalf("recover: %v", err)
	}
}

func (h *events) happen() {
	n := int64(len(h.all) + 1)
	h.all = append(h.all, &happening{key: fmt.Sprintf("%03d", 999-n), version: n,
		group: rapid.SampledFrom([]string{"P", "P", "Q"}).Draw(h.T, "group")})
}

func (h *events) pick(what string, of []*happening) *happening {
	if len(of) == 0 {
		return nil
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(h.T, what)]
}

func (h *events) which(read bool) []*happening {
	return slices.DeleteFunc(slices.Clone(h.all), func(e *happening) bool { return e.read != read })
}

func (h *events) item(e *happening, content string) jobs.Item {
	return jobs.Item{SourceID: e.key, Version: e.version, Observed: h.s.at,
		Pairs: []jobs.Pair{{Key: e.key, Group: e.group, Body: json.RawMessage(`"` + e.key + content + `"`)}}}
}

func (h *events) admit(items ...jobs.Item) jobs.Admitted {
	a, err := h.journal.Admit(context.Background(), jobs.Admission{Flow: h.flow, Items: items})
	if err != nil {
		h.Fatalf("admit: %v", err)
	}
	return a
}

// read admits some events that were not read yet, in whatever order.
func (h *events) read() {
	var items []jobs.Item
	for range rapid.IntRange(1, 4).Draw(h.T, "page") {
		if e := h.pick("event", h.which(false)); e != nil {
			e.read = true
			items = append(items, h.item(e, ""))
		}
	}
	h.admit(items...)
	for _, e := range h.all {
		if e.read && h.row(e.key).Reason == jobs.ReasonLate {
			e.free = true
		}
	}
}

// repeat reads an event once more, with another version and at another time.
func (h *events) repeat() {
	if e := h.pick("repeated", h.which(true)); e != nil {
		it := h.item(e, "")
		it.Version += int64(rapid.IntRange(-3, 3).Draw(h.T, "moved by"))
		before := h.row(e.key)
		if a := h.admit(it); a.Unchanged != 1 {
			h.Fatalf("%s again: %+v", e.key, a)
		}
		if after := h.row(e.key); fmt.Sprint(after) != fmt.Sprint(before) {
			h.Fatalf("%s was read again, and is %+v instead of %+v", e.key, after, before)
		}
	}
}

func (h *events) falsify() {
	if e := h.pick("falsified", h.which(true)); e != nil {
		before := h.row(e.key)
		h.admit(h.item(e, " falsified"))
		if after := h.row(e.key); fmt.Sprint(after) != fmt.Sprint(before) {
			h.Fatalf("%s came with other content, and is %+v instead of %+v", e.key, after, before)
		}
	}
}

func (h *events) row(key string) jobs.Row {
	d, ok, err := h.journal.Get(context.Background(), jobs.RowID{Flow: h.flow.Name, Key: key})
	if err != nil || !ok {
		h.Fatalf("row %s: found %v, %v", key, ok, err)
	}
	return d.Row
}

func (h *events) claim() {
	c, err := h.journal.Claim(context.Background(), jobs.ClaimRequest{Client: h.flow.Client, Limit: 5, Flows: h.flows, InFlight: len(h.under),
		Busy: func(id jobs.RowID, _ jobs.EntityKey) bool {
			return slices.ContainsFunc(h.under, func(jb *jobs.Job) bool { return jb.RowID == id })
		}})
	if err != nil {
		h.Fatalf("claim: %v", err)
	}
	h.under = append(h.under, c.Jobs...)
	seen := map[string]string{}
	for _, jb := range h.under {
		if other := seen[jb.Group]; other != "" {
			h.Fatalf("%s and %s of group %s are under way at once", other, jb.Key, jb.Group)
		}
		seen[jb.Group] = jb.Key
	}
}

// write has the target do a job. It adopts one that it has already.
func (h *events) write(jb *jobs.Job) {
	e := h.all[slices.IndexFunc(h.all, func(e *happening) bool { return e.key == jb.Key })]
	if string(jb.Body) != `"`+e.key+`"` {
		h.Fatalf("%s is written as %s", e.key, jb.Body)
	}
	if e.times > 0 {
		if !jb.Unresolved() {
			h.Fatalf("%s is written again", e.key)
		}
		return
	}
	e.times++
	if e.free {
		return
	}
	if last := h.last[e.group]; last != nil && last.version > e.version {
		h.Fatalf("%s of group %s is written after %s", e.key, e.group, last.key)
	}
	for _, o := range h.all {
		if o.read && !o.free && o.group == e.group && o.version < e.version {
			switch r := h.row(o.key); {
			case r.State == jobs.Ready, r.State == jobs.Held, r.State == jobs.Dead && h.flow.OnDead == "hold":
				h.Fatalf("%s of group %s overtakes %s, which is %s %s", e.key, e.group, o.key, r.State, r.Reason)
			}
		}
	}
	h.last[e.group] = e
}

// settle settles one job.
func (h *events) settle() {
	if len(h.under) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.under)-1).Draw(h.T, "job")
	jb := h.under[i]
	h.under = slices.Delete(h.under, i, i+1)
	fate := "done"
	if !h.calm {
		fate = rapid.SampledFrom([]string{"done", "done", "done", "refused", "invalid", "answer lost", "request lost", "waiting"}).Draw(h.T, "fate")
	}
	o := connectors.Outcome{Class: connectors.Applied, Link: `1`, Resolved: jb.Unresolved()}
	switch fate {
	case "done":
		h.write(jb)
	case "refused":
		o = connectors.Fail(connectors.Transient, "connect", "refused")
	case "invalid":
		o = refusal
	case "waiting":
		o = connectors.Fail(connectors.Waiting, "reference", "not there")
		o.WaitEntity, o.WaitKey = "product", "1"
	default:
		if o = unknown; fate == "answer lost" {
			h.write(jb)
		}
	}
	if _, err := h.journal.Settle(context.Background(), h.flow.Client, []jobs.Settlement{{Job: jb, Flow: h.flow, Outcome: o, SentAt: h.s.at, Served: h.s.at}}); err != nil {
		h.Fatalf("settle: %v", err)
	}
}

// die ends the daemon, with its last writes done or not.
func (h *events) die() {
	for _, jb := range h.under {
		if rapid.Bool().Draw(h.T, "was sent") {
			h.write(jb)
		}
	}
	h.under = nil
	h.start()
}

func (h *events) change() {
	h.die()
	h.flow.OnDead = map[string]string{"hold": "skip", "skip": "hold"}[h.flow.OnDead]
	h.start()
}

// act has an operator do something to some event.
func (h *events) act(do func(e *happening)) {
	if e := h.pick("acted on", h.which(true)); e != nil {
		do(e)
	}
}

func (h *events) replay(e *happening) {
	a, err := h.journal.Replay(context.Background(), []jobs.RowID{{Flow: h.flow.Name, Key: e.key}}, h.flows)
	if err != nil {
		h.Fatalf("replay: %v", err)
	}
	if a.Done > 0 {
		e.free = true
	}
}

func (h *events) discard(e *happening) {
	if _, err := h.journal.Discard(context.Background(), []jobs.RowID{{Flow: h.flow.Name, Key: e.key}}, "test"); err != nil {
		h.Fatalf("discard: %v", err)
	}
}

// look holds that of each group somebody is due, unless a dead one holds it.
func (h *events) look() {
	behind, first := map[string]string{}, map[string]jobs.Row{}
	for _, e := range h.all {
		if !e.read {
			continue
		}
		r := h.row(e.key)
		if r.State == jobs.Done || r.Group == "" || r.State == jobs.Dead && h.flow.OnDead == "skip" {
			continue
		}
		if _, ok := first[r.Group]; !ok {
			first[r.Group] = r
		}
		if r.Reason == jobs.ReasonBehind {
			behind[r.Group] = r.Key
		}
	}
	for group, r := range first {
		under := slices.ContainsFunc(h.under, func(jb *jobs.Job) bool { return jb.Group == group })
		if r.Reason == jobs.ReasonBehind && !under {
			h.Fatalf("%s is the head of group %s, and waits for nobody", r.Key, group)
		}
	}
}

// rest lets everything end.
func (h *events) rest() {
	h.calm = true
	for range 200 {
		h.s.at = h.s.at.Add(time.Hour)
		for len(h.which(false)) > 0 {
			h.read()
		}
		for _, e := range h.all {
			h.replay(e)
		}
		h.claim()
		for len(h.under) > 0 {
			h.settle()
		}
		h.look()
		open := slices.ContainsFunc(h.all, func(e *happening) bool { return h.row(e.key).State != jobs.Done })
		if !open {
			break
		}
	}
	for _, e := range h.all {
		r := h.row(e.key)
		switch {
		case r.State != jobs.Done:
			h.Fatalf("%s is %s %s in the end", e.key, r.State, r.Reason)
		case r.Reason == jobs.ReasonDiscarded && e.times <= 1:
		case e.times != 1:
			h.Fatalf("%s was written %d times, and is done (%q)", e.key, e.times, r.Reason)
		}
	}
}
