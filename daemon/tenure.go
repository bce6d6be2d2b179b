package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"syncd/connectors/httpx"
	"syncd/jobs"
	"syncd/ratelimit"
)

// tenure is the time for which this daemon runs a lane: from when it has the lease
// until nothing of it is under way any more.
type tenure struct {
	d      *Daemon
	hold   *jobs.Hold
	client *client
	lane   *lane // nil for a client that nothing is written to
	// asked and errands are those who answer requests to the client and who work off
	// errands of it; nil where nobody has to.
	asked, errands *rester
	// soft ends pulling and claiming, hard ends writes under way.
	soft, hard context.CancelFunc
	// runs is what goes on until the tenure ends.
	runs []func()
	wg   sync.WaitGroup
	done chan struct{} // closed when the tenure is over
	// heeded is the newest pause stored by others that the gate knows of.
	heeded time.Time
	// back is set while a hold on expiry is being ended.
	back atomic.Bool
}

// prepare makes a lane and the pollers of its client ready to go, under a lease
// whose earlier owner left nothing unsettled.
func (d *Daemon) prepare(ctx context.Context, r *run, h *jobs.Hold) (*tenure, error) {
	cp := r.plan.Clients[h.Client]
	if cp == nil {
		return nil, fmt.Errorf("client %s is not in the configuration", h.Client)
	}
	// Writes under way outlive ctx by the grace time.
	hard, endHard := context.WithCancel(context.WithoutCancel(ctx))
	soft, endSoft := context.WithCancel(ctx)
	t := &tenure{d: d, hold: h, soft: endSoft, hard: endHard, done: make(chan struct{})}
	fail := func(err error) (*tenure, error) {
		endSoft()
		endHard()
		t.close()
		return nil, err
	}
	stored, err := d.journal.Clients(ctx)
	if err != nil {
		return fail(err)
	}
	for _, s := range stored {
		if s.Client == h.Client {
			t.heeded = s.SeenAt
		}
	}
	if t.client, err = d.open(hard, cp.shard(h), h, stored, r.plan.BaseDir); err != nil {
		return fail(fmt.Errorf("open client %s: %w", h.Client, err))
	}
	if flows := r.plan.targets(h.Client); len(flows) > 0 {
		if t.lane, err = newLane(d, t.client, h.LaneID, flows); err != nil {
			return fail(err)
		}
		t.lane.lacking = r.lack(d.log)
		if err = d.journal.ProbeNow(ctx, flows); err != nil {
			return fail(err)
		}
		t.runs = append(t.runs, func() { t.lane.run(soft, hard) })
	}
	if h.Shard == 0 {
		t.read(soft, hard, r)
		t.errands = newRester()
		t.runs = append(t.runs, func() { d.workOff(soft, t.client, r.plan, t.errands) })
	}
	// One daemon is enough for it: whoever has the first lane.
	if lanes := r.plan.Lanes(); h.LaneID == lanes[0] {
		t.runs = append(t.runs, func() { d.prune(soft, h.LaneID, r.plan.Keep, r.plan.JobFlows()) })
	}
	return t, nil
}

// read makes the client's pollers ready, and what answers requests to it.
func (t *tenure) read(soft, hard context.Context, r *run) {
	fs := r.plan.sources(t.client.name)
	repeats := map[string]*repeat{}
	for _, f := range fs {
		repeats[f.Name] = &repeat{}
		p := newPoller(t.d, t.client, f, repeats[f.Name], r.wake)
		t.runs = append(t.runs, func() { p.run(soft, hard) })
	}
	if len(fs) > 0 {
		t.asked = newRester()
		t.runs = append(t.runs, func() { t.d.serveRequests(soft, t.client, r.plan, repeats, r.wake, t.asked) })
	}
}

// begin sets everything going.
func (t *tenure) begin() {
	for _, f := range t.runs {
		t.wg.Go(f)
	}
}

// watch ends everything at once when the lease is not this daemon's any more.
func (t *tenure) watch() {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-t.done
		stop()
	}()
	t.hold.Watch(ctx, func() {
		select {
		case <-t.done:
			return // it was given back
		default:
		}
		t.d.log.Error("the lease of a client could not be renewed in time; its writes under way are cut off and are found out about by its next owner", "client", t.hold.LaneID.String())
		t.hard()
		t.soft()
	})
}

// end ends the tenure: no new pulls and claims, writes under way finish within
// the grace time and are cut off after it.
func (t *tenure) end() {
	t.soft()
	done := make(chan struct{})
	go func() {
		t.wg.Wait()
		close(done)
	}()
	grace := time.NewTimer(t.d.opts.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		t.d.log.Warn("writes under way did not finish in time and are cut off; they are found out about before anything is sent again", "client", t.hold.LaneID.String(), "grace", t.d.opts.Grace)
		t.hard()
		<-done
	}
	t.hard()
	t.close()
	close(t.done)
}

