package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"syncd/connectors"
	"syncd/ratelimit"
)

// patient is the gate of a client that is checked: a pause that ends within the
// time that a check has is waited for. A small quota is used up by a check alone,
// and says nothing of the client.
type patient struct {
	*ratelimit.Gate
	refused atomic.Bool // for quota, since it was last asked
}

// patientPass is a call that a patient gate has let through.
type patientPass struct {
	ratelimit.Pass
	g *patient
}

// Answer implements ratelimit.Pass. After a short pause requests go out one by one, as
// far apart as the pause was long: what is asked again must not be refused again.
func (p patientPass) Answer(ctx context.Context, sig ratelimit.Signal, now time.Time) bool {
	g := p.g
	if !p.Pass.Answer(ctx, sig, now) {
		return false
	}
	g.refused.Store(true)
	s := g.State(now)
	slow := time.Second.Seconds() / max(s.Pause.Until.Sub(now), time.Second).Seconds()
	if s.Rate == 0 || s.Rate > slow {
		_ = g.SetRate(slow, 1) // refused only below the least rate, for pauses that are not waited for
	}
	return true
}

// Enter waits for leave to make one call, and returns a *ratelimit.PausedError only for
// a pause that outlasts ctx.
func (g *patient) Enter(ctx context.Context, a ratelimit.Ask) (ratelimit.Pass, error) {
	for {
		p, err := g.Gate.Enter(ctx, a)
		var paused *ratelimit.PausedError
		switch {
		case err == nil:
			return patientPass{p, g}, nil
		case !errors.As(err, &paused) || !g.over(ctx):
			return nil, err
		}
	}
}

// over waits until the client is not paused any more, and reports false at once
// when that is later than ctx ends.
func (g *patient) over(ctx context.Context) bool {
	for {
		changed, now := g.Changed(), utcNow()
		s := g.State(now)
		if s.Open {
			return ctx.Err() == nil
		}
		end, bounded := ctx.Deadline()
		if s.Pause.OpenEnded() || bounded && s.Pause.Until.After(end) {
			return false
		}
		t := time.NewTimer(s.Pause.Until.Sub(now))
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// patiently asks the clients of a flow, and again when one of them refused for its
// quota and may be called again within ctx.
func patiently(ctx context.Context, c *liveClient, ask func() error) error {
	for {
		err := ask()
		var e *connectors.Error
		if !errors.As(err, &e) || e.Class != connectors.Throttled && e.Class != connectors.Paused {
			return err
		}
		if c.gate.State(utcNow()).Open && !rest(ctx, max(e.RetryAfter, time.Second)) || !c.gate.over(ctx) {
			return err
		}
	}
}

// rest waits for d, and reports false at once when ctx ends before.
func rest(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// asked is what the connector finds of streams and entities. What was refused for
// quota is asked again, alone, as long as the pauses end within ctx.
func (c *liveClient) asked(ctx context.Context, streams, entities []string) (found []connectors.Finding) {
	for {
		c.gate.refused.Store(false)
		open := map[string]bool{}
		for _, f := range c.inst.Check(ctx, streams, entities) {
			if f.Unreachable {
				open[f.Subject] = true
			}
			found = append(found, f)
		}
		if len(open) == 0 || !c.gate.refused.Load() || !c.gate.over(ctx) {
			return found
		}
		if !open[""] { // else nothing was answered of the client as a whole
			of := func(name string) bool { return !open[name] }
			streams, entities = slices.DeleteFunc(streams, of), slices.DeleteFunc(entities, of)
		}
		found = slices.DeleteFunc(found, func(f connectors.Finding) bool { return open[""] || open[f.Subject] })
	}
}
