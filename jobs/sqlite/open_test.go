package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// script runs SQL on a file as another program would.
func script(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// made is the path of a journal that a daemon made and left.
func made(t *testing.T) string {
	t.Helper()
	path := place(t)
	e, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name    string
		path    string
		prepare func(path string)
		o       sqlite.Options
		is      error
		says    string // with PATH for the path
	}{
		{name: "no path", path: "", o: sqlite.Options{Exclusive: true},
			says: "open the journal : no path is given; set the journal's path to a file"},
		{name: "memory", path: ":memory:", o: sqlite.Options{Exclusive: true},
			says: "open the journal :memory:: a journal has to survive a power cut; give the path of a plain file on a local disk"},
		{name: "a URI", path: "file:x?mode=memory", o: sqlite.Options{Exclusive: true},
			says: "open the journal file:x?mode=memory: a journal has to survive a power cut; give the path of a plain file on a local disk"},
		{name: "no folder", path: at("no/journal.db"), o: sqlite.Options{Exclusive: true}, is: os.ErrNotExist,
			says: "open the journal PATH: the folder " + at("no") + " does not exist; create it, writable for the user that runs syncd: lstat " + at("no") + ": no such file or directory"},
		{name: "a folder", path: dir, o: sqlite.Options{Exclusive: true},
			says: "open the journal PATH: PATH is no plain file (d---------); give the path of a file"},
		{name: "read-only for a daemon", path: at("x.db"), o: sqlite.Options{Exclusive: true, ReadOnly: true},
			says: "open the journal PATH: a daemon cannot have its journal read-only"},
		{name: "no journal for a command", path: at("absent.db"), is: jobs.ErrAbsent,
			says: "open the journal PATH: there is none yet at PATH; `syncd run` makes it when it starts for the first time"},
		{name: "no journal to look at", path: at("absent.db"), o: sqlite.Options{ReadOnly: true}, is: jobs.ErrAbsent,
			says: "open the journal PATH: there is none yet at PATH; `syncd run` makes it when it starts for the first time"},
		{name: "an empty file for a command", path: at("empty.db"), is: jobs.ErrAbsent,
			prepare: func(path string) { write(t, path, "") },
			says:    "open the journal PATH: there is none yet at PATH; `syncd run` makes it when it starts for the first time"},
		{name: "no database", path: at("text.db"), o: sqlite.Options{Exclusive: true},
			prepare: func(path string) { write(t, path, strings.Repeat("This is no database.\n", 100)) },
			says:    "open the journal PATH: PATH is no SQLite database; give the journal a file of its own, or restore it from a backup if this was it (set synchronous: file is not a database (26))"},
		{name: "another program's database", path: at("other.db"), o: sqlite.Options{Exclusive: true},
			prepare: func(path string) { script(t, path, `CREATE TABLE theirs (x); PRAGMA application_id = 77`) },
			says:    "open the journal PATH: PATH is an SQLite file of another program (application_id 77, 1 tables and indexes); give the journal a file of its own"},
		{name: "a database without a mark", path: at("unmarked.db"), o: sqlite.Options{Exclusive: true},
			prepare: func(path string) { script(t, path, `CREATE TABLE theirs (x)`) },
			says:    "open the journal PATH: PATH is an SQLite file of another program (application_id 0, 1 tables and indexes); give the journal a file of its own"},
		{name: "a newer journal", path: made(t), o: sqlite.Options{Exclusive: true}, is: jobs.ErrNewer,
			prepare: func(path string) {
				script(t, path, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, 1)`)
			},
			says: "open the journal PATH: written by a newer version of syncd: its schema is version 7 and this syncd knows up to 3; install the newer syncd again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.prepare != nil {
				c.prepare(c.path)
			}
			e, err := sqlite.Open(t.Context(), c.path, c.o)
			if err == nil {
				_ = e.Close()
				t.Fatal("it was opened")
			}
			if want := strings.ReplaceAll(c.says, "PATH", c.path); err.Error() != want {
				t.Errorf("the error says\n%s\nwant\n%s", err, want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("the error is not %v", c.is)
			}
		})
	}
	for _, name := range []string{"absent.db", "x.db"} {
		if _, err := os.Stat(at(name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherProgramsFileIsNotTouched(t *testing.T) {
	t.Parallel()
	path := place(t)
	script(t, path, `CREATE TABLE theirs (x)`)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true}); err == nil {
		t.Fatal("it was opened")
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestOneDaemonHasAJournal(t *testing.T) {
	t.Parallel()
	path := place(t)
	link := filepath.Join(t.TempDir(), "other name.db")
	first := opened(t, path, sqlite.Options{Exclusive: true})
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link, filepath.Join(filepath.Dir(path), ".", filepath.Base(path))} {
		_, err := sqlite.Open(t.Context(), name, sqlite.Options{Exclusive: true})
		want := fmt.Sprintf("in use by another daemon: process %d, started ", os.Getpid())
		if !errors.Is(err, jobs.ErrInUse) || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), " holds "+path+".lock; stop it first, only one daemon may have a journal") {
			t.Errorf("a second daemon at %s got %v", name, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, link, sqlite.Options{Exclusive: true})
}

func TestCommandsWorkBesideTheDaemon(t *testing.T) {
	t.Parallel()
	path := place(t)
	d := opened(t, path, sqlite.Options{Exclusive: true})
	put(t, d, "A")
	command := opened(t, path, sqlite.Options{})
	put(t, command, "B")
	look := opened(t, path, sqlite.Options{ReadOnly: true})
	if n := count(t, look); n != 2 {
		t.Errorf("a command that looks sees %d rows, want 2", n)
	}
	if n := count(t, d); n != 2 {
		t.Errorf("the daemon sees %d rows, want 2", n)
	}
	err := look.Update(t.Context(), func(jobs.Tx) error { return nil })
	if want := "write the journal " + path + ": it was opened read-only"; err == nil || err.Error() != want {
		t.Errorf("a read-only journal let itself be written: %v", err)
	}
}

func TestOneProcessWaitsWhileAnotherWrites(t *testing.T) {
	t.Parallel()
	path := place(t)
	a, b := opened(t, path, sqlite.Options{Exclusive: true}), opened(t, path, sqlite.Options{})
	writing, waited := make(chan struct{}), make(chan error, 1)
	if err := a.Update(t.Context(), func(tx jobs.Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			close(writing)
			waited <- b.Update(ctx, func(jobs.Tx) error { return nil })
		}()
		<-writing
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("one that waits is not freed by its context: %v", err)
		}
		go func() {
			waited <- b.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("B")}) })
		}()
		return tx.PutRows(t.Context(), []jobs.Row{row("A")})
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the second writer: %v", err)
	}
	if n := count(t, a); n != 2 {
		t.Errorf("%d rows are there, want 2", n)
	}
}

func TestTheJournalIsReadableForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	path := place(t)
	put(t, opened(t, path, sqlite.Options{Exclusive: true}), "A")
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path+suffix, info.Mode(), err)
		}
	}
}

func TestAPathMayHoldWhateverAFileNameMay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "100% #1? a+b&mode=memory ü.db")
	put(t, opened(t, path, sqlite.Options{Exclusive: true}), "A")
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the file is not where it was wanted: %v", err)
	}
}

func TestNothingIsWrittenBesideTheJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
		is     error
		says   string
	}{
		{"the lock file is removed", func(t *testing.T, path string) { remove(t, path+".lock") }, jobs.ErrInUse, "the lock file PATH.lock was removed or replaced"},
		{"the journal is removed", remove, nil, "the journal PATH was removed or replaced while it was open"},
		{"its log is removed", func(t *testing.T, path string) { remove(t, path+"-wal") }, nil, "the journal's write-ahead log PATH-wal was removed or replaced while it was open"},
		{"its log is replaced", func(t *testing.T, path string) { remove(t, path+"-wal"); write(t, path+"-wal", "") }, nil, "the journal's write-ahead log PATH-wal was removed"},
		{"the journal is replaced", func(t *testing.T, path string) { remove(t, path); write(t, path, "") }, nil, "the journal PATH was removed or replaced while it was open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t)
			e := opened(t, path, sqlite.Options{Exclusive: true})
			put(t, e, "A")
			select {
			case <-e.Lost():
				t.Error("the journal counts as lost before anything happened")
			default:
			}
			c.damage(t, path)
			err := e.Update(t.Context(), func(jobs.Tx) error { t.Error("a transaction was run"); return nil })
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.says, "PATH", path)) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("the error is %v", err)
			}
			select {
			case <-e.Lost():
			default:
				t.Error("the journal does not count as lost")
			}
			if !e.TrustedUntil().IsZero() {
				t.Error("the journal is trusted still")
			}
			if why := e.LostWhy(); why.Error() != err.Error() {
				t.Errorf("it is lost because %v", why)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func row(key string) jobs.Row {
	return jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", State: jobs.Ready}
}

func put(t *testing.T, e *sqlite.Engine, key string) {
	t.Helper()
	if err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row(key)}) }); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func count(t *testing.T, e *sqlite.Engine) (n int64) {
	t.Helper()
	if err := e.View(t.Context(), func(tx jobs.Tx) error {
		cs, err := tx.Counts(t.Context(), e.Now())
		for _, c := range cs {
			n += c.N
		}
		return err
	}); err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}
