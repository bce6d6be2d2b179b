package conformance

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

// day is when the suite's story begins.
var day = time.Date(2026, 1, 10, 10, 0, 0, 0, time.UTC)

// at is a whole number of seconds into the story.
func at(seconds int) time.Time { return day.Add(time.Duration(seconds) * time.Second) }

// gate counts what asks for it, and can be closed.
type gate struct {
	mu      sync.Mutex
	closed  bool
	waits   int
	signals []ratelimit.Signal
}

func (g *gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return &ratelimit.PausedError{Client: "model", Pause: ratelimit.Pause{Until: day.Add(time.Hour), Reason: ratelimit.ReasonOperator}}
	}
	g.waits++
	return ctx.Err()
}

func (g *gate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (*gate) Longest() time.Duration { return 24 * time.Hour }

func (g *gate) Observe(_ context.Context, sig ratelimit.Signal, _ time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signals = append(g.signals, sig)
	return sig.Throttled
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *gate) count() (waits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits
}

// throttled tells whether the gate was shown a refusal for quota.
func (g *gate) throttled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.signals {
		if s.Throttled {
			return true
		}
	}
	return false
}

const (
	// patient is the timeout for requests that are to succeed.
	patient = 20 * time.Second
	// impatient is the timeout for requests that are never answered.
	impatient = 150 * time.Millisecond
)

// lend makes an Env whose clock is off by skew.
func lend(t testing.TB, g *gate, timeout, skew time.Duration) connectors.Env {
	return connectors.Env{Client: "model", Gate: g, Timeout: timeout, Concurrency: 2, BaseDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler), UserAgent: "syncd/test",
		Now: func() time.Time { return time.Now().UTC().Add(skew) }}
}

// open opens an instance that is closed with the test.
func open(t testing.TB, o Open, env connectors.Env) connectors.Instance {
	t.Helper()
	i, err := o(env)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}
