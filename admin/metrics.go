package admin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// Metrics counts what a daemon does. Its methods make it an observer of one.
type Metrics struct {
	registry *prometheus.Registry

	polls        *prometheus.CounterVec
	pollSeconds  *prometheus.HistogramVec
	events       *prometheus.CounterVec
	admitted     *prometheus.CounterVec
	claimed      *prometheus.CounterVec
	superseded   *prometheus.CounterVec
	expired      *prometheus.CounterVec
	attempts     *prometheus.CounterVec
	writeSeconds *prometheus.HistogramVec
	fenced       *prometheus.CounterVec
	pauses       *prometheus.CounterVec
	breakers     *prometheus.CounterVec
	notices      *prometheus.CounterVec

	mu     sync.Mutex
	paused map[pauseOf]ratelimit.Pause // the last that was counted
}

type pauseOf struct{ client, reason string }

// seconds are buckets from a few milliseconds to minutes.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// NewMetrics returns metrics on a registry of their own.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), paused: map[pauseOf]ratelimit.Pause{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.polls = counter("syncd_polls_total", "Pages asked of sources, by result: ok, or the class of the failure.", "flow", "result")
	m.pollSeconds = histogram("syncd_poll_duration_seconds", "Time a source needed to answer for a page.", "flow")
	m.events = counter("syncd_events_total", "Events pulled from streams.", "flow")
	m.admitted = counter("syncd_admitted_total", "What became of the records that events mapped to: new, changed, unchanged, older, gone, collided, rejected.", "flow", "result")
	m.claimed = counter("syncd_claimed_jobs_total", "Jobs claimed for writing.", "client")
	m.superseded = counter("syncd_superseded_jobs_total", "Jobs past their max_age whose present state the source was asked for.", "client")
	m.expired = counter("syncd_expired_jobs_total", "Jobs past their max_age that ended.", "client")
	m.attempts = counter("syncd_attempts_total", "Attempts at writes, by the class of their outcome.", "flow", "class")
	m.writeSeconds = histogram("syncd_attempt_duration_seconds", "Time an attempt took, references and all requests together.", "flow")
	m.fenced = counter("syncd_fenced_outcomes_total", "Outcomes that came after their claim had been taken back.", "flow")
	m.pauses = counter("syncd_client_pauses_total", "Pauses of clients, by reason.", "client", "reason")
	m.breakers = counter("syncd_client_breaker_changes_total", "Changes of clients' breakers, by the state they changed to.", "client", "state")
	m.notices = counter("syncd_notices_total", "Messages of notify, by the way they took and what became of them: sent, or failed after the last try.", "way", "result")
	for _, way := range []string{"command", "webhook"} {
		for _, result := range []string{"sent", "failed"} {
			m.notices.WithLabelValues(way, result)
		}
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "syncd_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": version}})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry is where the metrics are registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// CountLost adds a counter of log lines that could not be written, read from lost.
func (m *Metrics) CountLost(lost func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "syncd_lost_log_lines_total",
		Help: "Lines of the log that could not be written, because nobody reads it any more or its disk is full."},
		func() float64 { return float64(lost()) }))
}

// Expect makes the counters of flows and clients appear with 0. A counter that
// appears with its first event has no increase that an alert could see.
func (m *Metrics) Expect(flows, clients []string) {
	for _, f := range flows {
		for _, result := range []connectors.Class{resultOK, resultError, connectors.Transient, connectors.Throttled, connectors.Auth, connectors.Invalid} {
			m.polls.WithLabelValues(f, string(result))
		}
		m.events.WithLabelValues(f)
		for _, c := range results(jobs.Admitted{}) {
			m.admitted.WithLabelValues(f, c.result)
		}
		for _, c := range connectors.Classes() {
			m.attempts.WithLabelValues(f, string(c))
		}
		m.fenced.WithLabelValues(f)
	}
	for _, c := range clients {
		m.claimed.WithLabelValues(c)
		m.superseded.WithLabelValues(c)
		m.expired.WithLabelValues(c)
		for _, reason := range []string{ratelimit.ReasonThrottled, ratelimit.ReasonUnavailable, ratelimit.ReasonSuspended, ratelimit.ReasonBeyond} {
			m.pauses.WithLabelValues(c, reason)
		}
		for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
			m.breakers.WithLabelValues(c, s.String())
		}
	}
}

// Results of a poll beside the class of its failure.
const (
	resultOK    = "ok"
	resultError = "error"
)

// Pulled counts a page.
func (m *Metrics) Pulled(f *jobs.Flow, events int, took time.Duration, err error) {
	result := resultOK
	var e *connectors.Error
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.As(err, &e):
		result = string(e.Class)
	case err != nil:
		result = resultError
	}
	m.polls.WithLabelValues(f.Name, result).Inc()
	m.pollSeconds.WithLabelValues(f.Name).Observe(took.Seconds())
	m.events.WithLabelValues(f.Name).Add(float64(events))
}

// Admitted counts what became of a page's records.
func (m *Metrics) Admitted(f *jobs.Flow, a jobs.Admitted) {
	for _, c := range results(a) {
		m.admitted.WithLabelValues(f.Name, c.result).Add(float64(c.n))
	}
}

type resultCount struct {
	result string
	n      int
}

// results are what can become of a record, and how often it did.
func results(a jobs.Admitted) []resultCount {
	return []resultCount{{"new", a.New}, {"changed", a.Changed}, {"unchanged", a.Unchanged}, {"older", a.Older},
		{"gone", a.Gone}, {"collided", a.Collided}, {"rejected", a.Rejected}}
}

// Claimed counts claimed jobs.
func (m *Metrics) Claimed(client string, n, refreshed, expired int) {
	m.claimed.WithLabelValues(client).Add(float64(n))
	m.superseded.WithLabelValues(client).Add(float64(refreshed))
	m.expired.WithLabelValues(client).Add(float64(expired))
}

// Settled counts an attempt.
func (m *Metrics) Settled(f *jobs.Flow, s jobs.Settled, o connectors.Outcome, took time.Duration) {
	if s.Fenced {
		m.fenced.WithLabelValues(f.Name).Inc()
		return
	}
	m.attempts.WithLabelValues(f.Name, string(o.Class)).Inc()
	m.writeSeconds.WithLabelValues(f.Name).Observe(took.Seconds())
}

// Paused counts a pause.
func (m *Metrics) Paused(client string, p ratelimit.Pause) {
	if p.Reason == "" {
		return
	}
	// One that is lengthened by the answers to other calls under way is still the same.
	is := pauseOf{client, p.Reason}
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.paused[is]; ok && was.Since.Equal(p.Since) && was.Strikes == p.Strikes {
		return
	}
	m.paused[is] = p
	m.pauses.WithLabelValues(client, p.Reason).Inc()
}

// Ended, Suspended and Freed are told by gauges, which read where things stand.

// Ended implements the observer.
func (m *Metrics) Ended(string, jobs.Ended) {}

// Suspended implements the observer.
func (m *Metrics) Suspended(client, code string, since time.Time) {}

// Freed implements the observer.
func (m *Metrics) Freed(string, time.Time) {}

// Breaker counts a change of a breaker.
func (m *Metrics) Breaker(client, state, _ string) { m.breakers.WithLabelValues(client, state).Inc() }

// Noticed counts a message of notify: way is command or webhook, result sent or failed.
func (m *Metrics) Noticed(way, result string) { m.notices.WithLabelValues(way, result).Inc() }
