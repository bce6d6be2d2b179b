package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// reading notes in the journal how reading a flow's stream goes, so that status
// tells it beside the daemon and after it. It writes what is new: trouble when
// it begins, changes or ends, and that all is well once in jobs.ReadingNoted.
type reading struct {
	d    *Daemon
	flow string
	log  *slog.Logger

	noted time.Time // the newest good reading that is in the journal
	// told is the trouble that is in the journal; zero for none.
	told jobs.Failing
}

// well notes a good reading that brought nothing to admit.
func (r *reading) well(ctx context.Context, at time.Time) {
	if r.told == (jobs.Failing{}) && at.Sub(r.noted) < jobs.ReadingNoted {
		return
	}
	if err := r.d.journal.ReadWell(ctx, r.flow, at); err != nil {
		r.unstored(ctx, err)
		return
	}
	r.admitted(at)
}

// admitted says that a page was admitted, which notes a good reading too.
func (r *reading) admitted(at time.Time) { r.noted, r.told = at, jobs.Failing{} }

// failed notes a failure.
func (r *reading) failed(ctx context.Context, err error) {
	f := jobs.Failing{Message: err.Error()}
	var e *connectors.Error
	var je *jobs.Error
	switch {
	case errors.As(err, &je):
		f.Class, f.Code = connectors.Transient, "journal"
	case errors.As(err, &e):
		f = jobs.Failing{Class: e.Class, Code: e.Code, Message: e.Message}
	}
	f.Code, f.Message = r.d.opts.Redact(f.Code), r.d.opts.Redact(f.Message)
	if f == r.told {
		return
	}
	since := f
	since.Since = r.d.journal.Now()
	if err := r.d.journal.ReadFailed(ctx, r.flow, since); err != nil {
		r.unstored(ctx, err)
		return
	}
	r.told = f
}

func (r *reading) unstored(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.log.Debug("noting how reading goes failed", "error", err)
	}
}

// journalServes notes whether the journal takes what is read of a flow. It is kept
// in memory, since the journal is what may not be told it.
func (d *Daemon) journalServes(flow string, serves bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if serves {
		delete(d.refused, flow)
		return
	}
	d.refused[flow] = true
}

// Refused names the flows of which the journal did not take what was read last.
func (d *Daemon) Refused() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.refused))
}

// Rules are the journal's rules of the flows of the plan being run.
func (d *Daemon) Rules() map[string]*jobs.Flow {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return d.current.plan.JobFlows()
}

// Flows names the flows of the plan being run.
func (d *Daemon) Flows() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(d.current.plan.Flows))
}
