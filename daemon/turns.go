package daemon

import (
	"context"
	"time"

	"syncd/jobs"
)

// What turns for a flow or a client as a whole is told here, once, by the daemon
// that met it: a flow that is suspended or goes on, expiry that is held or resumed.

// clockApart is how far the journal's time and a server's may lie apart before the
// journal's is doubted.
const clockApart = 10 * time.Minute

// heard notes how far the journal's time was from a server's when it answered.
func (d *Daemon) heard(observed, server time.Time) {
	if !server.IsZero() {
		d.apart.Store(int64(observed.Sub(server)))
	}
}

// clockDoubted reports whether the server that was heard last tells another time
// than the journal.
func (d *Daemon) clockDoubted() bool {
	apart := time.Duration(d.apart.Load())
	return apart > clockApart || apart < -clockApart
}

// turned tells what a group of outcomes meant for its flows.
func (l *lane) turned(o jobs.Settled) {
	switch {
	case o.Suspended.Is():
		l.log.Error("the flow is suspended: mend the cause at the target or in the flow; its jobs stay ready and keep their attempts, and one at a time is tried",
			"flow", o.Flow, "code", o.Suspended.Code, "message", o.Suspended.Message, "next", o.Suspended.Until.Format(time.RFC3339))
	case o.Freed.Is():
		l.log.Info("the flow goes on: a job of it was written", "flow", o.Flow, "suspended since", o.Freed.Since.Format(time.RFC3339))
		l.mu.Lock()
		l.freed = append(l.freed, o)
		l.mu.Unlock()
		l.wake()
	}
}

// goOn brings the jobs back that were put off while their flows were suspended.
func (l *lane) goOn(ctx context.Context) {
	l.mu.Lock()
	freed := l.freed
	l.freed = nil
	l.mu.Unlock()
	for _, o := range freed {
		if err := l.d.journal.AfterSuspension(ctx, o.Flow, o.Freed); err != nil && ctx.Err() == nil {
			l.log.Warn("jobs that were put off are due some minutes later than they could be", "flow", o.Flow, "error", err)
		}
	}
}

// expiry tells when a claim held what would expire, or ended that.
func (l *lane) expiry(ctx context.Context, got jobs.Claimed) {
	if s := got.ExpiryHeld; s.Is() {
		l.log.Error("nothing expires any more: look at the clock, then let it with: syncd expiry resume "+l.id.Client+"; what is too old is not sent meanwhile",
			"message", s.Message, "until", s.Until.Format(time.RFC3339))
	}
	s := got.ExpiryEnded
	if !s.Is() {
		return
	}
	l.log.Warn("what is too old expires again", "held since", s.Since.Format(time.RFC3339))
	if err := l.d.journal.AfterHold(ctx, l.id.Client, s, l.flows); err != nil && ctx.Err() == nil {
		l.log.Warn("jobs that were put off are due some minutes later than they could be", "error", err)
	}
}

// clockBack ends a hold on expiry that a clock had brought about which is right
// again: nothing over-aged may be left to be met by a claim, and what was put off is
// due far in the future.
func (t *tenure) clockBack(r *run, s jobs.ClientState) {
	if t.lane == nil || !s.ExpiryHeld.Is() || !s.ExpiryHeld.Since.After(t.d.journal.Now()) {
		return
	}
	if !t.back.CompareAndSwap(false, true) {
		return
	}
	r.wg.Go(func() {
		defer t.back.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), ownTime)
		defer cancel()
		held, err := t.d.journal.ResumeExpiry(ctx, s.Client, t.lane.flows)
		switch {
		case err != nil:
			t.d.log.Warn("ending the hold on expiry failed; tried again", "client", s.Client, "error", err)
		case err == nil && held.Is():
			t.d.log.Warn("the clock has gone back, and what is too old by it expires again", "client", s.Client, "held since", held.Since.Format(time.RFC3339))
		}
	})
}
