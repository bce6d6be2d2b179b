package postgres

import (
	"strings"
	"testing"

	"syncd/connectors"
	"syncd/internal/field"
)

// said is what a check says, one finding a line.
func said(fs []connectors.Finding) string {
	var lines []string
	for _, f := range fs {
		switch {
		case f.Problem != "":
			lines = append(lines, f.Subject+": ! "+f.Problem)
		case f.Subject != "":
			lines = append(lines, f.Subject+": "+f.Note)
		}
	}
	return strings.Join(lines, "\n")
}

func TestCheckSaysWhatToCreate(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders+`; CREATE TABLE lines (order_id bigint REFERENCES erp.orders (id), line_no int NOT NULL, UNIQUE (order_id, line_no));
CREATE TABLE loose (n text UNIQUE, id int, gone boolean NOT NULL, v bigint);
CREATE TABLE late (n text PRIMARY KEY, UNIQUE (n) DEFERRABLE); CREATE TABLE deferred (n text NOT NULL, UNIQUE (n) DEFERRABLE);
CREATE TABLE part (shop text, n text); CREATE UNIQUE INDEX part_key ON part (n, shop) WHERE shop <> 'test'`)
	for name, c := range map[string]struct {
		set  func(e *Entity)
		want string
	}{
		"well":    {guarded, "e: table erp.orders, key number, guarded by version and time of reading"},
		"version": {func(e *Entity) { guarded(e); e.Observed = "" }, "e: table erp.orders, key number, guarded by version"},
		"bare": {func(e *Entity) { e.Table, e.Key = "erp.orders", []string{"number"} },
			"e: table erp.orders, key number; without a version column, an older state can overwrite a newer one for a moment"},
		"nullable": {func(e *Entity) {
			e.Table, e.Key, e.Gone, e.Link = "loose", []string{"n"}, Gone{Column: "gone"}, []string{"id"}
		},
			`e: ! the key column n of public.loose can be null, and rows with null are never the same to the index loose_n_key; ALTER TABLE "public"."loose" ALTER COLUMN "n" SET NOT NULL, or make the index NULLS NOT DISTINCT
e: ! the link column id of public.loose can be null; ALTER TABLE "public"."loose" ALTER COLUMN "id" SET NOT NULL
e: ! no unique index of public.loose covers exactly id; run CREATE UNIQUE INDEX CONCURRENTLY ON "public"."loose" ("id"), since a link must lead to one row
e: ! the column gone of public.loose needs a default for rows that live; ALTER TABLE "public"."loose" ALTER COLUMN "gone" SET DEFAULT …`},
		"deferrable":        {func(e *Entity) { e.Table, e.Key = "deferred", []string{"n"} }, "e: ! the unique constraint deferred_n_key of public.deferred is deferrable, which an upsert cannot use; make it NOT DEFERRABLE, or drop it"},
		"deferrable beside": {func(e *Entity) { e.Table, e.Key = "late", []string{"n"} }, "e: ! the unique constraint late_n_key of public.late is deferrable, which an upsert cannot use; make it NOT DEFERRABLE, or drop it"},
		"partial": {func(e *Entity) { e.Table, e.Key = "part", []string{"shop", "n"} },
			`e: ! the key column shop of public.part can be null, and rows with null are never the same to the index part_key; ALTER TABLE "public"."part" ALTER COLUMN "shop" SET NOT NULL, or make the index NULLS NOT DISTINCT
e: ! the key column n of public.part can be null, and rows with null are never the same to the index part_key; ALTER TABLE "public"."part" ALTER COLUMN "n" SET NOT NULL, or make the index NULLS NOT DISTINCT`},
		"lines": {func(e *Entity) {
			guarded(e)
			e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "lines", []string{"order_id"}, []string{"line_no"} })}
		}, `e: ! the key column order_id of public.lines can be null, and rows with null are never the same to the index lines_order_id_line_no_key; ALTER TABLE "public"."lines" ALTER COLUMN "order_id" SET NOT NULL, or make the index NULLS NOT DISTINCT`},
		"lines without index": {func(e *Entity) {
			guarded(e)
			e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "loose", []string{"id"}, []string{"v"} })}
		}, `e: ! children lines: no unique index of public.loose covers exactly id and v; run CREATE UNIQUE INDEX CONCURRENTLY ON "public"."loose" ("id", "v")`},
		"version of another type": {func(e *Entity) { guarded(e); e.Version = "number2" }, "e: ! the table erp.orders has no column number2; add it, or name another"},
		"gone without value":      {func(e *Entity) { guarded(e); e.Gone.Column = "note" }, "e: ! gone.value is missing: the column note is character varying(20), so say what marks a row as gone"},
		"gone with a value":       {func(e *Entity) { guarded(e); e.Gone = Gone{"seen", "x"}; e.Observed = "" }, "e: ! gone.value is for the column seen, which is a time; take it out: it gets the time of the removal"},
	} {
		t.Run(name, func(t *testing.T) {
			b.entity(c.set)
			if got := said(b.in.Check(t.Context(), nil, []string{"e"})); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestIndexThatTakesNullsForOneIsEnough(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (a text, b text, UNIQUE NULLS NOT DISTINCT (a, b))")
	b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"a", "b"} })
	if got := said(b.in.Check(t.Context(), nil, []string{"e"})); strings.Contains(got, "!") {
		t.Errorf("got %s", got)
	}
}

