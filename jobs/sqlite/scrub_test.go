package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "modernc.org/sqlite"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// inFiles counts how often a text stands in a journal's file and in its log.
func inFiles(t *testing.T, path, text string) (n int) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err != nil && (end == "" || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(text))
	}
	return n
}

func TestWhatIsErasedIsNotInTheFileAnyMore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "journal.db")
	open := func(o sqlite.Options) *sqlite.Engine {
		t.Helper()
		e, err := sqlite.Open(ctx, path, o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	const n = 300
	// write stores records as a daemon does, which overwrites nothing.
	write := func(prefix, name, said string) (ids []jobs.RowID) {
		t.Helper()
		e := open(sqlite.Options{Exclusive: true})
		var rows []jobs.Row
		var as []jobs.Attempt
		for i := range n {
			id := jobs.RowID{Flow: "customers", Key: fmt.Sprintf("%s-%03d", prefix, i)}
			ids = append(ids, id)
			rows = append(rows, jobs.Row{RowID: id, Client: "erp", Entity: "customer", SourceID: id.Key, State: jobs.Done, Generation: 1,
				Body: fmt.Appendf(nil, `{"name":%q,"no":%d}`, name, i*7919)})
			as = append(as, jobs.Attempt{RowID: id, Number: 1, Generation: 1, At: e.Now(), Class: connectors.Invalid, Message: said})
		}
		err := e.Update(ctx, func(tx jobs.Tx) error { return errors.Join(tx.PutRows(ctx, rows), tx.AddAttempts(ctx, as)) })
		if err := errors.Join(err, e.Close()); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{name, said} {
			if k := inFiles(t, path, text); k < n {
				t.Fatalf("%q stands %d times in the files before anything is erased", text, k)
			}
		}
		return ids
	}
	erase := func(ids []jobs.RowID) {
		t.Helper()
		e := open(sqlite.Options{Overwrite: true})
		j := jobs.New(e, jobs.Options{Owner: "ann"})
		for part := range slices.Chunk(ids, jobs.EraseStep) {
			if got, err := j.Erase(ctx, part, jobs.Erasure{By: "ann", Why: "asked to"}); err != nil || got.Rows != len(part) {
				t.Fatalf("erased %+v, %v", got, err)
			}
		}
		if err := e.Scrub(ctx); err != nil {
			t.Fatal(err)
		}
		if log, err := os.Stat(path + "-wal"); err != nil || log.Size() > 0 {
			t.Errorf("the log is not empty: %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}

	erase(write("A", "Anna of once", "Anna is refused"))
	for _, text := range []string{"Anna of once", "Anna is refused"} {
		if k := inFiles(t, path, text); k > 0 {
			t.Errorf("%q stands %d times in the files after it was erased", text, k)
		}
	}

	// What was moved or replaced before, by who overwrites nothing, is gone once the file is written anew.
	write("B", "Berta of before", "Berta is refused")
	erase(write("B", "Berta of today", "Berta is refused"))
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if k := inFiles(t, path, "Berta"); k > 0 {
		t.Errorf("the name stands %d times in the files after VACUUM", k)
	}
	if err := open(sqlite.Options{Exclusive: true}).Close(); err != nil {
		t.Errorf("the journal cannot be worked on after VACUUM: %v", err)
	}
}
