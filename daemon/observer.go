package daemon

import (
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// Observer is told what a daemon does. Its methods are called from many
// goroutines and must return at once.
type Observer interface {
	// Pulled: a page was asked for. took is the time the source needed.
	Pulled(flow *jobs.Flow, events int, took time.Duration, err error)
	// Admitted: a page is in the journal.
	Admitted(flow *jobs.Flow, a jobs.Admitted)
	// Claimed: jobs were taken; some were too old to be sent.
	Claimed(client string, jobs, refreshed, expired int)
	// Settled: an attempt is over and committed.
	Settled(flow *jobs.Flow, s jobs.Settled, o connectors.Outcome, took time.Duration)
	// Paused: a client's gate closed.
	Paused(client string, p ratelimit.Pause)
	// Breaker: a client's breaker changed to a state.
	Breaker(client, state, why string)
	// Ended: jobs of a client became dead or held without an attempt of this daemon:
	// too old to be sent, or found after a crash.
	Ended(client string, e jobs.Ended)
	// Suspended: a client's credentials are refused since then. It is told with the
	// first refusal, and once more with the first after a start, a reload, or a change
	// of hands, since the one who was told of it may be gone.
	Suspended(client, code string, since time.Time)
	// Freed: credentials that had been refused since then are good again.
	Freed(client string, since time.Time)
}

// Silent is an Observer that ignores everything; embed it to watch only some.
type Silent struct{}

func (Silent) Pulled(*jobs.Flow, int, time.Duration, error)                        {}
func (Silent) Admitted(*jobs.Flow, jobs.Admitted)                                  {}
func (Silent) Claimed(string, int, int, int)                                       {}
func (Silent) Settled(*jobs.Flow, jobs.Settled, connectors.Outcome, time.Duration) {}
func (Silent) Paused(string, ratelimit.Pause)                                      {}
func (Silent) Breaker(client, state, why string)                                   {}
func (Silent) Ended(string, jobs.Ended)                                            {}
func (Silent) Suspended(client, code string, since time.Time)                      {}
func (Silent) Freed(string, time.Time)                                             {}

// Observers is several observers as one.
type Observers []Observer

func (os Observers) Pulled(f *jobs.Flow, n int, took time.Duration, err error) {
	for _, o := range os {
		o.Pulled(f, n, took, err)
	}
}
func (os Observers) Admitted(f *jobs.Flow, a jobs.Admitted) {
	for _, o := range os {
		o.Admitted(f, a)
	}
}
func (os Observers) Claimed(client string, n, refreshed, expired int) {
	for _, o := range os {
		o.Claimed(client, n, refreshed, expired)
	}
}
func (os Observers) Settled(f *jobs.Flow, s jobs.Settled, out connectors.Outcome, took time.Duration) {
	for _, o := range os {
		o.Settled(f, s, out, took)
	}
}
func (os Observers) Paused(client string, p ratelimit.Pause) {
	for _, o := range os {
		o.Paused(client, p)
	}
}
func (os Observers) Breaker(client, state, why string) {
	for _, o := range os {
		o.Breaker(client, state, why)
	}
}
func (os Observers) Ended(client string, e jobs.Ended) {
	for _, o := range os {
		o.Ended(client, e)
	}
}
func (os Observers) Suspended(client, code string, since time.Time) {
	for _, o := range os {
		o.Suspended(client, code, since)
	}
}
func (os Observers) Freed(client string, since time.Time) {
	for _, o := range os {
		o.Freed(client, since)
	}
}
