package postgres

import (
	"fmt"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestIndexThatSeemsToMakeTheKeyUniqueIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	const create = `; CREATE UNIQUE INDEX CONCURRENTLY ON "public"."o" ("n")`
	for name, c := range map[string]struct{ setup, want string }{
		"not unique":  {"CREATE TABLE o (n text NOT NULL, q int); CREATE INDEX o_n ON o (n)", "no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"wider":       {"CREATE TABLE o (n text, q int, PRIMARY KEY (n, q))", "no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"included":    {"CREATE TABLE o (n text NOT NULL, q int); CREATE UNIQUE INDEX o_q ON o (q) INCLUDE (n)", "no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"exclusion":   {"CREATE TABLE o (n text NOT NULL, q int, EXCLUDE (n WITH =))", "no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"on one part": {"CREATE TABLE o (n text NOT NULL, q int) PARTITION BY LIST (n); CREATE TABLE o1 PARTITION OF o DEFAULT; CREATE UNIQUE INDEX ON o1 (n)", "no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"expression":  {"CREATE TABLE o (n text NOT NULL, q int); CREATE UNIQUE INDEX o_lower ON o (lower(n))", "the unique index o_lower of public.o is over an expression, which an upsert by plain columns cannot use; no unique index of public.o covers exactly n" + strings.Replace(create, "; ", "; run ", 1)},
		"deferrable":  {"CREATE TABLE o (n text NOT NULL, q int, CONSTRAINT later UNIQUE (n) DEFERRABLE)", "the unique constraint later of public.o is deferrable, which an upsert cannot use; make it NOT DEFERRABLE, or drop it"},
		"invalid": {"CREATE TABLE o (n text NOT NULL, q int); CREATE UNIQUE INDEX o_bad ON o (n); UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'o_bad'::regclass",
			`the unique index o_bad of public.o is invalid, as a CREATE INDEX CONCURRENTLY leaves it that has failed; DROP INDEX "public"."o_bad", take out the doubles, and create it again`},
		"deferrable beside": {"CREATE TABLE o (n text PRIMARY KEY, q int, CONSTRAINT later UNIQUE (n) DEFERRABLE)", "the unique constraint later of public.o is deferrable, which an upsert cannot use; make it NOT DEFERRABLE, or drop it"},
		"with heirs": {"CREATE TABLE o (n text PRIMARY KEY, q int); CREATE TABLE o1 () INHERITS (o)",
			"other tables inherit from public.o, and no unique index covers their rows too; use a partitioned table, or say unique: false and use strategy lookup"},
		"with a rule": {"CREATE TABLE o (n text PRIMARY KEY, q int); CREATE RULE elsewhere AS ON INSERT TO o DO INSTEAD NOTHING",
			"the table public.o has the rule elsewhere on INSERT or UPDATE, with which PostgreSQL allows no upsert; use a trigger instead, or say unique: false and use strategy lookup"},
		"a view":              {"CREATE TABLE p (n text PRIMARY KEY, q int); CREATE VIEW o AS SELECT * FROM p", "public.o is not a table; rows are upserted into tables only"},
		"a materialized view": {"CREATE TABLE p (n text PRIMARY KEY, q int); CREATE MATERIALIZED VIEW o AS SELECT * FROM p; CREATE UNIQUE INDEX ON o (n)", "public.o is not a table; rows are upserted into tables only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, c.setup)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), "e: ! "+c.want)
			got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":1}`, 1)})
			b.same(brief(got...)+": "+got[0].Message, "invalid/configuration: entity e: "+c.want)
		})
	}
}

func TestOtherIndexesBesideOneThatHoldsForEveryRowDoNoHarm(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text CONSTRAINT z_key PRIMARY KEY, q int, EXCLUDE (n WITH =));
CREATE UNIQUE INDEX a_part ON o (n) WHERE q > 5; CREATE UNIQUE INDEX a_lower ON o (lower(n)); CREATE UNIQUE INDEX a_bad ON o (n);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'a_bad'::regclass`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	for q := range 8 {
		b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("A", fmt.Sprintf(`{"q":%d}`, q), 1)})...), `applied "A"`)
	}
	b.want("SELECT n, q FROM o", "A 7")
	if got := said(b.in.Check(t.Context(), nil, []string{"e"})); strings.Contains(got, "!") {
		t.Errorf("got %s", got)
	}
}

// A partial index keeps a row from being doubled only where its predicate is true.
func TestRowOutsideAPartialIndexIsRefusedAndNeverDoubled(t *testing.T) {
	t.Parallel()
	const table = `CREATE TABLE o (id serial PRIMARY KEY, n text NOT NULL, active boolean DEFAULT true, q int, v bigint, deleted_at timestamptz); CREATE UNIQUE INDEX live ON o (n) WHERE active; `
	for name, c := range map[string]struct {
		setup string
		set   func(e *Entity)
		body  string
		want  string
		rows  string
	}{
		"sent outside":         {"", nil, `{"active":false,"q":1}`, "invalid/outside_index", ""},
		"sent with null":       {"", nil, `{"active":null,"q":1}`, "invalid/outside_index", ""},
		"outside by default":   {"ALTER TABLE o ALTER active SET DEFAULT false", nil, `{"q":1}`, "invalid/outside_index", ""},
		"moved outside":        {"INSERT INTO o (n) VALUES ('A')", nil, `{"active":false,"q":1}`, "invalid/outside_index", "A t NULL"},
		"one stands outside":   {"INSERT INTO o (n, active) VALUES ('A', false)", nil, `{"q":1}`, "invalid/outside_index", "A f NULL"},
		"null stands outside":  {"INSERT INTO o (n, active) VALUES ('A', null)", nil, `{"q":1}`, "invalid/outside_index", "A NULL NULL"},
		"two stand outside":    {"INSERT INTO o (n, active) VALUES ('A', true), ('A', false)", nil, `{"q":1}`, "invalid/outside_index", "A f NULL | A t NULL"},
		"another key outside":  {"INSERT INTO o (n, active) VALUES ('B', false)", nil, `{"q":1}`, "applied 2", "A t 1 | B f NULL"},
		"inside":               {"", nil, `{"q":1}`, "applied 1", "A t 1"},
		"inside and archived":  {"INSERT INTO o (n, active) VALUES ('A', false)", func(e *Entity) { e.Gone = Gone{"active", "false"} }, `{"q":1}`, "applied 2", "A f NULL | A t 1"},
		"archived by another":  {"INSERT INTO o (n, active) VALUES ('A', false)", func(e *Entity) { e.Gone = Gone{Column: "deleted_at"} }, `{"q":1}`, "invalid/outside_index", "A f NULL"},
		"guarded, sent out":    {"", func(e *Entity) { e.Version = "v" }, `{"active":false,"q":1}`, "invalid/outside_index", ""},
		"guarded, one outside": {"INSERT INTO o (n, active) VALUES ('A', false)", func(e *Entity) { e.Version = "v" }, `{"q":1}`, "invalid/outside_index", "A f NULL"},
		"trigger moves it out": {"CREATE FUNCTION moveout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.active = false; RETURN NEW; END $$; CREATE TRIGGER t BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION moveout()", nil, `{"q":1}`, "invalid/outside_index", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, table+c.setup)
			e := b.entity(func(e *Entity) {
				e.Table, e.Key, e.Link = "o", []string{"n"}, []string{"id"}
				if c.set != nil {
					c.set(e)
				}
			})
			for version := range int64(3) {
				got := brief(e.Upsert(t.Context(), []connectors.Write{write("A", c.body, version+1), write("Z", `{"q":9}`, version+1)})...)
				if first, _, _ := strings.Cut(got, ", "); first != c.want && !(strings.HasPrefix(c.want, "applied") && strings.HasPrefix(first, "applied")) {
					t.Errorf("version %d: got %s, want %s", version, got, c.want)
				}
				if c.want == "invalid/outside_index" && name != "trigger moves it out" && name != "outside by default" && !strings.Contains(got, ", applied") {
					t.Errorf("the other record was taken along: %s", got)
				}
			}
			b.want("SELECT n, active, q FROM o WHERE n <> 'Z' ORDER BY n, active", c.rows)
		})
	}
}

func TestRowOutsideAPartialIndexIsFoundAndNotCreatedAgain(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (id serial PRIMARY KEY, n text NOT NULL, active boolean DEFAULT true, q int); CREATE UNIQUE INDEX live ON o (n) WHERE active;
INSERT INTO o (n, active) VALUES ('A', false)`)
	e := b.entity(func(e *Entity) { e.Table, e.Key, e.Link = "o", []string{"n"}, []string{"id"} })
	found, err := e.Find(t.Context(), connectors.Write{Key: "A"})
	if err != nil || len(found) != 1 || found[0].Link != "1" {
		t.Errorf("found %+v, %v", found, err)
	}
	got := e.Create(t.Context(), write("A", `{"q":1}`, 1))
	b.same(brief(got)+": "+got.Message, "invalid/outside_index: a row with this key lies outside the unique index live, which holds only WHERE active, and this would be a second one; "+
		"bring that row in or delete it, or name in gone the column that says that it is archived")
	got = e.Create(t.Context(), write("B", `{"q":1,"active":false}`, 1))
	b.same(brief(got)+": "+got.Message, "invalid/outside_index: the row would lie outside the unique index live, which holds only WHERE active, so that each write would double it; "+
		"create a unique index for all rows, or keep such records out in the mapping")
	b.want("SELECT n FROM o", "A")
}

