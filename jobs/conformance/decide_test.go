package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/memory"
)

// Whatever a row and its surroundings are: a claim takes the row at a moment exactly
// if its explanation says that it is due.
func TestAJobIsClaimedExactlyWhenItsExplanationSaysDue(t *testing.T) {
	seen := map[jobs.Reason]int{}
	due, drawn := 0, 0
	missing := func() []jobs.Reason {
		return slices.DeleteFunc([]jobs.Reason{"no_flow", "paused", "flow_suspended", "expiry_held", "refresh", "expired", "waiting", "behind", "no_body"},
			func(r jobs.Reason) bool { return seen[r] > 0 })
	}
	check := func(rt *rapid.T) {
		drawn++
		ctx := context.Background()
		now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
		e := memory.Open(memory.Options{Now: func() time.Time { return now }})
		j := jobs.New(e, jobs.Options{Owner: "d"})
		chance := func(name string, of int) bool { return rapid.IntRange(1, of).Draw(rt, name) == 1 }
		// Times lie around now and around the limits of the flow.
		when := func(name string) time.Time {
			return now.Add(rapid.SampledFrom([]time.Duration{-3 * time.Hour, -61 * time.Minute, -time.Hour, -11 * time.Minute, -10 * time.Minute, -time.Second, 0, time.Microsecond, time.Minute, 3 * time.Hour}).Draw(rt, name))
		}
		f := &jobs.Flow{Name: "orders", SourceClient: "shop", Client: "erp", Entity: "order", Strategy: connectors.ExternalRef, Retry: jobs.DefaultRetry(),
			OnExisting: "adopt", OnDelete: rapid.SampledFrom([]string{"ignore", "delete"}).Draw(rt, "on_delete"), OnExpire: rapid.SampledFrom([]string{"dead", "drop"}).Draw(rt, "on_expire"),
			CanRefresh: rapid.Bool().Draw(rt, "can refresh")}
		if chance("max_age", 2) {
			f.MaxAge = time.Hour
		}
		if chance("fresh_within", 2) {
			f.FreshWithin = 10 * time.Minute
		}
		flows := map[string]*jobs.Flow{"orders": f}
		if chance("no flow", 10) {
			flows = map[string]*jobs.Flow{}
		}
		row := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: "K"}, Client: "erp", Entity: "order", SourceID: rapid.SampledFrom([]string{"1", "1", ""}).Draw(rt, "source id"),
			State: jobs.Ready, Reason: rapid.SampledFrom([]jobs.Reason{"", jobs.ReasonRetry, jobs.ReasonUnresolved, jobs.ReasonThrottled, jobs.ReasonWaiting, jobs.ReasonRefresh, jobs.ReasonNoFlow}).Draw(rt, "reason"),
			Generation: 3, Attempt: 2, ReadAt: when("read at"), Hash: []byte("h"), Gone: chance("gone", 6), OpenSince: when("open since"), DueAt: when("due at"), LastAt: when("last at"),
			Solo: chance("solo", 5)}
		row.Desired.Observed = row.ReadAt
		if !chance("no body", 8) {
			row.Body = json.RawMessage(`{"v":1}`)
		}
		if chance("applied", 2) {
			row.AppliedGeneration, row.AppliedHash = 2, []byte(rapid.SampledFrom([]string{"h", "g"}).Draw(rt, "applied hash"))
		}
		if chance("in doubt", 4) {
			row.UnresolvedAt = when("unresolved at")
		}
		fs := jobs.FlowState{Flow: "orders"}
		if chance("suspended", 3) {
			fs.Suspended = jobs.Standing{Since: when("suspended since"), Code: "required", Message: "m", Until: when("next probe"), Tries: rapid.IntRange(0, 5).Draw(rt, "probes")}
		}
		cs := jobs.ClientState{Client: "erp"}
		if chance("paused", 4) {
			cs.PausedUntil, cs.Reason = when("paused until"), "throttled"
		}
		if chance("held", 3) {
			cs.ExpiryHeld = jobs.Standing{Since: when("held since"), Code: "mass_expiry", Message: "m", Until: when("held until")}
		}
		rows := []jobs.Row{row}
		if chance("an heir", 4) {
			rows[0].WaitEntity, rows[0].WaitKey = "order", "H"
			heir := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: "H"}, Client: "erp", Entity: "order", SourceID: "2", Generation: 1, DueAt: now.Add(time.Hour),
				State:       rapid.SampledFrom([]jobs.State{jobs.Ready, jobs.Done, jobs.Dead}).Draw(rt, "heir"),
				RenamedFrom: rapid.SampledFrom([]string{"K", ""}).Draw(rt, "renamed from")}
			rows = append(rows, heir)
		}
		if chance("a group", 3) {
			f.Order, f.OnDead, f.MaxAge = "every", rapid.SampledFrom([]string{"hold", "skip"}).Draw(rt, "on_dead"), 0
			rows[0].Group, rows[0].Desired.Version = "g", 5
			if chance("others of the group", 2) {
				rows = append(rows, jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: "E"}, Client: "erp", Entity: "order", SourceID: "3", Group: "g", Generation: 1,
					Desired: connectors.Stamp{Version: rapid.Int64Range(4, 6).Draw(rt, "place")}, DueAt: now.Add(time.Hour),
					State: rapid.SampledFrom([]jobs.State{jobs.Ready, jobs.Done, jobs.Dead, jobs.Held}).Draw(rt, "other")})
			}
		}
		running := chance("running", 6)
		err := e.Update(ctx, func(tx jobs.Tx) error {
			if err := tx.PutRows(ctx, rows); err != nil {
				return err
			}
			if err := errors.Join(tx.PutPause(ctx, cs), tx.PutExpiryHold(ctx, "erp", cs.ExpiryHeld)); err != nil {
				return err
			}
			if running {
				c := jobs.Claim{ID: "c", Client: "erp", Owner: "d", At: now, Open: 1, Jobs: []jobs.ClaimedJob{{RowID: row.RowID, Generation: 3, Attempt: 3}}}
				if err := tx.AddClaim(ctx, c); err != nil {
					return err
				}
			}
			return tx.SaveFlow(ctx, fs)
		})
		if err != nil {
			rt.Fatal(err)
		}
		d, s, ok, err := j.Surround(ctx, row.RowID, flows)
		if err != nil || !ok {
			rt.Fatalf("found %v, %v", ok, err)
		}
		x := jobs.Why(&d.Row, s, now)
		c, err := j.Claim(ctx, jobs.ClaimRequest{Client: "erp", Limit: 10, Flows: flows, Paused: cs.PausedUntil,
			Busy: func(id jobs.RowID, _ jobs.EntityKey) bool { return running && id == row.RowID }})
		if err != nil {
			rt.Fatal(err)
		}
		claimed := false
		for _, jb := range c.Jobs {
			claimed = claimed || jb.RowID == row.RowID
		}
		if claimed != x.Due {
			rt.Fatalf("claimed %v, and its explanation says due %v: %+v", claimed, x.Due, x)
		}
		if x.Text == "" || x.Next == "" {
			rt.Fatalf("not explained: %+v", x)
		}
		seen[jobs.Reason(x.Reason)]++
		if x.Due {
			due++
		}
	}
	// The rarest of the reasons comes about once in five hundred rows. How many a round
	// has is for flags to say, so it is the rows that are counted.
	for more := true; more; more = drawn > 0 && drawn < 20_000 && (due == 0 || len(missing()) > 0) {
		rapid.Check(t, check)
	}
	if len(missing()) > 0 {
		t.Errorf("no row was explained by %q: %v", missing(), seen)
	}
	if due == 0 {
		t.Error("no row was due")
	}
}
