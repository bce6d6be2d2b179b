package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"syncd/jobs"
)

// Client is a client's gate and breaker at a moment.
type Client struct {
	Name string
	// Paused says why calls are stopped; "" when they are not.
	Paused string
	// PausedSince and PausedUntil are zero when they are not.
	PausedSince, PausedUntil time.Time
	// SuspendedSince is since when the client's credentials are refused, until a call
	// with them is answered; zero while they are good. It stays while one call tries them.
	SuspendedSince time.Time
	// Breaker is closed, open or half-open.
	Breaker string
	// InFlight counts jobs under way, Waiting calls that wait for their turn at the pace.
	InFlight, Waiting int
	// Quotas are those that the server tells of, and Learned the rate, in calls per second, that was learned from refusals; 0 for none.
	Quotas  []Quota
	Learned float64
	// Budget is what is left for retries, from 0 to 1. Unread counts headers about limits that made no sense, since the client is run.
	Budget float64
	Unread uint64
}

// Quota is what a server tells of one of its quotas, in calls or in its own unit.
type Quota struct {
	// Scope tells it from others; "" where there is one.
	Scope string
	// Limit is 0 when it is not known.
	Limit, Left float64
}

// joined is one entry a client. Of a client that is split, a daemon may run several
// lanes, and two samples of one name would spoil the whole scrape: what counts is the
// longest pause, the oldest suspension, the worst breaker, and the least budget, and the sums of what is counted.
func joined(lanes []Client) []Client {
	worse := []string{"closed", "half-open", "open"}
	var out []Client
	for _, l := range lanes {
		i := slices.IndexFunc(out, func(c Client) bool { return c.Name == l.Name })
		if i < 0 {
			l.Quotas = tightest(nil, l.Quotas)
			out = append(out, l)
			continue
		}
		c := &out[i]
		if l.Paused != "" && (c.Paused == "" || l.PausedUntil.After(c.PausedUntil)) {
			c.Paused, c.PausedSince, c.PausedUntil = l.Paused, l.PausedSince, l.PausedUntil
		}
		if !l.SuspendedSince.IsZero() && (c.SuspendedSince.IsZero() || l.SuspendedSince.Before(c.SuspendedSince)) {
			c.SuspendedSince = l.SuspendedSince
		}
		if slices.Index(worse, l.Breaker) > slices.Index(worse, c.Breaker) {
			c.Breaker = l.Breaker
		}
		c.InFlight += l.InFlight
		c.Waiting += l.Waiting
		c.Learned += l.Learned
		c.Budget = min(c.Budget, l.Budget)
		c.Unread += l.Unread
		c.Quotas = tightest(c.Quotas, l.Quotas)
	}
	return out
}

// tightest is one entry a scope, that of which least is left.
func tightest(a, b []Quota) []Quota {
	out := slices.Clone(a)
	for _, q := range b {
		i := slices.IndexFunc(out, func(o Quota) bool { return o.Scope == q.Scope })
		switch {
		case i < 0:
			out = append(out, q)
		case q.Left < out[i].Left:
			out[i] = q
		}
	}
	return out
}

// State is what gauges are read from at each scrape.
type State struct {
	Journal interface {
		Overview(ctx context.Context) (jobs.Overview, error)
	}
	// Clients are those of which this daemon runs a lane, an entry for each lane.
	Clients func() []Client
	// Ready says, as /readyz does, why the daemon cannot do its work; nil leaves that out.
	Ready func(ctx context.Context) error
	// Flows names the flows that are read; nil for all that the journal knows.
	Flows func() []string
	// Rules are the rules of the flows that run; nil leaves out the ages of jobs.
	Rules func() map[string]*jobs.Flow
}

// reads reports whether a flow is read.
func (s State) reads(flow string) bool { return s.Flows == nil || slices.Contains(s.Flows(), flow) }

// gauges reads the journal at a scrape, at most once in a few seconds.
type gauges struct {
	state State

	mu   sync.Mutex
	at   time.Time
	last jobs.Overview
	err  error
}

// fresh is how long one reading of the journal serves scrapes.
const fresh = 5 * time.Second

