package sqlite

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/schema"
)

// ofVersion is the path of a journal as the syncd left it that knew no later version.
func ofVersion(t *testing.T, version int64, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	if _, err := create(path); err != nil {
		t.Fatal(err)
	}
	ms, _, err := schema.Migrations(migrations, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{path: path, o: Options{Exclusive: true, Now: time.Now}}
	if err := e.up(t.Context(), ms[:version]); err != nil {
		t.Fatal(err)
	}
	c, err := e.dial(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err = useWAL(t.Context(), c); err == nil {
		err = e.sign(t.Context(), c)
	}
	if err == nil {
		_, err = c.execWaiting(t.Context(), script)
	}
	if e := c.close(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return path
}

func TestAJournalOfVersionTwoIsBroughtUpWithAllItHolds(t *testing.T) {
	t.Parallel()
	path := ofVersion(t, 2, `
		INSERT INTO jobs (id, flow, key, client, entity, source_id, state, reason, generation, desired_epoch, desired_version, gone, attempt, tries, streak,
			applied_generation, applied_gone, misses, miss_code, open_since, due_at, solo, last_class, last_code, last_message, wait_entity, wait_key, renamed_from)
		VALUES (1, 'orders', 'A', 'erp', 'sale', 'S-1', 'ready', 'retry', 3, 1, 7, 0, 4, 2, 2, 2, 0, 0, '', 1000001, 2000002, 0, 'transient', 'http_503', 'no', '', '', ''),
			(2, 'orders', 'B', 'erp', 'sale', 'S-2', 'done', '', 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, '', NULL, 1000001, 0, 'applied', '', '', '', '', '');
		INSERT INTO bodies (id, body) VALUES (1, CAST(x'00' || '{"n": 1.0}' AS BLOB));
		INSERT INTO cursors (flow, cursor, epoch, page_starts, suspect, moved_at) VALUES ('orders', '{"after": 7}', 1, 0, '', 3000003);
		INSERT INTO clients (client, paused_until, reason, evidence, since, strikes, owner) VALUES ('erp', 4000004, 'throttled', '429', NULL, 1, 'd-1');
		INSERT INTO attempts (flow, key, number, generation, at, class, code, message) VALUES ('orders', 'A', 4, 3, 5000005, 'transient', 'http_503', 'no');
		INSERT INTO claims (id, client, owner, at, open, jobs)
			VALUES ('c-1', 'erp', 'd-1', 6000006, 1, CAST(x'00' || '[{"f":"orders","k":"A","g":3,"a":4}]' AS BLOB));`)
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	a := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: "A"}, Client: "erp", Entity: "sale", SourceID: "S-1", State: jobs.Ready, Reason: jobs.ReasonRetry,
		Generation: 3, Desired: connectors.Stamp{Epoch: 1, Version: 7}, Body: json.RawMessage(`{"n": 1.0}`), Attempt: 4, Tries: 2, Streak: 2,
		AppliedGeneration: 2, OpenSince: at(1000001), DueAt: at(2000002), LastClass: "transient", LastCode: "http_503", LastMessage: "no"}

	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Fatal("a command used it as it was")
	}
	e, err := Open(t.Context(), path, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	ctx := t.Context()
	same := func(what string, got, want any, err error) {
		t.Helper()
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Errorf("%s differs (%v, -want +got):\n%s", what, err, d)
		}
	}
	if err := e.View(ctx, func(tx jobs.Tx) error {
		meta, err := tx.Meta(ctx)
		same("the version", meta["schema"], "3", err)
		rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, at(2000002), 10)
		same("what is due", rows, []jobs.Row{a}, err)
		rows, err = tx.List(ctx, jobs.Filter{State: jobs.Done})
		if len(rows) != 1 || rows[0].Shard != 0 || rows[0].Group != "" || rows[0].KeyEpoch != 0 {
			t.Errorf("the done rows are %+v (%v)", rows, err)
		}
		flows, err := tx.Flows(ctx)
		same("the flows", flows, []jobs.FlowState{{Flow: "orders", Cursor: json.RawMessage(`{"after": 7}`), Epoch: 1, MovedAt: at(3000003)}}, err)
		clients, err := tx.Clients(ctx)
		same("the clients", clients, []jobs.ClientState{{Client: "erp", PausedUntil: at(4000004), Reason: "throttled", Evidence: "429", Strikes: 1, Owner: "d-1"}}, err)
		claims, err := tx.Claims(ctx, "")
		same("the claims", claims, []jobs.Claim{{ID: "c-1", Client: "erp", Owner: "d-1", At: at(6000006), Open: 1,
			Jobs: []jobs.ClaimedJob{{RowID: a.RowID, Generation: 3, Attempt: 4}}}}, err)
		attempts, last, err := tx.ListAttempts(ctx, 0, 10)
		same("the attempts", attempts, []jobs.Attempt{{RowID: a.RowID, Number: 4, Generation: 3, At: at(5000005), Class: "transient", Code: "http_503", Message: "no"}}, err)
		if last != 1 {
			t.Errorf("the last attempt is %d", last)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.Shard, a.Group, a.KeyEpoch = 3, "G", 2
	if err := e.Update(ctx, func(tx jobs.Tx) error {
		if err := tx.PatchRows(ctx, []jobs.Row{a}); err != nil {
			return err
		}
		rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp", Shard: 3}, at(2000002), 10)
		same("what is due in another shard", rows, []jobs.Row{a}, err)
		return err
	}); err != nil {
		t.Error(err)
	}
}
