package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// table is a target in PostgreSQL.
type table struct {
	conn   *pgx.Conn
	client string
	last   bool // the last order is there
}

func (t *table) setting() string { return t.client }

func (t *table) cpu() (time.Duration, error) { return 0, nil }

func (t *table) close() error { return t.conn.Close(context.Background()) }

// arrived looks for the last order, which costs the server nothing, and counts
// them only once that one is there.
func (t *table) arrived(ctx context.Context, f file) (bool, error) {
	if !t.last {
		err := t.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM orders WHERE ext_id = $1)", f.last).Scan(&t.last)
		if err != nil || !t.last {
			return false, err
		}
	}
	var n int
	err := t.conn.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&n)
	return n == f.events, err
}

func (t *table) verify(ctx context.Context, f file) error {
	var n int
	var pieces int64
	if err := t.conn.QueryRow(ctx, "SELECT count(*), sum(items) FROM orders").Scan(&n, &pieces); err != nil {
		return fmt.Errorf("look at the table: %w", err)
	}
	if n != f.events || pieces != f.pieces {
		return fmt.Errorf("the table holds %d orders of %d pieces, the file %d of %d", n, pieces, f.events, f.pieces)
	}
	return nil
}
