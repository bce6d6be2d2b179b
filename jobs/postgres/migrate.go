package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"syncd/jobs"
	"syncd/jobs/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versionTable is where goose notes what was done, within the schema.
const versionTable = "goose_db_version"

// readiness is what a schema has and what this program needs.
type readiness struct {
	version, want int64
	steps         []*goose.Migration
}

// mayUse decides what the schema is to this program. Only the daemon makes a
// journal or brings it up to date.
func (e *Engine) mayUse(ctx context.Context) (r readiness, err error) {
	r.steps, r.want, err = schema.Migrations(migrations, func(text string) string {
		return strings.ReplaceAll(text, "{schema}", e.o.Schema)
	})
	if err != nil {
		return r, err
	}
	if r.version, err = e.version(ctx); err != nil {
		return r, fmt.Errorf("read the schema's version: %w", err)
	}
	switch {
	case r.version > r.want:
		return r, r.newer(e.o.Schema)
	case r.version == r.want || e.o.Exclusive:
		return r, nil
	case r.version == 0:
		return r, fmt.Errorf("%w in schema %s of this database; `syncd run` makes it when it starts for the first time", jobs.ErrAbsent, e.o.Schema)
	default:
		return r, fmt.Errorf("%w: schema %s is version %d and this syncd needs %d; `syncd run` of this version brings it up to date when it starts", jobs.ErrOlder, e.o.Schema, r.version, r.want)
	}
}

func (r *readiness) newer(schema string) error {
	return fmt.Errorf("%w: schema %s is version %d and this syncd knows up to %d; install the newer syncd again", jobs.ErrNewer, schema, r.version, r.want)
}

// version is the schema's version; 0 when there is none.
func (e *Engine) version(ctx context.Context) (n int64, err error) {
	var there bool
	table := e.o.Schema + "." + versionTable
	if err := e.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = e.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+table).Scan(&n)
	return n, err
}

// migrate runs the missing migrations. Daemons that start together wait for each
// other on a table's lock, held by a transaction: it needs no session and ends with
// the connection.
func (e *Engine) migrate(ctx context.Context, r readiness) error {
	if err := e.makeSchema(ctx); err != nil {
		return err
	}
	lock, err := e.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: e.begin("")})
	if err != nil {
		return err
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(ctx)) }()
	for _, sql := range []string{
		// The transaction is idle while the migrations run.
		`SET LOCAL idle_in_transaction_session_timeout = 0`,
		`SET LOCAL lock_timeout = '60s'`,
		`LOCK TABLE ` + e.o.Schema + `.migration_lock IN EXCLUSIVE MODE`,
	} {
		if _, err := lock.Exec(ctx, sql); err != nil {
			return fmt.Errorf("wait for another daemon that makes the schema: %w", err)
		}
	}
	// Another daemon may have done it meanwhile.
	if r.version, err = e.version(ctx); err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	switch {
	case r.version == r.want:
		return nil
	case r.version > r.want:
		return r.newer(e.o.Schema)
	case r.version > 0:
		if err := e.keepOut(ctx, lock); err != nil {
			return err
		}
	}
	if err := e.up(ctx, r); err != nil {
		return fmt.Errorf("bring schema %s from version %d to %d: %w", e.o.Schema, r.version, r.want, err)
	}
	if err := e.sign(ctx); err != nil {
		return err
	}
	// An older daemon that saw the version before and waits for the row is refused too.
	if _, err := lock.Exec(ctx, e.q.leaseClose); err != nil {
		return fmt.Errorf("lock older daemons out: %w", err)
	}
	if err := lock.Commit(ctx); err != nil {
		return fmt.Errorf("lock older daemons out: %w", err)
	}
	return nil
}

// makeSchema makes the schema and the table whose lock guards the migrations. Of
// two that do so at once, one may fail on the other's row in a system catalogue.
func (e *Engine) makeSchema(ctx context.Context) error {
	for try := 1; ; try++ {
		err := e.tryMakeSchema(ctx)
		if err == nil || try == 5 || !raced(err) {
			return err
		}
	}
}

func (e *Engine) tryMakeSchema(ctx context.Context) error {
	var there bool
	if err := e.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, e.o.Schema+".migration_lock").Scan(&there); err != nil || there {
		return err
	}
	if err := e.pool.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, e.o.Schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := e.pool.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+e.o.Schema); err != nil {
			return fmt.Errorf("make schema %s: %w", e.o.Schema, err)
		}
	}
	if _, err := e.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+e.o.Schema+`.migration_lock ()`); err != nil {
		return fmt.Errorf("make the tables of schema %s: %w", e.o.Schema, err)
	}
	return nil
}

func (e *Engine) up(ctx context.Context, r readiness) error {
	db := stdlib.OpenDBFromPool(e.pool)
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(r.steps...),
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(e.o.Schema+"."+versionTable))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		return partial.Err
	}
	return err
}

// sign writes the journal's own facts once.
func (e *Engine) sign(ctx context.Context) error {
	var names, values []string
	for name, value := range jobs.FirstFacts(e.Now()) {
		names, values = append(names, name), append(values, value)
	}
	_, err := e.pool.Exec(ctx, `INSERT INTO `+e.o.Schema+`.meta (name, value) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`, names, values)
	if err != nil {
		return fmt.Errorf("write the journal's own facts: %w", err)
	}
	return nil
}
