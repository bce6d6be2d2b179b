package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/field"
)

// Two transactions overlap: the first to begin, with the earlier stamp or number, is the last to commit.
func TestTransactionThatCommitsLateIsNotLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup    string
		set      func(*Stream)
		one, two string
	}{
		"stamps": {polled, func(*Stream) {}, "INSERT INTO s VALUES (1, now())", "INSERT INTO s VALUES (2, now())"},
		"stamps without zone": {strings.ReplaceAll(polled, "timestamptz", "timestamp"), func(*Stream) {},
			"INSERT INTO s VALUES (1, now() AT TIME ZONE 'UTC')", "INSERT INTO s VALUES (2, now() AT TIME ZONE 'UTC')"},
		"stamps in a view": {strings.ReplaceAll(strings.ReplaceAll(polled, "TABLE s ", "TABLE real "), "ON s ", "ON real ") + `; CREATE VIEW s AS SELECT * FROM real`, func(*Stream) {},
			"INSERT INTO real VALUES (1, now())", "INSERT INTO real VALUES (2, now())"},
		"numbers": {"CREATE TABLE s (id int PRIMARY KEY, v bigserial); CREATE INDEX ON s (v, id)", func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber },
			"INSERT INTO s VALUES (1)", "INSERT INTO s VALUES (2)"},
		"outbox by number": {"CREATE TABLE s (event bigserial PRIMARY KEY, id text, body jsonb)", outbox(""),
			"INSERT INTO s (id, body) VALUES (1, '{}')", "INSERT INTO s (id, body) VALUES (2, '{}')"},
		"outbox by transaction": {"CREATE TABLE s (event bigserial PRIMARY KEY, id text, body jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id())", outbox("xid"),
			"INSERT INTO s (id, body) VALUES (1, '{}')", "INSERT INTO s (id, body) VALUES (2, '{}')"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, c.setup, c.set)
			f.same(f.poll(), "")
			one := f.begin(c.one)
			two := f.begin(c.two)
			f.commit(two)
			got := f.poll() // an outbox by transaction holds the second back
			f.later(time.Hour)
			got += " " + f.poll()
			f.commit(one)
			got += " " + f.poll()
			for _, id := range []string{"1", "2"} {
				if !strings.Contains(" "+got+" ", " "+id+" ") {
					t.Errorf("%s is lost: %s", id, got)
				}
			}
			got = f.poll()
			if c.one != "INSERT INTO real VALUES (1, now())" && got != "" {
				t.Errorf("read once more: %s", got)
			}
		})
	}
}

func TestNumberDrawnLongBeforeTheFirstWriteIsNotLost(t *testing.T) {
	t.Parallel()
	f := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint); CREATE SEQUENCE q; CREATE INDEX ON s (v, id)", func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber })
	f.poll()
	f.exec("SELECT nextval('q')")
	one := f.begin("SELECT nextval('q')") // it has no transaction number yet
	for f.numbered(one) {                 // but for one that is the first to draw after a checkpoint, which writes a log of that
		_ = one.Rollback(t.Context())
		one = f.begin("SELECT nextval('q')")
	}
	f.exec("INSERT INTO s VALUES (2, nextval('q'))")
	f.same(f.poll(), "2")
	f.later(time.Hour)
	f.same(f.poll(), "")
	f.within(one, "INSERT INTO s VALUES (1, currval('q'))")
	f.commit(one)
	f.same(f.poll(), "1")
}

// numbered reports whether a transaction has got its number, as one has that has written.
func (f *feed) numbered(tx pgx.Tx) (is bool) {
	f.t.Helper()
	if err := tx.QueryRow(f.t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL", pgx.QueryExecModeSimpleProtocol).Scan(&is); err != nil {
		f.t.Fatal(err)
	}
	return is
}

func TestLongTransactionThatOnlyReadsHasNothingReadAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = time.Minute })
	f.limit = 1000
	dump := f.begin("SELECT 1")
	f.exec(`INSERT INTO s SELECT g, now() FROM generate_series(1, 3000) g`)
	if n := len(strings.Fields(f.poll())); n != 3000 {
		t.Errorf("%d events", n)
	}
	for i := range 6 {
		if i == 3 {
			f.commit(dump)
		}
		before := f.pages
		f.same(f.poll(), "")
		if n := f.pages - before; n != 1 {
			t.Errorf("%d pages for nothing", n)
		}
	}
}

func TestRowOfALongTransactionIsReadWhenItEnds(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.limit = 1000
	late := f.begin("INSERT INTO s VALUES (5000, now())")
	f.exec(`INSERT INTO s SELECT g, clock_timestamp() + g * interval '1 second' FROM generate_series(1, 3000) g`)
	f.poll()
	f.poll()
	f.commit(late)
	if got := f.poll(); !strings.HasPrefix(got, "5000") {
		t.Errorf("got %.100s", got)
	}
	f.same(f.poll(), "")
}

func TestStampsOfOtherClocksAreFoundWithinOverlap(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = 5 * time.Minute })
	f.exec(`INSERT INTO s VALUES (1, now())`)
	f.same(f.poll(), "1")
	f.exec(`INSERT INTO s VALUES (2, now() - interval '4 minutes')`)
	f.same(f.poll(), "2")
	f.exec(`INSERT INTO s VALUES (3, now() - interval '6 minutes')`)
	f.same(f.poll(), "")
}

func TestWithoutTheRightToSeeSessionsOverlapHelps(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = 5 * time.Minute })
	role := strings.ReplaceAll(f.rows("SELECT current_database()"), "t_", "r_")
	f.exec("CREATE ROLE " + role + " LOGIN; GRANT SELECT ON s TO " + role)
	t.Cleanup(func() {
		_, _ = f.sql.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
	})
	config, err := pgx.ParseConfig(f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	f.settings.DSN = field.Secret{}
	f.settings.Host, f.settings.Port, f.settings.Database, f.settings.User = config.Host, int(config.Port), config.Database, role
	f.in = nil
	f.open()
	f.poll()
	one := f.begin("INSERT INTO s VALUES (1, now())")
	f.exec("INSERT INTO s VALUES (2, clock_timestamp())")
	f.same(f.poll(), "2")
	f.commit(one)
	if got := f.poll(); !strings.HasPrefix(got, "1") {
		t.Errorf("got %s", got)
	}
	const why = "rows that become visible late are looked for within overlap only: sessions of other roles are hidden; GRANT pg_read_all_stats to this role"
	if len(f.notes) != 1 || f.notes[0] != why {
		t.Errorf("notes %q", f.notes)
	}
	f.stream.Overlap = 0
	got := f.in.Check(t.Context(), []string{"s"}, nil)
	if len(got) != 2 || got[1].Problem != "overlap is 0s, and rows that become visible late cannot be told otherwise: sessions of other roles are hidden; GRANT pg_read_all_stats to this role" {
		t.Errorf("findings %+v", got)
	}
}
