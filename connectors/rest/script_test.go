package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

// openGate lets everything out and remembers what it was shown.
type openGate struct {
	mu        sync.Mutex
	throttled int
	atOnce    int // of them
}

func (g *openGate) Wait(context.Context) error { return nil }

func (g *openGate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (*openGate) Longest() time.Duration { return 24 * time.Hour }

func (g *openGate) Observe(_ context.Context, sig ratelimit.Signal, _ time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sig.Throttled {
		g.throttled++
		if sig.Concurrent {
			g.atOnce++
		}
	}
	return sig.Throttled
}

// script is a server that answers as a test says, and its client.
type script struct {
	t        testing.TB
	gate     *openGate
	instance connectors.Instance
	mu       sync.Mutex
	answer   func(r *http.Request, body string) (status int, text string)
	header   http.Header
	requests []string // "GET /path?query body"
}

var started = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// serve opens a client, described in YAML without its url, on a scripted server.
func serve(t testing.TB, text string, answer func(r *http.Request, body string) (int, string)) *script {
	t.Helper()
	s := &script{t: t, gate: &openGate{}, answer: answer, header: http.Header{"Date": {started.Format(http.TimeFormat)}}}
	server := httptest.NewServer(http.HandlerFunc(s.ServeHTTP))
	t.Cleanup(server.Close)
	set := settings(t, "url: "+server.URL+"/api\n"+text)
	var err error
	s.instance, err = set.Open(t.Context(), connectors.Env{Client: "shop", Gate: s.gate, Timeout: 20 * time.Second, Concurrency: 1,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return started }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.instance.Close() })
	return s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s %s", r.Method, r.URL.RequestURI())
	body := new(strings.Builder)
	buf := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buf)
		body.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if body.Len() > 0 {
		b.WriteString(" " + body.String())
	}
	s.requests = append(s.requests, b.String())
	status, text := s.answer(r, body.String())
	w.Header().Set("Content-Type", "application/json")
	for name, v := range s.header {
		w.Header()[name] = v
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// pull asks for the page after a cursor.
func (s *script) pull(cursor json.RawMessage) (connectors.Page, error) {
	return s.instance.Source().Pull(s.t.Context(), connectors.PullRequest{Stream: "records", Cursor: cursor, Start: connectors.Start{All: true}, Limit: 100})
}

func (s *script) mustPull(cursor json.RawMessage) connectors.Page {
	s.t.Helper()
	p, err := s.pull(cursor)
	if err != nil {
		s.t.Fatalf("pull: %v", err)
	}
	return p
}

// drain pulls to the end and returns all pages as one.
func (s *script) drain(cursor json.RawMessage) connectors.Page {
	s.t.Helper()
	var all connectors.Page
	all.Next = cursor
	for range 100 {
		p := s.mustPull(all.Next)
		all.Events = append(all.Events, p.Events...)
		all.Notes = append(all.Notes, p.Notes...)
		all.Next = p.Next
		if !p.More {
			return all
		}
	}
	s.t.Fatal("no end after 100 pages")
	return all
}

// low is what the cursor says has been read.
func low(t testing.TB, cursor json.RawMessage) int64 {
	t.Helper()
	var pos position
	if err := json.Unmarshal(cursor, &pos); err != nil {
		t.Fatal(err)
	}
	return pos.Low
}

func ids(p connectors.Page) string {
	var l []string
	for _, e := range p.Events {
		l = append(l, e.SourceID)
	}
	return strings.Join(l, " ")
}

// fails checks the class and the words of an error.
func fails(t testing.TB, err error, class connectors.Class, words ...string) {
	t.Helper()
	var e *connectors.Error
	if err == nil {
		t.Fatalf("no error; want %s", class)
	}
	e = withOp(err, "")
	if e.Class != class {
		t.Errorf("class %s, want %s: %v", e.Class, class, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}
