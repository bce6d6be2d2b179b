package sqlite

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"syncd/jobs"
)

// crashed is the folder of a journal whose daemon was ended while its newest writes
// stood in the write-ahead log alone.
func crashed(t *testing.T) (path string) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "j.db")
	e, err := Open(t.Context(), live, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err = e.Update(t.Context(), func(tx jobs.Tx) error {
		return tx.SaveFlow(t.Context(), jobs.FlowState{Flow: "orders", Cursor: []byte(`7`)})
	})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "j.db")
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		b, err := os.ReadFile(live + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func cursor(t *testing.T, path string) string {
	t.Helper()
	e, err := Open(t.Context(), path, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var got string
	err = e.View(t.Context(), func(tx jobs.Tx) error {
		fs, err := tx.Flows(t.Context())
		for _, f := range fs {
			got += string(f.Cursor)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAWriteAheadLogWithoutItsJournalIsKeptAndNamed(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := crashed(t)
			aside, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []Options{{Exclusive: true}, {}, {ReadOnly: true}} {
				_, err := Open(context.Background(), path, o)
				if err == nil || !strings.Contains(err.Error(), "put the journal back beside it, or move "+path+"-wal and "+path+"-shm away") {
					t.Errorf("%+v: %v", o, err)
				}
			}
			if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(before) {
				t.Errorf("the log was touched: %v", err)
			}
			if err := os.WriteFile(path, aside, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := cursor(t, path); got != "7" {
				t.Errorf("after it was put back the cursor is %q, want 7", got)
			}
		})
	}
}

func TestAJournalEndedWithoutItsLogStartsAsItWas(t *testing.T) {
	if got := cursor(t, crashed(t)); got != "7" {
		t.Errorf("cursor %q, want 7", got)
	}
}

func TestAJournalMadeAnewWhereOneWasIsWarnedOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	var log strings.Builder
	o := Options{Exclusive: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	start := func() {
		t.Helper()
		e, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	start()
	start()
	if log.Len() > 0 {
		t.Errorf("warned of a first and a second start: %s", log.String())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	start()
	if n := strings.Count(log.String(), "made anew"); n != 1 {
		t.Errorf("warned %d times: %s", n, log.String())
	}
}

func TestANewJournalIsNeverEmptyBesideItsLog(t *testing.T) {
	// Else a daemon that was ended while it made one would be refused afterwards.
	path := filepath.Join(t.TempDir(), "j.db")
	if _, err := create(path); err != nil {
		t.Fatal(err)
	}
	e := &Engine{path: path, o: Options{Exclusive: true}}
	c, err := e.dial(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := useWAL(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		t.Errorf("the database is empty once it has a log: %v", err)
	}
}
