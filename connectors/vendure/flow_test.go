package vendure

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"time"

	"syncd/connectors"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

type openGate struct{}

func (openGate) Wait(context.Context) error { return nil }
func (g openGate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (openGate) Longest() time.Duration { return 24 * time.Hour }

func (openGate) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}

// world is a shop with a clock that only tests move.
type world struct {
	t    tb
	now  time.Time
	shop *fakeShop
	url  string
	set  *Settings
	src  *source
}

func newWorld(t tb) *world {
	w := &world{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 123_456_000, time.UTC)}
	w.shop = newFakeShop(func() time.Time { return w.now })
	server := httptest.NewServer(w.shop)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.set = settingsFor(server.URL)
	w.restart()
	return w
}

// restart opens a fresh instance.
func (w *world) restart() {
	w.t.Helper()
	if w.src != nil {
		w.src.http.Close()
	}
	i, err := w.set.Open(w.t.Context(), connectors.Env{Client: "shop", Gate: openGate{}, Timeout: 20 * time.Second, Concurrency: 2,
		Now: func() time.Time { return w.now }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.src = i.Source().(*source)
	w.t.Cleanup(func() { _ = i.Close() })
}

// wait moves the clock.
func (w *world) wait(d time.Duration) { w.now = w.now.Add(d) }

// do changes the shop, a microsecond after what was before.
func (w *world) do(change func(s *fakeShop, at time.Time)) {
	w.wait(time.Microsecond)
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	change(w.shop, w.now)
}

// requests returns what was asked since the last call.
func (w *world) requests() []asked {
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	l := w.shop.log
	w.shop.log = nil
	return l
}

// flow reads a stream as a daemon does: it stores a cursor together with the
// events before it, and pulls the page after the next while it stores one.
type flow struct {
	w      *world
	stream string
	start  connectors.Start
	limit  int
	cursor json.RawMessage
	state  map[string]connectors.Event
	events int
	// admit decides what becomes of a page; nil admits every page.
	admit func() admission
}

type admission int

const (
	stored       admission = iota
	refused                // nothing is stored, and the cursor is read again
	unknownStore           // it is stored, but nobody knows: the cursor is read again
)

func newFlow(w *world, stream string) *flow {
	return &flow{w: w, stream: stream, start: connectors.Start{All: true}, limit: 100, state: map[string]connectors.Event{}}
}

func (f *flow) pull(cursor json.RawMessage) connectors.Page {
	f.w.t.Helper()
	p, err := f.w.src.Pull(f.w.t.Context(), connectors.PullRequest{Stream: f.stream, Cursor: cursor, Start: f.start, Limit: f.limit})
	if err != nil {
		f.w.t.Fatalf("pull %s from %s: %v", f.stream, cursor, err)
	}
	if len(p.Next) > 64<<10 {
		f.w.t.Fatalf("a cursor of %d bytes", len(p.Next))
	}
	return p
}

// take stores a page, or does not.
func (f *flow) take(p connectors.Page) admission {
	how := stored
	if f.admit != nil {
		how = f.admit()
	}
	if how == refused {
		return how
	}
	for _, e := range p.Events {
		f.events++
		if e.Problem != "" {
			f.w.t.Fatalf("event %s: %s", e.SourceID, e.Problem)
		}
		if old, ok := f.state[e.SourceID]; !ok || old.Version <= e.Version {
			f.state[e.SourceID] = e
		}
	}
	f.cursor = p.Next
	return how
}

// cycle polls until there is no more, or a page was not stored.
func (f *flow) cycle() (complete bool) {
	f.w.t.Helper()
	next := f.pull(f.cursor)
	for range 1000 {
		page := next
		if page.More {
			next = f.pull(page.Next) // before page is stored
		}
		if f.take(page) != stored {
			return false
		}
		if !page.More {
			return true
		}
	}
	f.w.t.Fatalf("the %s do not come to an end; cursor %s", f.stream, f.cursor)
	return false
}

// field is a field of what was last read of a record.
func (f *flow) field(id, name string) any {
	var m map[string]any
	if e, ok := f.state[id]; ok {
		if err := json.Unmarshal(e.Body, &m); err != nil {
			f.w.t.Fatal(err)
		}
	}
	return m[name]
}
