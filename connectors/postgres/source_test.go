package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

func TestEqualStampsAcrossPageBordersAllArrive(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.limit = 2
	f.exec(`INSERT INTO s VALUES (1, '2026-01-01T10:00:00Z'), (4, '2026-01-01T10:00:05Z'), (2, '2026-01-01T10:00:05Z'), (3, '2026-01-01T10:00:05Z'), (5, '2026-01-01T10:00:09Z')`)
	f.same(f.poll(), "1 2 3 4 5")
	f.exec(`INSERT INTO s SELECT g, '2026-01-02T10:00:00Z' FROM generate_series(10, 29) g`)
	f.same(f.poll(), "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29")
	f.same(f.poll(), "")
}

func TestQuietTableIsNotReadAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = 5 * time.Minute })
	f.exec(`INSERT INTO s SELECT g, now() FROM generate_series(1, 2500) g`)
	f.limit = 1000
	if n := len(strings.Fields(f.poll())); n != 2500 {
		t.Errorf("%d events", n)
	}
	for range 3 {
		before := f.pages
		f.same(f.poll(), "")
		if n := f.pages - before; n != 1 {
			t.Errorf("%d pages for nothing", n)
		}
	}
}

func TestChangeIsReadOnce(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = 5 * time.Minute })
	f.exec(`INSERT INTO s VALUES (1, now()), (2, now()), (3, now())`)
	f.same(f.poll(), "1 2 3")
	f.exec(`UPDATE s SET updated_at = clock_timestamp(), n = 5 WHERE id = 1`)
	p := f.pull()
	if len(p.Events) != 1 || p.Events[0].SourceID != "1" || !strings.Contains(string(p.Events[0].Body), `"n":5`) || p.More {
		t.Errorf("got %+v", p)
	}
	f.same(f.poll(), "")
}

func TestStampFromTheFutureDoesNotHideTheRest(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.exec(`INSERT INTO s VALUES (1, '2099-01-01T00:00:00Z'), (2, now()), (3, 'infinity'), (4, '-infinity')`)
	f.same(f.poll(), "4 2 1 3")
	f.exec(`INSERT INTO s VALUES (5, now())`)
	f.same(f.poll(), "5")
	f.same(f.poll(), "")
}

func TestRowsWithoutStampAreReadAndDoNotMoveTheCursor(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.limit = 2
	f.exec(`INSERT INTO s VALUES (1, now() - interval '1 hour'), (2, NULL), (3, NULL), (4, NULL), (5, now() - interval '2 hours')`)
	f.same(f.poll(), "5 1 2 3 4")
	f.exec(`INSERT INTO s VALUES (6, now()), (7, NULL); UPDATE s SET n = 1 WHERE id = 3`)
	f.same(f.poll(), "6")
	f.later(11 * time.Minute)
	f.same(f.poll(), "3 7")
	f.later(11 * time.Minute)
	f.same(f.poll(), "")
}

func TestRowsWithoutVersionLeaveRoomForSmallOnes(t *testing.T) {
	t.Parallel()
	f := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint); INSERT INTO s VALUES (9, NULL)", func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber })
	f.same(f.poll(), "9")
	f.exec("INSERT INTO s VALUES (1, -5), (2, 0)")
	f.same(f.poll(), "1 2")
}

func TestVersionOfZeroIsNotAMissingOne(t *testing.T) {
	t.Parallel()
	has := func(f *feed) string {
		f.t.Helper()
		var out []string
		for _, e := range f.pull().Events {
			if e.HasVersion() {
				out = append(out, fmt.Sprint(e.SourceID, ":", e.Version))
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	numbers := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint); INSERT INTO s VALUES (1, 0), (2, -5), (3, 7)",
		func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber })
	numbers.same(has(numbers), "1:0 2:-5 3:7")
	nulls := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint); INSERT INTO s VALUES (1, NULL)",
		func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber })
	nulls.same(has(nulls), "")
	times := newFeed(t, polled, func(*Stream) {})
	times.exec(`INSERT INTO s VALUES (1, '1970-01-01T00:00:00Z'), (2, 'infinity'), (3, '-infinity')`)
	times.same(has(times), "1:0")
	events := newFeed(t, `CREATE TABLE s (id bigint PRIMARY KEY, ref text, doc json, v bigint);
		INSERT INTO s VALUES (1, 'a', '{}', 0), (2, 'b', '{}', NULL)`, func(s *Stream) {
		s.Mode, s.ID, s.Event, s.Body, s.Version = modeOutbox, "ref", "id", "doc", "v"
	})
	events.same(has(events), "a:0")
}

func TestRowsWithoutIDBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFeed(t, `CREATE TABLE real (id text, updated_at timestamptz); CREATE VIEW s AS SELECT * FROM real;
INSERT INTO real VALUES ('a', now() - interval '1 hour'), (NULL, now() - interval '1 hour'), ('', now() - interval '1 hour'), (repeat('x', 1025), now() - interval '1 hour')`, func(*Stream) {})
	f.same(f.poll(), "!no id: the column id is null or empty a !no id: the column id is longer than 1024 bytes !no id: the column id is null or empty")
	f.same(f.poll(), "")
}

func TestRowThatMovesDuringTheRunPullsNoOtherAlong(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.limit = 1
	f.exec(`INSERT INTO s SELECT g, now() - interval '1 hour' + g * interval '1 second' FROM generate_series(1, 4) g`)
	f.pull()
	f.exec(`UPDATE s SET updated_at = clock_timestamp() WHERE id = 1; DELETE FROM s WHERE id = 2`)
	f.same(f.poll(), "3 4 1")
}

func TestEveryPageIsFoundAgainAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(s *Stream) { s.Overlap = time.Minute })
	f.limit = 3
	f.exec(`INSERT INTO s SELECT g, now() - interval '1 hour' + (g / 4) * interval '1 second' FROM generate_series(1, 20) g; INSERT INTO s VALUES (21, NULL), (22, NULL)`)
	var got []string
	for more := true; more; {
		p := f.pull()
		for _, e := range p.Events {
			got = append(got, e.SourceID)
		}
		more = p.More
		_ = f.in.Close()
		f.in = nil
		f.open()
	}
	f.same(strings.Join(got, " "), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22")
}

func TestDaemonsClockHasNoSay(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		f := newFeed(t, polled, func(*Stream) {})
		f.now = time.Now().Add(skew)
		f.same(f.poll(), "")
		f.exec("INSERT INTO s VALUES (1, now())")
		f.same(f.poll(), "1")
		f.exec("INSERT INTO s VALUES (2, now())")
		p := f.pull()
		if len(p.Events) != 1 || !p.Observed.Equal(f.now) || time.Since(p.ServerTime).Abs() > time.Minute {
			t.Errorf("got %+v", p)
		}
	}
}

func TestStartReadsOnlyWhatChangedSince(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	t.Run("stamps", func(t *testing.T) {
		f := newFeed(t, polled, func(s *Stream) { s.Overlap = time.Hour })
		f.start = connectors.Start{From: from}
		f.exec(`INSERT INTO s VALUES (1, '2026-01-01T11:59:59Z'), (2, '2026-01-01T12:00:00Z'), (3, NULL)`)
		f.same(f.poll(), "2 3")
		f.exec(`INSERT INTO s VALUES (4, '2026-01-01T11:00:00Z'), (5, now())`)
		f.same(f.poll(), "5")
	})
	t.Run("none yet", func(t *testing.T) {
		f := newFeed(t, polled, func(*Stream) {})
		f.start = connectors.Start{From: from}
		f.exec(`INSERT INTO s VALUES (1, '2026-01-01T11:59:59Z')`)
		for range 3 {
			f.same(f.poll(), "")
		}
		f.exec(`INSERT INTO s VALUES (2, now())`)
		f.same(f.poll(), "2")
	})
	t.Run("numbers with a time", func(t *testing.T) {
		f := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint NOT NULL, at timestamptz)", func(s *Stream) { s.Version, s.VersionAs, s.ChangedAt = "v", versionNumber, "at" })
		f.start = connectors.Start{From: from}
		f.exec(`INSERT INTO s VALUES (1, 1, '2026-01-01T11:59:59Z'), (2, 2, '2026-01-01T12:00:00Z'), (3, 3, NULL)`)
		f.same(f.poll(), "2 3")
	})
	t.Run("numbers alone", func(t *testing.T) {
		f := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, v bigint)", func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber })
		_, err := f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: connectors.Start{From: from}, Limit: 1})
		if want := "read stream s: invalid (start): the version of this stream is a number, which tells no time to start at; name changed_at, or say start: all"; fmt.Sprint(err) != want {
			t.Errorf("err = %v", err)
		}
	})
}

func TestRecordsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	f := newFeed(t, `CREATE TABLE s (id numeric PRIMARY KEY, updated_at timestamptz, price numeric, big bigint, doc json, docb jsonb, f float8, at timestamptz, none int, t text[]);
INSERT INTO s VALUES (12345678901234567890123, '2026-01-01T10:00:00.123456Z', 1.50, 9007199254740993, '{"a":1e2}', '{"b":1.10}', 0.1, '2026-01-01T12:00:00+02:00', NULL, '{a,"b c"}')`, func(s *Stream) {
		s.Columns = []string{"price", "big", "doc", "docb", "f", "at", "none", "t"}
	})
	p := f.pull()
	e := p.Events[0]
	want := `{"price":1.50,"big":9007199254740993,"doc":{"a":1e2},"docb":{"b": 1.10},"f":0.1,"at":"2026-01-01T10:00:00+00:00","none":null,"t":["a","b c"]}`
	if e.SourceID != "12345678901234567890123" || string(e.Body) != want || e.Version != 1767261600123456 || e.ChangedAt.Format(time.RFC3339Nano) != "2026-01-01T10:00:00.123456Z" {
		t.Errorf("got %+v\n%s", e, e.Body)
	}
	f.stream.Columns = append(f.stream.Columns, "id", "updated_at")
	ev, err := f.in.Fetch(t.Context(), "s", "12345678901234567890123")
	if err != nil || ev.Version != e.Version || !strings.Contains(string(ev.Body), `"id":12345678901234567890123`) {
		t.Errorf("fetch: %+v, %v", ev, err)
	}
}

func TestFetchTellsWhatIsGone(t *testing.T) {
	t.Parallel()
	f := newFeed(t, `CREATE TABLE s (id int PRIMARY KEY, updated_at timestamptz, deleted_at timestamptz); INSERT INTO s VALUES (1, NULL, NULL), (2, now(), now())`, func(s *Stream) { s.Deleted = "deleted_at" })
	for id, c := range map[string]struct{ gone, body bool }{"1": {false, true}, "2": {true, true}, "3": {true, false}, "abc": {true, false}, "99999999999": {true, false}, "": {true, false}} {
		e, err := f.in.Fetch(t.Context(), "s", id)
		if err != nil || e.Gone != c.gone || (e.Body != nil) != c.body || e.SourceID != id {
			t.Errorf("%q: %+v, %v", id, e, err)
		}
	}
}

func TestDeletedRowsAreTombstones(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typ, gone, alive string }{
		"time": {"timestamptz", "now()", "NULL"}, "boolean": {"boolean", "true", "false"}, "boolean null": {"boolean", "true", "NULL"}, "number": {"int", "1", "0"}, "text": {"text", "'x'", "NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, "CREATE TABLE s (id int PRIMARY KEY, updated_at timestamptz, d "+c.typ+"); INSERT INTO s VALUES (1, now(), "+c.gone+"), (2, now(), "+c.alive+")", func(s *Stream) { s.Deleted = "d" })
			f.same(f.poll(), "1 gone 2")
		})
	}
}

func TestPageIsBoundedInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: large, and one after the other")
	}
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.exec(`INSERT INTO s SELECT g, now() - interval '1 hour', 1, repeat('x', 1 << 20) FROM generate_series(1, 20) g; INSERT INTO s VALUES (21, now(), 1, repeat('x', 17 << 20))`)
	p := f.pull()
	if len(p.Events) != 8 || !p.More {
		t.Errorf("%d events, more %v", len(p.Events), p.More)
	}
	f.same(f.poll(), "9 10 11 12 13 14 15 16 17 18 19 20 21!the record is larger than 16 MiB")
}

