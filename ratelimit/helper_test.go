package ratelimit

import (
	"context"
	"time"
)

// enter makes one call that is never answered.
func enter(g *Gate, ctx context.Context) error {
	p, err := g.Enter(ctx, Ask{})
	if err == nil {
		p.Drop(true)
	}
	return err
}

// observe shows an answer to a call that left at that moment, whatever the gate says.
func observe(g *Gate, ctx context.Context, sig Signal, now time.Time) bool {
	g.mu.Lock()
	f := g.pacer.take(time.Now(), Ask{})
	g.mu.Unlock()
	return (&pass{g: g, flight: f}).Answer(ctx, sig, now)
}
