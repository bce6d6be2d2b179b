package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"syncd/internal/field"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a gate that can be closed, and that remembers what it was shown.
type gate struct {
	mu     sync.Mutex
	err    error
	waits  int
	shown  []ratelimit.Signal
	most   time.Duration // 0 for ten years
	onWait func(n int)
	onShow func(ratelimit.Signal)
}

func (g *gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	g.waits++
	n, err, hook := g.waits, g.err, g.onWait
	g.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

func (g *gate) Observe(_ context.Context, sig ratelimit.Signal, _ time.Time) bool {
	g.mu.Lock()
	g.shown = append(g.shown, sig)
	hook := g.onShow
	g.mu.Unlock()
	if hook != nil {
		hook(sig)
	}
	return sig.Pauses()
}

func (g *gate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (g *gate) Longest() time.Duration {
	if g.most != 0 {
		return g.most
	}
	return 10 * 365 * 24 * time.Hour
}

func (g *gate) signals() []ratelimit.Signal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]ratelimit.Signal(nil), g.shown...)
}

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// newClient makes a client of a server. change may be nil.
func newClient(t *testing.T, base string, change func(*Options)) (*Client, *gate) {
	t.Helper()
	g := &gate{}
	o := Options{Client: "shop", Gate: g, BaseURL: mustParse(t, base), Timeout: 30 * time.Second}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, g
}

// wantError checks kind and code and returns the error.
func wantError(t *testing.T, err error, kind Kind, code string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want %s (%s)", err, kind, code)
	}
	if e.Kind != kind || e.Code != code {
		t.Errorf("got %s (%s): %v; want %s (%s)", e.Kind, e.Code, e, kind, code)
	}
	return e
}

func ok(t *testing.T, resp *Response, err error) *Response {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// answerer answers everything with a status and a body.
func answerer(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func write(path, body string) *Request {
	return &Request{Method: http.MethodPost, Path: path, Write: true, Body: []byte(body)}
}

func secret(s string) field.Secret { return field.NewSecret(s) }

// newDirect starts a server without faults and returns its address.
func newDirect(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
