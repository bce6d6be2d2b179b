package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

func TestEachOutcomeTellsTheBreakerWhatItIs(t *testing.T) {
	const (
		fail   = breaker.Failure
		serves = breaker.Success
		none   = breaker.Ignore
	)
	tests := []struct {
		class connectors.Class
		code  string
		want  breaker.Verdict
	}{
		{connectors.Applied, "", serves},
		{connectors.Unchanged, "", serves},
		{connectors.AlreadyApplied, "", serves},
		{connectors.Stale, "newer_version", serves},
		{connectors.Invalid, "http_422", serves},
		{connectors.Invalid, "http_404", serves},
		{connectors.Missing, "http_404", serves},
		{connectors.Conflict, "http_409", serves},
		{connectors.Frozen, "posted", serves},
		{connectors.Transient, "connect", fail},
		{connectors.Transient, "tls", fail},
		{connectors.Transient, "not_json", fail},
		{connectors.Unknown, "timeout", fail},
		{connectors.Unknown, "http_502", fail},
		{connectors.Unknown, "not_json", fail},
		{connectors.Throttled, "http_429", none},
		{connectors.Paused, "paused", none},
		{connectors.Auth, "http_401", none},
		{connectors.Waiting, "reference", none},
		{connectors.Transient, "canceled", none},
		{connectors.Unknown, "canceled", none},
		{connectors.Transient, jobs.CodeSettling, none},
		{connectors.Transient, jobs.CodeAbsentOnce, none},
	}
	told := []connectors.Class{connectors.Lost, connectors.Expired} // the journal's own
	for _, c := range tests {
		told = append(told, c.class)
		o := connectors.Outcome{Class: c.class, Code: c.code}
		if got := verdict(o); got != c.want {
			t.Errorf("a write: %s (%s) is a %s, want %s", c.class, c.code, got, c.want)
		}
		if got := verdictOf(fmt.Errorf("list orders: %w", &connectors.Error{Outcome: o})); got != c.want {
			t.Errorf("a reading: %s (%s) is a %s, want %s", c.class, c.code, got, c.want)
		}
	}
	for _, c := range connectors.Classes() {
		if !slices.Contains(told, c) {
			t.Errorf("nobody says what %s tells", c)
		}
	}
	if v := verdictOf(nil); v != serves {
		t.Errorf("a page is a %s", v)
	}
	if v := verdictOf(context.Canceled); v != none {
		t.Errorf("a reading that was given up is a %s", v)
	}
}

// TestAnswersOpenTheBreakerByWhatTheyHold follows answers from the wire to the breaker: the status alone proves nothing.
func TestAnswersOpenTheBreakerByWhatTheyHold(t *testing.T) {
	for _, c := range []struct {
		name, kind, body string
		status           int
		want             breaker.State
	}{
		{"a gateway's page", "text/html", "<html>gateway</html>", 200, breaker.Open},
		{"a page that calls itself JSON", "application/json", "<html>gateway</html>", 200, breaker.Open},
		{"nothing", "application/json", "", 200, breaker.Open},
		{"half an answer", "application/json", `{"id":1`, 200, breaker.Open},
		{"a maintenance page", "text/html", "<html>", 503, breaker.Open},
		{"records", "application/json", `{"id":1}`, 200, breaker.Closed},
		{"refused records", "application/json", `{"errors":{"email":["is invalid"]}}`, 422, breaker.Closed},
		{"unknown records", "text/html", "<html>not here</html>", 404, breaker.Closed},
		{"conflicts", "application/json", `{}`, 409, breaker.Closed},
		{"refusals for quota", "application/json", `{}`, 429, breaker.Closed},
	} {
		for _, writes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, writing %v", c.name, writes), func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.kind)
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				}))
				defer server.Close()
				base, err := url.Parse(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				api, err := httpx.New(httpx.Options{Client: "erp", Gate: openGate{}, BaseURL: base})
				if err != nil {
					t.Fatal(err)
				}
				defer api.Close()
				b := breaker.New("erp", breaker.Settings{}, nil)
				for i := range 20 {
					call, err := b.Allow()
					if err != nil {
						break
					}
					o := connectors.Outcome{Class: connectors.Applied}
					if _, err := api.JSON(t.Context(), &httpx.Request{Method: "POST", Path: "/orders", Body: []byte("{}"), Write: writes}); err != nil {
						o = connectors.FromHTTP(err, writes)
					}
					job := &jobs.Job{}
					job.Key = fmt.Sprint(i)
					call.Done((&lane{}).judge([]*jobs.Job{job}, []connectors.Outcome{o}))
				}
				if s := b.State(); s.State != c.want {
					t.Errorf("the breaker is %s after 20 such answers (%s), want %s", s.State, s.LastError, c.want)
				}
			})
		}
	}
}

