package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/internal/field"
	"syncd/jobs"
	"syncd/mapping"
)

// feed is a source in memory that hands events over at a fixed rate, each as soon
// as it is there. What it never hands over is no event: one without a rate has none.
type feed struct {
	every time.Duration // between two events
	total int
	size  int

	mu    sync.Mutex
	begun time.Time // when event 0 is there
	pulls int
}

func (f *feed) due(i int) time.Time { return f.begun.Add(time.Duration(i) * f.every) }

// Pull implements connectors.Source. It waits for the next event.
func (f *feed) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	at, _ := strconv.Atoi(string(req.Cursor)) // there is none at first
	f.mu.Lock()
	f.pulls++
	if f.begun.IsZero() {
		f.begun = time.Now().Add(500 * time.Millisecond)
	}
	f.mu.Unlock()
	page := connectors.Page{Next: json.RawMessage(strconv.Itoa(at)), More: at < f.total}
	if !page.More {
		return page, nil
	}
	t := time.NewTimer(time.Until(f.due(at)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return page, ctx.Err()
	}
	now, end := time.Now(), at
	for end < f.total && end-at < req.Limit && !f.due(end).After(now) {
		end++
	}
	for i := at; i < end; i++ {
		page.Events = append(page.Events, connectors.Event{SourceID: strconv.Itoa(i), Version: 1, ChangedAt: f.due(i), Body: body(i, f.size)})
	}
	page.Next = json.RawMessage(strconv.Itoa(end))
	return page, nil
}

// Fetch implements connectors.Source.
func (f *feed) Fetch(context.Context, string, string) (connectors.Event, error) {
	return connectors.Event{}, fmt.Errorf("a feed has no single records")
}

func (f *feed) pulled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pulls
}

// table is a target in memory that takes batches at once, and tells when.
type table struct {
	batch int
	wrote func(ws []connectors.Write, at time.Time)
}

func (t *table) Info() connectors.EntityInfo {
	return connectors.EntityInfo{Name: "order", Guarded: true, MaxBatch: t.batch,
		Strategies: []connectors.StrategyInfo{{Strategy: connectors.NaturalKey, KeyField: "key"}}}
}

// Upsert implements connectors.Upserter.
func (t *table) Upsert(_ context.Context, ws []connectors.Write) []connectors.Outcome {
	t.wrote(ws, time.Now())
	out := make([]connectors.Outcome, len(ws))
	for i := range out {
		out[i].Class = connectors.Applied
	}
	return out
}

// ends are a feed, a table or both as a connector.
type ends struct {
	feed  *feed
	table *table
}

func (*ends) Fields(*field.Set) {}
func (e *ends) Streams() []connectors.StreamInfo {
	return []connectors.StreamInfo{{Name: "orders"}}
}
func (e *ends) Entities() []connectors.EntityInfo {
	if e.table == nil {
		return nil
	}
	return []connectors.EntityInfo{e.table.Info()}
}
func (e *ends) Open(context.Context, connectors.Env) (connectors.Instance, error) { return e, nil }
func (e *ends) Source() connectors.Source {
	if e.feed == nil {
		return nil
	}
	return e.feed
}
func (e *ends) Target() connectors.Target {
	if e.table == nil {
		return nil
	}
	return e
}
func (e *ends) Entity(string) (connectors.Entity, error)                     { return e.table, nil }
func (*ends) Check(context.Context, []string, []string) []connectors.Finding { return nil }
func (*ends) Close() error                                                   { return nil }

// rig is a daemon over a journal.
type rig struct {
	*place
	plan   *daemon.Plan
	daemon *daemon.Daemon
	stop   context.CancelFunc
	done   chan error
}

func newRig(p *place) *rig {
	return &rig{place: p, plan: &daemon.Plan{Clients: map[string]*daemon.ClientPlan{}, Flows: map[string]*daemon.FlowPlan{}}}
}

func (r *rig) client(name string, e *ends) {
	r.plan.Clients[name] = &daemon.ClientPlan{Name: name, Settings: e, Concurrency: 4, Timeout: 10 * time.Second, Breaker: breaker.Settings{}}
}

// flow plans a flow whose mapping changes nothing.
func (r *rig) flow(name, from, to string, every time.Duration) error {
	prog, err := mapping.Compile(mapping.Source{Map: ".", Key: ".key"})
	if err != nil {
		return err
	}
	r.plan.Flows[name] = &daemon.FlowPlan{Flow: *flowOf(name, from, to), Source: connectors.StreamInfo{Name: "orders"}, Every: every, Page: batch,
		Start: connectors.Start{All: true}, Program: prog}
	return nil
}

func (r *rig) start(ctx context.Context, o daemon.Observer) {
	r.daemon = daemon.New(r.Journal, daemon.Options{Observer: o})
	ctx, r.stop = context.WithCancel(ctx)
	r.done = make(chan error, 1)
	go func() { r.done <- r.daemon.Run(ctx, r.plan, nil) }()
}

// end stops the daemon; it may not have been started.
func (r *rig) end() error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	return <-r.done
}

// until waits for something, and no longer than patience.
func until(ctx context.Context, what string, patience time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not %s after %s", what, patience))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stream is a feed whose events are followed through a daemon.
type stream struct {
	daemon.Silent
	feed *feed
	flow string

	mu       sync.Mutex
	admitted int
	at       []time.Time // when each was known to be admitted
	written  []time.Time // when its write began
	left     int
	settled  int
}

func newStream(flow string, rate, total, size int) *stream {
	return &stream{feed: &feed{every: time.Second / time.Duration(rate), total: total, size: size}, flow: flow,
		at: make([]time.Time, total), written: make([]time.Time, total), left: total}
}

// Admitted implements daemon.Observer. Pages come in the order of their events.
func (s *stream) Admitted(f *jobs.Flow, a jobs.Admitted) {
	if f.Name != s.flow {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for range a.Events {
		s.at[s.admitted] = now
		s.admitted++
	}
}

// Settled implements daemon.Observer.
func (s *stream) Settled(f *jobs.Flow, _ jobs.Settled, _ connectors.Outcome, _ time.Duration) {
	if f.Name != s.flow {
		return
	}
	s.mu.Lock()
	s.settled++
	s.mu.Unlock()
}

// wrote notes when the writes of events began; a key ends with the event's number.
func (s *stream) wrote(ws []connectors.Write, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range ws {
		i, err := strconv.Atoi(w.Key[len("SHOP-"):])
		if err == nil && s.written[i].IsZero() {
			s.written[i] = at
			s.left--
		}
	}
}

func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left == 0 && s.settled >= len(s.at)
}

// waits are, in milliseconds, how long each event waited for its write from when
// it was there, and from when it was admitted. A write may begin before the
// admission is told of; that counts as at once. The first events, during which
// connections and plans are made, are left out.
func (s *stream) waits() (fromThere, fromAdmitted []float64) {
	ms := func(d time.Duration) float64 { return float64(max(d, 0).Microseconds()) / 1000 }
	for i := len(s.at) / 10; i < len(s.at); i++ {
		fromThere = append(fromThere, ms(s.written[i].Sub(s.feed.due(i))))
		fromAdmitted = append(fromAdmitted, ms(s.written[i].Sub(s.at[i])))
	}
	return fromThere, fromAdmitted
}
