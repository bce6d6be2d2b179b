package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"syncd/jobs"
)

func openInternal(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestEveryConnectionIsDurable(t *testing.T) {
	t.Parallel()
	e := openInternal(t)
	check := func(name string, tx jobs.Tx) {
		for pragma, want := range map[string]any{"synchronous": int64(2), "journal_mode": "wal", "busy_timeout": int64(busyMillis), "locking_mode": "normal"} {
			if got, err := connOf(tx).one(t.Context(), "PRAGMA "+pragma); got != want || err != nil {
				t.Errorf("%s: %s is %v (%v), want %v", name, pragma, got, err, want)
			}
		}
	}
	if err := e.Update(t.Context(), func(tx jobs.Tx) error { check("writer", tx); return nil }); err != nil {
		t.Fatal(err)
	}
	// All readers at once, so that each has a connection of its own.
	var nest func(n int)
	nest = func(n int) {
		if n == 0 {
			return
		}
		if err := e.View(t.Context(), func(tx jobs.Tx) error { check(fmt.Sprint("reader ", n), tx); nest(n - 1); return nil }); err != nil {
			t.Error(err)
		}
	}
	nest(readers)
}

func TestASettingThatIsNotKeptIsRefused(t *testing.T) {
	t.Parallel()
	e := openInternal(t)
	err := e.Update(t.Context(), func(tx jobs.Tx) error {
		// SQLite ignores a change of synchronous within a transaction, as it does a misspelt name.
		return settings(t.Context(), connOf(tx), true)
	})
	if err == nil {
		t.Error("settings were accepted although they could not be made")
	}
}

func TestAJournalWithoutAWriteAheadLogIsUnsafe(t *testing.T) {
	t.Parallel()
	e := openInternal(t)
	c := <-e.writer
	defer func() { e.writer <- c }()
	if _, err := c.one(t.Context(), "PRAGMA journal_mode = DELETE"); err != nil {
		t.Fatal(err)
	}
	if err := checkWAL(t.Context(), c); !errors.Is(err, jobs.ErrUnsafe) || !strings.Contains(err.Error(), "journal_mode = delete, not wal") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnOlderJournalIsTheDaemonsToBringUpToDate(t *testing.T) {
	t.Parallel()
	err := (&Engine{path: "J"}).mayUse(3, 5)
	want := "it is of an older version of syncd: its schema is version 3 and this syncd needs 5; `syncd run` of this version brings it up to date when it starts"
	if !errors.Is(err, jobs.ErrOlder) || err.Error() != want {
		t.Errorf("a command got %v", err)
	}
	if err := (&Engine{path: "J", o: Options{Exclusive: true}}).mayUse(3, 5); err != nil {
		t.Errorf("the daemon got %v", err)
	}
}

func TestAJournalLeftHalfMadeIsFinished(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	e := &Engine{path: path}
	if _, err := create(path); err != nil {
		t.Fatal(err)
	}
	c, err := e.dial(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.exec(t.Context(), fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	done, err := Open(t.Context(), path, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := done.Close(); err != nil {
		t.Error(err)
	}
}

// Each statement finds its rows through an index made for it, so that its cost
// does not grow with the table.
func TestNoStatementOverRowsReadsThemAll(t *testing.T) {
	t.Parallel()
	e := openInternal(t)
	for _, c := range []struct{ name, sql, through string }{
		{"Rows", e.sql.rows, "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (flow=? AND key=?)"},
		{"Rows with bodies", e.sql.rowsBodies, "SEARCH b USING INTEGER PRIMARY KEY (rowid=?)"},
		{"PatchRows", e.sql.patch, "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (flow=? AND key=?)"},
		{"Due", e.sql.due, "SEARCH j USING INDEX jobs_due (client=? AND shard=? AND due_at<?)"},
		{"NextDue", e.sql.nextDue, "SEARCH jobs USING COVERING INDEX jobs_due (client=? AND shard=?)"},
		{"Wake", e.sql.wake, "SEARCH jobs USING INDEX jobs_waiting (client=? AND wait_entity=? AND wait_key=?)"},
		{"whether anything waits", e.sql.anyWaiting, "SEARCH jobs USING COVERING INDEX jobs_waiting (client=?)"},
		{"a body stored", e.sql.putBody, "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (flow=? AND key=?)"},
		{"Heads", e.sql.heads, "SEARCH h USING COVERING INDEX jobs_heads (flow=? AND grp=?)"},
		{"the row of a head", e.sql.heads, "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"},
		{"a body removed", e.sql.dropBody, "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (flow=? AND key=?)"},
	} {
		plan := explain(t, e, c.sql)
		if !strings.Contains(plan, c.through) || strings.Contains(plan, "SCAN jobs") || strings.Contains(plan, "SCAN j ") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s is done so:\n%s\nwant it through %s", c.name, plan, c.through)
		}
	}
}

func explain(t *testing.T, e *Engine, sql string) string {
	t.Helper()
	var lines []string
	if err := e.View(t.Context(), func(tx jobs.Tx) error {
		c := connOf(tx)
		args := make([]any, strings.Count(sql, "?")) // more than there are parameters does no harm
		return c.query(context.Background(), "EXPLAIN QUERY PLAN "+sql, args, func(v row) error {
			lines = append(lines, v.text(3))
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func connOf(t jobs.Tx) *conn { return t.(*tx).c }
