package jobs

import (
	"maps"
	"testing"
	"time"
)

func TestAgesTellWhatIsDueFromWhatIsWithheld(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ago := func(m int) time.Time { return now.Add(-time.Duration(m) * time.Minute) }
	flows := map[string]*Flow{"a": {Client: "erp", SourceClient: "shop"}, "b": {Client: "erp"}, "c": {Client: "crm"}, "e": {Client: "erp"},
		"f": {Client: "pos", MaxAge: 20 * time.Minute}, "g": {Client: "bank"}, "h": {Client: "bank"}}
	o := Overview{At: now,
		Flows: []FlowState{{Flow: "a"}, {Flow: "b", Suspended: Standing{Since: now, Until: now.Add(time.Minute)}}, {Flow: "e", Suspended: Standing{Since: now, Until: ago(1)}}},
		Clients: []ClientState{{Client: "crm", PausedUntil: now.Add(time.Minute)}, {Client: "erp", PausedUntil: now},
			{Client: "shop", PausedUntil: now.Add(time.Minute)}, {Client: "pos", ExpiryHeld: Standing{Since: ago(2), Until: now.Add(time.Hour)}}}, Redelivered: []string{"h", "gone"},
		Counts: []Count{
			{Flow: "a", State: Ready, N: 2, Due: 2, OldestOpen: ago(50), OldestDue: ago(5)},
			{Flow: "a", State: Ready, Reason: ReasonRetry, Class: "transient", N: 3, Due: 1, OldestOpen: ago(40), OldestDue: ago(9)},
			{Flow: "a", State: Ready, Reason: ReasonRetry, Class: "conflict", N: 1, OldestOpen: ago(45), OldestDue: now.Add(time.Hour)},
			{Flow: "a", State: Ready, Reason: ReasonWaiting, N: 1, OldestOpen: ago(30), OldestDue: now.Add(time.Hour)},
			{Flow: "a", State: Dead, N: 9, OldestOpen: ago(900)},
			{Flow: "b", State: Ready, N: 1, Due: 1, OldestOpen: ago(7), OldestDue: ago(7)},
			{Flow: "c", State: Ready, N: 1, Due: 1, OldestOpen: ago(8), OldestDue: ago(8)},
			{Flow: "c", State: Ready, Reason: ReasonThrottled, N: 1, OldestOpen: ago(6), OldestDue: now.Add(time.Minute)},
			{Flow: "a", State: Ready, Reason: ReasonRefresh, N: 1, OldestOpen: ago(20), OldestDue: now.Add(time.Hour)},
			{Flow: "a", State: Ready, Reason: ReasonBehind, N: 1, OldestOpen: ago(4), OldestDue: now.Add(time.Hour)},
			{Flow: "e", State: Ready, N: 2, Due: 1, OldestOpen: ago(12), OldestDue: ago(11)},
			{Flow: "f", State: Ready, N: 3, Due: 1, OldestOpen: ago(25), OldestDue: ago(1)},
			{Flow: "g", State: Ready, N: 1, Due: 1, OldestOpen: ago(2), OldestDue: ago(2)},
			{Flow: "d", State: Ready, N: 1, OldestOpen: ago(3), OldestDue: now.Add(time.Hour)},
		}}
	got := map[string]time.Time{}
	for _, a := range o.Ages(flows) {
		got[a.Flow+" "+a.Reason] = a.Oldest
	}
	want := map[string]time.Time{"a ": ago(9), "a retry": ago(45), "a waiting": ago(30), "b flow_suspended": ago(7), "c paused": ago(8), "d no_flow": ago(3),
		"c throttled": ago(6), "a paused": ago(20), "a behind": ago(4), "e ": ago(11), "e flow_suspended": ago(12), "f ": ago(1), "f expiry_held": ago(25), "g redelivered": ago(2)}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