func TestWrongStreamsAreExplained(t *testing.T) {
	t.Parallel()
	f := newFeed(t, `CREATE TABLE s (id int PRIMARY KEY, updated_at timestamptz, n int NOT NULL, x text NOT NULL, body jsonb, e bigint, xid xid8)`, func(*Stream) {})
	for name, c := range map[string]struct {
		set  func(*Stream)
		want string
	}{
		"no table":          {func(s *Stream) { s.Table = "nope" }, "there is no table public.nope, or no right to see it; create it, or GRANT USAGE on its schema"},
		"no column":         {func(s *Stream) { s.Version = "changed" }, "the table public.s has no column changed; add it, or name another"},
		"number as time":    {func(s *Stream) { s.Version = "n" }, "the column n of public.s is integer, and version_as says that it is a timestamp"},
		"time as number":    {func(s *Stream) { s.VersionAs = versionNumber }, "the column updated_at of public.s is timestamp with time zone, and version_as says that it is a whole number"},
		"changed_at":        {func(s *Stream) { s.Version, s.VersionAs, s.ChangedAt = "n", versionNumber, "x" }, "changed_at: the column x of public.s is text; it must be a timestamp"},
		"event can be gone": {func(s *Stream) { outbox("")(s); s.Event = "e" }, "the column e of public.s can be null, and an event without it would never be read; make it NOT NULL"},
		"xid is text":       {func(s *Stream) { outbox("x")(s); s.Event = "n" }, "xid: the column x of public.s is text; it must be xid8 with the default pg_current_xact_id()"},
	} {
		t.Run(name, func(t *testing.T) {
			was := *f.stream
			defer func() { *f.stream = was }()
			c.set(f.stream)
			_, err := f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: f.start, Limit: 1})
			if fmt.Sprint(err) != "read stream s: invalid (configuration): "+c.want {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestChangedSourceTableIsNoticed(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	f.exec("INSERT INTO s VALUES (1, now())")
	f.same(f.poll(), "1")
	f.exec("ALTER TABLE s ADD y int; INSERT INTO s VALUES (2, now(), 1, 'x', 5)")
	p := f.pull()
	if len(p.Events) != 1 || !strings.Contains(string(p.Events[0].Body), `"y":5`) {
		t.Errorf("got %+v", p)
	}
	f.exec("ALTER TABLE s RENAME updated_at TO changed")
	_, err := f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Cursor: f.cursor, Limit: 1})
	if !strings.Contains(fmt.Sprint(err), "the table public.s has no column updated_at") {
		t.Errorf("err = %v", err)
	}
	f.stream.Version = "changed"
	_, err = f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Cursor: f.cursor, Limit: 1})
	var e *connectors.Error
	if !errors.As(err, &e) || e.Code != "cursor" || e.Message != "the cursor is a place in public.s by updated_at, id, and the stream now reads public.s by changed, id" {
		t.Errorf("err = %v", err)
	}
}

func TestForeignCursorIsRefused(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled, func(*Stream) {})
	for name, cursor := range map[string]string{"other shape": `[1]`, "later format": `{"format":2}`} {
		_, err := f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Cursor: []byte(cursor), Limit: 1})
		var e *connectors.Error
		if !errors.As(err, &e) || e.Class != connectors.Invalid || e.Code != "cursor" {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestReadingsRunOftenOnOneConnection(t *testing.T) {
	t.Parallel()
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler %v", pooler), func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, polled, func(s *Stream) { s.Overlap = time.Minute })
			_ = f.in.Close()
			f.in, f.settings.Pooler = nil, pooler
			f.open()
			for i := range 8 {
				f.exec(fmt.Sprintf("INSERT INTO s VALUES (%d, now()), (%d, NULL)", i, 100+i))
				f.unstampedDue()
				f.same(f.poll(), fmt.Sprintf("%d %d", i, 100+i))
				if e, err := f.in.Fetch(t.Context(), "s", fmt.Sprint(i)); err != nil || e.Gone {
					t.Errorf("fetch: %+v, %v", e, err)
				}
			}
		})
	}
}

func TestStreamSaysWhatIDsAndVersionsAreMadeOf(t *testing.T) {
	for want, s := range map[string]Stream{
		"id; at, a time":    {Mode: modePoll, ID: "id", Version: "at", VersionAs: versionTime},
		"id; at, a number":  {Mode: modePoll, ID: "id", Version: "at", VersionAs: versionNumber},
		"no; rev, a number": {Mode: modePoll, ID: "no", Version: "rev", VersionAs: versionNumber},
		"ref; seq":          {Mode: modeOutbox, ID: "ref", Event: "seq", VersionAs: versionTime},
		"ref; state":        {Mode: modeOutbox, ID: "ref", Event: "seq", Version: "state", VersionAs: versionTime},
	} {
		i := s.info("s")
		if got := i.IDs + "; " + i.Versions; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
