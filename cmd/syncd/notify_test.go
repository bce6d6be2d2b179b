package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
	"syncd/notify"
	"syncd/ratelimit"
)

// pager is a receiver of webhooks.
type pager struct {
	*httptest.Server
	mu   sync.Mutex
	got  []notify.Message
	raw  string
	seen http.Header
}

func newPager(t *testing.T) *pager {
	p := &pager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m notify.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got, p.raw, p.seen = append(p.got, m), p.raw+string(body), r.Header
	}))
	t.Cleanup(p.Close)
	return p
}

// heard reports whether a message told of an event.
func (p *pager) heard(what notify.Entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		for _, e := range m.Data.Happened {
			if e.Event == what.Event && e.Over == what.Over && e.Client == what.Client && e.Flow == what.Flow && e.Code == what.Code {
				return true
			}
		}
	}
	return false
}

func TestPeopleAreToldByTheWebhookAndTheCommandUntilAReload(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newPager(t)
	page := filepath.Join(w.dir, "page")
	const secret = "whsec_Q0FOQVJZLWNhbmFyeS1DQU5BUlktY2FuYXJ5"
	script := write(t, w.dir, "page-me", "#!/bin/sh\ncat >>'"+page+"'\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "secret", secret)
	w.configure("LEVEL", "debug}\nnotify: {coalesce: 1s, webhook: {url: "+p.URL+"/CANARY-path, secret: '${file:secret}'}, command: ["+script+"]", "MAP", `if .name == "bad" then error("no") else {ref: .id, name, version: $meta.version} end`)
	w.shop.put("CANARY-key", "bad")
	d := w.run()
	dead := notify.Entry{Event: notify.Dead, Client: "erp", Flow: "orders", Code: "mapping"}
	until(t, "a message", func() bool { return p.heard(dead) })
	until(t, "a page", func() bool { b, _ := os.ReadFile(page); return strings.Contains(string(b), `"event":"dead"`) })
	until(t, "the count of messages", func() bool {
		_, metrics := get(t, w.url("/metrics"))
		return strings.Contains(metrics, `syncd_notices_total{result="sent",way="webhook"} 1`) && strings.Contains(metrics, `syncd_notices_total{result="sent",way="command"} 1`)
	})
	p.mu.Lock()
	if strings.Contains(p.raw, "CANARY") || !strings.HasPrefix(p.seen.Get("webhook-signature"), "v1,") {
		t.Errorf("sent %s with %v", p.raw, p.seen)
	}
	n := len(p.got)
	p.mu.Unlock()
	w.configure("LEVEL", "debug")
	d.signal(syscall.SIGHUP)
	d.await("running the new configuration")
	w.shop.put("another", "bad")
	d.await("dead letter", "@another")
	d.stop() // sends what is left
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) != n {
		t.Errorf("%d messages after notify was taken out", len(p.got)-n)
	}
	if log := d.log(); strings.Contains(log, "CANARY-path") || strings.Contains(log, secret) {
		t.Errorf("the log shows the address or the secret:\n%s", log)
	}
}

func TestWhatTheDaemonDoesIsToldInItsWords(t *testing.T) {
	t.Parallel()
	var got []notify.Happening
	d := teller{tell: func(h notify.Happening) { got = append(got, h) }}
	f := &jobs.Flow{Name: "orders", Client: "erp"}
	row := jobs.RowID{Flow: "orders", Key: "CANARY"}
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	refused := connectors.Fail(connectors.Invalid, "http_422", "CANARY")
	stands := jobs.Standing{Since: at, Code: "http_422", Message: "CANARY"}
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Done}, connectors.Outcome{Class: connectors.Applied}, 0)
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Dead, Fenced: true}, refused, 0)
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Dead}, refused, 0)
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Held}, connectors.Fail(connectors.Unknown, "timeout", "CANARY"), 0)
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Ready, Suspended: stands}, refused, 0)
	d.Settled(f, jobs.Settled{RowID: row, State: jobs.Done, Freed: stands}, connectors.Outcome{Class: connectors.Applied}, 0)
	d.Admitted(f, jobs.Admitted{New: 3})
	d.Admitted(f, jobs.Admitted{Rejected: 2})
	d.Ended("erp", jobs.Ended{{Flow: "orders", State: jobs.Held, Class: connectors.Lost, Code: "lost"}: 4})
	d.Ended("erp", jobs.Ended{{Flow: "orders", State: jobs.Dead, Class: connectors.Expired, Code: "max_age"}: 5})
	d.Suspended("erp", "http_401", at)
	d.Freed("erp", at)
	want := []notify.Happening{
		{Event: notify.Dead, Client: "erp", Flow: "orders", Class: "invalid", Code: "http_422", Count: 1},
		{Event: notify.Held, Client: "erp", Flow: "orders", Class: "unknown", Code: "timeout", Count: 1},
		{Event: notify.Suspended, Client: "erp", Flow: "orders", Class: "invalid", Code: "http_422", Count: 1, Since: at},
		{Event: notify.Suspended, Over: true, Client: "erp", Flow: "orders", Count: 1, Since: at},
		{Event: notify.Dead, Client: "erp", Flow: "orders", Class: "invalid", Code: "mapping", Count: 2},
		{Event: notify.Held, Client: "erp", Flow: "orders", Class: "lost", Code: "lost", Count: 4},
		{Event: notify.Dead, Client: "erp", Flow: "orders", Class: "expired", Code: "max_age", Count: 5},
		{Event: notify.Suspended, Client: "erp", Class: "auth", Code: "http_401", Count: 1, Since: at},
		{Event: notify.Suspended, Over: true, Client: "erp", Count: 1, Since: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestClientsAreTakenForPausedAsTheyStand(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC()
	pause := ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Since: at.Add(-time.Minute), Until: at.Add(time.Minute)}
	open := daemon.ClientStatus{Client: "erp", Gate: ratelimit.State{Open: true}}
	paused, suspended, down, probed := open, open, open, open
	paused.Gate = ratelimit.State{Pause: pause}
	suspended.Gate, suspended.Suspended = ratelimit.State{Pause: pause}, at.Add(-time.Hour)
	down.Breaker = breaker.Snapshot{State: breaker.Open, Since: time.Now().Add(-time.Hour), Until: at.Add(time.Second)}
	probed.Breaker = breaker.Snapshot{State: breaker.HalfOpen, Since: time.Now().Add(-time.Hour)}
	for name, c := range map[string]struct {
		is     daemon.ClientStatus
		reason string
		since  time.Duration
		until  time.Time
	}{
		"open":      {open, "", 0, time.Time{}},
		"paused":    {paused, "throttled", time.Minute, pause.Until},
		"suspended": {suspended, "suspended", time.Hour, time.Time{}},
		"down":      {down, "breaker", time.Hour, time.Time{}},
		"probed":    {probed, "breaker", time.Hour, time.Time{}},
	} {
		got := pausedNow([]daemon.ClientStatus{c.is}, at)[0]
		if got.Name != "erp" || got.Reason != c.reason || !got.Until.Equal(c.until) || c.reason != "" && (at.Sub(got.Since)-c.since).Abs() > time.Minute {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
