package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/connectors"
	"syncd/internal/crash"
	"syncd/ratelimit"
)

// db runs transactions, each behind the client's gate.
type db struct {
	pool     *pgxpool.Pool
	env      connectors.Env
	settings *Settings

	mu     sync.Mutex
	tables map[tableName]cached
}

// cached is a table's catalog entry, or why there is none.
type cached struct {
	table *table
	err   error
}

// read runs f in a read-only transaction. Its error is a *failure or what f made of it.
func (d *db) read(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return d.run(ctx, true, f)
}

// write runs f in a transaction and commits it. What f returns rolls it back.
func (d *db) write(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return d.run(ctx, false, f)
}

func (d *db) run(ctx context.Context, readOnly bool, f func(ctx context.Context, tx pgx.Tx) error) error {
	ask := ratelimit.Ask{Kind: ratelimit.Writing}
	if readOnly {
		ask.Kind = ratelimit.Reading
	}
	pass, err := d.env.Gate.Enter(ctx, ask)
	if err != nil {
		return &failure{atGate, err}
	}
	defer pass.Drop(true) // unless it is ended before
	if d.env.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.env.Timeout)
		defer cancel()
	}
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return d.failed(ctx, pass, nil, &failure{connecting, err})
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: d.settings.begin(readOnly, conn.Conn())})
	if err != nil {
		return d.failed(ctx, pass, conn, &failure{working, err})
	}
	if crash.On && !readOnly {
		crash.At("rows.begun")
	}
	if err := f(ctx, tx); err != nil {
		d.rollback(ctx, conn, tx)
		return d.failed(ctx, pass, conn, err)
	}
	if ctx.Err() != nil {
		// Nothing is sent that could not be taken back.
		d.rollback(ctx, conn, tx)
		return &failure{working, ctx.Err()}
	}
	if crash.On && !readOnly {
		crash.At("rows.committing")
		crash.At("rows.commit")
	}
	if err := tx.Commit(ctx); err != nil {
		return d.failed(ctx, pass, conn, &failure{committing, err})
	}
	if crash.On && !readOnly {
		crash.At("rows.committed")
	}
	pass.Answer(ctx, ratelimit.Signal{Status: 200}, d.env.Now())
	return nil
}

// rollback gives the connection back clean, or closes it, which makes the server roll back.
func (d *db) rollback(ctx context.Context, conn *pgxpool.Conn, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil {
		_ = conn.Conn().Close(ctx)
	}
}

// failed draws the consequences of an error for the pool and the gate.
func (d *db) failed(ctx context.Context, pass ratelimit.Pass, conn *pgxpool.Conn, err error) error {
	session, all := lost(err)
	if session && conn != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		_ = conn.Conn().Close(closing)
	}
	if all {
		d.pool.Reset()
	}
	if o := outcome(err); o.Class == connectors.Throttled {
		pass.Answer(ctx, ratelimit.Signal{Throttled: true, Evidence: o.Code}, d.env.Now())
	}
	return err
}

// table returns the catalog entry of a table; fresh asks for it to be read now. Whoever refuses something because of the catalog asks so first: the table
// may have been mended a moment ago.
func (d *db) table(ctx context.Context, name tableName, fresh bool) (*table, error) {
	d.mu.Lock()
	c, ok := d.tables[name]
	d.mu.Unlock()
	if ok && c.err == nil && !fresh {
		return c.table, c.err
	}
	var t *table
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, err = loadTable(ctx, tx, name)
		if _, missing := err.(missingTable); err != nil && !missing {
			err = &failure{working, err} // it tells nothing of the table
		}
		return err
	})
	if _, missing := err.(missingTable); err != nil && !missing {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[name] = cached{t, err}
	return t, err
}

// forget has the catalog read again, because the server says that it is not as we know it.
func (d *db) forget(names ...tableName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range names {
		delete(d.tables, n)
	}
}
