package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"syncd/jobs"
)

// code is SQLite's primary result code of an error; 0 for other errors.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// unusable says why the journal's files cannot be opened or written.
func (e *Engine) unusable(code int) string {
	switch {
	case mountedReadOnly(e.path):
		// Also a reader writes into the index beside the log: https://www.sqlite.org/wal.html#readonly
		return e.path + " lies on a file system that is mounted read-only, on which a journal can neither be written nor looked at; mount it writable, or copy the file with its -wal to another place and look there"
	case code == sqlite3.SQLITE_READONLY:
		return e.path + " cannot be written; let the user that runs syncd own the journal's folder and files"
	default:
		return e.path + " or the files beside it cannot be opened; let the user that runs syncd own the journal's folder and files"
	}
}

// mountedReadOnly reports whether a file's file system takes no writes from anybody.
func mountedReadOnly(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}

// damage says that the file holds what SQLite cannot have written, and what to do.
// An engine that is open is lost by it: what it would go on to read and write rests
// on pages of which nobody knows whether they are right.
func (e *Engine) damage(err error) error {
	err = fmt.Errorf("%w: %s cannot be relied on any more; stop syncd, keep the file with its -wal, and restore the journal from a backup; "+
		"without one, put what can still be read in its place: `sqlite3 %s .recover | sqlite3 recovered.db` (%w)", jobs.ErrDamaged, e.path, e.path, err)
	if e.open {
		return e.lose(err)
	}
	return err
}

// Verify looks through the whole file and says what damage it finds, as far as
// SQLite can tell; its error wraps jobs.ErrDamaged. It hinders nobody. It takes some
// 0.2 s for 100,000 jobs whose file is in memory, and gives up without an error when
// ctx ends.
func (e *Engine) Verify(ctx context.Context) error {
	c, err := e.dial(ctx, true)
	if err != nil {
		return e.explain(err)
	}
	defer func() { _ = c.close() }()
	found := ""
	// At the first fault it has done its work. A row is one fault.
	err = c.query(ctx, "PRAGMA quick_check(1)", nil, func(r row) error {
		if s := r.text(0); s != "ok" {
			found = s
		}
		return nil
	})
	switch {
	case found != "":
		return e.damage(errors.New(found))
	case ctx.Err() != nil:
		return nil
	}
	return e.explain(err)
}

// explain adds to an error of SQLite what a person can do about it.
func (e *Engine) explain(err error) error {
	if err == nil || errors.Is(err, jobs.ErrDamaged) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	advice := ""
	switch c := code(err); c {
	case sqlite3.SQLITE_FULL:
		advice = "no space is left in " + filepath.Dir(e.path) + "; nothing was changed; make space; a daemon that runs goes on by itself"
	case sqlite3.SQLITE_BUSY:
		advice = fmt.Sprintf("another process has been writing %s for more than %d s; find it with `fuser %s`", e.path, busyMillis/1000, e.path)
	case sqlite3.SQLITE_NOTADB:
		if e.open {
			return e.damage(err)
		}
		advice = e.path + " is no SQLite database; give the journal a file of its own, or restore it from a backup if this was it"
	case sqlite3.SQLITE_CORRUPT:
		return e.damage(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		advice = e.unusable(c)
	case sqlite3.SQLITE_IOERR:
		advice = "the disk under " + e.path + " fails; see the kernel's log"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}
