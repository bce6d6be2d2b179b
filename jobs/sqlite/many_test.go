package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// TestRowsGoInAndOutManyAtATime has more new rows than one statement takes, alike in
// what they share but for one, and closes them when one of them has changed meanwhile.
func TestRowsGoInAndOutManyAtATime(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	now := time.UnixMicro(1e15).UTC()
	const n = 5*many/2 + 1
	var rows []jobs.Row
	var ids []jobs.RowID
	for i := range n {
		r := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: fmt.Sprintf("K-%03d", i)}, Client: "erp", Entity: "order", SourceID: fmt.Sprint("s", i),
			State: jobs.Ready, Generation: 1, Desired: connectors.Stamp{Version: int64(i), Observed: now}, ReadAt: now, Hash: []byte{1},
			Body: fmt.Appendf(nil, `"%d"`, i), OpenSince: now, DueAt: now}
		if i == many/2 {
			r.DueAt = now.Add(-time.Second)
		}
		rows, ids = append(rows, r), append(ids, r.RowID)
	}
	update := func(fn func(tx jobs.Tx) error) {
		t.Helper()
		if err := e.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx jobs.Tx) error {
		if got, err := tx.Rows(t.Context(), ids, false); err != nil || len(got) > 0 {
			return fmt.Errorf("%d rows, %w", len(got), err)
		}
		return tx.PutRows(t.Context(), rows)
	})
	read := func() (out []jobs.Row) {
		t.Helper()
		if err := e.View(t.Context(), func(tx jobs.Tx) (err error) {
			out, err = tx.Rows(context.Background(), ids, true)
			return err
		}); err != nil || len(out) != n {
			t.Fatalf("%d rows, %v, want %d", len(out), err, n)
		}
		return out
	}
	for i, r := range read() {
		if string(r.Body) != string(rows[i].Body) || !r.DueAt.Equal(rows[i].DueAt) || r.SourceID != rows[i].SourceID || r.Desired.Version != int64(i) || !r.Desired.Observed.Equal(now) {
			t.Errorf("row %d came back as %+v with body %s", i, r, r.Body)
		}
	}
	changed := rows[3]
	changed.Generation = 2
	update(func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{changed}) })
	var cs []jobs.Closing
	for _, id := range ids {
		cs = append(cs, jobs.Closing{RowID: id, Generation: 1, Attempt: 1, Class: connectors.Applied})
	}
	update(func(tx jobs.Tx) error {
		closed, rest, err := tx.CloseRows(t.Context(), "erp", cs, now)
		if err == nil && (len(closed) != n-1 || len(rest) != 1 || rest[0].RowID != changed.RowID || rest[0].State != jobs.Ready) {
			t.Errorf("%d rows were closed and %d left, want %d and the one that had changed", len(closed), len(rest), n-1)
		}
		return err
	})
	for i, r := range read() {
		if want := i != 3; (r.State == jobs.Done) != want || (r.Attempt == 1) != want {
			t.Errorf("row %d is %s after attempt %d", i, r.State, r.Attempt)
		}
	}
}
