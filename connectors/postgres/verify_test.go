package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestVerifyTellsAllThatWouldKeepARecordFromBeingWrittenAndWritesNothing(t *testing.T) {
	t.Parallel()
	const table = `CREATE TYPE state AS ENUM ('new', 'paid'); CREATE TABLE c (id int PRIMARY KEY);
CREATE TABLE o (id bigint GENERATED ALWAYS AS IDENTITY, n varchar(8) PRIMARY KEY, name varchar(5) NOT NULL, state state NOT NULL DEFAULT 'new', total numeric(6,2), ip inet, tags int[],
  c int NOT NULL REFERENCES c, v bigint NOT NULL, up text GENERATED ALWAYS AS (upper(name)) STORED);
CREATE TABLE l (n text NOT NULL REFERENCES o, no int NOT NULL, sku text NOT NULL, PRIMARY KEY (n, no)); `
	for name, c := range map[string]struct {
		setup, key, body string
		linked           []string
		want             string
	}{
		"well":             {"", "A", `{"name":"x","state":"paid","total":1.5,"ip":"10.0.0.1","tags":[1,2],"lines":[{"no":1,"sku":"s"}]}`, []string{"c"}, ""},
		"fields missing":   {"", "A", `{"total":1}`, nil, "the columns name and c of public.o must have a value and have no default, and the record has none for them; add them to the mapping, or give the table a default"},
		"one missing":      {"", "A", `{"name":"x"}`, nil, "the column c of public.o must have a value and has no default, and the record has none for it; add it to the mapping, or give the table a default"},
		"a trigger fills":  {"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.c = 1; RETURN NEW; END $$; CREATE TRIGGER t BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION f()", "A", `{"name":null}`, nil, ""},
		"a trigger after":  {"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER t AFTER INSERT ON o FOR EACH ROW EXECUTE FUNCTION f()", "A", `{"name":null,"c":1}`, nil, `field "name": it is null, and the column name of public.o must have a value`},
		"null":             {"", "A", `{"name":null,"c":1}`, nil, `field "name": it is null, and the column name of public.o must have a value`},
		"several":          {"", "A", `{"nam":"x","name":"too long","total":1.555,"c":"x","id":7,"up":"X"}`, nil, `field "nam": the table public.o has no such column; did you mean name? | field "name" has 8 characters, and the column takes 5; shorten it in the mapping (column name, character varying(5)) | field "total" has 3 digits after the point, and the column keeps 2; round it in the mapping (column total, numeric(6,2)) | field "c" is not a number (column c, integer) | field "id": the database makes the values of the column id itself; take the field out of the mapping | field "up": the database makes the values of the column up itself; take the field out of the mapping`},
		"not of the enum":  {"", "A", `{"name":"x","c":1,"state":"lost"}`, nil, "a value is not of its column's type (column state, state)"},
		"not an address":   {"", "A", `{"name":"x","c":1,"ip":"nowhere"}`, nil, "a value is not of its column's type (column ip, inet)"},
		"no array":         {"", "A", `{"name":"x","c":1,"tags":"x"}`, nil, `field "tags" is not an array, which this column needs (column tags, integer[])`},
		"key too long":     {"", "ABCDEFGHI", `{"name":"x","c":1}`, nil, "the record's key has 9 characters, and the column takes 8; shorten it in the mapping (column n, character varying(8))"},
		"an unknown ref":   {"", "A", `{"name":"x","c":1}`, []string{"customer"}, `field "customer": the table public.o has no such column`},
		"child lacks":      {"", "A", `{"name":"x","c":1,"lines":[{"no":1,"sku":"s"},{"no":2}]}`, nil, `"lines": the column sku of public.l must have a value and has no default, and the record has none for it; add it to the mapping, or give the table a default`},
		"child unknown":    {"", "A", `{"name":"x","c":1,"lines":[{"no":1,"sku":"s","x":1}]}`, nil, `element 0 of "lines": field "x": the table public.l has no such column`},
		"not an object":    {"", "A", `[1]`, nil, "the record is not a JSON object: not an object at byte 0"},
		"refs in children": {"", "A", `{"name":"x","c":1}`, []string{"lines"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, table+c.setup)
			e := b.entity(func(e *Entity) {
				e.Table, e.Key, e.Version = "o", []string{"n"}, "v"
				e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"n"}, []string{"no"} })}
			})
			trial := connectors.Trial{Write: connectors.Write{Key: c.key, Body: json.RawMessage(c.body), Stamp: version(1, 0)}, Linked: c.linked}
			got, err := e.Verify(t.Context(), []connectors.Trial{trial})
			if err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			var texts []string
			for _, p := range got[0] {
				texts = append(texts, p.Error())
			}
			b.same(strings.Join(texts, " | "), c.want)
			b.want("SELECT count(*) FROM o", "0")
		})
	}
}

func TestVerifyTellsWhatKeepsItFromAsking(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY)")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "gone", []string{"n"} })
	_, err := e.Verify(t.Context(), make([]connectors.Trial, 1))
	if err == nil || connectors.Unanswered(err) || !strings.HasPrefix(err.Error(), "verify e: invalid (configuration): entity e: there is no table public.gone") {
		t.Errorf("got %v", err)
	}
}

func TestCheckTellsAllProblemsOfAnEntityAtOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders+"; CREATE TABLE l (no int)")
	b.entity(func(e *Entity) {
		guarded(e)
		e.Key, e.Version, e.Observed, e.Gone, e.Columns = []string{"numbr", "shop"}, "total", "sen", Gone{Column: "note"}, map[string]string{"a": "aa", "b": "bb"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"order_id"}, []string{"line_no"} }), "others": child(func(c *Child) { c.Table, c.Parent = "nowhere", []string{"x"} })}
	})
	b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), strings.Join([]string{
		"e: ! the table erp.orders has no column numbr; add it, or name another", "e: ! the table erp.orders has no column shop; add it, or name another",
		"e: ! the column total of erp.orders is numeric(12,2); it must be bigint, since versions are microseconds or other large numbers",
		"e: ! the table erp.orders has no column sen; add it, or name another",
		"e: ! gone.value is missing: the column note is character varying(20), so say what marks a row as gone",
		"e: ! the table erp.orders has no column aa; add it, or name another", "e: ! the table erp.orders has no column bb; add it, or name another",
		"e: ! children lines: the table public.l has no column order_id; add it, or name another", "e: ! children lines: the table public.l has no column line_no; add it, or name another",
		"e: ! children others: there is no table public.nowhere, or no right to see it; create it, or GRANT USAGE on its schema"}, "\n"))
}

func TestCheckTellsAllProblemsOfAStreamAtOnce(t *testing.T) {
	t.Parallel()
	f := newFeed(t, "CREATE TABLE s (a text)", func(s *Stream) {
		s.ID, s.Version, s.ChangedAt, s.Deleted, s.Columns = "id", "updated", "changed", "a", []string{"a", "b"}
	})
	b := f.base
	b.same(said(f.in.Check(t.Context(), []string{"s"}, nil)), strings.Join([]string{
		"s: ! the table public.s has no column id; add it, or name another", "s: ! the table public.s has no column changed; add it, or name another",
		"s: ! the table public.s has no column updated; add it, or name another", "s: ! the table public.s has no column b; add it, or name another"}, "\n"))
}
