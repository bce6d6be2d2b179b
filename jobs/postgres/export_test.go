package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"syncd/jobs"
)

// What tests from outside need to see of the inside.

// SettingInUpdate is a setting as a transaction of the engine has it.
func SettingInUpdate(t *testing.T, e *Engine, name string) (value string) {
	t.Helper()
	err := e.Update(t.Context(), func(x jobs.Tx) error {
		return x.(*tx).p.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// SettingOutside is a setting as the engine's session has it between transactions.
func SettingOutside(t *testing.T, e *Engine, name string) (value string) {
	t.Helper()
	if err := e.pool.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// PreparedStatements is how many statements the engine's session keeps.
func PreparedStatements(t *testing.T, e *Engine) (n int) {
	t.Helper()
	if err := e.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// WarningsFrom is Warnings with other limits.
func WarningsFrom(t *testing.T, e *Engine, age time.Duration, dead int64) []string {
	t.Helper()
	return e.warnings(t.Context(), age, dead)
}

// MakeOlder makes the journal as an older version of syncd had it.
func MakeOlder(t *testing.T, dsn string, version int64) {
	t.Helper()
	e := newEngine(Options{Schema: defaultSchema, MaxConns: 2, Exclusive: true})
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	e.configure(config)
	if e.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer e.pool.Close()
	if err := e.clock.measure(t.Context(), e.acquire); err != nil {
		t.Fatal(err)
	}
	r, err := e.mayUse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.steps = slices.DeleteFunc(r.steps, func(m *goose.Migration) bool { return m.Version > version })
	for _, step := range []func() error{
		func() error { return e.makeSchema(t.Context()) },
		func() error { return e.up(t.Context(), r) },
		func() error { return e.sign(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
