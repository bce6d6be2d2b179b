package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"syncd/ratelimit"
)

// meter knows how long the slowest request took that was made under a context. What a
// request waits for the gate is our own doing and not counted.
type meter struct{ slowest atomic.Int64 }

type meterKey struct{}

// metered returns a context whose requests are measured; ctx itself where nobody
// wants to know.
func (c *client) metered(ctx context.Context) (context.Context, *meter) {
	if c.plan.Breaker.SlowCall == 0 {
		return ctx, nil
	}
	m := &meter{}
	return context.WithValue(ctx, meterKey{}, m), m
}

// took is how long the slowest request took; 0 for none.
func (m *meter) took() time.Duration {
	if m == nil {
		return 0
	}
	return time.Duration(m.slowest.Load())
}

// over reports whether a request was slower than the client's breaker has it.
func (m *meter) over(c *client) bool { return m != nil && m.took() >= c.plan.Breaker.SlowCall }

// measured has the time of the request that p is for counted from now on, by ctx's meter.
func measured(ctx context.Context, p ratelimit.Pass) ratelimit.Pass {
	m, ok := ctx.Value(meterKey{}).(*meter)
	if !ok {
		return p
	}
	return &timed{Pass: p, m: m, begun: time.Now()}
}

type timed struct {
	ratelimit.Pass
	m     *meter
	begun time.Time
	over  atomic.Bool
}

// Answer implements ratelimit.Pass.
func (t *timed) Answer(ctx context.Context, sig ratelimit.Signal, now time.Time) bool {
	t.end()
	return t.Pass.Answer(ctx, sig, now)
}

// Drop implements ratelimit.Pass.
func (t *timed) Drop(sent bool) {
	t.end()
	t.Pass.Drop(sent)
}

func (t *timed) end() {
	if !t.over.CompareAndSwap(false, true) {
		return
	}
	took := int64(time.Since(t.begun))
	for old := t.m.slowest.Load(); took > old && !t.m.slowest.CompareAndSwap(old, took); old = t.m.slowest.Load() {
	}
}
