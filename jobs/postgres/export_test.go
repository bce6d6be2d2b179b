package postgres

import (
	"testing"
	"time"

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

// Renew renews the engine's lease at once.
func Renew(t *testing.T, e *Engine) error {
	t.Helper()
	return e.lease.renew(t.Context())
}

// Abandon ends an engine as a killed process does: nothing is given back.
func Abandon(t *testing.T, e *Engine) {
	t.Helper()
	e.stop()
	e.work.Wait()
	e.pool.Close()
	e.lease.pool.Close()
	e.closeOnce.Do(func() {})
}
