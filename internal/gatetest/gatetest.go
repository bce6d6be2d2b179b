// Package gatetest makes gates of what a test has to say to calls and to their answers.
package gatetest

import (
	"context"
	"time"

	"syncd/ratelimit"
)

// Gate is what a test has to say.
type Gate interface {
	// Wait lets a call out, or returns why not.
	Wait(ctx context.Context) error
	// Observe is shown the answer, and reports whether it asked for a pause.
	Observe(ctx context.Context, sig ratelimit.Signal, now time.Time) bool
}

// Enter lets a call through a gate.
func Enter(ctx context.Context, g Gate) (ratelimit.Pass, error) {
	if err := g.Wait(ctx); err != nil {
		return nil, err
	}
	return pass{g}, nil
}

type pass struct{ g Gate }

func (p pass) Answer(ctx context.Context, sig ratelimit.Signal, now time.Time) bool {
	return p.g.Observe(ctx, sig, now)
}

func (pass) Drop(bool) {}
