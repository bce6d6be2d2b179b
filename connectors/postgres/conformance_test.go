package postgres

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/internal/field"
)

// again makes a database new for the next case of a suite, which is much quicker than a new one.
func (b *base) again(t testing.TB, setup string) *base {
	next := *b
	next.t = t
	next.exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public; " + setup)
	return &next
}

// harness starts the cases of a suite in the database of the test that it is for.
type harness[M any] func(t *testing.T) func(t testing.TB) M

// source makes a model of one way to read; put and remove are statements with the parameters id, stamp, value.
func source(setup, put, remove string, set func(s *Stream), change func(m *conformance.SourceModel)) harness[conformance.SourceModel] {
	return func(t *testing.T) func(t testing.TB) conformance.SourceModel {
		whole := newBase(t, "")
		return func(t testing.TB) conformance.SourceModel {
			return sourceModel(whole.again(t, setup), put, remove, set, change)
		}
	}
}

func sourceModel(b *base, put, remove string, set func(s *Stream), change func(m *conformance.SourceModel)) conformance.SourceModel {
	t := b.t
	st := &Stream{}
	field.Declare(st)
	st.Table, st.ID = "s", "id"
	set(st)
	b.settings.Tables["s"] = st
	m := conformance.SourceModel{
		Stream: "s",
		Open:   func(env connectors.Env) (connectors.Instance, error) { return b.settings.Open(t.Context(), env) },
		Put: func(r conformance.Record) {
			var id *string
			if !r.NoID {
				id = &r.ID
			}
			var at *time.Time
			if !r.ChangedAt.IsZero() {
				at = &r.ChangedAt
			}
			b.exec(put, id, at, r.Value)
		},
		Value: func(body json.RawMessage) string {
			var r struct{ Value string }
			if err := json.Unmarshal(body, &r); err != nil {
				t.Errorf("body %s: %v", body, err)
			}
			return r.Value
		},
		Delete:     func(id string, at time.Time) { b.exec(remove, id, at) },
		Tombstones: true, NoID: true, NoTime: true, CanFetch: true,
	}
	change(&m)
	return m
}

func TestSourcesConform(t *testing.T) {
	t.Parallel()
	const table = `CREATE TABLE s (id text UNIQUE, at timestamptz, value text, gone boolean NOT NULL DEFAULT false, v bigint); CREATE SEQUENCE q; CREATE INDEX ON s (at, id)`
	const put = `INSERT INTO s VALUES ($1, $2, $3, false, nextval('q')) ON CONFLICT (id) DO UPDATE SET at = excluded.at, value = excluded.value, gone = false, v = excluded.v`
	const remove = `UPDATE s SET gone = true, at = $2, v = nextval('q') WHERE id = $1`
	const box = `CREATE TABLE s (event bigserial PRIMARY KEY, id text, at timestamptz, body json, gone boolean, xid xid8 NOT NULL DEFAULT pg_current_xact_id())`
	const event = `INSERT INTO s (id, at, body) VALUES ($1, $2, json_build_object('value', $3::text))`
	const gone = `INSERT INTO s (id, at, gone) VALUES ($1, $2, true)`
	stamps := func(s *Stream) { s.Version, s.Deleted = "at", "gone" }
	numbers := func(s *Stream) { s.Version, s.VersionAs, s.ChangedAt, s.Deleted = "v", versionNumber, "at", "gone" }
	events := func(xid string) func(s *Stream) {
		return func(s *Stream) { outbox(xid)(s); s.Deleted, s.ChangedAt = "gone", "at" }
	}
	same := func(*conformance.SourceModel) {}
	asLog := func(m *conformance.SourceModel) { m.CanFetch = false }
	for name, h := range map[string]harness[conformance.SourceModel]{
		"a table by its stamps":   source(table, put, remove, stamps, same),
		"no overlap":              source(table, put, remove, func(s *Stream) { stamps(s); s.Overlap = 0 }, same),
		"a table by a number":     source(table, put, remove, numbers, same),
		"a view":                  source(table+`; ALTER TABLE s RENAME TO real; CREATE VIEW s AS SELECT * FROM real`, put, remove, stamps, same),
		"rows that are deleted":   source(table, put, "DELETE FROM s WHERE id = $1 AND $2::timestamptz IS NOT NULL", func(s *Stream) { s.Version = "at" }, func(m *conformance.SourceModel) { m.Tombstones = false }),
		"an outbox":               source(box, event, gone, events("xid"), asLog),
		"an outbox by its number": source(box, event, gone, events(""), asLog),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Source(t, h(t))
		})
	}
}

