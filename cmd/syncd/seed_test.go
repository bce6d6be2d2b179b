package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"syncd/connectors"
	processes "syncd/internal/process"
	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// seeded is one job in each place where a job can stand, as the flows of the
// scripts have them: orders can be read again at their source, files cannot.
// Ages are days and a half, so that a slow run shows the same.
func seeded(now time.Time) []jobs.Row {
	ago := func(days int) time.Time { return now.Add(-time.Duration(24*days+12) * time.Hour) }
	later := now.Add(5 * 24 * time.Hour)
	var rows []jobs.Row
	row := func(flow, key string, state jobs.State, reason jobs.Reason, set func(*jobs.Row)) {
		r := jobs.Row{RowID: jobs.RowID{Flow: flow, Key: key}, Client: "erp", Entity: "order", SourceID: "src-" + key,
			State: state, Reason: reason, Generation: 2, Desired: connectors.Stamp{Version: 1795000000000000, Observed: ago(4)},
			ChangedAt: ago(5), ReadAt: ago(4), Hash: jobs.HashBody([]byte(key)), Body: json.RawMessage(`{"ref":"` + strconv.Itoa(len(key)) + `","name":"Ada"}`),
			Attempt: 3, Tries: 1, LastAt: ago(3)}
		switch state {
		case jobs.Done:
			r.AppliedGeneration, r.AppliedAt, r.AppliedHash, r.LastClass = 2, ago(3), r.Hash, connectors.Applied
		case jobs.Ready:
			r.OpenSince, r.DueAt = ago(2), ago(1)
		}
		if set != nil {
			set(&r)
		}
		rows = append(rows, r)
	}
	last := func(c connectors.Class, code, message string) func(*jobs.Row) {
		return func(r *jobs.Row) { r.LastClass, r.LastCode, r.LastMessage = c, code, message }
	}
	and := func(sets ...func(*jobs.Row)) func(*jobs.Row) {
		return func(r *jobs.Row) {
			for _, s := range sets {
				s(r)
			}
		}
	}
	doubt := func(r *jobs.Row) { r.UnresolvedAt = ago(3) }
	due := func(r *jobs.Row) { r.DueAt = later }

	row("orders", "done", jobs.Done, "", nil)
	row("orders", "done/with/slashes", jobs.Done, "", nil)
	row("orders", "done-stale", jobs.Done, "", last(connectors.Stale, "newer_version", ""))
	row("orders", "done-gone", jobs.Done, jobs.ReasonIgnored, func(r *jobs.Row) { r.Gone = true })
	row("orders", "done-frozen", jobs.Done, jobs.ReasonIgnored, last(connectors.Frozen, "posted", "the invoice is posted"))
	row("orders", "done-superseded", jobs.Done, jobs.ReasonSuperseded, nil)
	row("orders", "done-discarded", jobs.Done, jobs.ReasonDiscarded, nil)
	row("orders", "done-discarded-in-doubt", jobs.Done, jobs.ReasonDiscarded, doubt)
	row("orders", "done-renamed", jobs.Done, jobs.ReasonRenamed, nil)
	row("orders", "done-expired", jobs.Done, jobs.ReasonExpired, last(connectors.Expired, "max_age", "older than max_age 1h0m0s"))
	row("orders", "dead-failed", jobs.Dead, jobs.ReasonFailed, last(connectors.Invalid, "http_422", "price must not be negative"))
	row("orders", "dead-escape\x1b[31m\u202eevil", jobs.Dead, jobs.ReasonFailed, last(connectors.Invalid, "http_422", "no \x1b]0;owned\x07 way\r\nreally"))
	row("orders", "dead-expired", jobs.Dead, jobs.ReasonExpired, last(connectors.Expired, "max_age", "older than max_age 1h0m0s"))
	row("files", "dead-expired", jobs.Dead, jobs.ReasonExpired, last(connectors.Expired, "max_age", "older than max_age 1h0m0s and its source cannot be asked for one record"))
	row("orders", "@dead-mapping", jobs.Dead, jobs.ReasonMapping, last(connectors.Invalid, "mapping", "price is missing"))
	row("orders", "dead-renamed", jobs.Dead, jobs.ReasonRenamed, last(connectors.Invalid, "renamed", "the source record had the key old and now has dead-renamed; say on_rename: rename or recreate in flow orders, then replay this row"))
	row("orders", "held", jobs.Held, "", and(last(connectors.Unknown, "timeout", "no answer within 30s"), doubt))
	row("orders", "ready", jobs.Ready, "", func(r *jobs.Row) { r.Attempt = 0 })
	row("orders", "ready-retry", jobs.Ready, jobs.ReasonRetry, and(last(connectors.Transient, "connect", "connection refused"), due))
	row("orders", "ready-in-doubt", jobs.Ready, jobs.ReasonUnresolved, and(last(connectors.Unknown, "timeout", "no answer within 30s"), doubt, due))
	row("orders", "ready-throttled", jobs.Ready, jobs.ReasonThrottled, and(last(connectors.Throttled, "http_429", "429 Retry-After: 60"), due))
	row("orders", "ready-auth", jobs.Ready, jobs.ReasonAuth, and(last(connectors.Auth, "http_401", ""), due))
	row("orders", "ready-waiting", jobs.Ready, jobs.ReasonWaiting, and(last(connectors.Waiting, "reference", ""), due,
		func(r *jobs.Row) { r.WaitEntity, r.WaitKey = "customer", "C-1" }))
	row("orders", "ready-refresh", jobs.Ready, jobs.ReasonRefresh, and(last(connectors.Expired, "max_age", "older than max_age 1h0m0s"), due))
	row("gone-flow", "no-flow", jobs.Ready, "", nil)
	row("orders", "running", jobs.Ready, "", nil)
	return rows
}