func TestCheckOfStreams(t *testing.T) {
	t.Parallel()
	f := newFeed(t, polled+"; CREATE TABLE slow (id int, updated_at timestamptz); CREATE VIEW v AS SELECT * FROM s; CREATE TABLE box (event bigserial PRIMARY KEY, id text, body jsonb, xid xid8 NOT NULL DEFAULT pg_current_xact_id())", func(*Stream) {})
	for name, c := range map[string]struct {
		set  func(s *Stream)
		want string
	}{
		"well": {func(*Stream) {}, "s: public.s in the order of updated_at"},
		"view": {func(s *Stream) { s.Table = "v" }, "s: public.v in the order of updated_at"},
		"slow": {func(s *Stream) { s.Table = "slow" }, `s: ! the column id of public.slow is not unique, so rows could be passed over at the border of two pages; name a unique column as id
s: ! no index of public.slow begins with updated_at, so each poll reads the whole table; run CREATE INDEX CONCURRENTLY ON "public"."slow" ("updated_at", "id")`},
		"outbox by number": {func(s *Stream) { s.Table = "box"; outbox("")(s) }, "s: public.box in the order of event"},
		"outbox by xid":    {func(s *Stream) { s.Table = "box"; outbox("xid")(s) }, `s: ! no index of public.box begins with xid, so each poll reads the whole table; run CREATE INDEX CONCURRENTLY ON "public"."box" ("xid", "event")`},
		"nowhere":          {func(s *Stream) { s.Table = "nowhere" }, "s: ! there is no table public.nowhere, or no right to see it; create it, or GRANT USAGE on its schema"},
	} {
		t.Run(name, func(t *testing.T) {
			was := *f.stream
			defer func() { *f.stream = was }()
			c.set(f.stream)
			if got := said(f.in.Check(t.Context(), []string{"s"}, nil)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	if got := said(f.in.Check(t.Context(), []string{"x"}, []string{"y"})); got != "x: ! there is no such stream in the configuration\ny: ! there is no such entity in the configuration" {
		t.Errorf("got %s", got)
	}
}

func TestCheckTellsUnreachableFromRefused(t *testing.T) {
	t.Parallel()
	b := &base{t: t, gate: &gate{}, now: day, settings: &Settings{}}
	field.Declare(b.settings)
	b.settings.Host, b.settings.Port, b.settings.Database, b.settings.User, b.settings.Password = "127.0.0.1", 1, "app", "sync", field.NewSecret("CANARY")
	got := b.open().Check(t.Context(), nil, nil)
	if len(got) != 1 || !got[0].Unreachable || !strings.HasPrefix(got[0].Problem, "no connection to the database: ") || strings.Contains(got[0].Problem, "CANARY") {
		t.Errorf("got %+v", got)
	}
}
