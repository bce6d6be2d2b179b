package simulation

import (
	"context"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// client is one client as one lane of a daemon calls it, for as long as it has the lane.
type client struct {
	n    *node
	hold *jobs.Hold
	gate *ratelimit.Gate
	// heeded is the newest pause stored by others that the gate knows of.
	heeded  time.Time
	breaker *breaker.Breaker
	// heard is the moment when what others stored of the client was last read.
	heard int
	// asked is until when the client itself has asked this lane not to be called.
	asked time.Time
	// busy: the gate is waiting for the journal, and whoever asked it something would
	// wait with it.
	busy bool
}

// outages are the breakers' settings, short so that histories are.
var outages = breaker.Settings{Window: 10 * time.Second, MinCalls: 6, ConsecutiveFailures: 5, MinDistinct: 2, OpenFor: 5 * time.Second, ProbeTimeout: 20 * time.Second}

// open opens a client with the pause that is stored for it.
func (n *node) open(ctx context.Context, h *jobs.Hold) (*client, error) {
	heard := n.w.st.moment
	cs, err := n.journal.Clients(ctx)
	if err != nil {
		return nil, err
	}
	was := jobs.ClientState{Client: h.Client}
	for _, c := range cs {
		if c.Client == h.Client {
			was = c
		}
	}
	c := &client{n: n, hold: h, heard: heard, heeded: was.SeenAt}
	if c.gate, err = ratelimit.NewGate(h.Client, ratelimit.Settings{}, n.journal, n.journal.Now, n.w.st.r.Float64, nil); err != nil {
		return nil, err
	}
	c.breaker = breaker.New(h.Client, outages, func(_, to breaker.State, why breaker.Why) { c.keepBreaker(to, why) })
	switch {
	case !was.PausedUntil.After(n.journal.Now()):
	case was.Reason == ratelimit.ReasonBreaker:
		n.w.st.seen("a breaker is open at the start of a lane")
		c.breaker.Restore(true, was.PausedUntil, was.Evidence)
	default:
		n.w.st.seen("a client is paused at the start of a lane")
		c.gate.Restore(pauseOf(was))
	}
	return c, nil
}

// keepBreaker stores an opened breaker as the client's pause, as daemon does.
func (c *client) keepBreaker(to breaker.State, why breaker.Why) {
	p := ratelimit.Pause{Reason: ratelimit.ReasonBreaker}
	if to == breaker.Open {
		p = ratelimit.Pause{Until: why.Until, Reason: ratelimit.ReasonBreaker, Evidence: why.String(), Since: c.n.journal.Now()}
		c.n.w.st.seen("a breaker opens")
	}
	if to == breaker.HalfOpen || !c.isOpen() {
		return
	}
	store := func(ctx context.Context) { _ = c.n.journal.SavePause(ctx, c.hold.Client, p) } // it holds all the same
	if st := c.n.w.st; st.now != nil {
		store(st.somebody())
	} else { // the time for a probe was over
		st.act(c.n, c.n.name+" breaker", func(ctx context.Context, _ *actor) { store(ctx) })
	}
}

func (c *client) isOpen() bool { return c.gate.State(c.n.journal.Now()).Open }

// may asks the gate and then the lease whether a request may be sent.
func (c *client) may(ctx context.Context, what, key string) (connectors.Outcome, bool) {
	p, err := c.gate.Enter(ctx, ratelimit.Ask{})
	if err != nil {
		return connectors.Fail(connectors.Paused, "paused", "%s", err), false
	}
	p.Drop(true)
	if !c.hold.Valid() {
		return connectors.Fail(connectors.Paused, "lease", "the lease of the lane is over"), false
	}
	c.n.w.sent(c, what, key)
	return connectors.Outcome{}, true
}

// throttled closes the gate, as daemon does.
func (c *client) throttled(ctx context.Context, a *actor, o connectors.Outcome) {
	if o.Class != connectors.Throttled {
		return
	}
	for c.busy {
		a.sleep(20 * time.Millisecond)
	}
	if !c.isOpen() {
		return
	}
	a.st.seen("a client is paused by throttling")
	c.asked = time.Now().Add(o.RetryAfter)
	c.busy = true
	defer func() { c.busy = false }()
	c.gate.Refused(ctx, ratelimit.Signal{Throttled: true, RetryAfter: o.RetryAfter, HasRetryAfter: o.RetryAfter > 0, Evidence: "refused for quota"}, c.n.journal.Now())
}

// heed takes over what others have stored of a daemon's clients, as daemon does, when
// that was read at a moment.
func (n *node) heed(ctx context.Context, s *jobs.Survey, at int) {
	for _, l := range n.lanes {
		c := n.clients[l]
		if c == nil || c.busy {
			continue
		}
		for _, x := range s.Clients {
			if x.Client != l.Client || x.SeenAt.Equal(c.heeded) {
				continue
			}
			c.heeded = x.SeenAt
			c.busy = true
			switch split := x.Client == erp && n.shards > 1; {
			case split:
				_ = c.gate.Heed(ctx, pauseOf(x), x.SeenAt) // it holds all the same
			case x.Owner != n.name && x.Reason != ratelimit.ReasonBreaker:
				c.gate.Restore(pauseOf(x))
			}
			c.busy = false
			if x.Owner == n.w.beside.Owner() && c.isOpen() {
				c.asked = time.Time{} // a person's word ends any pause
			}
		}
		c.heard = at
	}
}

// pauseOf is what is stored of a client's pause.
func pauseOf(c jobs.ClientState) ratelimit.Pause {
	return ratelimit.Pause{Until: c.PausedUntil, Reason: c.Reason, Evidence: c.Evidence, Since: c.Since, Strikes: c.Strikes}
}

// verdict says what an outcome tells of the client, as daemon does.
func verdict(o connectors.Outcome) breaker.Verdict {
	if jobs.Interim(o) {
		return breaker.Ignore
	}
	switch o.Class {
	case connectors.Transient, connectors.Unknown:
		return breaker.Failure
	case connectors.Throttled, connectors.Paused, connectors.Auth, connectors.Waiting:
		return breaker.Ignore
	}
	return breaker.Success
}