// target makes a model of one kind of table.
func target(setup string, set func(e *Entity), change func(b *base, m *conformance.TargetModel)) harness[conformance.TargetModel] {
	return func(t *testing.T) func(t testing.TB) conformance.TargetModel {
		whole := newBase(t, "")
		return func(t testing.TB) conformance.TargetModel { return targetModel(whole.again(t, setup), set, change) }
	}
}

func targetModel(b *base, set func(e *Entity), change func(b *base, m *conformance.TargetModel)) conformance.TargetModel {
	t := b.t
	e := &Entity{}
	field.Declare(e)
	set(e)
	b.settings.Records["e"] = e
	m := conformance.TargetModel{
		Entity: "e",
		Open:   func(env connectors.Env) (connectors.Instance, error) { return b.settings.Open(t.Context(), env) },
		Body: func(value string) json.RawMessage {
			raw, err := json.Marshal(map[string]any{"value": value})
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		Held: func(key string) []conformance.Held {
			rows, err := b.sql.Query(t.Context(), `SELECT to_jsonb(id)::text, coalesce(value, ''), gone IS NOT NULL FROM o WHERE key = $1`, key)
			if err != nil {
				t.Fatal(err)
			}
			held, err := pgx.CollectRows(rows, pgx.RowToStructByPos[conformance.Held])
			if err != nil {
				t.Fatal(err)
			}
			return held
		},
		Put: func(key, value string) (link string) {
			if err := b.sql.QueryRow(t.Context(), "INSERT INTO o (key, value) VALUES ($1, $2) RETURNING to_jsonb(id)::text", key, value).Scan(&link); err != nil {
				t.Fatal(err)
			}
			return link
		},
		Erase:   func(link string) { b.exec("DELETE FROM o WHERE to_jsonb(id)::text = $1", link) },
		Refused: func() json.RawMessage { return json.RawMessage(`{"value":"refused"}`) },
		Other:   func(key string) string { return b.rows(fmt.Sprintf("SELECT other FROM o WHERE key = '%s'", key)) },
		SetOther: func(key, value string) {
			b.exec("UPDATE o SET other = $2 WHERE key = $1", key, value)
		},
	}
	change(b, &m)
	return m
}

func TestTargetsConform(t *testing.T) {
	t.Parallel()
	const columns = `key text NOT NULL, value text CHECK (value <> 'refused'), other text, gone timestamptz, v bigint, seen timestamptz, epoch int)`
	const serial = `CREATE TABLE o (id bigserial PRIMARY KEY, ` + columns
	whole := func(e *Entity) {
		e.Table, e.Key, e.Link, e.Version, e.Observed, e.SourceEpoch, e.Gone.Column = "o", []string{"key"}, []string{"id"}, "v", "seen", "epoch", "gone"
	}
	same := func(*base, *conformance.TargetModel) {}
	pooled := func(b *base, _ *conformance.TargetModel) { b.settings.Pooler = true }
	for name, h := range map[string]harness[conformance.TargetModel]{
		"guarded":              target(serial+`; CREATE UNIQUE INDEX ON o (key)`, whole, same),
		"behind a pooler":      target(serial+`; CREATE UNIQUE INDEX ON o (key)`, whole, pooled),
		"unguarded":            target(serial+`; CREATE UNIQUE INDEX ON o (key)`, func(e *Entity) { e.Table, e.Key, e.Link = "o", []string{"key"}, []string{"id"} }, same),
		"called by its key":    target(`CREATE TABLE o (id text GENERATED ALWAYS AS (key) STORED, PRIMARY KEY (key), `+columns, func(e *Entity) { whole(e); e.Link = nil }, same),
		"with a partial index": target(serial+`; CREATE UNIQUE INDEX ON o (key) WHERE value IS DISTINCT FROM 'another world'`, whole, same),
		"without an index": target(serial, func(e *Entity) { whole(e); e.Unique = false }, func(b *base, m *conformance.TargetModel) {
			m.SecretlyTwice = m.Put
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformance.Target(t, h(t))
		})
	}
}