var (
	jobsDesc       = prometheus.NewDesc("syncd_jobs", "Rows of the journal by state and reason.", []string{"flow", "state", "reason"}, nil)
	dueDesc        = prometheus.NewDesc("syncd_due_jobs", "Open jobs that are due now.", []string{"flow"}, nil)
	ageDesc        = prometheus.NewDesc("syncd_oldest_open_job_age_seconds", "Age of the oldest change that is not in the target yet.", []string{"flow"}, nil)
	dueAgeDesc     = prometheus.NewDesc("syncd_jobs_due_age_seconds", "How long the job has been due that is due longest and could be written; 0 for none.", []string{"flow"}, nil)
	withheldDesc   = prometheus.NewDesc("syncd_jobs_withheld_age_seconds", "How long the oldest job has been open of those that are withheld, by what withholds them.", []string{"flow", "reason"}, nil)
	fullDesc       = prometheus.NewDesc("syncd_flow_full_since_timestamp_seconds", "Since when the flow is not read because too much is open or the disk is low; 0 while it is.", []string{"flow"}, nil)
	suspendedDesc  = prometheus.NewDesc("syncd_flow_suspended_since_timestamp_seconds", "Since when the flow is suspended because its target refuses record after record; 0 while it is not.", []string{"flow"}, nil)
	expiryDesc     = prometheus.NewDesc("syncd_client_expiry_held_since_timestamp_seconds", "Since when nothing that is written to the client expires, because too much did at once; 0 while it may.", []string{"client"}, nil)
	doubtDesc      = prometheus.NewDesc("syncd_unresolved_jobs", "Records with a write in doubt.", []string{"flow"}, nil)
	contendersDesc = prometheus.NewDesc("syncd_colliding_records", "Source records that claim a key another one owns.", []string{"flow"}, nil)
	changeDesc     = prometheus.NewDesc("syncd_flow_last_change_timestamp_seconds", "When reading the flow's source last brought something new or changed; 0 for never.", []string{"flow"}, nil)
	readDesc       = prometheus.NewDesc("syncd_flow_last_read_timestamp_seconds", "When the flow's source was last read well, to a minute; 0 for never.", []string{"flow"}, nil)
	failingDesc    = prometheus.NewDesc("syncd_flow_reading_failing_since_timestamp_seconds", "Since when reading the flow's source fails; 0 while it works.", []string{"flow"}, nil)
	readyDesc      = prometheus.NewDesc("syncd_ready", "Whether the daemon can do its work, as /readyz says.", nil, nil)
	refusedDesc    = prometheus.NewDesc("syncd_client_suspended_since_timestamp_seconds", "Since when the client's credentials are refused, until a call with them is answered; 0 while they are not.", []string{"client"}, nil)
	waitingDesc    = prometheus.NewDesc("syncd_client_waiting_calls", "Calls of the client that wait for their turn at its pace.", []string{"client"}, nil)
	limitDesc      = prometheus.NewDesc("syncd_client_quota_limit", "What the client's server says may be spent, by quota, in calls or its own unit.", []string{"client", "quota"}, nil)
	leftDesc       = prometheus.NewDesc("syncd_client_quota_remaining", "What is left of it, with calls under way taken off.", []string{"client", "quota"}, nil)
	learnedDesc    = prometheus.NewDesc("syncd_client_learned_rate", "Calls per second that the client's server takes, as learned from its refusals; 0 when there were none.", []string{"client"}, nil)
	budgetDesc     = prometheus.NewDesc("syncd_client_retry_budget", "What is left for retries of writes to the client, from 0 to 1.", []string{"client"}, nil)
	unreadDesc     = prometheus.NewDesc("syncd_client_unread_limits_total", "Headers about limits that made no sense and were passed over, since this daemon runs the client.", []string{"client"}, nil)
	upDesc         = prometheus.NewDesc("syncd_journal_up", "Whether the journal could be read.", nil, nil)
	pausedDesc     = prometheus.NewDesc("syncd_client_paused", "Whether the client is paused, by reason.", []string{"client", "reason"}, nil)
	sinceDesc      = prometheus.NewDesc("syncd_client_paused_since_timestamp_seconds", "Since when the client is paused; 0 when it is not.", []string{"client"}, nil)
	untilDesc      = prometheus.NewDesc("syncd_client_paused_until_timestamp_seconds", "Until when the client is paused; 0 when it is not.", []string{"client"}, nil)
	breakerDesc    = prometheus.NewDesc("syncd_client_breaker_state", "1 for the state the client's breaker is in.", []string{"client", "state"}, nil)
	flightDesc     = prometheus.NewDesc("syncd_client_in_flight_jobs", "Jobs of the client under way.", []string{"client"}, nil)
)

// Watch adds gauges that are read from the journal and the daemon.
func (m *Metrics) Watch(s State) { m.registry.MustRegister(&gauges{state: s}) }

func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobsDesc, dueDesc, ageDesc, doubtDesc, contendersDesc, changeDesc, readDesc, failingDesc, upDesc,
		pausedDesc, sinceDesc, untilDesc, breakerDesc, flightDesc, dueAgeDesc, withheldDesc, fullDesc, suspendedDesc, expiryDesc,
		readyDesc, refusedDesc, waitingDesc, limitDesc, leftDesc, learnedDesc, budgetDesc, unreadDesc} {
		ch <- d
	}
}

