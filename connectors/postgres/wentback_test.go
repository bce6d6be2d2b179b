package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/connectors"
	"syncd/internal/field"
)

const eventTable = "CREATE TABLE s (event bigserial PRIMARY KEY, id text, body text, xid xid8 NOT NULL DEFAULT pg_current_xact_id()); CREATE INDEX ON s (xid, event)"

// fails wants the reading to be refused, at each poll, with a cursor that stays.
func (f *feed) fails(code, says string) {
	f.t.Helper()
	for range 2 {
		_, err := f.in.Pull(f.t.Context(), connectors.PullRequest{Stream: "s", Cursor: f.cursor, Start: f.start, Limit: f.limit})
		if err == nil || !strings.HasPrefix(err.Error(), "read stream s: invalid ("+code+"): ") || !strings.Contains(err.Error(), says) {
			f.t.Errorf("err = %v\nwant %s: %s", err, code, says)
		}
	}
}

// edit changes the cursor, as if it came from another server.
func (f *feed) edit(change func(p *position)) {
	f.t.Helper()
	var p position
	if err := json.Unmarshal(f.cursor, &p); err != nil {
		f.t.Fatal(err)
	}
	change(&p)
	f.cursor = p.write()
}

func TestOutboxThatWasMovedToAServerOfSmallerTransactionsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFeed(t, eventTable, outbox("xid"))
	f.exec("INSERT INTO s (id, body) VALUES ('a', '{}')")
	f.same(f.poll(), "a")
	f.edit(func(p *position) { p.Upto.V += 1_000_000; p.At = p.Upto })
	f.exec("INSERT INTO s (id, body) VALUES ('b', '{}')")
	f.fails("went_back", "public.s is in another database now, moved by a dump or restored; which rows were read cannot be told any more, and nothing is passed over: "+
		"give the flow a new name, and say start: all and on_existing: adopt there, so that it reads anew")
	// Under a new name, what the dump brought along is not passed over either.
	f.cursor = nil
	f.exec("UPDATE s SET xid = '99999999999' WHERE id = 'a'")
	f.fails("ahead", `public.s holds an event of transaction 99999999999, and this server is only at `)
	f.exec(`UPDATE "public"."s" SET "xid" = DEFAULT WHERE "xid" >= '90000000000'`)
	f.same(f.poll(), "b a")
}

func TestOutboxOnAnotherServerIsReadOnceMoreFromItsBeginning(t *testing.T) {
	t.Parallel()
	f := newFeed(t, eventTable, outbox("xid"))
	f.exec("INSERT INTO s (id, body) VALUES ('a', '{}'), ('b', '{}')")
	f.same(f.poll(), "a b")
	f.edit(func(p *position) { p.Server = "1/1" })
	f.exec("INSERT INTO s (id, body) VALUES ('c', '{}')")
	f.same(f.poll(), "a b c")
	f.same(f.poll(), "")
	f.same(strings.Join(f.notes, "|"), "the table public.s is in another server or database than when it was last read; rows are read again, and those that are known change nothing")
}

// Rows of another server cannot be told by their transactions, so those that may be late come again.
func TestTableOnAnotherServerIsReadAgainAsFarBackAsRowsCanBeLate(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = time.Hour })
	f.exec("INSERT INTO s VALUES (1, now() - interval '2 hours'), (2, now())")
	f.same(f.poll(), "1 2")
	f.same(f.poll(), "")
	f.edit(func(p *position) { p.Server = "1/1" })
	f.same(f.poll(), "2")
	f.same(f.poll(), "")
}

