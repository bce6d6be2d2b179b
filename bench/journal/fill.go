package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to the journal's database: %w", err)
	}
	return c, nil
}

// fill multiplies rows of a flow within the database, which is faster by far than
// admitting them: it makes n rows like the one of key, each of a record of its
// own, with its body where the row is open. The journal is closed meanwhile.
func (p *place) fill(ctx context.Context, flow, key string, n int, scattered bool) error {
	if err := p.Close(); err != nil {
		return err
	}
	var err error
	if p.kind == "postgres" {
		err = p.fillPostgres(ctx, flow, key, n, scattered)
	} else {
		err = p.fillSQLite(ctx, flow, key, n, scattered)
	}
	if err != nil {
		return fmt.Errorf("fill the journal: %w", err)
	}
	return p.open(ctx)
}

// ordinal is what the n-th key ends with.
func ordinal(n string, scattered bool) string {
	if scattered {
		return n + " * 7919 % 10000019" // a prime that n stays below
	}
	return n
}

// copied are the columns of a row and what a copy, of number n, has in them.
func copied(columns []string, number, text string) string {
	values := slices.Clone(columns)
	for i, c := range columns {
		switch c {
		case "key", "source_id":
			values[i] = "t.key || " + text
		case "due_at":
			values[i] = "t.due_at + " + number
		default:
			values[i] = "t." + c
		}
	}
	return "(" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ")
}

func (p *place) fillPostgres(ctx context.Context, flow, key string, n int, scattered bool) error {
	c, err := connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	rows, _ := c.Query(ctx, `SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'syncd' AND table_name = 'jobs'
		AND is_identity = 'NO' AND is_generated = 'NEVER' AND coalesce(column_default, '') NOT LIKE 'nextval%'`)
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	const at = "n * interval '1 microsecond'"
	suffix := "'-' || lpad((" + ordinal("n::int8", scattered) + ")::text, 8, '0')"
	if _, err := c.Exec(ctx, `INSERT INTO syncd.jobs `+copied(columns, at, suffix)+` FROM syncd.jobs t, generate_series(1, $3::int) n
		WHERE t.flow = $1 AND t.key = $2`, flow, key, n); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `INSERT INTO syncd.bodies (flow, key, body) SELECT t.flow, t.key || `+suffix+`, b.body FROM syncd.jobs t
		JOIN syncd.bodies b ON b.flow = t.flow AND b.key = t.key, generate_series(1, $3::int) n
		WHERE t.flow = $1 AND t.key = $2 AND t.state = 'ready'`, flow, key, n); err != nil {
		return err
	}
	if _, err = c.Exec(ctx, "VACUUM ANALYZE syncd.jobs, syncd.bodies"); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "CHECKPOINT") // what was filled is not to be written out beside what is measured
	return err
}

func (p *place) fillSQLite(ctx context.Context, flow, key string, n int, scattered bool) error {
	db, err := sql.Open("sqlite", "file:"+p.path)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "PRAGMA cache_size = -200000"); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, "SELECT name FROM pragma_table_info('jobs') WHERE pk = 0 OR type <> 'INTEGER'")
	if err != nil {
		return err
	}
	var columns []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return errors.Join(err, rows.Close())
		}
		columns = append(columns, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	const part = 100_000 // so that the log stays small
	for from := 1; from <= n; from += part {
		if _, err := db.ExecContext(ctx, `WITH RECURSIVE s (n) AS (SELECT ?3 UNION ALL SELECT n + 1 FROM s WHERE n < ?4)
			INSERT INTO jobs `+copied(columns, "s.n", "printf('-%08d', "+ordinal("s.n", scattered)+")")+` FROM s CROSS JOIN jobs t WHERE t.flow = ?1 AND t.key = ?2`,
			flow, key, from, min(from+part-1, n)); err != nil {
			return err
		}
		// The newest rows are those just made.
		if _, err := db.ExecContext(ctx, `INSERT INTO bodies (id, body) SELECT j.id, b.body FROM jobs t JOIN bodies b ON b.id = t.id JOIN jobs j
			WHERE t.flow = ?1 AND t.key = ?2 AND t.state = 'ready' AND j.id > (SELECT max(id) FROM jobs) - ?3`,
			flow, key, min(from+part-1, n)-from+1); err != nil {
			return err
		}
	}
	return nil
}
