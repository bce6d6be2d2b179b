package daemon

import (
	"context"
	"errors"
	"time"

	"syncd/jobs"
)

// errandAgain is how long an errand waits whose step failed.
const errandAgain = 5 * time.Second

// workOff works off what a person asked for that takes long: one small step after
// the other, and none while another is due. When none is open it rests.
func (d *Daemon) workOff(soft context.Context, c *client, plan *Plan, rests *rester) {
	flows := plan.JobFlows()
	for soft.Err() == nil {
		wait := longestIdle
		rs, err := d.journal.Runs(soft, true, 1000)
		if err != nil && soft.Err() == nil {
			d.log.Debug("reading the errands failed", "client", c.name, "error", err)
		}
		for _, r := range rs {
			if r.Client != c.name || flows[r.Flow] == nil || soft.Err() != nil {
				continue
			}
			wait = min(wait, d.step(soft, r, flows))
		}
		if wait == longestIdle && err == nil {
			rests.idle(soft, wait) // one that is opened is found by run.look
		} else {
			sleep(soft, min(wait, errandAgain))
		}
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
		return errandAgain
	}
	if st.Run.ID != 0 && !st.Run.Open() {
		d.log.Info("an errand is done", "errand", r.ID, "kind", r.Kind, "flow", r.Flow, "message", st.Run.Message)
	}
	return max(st.Wait, time.Since(begun))
}
