package memory

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"syncd/jobs"
)

// Engine is a journal in memory. Its transactions that write come one after the
// other. Within a testing/synctest bubble it has to be opened there; then waiting
// for a turn blocks durably.
type Engine struct {
	o Options
	// turn is held by the one who writes. It is no mutex: a goroutine that waits for
	// one does not let the time of a synctest bubble go on.
	turn  chan struct{}
	state atomic.Pointer[state]
	// edits counts the transactions that wrote; it is changed by the one who writes.
	edits  edit
	begun  atomic.Int64
	closed atomic.Bool
}

var _ jobs.Engine = (*Engine)(nil)

// Options of an engine. The zero value is an engine that never fails.
type Options struct {
	// Now is the time; nil for the process's clock.
	Now func() time.Time
	// Before is called before a transaction begins, with its number, counted from 1
	// over all transactions, and whether it may write. An error fails the transaction
	// and is what its caller gets. It may wait; others who write then wait with it.
	Before func(n int64, write bool) error
	// Commit decides on a transaction that may write and whose function succeeded:
	// whether it is committed, and what its caller gets. A commit that is reported
	// as an error should wrap jobs.ErrCommitUnknown.
	Commit func(n int64) (commit bool, err error)
}

var errClosed = errors.New("the journal is closed")

// Open returns an engine with an empty journal.
func Open(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Before == nil {
		o.Before = func(int64, bool) error { return nil }
	}
	if o.Commit == nil {
		o.Commit = func(int64) (bool, error) { return true, nil }
	}
	e := &Engine{o: o, turn: make(chan struct{}, 1)}
	s := &state{}
	s.meta.put(e.edits, text("schema"), schema)
	for name, value := range jobs.FirstFacts(e.Now()) {
		s.meta.put(e.edits, text(name), value)
	}
	e.state.Store(s)
	return e
}

// Update implements jobs.Engine. fn must not call Update of the same engine: it
// would wait for itself.
func (e *Engine) Update(ctx context.Context, fn func(tx jobs.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.turn }()
	n, err := e.begin(true)
	if err != nil {
		return err
	}
	e.edits++
	t := &tx{s: *e.state.Load(), now: e.Now, edit: e.edits, write: true}
	if err := t.run(fn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	commit, err := e.o.Commit(n)
	if commit {
		e.state.Store(&t.s)
	}
	return err
}

// View implements jobs.Engine.
func (e *Engine) View(ctx context.Context, fn func(tx jobs.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := e.begin(false); err != nil {
		return err
	}
	t := &tx{s: *e.state.Load(), now: e.Now}
	return t.run(fn)
}

func (e *Engine) begin(write bool) (n int64, err error) {
	if e.closed.Load() {
		return 0, errClosed
	}
	n = e.begun.Add(1)
	return n, e.o.Before(n, write)
}

// Now implements jobs.Engine.
func (e *Engine) Now() time.Time { return e.o.Now().UTC().Truncate(time.Microsecond) }

// Describe implements jobs.Engine.
func (e *Engine) Describe() string { return "memory of this process" }

// Close implements jobs.Engine. It waits for the transaction that writes.
func (e *Engine) Close() error {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	e.closed.Store(true)
	return nil
}
