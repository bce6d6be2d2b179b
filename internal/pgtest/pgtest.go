// Package pgtest gives tests a PostgreSQL of their own: DSN a fresh database on a server shared by the
// test run, Cluster a whole server that the test may stop, kill and start again. Servers are private,
// in temporary folders, and are taken away when the test process ends, however it ends. A machine without PostgreSQL fails the
// test with the command that installs it; nothing is ever skipped.
//
//	func TestAdmitKeepsTheNewest(t *testing.T) {
//		t.Parallel()
//		pool, err := pgxpool.New(t.Context(), pgtest.DSN(t))
//		...
//	}
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/internal/pgtest/pgserver"
)

// Env names the environment variable with the connection string, as a superuser, of the server on which
// DSN makes its databases. The test command sets it, so that all packages share one server. Without it the test process
// starts one for itself. It does not begin with SYNCD_, because syncd takes such variables for its settings.
const Env = "PGTEST_SERVER"

// patience bounds every step: making a server or a database on a machine that is busy with other tests.
const patience = 2 * time.Minute

// ownServer is the one server of this test process, started when the first test asks. It is
// package state because that is what it stands for: something all tests of the process share. Its watcher stops it when
// the process ends, so no TestMain is needed.
var ownServer = sync.OnceValues(func() (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return pgserver.New(ctx)
})

// DSN returns the connection string (a postgres:// URL, superuser) of an empty database made for this
// test alone. The database is dropped, with whatever connections are still open, when the test ends. Safe in parallel tests.
func DSN(t testing.TB) string {
	t.Helper()
	admin := adminDSN(t)
	name := databaseName(t)
	// template0 never has connections of its own, so any number of tests can copy it at once.
	if err := adminExec(admin, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatalf("pgtest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := adminExec(admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the test's database: %v", err)
		}
	})
	dsn, err := withDatabase(admin, name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return dsn
}

func adminDSN(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv(Env); dsn != "" {
		return dsn
	}
	server, err := ownServer()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return server.DSN("postgres")
}

func databaseName(t testing.TB) string {
	t.Helper()
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatalf("pgtest: name a database: %v", err)
	}
	return "t_" + hex.EncodeToString(b[:])
}

// adminExec runs one statement on a connection of its own: CREATE and DROP DATABASE take no transaction,
// and a connection kept for later could be lost in between.
func adminExec(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// makeDatabase makes a database unless the server has it already.
func makeDatabase(dsn, name string) error {
	err := adminExec(dsn, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == pgerrDuplicateDatabase {
		return nil
	}
	return err
}

// pgerrDuplicateDatabase is from https://www.postgresql.org/docs/current/errcodes-appendix.html.
const pgerrDuplicateDatabase = "42P04"

// withDatabase is the same connection string with another database.
func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Host == "" {
		return "", fmt.Errorf("%s must be a postgres://user@host:port/database URL", Env)
	}
	u.Path = "/" + name
	return u.String(), nil
}
