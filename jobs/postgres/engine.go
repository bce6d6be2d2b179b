package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/internal/crash"
	"syncd/jobs"
)

var _ jobs.Engine = (*Engine)(nil)

const (
	// tries is how often a transaction is run before its conflict is the caller's.
	tries = 6
	// firstWait and longestWait bound the pause before the next try, which is random.
	firstWait   = 10 * time.Millisecond
	longestWait = 500 * time.Millisecond
	// commitPatience bounds a COMMIT, which the caller's context does not cut short.
	commitPatience = 30 * time.Second
	// rollbackPatience bounds a ROLLBACK. A connection that takes longer is given up.
	rollbackPatience = 5 * time.Second
)

// Update implements jobs.Engine.
func (e *Engine) Update(ctx context.Context, fn func(tx jobs.Tx) error) error {
	if e.o.ReadOnly {
		return fmt.Errorf("write the journal (%s): it was opened read-only", e.place)
	}
	return e.run(ctx, true, fn)
}

// View implements jobs.Engine.
func (e *Engine) View(ctx context.Context, fn func(tx jobs.Tx) error) error {
	return e.run(ctx, false, fn)
}

// run runs fn until it succeeds, fails for good, or has had its tries.
func (e *Engine) run(ctx context.Context, write bool, fn func(tx jobs.Tx) error) error {
	wait := firstWait
	trust := write
	for try := 1; ; try++ {
		there, err := e.once(ctx, write, trust, fn)
		if err == nil {
			return nil
		}
		if there && try < tries && ctx.Err() == nil {
			trust = false // somebody else has made what was not there
			continue
		}
		if try == tries || !again(err) || errors.Is(err, jobs.ErrCommitUnknown) || ctx.Err() != nil {
			return e.explain(err)
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(wait))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return e.explain(err)
		}
		wait = min(2*wait, longestWait)
	}
}

// once runs fn in one transaction. With trust, what it does not find is taken not to be
// there when it is stored; if it is, the transaction fails, and there says so.
func (e *Engine) once(ctx context.Context, write, trust bool, fn func(tx jobs.Tx) error) (there bool, err error) {
	c, release, err := e.acquire(ctx)
	if err != nil {
		return false, err
	}
	committed := false
	var ptx pgx.Tx
	var t *tx
	defer func() {
		// Also when fn panics. What cannot be rolled back in time is cut off.
		if ptx != nil && !committed {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackPatience)
			_ = ptx.Rollback(ctx)
			cancel()
		}
		if t != nil {
			there = t.there
			if committed {
				e.marks.lower(t.touched)
			} else {
				e.marks.undone(t.touched)
			}
		}
		release()
	}()
	// REPEATABLE READ for a View, which wants one state over several statements. In
	// an Update, rows are held by locks, and a statement that waited for one sees
	// what the other left. It asks for no READ WRITE: that would write to a server
	// which was made read-only to keep writers out, and a standby refuses it with a
	// code that says nothing of why.
	how := "ISOLATION LEVEL READ COMMITTED"
	if !write {
		how = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
	}
	if ptx, err = c.BeginTx(ctx, pgx.TxOptions{BeginQuery: e.begin(how)}); err != nil {
		e.discard(c, err)
		return false, err
	}
	t = &tx{p: ptx, q: e.q, write: write, marks: e.marks, touched: newTouches()}
	if trust {
		t.absent = newAbsent()
	}
	err = fn(t)
	if err == nil && t.wrote && len(t.fences) > 0 {
		err = t.hold(ctx) // they came after all that writes
	}
	t.ended = true
	if err == nil {
		// PostgreSQL makes a COMMIT after an error a ROLLBACK, so an error that fn
		// swallowed is one all the same.
		err = t.failed
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		e.discard(c, err)
		return false, err
	}
	if !write {
		return false, nil
	}
	if len(t.fences) > 0 {
		err = e.commitLook(ctx, c, t)
	} else {
		err = e.commit(ctx, ptx)
	}
	if err != nil {
		e.discard(c, err)
		return false, err
	}
	committed = true
	return false, nil
}

// commitLook ends a transaction that wrote nothing and was to be made under leases.
// They are looked at along with its COMMIT, which does nothing but end it.
func (e *Engine) commitLook(ctx context.Context, c *pgxpool.Conn, t *tx) error {
	b := &pgx.Batch{}
	for _, f := range t.fences {
		b.Queue(t.q.leaseCheck, fenceArgs(f)...)
	}
	b.Queue("COMMIT")
	results := c.SendBatch(ctx, b)
	err := passFences(results, t.fences)
	if e := results.Close(); err == nil {
		err = e
	}
	return err
}

// acquire returns a connection and what gives it back. Those that are not urgent
// leave one for those that are.
func (e *Engine) acquire(ctx context.Context) (*pgxpool.Conn, func(), error) {
	if jobs.IsUrgent(ctx) {
		c, err := e.pool.Acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Release, nil
	}
	select {
	case e.ordinary <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	c, err := e.pool.Acquire(ctx)
	if err != nil {
		<-e.ordinary
		return nil, nil, err
	}
	return c, func() { c.Release(); <-e.ordinary }, nil
}

// commit is not cut short by the caller's context, so that its outcome is known
// wherever it can be.
func (e *Engine) commit(ctx context.Context, ptx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer cancel()
	crash.Commit(crash.Committing)
	err := ptx.Commit(ctx)
	switch {
	case err == nil:
		crash.Commit(crash.Committed)
		return nil
	case rolledBack(err):
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, err)
}

// discard closes a connection that is of no use any more, and with it all others
// that lead to a server which was shut down or has become a standby.
func (e *Engine) discard(c *pgxpool.Conn, err error) {
	if !unusable(err) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Conn().Close(ctx)
	e.pool.Reset()
}
