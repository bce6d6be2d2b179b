package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestPagesOfARunningDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	port := w.addr[strings.LastIndex(w.addr, ":"):]
	for name, c := range map[string]struct {
		method, path, host string
		status             int
		body               string
	}{
		"health":                     {"GET", "/healthz", "", 200, "ok\n"},
		"readiness":                  {"GET", "/readyz", "", 200, "ready\n"},
		"start page":                 {"GET", "/", "", 200, "syncd\n\n/metrics  for Prometheus\n/healthz  whether the process lives\n/readyz   whether it does its work\n"},
		"head":                       {"HEAD", "/healthz", "", 200, ""},
		"unknown path":               {"GET", "/secrets", "", 404, "404 page not found\n"},
		"path below a page":          {"GET", "/healthz/x", "", 404, "404 page not found\n"},
		"post":                       {"POST", "/metrics", "", 405, "Method Not Allowed\n"},
		"delete":                     {"DELETE", "/readyz", "", 405, "Method Not Allowed\n"},
		"foreign name":               {"GET", "/metrics", "evil.example", 421, "this address answers to localhost only\n"},
		"foreign name with the port": {"GET", "/", "evil.example" + port, 421, "this address answers to localhost only\n"},
		"name that begins alike":     {"GET", "/", "localhost.evil.example", 421, "this address answers to localhost only\n"},
		"localhost":                  {"GET", "/healthz", "localhost" + port, 200, "ok\n"},
		"localhost in capitals":      {"GET", "/healthz", "LOCALHOST" + port, 200, "ok\n"},
		"loopback of version 6":      {"GET", "/healthz", "[::1]" + port, 200, "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, w.url(c.path), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				req.Host = c.host
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || string(body) != c.body {
				t.Errorf("%s %s answers %d %q, want %d %q", c.method, c.path, resp.StatusCode, body, c.status, c.body)
			}
		})
	}
	p.stop()
}

func TestMetricsPageIsWellFormed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	status, page := get(t, w.url("/metrics"))
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range problems {
		t.Errorf("%s: %s", pr.Metric, pr.Text)
	}
	for _, want := range []string{
		`syncd_attempts_total{class="applied",flow="orders"} 1`,
		`syncd_admitted_total{flow="orders",result="new"} 1`,
		`syncd_jobs{flow="orders",reason="",state="done"} 1`,
		`syncd_client_breaker_state{client="erp",state="closed"} 1`,
		`syncd_client_paused{client="erp",reason=""} 0`,
		`syncd_journal_up 1`,
		`syncd_build_info{version=`,
	} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	p.stop()
}
