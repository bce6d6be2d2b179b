package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
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
	// Terms are those of the leases; zero for the usual ones.
	Terms jobs.Terms
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
	shown   map[jobs.LaneID]string

	// apart is by how much the journal's time is ahead of the server's that was heard
	// last, in nanoseconds.
	apart atomic.Int64
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
	if o.Terms == (jobs.Terms{}) {
		o.Terms = jobs.DefaultTerms()
	}
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	return &Daemon{journal: j, opts: o, log: o.Log, slice: slice, refused: map[string]bool{}}
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
// plan, new work begins under the new one. Other daemons may run the same plan on
// the same journal; each runs the lanes of which it has the lease.
func (d *Daemon) Run(ctx context.Context, plan *Plan, reload <-chan Reload) error {
	defer d.part()
	renewing, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(renewing)
		<-stopped
	}()
	go func() {
		d.renew(renewing)
		close(stopped)
	}()
	r, err := d.start(ctx, plan)
	if err != nil {
		return err
	}
	look := time.NewTimer(surveyEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), jobs.ErrLost) {
				r.cut() // nothing may be sent any more, and no outcome be stored
			}
			d.leave(ctx)
			d.stop(r, true)
			return nil
		case <-look.C:
			look.Reset(d.tend(ctx, r))
		case next := <-reload:
			d.stop(r, false)
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

// Clients tells the state of every client's gate and breaker, for status and metrics.
func (d *Daemon) Clients() []ClientStatus {
	d.mu.Lock()
	r := d.current
	d.mu.Unlock()
	if r == nil {
		return nil
	}
	var out []ClientStatus
	for _, t := range r.all() {
		out = append(out, t.status())
	}
	return out
}

// Running reports whether a plan is being run.
func (d *Daemon) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current != nil
}
