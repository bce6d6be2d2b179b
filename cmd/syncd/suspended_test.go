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
		"a pause beyond":  {at.Add(48 * time.Hour), ratelimit.ReasonBeyond, "its server asked for a longer pause than max_pause", true},
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

func TestStatusTellsWhatStandsOfFlowsAndClients(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	stands := jobs.Standing{Since: at.Add(-time.Hour), Code: "c", Message: "country is missing", Until: at.Add(4 * time.Minute)}
	tried := stands
	tried.Until = at
	for name, c := range map[string]struct {
		flow   jobs.FlowState
		client jobs.ClientState
		says   []string
	}{
		"a suspended flow":     {flow: jobs.FlowState{Suspended: stands}, says: []string{"suspended: flow orders, since 2026-11-29T09:00:00Z: country is missing", "the next is tried at 2026-11-29T10:04:00Z", "mend the cause"}},
		"one that is tried":    {flow: jobs.FlowState{Suspended: tried}, says: []string{"suspended: flow orders", "a job of it is tried now"}},
		"a flow that is full":  {flow: jobs.FlowState{Full: stands}, says: []string{"not read: flow orders, since 2026-11-29T09:00:00Z: country is missing"}},
		"expiry that is held":  {client: jobs.ClientState{ExpiryHeld: stands}, says: []string{"expiry held: client erp, since 2026-11-29T09:00:00Z, until 2026-11-29T10:04:00Z", "syncd expiry resume erp"}},
		"expiry that was held": {client: jobs.ClientState{ExpiryHeld: jobs.Standing{Code: "may_expire", Until: at.Add(time.Hour)}}},
		"nothing":              {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.flow.Flow, c.client.Client = "orders", "erp"
			s := statusOf(&config.Config{Flows: map[string]*config.Flow{"orders": {Enabled: true}}, Clients: map[string]*config.Client{"erp": {}}},
				jobs.Overview{At: at, Flows: []jobs.FlowState{c.flow}, Clients: []jobs.ClientState{c.client}})
			s.Daemon = daemonUnknown
			var out strings.Builder
			if err := s.print(&out); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("does not say %q:\n%s", want, out.String())
				}
			}
			if s.finding() != (len(c.says) > 0) {
				t.Errorf("a finding: %v\n%s", s.finding(), out.String())
			}
		})
	}
}