func (g *gauges) overview() (jobs.Overview, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && time.Since(g.at) < fresh {
		return g.last, g.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fresh)
	defer cancel()
	g.last, g.err = g.state.Journal.Overview(ctx)
	g.at = time.Now()
	return g.last, g.err
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	g.ready(gauge)
	for _, c := range joined(g.state.Clients()) {
		paused := 0.0
		if c.Paused != "" {
			paused = 1
		}
		gauge(pausedDesc, paused, c.Name, c.Paused)
		gauge(sinceDesc, unix(c.PausedSince), c.Name)
		gauge(untilDesc, unix(c.PausedUntil), c.Name)
		for _, s := range []string{"closed", "open", "half-open"} {
			on := 0.0
			if s == c.Breaker {
				on = 1
			}
			gauge(breakerDesc, on, c.Name, s)
		}
		gauge(refusedDesc, unix(c.SuspendedSince), c.Name)
		gauge(flightDesc, float64(c.InFlight), c.Name)
		gauge(waitingDesc, float64(c.Waiting), c.Name)
		gauge(learnedDesc, c.Learned, c.Name)
		gauge(budgetDesc, c.Budget, c.Name)
		ch <- prometheus.MustNewConstMetric(unreadDesc, prometheus.CounterValue, float64(c.Unread), c.Name)
		for _, q := range c.Quotas {
			gauge(leftDesc, q.Left, c.Name, q.Scope)
			if q.Limit > 0 {
				gauge(limitDesc, q.Limit, c.Name, q.Scope)
			}
		}
	}
	o, err := g.overview()
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	type sums struct {
		due, doubt int64
		oldest     time.Time
	}
	flows := map[string]*sums{}
	type place struct{ flow, state, reason string }
	rows := map[place]int64{}
	for _, c := range o.Counts {
		rows[place{c.Flow, string(c.State), string(c.Reason)}] += c.N
		s := flows[c.Flow]
		if s == nil {
			s = &sums{}
			flows[c.Flow] = s
		}
		s.due += c.Due
		s.doubt += c.Unresolved
		if c.State == jobs.Ready && !c.OldestOpen.IsZero() && (s.oldest.IsZero() || c.OldestOpen.Before(s.oldest)) {
			s.oldest = c.OldestOpen
		}
	}
	for p, n := range rows {
		gauge(jobsDesc, float64(n), p.flow, p.state, p.reason)
	}
	for name, s := range flows {
		gauge(dueDesc, float64(s.due), name)
		gauge(doubtDesc, float64(s.doubt), name)
		age := 0.0
		if !s.oldest.IsZero() {
			age = o.At.Sub(s.oldest).Seconds()
		}
		gauge(ageDesc, age, name)
	}
	for name, n := range o.Contenders {
		gauge(contendersDesc, float64(n), name)
	}
	for _, f := range o.Flows {
		if !g.state.reads(f.Flow) {
			continue // of a flow that was taken away, or is not enabled
		}
		gauge(changeDesc, unix(f.MovedAt), f.Flow)
		gauge(readDesc, unix(f.ReadAt), f.Flow)
		gauge(failingDesc, unix(f.Failing.Since), f.Flow)
		gauge(fullDesc, unix(f.Full.Since), f.Flow)
		gauge(suspendedDesc, unix(f.Suspended.Since), f.Flow)
	}
	for _, c := range o.Clients {
		gauge(expiryDesc, unix(c.ExpiryHeld.Since), c.Client)
	}
	g.ages(o, gauge)
}

// ready tells whether the daemon can do its work.
func (g *gauges) ready(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if g.state.Ready == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fresh)
	defer cancel()
	ready := 0.0
	if g.state.Ready(ctx) == nil {
		ready = 1
	}
	gauge(readyDesc, ready)
}

// ages tells what is due from what is withheld, by flow and reason.
func (g *gauges) ages(o jobs.Overview, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if g.state.Rules == nil {
		return
	}
	flows := g.state.Rules()
	due := map[string]float64{}
	for name := range flows {
		due[name] = 0
	}
	for _, a := range o.Ages(flows) {
		age := max(o.At.Sub(a.Oldest).Seconds(), 0)
		if a.Reason != "" {
			gauge(withheldDesc, age, a.Flow, a.Reason)
			continue
		}
		due[a.Flow] = age
	}
	for name, age := range due {
		gauge(dueAgeDesc, age, name)
	}
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