func TestCheckTellsOfAPartialIndexUnlessItLeavesOutArchivedRowsAlone(t *testing.T) {
	t.Parallel()
	const columns = "CREATE TABLE o (n text NOT NULL, kind text, q int, deleted_at timestamptz); CREATE UNIQUE INDEX part ON o (n) WHERE "
	for name, c := range map[string]struct {
		where string
		gone  string
		ok    bool
	}{
		"another column":              {"kind = 'live'", "", false},
		"archived, but not said":      {"deleted_at IS NULL", "", false},
		"archived":                    {"deleted_at IS NULL", "deleted_at", true},
		"archived and another column": {"deleted_at IS NULL AND kind = 'live'", "deleted_at", false},
		"of the key alone":            {"n <> ''", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, columns+c.where)
			b.entity(func(e *Entity) { e.Table, e.Key, e.Gone.Column = "o", []string{"n"}, c.gone })
			got := said(b.in.Check(t.Context(), nil, []string{"e"}))
			if bad := strings.Contains(got, "! the unique index part of public.o holds only WHERE "); bad == c.ok {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestChildrenNeedAnIndexForAllOfThem(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders+"; CREATE TABLE l (order_id bigint REFERENCES erp.orders (id), no int, kind text); CREATE UNIQUE INDEX part ON l (order_id, no) WHERE kind = 'x'")
	e := b.entity(func(e *Entity) {
		guarded(e)
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"order_id"}, []string{"no"} })}
	})
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"no":1}]}`, 1)})
	b.same(brief(got...)+": "+got[0].Message, "invalid/configuration: entity e: children lines: the unique index part of public.l holds only WHERE (kind = 'x'::text), so that children outside it would be doubled; create one without WHERE")
}

// What the index takes for one key must be one record of the source, else two would be written over each other.
func TestKeyInAnotherSpellingThanItsRowIsRefused(t *testing.T) {
	t.Parallel()
	const nocase = "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); "
	for name, c := range map[string]struct{ setup, first, second string }{
		"nondeterministic collation": {nocase + "CREATE TABLE o (n text COLLATE nocase PRIMARY KEY, q int)", "ABC", "abc"},
		"citext":                     {"CREATE EXTENSION citext; CREATE TABLE o (n citext PRIMARY KEY, q int)", "abc", "ABC"},
		"citext in a domain":         {"CREATE EXTENSION citext; CREATE DOMAIN sku AS citext; CREATE TABLE o (n sku PRIMARY KEY, q int)", "abc", "ABC"},
		"char(n)":                    {"CREATE TABLE o (n char(8) PRIMARY KEY, q int)", "abc", "abc "},
		"zeros at the beginning":     {"CREATE TABLE o (n int PRIMARY KEY, q int)", "10", "010"},
		"zeros at the end":           {"CREATE TABLE o (n numeric PRIMARY KEY, q int)", "1", "1.0"},
		"numeric with a scale":       {"CREATE TABLE o (n numeric(8,2) PRIMARY KEY, q int)", "1.5", "1.50"},
		"an exponent":                {"CREATE TABLE o (n numeric PRIMARY KEY, q int)", "1000", "1e3"},
		"a floating point":           {"CREATE TABLE o (n float8 PRIMARY KEY, q int)", "1000", "1000.0"},
		"a sign":                     {"CREATE TABLE o (n int PRIMARY KEY, q int)", "7", "+7"},
		"capital letters of a UUID":  {"CREATE TABLE o (n uuid PRIMARY KEY, q int)", "aaaaaaaa-0000-0000-0000-000000000001", "AAAAAAAA-0000-0000-0000-000000000001"},
		"offset of a time":           {"CREATE TABLE o (n timestamptz PRIMARY KEY, q int)", "2026-11-29T10:00:00Z", "2026-11-29T11:00:00+01:00"},
		"trigger": {`CREATE TABLE o (n text PRIMARY KEY, q int); CREATE FUNCTION up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n = upper(NEW.n); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION up()`, "ABC", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, c.setup)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			b.confirmed(e.Upsert(t.Context(), []connectors.Write{write(c.first, `{"q":1}`, 1)}))
			want := "invalid/key_spelling"
			if name == "trigger" {
				want = "invalid/not_kept"
			}
			for range 2 {
				got := e.Upsert(t.Context(), []connectors.Write{write(c.second, `{"q":2}`, 1)})
				b.same(brief(got...), want)
				b.confirmed(e.Upsert(t.Context(), []connectors.Write{write(c.first, `{"q":1}`, 1)}))
			}
			b.want("SELECT q FROM o", "1")
			if name != "trigger" {
				if found, err := e.Find(t.Context(), write(c.second, `{"q":2}`, 1)); err == nil || !strings.Contains(err.Error(), "key_spelling") {
					t.Errorf("found %v, %v", found, err)
				}
				b.same(brief(e.Remove(t.Context(), connectors.Write{Key: c.second, Removal: connectors.Delete, Stamp: version(9, 0)})), "invalid/key_spelling")
			}
			if got := e.Create(t.Context(), write(c.second, `{"q":2}`, 1)); got.Class != connectors.Invalid {
				t.Errorf("create: %s", brief(got))
			}
			// In one batch: one of the two is written, whichever it is.
			b.exec("TRUNCATE o")
			one := 0
			for _, o := range e.Upsert(t.Context(), []connectors.Write{write(c.first, `{"q":1}`, 1), write(c.second, `{"q":2}`, 1)}) {
				if o.Class == connectors.Applied {
					one++
				}
			}
			if rows := b.rows("SELECT count(*) FROM o"); one != 1 || rows != "1" {
				t.Errorf("%d of two written, %s rows", one, rows)
			}
		})
	}
}

func TestCheckTellsOfKeysThatAreTheSameInAnotherSpelling(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n char(8) PRIMARY KEY, q int)")
	b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), "e: table public.o, key n; without a version column, an older state can overwrite a newer one for a moment; "+
		"the column n (character(8)) takes texts for the same that are written differently: a key in another spelling than its row is refused")
}

func TestCheckTellsOfANumberThatEachWriteDraws(t *testing.T) {
	t.Parallel()
	const says = "; unless records give it, the column id (integer) draws a number with every write, also of a row that is there already, and has none left after 2147483647: make it bigint"
	for id, want := range map[string]string{
		"serial": says, "int GENERATED ALWAYS AS IDENTITY": says, "int GENERATED BY DEFAULT AS IDENTITY": says,
		"bigserial": "", "int NOT NULL DEFAULT 7": "", "int": "",
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, "CREATE TABLE o (id "+id+", n text PRIMARY KEY, q int)")
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), "e: table public.o, key n; without a version column, an older state can overwrite a newer one for a moment"+want)
			for range 3 {
				b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":5}`, 1)})...), `applied "A"`)
			}
		})
	}
}

