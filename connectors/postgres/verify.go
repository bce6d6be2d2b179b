package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/internal/jsonscan"
)

// Verify holds records against the catalog: names, types, lengths, the key, and columns that must have a value. Types whose texts only the server can read it
// is asked to read, in transactions that write nothing.
func (e *entity) Verify(ctx context.Context, ts []connectors.Trial) ([][]error, error) {
	p, err := e.plan(ctx, true)
	if err != nil {
		return nil, e.db.asError("verify "+e.name, err)
	}
	out := make([][]error, len(ts))
	for i := range ts {
		v := &verification{plan: p, set: map[*column]value{}}
		v.record(&ts[i])
		if err := v.cast(ctx, e.db); err != nil {
			return nil, e.db.asError("verify "+e.name, err)
		}
		out[i] = v.problems
	}
	return out, nil
}

func (d *db) asError(op string, err error) error {
	return &connectors.Error{Outcome: outcome(err), Op: op, Err: err}
}

// verification gathers what is wrong with one record.
type verification struct {
	plan     *plan
	set      map[*column]value
	problems []error
}

// add takes what a write would be refused for.
func (v *verification) add(err error) {
	if err != nil {
		v.problems = append(v.problems, err)
	}
}

func (v *verification) record(t *connectors.Trial) {
	p := v.plan
	err := jsonscan.Object(t.Body, func(k, raw []byte) error {
		c := p.children[string(k)]
		if c != nil {
			r := &row{}
			if err := r.addChildren(c, raw); err != nil {
				v.add(err)
			}
			v.children(c, r.children[c.name])
			return nil
		}
		v.field(string(k), raw)
		return nil
	})
	if err != nil {
		v.add(refused(err))
		return
	}
	linked := map[*column]bool{}
	for _, name := range t.Linked {
		switch c := p.fields[name]; {
		case c != nil:
			linked[c] = true
		case p.children[name] == nil:
			v.add(unknownField(p.table, name, p.fields))
		}
	}
	if !slices.ContainsFunc(p.key, func(c *column) bool { return linked[c] }) {
		_, err = p.keyOf(&t.Write, v.set)
		v.add(err)
	}
	given := func(c *column) bool {
		_, ok := v.set[c]
		return ok || linked[c] || slices.Contains(p.key, c) || slices.Contains([]*column{p.version, p.observed, p.epoch}, c)
	}
	v.add(lacking(p.table, given))
}

// field takes one field of the record.
func (v *verification) field(name string, raw []byte) {
	p := v.plan
	c := p.fields[name]
	if c == nil {
		v.add(unknownField(p.table, name, p.fields))
		return
	}
	if err := put(v.set, name, c, slices.Contains(p.key, c), raw); err != nil {
		v.set[c] = value{null: true} // it is there, if wrong
		v.add(err)
		return
	}
	if v.set[c].null && c.notNull && !slices.Contains(p.key, c) && !p.table.fills {
		v.add(fmt.Errorf("field %q: it is null, and the column %s of %s must have a value", name, c.name, p.table.tableName))
	}
}

func (v *verification) children(c *childPlan, rows []childRow) {
	for _, r := range rows {
		err := lacking(c.table, func(col *column) bool { return slices.Contains(r.columns, col) || slices.Contains(c.parent, col) })
		if err != nil {
			v.add(fmt.Errorf("%q: %w", c.name, err))
			return
		}
	}
}

// lacking names the columns that a new row would lack. A trigger may fill them, which nobody can see from outside.
func lacking(t *table, given func(*column) bool) error {
	if t.fills {
		return nil
	}
	var names []string
	for _, c := range t.order {
		if c.notNull && !c.hasDefault && !c.identity && !c.generated && !given(c) {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("the %s %s of %s must have a value and %s no default, and the record has none for %s; add %s to the mapping, or give the table a default",
		plural(len(names), "column"), list(names), t.tableName, map[bool]string{true: "has", false: "have"}[len(names) == 1], them(names), them(names))
}

func them(names []string) string {
	if len(names) == 1 {
		return "it"
	}
	return "them"
}

// cast has the server read the texts of types that we do not know.
func (v *verification) cast(ctx context.Context, d *db) error {
	for _, c := range v.plan.table.order {
		val, ok := v.set[c]
		if !ok || val.null || known(c) {
			continue
		}
		in := &input{}
		sql := "SELECT " + in.texts(c, []value{val}) + " IS NULL FROM " + in.rows()
		err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, in.args...)
			return err
		})
		if err == nil {
			continue
		}
		switch o := outcome(err); {
		case o.Class == connectors.Invalid && isRow(err):
			v.add(errors.New(o.Message + fmt.Sprintf(" (column %s, %s)", c.name, c.shown)))
		default:
			return err
		}
	}
	return nil
}

// known reports whether scalar has checked what a column takes, or it takes any text.
func known(c *column) bool {
	switch c.oid {
	case pgtype.JSONOID, pgtype.JSONBOID, pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.NumericOID, pgtype.Float4OID, pgtype.Float8OID,
		pgtype.BoolOID, pgtype.TimestamptzOID, pgtype.TimestampOID, pgtype.DateOID, pgtype.UUIDOID:
		return true
	}
	return c.text && c.elem == 0
}