func TestABatchTellsTheBreakerThatItsTargetServesOrOfWhichRecordsItFailed(t *testing.T) {
	js := []*jobs.Job{{}, {}, {}}
	for i, key := range []string{"A", "B", "C"} {
		js[i].Key = key
	}
	outcome := func(c connectors.Class) connectors.Outcome { return connectors.Outcome{Class: c, Code: "code"} }
	for _, c := range []struct {
		out  []connectors.Outcome
		want breaker.Verdict
		of   []string
	}{
		{[]connectors.Outcome{outcome(connectors.Transient), outcome(connectors.Invalid), outcome(connectors.Transient)}, breaker.Success, nil},
		{[]connectors.Outcome{outcome(connectors.Transient), outcome(connectors.Throttled), outcome(connectors.Unknown)}, breaker.Failure, []string{"A", "C"}},
		{[]connectors.Outcome{outcome(connectors.Paused), outcome(connectors.Auth), outcome(connectors.Throttled)}, breaker.Ignore, nil},
	} {
		got := (&lane{}).judge(js, c.out)
		if got.Verdict != c.want || !slices.Equal(got.Records, c.of) {
			t.Errorf("%v is a %s of %v, want %s of %v", c.out, got.Verdict, got.Records, c.want, c.of)
		}
	}
}

func TestRefusedRecordsKeepNobodyFromTheTarget(t *testing.T) {
	inWorld(t, func(w *world) {
		var script []connectors.Outcome
		for i := range 10 { // each in a way of its own, or the flow were to blame
			script = append(script, connectors.Fail(connectors.Invalid, fmt.Sprint("field_", i), "no"),
				connectors.Fail(connectors.Missing, "http_404", "no"), connectors.Fail(connectors.Conflict, "http_409", "no"))
		}
		w.refuse(script...)
		w.plan.Clients["erp"].Breaker = breaker.Settings{}
		w.plan.Clients["erp"].Concurrency = 1
		for i := range 30 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.shop.put("good", 1, `{"key":"good"}`)
		w.start()
		w.pass(5 * time.Second)
		w.holds(w.orders, "good", `{"key":"good"}`)
		for _, c := range w.daemon.Clients() {
			if c.Breaker.State != breaker.Closed || c.Breaker.InRow > 0 {
				t.Errorf("the breaker of %s is %s after %d failures in a row", c.Client, c.Breaker.State, c.Breaker.InRow)
			}
		}
	})
}

// hung is an entity whose creates get no answer within half a minute.
type hung struct {
	*faketarget.Entity
	mu          *sync.Mutex
	under, most *int
	calls       *int
}

func (h hung) Create(ctx context.Context, _ connectors.Write) connectors.Outcome {
	h.mu.Lock()
	*h.calls++
	*h.under++
	*h.most = max(*h.most, *h.under)
	h.mu.Unlock()
	sleep(ctx, 30*time.Second)
	h.mu.Lock()
	*h.under--
	h.mu.Unlock()
	return connectors.Fail(connectors.Transient, "timeout", "no whole answer in time")
}

// since tells how many calls there were, and how many at one time, and begins anew.
func (h hung) since() (calls, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls, most = *h.calls, *h.most
	*h.calls, *h.most = 0, *h.under
	return calls, most
}

func TestWhileAProbeHangsNothingElseIsSentAndNoJobIsTouched(t *testing.T) {
	inWorld(t, func(w *world) {
		h := hung{w.orders, &sync.Mutex{}, new(int), new(int), new(int)}
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = h
		w.plan.Clients["erp"].Breaker = breaker.Settings{ConsecutiveFailures: 5, MinDistinct: 3, OpenFor: time.Minute, ProbeTimeout: time.Minute}
		w.plan.Flows["orders"].Retry.MaxDelay = 10 * time.Second
		for i := range 50 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		attempts := func() (n int64) {
			for i := range 50 {
				n += w.row("orders", fmt.Sprint("K", i)).Attempt
			}
			return n
		}
		w.start()
		w.pass(3 * time.Minute)
		if _, most := h.since(); most != 4 {
			t.Fatalf("%d calls at one time before the target was known to hang, want 4", most)
		}
		before := attempts()
		w.pass(time.Hour)
		calls, most := h.since()
		if most != 1 || calls < 30 || calls > 41 {
			t.Errorf("%d calls in an hour of a target that hangs, %d at one time; want one probe every 90 s", calls, most)
		}
		if n := attempts() - before; n > int64(calls)+1 {
			t.Errorf("%d attempts are in the journal for %d probes", n, calls)
		}
		for _, c := range w.daemon.Clients() {
			if c.Client == "erp" && c.Breaker.LastError != "timeout: no whole answer in time" {
				t.Errorf("the last failure is told as %q", c.Breaker.LastError)
			}
		}
	})
}

func TestReadingsThatAStopCutsOffAreNoFailures(t *testing.T) {
	c := &client{plan: &ClientPlan{}, breaker: breaker.New("shop", breaker.Settings{}, nil)}
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		err := c.read(ctx, func(context.Context) error {
			cancel()
			return &connectors.Error{Outcome: connectors.Outcome{Class: connectors.Transient, Code: "canceled"}, Err: ctx.Err()}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if s := c.breaker.State(); s.State != breaker.Closed || s.InRow > 0 {
		t.Errorf("the breaker is %s after %d failures", s.State, s.InRow)
	}
}
