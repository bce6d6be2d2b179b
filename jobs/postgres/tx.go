package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// tx implements jobs.Tx on one transaction.
type tx struct {
	p     pgx.Tx
	q     *queries
	marks *marks
	// touched goes to marks when the transaction has ended.
	touched touches
	// absent are rows and source records that the transaction looked for and did not
	// find: they are inserted without a look whether they are there. nil when that went
	// wrong before.
	absent *absent
	// there: what was taken not to be there is.
	there bool
	// write is false in a View.
	write bool
	// wrote is set once a statement was sent that writes.
	wrote bool
	// held are the fences whose leases' rows the transaction holds, fences those that
	// it has not looked at yet.
	held, fences []jobs.Fence
	// ended is set when fn has returned.
	ended bool
	// failed is the first error of a statement.
	failed error
}

var (
	errEnded = errors.New("the transaction has ended")
	errView  = errors.New("a View changes nothing")
)

// statement is one statement with its arguments.
type statement struct {
	sql  string
	args []any
}

// exec runs a statement and returns how many rows it touched.
func (t *tx) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	n, err := t.send(ctx, statement{sql, args})
	return n[0], err
}

// send runs statements in one round trip and returns how many rows each touched.
// It takes the rows of the leases along under which the transaction is to write.
func (t *tx) send(ctx context.Context, statements ...statement) ([]int64, error) {
	touched := make([]int64, len(statements))
	switch {
	case t.ended:
		return touched, errEnded
	case !t.write:
		return touched, errView
	}
	t.wrote = true
	b := &pgx.Batch{}
	for _, f := range t.fences {
		b.Queue(t.q.leaseHold, fenceArgs(f)...)
	}
	for _, s := range statements {
		b.Queue(s.sql, s.args...)
	}
	if b.Len() == 0 {
		return touched, nil
	}
	results := t.p.SendBatch(ctx, b)
	err := passFences(results, t.fences)
	if err == nil {
		t.held, t.fences = append(t.held, t.fences...), nil
	}
	for i := 0; err == nil && i < len(statements); i++ {
		var tag pgconn.CommandTag
		tag, err = results.Exec()
		touched[i] = tag.RowsAffected()
	}
	if e := results.Close(); err == nil {
		err = e
	}
	return touched, t.note(err)
}

// passFences reads what the look at each lease came to.
func passFences(results pgx.BatchResults, fences []jobs.Fence) error {
	for _, f := range fences {
		var one int
		switch err := results.QueryRow().Scan(&one); {
		case errors.Is(err, pgx.ErrNoRows):
			return fenced(f)
		case err != nil:
			return err
		}
	}
	return nil
}

// hold comes before a statement that writes and returns rows.
func (t *tx) hold(ctx context.Context) error {
	_, err := t.send(ctx)
	return err
}

// ask is query for a statement that writes. It takes the leases' rows along as send does.
func (t *tx) ask(ctx context.Context, fn func(pgx.Rows) error, sql string, args ...any) error {
	switch {
	case t.ended:
		return errEnded
	case !t.write:
		return errView
	}
	t.wrote = true
	if len(t.fences) == 0 {
		return t.query(ctx, fn, sql, args...)
	}
	b := &pgx.Batch{}
	for _, f := range t.fences {
		b.Queue(t.q.leaseHold, fenceArgs(f)...)
	}
	b.Queue(sql, args...)
	results := t.p.SendBatch(ctx, b)
	err := passFences(results, t.fences)
	if err == nil {
		t.held, t.fences = append(t.held, t.fences...), nil
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = each(rows, fn)
		}
	}
	if e := results.Close(); err == nil {
		err = e
	}
	return t.note(err)
}

// each hands rows to fn, one by one.
func each(rows pgx.Rows, fn func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// query hands the rows of a statement's result to fn, one by one.
func (t *tx) query(ctx context.Context, fn func(pgx.Rows) error, sql string, args ...any) error {
	if t.ended {
		return errEnded
	}
	rows, err := t.p.Query(ctx, sql, args...)
	if err != nil {
		return t.note(err)
	}
	return t.note(each(rows, fn))
}

func (t *tx) note(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

// absent are ids that are not there.
type absent struct {
	rows, sources stored.Absent[jobs.RowID] // the id of a source record stands for the key
}

// mistaken notes of an error of storing what was looked for and not found whether it
// is there by now.
func (t *tx) mistaken(err error) error {
	t.there = t.there || sqlstate(err) == uniqueViolation
	return err
}

func newAbsent() *absent {
	return &absent{stored.Absent[jobs.RowID]{}, stored.Absent[jobs.RowID]{}}
}
