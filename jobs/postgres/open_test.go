package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/postgres"
)

// session is a connection of somebody else to the same database.
func session(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func do(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until returns when something has happened in the server; each look is a round trip.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for start := time.Now(); !happened(); {
		if time.Since(start) > time.Minute {
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// made is a database with a journal that a daemon made and left.
func made(t *testing.T) string {
	t.Helper()
	dsn := pgtest.DSN(t)
	e, err := postgres.Open(t.Context(), dsn, postgres.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func row(key string) jobs.Row {
	return jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", State: jobs.Ready}
}

func put(t *testing.T, e *postgres.Engine, key string) {
	t.Helper()
	if err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row(key)}) }); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func count(t *testing.T, e *postgres.Engine) (n int64) {
	t.Helper()
	if err := e.View(t.Context(), func(tx jobs.Tx) error {
		cs, err := tx.Counts(t.Context(), e.Now())
		n = 0
		for _, c := range cs {
			n += c.N
		}
		return err
	}); err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}

func TestOpenSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	fresh, old := pgtest.DSN(t), made(t)
	daemon := postgres.Options{Exclusive: true}
	for _, c := range []struct {
		name    string
		dsn     string
		prepare string // SQL run on the database before
		o       postgres.Options
		is      error
		says    string // its beginning
	}{
		{name: "no connection string", dsn: "postgres://syncd:hunter2@host:port/db", o: daemon,
			says: "open the journal: the connection string is not understood; write postgres://USER@HOST:5432/DATABASE or key=value pairs, with the password by reference"},
		{name: "no server", dsn: "postgres://syncd:hunter2@127.0.0.1:1/db?sslmode=disable", o: daemon,
			says: "open the journal: check that the server runs and can be reached at 127.0.0.1:1/db, schema syncd ("},
		{name: "no database", dsn: strings.Replace(fresh, "/t_", "/absent_", 1), o: daemon,
			says: "open the journal: make the database first (CREATE DATABASE …) ("},
		{name: "a schema that would need quotes", dsn: fresh, o: postgres.Options{Exclusive: true, Schema: "My Schema"},
			says: `open the journal: schema "My Schema": want lower-case letters, digits and _, at most 63 of them, not beginning with a digit`},
		{name: "read-only for a daemon", dsn: fresh, o: postgres.Options{Exclusive: true, ReadOnly: true},
			says: "open the journal: a daemon cannot have its journal read-only"},
		{name: "no journal for a command", dsn: fresh, is: jobs.ErrAbsent,
			says: "open the journal: there is none yet in schema syncd of this database; `syncd run` makes it when it starts for the first time"},
		{name: "a newer journal", dsn: old, prepare: `INSERT INTO syncd.goose_db_version (version_id, is_applied) VALUES (7, true)`, o: daemon, is: jobs.ErrNewer,
			says: "open the journal: written by a newer version of syncd: schema syncd is version 7 and this syncd knows up to 3; install the newer syncd again"},
		{name: "an older journal for a command", dsn: old, prepare: `DELETE FROM syncd.goose_db_version WHERE version_id > 0`, is: jobs.ErrAbsent,
			says: "open the journal: there is none yet in schema syncd"},
		{name: "a role that may make no schema", dsn: fresh, o: daemon,
			prepare: `DO $$ BEGIN EXECUTE 'CREATE ROLE ' || current_database() || '_guest LOGIN'; END $$`,
			says:    "open the journal: let an administrator run CREATE SCHEMA syncd AUTHORIZATION and the role that syncd connects as, or make that role the owner of what is in it ("},
		{name: "a role that may not write", dsn: fresh, o: daemon,
			prepare: `DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$`,
			says:    "open the journal: the server lets this role read only (default_transaction_read_only); connect to a server and with a role that may write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := c.dsn
			if c.prepare != "" {
				s := session(t, dsn)
				do(t, s, c.prepare)
				if strings.Contains(c.prepare, "_guest") {
					dsn = strings.Replace(dsn, "postgres@", ask[string](t, s, `SELECT current_database() || '_guest'`)+"@", 1)
					t.Cleanup(func() {
						_, _ = s.Exec(context.Background(), `DO $$ BEGIN EXECUTE 'DROP ROLE ' || current_database() || '_guest'; END $$`)
					})
				}
			}
			e, err := postgres.Open(t.Context(), dsn, c.o)
			if err == nil {
				_ = e.Close()
				t.Fatal("it was opened")
			}
			if !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("the error says\n%s\nwant\n%s", err, c.says)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("the error is not %v", c.is)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestAServerOnWhichACommitMayBeLostIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, setting, says string }{
		{"fsync off", "fsync=off", "open the journal: not durable as configured: the server has fsync = off, so that a power cut loses or damages what was committed; set fsync = on in postgresql.conf and reload it"},
		{"torn pages", "full_page_writes=off", "open the journal: not durable as configured: the server has full_page_writes = off, so that a power cut can damage the data; set full_page_writes = on in postgresql.conf and reload it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Cluster(t, c.setting).DSN("journal")
			for _, pooler := range []bool{false, true} {
				_, err := postgres.Open(t.Context(), dsn, postgres.Options{Exclusive: true, Pooler: pooler})
				if !errors.Is(err, jobs.ErrUnsafe) || err.Error() != c.says {
					t.Errorf("the error is\n%v\nwant\n%s", err, c.says)
				}
			}
		})
	}
}

func TestTheEncodingOfTheDatabaseKeepsEveryKey(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, "fsync=on")
	s := session(t, c.DSN("postgres"))
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "UTF8"} {
		do(t, s, "CREATE DATABASE enc_"+encoding+" ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
		e, err := postgres.Open(t.Context(), c.DSN("enc_"+strings.ToLower(encoding)), postgres.Options{Exclusive: true})
		if encoding == "LATIN1" {
			const says = "open the journal: the database's encoding is LATIN1, which lacks characters that keys may have; " +
				"make it anew by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
			if err == nil || err.Error() != says {
				t.Errorf("the error is\n%v\nwant\n%s", err, says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		const key = "Größe–€–Жук"
		err = e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row(key)}) })
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if n := ask[int](t, session(t, c.DSN("enc_"+strings.ToLower(encoding))), "SELECT count(*)::int FROM syncd.jobs WHERE key = $1", key); n != 1 {
			t.Errorf("%s: %d rows have the key", encoding, n)
		}
	}
}

