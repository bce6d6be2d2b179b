package sqlite

import (
	"context"
	"errors"
	"time"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// tx implements jobs.Tx on one connection.
type tx struct {
	c   *conn
	sql *rowSQL
	// totals is the engine's.
	totals *totals
	// now is the engine's clock.
	now func() time.Time
	// absent are rows and source records that the transaction looked for and did not
	// find: it is the only one that writes, so they are not there until it stores them.
	// The id of a source record stands for the key.
	absent, absentSources stored.Absent[jobs.RowID]
	// write is false in a View.
	write bool
	// ended is set when fn has returned.
	ended bool
	// failed is the first error of a statement. A transaction that met one is
	// rolled back even when fn swallows it: SQLite may have rolled back already.
	failed error
}

var (
	errEnded = errors.New("the transaction has ended")
	errView  = errors.New("a View changes nothing")
)

func (t *tx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	switch {
	case t.ended:
		return 0, errEnded
	case !t.write:
		return 0, errView
	}
	n, err := t.c.exec(ctx, sql, args...)
	return n, t.note(err)
}

func (t *tx) query(ctx context.Context, sql string, args []any, fn func(row) error) error {
	if t.ended {
		return errEnded
	}
	return t.note(t.c.query(ctx, sql, args, fn))
}

func (t *tx) note(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}
