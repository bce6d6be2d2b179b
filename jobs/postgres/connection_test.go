package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/postgres"
)

// terminate has the server end all sessions of the engine, and returns when they are gone.
func terminate(t *testing.T, dsn string) {
	t.Helper()
	s := session(t, dsn)
	ask[int](t, s, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'syncd'`)
	until(t, "the sessions have ended", func() bool {
		return ask[int](t, s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'syncd'`) == 0
	})
}

func TestSessionsThatWereEndedAreReplaced(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, postgres.Options{Exclusive: true, MaxConns: 3})
	put(t, e, "A")
	terminate(t, dsn)
	put(t, e, "B")
	terminate(t, dsn)
	if n := count(t, e); n != 2 {
		t.Errorf("%d rows are there, want 2", n)
	}
}

func TestATransactionThatTheServerGaveUpIsRunAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		runs int // in all; 1 for not again
	}{
		{"not serializable", &pgconn.PgError{Code: "40001"}, 3},
		{"deadlock", &pgconn.PgError{Code: "40P01"}, 3},
		{"a lock not to be had", &pgconn.PgError{Code: "55P03"}, 3},
		{"the server shuts down", &pgconn.PgError{Code: "57P01", Severity: "FATAL"}, 3},
		{"a standby since a failover", &pgconn.PgError{Code: "25006"}, 3},
		{"always a deadlock", &pgconn.PgError{Code: "40P01"}, 6},
		{"a constraint", &pgconn.PgError{Code: "23514"}, 1},
		{"the caller's own", errors.New("no"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := opened(t, made(t), exclusive)
			runs := 0
			err := e.Update(t.Context(), func(tx jobs.Tx) error {
				runs++
				if err := tx.PutRows(t.Context(), []jobs.Row{row(fmt.Sprint("run ", runs))}); err != nil {
					return err
				}
				if runs < 3 || c.runs != 3 {
					return fmt.Errorf("in run %d: %w", runs, c.err)
				}
				return nil
			})
			if runs != c.runs || (err == nil) != (c.runs == 3) || err != nil && !errors.Is(err, c.err) {
				t.Errorf("it was run %d times and ended with %v, want %d runs", runs, err, c.runs)
			}
			want := int64(0)
			if c.runs == 3 {
				want = 1
			}
			if n := count(t, e); n != want {
				t.Errorf("%d rows are there, want %d", n, want)
			}
		})
	}
}

func TestASessionThatIsEndedWithinATransactionIsGotOver(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, exclusive)
	runs := 0
	if err := e.Update(t.Context(), func(tx jobs.Tx) error {
		runs++
		if err := tx.PutRows(t.Context(), []jobs.Row{row("A")}); err != nil {
			return err
		}
		if runs == 1 {
			terminate(t, dsn)
		}
		return tx.PutRows(t.Context(), []jobs.Row{row("B")})
	}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, e); runs != 2 || n != 2 {
		t.Errorf("it was run %d times and left %d rows, want 2 and 2", runs, n)
	}
}

func TestTheJournalGoesOnAfterTheServerWasStoppedAndStarted(t *testing.T) {
	t.Parallel()
	server := pgtest.Cluster(t, "wal_level=replica")
	e := opened(t, server.DSN("journal"), exclusive)
	take(t, e, "mine", "")
	rows := int64(0)
	for name, stop := range map[string]func(){"in good order": func() { server.Stop(pgtest.Fast) }, "at once": func() { server.Stop(pgtest.Immediate) }, "by SIGKILL": func() { server.Stop(pgtest.Kill) }} {
		put(t, e, name)
		rows++
		stop()
		err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("while it is down")}) })
		if err == nil || errors.Is(err, jobs.ErrCommitUnknown) || errors.Is(err, jobs.ErrInUse) || !strings.HasPrefix(err.Error(), "check that the server runs and can be reached at ") {
			t.Errorf("stopped %s: while it is down the error is %v", name, err)
		}
		server.Start()
		put(t, e, name+", after")
		rows++
		if n := count(t, e); n != rows {
			t.Errorf("stopped %s: %d rows are there, want %d", name, n, rows)
		}
	}
	if !renew(t, e, "mine") {
		t.Error("the lease is lost")
	}
	readOnlyForAWhile(t, server, e)
	standbyForAWhile(t, server, e)
}

