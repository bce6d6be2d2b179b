package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"syncd/connectors"
)

// shown fails if a value of a record stands in outcomes or errors.
func (b *base) shown(what string, things ...any) {
	b.t.Helper()
	for _, thing := range things {
		if s := fmt.Sprintf("%+v", thing); strings.Contains(strings.ToLower(s), "canary") {
			b.t.Errorf("%s shows a value: %s", what, s)
		}
	}
}

// Types whose input looks for words or objects in the text are refused with class 42 or 3F, in texts that quote it.
func TestNoTypesRefusalShowsTheValueOrTakesOthersAlong(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"tsquery", "tsvector", "regclass", "regtype", "regproc", "regprocedure", "regoper", "regrole", "regnamespace", "regconfig", "xml", "jsonpath", "int4range", "point", "macaddr", "inet", "interval", "bit(3)"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, x `+typ+`)`)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			for _, text := range []string{"CANARY", "CANARY born 1980", `'CANARY`, "a.CANARY", "canary & ", "<CANARY", "canary:canary(", "c.a.n.CANARY"} {
				bad := write("A", fmt.Sprintf(`{"x":%q}`, text), 1)
				got := e.Upsert(t.Context(), []connectors.Write{bad, write("B", `{"x":null}`, 1)})
				if got[0].Class == connectors.Applied { // tsvector takes most texts
					continue
				}
				if got[0].Class != connectors.Invalid || !got[1].Class.Confirmed() {
					t.Errorf("%q: %s", text, brief(got...))
				}
				problems, err := e.Verify(t.Context(), []connectors.Trial{{Write: bad}})
				if err != nil || len(problems) != 1 || len(problems[0]) == 0 || !strings.HasSuffix(problems[0][0].Error(), "(column x, "+typ+")") {
					t.Errorf("%q: verify gives %v, %v", text, problems, err)
				}
				_, err = e.Find(t.Context(), bad)
				b.shown(text, got, problems, err, e.Create(t.Context(), bad))
			}
		})
	}
}

// What a trigger raises is its author's: text, detail, hint and names may be made of values, under every SQLSTATE.
func TestNothingThatATriggerRaisesIsShown(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, x text, code text);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  CASE NEW.code
  WHEN 'query' THEN PERFORM to_tsquery('simple', NEW.x);
  WHEN 'table' THEN EXECUTE format('SELECT FROM %I', NEW.x);
  WHEN 'column' THEN EXECUTE format('SELECT %I FROM o', NEW.x);
  WHEN 'function' THEN EXECUTE format('SELECT %I()', NEW.x);
  WHEN 'syntax' THEN EXECUTE NEW.x;
  WHEN 'cast' THEN PERFORM NEW.x::int;
  WHEN 'schema' THEN EXECUTE format('CREATE TABLE %I.t ()', NEW.x);
  WHEN 'fine' THEN NULL;
  ELSE RAISE EXCEPTION USING errcode = NEW.code, message = NEW.x, detail = NEW.x, hint = NEW.x, column = NEW.x, constraint = NEW.x, datatype = NEW.x, table = NEW.x, schema = NEW.x;
  END CASE; RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT OR UPDATE ON o FOR EACH ROW EXECUTE FUNCTION f()`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	for _, code := range []string{"query", "table", "column", "function", "syntax", "cast", "schema",
		"P0001", "P0002", "P0004", "23505", "23503", "23502", "23514", "23P01", "22001", "22P02", "22023", "21000", "28000", "28P01", "3D000", "3F000", "42501", "42601", "42602", "42P01", "42703", "42704", "42883",
		"42804", "42P10", "42P05", "428C9", "0A000", "55000", "55P03", "44000", "54000", "54001", "38000", "40001", "40002", "40003", "53100", "53300", "57014", "58000", "F0000", "HV000", "XX000", "ZZ999"} {
		got := e.Upsert(t.Context(), []connectors.Write{write("A", fmt.Sprintf(`{"x":"Canary Müller CANARY","code":%q}`, code), 1)})
		if got[0].Message == "" || got[0].Class.Confirmed() {
			t.Errorf("%s: %+v", code, got[0])
		}
		b.shown(code, got)
	}
	// A trigger that fails for one record fails for that one alone.
	for _, code := range []string{"query", "table", "42601", "42P01", "42501", "3F000"} {
		got := e.Upsert(t.Context(), []connectors.Write{write("A", fmt.Sprintf(`{"x":"a b","code":%q}`, code), 1), write("B", `{"x":"a","code":"fine"}`, 1)})
		if got[0].Class != connectors.Invalid || !got[1].Class.Confirmed() || got[0].Message != "a trigger or function of the database refuses it" {
			t.Errorf("%s: %s: %s", code, brief(got...), got[0].Message)
		}
	}
}

func TestNoReadingsErrorShowsAValue(t *testing.T) {
	t.Parallel()
	f := newFeed(t, `CREATE TABLE b (id int PRIMARY KEY, updated_at timestamptz, x text); INSERT INTO b VALUES (1, now(), 'CANARY it');
CREATE VIEW s AS SELECT id, updated_at, to_tsquery('simple', x) AS q FROM b`, func(*Stream) {})
	_, err := f.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: f.start, Limit: 10})
	if err == nil {
		t.Fatal("it was read")
	}
	f.shown("a view", err.Error())
}

// Of what the server says of a class 42, only what it says of our own statement is shown.
func TestServersTextIsShownWhereItIsAboutOurStatement(t *testing.T) {
	const said = `column "x" of relation "o" does not exist`
	for name, c := range map[string]struct {
		change func(*pgconn.PgError)
		shown  bool
	}{
		"with a place in it":             {func(*pgconn.PgError) {}, true},
		"without a place":                {func(e *pgconn.PgError) { e.Position = 0 }, false},
		"inside a function":              {func(e *pgconn.PgError) { e.Where = "PL/pgSQL function f() line 1 at EXECUTE" }, false},
		"in a function's statement":      {func(e *pgconn.PgError) { e.InternalPosition = 3 }, false},
		"in a text that a function made": {func(e *pgconn.PgError) { e.InternalQuery = "SELECT" }, false},
		"of a value":                     {func(e *pgconn.PgError) { e.Code = "22P02" }, false},
		"a right, by the check of rights": {func(e *pgconn.PgError) {
			e.Code, e.Position, e.File, e.Routine = "42501", 0, "aclchk.c", "aclcheck_error"
		}, true},
		"a right, by anything else": {func(e *pgconn.PgError) {
			e.Code, e.Position, e.File, e.Routine = "42501", 0, "pl_exec.c", "exec_stmt_raise"
		}, false},
		"a login, while records are moved": {func(e *pgconn.PgError) { e.Code, e.Position = "28000", 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pe := &pgconn.PgError{Code: "42703", Severity: "ERROR", Message: said, Position: 8}
			c.change(pe)
			o := outcome(&failure{working, pe})
			if strings.Contains(o.Message, said) != c.shown {
				t.Errorf("%+v", o)
			}
		})
	}
}
