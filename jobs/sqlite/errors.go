package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
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

// explain adds to an error of SQLite what a person can do about it.
func (e *Engine) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	advice := ""
	switch c := code(err); c {
	case sqlite3.SQLITE_FULL:
		advice = "no space is left in " + filepath.Dir(e.path) + "; nothing was changed; make space, syncd goes on by itself"
	case sqlite3.SQLITE_BUSY:
		advice = fmt.Sprintf("another process has been writing %s for more than %d s; find it with `fuser %s`", e.path, busyMillis/1000, e.path)
	case sqlite3.SQLITE_NOTADB:
		advice = e.path + " is no SQLite database; give the journal a file of its own"
	case sqlite3.SQLITE_CORRUPT:
		advice = e.path + " is damaged; stop syncd, keep a copy, and restore the journal from a backup"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		advice = e.unusable(c)
	case sqlite3.SQLITE_IOERR:
		advice = "the disk under " + e.path + " fails; see the kernel's log"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}