// Nothing of a refused row may stay: the next try would double it.
func TestRowThatIsNotKeptUnderItsKeyIsTakenBack(t *testing.T) {
	t.Parallel()
	trigger := func(body string) string {
		return "CREATE TABLE o (n text PRIMARY KEY, q int); CREATE TABLE elsewhere (n text, q int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + body +
			" END $$; CREATE TRIGGER t BEFORE INSERT OR UPDATE ON o FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE o DISABLE TRIGGER t; INSERT INTO o VALUES ('B', 1); ALTER TABLE o ENABLE TRIGGER t"
	}
	for name, c := range map[string]struct{ setup, want string }{
		"key made anew":       {trigger("NEW.n = gen_random_uuid(); RETURN NEW;"), "invalid/not_kept, invalid/not_kept"},
		"put elsewhere":       {trigger("INSERT INTO elsewhere VALUES (NEW.n, NEW.q); RETURN NULL;"), "invalid/not_kept, invalid/not_kept"},
		"passed over":         {trigger("RETURN NULL;"), "invalid/not_kept, invalid/not_kept"},
		"update passed over":  {trigger("IF TG_OP = 'UPDATE' AND NEW.n = 'B' THEN RETURN NULL; END IF; RETURN NEW;"), `applied "A", invalid/not_kept`},
		"old one kept":        {trigger("IF TG_OP = 'UPDATE' THEN RETURN OLD; END IF; RETURN NEW;"), `applied "A", applied "B"`}, // as the trigger wants it
		"changes are left to": {trigger("NEW.q = NEW.q + 1; RETURN NEW;"), `applied "A", applied "B"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, c.setup)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			for range 3 {
				b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":5}`, 1), write("B", `{"q":5}`, 1)})...), c.want)
			}
			b.want("SELECT count(*) FROM elsewhere", "0")
			if got := b.rows("SELECT count(*) FROM o"); got != "1" && got != "2" {
				t.Errorf("%s rows", got)
			}
		})
	}
}

