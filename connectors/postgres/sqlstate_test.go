package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/internal/pgtest"
	"syncd/ratelimit"
)

func TestEverySQLStateHasItsClass(t *testing.T) {
	for _, c := range []struct {
		code, severity string
		phase          phase
		want           connectors.Class
	}{
		{"23505", "ERROR", working, connectors.Invalid}, {"23503", "ERROR", working, connectors.Invalid}, {"23502", "ERROR", working, connectors.Invalid}, {"23514", "ERROR", working, connectors.Invalid},
		{"22001", "ERROR", working, connectors.Invalid}, {"22P05", "ERROR", working, connectors.Invalid}, {"P0001", "ERROR", working, connectors.Invalid}, {"54000", "ERROR", working, connectors.Invalid},
		{"40001", "ERROR", working, connectors.Transient}, {"40P01", "ERROR", working, connectors.Transient}, {"55P03", "ERROR", working, connectors.Transient}, {"57014", "ERROR", working, connectors.Transient},
		{"57P01", "FATAL", working, connectors.Transient}, {"57P02", "FATAL", working, connectors.Transient}, {"57P03", "FATAL", connecting, connectors.Transient}, {"08006", "FATAL", working, connectors.Transient},
		{"25006", "ERROR", working, connectors.Transient}, {"53100", "ERROR", working, connectors.Transient}, {"XX000", "ERROR", working, connectors.Transient}, {"26000", "ERROR", working, connectors.Transient}, {"42P05", "ERROR", working, connectors.Transient},
		{"53300", "FATAL", connecting, connectors.Throttled},
		{"28P01", "FATAL", connecting, connectors.Auth}, {"28000", "FATAL", connecting, connectors.Auth}, {"3D000", "FATAL", connecting, connectors.Auth},
		{"42P01", "ERROR", working, connectors.Invalid}, {"42703", "ERROR", working, connectors.Invalid}, {"42501", "ERROR", working, connectors.Invalid}, {"42P10", "ERROR", working, connectors.Invalid}, {"3F000", "ERROR", working, connectors.Invalid},
		{"40001", "ERROR", committing, connectors.Transient}, {"23503", "ERROR", committing, connectors.Invalid},
		{"57P01", "FATAL", committing, connectors.Unknown}, {"57P02", "FATAL", committing, connectors.Unknown}, {"08006", "FATAL", committing, connectors.Unknown}, {"57014", "ERROR", committing, connectors.Unknown}, {"40003", "ERROR", working, connectors.Unknown},
		{"", "ERROR", working, connectors.Transient},
	} {
		pe := &pgconn.PgError{Code: c.code, Severity: c.severity, Message: "value CANARY", Detail: "Key (mail)=(CANARY) exists", ConstraintName: "k", TableName: "t"}
		o := outcome(fmt.Errorf("wrapped: %w", &failure{c.phase, pe}))
		if o.Class != c.want || o.Code != "sqlstate_"+c.code {
			t.Errorf("%s in phase %d: %+v, want %s", c.code, c.phase, o, c.want)
		}
		if c.phase != connecting && strings.Contains(o.Message, "CANARY") {
			t.Errorf("%s shows a value: %s", c.code, o.Message)
		}
	}
	for _, c := range []struct {
		name  string
		err   error
		phase phase
		want  connectors.Class
	}{
		{"reset while working", &net.OpError{Op: "read", Err: errors.New("reset")}, working, connectors.Transient},
		{"reset while committing", &net.OpError{Op: "read", Err: errors.New("reset")}, committing, connectors.Unknown},
		{"timeout while committing", context.DeadlineExceeded, committing, connectors.Unknown},
		{"rolled back at the end", pgx.ErrTxCommitRollback, committing, connectors.Transient},
		{"paused", &ratelimit.PausedError{}, atGate, connectors.Paused},
		{"canceled at the gate", context.Canceled, atGate, connectors.Transient},
		{"no connection", &net.OpError{Op: "dial", Err: errors.New("refused")}, connecting, connectors.Transient},
	} {
		if o := outcome(&failure{c.phase, c.err}); o.Class != c.want || o.Code == "" || o.Message == "" {
			t.Errorf("%s: %+v, want %s", c.name, o, c.want)
		}
	}
}