// readOnlyForAWhile sets what keeps writers out of an old primary, also for sessions
// that are there.
func readOnlyForAWhile(t *testing.T, server *pgtest.Server, e *postgres.Engine) {
	t.Helper()
	s := session(t, server.DSN("journal"))
	for _, on := range []string{"on", "off"} {
		do(t, s, `ALTER SYSTEM SET default_transaction_read_only = `+on)
		do(t, s, `SELECT pg_reload_conf()`)
		tries := 0
		until(t, "the journal's sessions are read-only: "+on, func() bool {
			tries++
			err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row(fmt.Sprint(on, tries))}) })
			return (err != nil) == (on == "on")
		})
	}
}

// standbyForAWhile has the server's address lead to a standby.
func standbyForAWhile(t *testing.T, server *pgtest.Server, e *postgres.Engine) {
	t.Helper()
	server.Stop(pgtest.Fast)
	server.Standby(true)
	server.Start()
	err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("on a standby")}) })
	if !errors.Is(err, jobs.ErrUnsafe) || !strings.Contains(err.Error(), "is a standby") {
		t.Errorf("on a standby the error is %v", err)
	}
	server.Stop(pgtest.Fast)
	server.Standby(false)
	server.Start()
	put(t, e, "on the primary again")
}

// TestAServerThatTakesNoWritesAnyMoreIsLeftForTheNewOne has a trigger stand for the
// old primary after a switch-over: it refuses the sessions that it knows.
func TestAServerThatTakesNoWritesAnyMoreIsLeftForTheNewOne(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]postgres.Options{"by itself": {Exclusive: true, MaxConns: 3}, "behind a pooler": {Exclusive: true, MaxConns: 3, Pooler: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := made(t)
			e := opened(t, dsn, settings)
			if err := e.Update(t.Context(), func(tx jobs.Tx) error {
				if n := count(t, e); n != 0 { // on a connection of its own
					t.Errorf("%d rows are there at the beginning", n)
				}
				return tx.PutRows(t.Context(), []jobs.Row{row("A")})
			}); err != nil {
				t.Fatal(err)
			}
			s := session(t, dsn)
			do(t, s, `CREATE TABLE public.old AS SELECT pid FROM pg_stat_activity WHERE application_name = 'syncd' AND datname = current_database();
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT FROM public.old WHERE pid = pg_backend_pid()) THEN RAISE SQLSTATE '25006'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON syncd.jobs FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
			if n := ask[int](t, s, `SELECT count(*) FROM public.old`); n < 2 {
				t.Fatalf("%d connections are pooled, want two", n)
			}
			put(t, e, "B")
			if n := count(t, e); n != 2 {
				t.Errorf("%d rows are there, want 2", n)
			}
			until(t, "no session of before is left", func() bool {
				return ask[int](t, s, `SELECT count(*) FROM pg_stat_activity JOIN public.old USING (pid)`) == 0
			})
		})
	}
}

func TestAConnectionLostAtCommitLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		arrives bool // whether the server gets to see the COMMIT
	}{{"before the server saw it", false}, {"before its answer came back", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := made(t)
			p := newProxy(t, dsn)
			e := opened(t, p.dsn, exclusive)
			p.cutAtCommit(c.arrives)
			runs := 0
			err := e.Update(t.Context(), func(tx jobs.Tx) error {
				runs++
				return tx.PutRows(t.Context(), []jobs.Row{row("A")})
			})
			if !errors.Is(err, jobs.ErrCommitUnknown) || runs != 1 {
				t.Errorf("it was run %d times and ended with %v, want once and jobs.ErrCommitUnknown", runs, err)
			}
			if c.arrives {
				// The server commits although nobody waits for it any more.
				s := session(t, dsn)
				until(t, "the server has committed", func() bool { return ask[int](t, s, `SELECT count(*) FROM syncd.jobs`) == 1 })
			}
			put(t, e, "B")
			if n, want := count(t, e), map[bool]int64{false: 1, true: 2}[c.arrives]; n != want {
				t.Errorf("%d rows are there, want %d", n, want)
			}
		})
	}
}

func TestACommitIsNotCutShortByTheCallersContext(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	p := newProxy(t, dsn)
	e := opened(t, p.dsn, exclusive)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.atCommit(cancel)
	if err := e.Update(ctx, func(tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{row("A")}) }); err != nil {
		t.Errorf("the context ended while the commit was under way, and the error is %v", err)
	}
	if n := count(t, e); n != 1 {
		t.Errorf("%d rows are there, want 1", n)
	}
}