func TestTriggerThatLeavesUnchangedRowsAloneIsNoRefusal(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (n text PRIMARY KEY, q int); CREATE TRIGGER t BEFORE UPDATE ON o FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	for _, want := range []string{`applied "A"`, `unchanged "A"`} {
		b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("A", `{"q":5}`, 1)})...), want)
	}
	w := write("A", `{"q":5}`, 1)
	w.Link = `"A"`
	b.same(brief(e.Update(t.Context(), w)), `unchanged "A"`)
}

func TestPartitionedTableTakesUpserts(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text, year int, q int, PRIMARY KEY (n, year)) PARTITION BY LIST (year); CREATE TABLE o26 PARTITION OF o FOR VALUES IN (2026)`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n", "year"} })
	for range 2 {
		got := e.Upsert(t.Context(), []connectors.Write{write(`["A",2026]`, `{"q":1}`, 1), write(`["A",2027]`, `{"q":2}`, 1)})
		b.same(brief(got...), `applied "[\"A\",2026]", invalid/sqlstate_23514`)
		b.same(got[1].Message, "no partition of the table takes it; create one")
	}
	b.want("SELECT q FROM o", "1")
}

func TestGeneratedKeyColumnIsRefused(t *testing.T) {
	t.Parallel()
	b := newBase(t, "CREATE TABLE o (a text, n text GENERATED ALWAYS AS (upper(a)) STORED UNIQUE NOT NULL)")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), "e: ! the values of the key column n of public.o are made by the database and cannot be written; use another key, and name this column in link")
	b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("A", `{"a":"a"}`, 1)})...), "invalid/sqlstate_428C9")
}

func TestRowLevelSecurityRefusesRowsAndNotTheirBatch(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, shop text); INSERT INTO o VALUES ('H', 'other'); ALTER TABLE o ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON o USING (shop = 'ours');
DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'syncd_rls') THEN CREATE ROLE syncd_rls LOGIN; END IF; END $$; GRANT SELECT, INSERT, UPDATE, DELETE ON o TO syncd_rls`)
	b.asRole("syncd_rls")
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"shop":"ours"}`, 1), write("B", `{"shop":"other"}`, 1), write("C", `{"shop":"ours"}`, 1), write("H", `{"shop":"ours"}`, 1)})
	b.same(brief(got...), `applied "A", invalid/sqlstate_42501, applied "C", invalid/sqlstate_42501`)
	for _, at := range []int{1, 3} {
		b.same(got[at].Message, "row-level security refuses the row, or hides the one that has its key; look at the table's policies for this role")
	}
	b.same(said(b.in.Check(t.Context(), nil, []string{"e"})), "e: table public.o, key n; without a version column, an older state can overwrite a newer one for a moment; "+
		"row-level security holds for this role: rows that it hides or refuses become dead letters")
	b.want("SELECT n, shop FROM o ORDER BY n", "A ours | C ours | H other")
}
