package main

import (
	"strings"
	"testing"
	"time"

	"syncd/config"
	"syncd/jobs"
	"syncd/ratelimit"
)

func TestStatusTellsWhenRefusedCredentialsAreTriedAgain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		until   time.Time
		reason  string
		says    string
		finding bool
	}{
		"before its time": {at.Add(3 * time.Minute), ratelimit.ReasonSuspended, "one call tries them at 2026-11-29T10:03:00Z, or at once after a reload or a restart", true},
		"after its time":  {at.Add(-time.Minute), ratelimit.ReasonSuspended, "the next call tries them", false},
		"another pause":   {at.Add(time.Minute), ratelimit.ReasonThrottled, "", false},
		"none any more":   {at.Add(-time.Minute), ratelimit.ReasonThrottled, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := statusOf(&config.Config{Clients: map[string]*config.Client{"erp": {}}}, jobs.Overview{At: at,
				Clients: []jobs.ClientState{{Client: "erp", PausedUntil: c.until, Reason: c.reason, Evidence: "http_401", Since: at.Add(-time.Hour)}}})
			s.Daemon = daemonUnknown
			var out strings.Builder
			if err := s.print(&out); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.String(), "suspended: client erp"); got != (c.says != "") || !strings.Contains(out.String(), c.says) {
				t.Errorf("says\n%s", out.String())
			}
			if s.finding() != c.finding {
				t.Errorf("a finding: %v, want %v", s.finding(), c.finding)
			}
		})
	}
}
