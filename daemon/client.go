package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// client is one open client with its gate and breaker.
type client struct {
	name     string
	plan     *ClientPlan
	instance connectors.Instance
	source   connectors.Source
	target   connectors.Target
	gate     *ratelimit.Gate
	breaker  *breaker.Breaker
	observer Observer
	log      *slog.Logger
	now      func() time.Time
	redact   func(string) string
	probation

	// served is when the client last proved to be alive, in Unix microseconds of the
	// journal's time, with which it is compared; 0 never.
	served   atomic.Int64
	inFlight atomic.Int64
	budget   budget
}

// errClosed says that a client may not be called now: its breaker is open, or its
// credentials are being tried by one call.
var errClosed = errors.New("the client may not be called now")

// open opens a client as planned, with the pause that was stored for it. Nothing is
// sent through it unless hold is valid.
func (d *Daemon) open(ctx context.Context, cp *ClientPlan, hold *jobs.Hold, stored []jobs.ClientState, baseDir string) (*client, error) {
	c := &client{name: cp.Name, plan: cp, observer: d.opts.Observer, log: d.log.With("client", cp.Name), now: d.journal.Now, redact: d.opts.Redact}
	gate, err := ratelimit.NewGate(cp.Name, cp.Gate, watched{d.journal, d.opts.Observer}, d.journal.Now, nil, d.log)
	if err != nil {
		return nil, err
	}
	c.gate = gate
	if hold != nil {
		d.recall(ctx, gate, hold.LaneID, stored)
	}
	c.breaker = breaker.New(cp.Name, cp.Breaker, func(_, to breaker.State, why breaker.Why) {
		level := slog.LevelInfo
		if to == breaker.Open {
			level = slog.LevelWarn
		}
		d.log.Log(context.Background(), level, "breaker changed", "client", cp.Name, "state", to.String(), "why", why.String())
		d.opts.Observer.Breaker(cp.Name, to.String(), why.String())
		c.keepBreaker(d.journal, to, why)
	})
	for _, s := range stored {
		switch {
		case s.Client != cp.Name:
		case s.Reason == ratelimit.ReasonSuspended:
			c.retry(ctx, d.journal, s)
		case !s.PausedUntil.After(d.journal.Now()):
		case s.Reason == ratelimit.ReasonBreaker:
			c.breaker.Restore(true, s.PausedUntil, s.Evidence)
		default:
			gate.Restore(ratelimit.Pause{Until: s.PausedUntil, Reason: s.Reason, Evidence: s.Evidence, Since: s.Since, Strikes: s.Strikes})
			if err = c.beneath(ctx, d.journal, s); err != nil {
				gate.Close()
				return nil, err
			}
		}
	}
	err = c.safely("opening the client", func() (err error) {
		c.instance, err = cp.Settings.Open(ctx, connectors.Env{Client: cp.Name, Gate: leased{gate, cp.Name, hold, d.journal.Now, cp.Timeout / 2}, Conceal: d.opts.Conceal, Timeout: cp.Timeout,
			Concurrency: cp.Concurrency, BaseDir: baseDir, Log: c.log, Now: d.journal.Now, UserAgent: d.opts.UserAgent})
		return err
	})
	if err != nil {
		gate.Close()
		return nil, err
	}
	c.source, c.target = c.instance.Source(), c.instance.Target()
	return c, nil
}

// beneath takes over what a person has paused the client over: credentials that were refused, or an open breaker. Either has one call try.
func (c *client) beneath(ctx context.Context, j *jobs.Journal, s jobs.ClientState) error {
	if s.Reason != ratelimit.ReasonOperator {
		return nil
	}
	over, err := j.PausedOver(ctx, s.Client)
	switch over.Reason {
	case ratelimit.ReasonBreaker:
		c.breaker.Restore(true, over.Until, over.Evidence)
	case ratelimit.ReasonSuspended:
		if c.probation.since = over.Since; over.Since.IsZero() {
			c.probation.since = s.Since
		}
		c.probation.on = !c.probation.since.IsZero()
	}
	return err
}

