package main

import (
	"encoding/json"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// seededOrder is one job in each place where only one of a flow with order: every can
// stand: product P1 is held up by a dead letter, P3 by a write that nobody knows of,
// P2 goes on.
func seededOrder(now time.Time) []jobs.Row {
	var rows []jobs.Row
	row := func(key, group string, version int64, state jobs.State, reason jobs.Reason, set func(*jobs.Row)) {
		r := jobs.Row{RowID: jobs.RowID{Flow: "movements", Key: key}, Client: "erp", Entity: "movement", SourceID: "src-" + key, Group: group,
			State: state, Reason: reason, Generation: 1, Desired: connectors.Stamp{Version: version, Observed: now}, ReadAt: now,
			Hash: jobs.HashBody([]byte(key)), Body: json.RawMessage(`{"n":1}`)}
		switch state {
		case jobs.Ready:
			r.OpenSince, r.DueAt = now.Add(-60*time.Hour), now
			if reason == jobs.ReasonBehind {
				r.DueAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			}
		default:
			r.LastAt, r.Attempt = now.Add(-60*time.Hour), 1
		}
		if set != nil {
			set(&r)
		}
		rows = append(rows, r)
	}
	last := func(c connectors.Class, code, message string) func(*jobs.Row) {
		return func(r *jobs.Row) { r.LastClass, r.LastCode, r.LastMessage = c, code, message }
	}
	row("M-1", "P1", 1, jobs.Dead, jobs.ReasonFailed, last(connectors.Invalid, "http_422", "the period is closed"))
	row("M-2", "P1", 2, jobs.Ready, jobs.ReasonBehind, nil)
	row("M-3", "P1", 3, jobs.Ready, jobs.ReasonBehind, nil)
	row("M-4", "P2", 4, jobs.Ready, jobs.ReasonRetry, last(connectors.Transient, "connect", "connection refused"))
	row("M-5", "P2", 5, jobs.Ready, jobs.ReasonBehind, nil)
	row("M-0", "", 0, jobs.Dead, jobs.ReasonLate, func(r *jobs.Row) {
		r.WaitKey, r.Attempt = "P2", 0
		last(connectors.Invalid, "late", "it comes before M-4 in group P2, and that one was sent already when it was read")(r)
	})
	row("@M-1:changed", "", 1, jobs.Dead, jobs.ReasonRefused, func(r *jobs.Row) {
		r.Attempt = 0
		last(connectors.Invalid, "changed", "event M-1 was taken before with other content, and an event is written once; it stays as it was")(r)
	})
	row("M-6", "P3", 6, jobs.Held, "", func(r *jobs.Row) {
		r.UnresolvedAt = now.Add(-60 * time.Hour)
		last(connectors.Unknown, "timeout", "no answer within 30s")(r)
	})
	row("M-7", "P3", 7, jobs.Ready, jobs.ReasonBehind, nil)
	row("M-8", "P4", 8, jobs.Done, "", func(r *jobs.Row) {
		r.AppliedGeneration, r.AppliedHash, r.LastClass, r.AppliedAt = 1, r.Hash, connectors.Applied, r.LastAt
	})
	return rows
}
