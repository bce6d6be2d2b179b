package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// conn is one connection with its prepared statements. It works on the driver's
// own connection, for database/sql costs a fifth of the whole when statements
// are as small and as many as here. One goroutine at a time.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
	// inserted is the number of the last row that was inserted, into whatever table.
	inserted int64
	// log is the write-ahead log that it has written to; zero before that.
	log inode
}

func newConn(raw driver.Conn) *conn {
	return &conn{raw: raw, stmts: map[string]driver.Stmt{}}
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.raw.Close())...)
}

// exec runs a statement that returns no rows, prepared once per connection.
// Arguments are string, []byte, int64, bool or nil.
//
// The driver starts a goroutine for each call whose context can end, so
// statements that take microseconds pass no context; ctx is looked at before.
func (c *conn) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return c.execWaiting(context.Background(), sql, args...)
}

// execWaiting is exec for a statement that may wait, for a lock or by its size:
// it ends when ctx does.
func (c *conn) execWaiting(ctx context.Context, sql string, args ...any) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	res, err := s.(driver.StmtExecContext).ExecContext(ctx, c.named(args))
	if err != nil {
		return 0, err
	}
	if c.inserted, err = res.LastInsertId(); err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// errEnough ends a query without an error.
var errEnough = errors.New("enough")

// query hands each row of a statement's result to fn, until that returns errEnough.
// The values are valid until fn returns, but text and blobs are copies and may be kept.
func (c *conn) query(ctx context.Context, sql string, args []any, fn func(row) error) (err error) {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, c.named(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	values := make(row, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := fn(values); {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		}
	}
}

// one runs a query that returns at most one value; nil when there is no row.
func (c *conn) one(ctx context.Context, sql string, args ...any) (v driver.Value, err error) {
	err = c.query(ctx, sql, args, func(r row) error {
		v = r[0]
		return nil
	})
	return v, err
}

func (c *conn) prepare(sql string) (driver.Stmt, error) {
	if s, ok := c.stmts[sql]; ok {
		return s, nil
	}
	s, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, err
	}
	c.stmts[sql] = s
	return s, nil
}

// named brings arguments to the driver's form in a buffer that the next call uses again.
func (c *conn) named(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}