// keepBreaker stores an opened breaker as the client's pause, so that status and
// explain show it and a restart begins with the probe, and takes it back when it
// closes. A pause of the gate is left in place: it says more.
func (c *client) keepBreaker(j *jobs.Journal, to breaker.State, why breaker.Why) {
	p := ratelimit.Pause{Reason: ratelimit.ReasonBreaker}
	if to == breaker.Open {
		p.Until, p.Evidence, p.Since = why.Until, why.String(), c.now()
	}
	if to == breaker.HalfOpen || !c.gate.State(c.now()).Open {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := j.SavePause(ctx, c.name, p); err != nil {
		c.log.Warn("storing the breaker's state failed", "error", err)
	}
}

// watched is the journal as the store of pauses, with an observer beside it.
type watched struct {
	j *jobs.Journal
	o Observer
}

func (w watched) SavePause(ctx context.Context, client string, p ratelimit.Pause) error {
	w.o.Paused(client, p)
	return w.j.SavePause(ctx, client, p)
}

// NotePause implements ratelimit.Noter.
func (w watched) NotePause(ctx context.Context, client string, p ratelimit.Pause) error {
	return w.j.NotePause(ctx, client, p)
}

// open waits until the client's gate is open, nobody else tries its credentials,
// and its breaker may let something through: it is not open, and no probe is under way.
func (c *client) open(ctx context.Context) error {
	for {
		now := c.now()
		changed := c.gate.Changed()
		st := c.gate.State(now)
		if !st.Open {
			if err := wait(ctx, st.Pause.Until.Sub(now), changed); err != nil {
				return err
			}
			continue
		}
		over := c.tried()
		if over == nil {
			break
		}
		if err := wait(ctx, time.Minute, over); err != nil {
			return err
		}
	}
	for s := c.breaker.State(); s.State == breaker.Open || s.Probing; s = c.breaker.State() {
		d := min(time.Until(s.Until), time.Second) // a person may have the probe made sooner
		if s.Probing {
			d = probeLook
		}
		if err := wait(ctx, d, nil); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// probeLook is how often is looked whether a probe is over.
const probeLook = 100 * time.Millisecond

// wait sleeps for d, at most a minute, or until changed is closed.
func wait(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	t := time.NewTimer(max(min(d, time.Minute), 0))
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// read makes one call that asks the client for something, under its breaker. An
// answer, also one that refuses, proves that the client is alive. records names
// the records that it is about, none for a page.
func (c *client) read(ctx context.Context, fn func(context.Context) error, records ...string) (err error) {
	// A probe has a deadline, and what waits for the client's pace is not the client's fault.
	if c.breaker.State().State != breaker.Closed {
		if err := c.gate.Ready(ctx, ratelimit.Ask{Kind: ratelimit.Reading}); err != nil {
			return fmt.Errorf("%w: %w", errClosed, err)
		}
	}
	try, err := c.try()
	if err != nil {
		return err
	}
	defer try.end()
	call, err := c.breaker.Allow()
	if err != nil {
		return fmt.Errorf("%w: %w", errClosed, err)
	}
	res := breaker.Result{Verdict: breaker.Failure, Records: records, Err: "panic"}
	defer func() { call.Done(res) }()
	limited, m := c.metered(ctx)
	err = c.safely("reading", func() error { return fn(limited) })
	try.answer(ctx, outcomeOf(err))
	res = breaker.Result{Verdict: verdictOf(err), Records: records, Took: m.took()}
	if err != nil {
		res.Err = err.Error()
	}
	if res.Verdict == breaker.Success {
		c.lives()
	}
	return err
}

// safely has the connector do something that writes nothing. A panic in it fails
// that alone.
func (c *client) safely(what string, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error(what+" panicked", "panic", c.redact(fmt.Sprint(r)), "stack", string(debug.Stack()))
			err = connectors.Errorf(connectors.Transient, "panic", "syncd failed while %s; see its log", what)
		}
	}()
	return fn()
}

// outcomeOf is what an error says of the call; a call without one was answered well.
func outcomeOf(err error) connectors.Outcome {
	var e *connectors.Error
	switch {
	case err == nil:
		return connectors.Outcome{Class: connectors.Unchanged}
	case errors.As(err, &e):
		return e.Outcome
	default:
		return connectors.Outcome{}
	}
}

func verdictOf(err error) breaker.Verdict {
	var e *connectors.Error
	switch {
	case err == nil:
		return breaker.Success
	case errors.As(err, &e):
		return verdict(e.Outcome)
	default:
		return breaker.Ignore
	}
}

// verdict says what an outcome tells of its client: a refusal is a living
// client, throttling is the pause's business, and a write that we cut off
// ourselves is nobody's failure.
func verdict(o connectors.Outcome) breaker.Verdict {
	if o.Code == "canceled" || jobs.Interim(o) {
		return breaker.Ignore
	}
	switch o.Class {
	case connectors.Transient, connectors.Unknown:
		return breaker.Failure
	case connectors.Throttled, connectors.Paused, connectors.Auth, connectors.Waiting:
		return breaker.Ignore
	default:
		return breaker.Success
	}
}

func (c *client) lives() { c.served.Store(c.now().UnixMicro()) }

// lastServed is when the client last proved to be alive.
func (c *client) lastServed() time.Time {
	us := c.served.Load()
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// throttled closes the gate after a refusal for quota that came in a form that
// only the connector understood.
func (c *client) throttled(ctx context.Context, o connectors.Outcome) {
	now := c.now()
	if !c.learns(now) {
		return
	}
	c.gate.Refused(ctx, ratelimit.Signal{Throttled: true, RetryAfter: o.RetryAfter, HasRetryAfter: o.RetryAfter > 0,
		Evidence: "refused for quota: " + o.Code}, now)
}

// learns reports whether the gate has something to learn of a refusal: it is open, or
// closed by a person, who is told of it when that pause is ended.
func (c *client) learns(now time.Time) bool {
	st := c.gate.State(now)
	return st.Open || st.Pause.Reason == ratelimit.ReasonOperator
}

// ClientStatus is a client's gate and breaker at a moment.
type ClientStatus struct {
	Client   string
	Lane     jobs.LaneID
	Gate     ratelimit.State
	Breaker  breaker.Snapshot
	InFlight int
	Served   time.Time
	// Budget is what is left for retries, from 0 to 1.
	Budget float64
	// Suspended is since when the client's credentials are refused, until a call with
	// them is answered; zero while they are good. UTC.
	Suspended time.Time
}

func (c *client) status(now time.Time) ClientStatus {
	return ClientStatus{Client: c.name, Gate: c.gate.State(now), Breaker: c.breaker.State(),
		InFlight: int(c.inFlight.Load()), Served: c.lastServed(), Suspended: c.refusedSince(), Budget: c.budget.state()}
}
