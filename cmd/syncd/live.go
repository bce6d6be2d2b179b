package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"syncd/config"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/internal/jsonscan"
	"syncd/jobs"
	"syncd/mapping"
	"syncd/ratelimit"
	"syncd/upsert"
)

const (
	// liveTime bounds what a check asks of one client, and of the source of one flow.
	liveTime = time.Minute
	// liveRecords is how many records of each flow a check tries.
	liveRecords = 20
	// liveProblems bounds the kinds of problems told of one flow.
	liveProblems = 10
)

// liveCheck is the part of a check that asks the clients. It changes nothing anywhere.
type liveCheck struct {
	plan  *daemon.Plan
	learn func(credential string)
	open  map[string]*liveClient
	found []liveFinding
}

// liveClient is a client that was opened for a check.
type liveClient struct {
	*daemon.ClientPlan
	gate *patient
	inst connectors.Instance
	// bad are the streams and entities with which something is wrong, which was
	// told; "" is the client as a whole.
	bad map[string]bool
}

// live asks every client, and tries a few records of each flow.
func (a *app) live(ctx context.Context, c *config.Config) []liveFinding {
	plan, err := daemon.PlanOf(c, utcNow())
	if err != nil {
		return []liveFinding{{Text: err.Error()}}
	}
	l := &liveCheck{plan: plan, learn: a.secrets.learn, open: map[string]*liveClient{}, found: []liveFinding{}}
	defer l.close()
	pauses := a.pauses(ctx, c)
	for _, n := range slices.Sorted(maps.Keys(plan.Clients)) {
		l.client(ctx, plan.Clients[n], pauses[n])
	}
	for _, n := range slices.Sorted(maps.Keys(plan.Flows)) {
		l.flow(ctx, plan.Flows[n])
	}
	for i := range l.found {
		l.found[i].Text = a.secrets.cut(l.found[i].Text)
	}
	return l.found
}

func utcNow() time.Time { return time.Now().UTC() }

// pauses are those that the daemon has stored of its clients and that a check has
// to keep to: a client asked for them, or a person. An open breaker, and credentials
// that were refused, are what a check is to find out about.
func (a *app) pauses(ctx context.Context, c *config.Config) map[string]ratelimit.Pause {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	j, _, err := a.journal(ctx, c, reading, quiet())
	if err != nil {
		return nil // liveJournal tells why
	}
	defer j.Close()
	cs, err := j.Clients(ctx)
	if err != nil {
		return nil
	}
	out := map[string]ratelimit.Pause{}
	for _, s := range cs {
		switch s.Reason {
		case ratelimit.ReasonThrottled, ratelimit.ReasonUnavailable, ratelimit.ReasonBeyond, ratelimit.ReasonOperator:
			out[s.Client] = ratelimit.Pause{Until: s.PausedUntil, Reason: s.Reason, Evidence: s.Evidence, Since: s.Since, Strikes: s.Strikes}
		}
	}
	return out
}

func (l *liveCheck) close() {
	for _, c := range l.open {
		c.gate.Close()
		_ = c.inst.Close()
	}
}

