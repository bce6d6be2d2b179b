package ratelimit

import (
	"context"
	"time"

	"syncd/internal/mutant"
)

// waiter is somebody who waits for leave to make a call.
type waiter struct {
	ask    Ask
	look   bool // wants to know only that one could be had
	flight *flight
	err    error
	done   chan struct{} // closed when flight or err is set, or the look has succeeded
}

// Enter waits for leave to make one call. It returns a *PausedError at once when the client is paused or becomes paused meanwhile, and the
// context's error as soon as that ends. A deadline too close for the next call is only ever seen as the context's own error, after it has passed.
func (g *Gate) Enter(ctx context.Context, a Ask) (Pass, error) {
	w, err := g.wait(ctx, &waiter{ask: a, done: make(chan struct{})})
	if err != nil {
		return nil, err
	}
	// A pause may have come since.
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.pausedNow(); p != nil {
		g.pacer.dropped(time.Now(), w.flight, false)
		return nil, p
	}
	return &pass{g: g, flight: w.flight}, nil
}

// Ready waits until a call could go, without making one. Its errors are those of Enter.
func (g *Gate) Ready(ctx context.Context, a Ask) error {
	_, err := g.wait(ctx, &waiter{ask: a, look: true, done: make(chan struct{})})
	return err
}

// Within is about how many calls may go within a time, at least 1; 0 for any number.
func (g *Gate) Within(d time.Duration, a Ask) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.pacer.within(time.Now(), d, a)
	if n < 0 {
		return 0
	}
	return int(min(max(n, 1), mostWithin))
}

// mostWithin bounds what Within returns.
const mostWithin = 1 << 20

func (g *Gate) wait(ctx context.Context, w *waiter) (*waiter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	p := g.pausedNow()
	if p == nil {
		p = g.shapePaused(w.ask.Shape)
	}
	if p != nil {
		g.mu.Unlock()
		return nil, p
	}
	g.queues[w.ask.Kind] = append(g.queues[w.ask.Kind], w)
	g.dispatch()
	g.mu.Unlock()
	select {
	case <-w.done:
		return w, w.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.done: // at the same moment
		if w.flight != nil {
			g.pacer.dropped(time.Now(), w.flight, false)
			g.dispatch()
		}
	default:
		g.leave(w)
		g.dispatch() // another may be first now
	}
	return nil, ctx.Err()
}

// pausedNow is the error for a call during a pause; nil when there is none. The caller holds mu.
func (g *Gate) pausedNow() *PausedError {
	if g.pause.Active(g.now()) && !mutant.On("pause-overlooked") {
		return &PausedError{Client: g.client, Pause: g.pause}
	}
	return nil
}

// leave takes a waiter out of its queue. The caller holds mu.
func (g *Gate) leave(w *waiter) {
	q := g.queues[w.ask.Kind]
	for i, o := range q {
		if o == w {
			g.queues[w.ask.Kind] = append(q[:i:i], q[i+1:]...)
			return
		}
	}
}

// dispatch lets go whoever may, and sees to it that it is called again when the next one may. The caller holds mu.
func (g *Gate) dispatch() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	for {
		if p := g.pausedNow(); p != nil {
			g.turnAway(p)
			return
		}
		now := time.Now()
		if g.resting && !g.closed {
			g.resting = false
			g.pacer.reopened(now)
		}
		w, rest := g.first(now)
		if w == nil {
			if rest > 0 && !g.closed {
				g.timer = time.AfterFunc(min(rest, mostRest), func() {
					g.mu.Lock()
					defer g.mu.Unlock()
					g.dispatch()
				})
			}
			return
		}
		g.leave(w)
		if w.err != nil {
			close(w.done)
			continue
		}
		if !w.look {
			w.flight = g.pacer.take(now, w.ask)
			g.last = w.ask.Kind
		}
		close(w.done)
	}
}

// mostRest is after what time at most the queues are looked at again, whatever was reckoned.
const mostRest = 10 * time.Second

// turnAway tells all who wait that the client is paused. The caller holds mu.
func (g *Gate) turnAway(p *PausedError) {
	for k, q := range g.queues {
		for _, w := range q {
			w.err = p
			close(w.done)
		}
		g.queues[k] = nil
	}
}

// first is whose turn it is, and can go: kinds that wait take turns, within a kind those who came first go first, and who waits for a quota of its
// own keeps no others back. Without one, rest is until when to look again; 0 when nobody waits. The caller holds mu.
func (g *Gate) first(now time.Time) (next *waiter, rest time.Duration) {
	for i := range kinds {
		looked := map[string]bool{}
		for _, w := range g.queues[(g.last+1+i)%kinds] {
			if looked[w.ask.Shape] {
				continue
			}
			looked[w.ask.Shape] = true
			if p := g.shapePaused(w.ask.Shape); p != nil {
				w.err = p
				return w, 0
			}
			v, by := g.pacer.next(now, w.ask)
			if w.look {
				v, by = g.pacer.best(now, w.ask)
			}
			if v.ok() {
				return w, 0
			}
			if d := v.least(); rest == 0 || d < rest {
				rest, g.heldBy = d, by
			}
		}
	}
	return nil, rest
}
