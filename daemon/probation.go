package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// suspension is how long refused credentials keep a client from being called
// before one call tries them again. A start and a reload try them at once.
const suspension = 5 * time.Minute

// probation is the time between a refusal of a client's credentials and the first
// call that they are good for: calls are made one at a time, so that credentials that
// are still wrong cost one request and not one from every flow and worker. In the
// journal it is a pause with the reason suspended, also after the pause's end, so
// that it outlives the process.
type probation struct {
	mu sync.Mutex
	on bool
	// since is when the credentials were refused first; it means something while on.
	since time.Time
	// told: the observer knows of it; it means something while on.
	told bool
	over chan struct{} // closed when the call that tries is over; nil while none does
}

// try is a call on its way. For a client on probation it is the only one.
type try struct {
	c    *client
	over chan struct{} // nil off probation
}

// try begins a call, or returns an errClosed while another one tries the credentials.
func (c *client) try() (*try, error) {
	p := &c.probation
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &try{c: c}
	if !p.on {
		return t, nil
	}
	if p.over != nil {
		return nil, fmt.Errorf("%w: its credentials were refused, and another call tries them", errClosed)
	}
	t.over = make(chan struct{})
	p.over = t.over
	return t, nil
}

// end ends the call, whatever came of it.
func (t *try) end() {
	if t.over == nil {
		return
	}
	t.c.probation.mu.Lock()
	t.c.probation.over = nil
	t.c.probation.mu.Unlock()
	close(t.over)
}

// answer tells what came of the call: a refusal of the credentials suspends the
// client, and another answer of the client ends the probation.
func (t *try) answer(ctx context.Context, outs ...connectors.Outcome) {
	proved := false
	for _, o := range outs {
		if o.Class == connectors.Auth {
			t.c.suspend(ctx, o.Code)
			return
		}
		switch o.Class {
		case connectors.Conflict, connectors.Missing, connectors.Frozen:
			proved = true
		default: // a connector may find a record invalid by itself
			proved = proved || o.Class.Confirmed()
		}
	}
	if t.over == nil || !proved {
		return
	}
	t.c.probation.mu.Lock()
	t.c.probation.on = false
	since := t.c.probation.since
	t.c.probation.mu.Unlock()
	t.c.log.Info("the credentials are good again")
	t.c.observer.Freed(t.c.name, since)
	_ = t.c.gate.Mend(ctx, "a call that was answered") // the gate logs it
}

// onProbation reports whether calls are made one at a time.
func (c *client) onProbation() bool {
	c.probation.mu.Lock()
	defer c.probation.mu.Unlock()
	return c.probation.on
}

// refusedSince is since when the client's credentials are refused; zero off probation.
func (c *client) refusedSince() time.Time {
	c.probation.mu.Lock()
	defer c.probation.mu.Unlock()
	if !c.probation.on {
		return time.Time{}
	}
	return c.probation.since
}

// tried is closed when the call that tries the credentials is over; nil when none does.
func (c *client) tried() <-chan struct{} {
	c.probation.mu.Lock()
	defer c.probation.mu.Unlock()
	return c.probation.over
}

// suspend closes the gate after refused credentials; one call tries them again after it.
func (c *client) suspend(ctx context.Context, code string) {
	c.probation.mu.Lock()
	if !c.probation.on {
		c.probation.on, c.probation.since, c.probation.told = true, c.now(), false
	}
	told, since := c.probation.told, c.probation.since
	c.probation.told = true
	c.probation.mu.Unlock()
	code = c.redact(code)
	if !told {
		c.observer.Suspended(c.name, code, since)
	}
	if !c.learns(c.now()) {
		return
	}
	c.log.Error("the credentials are refused; the client is suspended, its jobs keep their attempts; mend the credentials, then reload or restart, which tries them at once",
		"code", code, "tried_again_in", suspension)
	if err := c.gate.Suspend(ctx, ratelimit.ReasonSuspended, "credentials refused: "+code, suspension); err != nil {
		c.log.Error("storing the suspension failed", "error", err)
	}
}

// retry has the next call try credentials that were refused before this start or
// reload: they may have been mended since.
func (c *client) retry(ctx context.Context, j *jobs.Journal, s jobs.ClientState) {
	c.probation.on, c.probation.since = true, s.Since
	now := c.now()
	p := ratelimit.Pause{Until: s.PausedUntil, Reason: s.Reason, Evidence: s.Evidence, Since: s.Since, Strikes: s.Strikes}
	if p.Active(now) {
		p.Until = now
		if err := j.SavePause(ctx, c.name, p); err != nil {
			c.log.Warn("storing the end of a suspension failed", "error", err)
		}
	}
	c.gate.Restore(p)
	c.log.Info("the credentials were refused before; one call tries them", "evidence", s.Evidence)
}
