package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

var at = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// fakeJournal is an overview, or an error.
type fakeJournal struct {
	o     jobs.Overview
	err   error
	asked int
}

func (j *fakeJournal) Overview(context.Context) (jobs.Overview, error) {
	j.asked++
	return j.o, j.err
}

func overview() jobs.Overview {
	return jobs.Overview{
		At: at,
		Counts: []jobs.Count{
			{Flow: "orders", State: jobs.Ready, Reason: jobs.ReasonRetry, Class: "transient", N: 3, Due: 1, Unresolved: 1, OldestOpen: at.Add(-90 * time.Second)},
			{Flow: "orders", State: jobs.Ready, Reason: jobs.ReasonRetry, Class: "conflict", N: 2, OldestOpen: at.Add(-10 * time.Second)},
			{Flow: "orders", State: jobs.Done, N: 100},
			{Flow: "orders", State: jobs.Dead, Reason: jobs.ReasonFailed, Class: "invalid", N: 4, Unresolved: 1, OldestOpen: at.Add(-time.Hour)},
		},
		Flows: []jobs.FlowState{{Flow: "orders", MovedAt: at.Add(-time.Minute), ReadAt: at.Add(-time.Second)}, {Flow: "gone", Failing: jobs.Failing{Since: at}},
			{Flow: "items", Failing: jobs.Failing{Since: at.Add(-time.Hour), Class: connectors.Transient}}},
		Contenders: map[string]int{"orders": 2},
	}
}

func clients() []Client {
	return []Client{
		{Name: "erp", Paused: "throttled", PausedUntil: at.Add(time.Minute), Breaker: "half-open", InFlight: 7},
		{Name: "shop", Breaker: "closed"},
	}
}

// touched are metrics of which every one has been touched.
func touched() *Metrics {
	m := NewMetrics("1.2.3")
	f := &jobs.Flow{Name: "orders"}
	m.Expect([]string{"orders"}, []string{"erp"})
	m.Pulled(f, 10, time.Second, nil)
	m.Pulled(f, 0, time.Second, connectors.Errorf(connectors.Transient, "connect", "refused"))
	m.Pulled(f, 0, time.Second, errors.New("the breaker is open"))
	m.Pulled(f, 0, time.Second, context.Canceled)
	m.Admitted(f, jobs.Admitted{New: 1, Changed: 2, Unchanged: 3, Older: 4, Gone: 5, Collided: 6, Rejected: 7})
	m.Claimed("erp", 5, 2, 1)
	m.Settled(f, jobs.Settled{}, connectors.Outcome{Class: connectors.Applied}, time.Second)
	m.Settled(f, jobs.Settled{Fenced: true}, connectors.Outcome{Class: connectors.Applied}, time.Second)
	for n := range 2 { // the second lengthens it
		m.Paused("erp", ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Since: time.Unix(1, 0), Until: time.Unix(int64(10+n), 0), Strikes: 1})
	}
	m.Paused("erp", ratelimit.Pause{}) // the pause is over
	m.Breaker("erp", breaker.Open.String(), "why")
	m.CountLost(func() int64 { return 3 })
	m.Watch(State{Journal: &fakeJournal{o: overview()}, Clients: clients})
	return m
}