// client opens a client and asks it about what the flows use of it.
func (l *liveCheck) client(ctx context.Context, cp *daemon.ClientPlan, p ratelimit.Pause) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	c := &liveClient{ClientPlan: cp, bad: map[string]bool{}}
	gate, err := ratelimit.NewGate(cp.Name, cp.Gate, nil, nil, nil, quiet())
	if err == nil {
		c.gate = &patient{Gate: gate}
		if p.Active(utcNow()) {
			c.gate.Restore(p)
		}
		c.inst, err = cp.Settings.Open(ctx, connectors.Env{Client: cp.Name, Gate: c.gate, Conceal: l.learn, Timeout: cp.Timeout, Concurrency: cp.Concurrency,
			BaseDir: l.plan.BaseDir, Log: quiet(), Now: utcNow, UserAgent: "syncd/" + version()})
	}
	if err != nil {
		if gate != nil {
			gate.Close()
		}
		l.found = append(l.found, liveFinding{Client: cp.Name, Text: strings.TrimPrefix(err.Error(), "client "+cp.Name+": ")})
		return
	}
	l.open[cp.Name] = c
	streams, entities := used(l.plan, cp.Name)
	for _, f := range c.asked(ctx, streams, entities) {
		if f.Problem != "" {
			c.bad[f.Subject] = true
		}
		l.add(c, f)
	}
	for _, n := range slices.Sorted(maps.Keys(l.plan.Flows)) {
		f := l.plan.Flows[n]
		if f.Client != cp.Name {
			continue
		}
		e, err := c.inst.Target().Entity(f.Entity)
		if err == nil {
			_, err = upsert.New(&f.Flow, e, noJournal{}, utcNow)
		}
		if err != nil {
			c.bad[f.Entity] = true
			l.found = append(l.found, liveFinding{Client: cp.Name, Subject: "flow " + f.Name, Text: strings.TrimPrefix(err.Error(), "flow "+f.Name+", ")})
		}
	}
}

// add tells a finding. What was not answered because the client is paused, by its
// own wish or by one that is in the journal, is nobody's mistake.
func (l *liveCheck) add(c *liveClient, f connectors.Finding) {
	lf := liveFinding{Client: c.Name, Subject: f.Subject, OK: f.Problem == "", Unreachable: f.Unreachable, Text: f.Problem}
	if lf.OK {
		lf.Text = f.Note
	}
	if s := c.gate.State(utcNow()); !s.Open && f.Unreachable {
		lf.Text = "could not be checked now: the client is paused"
		if !s.Pause.OpenEnded() {
			lf.PausedUntil = s.Pause.Until.UTC().Format(time.RFC3339)
			lf.Text = "could not be checked now: the client is paused until " + lf.PausedUntil
		}
		lf.Text += " (" + s.Pause.Reason + ")"
		if s.Pause.Evidence != "" {
			lf.Text += ": " + s.Pause.Evidence
		}
		lf.Paused = true
		if slices.Contains(l.found, lf) {
			return // told of the same before
		}
	}
	l.found = append(l.found, lf)
}

// flow reads a few records, maps them, and asks the target's connector whether it
// would take them. Where that fails because a stream or an entity is not as it should
// be, it was told before.
func (l *liveCheck) flow(ctx context.Context, f *daemon.FlowPlan) {
	src, dst := l.open[f.SourceClient], l.open[f.Client]
	if src == nil || dst == nil || src.bad[""] {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	var page connectors.Page
	err := patiently(ctx, src, func() (err error) {
		page, err = src.inst.Source().Pull(ctx, connectors.PullRequest{Stream: f.Stream, Start: connectors.Start{All: true}, Limit: liveRecords})
		return err
	})
	switch {
	case err != nil && src.bad[f.Stream]:
		return
	case err != nil:
		l.add(src, connectors.Finding{Subject: "flow " + f.Name, Problem: "try a few records: " + err.Error(), Unreachable: connectors.Unanswered(err)})
		return
	}
	t := &trials{problems: map[string]*troubles{}}
	for _, ev := range page.Events[:min(len(page.Events), liveRecords)] {
		t.event(ctx, f, ev, page.Observed)
	}
	asked := false
	if !dst.bad[""] {
		err = patiently(ctx, dst, func() (err error) {
			asked, err = t.ask(ctx, dst.inst, f.Entity)
			return err
		})
	}
	if err != nil && !dst.bad[f.Entity] {
		l.add(dst, connectors.Finding{Subject: "flow " + f.Name, Problem: "try a few records: " + err.Error(), Unreachable: connectors.Unanswered(err)})
	}
	l.tell(dst, f, t, asked)
}

// tell reports what came of a flow's records.
func (l *liveCheck) tell(c *liveClient, f *daemon.FlowPlan, t *trials, asked bool) {
	if len(t.problems) == 0 {
		if t.events > 0 {
			note := count(t.events, "record") + " read and mapped"
			if asked && len(t.list) > 0 {
				note += "; the target's fields take what came of them"
			}
			l.add(c, connectors.Finding{Subject: "flow " + f.Name, Note: note})
		}
		return
	}
	texts := slices.SortedFunc(maps.Keys(t.problems), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.problems[b].times, t.problems[a].times), cmp.Compare(a, b))
	})
	for i, text := range texts {
		if i == liveProblems {
			l.add(c, connectors.Finding{Subject: "flow " + f.Name, Problem: fmt.Sprintf("and %s", count(len(texts)-i, "problem")+" of other kinds")})
			return
		}
		p := t.problems[text]
		l.add(c, connectors.Finding{Subject: "flow " + f.Name, Problem: fmt.Sprintf("%s (%d of %s tried, such as %s)", text, p.times, count(max(t.events, len(t.list)), "record"), p.example)})
	}
}

