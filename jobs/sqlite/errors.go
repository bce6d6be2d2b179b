package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// code is SQLite's primary result code of an error; 0 for other errors.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds to an error of SQLite what a person can do about it.
func (e *Engine) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	advice := ""
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		advice = "no space is left in " + filepath.Dir(e.path) + "; nothing was changed; make space, syncd goes on by itself"
	case sqlite3.SQLITE_BUSY:
		advice = fmt.Sprintf("another process has been writing %s for more than %d s; find it with `fuser %s`", e.path, busyMillis/1000, e.path)
	case sqlite3.SQLITE_NOTADB:
		advice = e.path + " is no SQLite database; give the journal a file of its own"
	case sqlite3.SQLITE_CORRUPT:
		advice = e.path + " is damaged; stop syncd, keep a copy, and restore the journal from a backup"
	case sqlite3.SQLITE_READONLY:
		advice = e.path + " cannot be written; let the user that runs syncd own the journal's folder and files, on a file system that is mounted writable"
	case sqlite3.SQLITE_CANTOPEN:
		advice = e.path + " or the files beside it cannot be opened; let the user that runs syncd own the journal's folder and files"
	case sqlite3.SQLITE_IOERR:
		advice = "the disk under " + e.path + " fails; see the kernel's log"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}
