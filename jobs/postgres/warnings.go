package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// oldSnapshot is the age from which a transaction of another session is warned of.
	// At full speed some hundred thousand dead rows gather in a minute.
	oldSnapshot = 30 * time.Second
	// manyDead is the number of dead rows from which a table is warned of, if they
	// also outnumber the live ones.
	manyDead = 200_000
)

// Warnings tells what an operator should know of the journal's state, a line
// each, with what to do. Sessions of other roles show only to members of
// pg_read_all_stats.
func (e *Engine) Warnings(ctx context.Context) []string {
	return e.warnings(ctx, oldSnapshot, manyDead)
}

func (e *Engine) warnings(ctx context.Context, age time.Duration, dead int64) []string {
	var lines []string
	c, release, err := e.acquire(ctx)
	if err == nil {
		defer release()
		lines, err = e.oldSnapshots(ctx, c, age)
	}
	if err == nil {
		var more []string
		more, err = e.deadRows(ctx, c, dead)
		lines = append(lines, more...)
	}
	if err != nil {
		lines = append(lines, fmt.Sprintf("the journal's state cannot be looked at: %v", e.explain(err)))
	}
	return lines
}

// oldSnapshots finds what keeps the server from removing dead rows: each row that
// changes leaves one, and with them all look-ups become slower.
func (e *Engine) oldSnapshots(ctx context.Context, c *pgxpool.Conn, age time.Duration) (out []string, err error) {
	rows, err := c.Query(ctx, `
		SELECT format('process %s of %s (%s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), 'no name')),
			extract(epoch FROM clock_timestamp() - xact_start)::float8
		FROM pg_stat_activity WHERE xact_start < clock_timestamp() - $1::interval AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
			AND pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
		UNION ALL
		SELECT format('prepared transaction %s', gid), extract(epoch FROM clock_timestamp() - prepared)::float8
		FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - $1::interval AND database = current_database()
		ORDER BY 2 DESC LIMIT 3`, age)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var who string
		var seconds float64
		if err := rows.Scan(&who, &seconds); err != nil {
			return nil, err
		}
		open := time.Duration(seconds * float64(time.Second)).Round(time.Second)
		out = append(out, fmt.Sprintf("%s has held a transaction open for %s; the journal becomes slower until it ends, so end it", who, open))
	}
	return out, rows.Err()
}

func (e *Engine) deadRows(ctx context.Context, c *pgxpool.Conn, many int64) (out []string, err error) {
	rows, err := c.Query(ctx, `SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables
		WHERE schemaname = $1 AND n_dead_tup > $2 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC`, e.o.Schema, many)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var live, dead int64
		if err := rows.Scan(&table, &live, &dead); err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("table %s.%s has %d dead rows beside %d live ones; see that autovacuum is on and that no transaction stays open", e.o.Schema, table, dead, live))
	}
	return out, rows.Err()
}