// cmdSeed makes a journal: seed FILE, then any of
//
//	many       25 jobs that are done, instead of one in each place
//	quiet      one job that is done
//	paused     both clients paused, one of them suspended
//	throttled  one client paused by its quota
//	order      the jobs of a flow with order: every, instead of one in each place
//	lacking    two jobs put off because the daemon that has the client erp lacks their flow
//	circle     two jobs that wait for each other, and one behind them
//	hands      keys that other source records claim, records asked of their source,
//	           and a done job whose newer state is dead
//	doubt      a write in doubt that was just sent
//	held       expiry of the client erp is held since yesterday, an hour at most
//	bound      what ties the records of the flows of syncd.yaml
func cmdSeed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: seed FILE [many|quiet|order] [paused|throttled] [doubt] [held] [bound]")
	}
	ts.Check(seed(ts.MkAbs(args[0]), args[1:]))
	if slices.Contains(args, "bound") {
		ts.Check(bindAll(ts.MkAbs(args[0]), ts.MkAbs("syncd.yaml")))
	}
}

func seed(path string, what []string) error {
	ctx := context.Background()
	e, err := sqlite.Open(ctx, path, sqlite.Options{Exclusive: true})
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Update(ctx, func(tx jobs.Tx) error {
		now := e.Now()
		has := func(word string) bool { return slices.Contains(what, word) }
		erp := jobs.ClientState{Client: "erp", PausedUntil: now.Add(9 * 24 * time.Hour), Reason: "suspended", Evidence: "credentials refused: http_401", Since: now.Add(-time.Hour)}
		shop := jobs.ClientState{Client: "shop", PausedUntil: now.Add(7 * 24 * time.Hour), Reason: "throttled", Evidence: "429 Retry-After: 25200", Since: now.Add(-time.Hour)}
		var errs []error
		switch {
		case has("many"):
			errs = append(errs, seedDone(ctx, tx, now, 25))
		case has("order"):
			errs = append(errs, tx.PutRows(ctx, seededOrder(now)))
		case has("quiet"):
			errs = append(errs, seedDone(ctx, tx, now, 1))
		default:
			errs = append(errs, seedAll(ctx, tx, now))
		}
		if has("doubt") {
			errs = append(errs, tx.PutRows(ctx, []jobs.Row{{RowID: jobs.RowID{Flow: "orders", Key: "just sent"}, Client: "erp", Entity: "order",
				State: jobs.Ready, Reason: jobs.ReasonUnresolved, Generation: 1, UnresolvedAt: now, DueAt: now.Add(time.Hour)}}))
		}
		if has("paused") {
			errs = append(errs, tx.PutPause(ctx, erp))
		}
		if has("held") {
			errs = append(errs, tx.PutExpiryHold(ctx, "erp", jobs.Standing{Since: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC),
				Code: "mass_expiry", Message: "60 jobs were too old to be sent within a minute", Until: now.Add(time.Hour)}))
		}
		if has("hands") {
			errs = append(errs, seedHands(ctx, tx, now))
		}
		if has("lacking") {
			errs = append(errs, seedLacking(ctx, tx, now))
		}
		if has("circle") {
			var rows []jobs.Row
			for key, awaited := range map[string]string{"A": "B", "B": "A", "C": "A"} {
				rows = append(rows, jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "order", SourceID: key, State: jobs.Ready, Reason: jobs.ReasonWaiting,
					Generation: 1, Hash: []byte{1}, OpenSince: now, DueAt: now.Add(24 * time.Hour), LastClass: connectors.Waiting, LastCode: "reference", WaitEntity: "order", WaitKey: awaited})
			}
			errs = append(errs, tx.PutRows(ctx, rows))
		}
		if has("paused") || has("throttled") {
			errs = append(errs, tx.PutPause(ctx, shop))
		}
		return errors.Join(errs...)
	})
}