func TestCommitsAreDurableWhereTheDefaultSaysOtherwise(t *testing.T) {
	t.Parallel()
	for _, pooler := range []bool{false, true} {
		for setting, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
			dsn := pgtest.DSN(t)
			do(t, session(t, dsn), fmt.Sprintf(`DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = %s'; END $$`, setting))
			e := opened(t, dsn, postgres.Options{Exclusive: true, Pooler: pooler})
			for range 3 {
				if got := postgres.SettingInUpdate(t, e, "synchronous_commit"); got != want {
					t.Errorf("pooler %v, default %s: a transaction has synchronous_commit = %s, want %s", pooler, setting, got, want)
				}
			}
		}
	}
}

func TestSettingsHoldForTheJournalsTransactionsAlone(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, postgres.Options{Exclusive: true, Pooler: true, MaxConns: 1})
	for setting, want := range map[string]string{"jit": "off", "enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off",
		"enable_mergejoin": "off", "statement_timeout": "1min", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "25s"} {
		if got := postgres.SettingInUpdate(t, e, setting); got != want {
			t.Errorf("within a transaction %s is %s, want %s", setting, got, want)
		}
		if got := postgres.SettingOutside(t, e, setting); got == want {
			t.Errorf("the session keeps %s = %s behind the transaction, where it may be somebody else's", setting, got)
		}
	}
	put(t, e, "A")
	if got := postgres.PreparedStatements(t, e); got != 0 {
		t.Errorf("the session keeps %d prepared statements", got)
	}
	direct := opened(t, dsn, postgres.Options{})
	if got := postgres.SettingInUpdate(t, direct, "jit"); got != "off" {
		t.Errorf("without a pooler jit is %s", got)
	}
}