// trials are records tried for a flow, and what is wrong with them.
type trials struct {
	events   int
	list     []connectors.Trial
	problems map[string]*troubles // by text
}

// troubles says how many records have a problem, and names one.
type troubles struct {
	times   int
	example string
	last    int // the number of the record that was counted last
}

func (t *trials) trouble(example, text string) {
	p := t.problems[text]
	if p == nil {
		p = &troubles{example: example}
		t.problems[text] = p
	}
	if p.last != t.events {
		p.times, p.last = p.times+1, t.events
	}
}

// event maps one event.
func (t *trials) event(ctx context.Context, f *daemon.FlowPlan, ev connectors.Event, observed time.Time) {
	t.events++
	switch {
	case ev.Problem != "":
		t.trouble(cmp.Or(ev.SourceID, "one without id"), "it cannot be read: "+ev.Problem)
		return
	case ev.Gone:
		return
	}
	pairs, err := f.Program.Map(ctx, ev.Body, mapping.Meta{SourceID: ev.SourceID, Stream: f.Stream, Version: ev.Version, ChangedAt: ev.ChangedAt, Observed: observed})
	if err != nil {
		t.trouble(ev.SourceID, err.Error())
		return
	}
	for _, p := range pairs {
		body, linked, err := withoutRefs(p.Body)
		if err != nil {
			t.trouble(p.Key, err.Error())
			continue
		}
		t.list = append(t.list, connectors.Trial{Linked: linked,
			Write: connectors.Write{Key: p.Key, Body: body, Stamp: connectors.Stamp{Version: ev.Version, Observed: observed}}})
	}
}

// withoutRefs takes the fields that hold references out of a record.
func withoutRefs(body []byte) (rest json.RawMessage, linked []string, err error) {
	rest = json.RawMessage("{")
	err = jsonscan.Object(body, func(key, value []byte) error {
		refs, err := mapping.FindRefs(value)
		switch {
		case err != nil:
			return err
		case len(refs) > 0:
			linked = append(linked, string(key))
			return nil
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(jsonscan.AppendQuoted(rest, string(key)), ':'), value...)
		return nil
	})
	return append(rest, '}'), linked, err
}

// ask has the entity look at the records, and reports whether it can.
func (t *trials) ask(ctx context.Context, inst connectors.Instance, name string) (asked bool, err error) {
	e, err := inst.Target().Entity(name)
	if err != nil {
		return false, err
	}
	v, ok := e.(connectors.Verifier)
	if !ok || len(t.list) == 0 {
		return false, nil
	}
	problems, err := v.Verify(ctx, t.list)
	if err != nil {
		return false, err
	}
	events := t.events
	for i, ps := range problems {
		t.events = -1 - i // each record counts by itself
		for _, p := range ps {
			t.trouble(t.list[i].Key, p.Error())
		}
	}
	t.events = events
	return true, nil
}

// noJournal stands in for the journal where nothing is written.
type noJournal struct{}

var errCheck = errors.New("a check stores nothing")

func (noJournal) PutLink(context.Context, *jobs.Job, string) error { return errCheck }
func (noJournal) PutPin(context.Context, string, jobs.Pin) error   { return errCheck }
func (noJournal) Secret(context.Context) ([]byte, error)           { return nil, errCheck }
