package daemon

import (
	"context"
	"errors"
	"time"

	"syncd/jobs"
)

// errandEvery is how often a client's owner looks for errands to it.
const errandEvery = 5 * time.Second

// errands works off what a person asked for that takes long: one small step after
// the other, and none while another is due.
func (d *Daemon) errands(soft context.Context, c *client, plan *Plan) {
	flows := plan.JobFlows()
	for soft.Err() == nil {
		wait := errandEvery
		rs, err := d.journal.Runs(soft, true, 100)
		if err != nil && soft.Err() == nil {
			d.log.Debug("reading the errands failed", "client", c.name, "error", err)
		}
		for _, r := range rs {
			if r.Client != c.name || flows[r.Flow] == nil || soft.Err() != nil {
				continue
			}
			wait = min(wait, d.step(soft, r, flows))
		}
		sleep(soft, wait)
	}
}

// step does the next step of an errand and returns how long the one after it has to
// wait: at least as long as this one took, so that half of the journal's time is
// left to others.
func (d *Daemon) step(ctx context.Context, r jobs.Run, flows map[string]*jobs.Flow) time.Duration {
	begun := time.Now()
	st, err := d.journal.StepRun(ctx, r.ID, flows)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			d.log.Warn("going on with an errand failed; tried again", "errand", r.ID, "kind", r.Kind, "flow", r.Flow, "error", err)
		}
		return errandEvery
	}
	if st.Run.ID != 0 && !st.Run.Open() {
		d.log.Info("an errand is done", "errand", r.ID, "kind", r.Kind, "flow", r.Flow, "message", st.Run.Message)
	}
	return max(st.Wait, time.Since(begun))
}
