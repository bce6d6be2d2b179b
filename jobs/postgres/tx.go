package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// tx implements jobs.Tx on one transaction.
type tx struct {
	p     pgx.Tx
	q     *queries
	lease *lease // nil when the engine is not exclusive
	marks *marks
	// touched goes to marks when the transaction has ended.
	touched touches
	// write is false in a View.
	write bool
	// fenced is set once the transaction holds the lease's row.
	fenced bool
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
// The first to write in a transaction of an exclusive engine takes the lease's row
// along: a transaction that only looks, as most claims do while nothing is due,
// has nothing to write to the server's log.
func (t *tx) send(ctx context.Context, statements ...statement) ([]int64, error) {
	touched := make([]int64, len(statements))
	switch {
	case t.ended:
		return touched, errEnded
	case !t.write:
		return touched, errView
	}
	b := &pgx.Batch{}
	fence := t.lease != nil && !t.fenced
	if fence {
		b.Queue(t.q.leaseHold, t.lease.token)
	}
	for _, s := range statements {
		b.Queue(s.sql, s.args...)
	}
	results := t.p.SendBatch(ctx, b)
	err := func() error {
		if fence {
			var one int
			switch err := results.QueryRow().Scan(&one); {
			case errors.Is(err, pgx.ErrNoRows):
				return t.lease.lose()
			case err != nil:
				return err
			}
			t.fenced = true
		}
		for i := range statements {
			tag, err := results.Exec()
			if err != nil {
				return err
			}
			touched[i] = tag.RowsAffected()
		}
		return nil
	}()
	if e := results.Close(); err == nil {
		err = e
	}
	return touched, t.note(err)
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
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return t.note(err)
		}
	}
	return t.note(rows.Err())
}

func (t *tx) note(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}
