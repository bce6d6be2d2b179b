package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// line is a child with the values that point at its record.
type line struct {
	parent []value
	childRow
}

// writeChildren writes the collections of records whose own rows were written just now, in the same transaction. Their rows are locked, so nobody
// else who goes by the record touches its children meanwhile.
func (p *plan) writeChildren(ctx context.Context, tx pgx.Tx, written []parent) error {
	for _, name := range slices.Sorted(maps.Keys(p.children)) {
		c := p.children[name]
		var with []parent
		for _, w := range written {
			if _, ok := w.children[name]; ok {
				with = append(with, w)
			}
		}
		if len(with) == 0 {
			continue
		}
		if err := c.write(ctx, tx, with); err != nil {
			return err
		}
	}
	return nil
}

func (c *childPlan) write(ctx context.Context, tx pgx.Tx, records []parent) error {
	parents := make([][]value, len(records))
	var lines []line
	for i, r := range records {
		for _, t := range r.from.pick(r.texts, c.to) {
			parents[i] = append(parents[i], value{text: t})
		}
		for _, cr := range r.children[c.name] {
			lines = append(lines, line{parents[i], cr})
		}
	}
	if c.replaces {
		sql, args := c.deleteSQL(records, parents)
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.shape(), b.shape()), cmp.Compare(joined(a.parent), joined(b.parent)), cmp.Compare(c.keyOf(a), c.keyOf(b)))
	})
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && n < maxChildren && lines[n].shape() == lines[0].shape() {
			n++
		}
		sql, args := c.insertSQL(lines[:n])
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (c *childPlan) keyOf(l line) string {
	if len(c.key) == 0 {
		return ""
	}
	return joined(l.values[:len(c.key)])
}

func (l line) shape() string { return strings.Join(names(l.columns), "\x00") }

// insertSQL creates lines of one shape or, where they have a key, updates those that are there.
func (c *childPlan) insertSQL(lines []line) (string, []any) {
	in := &input{}
	columns := slices.Clone(c.parent)
	var values []string
	for i, col := range c.parent {
		values = append(values, in.texts(col, gather(lines, func(l line) value { return l.parent[i] })))
	}
	var set []*column
	if c.index != nil && !slices.Contains(c.index.columns, c.parent[0].name) {
		set = slices.Clone(c.parent) // the key is unique without the record: a child can move to another one
	}
	for i, col := range lines[0].columns {
		columns = append(columns, col)
		values = append(values, in.texts(col, gather(lines, func(l line) value { return l.values[i] })))
		if i >= len(c.key) {
			set = append(set, col)
		}
	}
	sql := fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s", c.table.quoted(), quoteAll("", columns), strings.Join(values, ", "), in.rows())
	if c.index != nil {
		sql += onConflict(c.index, set)
	}
	return sql, in.args
}

// deleteSQL deletes the children of records that the records no longer have. Each record brings the keys of its children as arrays, so that a child is only compared
// with those of its own record, however many records there are.
func (c *childPlan) deleteSQL(records []parent, parents [][]value) (string, []any) {
	in := &input{}
	var outer []string
	for i, col := range c.parent {
		outer = append(outer, in.texts(col, gather(parents, func(p []value) value { return p[i] }))+fmt.Sprintf(" AS p%d", i))
	}
	var on, inner, same, args []string
	for i, col := range c.parent {
		on = append(on, fmt.Sprintf("t.%s = p.p%d", quote(col.name), i))
	}
	for i, col := range c.key {
		keys := gather(records, func(r parent) value { return arrayOf(r.children[c.name], i) })
		array := &column{typ: col.typ + "[]"}
		outer = append(outer, in.texts(array, keys)+fmt.Sprintf(" AS k%d", i))
		args = append(args, fmt.Sprintf("p.k%d", i))
		inner = append(inner, fmt.Sprintf("v%d", i))
		same = append(same, fmt.Sprintf("k.v%d = t.%s", i, quote(col.name)))
	}
	// OFFSET 0 has the texts cast once per record and not once per child.
	sql := fmt.Sprintf("DELETE FROM %s t USING (SELECT %s FROM %s OFFSET 0) p WHERE %s", c.table.quoted(), strings.Join(outer, ", "), in.rows(), strings.Join(on, " AND "))
	if len(c.key) > 0 {
		sql += fmt.Sprintf(" AND NOT EXISTS (SELECT FROM unnest(%s) AS k(%s) WHERE %s)", strings.Join(args, ", "), strings.Join(inner, ", "), strings.Join(same, " AND "))
	}
	return sql, in.args
}

// arrayOf is the i-th key column of children, as the text of an array.
func arrayOf(rows []childRow, i int) value {
	var b strings.Builder
	b.WriteByte('{')
	for n, r := range rows {
		if n > 0 {
			b.WriteByte(',')
		}
		quoteElement(&b, r.values[i].text)
	}
	b.WriteByte('}')
	return value{text: b.String()}
}

// deleteAll deletes the children of one record.
func (c *childPlan) deleteAll(ctx context.Context, tx pgx.Tx, parents []value) error {
	in := &input{}
	var vs []string
	for i, col := range c.parent {
		vs = append(vs, in.texts(col, parents[i:i+1]))
	}
	_, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s t USING %s WHERE %s", c.table.quoted(), in.rows(), equal("t.", c.parent, vs)), in.args...)
	return err
}

// sameChildren reports whether the table holds exactly the children of a record, for look-ups that ask whether a record is as desired.
func (c *childPlan) sameChildren(ctx context.Context, tx pgx.Tx, parents []value, rows []childRow) (bool, error) {
	if len(c.key) == 0 {
		return false, nil // without a key, which child is which cannot be told
	}
	var total, met int
	in := &input{}
	var vs []string
	for i, col := range c.parent {
		vs = append(vs, in.texts(col, parents[i:i+1]))
	}
	sql := fmt.Sprintf("SELECT count(*) FROM %s t, %s WHERE %s", c.table.quoted(), in.rows(), equal("t.", c.parent, vs))
	if err := tx.QueryRow(ctx, sql, in.args...).Scan(&total); err != nil {
		return false, err
	}
	if c.replaces && total != len(rows) {
		return false, nil
	}
	for len(rows) > 0 {
		shape := strings.Join(names(rows[0].columns), "\x00")
		n := 1
		for n < len(rows) && strings.Join(names(rows[n].columns), "\x00") == shape {
			n++
		}
		sql, args := c.countSame(parents, rows[:n])
		if err := tx.QueryRow(ctx, sql, args...).Scan(&met); err != nil || met != n {
			return false, err
		}
		rows = rows[n:]
	}
	return true, nil
}

func (c *childPlan) countSame(parents []value, rows []childRow) (string, []any) {
	in := &input{}
	var on []string
	for i, col := range c.parent {
		on = append(on, fmt.Sprintf("t.%s = %s", quote(col.name), in.texts(col, gather(rows, func(childRow) value { return parents[i] }))))
	}
	for i, col := range rows[0].columns {
		v := in.texts(col, gather(rows, func(r childRow) value { return r.values[i] }))
		if i < len(c.key) {
			on = append(on, fmt.Sprintf("t.%s = %s", quote(col.name), v))
		} else {
			on = append(on, sameValue(col, "t."+quote(col.name), v))
		}
	}
	return fmt.Sprintf("SELECT count(*) FROM %s t JOIN %s ON %s", c.table.quoted(), in.rows(), strings.Join(on, " AND ")), in.args
}
