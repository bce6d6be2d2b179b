package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/internal/field"
	"syncd/jobs"
	"syncd/jobs/memory"
	"syncd/mapping"
	"syncd/ratelimit"
)

// shop is a source in memory: a log of changes that is read by position.
type shop struct {
	mu      sync.Mutex
	changes []connectors.Event
	present map[string]connectors.Event
	fail    error
	failAt  int // the page at which it fails, counted over all there is; 0 for every one
	panics  bool
	pulls   int
	fetches int
}

func (s *shop) put(id string, version int64, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev := connectors.Event{SourceID: id, Version: version, ChangedAt: time.Now().UTC(), Body: json.RawMessage(body)}
	s.changes = append(s.changes, ev)
	s.present[id] = ev
}

func (s *shop) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// fails has the connector fail from one page on, counted from 1 over all there is; 0
// for every one.
func (s *shop) fails(page int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.failAt = err, page
}

// panicking has the connector panic when it reads.
func (s *shop) panicking(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics = on
}

// fetched is how often one record was asked for.
func (s *shop) fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// pulled is how often a page was asked for.
func (s *shop) pulled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulls
}

func (s *shop) Pull(_ context.Context, req connectors.PullRequest) (connectors.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls++
	if s.panics {
		panic("page s3cret")
	}
	at, _ := strconv.Atoi(string(req.Cursor))
	if s.fail != nil && at/req.Limit+1 >= s.failAt {
		return connectors.Page{}, s.fail
	}
	end := min(at+req.Limit, len(s.changes))
	return connectors.Page{Events: s.changes[at:end:end], Next: json.RawMessage(strconv.Itoa(end)), More: end < len(s.changes)}, nil
}

func (s *shop) Fetch(_ context.Context, _, id string) (connectors.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if s.panics {
		panic("record s3cret")
	}
	ev, ok := s.present[id]
	if !ok {
		return connectors.Event{SourceID: id, Gone: true}, nil
	}
	return ev, nil
}

// settings make shop and targets a connector.
type settings struct {
	shop     *shop
	entities map[string]connectors.Entity
}

func (*settings) Fields(*field.Set) {}
func (*settings) Streams() []connectors.StreamInfo {
	return []connectors.StreamInfo{{Name: "orders", CanFetch: true}}
}
func (s *settings) Entities() (is []connectors.EntityInfo) {
	for _, e := range s.entities {
		is = append(is, e.Info())
	}
	return is
}
func (s *settings) Open(context.Context, connectors.Env) (connectors.Instance, error) { return s, nil }
func (s *settings) Source() connectors.Source {
	if s.shop == nil {
		return nil
	}
	return s.shop
}
func (s *settings) Target() connectors.Target { return s }
func (s *settings) Entity(name string) (connectors.Entity, error) {
	if e := s.entities[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("there is no entity %q", name)
}
func (*settings) Check(context.Context, []string, []string) []connectors.Finding { return nil }
func (*settings) Close() error                                                   { return nil }

// sole is a journal in memory that one daemon has.
type sole struct{ *memory.Engine }

func (sole) Alone() bool { return true }

// soleEngine is a journal that one daemon has.
type soleEngine interface {
	jobs.Engine
	Alone() bool
}

// world is a daemon between a shop and an ERP, on a fake clock.
type world struct {
	*testing.T
	shop     *shop
	orders   *faketarget.Entity
	parties  *faketarget.Entity
	plan     *Plan
	engine   soleEngine
	journal  *jobs.Journal
	reload   chan Reload
	redact   func(string) string
	slice    int // 0 for the usual
	logged   strings.Builder
	observer Observer
	daemon   *Daemon
	stop     context.CancelFunc
	done     chan error
}

// inWorld runs a test in a bubble with a fake clock. The daemon is not started yet.
func inWorld(t *testing.T, prove func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, shop: &shop{present: map[string]connectors.Event{}}, reload: make(chan Reload)}
		now := func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
		w.orders = faketarget.New(faketarget.Options{Name: "order", Unique: true, SettleTime: time.Minute}, now)
		w.parties = faketarget.New(faketarget.Options{Name: "party", Unique: true, SettleTime: time.Minute}, now)
		w.engine = sole{memory.Open(memory.Options{Now: now})}
		w.journal = jobs.New(w.engine, jobs.Options{Owner: "first"})
		w.plan = &Plan{
			Clients: map[string]*ClientPlan{
				"shop": {Name: "shop", Settings: &settings{shop: w.shop}, Concurrency: 2, Timeout: 10 * time.Second, Breaker: quiet},
				"erp": {Name: "erp", Settings: &settings{entities: map[string]connectors.Entity{"order": w.orders, "party": w.parties}},
					Concurrency: 4, Timeout: 10 * time.Second, Breaker: quiet, Gate: ratelimit.Settings{}},
			},
			Flows: map[string]*FlowPlan{"orders": w.flow("orders", "order", `.`, `.key`)},
		}
		defer w.end()
		prove(w)
	})
}

// quiet is a breaker that tests of other things do not trip.
var quiet = breaker.Settings{Window: time.Minute, MinCalls: 1000, Ratio: 1, OpenFor: time.Second, ConsecutiveFailures: 1000, MinDistinct: 1000}

func (w *world) flow(name, entity, program, key string) *FlowPlan {
	p, err := mapping.Compile(mapping.Source{Map: program, Key: key})
	if err != nil {
		w.Fatal(err)
	}
	retry := jobs.DefaultRetry()
	return &FlowPlan{Flow: jobs.Flow{Name: name, SourceClient: "shop", Stream: "orders", Client: "erp", Entity: entity,
		Strategy: connectors.ExternalRef, SettleTime: time.Minute, Retry: retry, CanRefresh: true, OnExisting: "adopt", OnDelete: "ignore",
		OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead"},
		Source: connectors.StreamInfo{Name: "orders", CanFetch: true}, Every: time.Second, Page: 10, Start: connectors.Start{All: true}, Program: p}
}

// start sets the daemon going, as after a restart of the process.
func (w *world) start() {
	w.daemon = New(w.journal, Options{Log: slog.New(slog.NewTextHandler(io.MultiWriter(w.Output(), &w.logged), &slog.HandlerOptions{Level: slog.LevelDebug})), Grace: 20 * time.Second, Redact: w.redact, Observer: w.observer})
	if w.slice > 0 {
		w.daemon.slice = w.slice
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.Context()))
	w.stop, w.done = stop, make(chan error, 1)
	go func() { w.done <- w.daemon.Run(ctx, w.plan, w.reload) }()
}

func (w *world) end() {
	if w.stop == nil {
		return
	}
	w.stop()
	if err := <-w.done; err != nil {
		w.Errorf("the daemon ended with %v", err)
	}
	w.stop = nil
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) row(flow, key string) *jobs.Row {
	w.Helper()
	d, ok, err := w.journal.Get(context.Background(), jobs.RowID{Flow: flow, Key: key})
	if err != nil || !ok {
		w.Fatalf("row %s/%s: found %v, %v", flow, key, ok, err)
	}
	return &d.Row
}

// holds checks that the target has exactly one record of a key, and its content.
func (w *world) holds(e *faketarget.Entity, key, body string) {
	w.Helper()
	rs := e.Records(key)
	if len(rs) != 1 {
		w.Fatalf("the target has %d records of %s, want 1", len(rs), key)
	}
	if rs[0].Body != body {
		w.Fatalf("the target's record %s is %s, want %s", key, rs[0].Body, body)
	}
}
