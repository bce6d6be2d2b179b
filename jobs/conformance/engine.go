package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"syncd/connectors"
	"syncd/jobs"
)

// Engine runs every sentence that package jobs promises of an engine. open
// returns an engine on a fresh place for this test alone, with its own clock.
func Engine(t *testing.T, open func(t *testing.T) jobs.Engine) {
	for _, group := range [][]sentence{rowSentences, dueSentences, flowSentences, claimSentences, listSentences, transactionSentences,
		leaseSentences, closeSentences, shardSentences, pinSentences, groupSentences, runSentences, pruneSentences, walkSentences} {
		for _, s := range group {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.prove(&engineTest{T: t, e: open(t)})
			})
		}
	}
}

type sentence struct {
	name  string
	prove func(t *engineTest)
}

// engineTest is one engine under test and the words to test it with. Its methods
// that end the test are for the test's own goroutine.
type engineTest struct {
	*testing.T
	e jobs.Engine
}

// noon is a moment with microseconds, around which the rows of tests are made.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 123457000, time.UTC)

func (t *engineTest) update(fn func(ctx context.Context, tx jobs.Tx) error) {
	t.Helper()
	ctx := t.Context()
	if err := t.e.Update(ctx, func(tx jobs.Tx) error { return fn(ctx, tx) }); err != nil {
		t.Fatalf("update: %v", err)
	}
}

func (t *engineTest) view(fn func(ctx context.Context, tx jobs.Tx) error) {
	t.Helper()
	ctx := t.Context()
	if err := t.e.View(ctx, func(tx jobs.Tx) error { return fn(ctx, tx) }); err != nil {
		t.Fatalf("view: %v", err)
	}
}

func (t *engineTest) put(rows ...jobs.Row) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutRows(ctx, rows) })
}

// get returns rows with their bodies by id.
func (t *engineTest) get(ids ...jobs.RowID) map[jobs.RowID]jobs.Row {
	t.Helper()
	out := map[jobs.RowID]jobs.Row{}
	t.view(func(ctx context.Context, tx jobs.Tx) error {
		rows, err := tx.Rows(ctx, ids, true)
		for _, r := range rows {
			if _, twice := out[r.RowID]; twice {
				t.Errorf("row %s came twice", r.RowID)
			}
			out[r.RowID] = r
		}
		return err
	})
	return out
}

// same compares what was read with what was wanted; an empty slice is as good as none.
func (t *engineTest) same(what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

// fail reports an error of a goroutine of the test.
func (t *engineTest) fail(what string, err error) {
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func rid(key string) jobs.RowID { return jobs.RowID{Flow: "orders", Key: key} }

// plain is a ready row that is due at noon.
func plain(key string) jobs.Row {
	return jobs.Row{RowID: rid(key), Client: "erp", Entity: "sale", State: jobs.Ready, Generation: 1,
		Body: json.RawMessage(`{"key":"` + key + `"}`), DueAt: noon, OpenSince: noon}
}

// full is a row in which every field is set, each to something of its own.
func full(key string) jobs.Row {
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * 1234567 * time.Microsecond) }
	return jobs.Row{RowID: rid(key), Client: "erp", Entity: "sale", Shard: 11, SourceID: "gid://shop/Order/1", Group: "group 1", State: jobs.Held, Reason: jobs.ReasonUnresolved,
		Generation: 2, Desired: connectors.Stamp{Epoch: 3, Version: 4, Observed: at(1)}, ChangedAt: at(2), ReadAt: at(3),
		Hash: []byte{0, 1, 2, 255}, Body: json.RawMessage(`{"total": 10.10}`), Gone: true, Attempt: 5, Tries: 6, Streak: 7, FirstTryAt: at(4),
		AppliedGeneration: 8, AppliedHash: []byte{9, 0, 9}, AppliedGone: true, AppliedAt: at(5), UnresolvedAt: at(6), Misses: 10, MissCode: "http_500",
		OpenSince: at(7), DueAt: at(8), KeyEpoch: 1 << 60, Solo: true, LastClass: connectors.Unknown, LastCode: "timeout", LastMessage: "no answer within 30 s", LastAt: at(9),
		WaitEntity: "party", WaitKey: "VC-12", RenamedFrom: "OLD-1"}
}

func keysOf(rows []jobs.Row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Key
	}
	return out
}

// numbered makes n keys in byte order.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("K-%05d", i)
	}
	return out
}
