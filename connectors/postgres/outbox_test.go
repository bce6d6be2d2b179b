package postgres

import "testing"

func outbox(xid string) func(s *Stream) {
	return func(s *Stream) {
		s.Mode, s.ID, s.Event, s.Version, s.Body, s.XID = modeOutbox, "id", "event", "", "body", xid
	}
}

func TestOutboxEventsStandInTheirRecordsOrder(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE s (event bigserial PRIMARY KEY, id text, body text, state bigint, gone boolean, at timestamptz, xid xid8 NOT NULL DEFAULT pg_current_xact_id())"
	for _, xid := range []string{"", "xid"} {
		t.Run("xid "+xid, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, table, func(s *Stream) { outbox(xid)(s); s.Deleted, s.ChangedAt = "gone", "at" })
			f.limit = 2
			f.exec(`INSERT INTO s (id, body, gone, at) VALUES ('a', '{"n":1.50}', false, '2026-01-01T10:00:00Z'), ('b', NULL, true, NULL), ('c', NULL, false, NULL), ('d', '{"n":', NULL, NULL), (NULL, '{}', NULL, NULL)`)
			p := f.pull()
			if e := p.Events[0]; e.SourceID != "a" || string(e.Body) != `{"n":1.50}` || e.Version != 1 || e.ChangedAt.Hour() != 10 || !p.More {
				t.Errorf("got %+v", p)
			}
			f.same(f.poll(), "c!the record is null d!the record is not JSON !no id: the column id is null or empty")
			f.same(f.poll(), "")
			f.exec(`INSERT INTO s (id, body) VALUES ('a', '{}')`)
			if e := f.pull().Events[0]; e.Version != 6 {
				t.Errorf("version %d", e.Version)
			}
		})
	}
	t.Run("own version", func(t *testing.T) {
		t.Parallel()
		f := newFeed(t, table, func(s *Stream) { outbox("xid")(s); s.Version = "state" })
		f.exec(`INSERT INTO s (id, body, state) VALUES ('a', '{}', 77)`)
		if e := f.pull().Events[0]; e.Version != 77 {
			t.Errorf("version %d", e.Version)
		}
	})
}

func TestOutboxByTransactionHoldsBackWhatCouldStillBePreceded(t *testing.T) {
	t.Parallel()
	f := newFeed(t, "CREATE TABLE s (event bigserial PRIMARY KEY, id text, body jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id())", outbox("xid"))
	one := f.begin("INSERT INTO s (id, body) VALUES ('x', '{}')")
	f.exec("INSERT INTO s (id, body) VALUES ('y', '{}')")
	f.same(f.poll(), "")
	f.within(one, "INSERT INTO s (id, body) VALUES ('z', '{}')")
	f.commit(one)
	f.same(f.poll(), "x z y")
	f.same(f.poll(), "")
}
