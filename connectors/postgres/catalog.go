package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// table is what the database's catalog says of one table or view.
type table struct {
	tableName
	oid     uint32
	kind    byte // pg_class.relkind
	columns map[string]*column
	order   []*column // as the table has them
	uniques []unique
	refs    []reference
	may     map[string]bool // SELECT, INSERT, UPDATE, DELETE, on the table or on some column
	rules   []string        // on INSERT or UPDATE
	heirs   bool            // other tables inherit from it, whose rows its indexes do not cover; partitions are none
	secured bool            // row-level security holds for this role
	fills   bool            // a trigger has a say in new rows before they are checked
}

// column is one column of a table.
type column struct {
	name       string
	typ        string // what to cast a text to: the type without length or precision, because a cast to these cuts and rounds silently
	oid        uint32 // of that type
	elem       uint32 // of an array type: its elements' type
	mod        int32  // the length or precision, as pg_attribute.atttypmod; -1 for none
	shown      string // the type as people write it
	notNull    bool
	hasDefault bool
	identity   bool // makes its values itself unless it is told one
	always     bool // an identity that takes no other values
	counter    bool // draws its default from a sequence: an identity or a serial
	generated  bool
	text       bool // a type of texts, citext among them
	folds      bool // takes texts that are written differently for one: citext, char(n), a nondeterministic collation
}

// unique is a unique index.
type unique struct {
	name       string
	columns    []string // those that it covers plainly
	about      []string // all columns that it depends on, those of expressions and of the predicate too
	predicate  string   // of a partial index, as SQL; "" for all rows
	nulls      bool     // NULLS NOT DISTINCT
	immediate  bool     // not a deferrable constraint, which cannot be the arbiter of an upsert
	valid      bool     // not one that CREATE INDEX CONCURRENTLY has left unfinished
	expression bool     // over what is made of columns
}

// unfit says why an upsert cannot lean on the index; "" if it can.
func (u *unique) unfit(t *table) string {
	drop := pgx.Identifier{t.schema, u.name}.Sanitize()
	switch {
	case !u.valid:
		return fmt.Sprintf("the unique index %s of %s is invalid, as a CREATE INDEX CONCURRENTLY leaves it that has failed; DROP INDEX %s, take out the doubles, and create it again", u.name, t.tableName, drop)
	case u.expression:
		return fmt.Sprintf("the unique index %s of %s is over an expression, which an upsert by plain columns cannot use", u.name, t.tableName)
	case !u.immediate:
		return fmt.Sprintf("the unique constraint %s of %s is deferrable, which an upsert cannot use; make it NOT DEFERRABLE, or drop it", u.name, t.tableName)
	}
	return ""
}

// outside reports whether there can be rows of one key of which some are in the index and some are not, given columns that are the same, or empty, for
// all of them.
func (u *unique) outside(fixed ...string) bool {
	return u.predicate != "" && slices.ContainsFunc(u.about, func(c string) bool { return !slices.Contains(fixed, c) })
}

// reference is a foreign key.
type reference struct {
	columns []string
	target  uint32 // the referred table's oid
	to      []string
}

// missingTable is the error for a table that is not there, or not to be seen.
type missingTable struct{ tableName }

func (m missingTable) Error() string {
	return fmt.Sprintf("there is no table %s, or no right to see it; create it, or GRANT USAGE on its schema", m.tableName)
}

