package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"syncd/jobs"
)

// Options of a daemon.
type Options struct {
	Log *slog.Logger
	// Observer is told what happens; nil for none.
	Observer Observer
	// Grace is how long writes under way may go on after a stop; 0 means 30 s.
	Grace time.Duration
	// UserAgent names syncd and its version to the platforms.
	UserAgent string
	// Redact cuts secrets out of a text before it is stored: a platform may repeat in
	// its refusal what it was sent. Nil stores texts as they are.
	Redact func(string) string
	// Conceal is told credentials that were fetched and stand in no configuration, for
	// Redact to cut out as well; nil for none.
	Conceal func(credential string)
}

// Daemon runs a plan over a journal.
type Daemon struct {
	journal *jobs.Journal
	opts    Options
	log     *slog.Logger
	slice   int // how many events are admitted at once; less in tests

	mu      sync.Mutex
	current *run
	refused map[string]bool // by flow: see Refused
}

// New returns a daemon that is not running yet.
func New(j *jobs.Journal, o Options) *Daemon {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = Silent{}
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	return &Daemon{journal: j, opts: o, log: o.Log, slice: slice, refused: map[string]bool{}}
}

// run is one plan being run.
type run struct {
	plan    *Plan
	clients map[string]*client
	pollers []*poller
	lanes   []*lane
	// soft ends pulling and claiming, hard ends writes under way.
	soft, hard context.CancelFunc
	wg         sync.WaitGroup
}

// Reload is a plan that takes the place of the one being run.
type Reload struct {
	Plan *Plan
	// Done, with room for one value, is told why the plan cannot be run, or nil once
	// it is being run. It may be nil.
	Done chan<- error
}

// Run runs plan until ctx ends, then lets writes under way finish for the
// grace time, unless ctx ends with jobs.ErrLost as its cause. Plans that come through
// reload take its place one after another: what is under way ends under the old
// plan, new work begins under the new one.
func (d *Daemon) Run(ctx context.Context, plan *Plan, reload <-chan Reload) error {
	r, err := d.start(ctx, plan)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), jobs.ErrLost) {
				r.hard() // nothing may be sent any more, and no outcome be stored
			}
			d.stop(r)
			return nil
		case next := <-reload:
			d.stop(r)
			r, err = d.start(ctx, next.Plan)
			if next.Done != nil {
				next.Done <- err
			}
			if err == nil {
				plan = next.Plan
				d.log.Info("running the new configuration", "clients", len(plan.Clients), "flows", len(plan.Flows))
				continue
			}
			d.log.Error("the new configuration cannot be run; going on with the old one", "error", err)
			if r, err = d.start(ctx, plan); err != nil {
				return err
			}
		}
	}
}

// start opens every client, takes back what an ended daemon left under way,
// and sets lanes and pollers going.
func (d *Daemon) start(ctx context.Context, plan *Plan) (*run, error) {
	// Writes under way outlive ctx by the grace time.
	hard, endHard := context.WithCancel(context.WithoutCancel(ctx))
	soft, endSoft := context.WithCancel(ctx)
	r := &run{plan: plan, clients: map[string]*client{}, soft: endSoft, hard: endHard}
	fail := func(err error) (*run, error) {
		endSoft()
		endHard()
		r.close(d.log)
		return nil, err
	}
	stored, err := d.journal.Clients(ctx)
	if err != nil {
		return fail(err)
	}
	for name, cp := range plan.Clients {
		c, err := d.open(hard, cp, stored, plan.BaseDir)
		if err != nil {
			return fail(fmt.Errorf("open client %s: %w", name, err))
		}
		r.clients[name] = c
	}
	for name := range r.clients {
		lost, err := d.journal.Recover(ctx, name, plan.targets(name))
		if err != nil {
			return fail(err)
		}
		if lost > 0 {
			d.log.Warn("found writes that an ended daemon left in doubt", "client", name, "jobs", lost)
		}
	}
	accepted, err := d.journal.Bind(ctx, plan.JobFlows())
	if err != nil {
		return fail(err)
	}
	for _, c := range accepted {
		for _, f := range c.Differences {
			d.log.Warn("the flow was changed, and the change is accepted", "flow", c.Flow, "field", f.Field, "was", f.Was, "is", f.Is)
		}
	}
	for name, c := range r.clients {
		flows := plan.targets(name)
		if len(flows) == 0 {
			continue
		}
		l, err := newLane(d, c, plan, flows)
		if err != nil {
			return fail(err)
		}
		r.lanes = append(r.lanes, l)
	}
	wake := func(target string) {
		for _, l := range r.lanes {
			if l.client.name == target {
				l.wake()
			}
		}
	}
	for name, c := range r.clients {
		fs := plan.sources(name)
		repeats := map[string]*repeat{}
		for _, f := range fs {
			repeats[f.Name] = &repeat{}
			r.pollers = append(r.pollers, newPoller(d, c, f, repeats[f.Name], wake))
		}
		if len(fs) > 0 {
			r.goes(func() { d.serveRequests(soft, c, plan, repeats, wake) })
		}
	}
	for _, l := range r.lanes {
		r.goes(func() { l.run(soft, hard) })
	}
	for _, p := range r.pollers {
		r.goes(func() { p.run(soft, hard) })
	}
	d.mu.Lock()
	d.current = r
	d.mu.Unlock()
	return r, nil
}

func (r *run) goes(f func()) {
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		f()
	}()
}

// stop ends a run: no new pulls and claims, writes under way finish within the
// grace time and are cut off after it.
func (d *Daemon) stop(r *run) {
	r.soft()
	done := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(done)
	}()
	t := time.NewTimer(d.opts.Grace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		d.log.Warn("writes under way did not finish in time and are cut off; they are found out about at the next start", "grace", d.opts.Grace)
		r.hard()
		<-done
	}
	r.hard()
	r.close(d.log)
	d.mu.Lock()
	d.current = nil
	d.mu.Unlock()
}

func (r *run) close(log *slog.Logger) {
	for _, c := range r.clients {
		c.gate.Close()
		if err := c.instance.Close(); err != nil && !errors.Is(err, context.Canceled) {
			log.Warn("closing a client failed", "client", c.name, "error", err)
		}
	}
}

// Clients tells the state of every client's gate and breaker, for status and metrics.
func (d *Daemon) Clients() []ClientStatus {
	d.mu.Lock()
	r := d.current
	d.mu.Unlock()
	if r == nil {
		return nil
	}
	out := make([]ClientStatus, 0, len(r.clients))
	for _, c := range r.clients {
		out = append(out, c.status(d.journal.Now()))
	}
	return out
}

// Running reports whether a plan is being run.
func (d *Daemon) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current != nil
}
