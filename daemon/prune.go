package daemon

import (
	"context"
	"time"

	"syncd/jobs"
)

const (
	// pruneEvery is how long after one pass over the journal the next one begins.
	pruneEvery = 6 * time.Hour
	// pruneShare is which part of the time removing may take: a step is followed by a
	// pause of so many times what it took.
	pruneShare = 20
	// pruneAgain is how long after a failed step it is tried again.
	pruneAgain = time.Minute
)

// prune removes what the journal keeps no longer, in small steps that leave the
// journal to others most of the time.
func (d *Daemon) prune(soft context.Context, lane jobs.LaneID, keep jobs.Retention, flows map[string]*jobs.Flow) {
	if keep == (jobs.Retention{}) {
		return
	}
	for soft.Err() == nil {
		var sum jobs.Pruned
		pass := d.journal.Prune(lane, keep, flows)
		for over := false; !over && soft.Err() == nil; {
			begun := time.Now()
			n, last, err := pass.Step(soft)
			if err != nil {
				if soft.Err() == nil {
					d.log.Debug("removing what is kept no longer failed; tried again", "error", err)
				}
				sleep(soft, pruneAgain)
				continue
			}
			sum.Add(n)
			over = last
			sleep(soft, max(10*time.Millisecond, pruneShare*time.Since(begun)))
		}
		if sum.Any() {
			d.log.Info("removed what is kept no longer", "attempts", sum.Attempts, "bodies", sum.Bodies, "dead_letters", sum.Dead, "errands", sum.Errands)
		}
		sleep(soft, pruneEvery)
	}
}