func TestSequenceThatWasStartedAgainIsRefused(t *testing.T) {
	t.Parallel()
	for name, xid := range map[string]string{"by number": "", "by transaction": "xid"} {
		for restart, sql := range map[string]string{
			"truncated": "TRUNCATE s RESTART IDENTITY", "set": "DELETE FROM s; SELECT setval('s_event_seq', 1)", "restarted": "ALTER SEQUENCE s_event_seq RESTART",
		} {
			t.Run(name+", "+restart, func(t *testing.T) {
				t.Parallel()
				f := newFeed(t, eventTable, outbox(xid))
				f.exec("INSERT INTO s (id, body) SELECT 'a', '{}' FROM generate_series(1, 9)")
				f.poll()
				f.same(f.poll(), "")
				f.exec("DELETE FROM s") // pruned, which is fine
				f.same(f.poll(), "")
				f.exec(sql)
				f.fails("went_back", "the last number that was read of public.s is 9, and the sequence s_event_seq, which was at 9, is only at ")
				f.exec("INSERT INTO s (id, body) VALUES ('b', '{}')")
				f.fails("went_back", "it was started again")
			})
		}
	}
	t.Run("set back to what is there", func(t *testing.T) {
		t.Parallel()
		f := newFeed(t, eventTable, outbox(""))
		f.exec("INSERT INTO s (id, body) SELECT 'a', '{}' FROM generate_series(1, 3); SELECT setval('s_event_seq', 99)")
		f.poll()
		f.same(f.poll(), "")
		f.exec("SELECT setval('s_event_seq', 3); INSERT INTO s (id, body) VALUES ('b', '{}')")
		f.same(f.poll(), "b")
	})
	t.Run("a copy whose sequence is not used", func(t *testing.T) {
		t.Parallel()
		f := newFeed(t, eventTable, outbox(""))
		for _, event := range []string{"100", "200", "300"} {
			f.exec("INSERT INTO s (event, id, body) VALUES (" + event + ", 'a', '{}')")
			f.same(f.poll(), "a")
			f.same(f.poll(), "")
		}
	})
}

func TestNumbersWithoutSequenceThatAreGivenAnewAreRefused(t *testing.T) {
	t.Parallel()
	setup := "CREATE TABLE s (id int PRIMARY KEY, n int); CREATE INDEX ON s (n, id); INSERT INTO s SELECT i, 100 + i FROM generate_series(1, 9) i"
	newOne := func(t *testing.T) *feed {
		f := newFeed(t, setup, func(s *Stream) { s.Version, s.VersionAs = "n", versionNumber })
		f.poll()
		for range 3 {
			f.later(time.Hour)
			f.same(f.poll(), "")
		}
		return f
	}
	t.Run("numbered anew", func(t *testing.T) {
		t.Parallel()
		f := newOne(t)
		f.exec("TRUNCATE s; INSERT INTO s VALUES (1, 1), (2, 2)")
		f.fails("went_back", "the last number that was read of public.s is 109, and rows written since have smaller ones: the column n is numbered anew")
	})
	t.Run("emptied, then numbered anew", func(t *testing.T) {
		t.Parallel()
		f := newOne(t)
		f.exec("TRUNCATE s")
		f.same(f.poll(), "")
		f.later(time.Hour)
		f.exec("INSERT INTO s VALUES (1, 1)")
		f.fails("went_back", "is numbered anew")
	})
	t.Run("newest deleted", func(t *testing.T) {
		t.Parallel()
		f := newOne(t)
		f.exec("DELETE FROM s WHERE n > 105")
		f.same(f.poll(), "")
		f.exec("DELETE FROM s WHERE n > 103; UPDATE s SET n = 110 WHERE id = 1")
		f.same(f.poll(), "1")
		f.exec("DELETE FROM s")
		f.same(f.poll(), "")
		f.exec("INSERT INTO s VALUES (20, 120)")
		f.same(f.poll(), "20")
	})
}

func TestRoleThatMayNotLookAtServerAndSequenceReads(t *testing.T) {
	t.Parallel()
	f := &feed{base: newBase(t, eventTable), stream: &Stream{}, start: connectors.Start{All: true}, limit: 100}
	field.Declare(f.stream)
	f.stream.Table = "s"
	outbox("")(f.stream)
	f.settings.Tables["s"] = f.stream
	role := strings.ReplaceAll(f.rows("SELECT current_database()"), "t_", "r_")
	f.exec("CREATE ROLE " + role + " LOGIN; GRANT SELECT ON s TO " + role + "; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC; INSERT INTO s (id, body) VALUES ('a', '{}')")
	t.Cleanup(func() {
		_, _ = f.sql.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
	})
	f.asRole(role)
	f.open()
	f.same(f.poll(), "a")
	f.exec("INSERT INTO s (id, body) VALUES ('b', '{}')")
	// While transactions of others on the server are open, rows are told once more.
	if got := f.poll(); !strings.HasSuffix(got, "b") {
		t.Errorf("got %q, want b last", got)
	}
}