func (t *tenure) close() {
	if t.client == nil {
		return
	}
	t.client.gate.Close()
	if err := t.client.safely("closing the client", t.client.instance.Close); err != nil && !errors.Is(err, context.Canceled) {
		t.d.log.Warn("closing a client failed", "client", t.client.name, "error", err)
	}
}

// heed takes over a pause that somebody else stored for the client: another of its
// lanes, or a person.
func (t *tenure) heed(ctx context.Context, s jobs.ClientState, me string) {
	split := t.client.plan.Shards > 1                        // then this daemon may run several lanes of the client
	if s.Owner == me && !split || s.SeenAt.Equal(t.heeded) { // not by which is later: a clock may go back
		return
	}
	t.heeded = s.SeenAt
	p := ratelimit.Pause{Until: s.PausedUntil, Reason: s.Reason, Evidence: s.Evidence, Since: s.Since, Strikes: s.Strikes}
	switch {
	case p.Reason == ratelimit.ReasonAnew:
		t.client.gate.Forget(p.Evidence)
		return
	case split:
		_ = t.client.gate.Heed(ctx, p, s.SeenAt) // the gate logs it
	case s.Reason != ratelimit.ReasonBreaker:
		t.client.gate.Restore(p)
	}
	t.wished(p)
}

// wished does what else follows when a person has paused the client, or ended its pause:
// then it is to be tried at once, also where its breaker is open.
func (t *tenure) wished(p ratelimit.Pause) {
	active := p.Active(t.d.journal.Now())
	switch {
	case p.Reason == ratelimit.ReasonOperator && active:
		t.client.log.Warn("a person has paused the client; nothing is sent, and its jobs keep their attempts", "until", p.Until, "evidence", p.Evidence)
	case p.Reason == ratelimit.ReasonOperator:
		t.client.log.Info("a person has ended the pause of the client", "evidence", p.Evidence)
		t.client.breaker.Probe()
	case p.Reason == ratelimit.ReasonSuspended && !active:
		t.client.breaker.Probe()
	}
}

// shard is the part of a client that one of its lanes may use.
func (c *ClientPlan) shard(h *jobs.Hold) *ClientPlan {
	if c.Shards <= 1 {
		return c
	}
	part := *c
	if c.Gate.Rate > 0 {
		part.Gate.Rate = max(c.Gate.Rate/float64(c.Shards), ratelimit.MinRate)
	}
	part.Gate.Burst = share(c.Gate.Burst, c.Shards, h.Shard)
	part.Concurrency = max(1, share(c.Concurrency, c.Shards, h.Shard))
	return &part
}

// share is what the i-th of n gets of a whole.
func share(whole, n, i int) int {
	part := whole / n
	if i < whole%n {
		part++
	}
	return part
}

// leased is a client's gate that lets nothing out once the lane may be another
// daemon's.
type leased struct {
	httpx.Gate
	client string
	hold   *jobs.Hold
	now    func() time.Time
	// patience is how long a call may wait for its turn until the pace of the client is what
	// an attempt's time was used up by, and not the target.
	patience time.Duration
}

// Enter implements httpx.Gate. The lease is looked at last, as close to the first
// byte as can be. A call whose turn does not come within the time of its attempt is one
// that a pause lets not out: the record is not to blame for it.
func (g leased) Enter(ctx context.Context, a ratelimit.Ask) (ratelimit.Pass, error) {
	asked := time.Now()
	p, err := g.Gate.Enter(ctx, a)
	if waited := time.Since(asked); errors.Is(err, context.DeadlineExceeded) && waited > 0 && waited >= g.patience {
		return nil, &ratelimit.PausedError{Client: g.client, Pause: ratelimit.Pause{Until: g.now(), Reason: reasonTurn,
			Evidence: "its rate or its quota let no call out for " + waited.Round(time.Second).String()}}
	}
	if err != nil {
		return nil, err
	}
	if g.hold.Valid() {
		return measured(ctx, p), nil
	}
	p.Drop(false)
	return nil, &ratelimit.PausedError{Client: g.client, Pause: ratelimit.Pause{Until: g.now(), Reason: reasonLease, Evidence: "the lease of its lane is over"}}
}

// reasonLease is why a lane sends nothing that it has begun.
const reasonLease = "lease"

// reasonTurn is why an attempt ends whose call waits too long for its turn.
const reasonTurn = "turn"
