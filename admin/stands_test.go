package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"syncd/jobs"
)

func TestMetricsTellDueFromWithheldAndWhatStands(t *testing.T) {
	o := jobs.Overview{
		At: at,
		Counts: []jobs.Count{
			{Flow: "orders", State: jobs.Ready, N: 3, Due: 1, OldestOpen: at.Add(-time.Hour), OldestDue: at.Add(-20 * time.Second)},
			{Flow: "orders", State: jobs.Ready, Reason: jobs.ReasonRetry, N: 2, OldestOpen: at.Add(-10 * time.Minute)},
			{Flow: "orders", State: jobs.Dead, Reason: jobs.ReasonFailed, N: 2, OldestOpen: at.Add(-24 * time.Hour)},
			{Flow: "items", State: jobs.Ready, N: 1, Due: 1, OldestOpen: at.Add(-2 * time.Hour), OldestDue: at.Add(-2 * time.Hour)},
			{Flow: "stock", State: jobs.Ready, N: 1, Due: 1, OldestOpen: at.Add(-3 * time.Hour), OldestDue: at.Add(-3 * time.Hour)},
			{Flow: "gone", State: jobs.Ready, N: 1, Due: 1, OldestOpen: at.Add(-4 * time.Hour), OldestDue: at.Add(-4 * time.Hour)},
		},
		Flows: []jobs.FlowState{{Flow: "orders", Full: jobs.Standing{Since: time.Unix(1000, 0)}}, {Flow: "items", Suspended: jobs.Standing{Since: time.Unix(2000, 0), Until: time.Unix(1<<33, 0)}}},
		Clients: []jobs.ClientState{{Client: "erp", ExpiryHeld: jobs.Standing{Since: time.Unix(3000, 0)}},
			{Client: "store", PausedUntil: at.Add(time.Minute)}},
	}
	m := NewMetrics("1.2.3")
	m.Watch(State{Journal: &fakeJournal{o: o}, Clients: clients, Rules: func() map[string]*jobs.Flow {
		return map[string]*jobs.Flow{"orders": {Name: "orders", Client: "erp"}, "items": {Name: "items", Client: "erp"}, "stock": {Name: "stock", Client: "store"}}
	}})
	const want = `
# HELP syncd_client_expiry_held_since_timestamp_seconds Since when nothing that is written to the client expires, because too much did at once; 0 while it may.
# TYPE syncd_client_expiry_held_since_timestamp_seconds gauge
syncd_client_expiry_held_since_timestamp_seconds{client="erp"} 3000
syncd_client_expiry_held_since_timestamp_seconds{client="store"} 0
# HELP syncd_flow_full_since_timestamp_seconds Since when the flow is not read because too much is open or the disk is low; 0 while it is.
# TYPE syncd_flow_full_since_timestamp_seconds gauge
syncd_flow_full_since_timestamp_seconds{flow="items"} 0
syncd_flow_full_since_timestamp_seconds{flow="orders"} 1000
# HELP syncd_flow_suspended_since_timestamp_seconds Since when the flow is suspended because its target refuses record after record; 0 while it is not.
# TYPE syncd_flow_suspended_since_timestamp_seconds gauge
syncd_flow_suspended_since_timestamp_seconds{flow="items"} 2000
syncd_flow_suspended_since_timestamp_seconds{flow="orders"} 0
# HELP syncd_jobs_due_age_seconds How long the job has been due that is due longest and could be written; 0 for none.
# TYPE syncd_jobs_due_age_seconds gauge
syncd_jobs_due_age_seconds{flow="items"} 0
syncd_jobs_due_age_seconds{flow="orders"} 20
syncd_jobs_due_age_seconds{flow="stock"} 0
# HELP syncd_jobs_withheld_age_seconds How long the oldest job has been open of those that are withheld, by what withholds them.
# TYPE syncd_jobs_withheld_age_seconds gauge
syncd_jobs_withheld_age_seconds{flow="gone",reason="no_flow"} 14400
syncd_jobs_withheld_age_seconds{flow="items",reason="flow_suspended"} 7200
syncd_jobs_withheld_age_seconds{flow="orders",reason="not_yet"} 3600
syncd_jobs_withheld_age_seconds{flow="orders",reason="retry"} 600
syncd_jobs_withheld_age_seconds{flow="stock",reason="paused"} 10800
`
	err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "syncd_client_expiry_held_since_timestamp_seconds", "syncd_flow_full_since_timestamp_seconds",
		"syncd_flow_suspended_since_timestamp_seconds", "syncd_jobs_due_age_seconds", "syncd_jobs_withheld_age_seconds")
	if err != nil {
		t.Error(err)
	}
}
