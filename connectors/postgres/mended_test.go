package postgres

import (
	"testing"

	"syncd/connectors"
)

// Whoever mends a table and replays a record at once is not told of the table as it was.
func TestMendedTableIsBelievedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ setup, body, refused, mend string }{
		"an index that was missing":      {"CREATE TABLE o (n text NOT NULL, q int)", `{"q":1}`, "invalid/configuration", "CREATE UNIQUE INDEX ON o (n)"},
		"a table that was missing":       {"", `{"q":1}`, "invalid/configuration", "CREATE TABLE o (n text PRIMARY KEY, q int)"},
		"a column that was missing":      {"CREATE TABLE o (n text PRIMARY KEY)", `{"q":1}`, "invalid/unknown_field", "ALTER TABLE o ADD q int"},
		"a column that was too short":    {"CREATE TABLE o (n text PRIMARY KEY, q varchar(3))", `{"q":"long"}`, "invalid/bad_value", "ALTER TABLE o ALTER q TYPE varchar(9)"},
		"a column that was generated":    {"CREATE TABLE o (n text PRIMARY KEY, q int GENERATED ALWAYS AS (7) STORED)", `{"q":1}`, "invalid/generated_column", "ALTER TABLE o ALTER q DROP EXPRESSION"},
		"an index that held for some":    {"CREATE TABLE o (n text NOT NULL, q int); CREATE UNIQUE INDEX i ON o (n) WHERE q = 7", `{"q":1}`, "invalid/outside_index", "DROP INDEX i; CREATE UNIQUE INDEX i ON o (n)"},
		"a rule that was in the way":     {"CREATE TABLE o (n text PRIMARY KEY, q int); CREATE RULE r AS ON INSERT TO o DO ALSO NOTHING", `{"q":1}`, "invalid/configuration", "DROP RULE r ON o"},
		"an invalid index made anew":     {"CREATE TABLE o (n text NOT NULL, q int); CREATE UNIQUE INDEX i ON o (n); UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'i'::regclass", `{"q":1}`, "invalid/configuration", "REINDEX INDEX i"},
		"a trigger that dropped the row": {"CREATE TABLE o (n text PRIMARY KEY, q int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER t BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION f()", `{"q":1}`, "invalid/not_kept", "DROP TRIGGER t ON o"},
	} {
		for _, how := range []string{"upserted", "created"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				b := newBase(t, c.setup)
				e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
				send := func() connectors.Outcome {
					if how == "created" {
						return e.Create(t.Context(), write("A", c.body, 1))
					}
					return e.Upsert(t.Context(), []connectors.Write{write("A", c.body, 1)})[0]
				}
				b.same(brief(send()), c.refused)
				b.same(brief(send()), c.refused)
				b.exec(c.mend)
				b.same(brief(send()), `applied "A"`)
			})
		}
	}
}