func TestMetricsFollowTheConventionsOfPrometheus(t *testing.T) {
	problems, err := testutil.GatherAndLint(touched().Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsCountWhatADaemonDoes(t *testing.T) {
	const want = `
# HELP syncd_admitted_total What became of the records that events mapped to: new, changed, unchanged, older, gone, collided, rejected.
# TYPE syncd_admitted_total counter
syncd_admitted_total{flow="orders",result="changed"} 2
syncd_admitted_total{flow="orders",result="collided"} 6
syncd_admitted_total{flow="orders",result="gone"} 5
syncd_admitted_total{flow="orders",result="new"} 1
syncd_admitted_total{flow="orders",result="older"} 4
syncd_admitted_total{flow="orders",result="rejected"} 7
syncd_admitted_total{flow="orders",result="unchanged"} 3
# HELP syncd_claimed_jobs_total Jobs claimed for writing.
# TYPE syncd_claimed_jobs_total counter
syncd_claimed_jobs_total{client="erp"} 5
# HELP syncd_client_breaker_changes_total Changes of clients' breakers, by the state they changed to.
# TYPE syncd_client_breaker_changes_total counter
syncd_client_breaker_changes_total{client="erp",state="closed"} 0
syncd_client_breaker_changes_total{client="erp",state="half-open"} 0
syncd_client_breaker_changes_total{client="erp",state="open"} 1
# HELP syncd_client_pauses_total Pauses of clients, by reason.
# TYPE syncd_client_pauses_total counter
syncd_client_pauses_total{client="erp",reason="beyond_max_pause"} 0
syncd_client_pauses_total{client="erp",reason="suspended"} 0
syncd_client_pauses_total{client="erp",reason="throttled"} 1
syncd_client_pauses_total{client="erp",reason="unavailable"} 0
# HELP syncd_events_total Events pulled from streams.
# TYPE syncd_events_total counter
syncd_events_total{flow="orders"} 10
# HELP syncd_expired_jobs_total Jobs past their max_age that ended.
# TYPE syncd_expired_jobs_total counter
syncd_expired_jobs_total{client="erp"} 1
# HELP syncd_fenced_outcomes_total Outcomes that came after their claim had been taken back.
# TYPE syncd_fenced_outcomes_total counter
syncd_fenced_outcomes_total{flow="orders"} 1
# HELP syncd_polls_total Pages asked of sources, by result: ok, or the class of the failure.
# TYPE syncd_polls_total counter
syncd_polls_total{flow="orders",result="auth"} 0
syncd_polls_total{flow="orders",result="error"} 1
syncd_polls_total{flow="orders",result="invalid"} 0
syncd_polls_total{flow="orders",result="ok"} 1
syncd_polls_total{flow="orders",result="throttled"} 0
syncd_polls_total{flow="orders",result="transient"} 1
# HELP syncd_superseded_jobs_total Jobs past their max_age whose present state the source was asked for.
# TYPE syncd_superseded_jobs_total counter
syncd_superseded_jobs_total{client="erp"} 2
`
	err := testutil.GatherAndCompare(touched().Registry(), strings.NewReader(want), "syncd_admitted_total", "syncd_claimed_jobs_total",
		"syncd_client_breaker_changes_total", "syncd_client_pauses_total", "syncd_events_total", "syncd_expired_jobs_total",
		"syncd_fenced_outcomes_total", "syncd_polls_total", "syncd_superseded_jobs_total")
	if err != nil {
		t.Error(err)
	}
}

func TestAttemptsAreCountedUnlessTheirClaimWasTakenBack(t *testing.T) {
	m := touched()
	if got := testutil.ToFloat64(m.attempts.WithLabelValues("orders", string(connectors.Applied))); got != 1 {
		t.Errorf("%g attempts with the outcome applied, want 1", got)
	}
	// Every class is there from the start, so that an alert sees the first dead letter as an increase.
	if got, want := testutil.CollectAndCount(m.attempts), len(connectors.Classes()); got != want {
		t.Errorf("%d series of attempts, want one for each of the %d classes", got, want)
	}
}

func TestGaugesTellWhereJobsAndClientsStand(t *testing.T) {
	const want = `
# HELP syncd_client_breaker_state 1 for the state the client's breaker is in.
# TYPE syncd_client_breaker_state gauge
syncd_client_breaker_state{client="erp",state="closed"} 0
syncd_client_breaker_state{client="erp",state="half-open"} 1
syncd_client_breaker_state{client="erp",state="open"} 0
syncd_client_breaker_state{client="shop",state="closed"} 1
syncd_client_breaker_state{client="shop",state="half-open"} 0
syncd_client_breaker_state{client="shop",state="open"} 0
# HELP syncd_client_in_flight_jobs Jobs of the client under way.
# TYPE syncd_client_in_flight_jobs gauge
syncd_client_in_flight_jobs{client="erp"} 7
syncd_client_in_flight_jobs{client="shop"} 0
# HELP syncd_client_paused Whether the client is paused, by reason.
# TYPE syncd_client_paused gauge
syncd_client_paused{client="erp",reason="throttled"} 1
syncd_client_paused{client="shop",reason=""} 0
# HELP syncd_client_paused_until_timestamp_seconds Until when the client is paused; 0 when it is not.
# TYPE syncd_client_paused_until_timestamp_seconds gauge
syncd_client_paused_until_timestamp_seconds{client="erp"} 1.79595366e+09
syncd_client_paused_until_timestamp_seconds{client="shop"} 0
# HELP syncd_colliding_records Source records that claim a key another one owns.
# TYPE syncd_colliding_records gauge
syncd_colliding_records{flow="orders"} 2
# HELP syncd_due_jobs Open jobs that are due now.
# TYPE syncd_due_jobs gauge
syncd_due_jobs{flow="orders"} 1
# HELP syncd_flow_last_change_timestamp_seconds When reading the flow's source last brought something new or changed; 0 for never.
# TYPE syncd_flow_last_change_timestamp_seconds gauge
syncd_flow_last_change_timestamp_seconds{flow="items"} 0
syncd_flow_last_change_timestamp_seconds{flow="orders"} 1.79595354e+09
# HELP syncd_flow_last_read_timestamp_seconds When the flow's source was last read well, to a minute; 0 for never.
# TYPE syncd_flow_last_read_timestamp_seconds gauge
syncd_flow_last_read_timestamp_seconds{flow="items"} 0
syncd_flow_last_read_timestamp_seconds{flow="orders"} 1.795953599e+09
# HELP syncd_flow_reading_failing_since_timestamp_seconds Since when reading the flow's source fails; 0 while it works.
# TYPE syncd_flow_reading_failing_since_timestamp_seconds gauge
syncd_flow_reading_failing_since_timestamp_seconds{flow="items"} 1.79595e+09
syncd_flow_reading_failing_since_timestamp_seconds{flow="orders"} 0
# HELP syncd_jobs Rows of the journal by state and reason.
# TYPE syncd_jobs gauge
syncd_jobs{flow="orders",reason="",state="done"} 100
syncd_jobs{flow="orders",reason="failed",state="dead"} 4
syncd_jobs{flow="orders",reason="retry",state="ready"} 5
# HELP syncd_journal_up Whether the journal could be read.
# TYPE syncd_journal_up gauge
syncd_journal_up 1
# HELP syncd_oldest_open_job_age_seconds Age of the oldest change that is not in the target yet.
# TYPE syncd_oldest_open_job_age_seconds gauge
syncd_oldest_open_job_age_seconds{flow="orders"} 90
# HELP syncd_unresolved_jobs Records with a write in doubt.
# TYPE syncd_unresolved_jobs gauge
syncd_unresolved_jobs{flow="orders"} 2
`
	m := NewMetrics("1.2.3")
	m.Watch(State{Journal: &fakeJournal{o: overview()}, Clients: clients, Flows: func() []string { return []string{"items", "orders"} }})
	names := []string{"syncd_client_breaker_state", "syncd_client_in_flight_jobs", "syncd_client_paused", "syncd_client_paused_until_timestamp_seconds",
		"syncd_colliding_records", "syncd_due_jobs", "syncd_flow_last_change_timestamp_seconds", "syncd_flow_last_read_timestamp_seconds",
		"syncd_flow_reading_failing_since_timestamp_seconds", "syncd_jobs", "syncd_journal_up",
		"syncd_oldest_open_job_age_seconds", "syncd_unresolved_jobs"}
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestJournalThatCannotBeReadShowsAndLeavesTheClients(t *testing.T) {
	m := NewMetrics("1.2.3")
	m.Watch(State{Journal: &fakeJournal{err: errors.New("no connection")}, Clients: clients})
	const want = `
# HELP syncd_client_in_flight_jobs Jobs of the client under way.
# TYPE syncd_client_in_flight_jobs gauge
syncd_client_in_flight_jobs{client="erp"} 7
syncd_client_in_flight_jobs{client="shop"} 0
# HELP syncd_journal_up Whether the journal could be read.
# TYPE syncd_journal_up gauge
syncd_journal_up 0
`
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "syncd_journal_up", "syncd_jobs", "syncd_client_in_flight_jobs"); err != nil {
		t.Error(err)
	}
}

func TestJournalIsReadOncePerFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{o: overview()}
		m := NewMetrics("1.2.3")
		m.Watch(State{Journal: j, Clients: clients})
		scrape := func() {
			if _, err := m.Registry().Gather(); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			scrape()
		}
		if j.asked != 1 {
			t.Errorf("ten scrapes at once read the journal %d times", j.asked)
		}
		time.Sleep(fresh)
		scrape()
		if j.asked != 2 {
			t.Errorf("a later scrape read the journal %d times in all, want 2", j.asked)
		}
	})
}

