package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"syncd/internal/crash"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

var _ jobs.Engine = (*Engine)(nil)

var errClosed = errors.New("the journal is closed")

// Update implements jobs.Engine. fn must not call Update of the same engine: the
// one writer would wait for itself.
func (e *Engine) Update(ctx context.Context, fn func(tx jobs.Tx) error) error {
	if e.o.ReadOnly {
		return fmt.Errorf("write the journal %s: it was opened read-only", e.path)
	}
	var c *conn
	select {
	case c = <-e.writer:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closed:
		return errClosed
	}
	done := false
	defer func() {
		// Also when fn panics: the next writer must not find the transaction open.
		if !done {
			c = e.rollback(c)
		}
		e.writer <- c
	}()
	var err error
	if c == nil {
		if c, err = e.prepare(ctx); err != nil {
			done = true
			return e.explain(err)
		}
	}
	if err := e.guard(c); err != nil {
		done = true
		return err
	}
	if _, err := c.execWaiting(ctx, "BEGIN IMMEDIATE"); err != nil {
		done = true
		return e.explain(err)
	}
	t := &tx{c: c, sql: &e.sql, totals: &e.totals, now: e.Now, write: true,
		absent: stored.Absent[jobs.RowID]{}, absentSources: stored.Absent[jobs.RowID]{}}
	err = fn(t)
	t.ended = true
	if err == nil {
		err = t.failed
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return e.explain(err)
	}
	if err := e.commit(c); err != nil {
		return err
	}
	done = true
	if c.log == (inode{}) {
		c.log, _ = inodeOf(e.path + "-wal") // without one there is nothing to compare
	}
	e.trim(c)
	return nil
}

// commit is not cut short by the caller's context, so that its outcome is known.
func (e *Engine) commit(c *conn) error {
	crash.Commit(crash.Committing)
	_, err := c.execWaiting(context.Background(), "COMMIT")
	if err == nil {
		crash.Commit(crash.Committed)
		return nil
	}
	if code(err) == sqlite3.SQLITE_IOERR {
		// The log may hold the commit or not; the next start finds out.
		return fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, e.explain(err))
	}
	return e.explain(err)
}

// rollback ends the transaction and returns the connection, or nil when it
// cannot be used again.
func (e *Engine) rollback(c *conn) *conn {
	_, err := c.execWaiting(context.Background(), "ROLLBACK")
	// SQLite rolls back by itself on some errors (a full disk); then there is no
	// transaction left, which is as good.
	if err == nil || code(err) == sqlite3.SQLITE_ERROR {
		return c
	}
	if err := errors.Join(err, c.close()); err != nil {
		e.o.Log.Warn("gave up a connection to the journal", "error", err)
	}
	return nil
}

// guard makes sure, before each transaction, that what is written is written to
// the file that the next start will read, and by the one daemon. The write-ahead log is
// the same file as long as a connection to it is open.
func (e *Engine) guard(c *conn) error {
	select {
	case <-e.lost:
		return e.lostWhy
	default:
	}
	if e.lock != nil {
		if err := e.lock.check(e.path + ".lock"); err != nil {
			return e.lose(err)
		}
	}
	if at, err := inodeOf(e.path); err == nil && at == e.file {
		if c.log == (inode{}) {
			return nil
		}
		if at, err := inodeOf(e.path + "-wal"); err == nil && at == c.log {
			return nil
		}
		return e.lose(fmt.Errorf("the journal's write-ahead log %s-wal was removed or replaced while it was open, and holds what was written last; leave it where it is while a daemon runs, and start syncd again", e.path))
	}
	return e.lose(fmt.Errorf("the journal %s was removed or replaced while it was open; put the file back, with the files -wal and -shm beside it, and start syncd again", e.path))
}

// lose notes that the journal was taken away, and why.
func (e *Engine) lose(why error) error {
	e.loseOnce.Do(func() {
		e.lostWhy = why
		close(e.lost)
	})
	return why
}

// trim empties a write-ahead log that grew beyond its limit: while there is
// always somebody who reads, SQLite's own checkpoints never find the moment to
// begin it anew. This one waits for those who read now; who comes later does not
// need the log any more.
func (e *Engine) trim(c *conn) {
	now := time.Now()
	if now.Before(e.checkpointAfter) {
		return
	}
	info, err := os.Stat(e.path + "-wal")
	if err != nil || info.Size() < walLimit {
		return
	}
	busy, err := checkpoint(c)
	if err != nil {
		e.o.Log.Warn("could not empty the journal's write-ahead log", "error", err)
	}
	if err != nil || busy {
		e.checkpointAfter = now.Add(checkpointPause)
	}
}

const (
	// checkpointPatience is how many milliseconds trim waits for readers; writers wait with it.
	checkpointPatience = 1000
	// checkpointPause is how long trim rests after it waited in vain.
	checkpointPause = 10 * time.Second
)

func checkpoint(c *conn) (busy bool, err error) {
	ctx := context.Background()
	if _, err := c.execWaiting(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", checkpointPatience)); err != nil {
		return false, err
	}
	did, err := c.one(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	_, e := c.execWaiting(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyMillis))
	return did != int64(0), errors.Join(err, e)
}

// View implements jobs.Engine.
func (e *Engine) View(ctx context.Context, fn func(tx jobs.Tx) error) error {
	var c *conn
	select {
	case c = <-e.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closed:
		return errClosed
	}
	begun := false
	defer func() {
		if begun {
			c = e.rollback(c)
		}
		e.readers <- c
	}()
	var err error
	if c == nil {
		if c, err = e.dial(ctx, true); err != nil {
			return e.explain(err)
		}
	}
	if _, err := c.execWaiting(ctx, "BEGIN"); err != nil {
		return e.explain(err)
	}
	begun = true
	t := &tx{c: c, sql: &e.sql, totals: &e.totals, now: e.Now}
	err = fn(t)
	t.ended = true
	if err == nil {
		err = t.failed
	}
	return e.explain(err)
}

// Now implements jobs.Engine: the process's clock.
func (e *Engine) Now() time.Time { return e.o.Now().UTC().Truncate(time.Microsecond) }

// Describe implements jobs.Engine.
func (e *Engine) Describe() string { return "sqlite " + e.path }

// Alone reports whether no other daemon can have the journal while this engine is
// open: it has the lock.
func (e *Engine) Alone() bool { return e.lock != nil }

// Lost is closed when the journal, or the lock on it, was taken away from under an
// exclusive engine. Nothing can be written any more.
func (e *Engine) Lost() <-chan struct{} { return e.lost }

// LostWhy says, once Lost is closed, what happened and what to do.
func (e *Engine) LostWhy() error {
	<-e.lost
	return e.lostWhy
}

// TrustedUntil is the moment until which no other daemon can have the journal.
// The kernel's lock has no end: it is always an hour away, and in the past once
// the journal is lost.
func (e *Engine) TrustedUntil() time.Time {
	select {
	case <-e.lost:
		return time.Time{}
	default:
		return time.Now().Add(time.Hour)
	}
}

// Close implements jobs.Engine. It waits for transactions under way.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		close(e.closed)
		var errs []error
		if e.open {
			for range readers {
				errs = append(errs, closeConn(<-e.readers))
			}
			// The last connection to close empties the write-ahead log.
			errs = append(errs, closeConn(<-e.writer))
		}
		if e.lock != nil {
			errs = append(errs, e.lock.release())
		}
		e.closeErr = errors.Join(errs...)
	})
	return e.closeErr
}

func closeConn(c *conn) error {
	if c == nil {
		return nil
	}
	return c.close()
}