// bindAll ties the journal's records to the flows of a configuration.
func bindAll(path, file string) error {
	ctx := context.Background()
	c, err := (&app{config: file, secrets: &secrets{}}).load()
	if err != nil {
		return err
	}
	e, err := sqlite.Open(ctx, path, sqlite.Options{Exclusive: true})
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = jobs.New(e, jobs.Options{}).Bind(ctx, flows(c))
	return err
}

// seededLacking are jobs that were put off for want of their flow.
func seededLacking(now time.Time) (rows []jobs.Row) {
	for _, key := range []string{"L1", "L2"} {
		rows = append(rows, jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "order", SourceID: key, State: jobs.Ready, Reason: jobs.ReasonNoFlow,
			Generation: 1, Hash: []byte{1}, Body: json.RawMessage(`{}`), OpenSince: now.Add(-time.Hour), DueAt: now.Add(24 * time.Hour)})
	}
	return rows
}

func seedLacking(ctx context.Context, tx jobs.Tx, now time.Time) error {
	_, err := tx.TakeLease(ctx, jobs.Lease{LaneID: jobs.LaneID{Client: "erp"}, Owner: "old", Token: "t"}, "", 24*time.Hour)
	return errors.Join(err, tx.PutRows(ctx, seededLacking(now)), tx.PutDaemon(ctx, jobs.Daemon{Owner: "old", Process: processes.ID{Host: "host-2", PID: 7}, Since: now}, 24*time.Hour))
}

func seedDone(ctx context.Context, tx jobs.Tx, now time.Time, n int) error {
	var rows []jobs.Row
	for i := range n {
		rows = append(rows, jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: fmt.Sprintf("it's %02d/x", i)}, Client: "erp", Entity: "order", State: jobs.Done,
			Generation: 1, AppliedGeneration: 1, AppliedAt: now, Hash: []byte{1}, LastAt: now, LastClass: connectors.Applied})
	}
	return tx.PutRows(ctx, rows)
}