func TestAddressThatCannotBeListenedOnSaysWhatToDo(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	addr := strings.TrimPrefix(taken.URL, "http://")
	_, err := Listen(addr, NewMetrics("1.2.3"), Health{}, slog.New(slog.DiscardHandler))
	want := "listen on " + addr + ": bind: address already in use; another program (perhaps another syncd) has the port: choose another with listen: in the configuration, or switch it off with listen: off"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Listen("192.0.2.1:9184", NewMetrics("1.2.3"), Health{}, slog.New(slog.DiscardHandler))
	want = "listen on 192.0.2.1:9184: bind: cannot assign requested address; this machine does not have the address: choose one that it has, or 127.0.0.1, with listen: in the configuration, or switch it off with listen: off"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOnlyLoopbackLooksAtTheHost: behind another address the name is the operator's affair.
func TestOnlyLoopbackLooksAtTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		status int
	}{"loopback": {"127.0.0.1:0", http.StatusMisdirectedRequest}, "every address": {"0.0.0.0:0", http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			s, err := Listen(c.listen, NewMetrics("1.2.3"), Health{}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve() }()
			port := s.Addr()[strings.LastIndex(s.Addr(), ":"):]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+port+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "syncd.example.com"
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Errorf("serving ended with %v after Close", err)
			}
		})
	}
}