func TestDescribeTellsThePlaceAndNoSecret(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, strings.Replace(dsn, "postgres@", "postgres:hunter2@", 1), postgres.Options{})
	if s := e.Describe(); !strings.HasPrefix(s, "postgresql 127.0.0.1:") || !strings.HasSuffix(s, ", schema syncd") || strings.Contains(s, "hunter2") {
		t.Errorf("it describes itself as %q", s)
	}
}

func TestDaemonsThatStartTogetherMakeOneJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(*testing.T, string)
	}{
		{"where there is none", func(*testing.T, string) {}},
		{"where an older one is", func(t *testing.T, dsn string) { postgres.MakeOlder(t, dsn, 2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DSN(t)
			c.make(t, dsn)
			const daemons = 6
			var all sync.WaitGroup
			engines, errs := make([]*postgres.Engine, daemons), make([]error, daemons)
			for i := range daemons {
				all.Go(func() {
					engines[i], errs[i] = postgres.Open(t.Context(), dsn, postgres.Options{Exclusive: true, MaxConns: 3})
				})
			}
			all.Wait()
			for i := range daemons {
				if errs[i] != nil {
					t.Errorf("daemon %d: %v", i, errs[i])
					continue
				}
				put(t, engines[i], fmt.Sprint("by ", i))
				defer func() { _ = engines[i].Close() }()
			}
			if n := ask[int](t, session(t, dsn), `SELECT count(*) FROM syncd.jobs`); n != daemons {
				t.Errorf("%d rows are there, want %d", n, daemons)
			}
		})
	}
}

func TestAJournalKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	epoch := func() (s string) {
		e, err := postgres.Open(t.Context(), dsn, postgres.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.View(t.Context(), func(tx jobs.Tx) error {
			m, err := tx.Meta(t.Context())
			s = m["epoch"]
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		return s
	}
	if a, b := epoch(), epoch(); a != b || a == "" {
		t.Errorf("it was %q and is %q", a, b)
	}
}

func TestTheTimeIsTheDatabases(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	s := session(t, dsn)
	e := opened(t, dsn, postgres.Options{})
	before := ask[time.Time](t, s, `SELECT clock_timestamp()`)
	now := e.Now()
	after := ask[time.Time](t, s, `SELECT clock_timestamp()`)
	const slack = 50 * time.Millisecond
	if now.Before(before.Add(-slack)) || now.After(after.Add(slack)) {
		t.Errorf("it is %v, not between %v and %v", now, before, after)
	}
	fixed := time.Date(2030, 1, 2, 3, 4, 5, 678999, time.FixedZone("", 3600))
	e = opened(t, dsn, postgres.Options{Now: func() time.Time { return fixed }})
	if got, want := e.Now(), time.Date(2030, 1, 2, 2, 4, 5, 678000, time.UTC); got != want {
		t.Errorf("given a clock it is %v, want %v", got, want)
	}
}

func TestOldTransactionsAndDeadRowsAreWarnedOf(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, postgres.Options{})
	if w := e.Warnings(t.Context()); len(w) != 0 {
		t.Errorf("a quiet journal warns: %q", w)
	}
	other := session(t, dsn)
	do(t, other, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	ask[int](t, other, `SELECT 1`)
	pid := ask[int](t, other, `SELECT pg_backend_pid()`)
	w := postgres.WarningsFrom(t, e, 0, 0)
	if want := fmt.Sprintf("process %d of postgres (no name) has held a transaction open for ", pid); len(w) == 0 || !strings.HasPrefix(strings.Join(w, "\n"), want) {
		t.Errorf("the warnings are %q, want one that begins with %q", w, want)
	}
	do(t, other, `COMMIT`)
	for range 3 {
		do(t, other, `UPDATE syncd.daemons SET pid = pid`)
	}
	// Otherwise the server counts when it finds the time.
	ask[string](t, other, `SELECT pg_stat_force_next_flush()::text`)
	w = postgres.WarningsFrom(t, e, time.Hour, 0)
	if want := "table syncd.daemons has "; !strings.HasPrefix(strings.Join(w, "\n"), want) {
		t.Errorf("the warnings are %q, want one that begins with %q", w, want)
	}
}