// seedAll puts a job in each place, one of them with a history and a contender, one running.
func seedAll(ctx context.Context, tx jobs.Tx, now time.Time) error {
	id := jobs.RowID{Flow: "orders", Key: "dead-failed"}
	return errors.Join(
		tx.PutRows(ctx, seeded(now)),
		tx.PutLinks(ctx, "erp", []jobs.Link{{EntityKey: jobs.EntityKey{Entity: "order", Key: "done"}, Link: "4711", SeenAt: now}}),
		tx.AddAttempts(ctx, []jobs.Attempt{
			{RowID: id, Number: 2, Generation: 1, At: now.Add(-4 * time.Hour), Class: connectors.Transient, Code: "connect", Message: "connection refused"},
			{RowID: id, Number: 3, Generation: 2, At: now.Add(-3 * time.Hour), Class: connectors.Invalid, Code: "http_422", Message: "price must not be negative"},
		}),
		tx.PutContender(ctx, jobs.Contender{RowID: id, SourceID: "src-other", Since: now, Hash: []byte{2}, Body: json.RawMessage(`{}`)}),
		tx.AddClaim(ctx, jobs.Claim{ID: "c1", Client: "erp", Owner: "somebody", At: now.Add(-60 * time.Hour), Open: 1,
			Jobs: []jobs.ClaimedJob{{RowID: jobs.RowID{Flow: "orders", Key: "running"}, Generation: 2, Attempt: 4}}}))
}

// seedHands adds to the jobs of seedAll what only records that change hands have.
func seedHands(ctx context.Context, tx jobs.Tx, now time.Time) error {
	claim := func(key, source string) error {
		return tx.PutContender(ctx, jobs.Contender{RowID: jobs.RowID{Flow: "orders", Key: key}, SourceID: source, Since: now, Hash: []byte{2}, Body: json.RawMessage(`{}`)})
	}
	ask := func(key string, k jobs.RequestKind) jobs.Request {
		return jobs.Request{Client: "shop", Flow: "orders", SourceID: "src-" + key, Kind: k, Key: key, At: now.Add(-36 * time.Hour), DueAt: now.Add(-36 * time.Hour)}
	}
	return errors.Join(claim("done", "src-8"), claim("done", "src-9"), claim("ready", "src-8"),
		tx.AddRequests(ctx, []jobs.Request{ask("@dead-mapping", jobs.Remap), ask("ready-refresh", jobs.Refresh)}),
		tx.PutSources(ctx, "orders", []jobs.SourceRecord{{ID: "src-done-stale", Keys: []string{"dead-newer", "done-stale"}}}),
		tx.PutRows(ctx, []jobs.Row{{RowID: jobs.RowID{Flow: "orders", Key: "dead-newer"}, Client: "erp", Entity: "order", SourceID: "src-done-stale", State: jobs.Dead,
			Reason: jobs.ReasonRenamed, Generation: 1, LastClass: connectors.Invalid, LastCode: "renamed", LastAt: now},
			{RowID: jobs.RowID{Flow: "orders", Key: "it's\n$(dead) too"}, Client: "erp", Entity: "order", SourceID: "src-quoted", State: jobs.Dead,
				Reason: jobs.ReasonFailed, Generation: 1, LastClass: connectors.Invalid, LastCode: "http_422", LastAt: now, ReadAt: now},
			{RowID: jobs.RowID{Flow: "orders", Key: "@?0123"}, Client: "erp", Entity: "order", State: jobs.Dead,
				Reason: jobs.ReasonMapping, Generation: 1, LastClass: connectors.Invalid, LastCode: "mapping", LastMessage: "the line has 3 values and the header 2", LastAt: now.Add(-60 * time.Hour)}}))
}

// TestSeedHasEveryReason keeps the scripts' jobs complete when a reason is added.
func TestSeedHasEveryReason(t *testing.T) {
	have := map[jobs.Reason]bool{}
	for _, r := range slices.Concat(seeded(time.Now()), seededOrder(time.Now()), seededLacking(time.Now())) {
		have[r.Reason] = true
	}
	for _, r := range reasons() {
		if !have[r] {
			t.Errorf("no job of the scripts shows the reason %q", r)
		}
	}
}