func TestWrongPasswordIsAuth(t *testing.T) {
	t.Parallel()
	s := pgtest.Cluster(t)
	dsn := s.DSN("postgres")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE o (n text PRIMARY KEY); CREATE ROLE limited LOGIN CONNECTION LIMIT 0", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(s *Settings)
		want   connectors.Class
		signal bool
	}{
		"no such role":        {func(s *Settings) { s.User = "nobody_here" }, connectors.Auth, false},
		"no such database":    {func(s *Settings) { s.Database = "nowhere" }, connectors.Auth, false},
		"no connections left": {func(s *Settings) { s.User = "limited" }, connectors.Throttled, true},
		"nobody listens":      {func(s *Settings) { s.Port = 1 }, connectors.Transient, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &base{t: t, gate: &gate{}, now: day, settings: &Settings{}}
			field.Declare(b.settings)
			b.settings.Records = map[string]*Entity{}
			b.settings.Host, b.settings.Port, b.settings.Database, b.settings.User = "127.0.0.1", s.Port, "postgres", conn.Config().User
			c.change(b.settings)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			got := e.Upsert(t.Context(), []connectors.Write{write("A", `{}`, 1)})
			if got[0].Class != c.want {
				t.Errorf("got %+v", got[0])
			}
			if told := len(b.gate.signals) > 0 && b.gate.signals[0].Throttled; told != c.signal {
				t.Errorf("signals %+v", b.gate.signals)
			}
		})
	}
}

// cluster connects a client to a server of its own.
func cluster(t *testing.T, s *pgtest.Server, setup string) *base {
	t.Helper()
	b := &base{t: t, dsn: s.DSN("app"), gate: &gate{}, now: day, settings: &Settings{}}
	conn, err := pgx.Connect(t.Context(), b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), setup, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	field.Declare(b.settings)
	b.settings.DSN = field.NewSecret(b.dsn)
	b.settings.Records, b.settings.Tables = map[string]*Entity{}, map[string]*Stream{}
	return b
}

func TestRestartOfTheServerCostsOneTry(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fast", "kill"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Cluster(t, "wal_level=replica")
			b := cluster(t, s, "CREATE TABLE o (n text PRIMARY KEY, q int)")
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1)}))
			if mode == "fast" {
				s.Stop(pgtest.Fast)
			} else {
				s.Stop(pgtest.Kill)
			}
			if got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":2}`, 2)}); got[0].Class != connectors.Transient {
				t.Errorf("while it is down: %+v", got[0])
			}
			if mode == "fast" {
				// The address leads to a standby for a while.
				s.Standby(true)
				s.Start()
				for range 2 {
					if got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":2}`, 2)}); got[0].Class != connectors.Transient {
						t.Errorf("while it is a standby: %+v", got[0])
					}
				}
				s.Stop(pgtest.Fast)
				s.Standby(false)
			}
			s.Start()
			// Connections of before the restart may be found dead one by one.
			for i := 0; ; i++ {
				got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":3}`, 3)})
				if got[0].Class == connectors.Applied {
					break
				}
				if got[0].Class != connectors.Transient || i == 3 {
					t.Fatalf("after the restart: %+v", got[0])
				}
			}
		})
	}
}

func TestServerThatTurnedReadOnlyIsLeftForTheNewOne(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY)")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{}`, 1)}))
	one, err := b.in.db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.in.db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one.Release()
	two.Release()
	// A trigger stands for the old primary: only sessions that it knows are refused.
	b.exec(`CREATE TABLE old AS SELECT pid FROM pg_stat_activity WHERE application_name = 'syncd erp' AND datname = current_database();
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF EXISTS (SELECT FROM old WHERE pid = pg_backend_pid()) THEN RAISE SQLSTATE '25006'; END IF; RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION f()`)
	got := e.Upsert(t.Context(), []connectors.Write{write("B", `{}`, 1)})
	if got[0].Class != connectors.Transient || got[0].Code != "sqlstate_25006" {
		t.Errorf("got %+v", got[0])
	}
	if n := b.rows("SELECT count(*) FROM old"); n != "2" {
		t.Errorf("%s sessions of before", n)
	}
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("B", `{}`, 1)}))
}

func TestSlowStatementIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY, q int); INSERT INTO o VALUES ('A', 1)")
	b.settings.StatementTimeout = 200 * time.Millisecond
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	tx, err := b.sql.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "UPDATE o SET q = 2"); err != nil {
		t.Fatal(err)
	}
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":3}`, 1)})
	if got[0].Class != connectors.Transient || got[0].Code != "sqlstate_57014" {
		t.Errorf("got %+v", got[0])
	}
	if e.Info().SettleTime != 200*time.Millisecond {
		t.Errorf("settle time %s", e.Info().SettleTime)
	}
}

func TestDeadlockIsTransient(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY, q int); INSERT INTO o VALUES ('A', 1), ('B', 1)")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	tx, err := b.sql.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "UPDATE o SET q = 2 WHERE n = 'B'"); err != nil {
		t.Fatal(err)
	}
	done := make(chan []connectors.Outcome)
	go func() {
		done <- e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":3}`, 1), write("B", `{"q":3}`, 1)})
	}()
	for b.rows("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'syncd erp' AND datname = current_database() AND wait_event_type = 'Lock'") != "1" {
		if t.Context().Err() != nil {
			t.Fatal("the upsert never waited for the lock")
		}
	}
	// The server ends whichever of the two notices first; if it is ours, it says so.
	_, err = tx.Exec(t.Context(), "UPDATE o SET q = 2 WHERE n = 'A'")
	if err == nil {
		if got := <-done; got[0].Class != connectors.Transient || got[0].Code != "sqlstate_40P01" || got[1].Code != "sqlstate_40P01" {
			t.Errorf("got %s", brief(got...))
		}
		return
	}
	_ = tx.Rollback(t.Context())
	b.confirmed(<-done)
}

