package pgtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"syncd/internal/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestEachTestHasAnEmptyDatabaseOfItsOwn(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint("test ", i), func(t *testing.T) {
			t.Parallel()
			conn := connect(t, pgtest.DSN(t))
			tables := query[int](t, conn, `SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
			if tables != 0 {
				t.Errorf("the fresh database has %d tables, want none", tables)
			}
			// Fails with "already exists" if two tests share a database.
			if _, err := conn.Exec(t.Context(), `CREATE TABLE mine (n int)`); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADatabaseIsDroppedWhenItsTestEndsEvenWithAnOpenConnection(t *testing.T) {
	var name string
	t.Run("user", func(t *testing.T) {
		dsn := pgtest.DSN(t)
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		name = query[string](t, conn, `SELECT current_database()`)
		// conn stays open: a test that fails half-way does not tidy up either.
	})
	conn := connect(t, pgtest.DSN(t))
	if n := query[int](t, conn, `SELECT count(*) FROM pg_database WHERE datname = $1`, name); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func TestTheSharedServerIsAsDurableAsTheJournalDemands(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query[string](t, conn, `SELECT current_setting($1)`, setting); got != "on" {
			t.Errorf("%s is %q, want on", setting, got)
		}
	}
}

func TestAClusterKeepsItsDataAndPortOverEveryWayToStopIt(t *testing.T) {
	c := pgtest.Cluster(t, "max_connections=17")
	conn := connect(t, c.DSN("shop"))
	if got := query[string](t, conn, `SHOW max_connections`); got != "17" {
		t.Errorf("max_connections is %s, want the 17 that was asked for", got)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept (mode text)`); err != nil {
		t.Fatal(err)
	}
	port := c.Port
	for i, mode := range []struct {
		name string
		stop func()
	}{
		{"fast", func() { c.Stop(pgtest.Fast) }},
		{"immediate", func() { c.Stop(pgtest.Immediate) }},
		{"kill", func() { c.Stop(pgtest.Kill) }},
	} {
		conn := connect(t, c.DSN("shop"))
		if _, err := conn.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, mode.name); err != nil {
			t.Fatal(err)
		}
		mode.stop()
		if _, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://postgres@127.0.0.1:%d/shop?sslmode=disable", port)); err == nil {
			t.Errorf("%s: the stopped server accepts connections", mode.name)
		}
		c.Start()
		if got := query[int](t, connect(t, c.DSN("shop")), `SELECT count(*) FROM kept`); got != i+1 {
			t.Errorf("%s: %d rows after the restart, want %d", mode.name, got, i+1)
		}
	}
	if c.Port != port {
		t.Errorf("port changed from %d to %d", port, c.Port)
	}
}

func BenchmarkDSN(b *testing.B) {
	pgtest.DSN(b) // the server's start is not what is measured
	for b.Loop() {
		oneDatabase(b)
	}
}

// oneDatabase makes and drops one database, as a test does.
func oneDatabase(b *testing.B) {
	t := &scoped{TB: b}
	pgtest.DSN(t)
	t.end()
}

// scoped runs cleanups when asked to, not at the end of the benchmark.
type scoped struct {
	testing.TB
	cleanups []func()
}

func (s *scoped) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scoped) end() {
	for _, f := range s.cleanups {
		f()
	}
}