func TestClientThatIsSplitShowsAsOne(t *testing.T) {
	m := NewMetrics("1.2.3")
	m.Watch(State{Journal: &fakeJournal{o: overview()}, Ready: func(context.Context) error { return errors.New("starting") }, Clients: func() []Client {
		return []Client{
			{Name: "erp", Paused: "throttled", PausedUntil: at, SuspendedSince: at, Breaker: "half-open", InFlight: 1, Waiting: 2},
			{Name: "erp", Breaker: "closed", InFlight: 3, Waiting: 4},
			{Name: "erp", Paused: "unavailable", PausedUntil: at.Add(time.Minute), SuspendedSince: at.Add(-time.Minute), Breaker: "open", InFlight: 5},
			{Name: "shop", Breaker: "closed"},
		}
	}})
	const want = `
# HELP syncd_client_breaker_state 1 for the state the client's breaker is in.
# TYPE syncd_client_breaker_state gauge
syncd_client_breaker_state{client="erp",state="closed"} 0
syncd_client_breaker_state{client="erp",state="half-open"} 0
syncd_client_breaker_state{client="erp",state="open"} 1
syncd_client_breaker_state{client="shop",state="closed"} 1
syncd_client_breaker_state{client="shop",state="half-open"} 0
syncd_client_breaker_state{client="shop",state="open"} 0
# HELP syncd_client_in_flight_jobs Jobs of the client under way.
# TYPE syncd_client_in_flight_jobs gauge
syncd_client_in_flight_jobs{client="erp"} 9
syncd_client_in_flight_jobs{client="shop"} 0
# HELP syncd_client_paused Whether the client is paused, by reason.
# TYPE syncd_client_paused gauge
syncd_client_paused{client="erp",reason="unavailable"} 1
syncd_client_paused{client="shop",reason=""} 0
# HELP syncd_client_paused_until_timestamp_seconds Until when the client is paused; 0 when it is not.
# TYPE syncd_client_paused_until_timestamp_seconds gauge
syncd_client_paused_until_timestamp_seconds{client="erp"} 1.79595366e+09
syncd_client_paused_until_timestamp_seconds{client="shop"} 0
# HELP syncd_client_suspended_since_timestamp_seconds Since when the client's credentials are refused, until a call with them is answered; 0 while they are not.
# TYPE syncd_client_suspended_since_timestamp_seconds gauge
syncd_client_suspended_since_timestamp_seconds{client="erp"} 1.79595354e+09
syncd_client_suspended_since_timestamp_seconds{client="shop"} 0
# HELP syncd_client_waiting_calls Calls of the client that wait for their turn at its pace.
# TYPE syncd_client_waiting_calls gauge
syncd_client_waiting_calls{client="erp"} 6
syncd_client_waiting_calls{client="shop"} 0
# HELP syncd_ready Whether the daemon can do its work, as /readyz says.
# TYPE syncd_ready gauge
syncd_ready 0
`
	names := []string{"syncd_client_breaker_state", "syncd_client_in_flight_jobs", "syncd_client_paused", "syncd_client_paused_until_timestamp_seconds",
		"syncd_client_suspended_since_timestamp_seconds", "syncd_client_waiting_calls", "syncd_ready"}
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
