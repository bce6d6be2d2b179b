package main

import (
	"context"
	"os"
	"time"

	"syncd/admin"
	"syncd/breaker"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
	"syncd/notify"
	"syncd/ratelimit"
)

// teller hands on to the notifier what the daemon does that people are to be told of.
type teller struct {
	daemon.Silent
	tell func(notify.Happening)
}

// Settled tells of jobs that need a person, and of flows that are suspended or go on.
func (t teller) Settled(f *jobs.Flow, s jobs.Settled, o connectors.Outcome, _ time.Duration) {
	if s.Fenced {
		return
	}
	ended := notify.Happening{Client: f.Client, Flow: s.Flow, Class: string(o.Class), Code: o.Code, Count: 1}
	switch s.State {
	case jobs.Held:
		ended.Event = notify.Held
		t.tell(ended)
	case jobs.Dead:
		ended.Event = notify.Dead
		t.tell(ended)
	}
	switch {
	case s.Suspended.Is():
		t.tell(notify.Happening{Event: notify.Suspended, Client: f.Client, Flow: s.Flow, Class: string(connectors.Invalid), Code: s.Suspended.Code, Count: 1, Since: s.Suspended.Since})
	case s.Freed.Is():
		t.tell(notify.Happening{Event: notify.Suspended, Over: true, Client: f.Client, Flow: s.Flow, Count: 1, Since: s.Freed.Since})
	}
}

// Admitted tells of events that cannot be mapped.
func (t teller) Admitted(f *jobs.Flow, a jobs.Admitted) {
	if a.Rejected > 0 {
		t.tell(notify.Happening{Event: notify.Dead, Client: f.Client, Flow: f.Name, Class: string(connectors.Invalid), Code: "mapping", Count: a.Rejected})
	}
}

// Ended tells of jobs that were too old, or were found after a crash.
func (t teller) Ended(client string, e jobs.Ended) {
	for as, n := range e {
		event := notify.Dead
		if as.State == jobs.Held {
			event = notify.Held
		}
		t.tell(notify.Happening{Event: event, Client: client, Flow: as.Flow, Class: string(as.Class), Code: as.Code, Count: n})
	}
}

// Suspended tells of credentials that are refused.
func (t teller) Suspended(client, code string, since time.Time) {
	t.tell(notify.Happening{Event: notify.Suspended, Client: client, Class: string(connectors.Auth), Code: code, Count: 1, Since: since})
}

// Freed tells of credentials that are good again.
func (t teller) Freed(client string, since time.Time) {
	t.tell(notify.Happening{Event: notify.Suspended, Over: true, Client: client, Count: 1, Since: since})
}

// newNotifier makes a notifier that looks at the daemon's clients, once there is one.
func (s *service) newNotifier(j *jobs.Journal, m *admin.Metrics) *notify.Notifier {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return notify.New(notify.Options{Daemon: host, Version: version(), Log: s.log, Now: j.Now, Done: m.Noticed,
		Clients: func() []notify.Client { return pausedNow(s.daemon.Clients(), j.Now()) }})
}

// notifying begins to tell people; what it returns ends that.
func (s *service) notifying() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.notifier.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// pausedNow says where clients stand at a moment of the journal's time. An open breaker
// is a pause, too; while it probes it counts as open, until a probe is answered.
func pausedNow(cs []daemon.ClientStatus, now time.Time) []notify.Client {
	var out []notify.Client
	for _, c := range cs {
		nc := notify.Client{Name: c.Client, Unproved: c.Gate.Strikes > 0}
		switch {
		case !c.Suspended.IsZero():
			nc.Reason, nc.Since = ratelimit.ReasonSuspended, c.Suspended
		case !c.Gate.Open:
			nc.Reason, nc.Since, nc.Until = c.Gate.Pause.Reason, c.Gate.Pause.Since, c.Gate.Pause.Until
		case c.Breaker.State != breaker.Closed:
			// Breakers go by the machine's clock, pauses by the journal's.
			nc.Reason, nc.Since = ratelimit.ReasonBreaker, now.Add(-time.Since(c.Breaker.Since))
		}
		out = append(out, nc)
	}
	return out
}
