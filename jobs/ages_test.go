package jobs

import (
	"maps"
	"testing"
	"time"
)

func TestAgesTellWhatIsDueFromWhatIsWithheld(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ago := func(m int) time.Time { return now.Add(-time.Duration(m) * time.Minute) }
	flows := map[string]*Flow{"a": {Client: "erp"}, "b": {Client: "erp"}, "c": {Client: "crm"}}
	o := Overview{At: now,
		Flows:   []FlowState{{Flow: "a"}, {Flow: "b", Suspended: Standing{Since: now}}},
		Clients: []ClientState{{Client: "crm", PausedUntil: now.Add(time.Minute)}, {Client: "erp", PausedUntil: now}},
		Counts: []Count{
			{Flow: "a", State: Ready, N: 2, Due: 2, OldestOpen: ago(50), OldestDue: ago(5)},
			{Flow: "a", State: Ready, Reason: ReasonRetry, Class: "transient", N: 3, Due: 1, OldestOpen: ago(40), OldestDue: ago(9)},
			{Flow: "a", State: Ready, Reason: ReasonRetry, Class: "conflict", N: 1, OldestOpen: ago(45), OldestDue: now.Add(time.Hour)},
			{Flow: "a", State: Ready, Reason: ReasonWaiting, N: 1, OldestOpen: ago(30), OldestDue: now.Add(time.Hour)},
			{Flow: "a", State: Dead, N: 9, OldestOpen: ago(900)},
			{Flow: "b", State: Ready, N: 1, Due: 1, OldestOpen: ago(7), OldestDue: ago(7)},
			{Flow: "c", State: Ready, N: 1, Due: 1, OldestOpen: ago(8), OldestDue: ago(8)},
			{Flow: "d", State: Ready, N: 1, OldestOpen: ago(3), OldestDue: now.Add(time.Hour)},
		}}
	got := map[string]time.Time{}
	for _, a := range o.Ages(flows) {
		got[a.Flow+" "+a.Reason] = a.Oldest
	}
	want := map[string]time.Time{"a ": ago(9), "a retry": ago(45), "a waiting": ago(30), "b flow_suspended": ago(7), "c paused": ago(8), "d no_flow": ago(3)}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