// loadTable reads the catalog. Privileges of single columns count as privileges here; a write that lacks one is refused by the server.
func loadTable(ctx context.Context, tx pgx.Tx, name tableName) (*table, error) {
	t := &table{tableName: name, columns: map[string]*column{}, may: map[string]bool{}}
	const find = `SELECT c.oid, c.relkind::text,
  has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT') OR has_any_column_privilege(c.oid, 'INSERT'),
  has_table_privilege(c.oid, 'UPDATE') OR has_any_column_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'),
  ARRAY(SELECT r.rulename::text FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3') AND r.ev_enabled <> 'D' ORDER BY 1),
  c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid), row_security_active(c.oid),
  EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7) -- each row, before, insert
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`
	var kind string
	var sel, ins, upd, del bool
	err := tx.QueryRow(ctx, find, name.schema, name.name).Scan(&t.oid, &kind, &sel, &ins, &upd, &del, &t.rules, &t.heirs, &t.secured, &t.fills)
	if err == pgx.ErrNoRows {
		return nil, missingTable{name}
	}
	if err != nil {
		return nil, err
	}
	t.kind = kind[0]
	t.may["SELECT"], t.may["INSERT"], t.may["UPDATE"], t.may["DELETE"] = sel, ins, upd, del
	for _, load := range []func(context.Context, pgx.Tx) error{t.loadColumns, t.loadUniques, t.loadReferences} {
		if err := load(ctx, tx); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// loadColumns reads the columns. A domain is followed to the type it is made of: a cast to the domain itself would cut texts to its length.
func (t *table) loadColumns(ctx context.Context, tx pgx.Tx) error {
	const sql = `WITH RECURSIVE cols AS (
  SELECT a.attnum, a.attname, a.attnotnull, a.atthasdef, a.attidentity <> '' AS ident, a.attidentity = 'a' AS always,
    a.attidentity <> '' OR EXISTS (SELECT FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%') AS counter,
    a.attgenerated <> '' AS gen, a.atttypid, a.atttypmod,
    EXISTS (SELECT FROM pg_catalog.pg_collation l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic) AS loose
  FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
), base AS (
  SELECT attnum, atttypid AS typ, atttypmod AS mod, 0 AS depth FROM cols
  UNION ALL
  SELECT b.attnum, y.typbasetype, CASE WHEN b.mod < 0 THEN y.typtypmod ELSE b.mod END, b.depth + 1
  FROM base b JOIN pg_catalog.pg_type y ON y.oid = b.typ WHERE y.typtype = 'd'
)
SELECT DISTINCT ON (c.attnum) c.attname::text, pg_catalog.format_type(b.typ, -1), b.typ, CASE WHEN y.typcategory = 'A' THEN y.typelem ELSE 0 END,
  b.mod, pg_catalog.format_type(c.atttypid, c.atttypmod), c.attnotnull, c.atthasdef, c.ident, c.always, c.counter, c.gen, y.typcategory = 'S',
  c.loose OR y.typname IN ('citext', 'bpchar')
FROM cols c JOIN base b USING (attnum) JOIN pg_catalog.pg_type y ON y.oid = b.typ ORDER BY c.attnum, b.depth DESC`
	rows, err := tx.Query(ctx, sql, t.oid)
	if err != nil {
		return err
	}
	t.order, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (*column, error) {
		c := &column{}
		return c, r.Scan(&c.name, &c.typ, &c.oid, &c.elem, &c.mod, &c.shown, &c.notNull, &c.hasDefault, &c.identity, &c.always, &c.counter, &c.generated, &c.text, &c.folds)
	})
	for _, c := range t.order {
		t.columns[c.name] = c
	}
	return err
}

// loadUniques reads the unique indexes, those of no use to an upsert too, so that it can be said why.
func (t *table) loadUniques(ctx context.Context, tx pgx.Tx) error {
	// The row as JSON hides that indnullsnotdistinct is only there since version 15. An index of a key WITHOUT OVERLAPS, as version 18 has them, calls itself
	// unique and is none of equal values.
	const sql = `SELECT c.relname::text, ARRAY(SELECT a.attname::text FROM generate_series(0, i.indnkeyatts - 1) k
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k] ORDER BY k),
  ARRAY(SELECT DISTINCT a.attname::text FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid
    AND d.refobjsubid > 0 ORDER BY 1),
  coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), ''), coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false), i.indimmediate, i.indisvalid, i.indexprs IS NOT NULL
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1 AND i.indisunique AND NOT i.indisexclusion ORDER BY i.indpred IS NOT NULL, c.relname`
	rows, err := tx.Query(ctx, sql, t.oid)
	if err != nil {
		return err
	}
	t.uniques, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (u unique, err error) {
		return u, r.Scan(&u.name, &u.columns, &u.about, &u.predicate, &u.nulls, &u.immediate, &u.valid, &u.expression)
	})
	return err
}

func (t *table) loadReferences(ctx context.Context, tx pgx.Tx) error {
	const sql = `SELECT f.confrelid,
  ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY k(n, o) JOIN pg_catalog.pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.n ORDER BY k.o),
  ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY k(n, o) JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.n ORDER BY k.o)
FROM pg_catalog.pg_constraint f WHERE f.conrelid = $1 AND f.contype = 'f' ORDER BY f.conname`
	rows, err := tx.Query(ctx, sql, t.oid)
	if err != nil {
		return err
	}
	t.refs, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (f reference, err error) {
		return f, r.Scan(&f.target, &f.columns, &f.to)
	})
	return err
}

// uniqueOver finds the index that makes columns unique, in whatever order it has them; one that holds for all rows before a partial one. near
// is one that would do but for something, or that is in the way, for the error.
func (t *table) uniqueOver(columns []string) (found, near *unique) {
	for i := range t.uniques {
		u := &t.uniques[i]
		switch {
		case !sameSet(u.columns, columns) && !(u.expression && sameSet(u.about, columns)):
		case u.unfit(t) == "":
			if found == nil {
				found = u
			}
		case u.valid && !u.expression:
			// An upsert names columns, not an index, and PostgreSQL takes a deferrable constraint over them into account, too.
			return nil, u
		case near == nil || near.expression:
			near = u
		}
	}
	return found, near
}

func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

// pick finds columns by name; its error names all that are missing.
func (t *table) pick(names []string) ([]*column, error) {
	var cs []*column
	var ps problems
	for _, n := range names {
		c := t.columns[n]
		if c == nil {
			ps.add(missingColumn{t.tableName, n})
			continue
		}
		cs = append(cs, c)
	}
	return cs, ps.err()
}

// missingColumn is the error for a column that the configuration names and the table lacks.
type missingColumn struct {
	tableName
	column string
}

func (m missingColumn) Error() string {
	return fmt.Sprintf("the table %s has no column %s; add it, or name another", m.tableName, m.column)
}