func TestSessionThatIsLostWhileTheCatalogIsReadTellsNothingOfTheTable(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY, q int)")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	tx, err := b.sql.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pg_constraint IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan []connectors.Outcome, 1)
	go func() { done <- e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1)}) }()
	for ended := false; !ended; {
		select {
		case got := <-done:
			if got[0].Class != connectors.Transient || got[0].Code != "sqlstate_57P01" {
				t.Errorf("got %s", brief(got...))
			}
			ended = true
		default:
			// Each try: it may read the catalog once more.
			b.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'syncd erp' AND datname = current_database() AND wait_event_type = 'Lock'")
		}
	}
	_ = tx.Rollback(t.Context())
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1)}))
}

func TestLostSessionLeavesNothingHalfWritten(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, q int); CREATE TABLE l (o text REFERENCES o (n), no int, PRIMARY KEY (o, no));
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON l FOR EACH ROW WHEN (NEW.no = 13) EXECUTE FUNCTION f()`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key = "o", []string{"n"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"o"}, []string{"no"} })}
	})
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1,"lines":[{"no":13}]}`, 1)})
	if got[0].Class != connectors.Transient || got[0].Code != "sqlstate_57P01" {
		t.Errorf("got %+v", got[0])
	}
	b.want("SELECT count(*) FROM o", "0")
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1,"lines":[{"no":1}]}`, 1)}))
}

func TestAnswerLostAtCommitIsUnknown(t *testing.T) {
	t.Parallel()
	// A trigger that runs at commit ends the session: whether the commit was made cannot be told from here.
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, q int);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON o DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.q = 13) EXECUTE FUNCTION f()`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":13}`, 1), write("B", `{"q":1}`, 1)})
	if got[0].Class != connectors.Unknown || got[1].Class != connectors.Unknown {
		t.Errorf("got %+v", got)
	}
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1), write("B", `{"q":1}`, 1)}))
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, q int)`)
	role := strings.ReplaceAll(b.rows("SELECT current_database()"), "t_", "r_")
	b.exec("CREATE ROLE " + role + " LOGIN; GRANT SELECT ON o TO " + role)
	t.Cleanup(func() {
		_, _ = b.sql.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
	})
	config, err := pgx.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	b.settings.DSN = field.Secret{}
	b.settings.Host, b.settings.Port, b.settings.Database, b.settings.User = config.Host, int(config.Port), config.Database, role
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1)})
	if got[0].Class != connectors.Invalid || got[0].Message != "this role lacks a right: permission denied for table o; GRANT it to this role" {
		t.Errorf("got %+v", got[0])
	}
	f := b.in.Check(t.Context(), nil, []string{"e"})
	if len(f) != 2 || f[1].Problem != `this role lacks a right; GRANT INSERT, UPDATE ON "public"."o" TO it` {
		t.Errorf("findings %+v", f)
	}
}

func TestPoolerGetsNoPreparedStatements(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders)
	b.settings.Pooler = true
	b.settings.StatementTimeout = 1234 * time.Millisecond
	e := b.entity(guarded)
	b.exec(`CREATE TABLE saw (prepared bigint, timeout text, jit text);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 INSERT INTO saw SELECT (SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql), current_setting('statement_timeout'), current_setting('jit'); RETURN NEW; END $$;
CREATE TRIGGER t AFTER INSERT ON erp.orders FOR EACH ROW EXECUTE FUNCTION f()`)
	for i := range int64(7) {
		b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"total":1.5,"note":null}`, i), write(numbered(int(i)), `{"total":2}`, i)}))
		b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"total":1.5,"note":null}`, i-1)}))
	}
	b.want("SELECT DISTINCT prepared, timeout, jit FROM saw", "0 1234ms off")
	if _, err := e.Find(t.Context(), write("A", `{"total":1.5}`, 1)); err != nil {
		t.Fatal(err)
	}
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "A", Removal: connectors.Delete, Stamp: version(99, 0)})), "applied 2")
}

func TestPausedClientIsNotAsked(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders)
	e := b.entity(guarded)
	b.gate.shut = &ratelimit.PausedError{Client: "erp", Pause: ratelimit.Pause{Until: day.Add(time.Hour), Reason: "manual"}}
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{}`, 1)})
	if got[0].Class != connectors.Paused {
		t.Errorf("got %+v", got[0])
	}
	if _, err := e.Find(t.Context(), connectors.Write{Key: "A"}); !strings.Contains(fmt.Sprint(err), "paused") {
		t.Errorf("err = %v", err)
	}
	b.want("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'syncd erp' AND datname = current_database()", "0")
}
