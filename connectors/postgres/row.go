package postgres

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/text/unicode/norm"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/internal/jsonscan"
)

// maxChildren bounds the children of one record in one collection.
const maxChildren = 10_000

// row is a record ready to be written.
type row struct {
	w   *connectors.Write
	at  int     // its place in the batch
	key []value // of the key columns
	// columns and values are what the record sets, besides the key and our own columns, in the order of the table.
	columns  []*column
	values   []value
	children map[string][]childRow
}

// childRow is one child; its key columns' values come first in values.
type childRow struct {
	columns []*column
	values  []value
}

// newRow reads a record. Its error is a *refusal.
func (p *plan) newRow(w *connectors.Write, at int) (*row, error) {
	if err := p.comparable(w); err != nil {
		return nil, err
	}
	r := &row{w: w, at: at}
	set := map[*column]value{}
	err := jsonscan.Object(w.Body, func(k, raw []byte) error {
		if c := p.children[string(k)]; c != nil {
			return r.addChildren(c, raw)
		}
		c := p.fields[string(k)]
		if c == nil {
			return unknownField(p.table, string(k), p.fields)
		}
		return put(set, string(k), c, slices.Contains(p.key, c), raw)
	})
	if err != nil {
		return nil, refused(err)
	}
	if r.key, err = p.keyOf(w, set); err != nil {
		return nil, err
	}
	for _, c := range p.key {
		delete(set, c)
	}
	r.columns, r.values = inOrder(p.table, set)
	return r, nil
}

// comparable refuses a state of a source that has begun anew where the row could not tell: its versions start again, and the guard would take them
// all for older ones.
func (p *plan) comparable(w *connectors.Write) error {
	if w.Stamp.Epoch != 0 && p.version != nil && p.epoch == nil {
		return refuse("no_epoch_column", "the source has begun anew, and the table %s cannot tell its new versions from the old ones; add a bigint column and name it in source_epoch", p.table.tableName)
	}
	return nil
}

func refused(err error) error {
	if _, ok := err.(*refusal); ok {
		return err
	}
	return refuse("not_an_object", "the record is not a JSON object: %v", err)
}

// put converts one field. The values of a serial number are the database's, unless it is the key.
func put(set map[*column]value, name string, c *column, key bool, raw []byte) error {
	if c.generated || c.always || c.identity && !key {
		return refuse("generated_column", "field %q: the database makes the values of the column %s itself; take the field out of the mapping", name, c.name)
	}
	if _, twice := set[c]; twice {
		return refuse("field_twice", "field %q: the column %s is set twice", name, c.name)
	}
	v, err := c.convert(raw)
	if err != nil {
		return refuse("bad_value", "field %q %w (column %s, %s)", name, err, c.name, c.shown)
	}
	set[c] = v
	return nil
}

// unknown marks a refusal that a fresh look at the catalog may lift.
const unknown = "unknown_field"

func unknownField(t *table, name string, known map[string]*column) error {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	hint := ""
	if n := field.Nearest(name, names); n != "" {
		hint = "; did you mean " + n + "?"
	}
	return refuse(unknown, "field %q: the table %s has no such column%s", name, t.tableName, hint)
}

// inOrder lists columns and values as the table has them, so that records with the same fields share one statement.
func inOrder(t *table, set map[*column]value) (cs []*column, vs []value) {
	cs, vs = make([]*column, 0, len(set)), make([]value, 0, len(set))
	for _, c := range t.order {
		if v, ok := set[c]; ok {
			cs, vs = append(cs, c), append(vs, v)
		}
	}
	return cs, vs
}

// keyOf finds the values of the key columns: the flow's key for a single one; for several the elements of the flow's key if that is a
// JSON array of as many, or else the record's fields. set may be nil.
func (p *plan) keyOf(w *connectors.Write, set map[*column]value) ([]value, error) {
	var parts [][]byte
	if len(p.key) == 1 {
		parts = [][]byte{jsonscan.AppendQuoted(nil, w.Key)}
	} else {
		parts = elements([]byte(w.Key), len(p.key))
	}
	vs := make([]value, len(p.key))
	for i, c := range p.key {
		own, given := set[c]
		if parts == nil {
			if !given || own.null {
				return nil, refuse("no_key", "the key column %s has no value: give it as a field, or make the flow's key a JSON array of the values of %s", c.name, list(names(p.key)))
			}
			vs[i] = own
			continue
		}
		v, err := c.convert(parts[i])
		if err != nil {
			return nil, refuse("bad_key", "the record's key %w (column %s, %s)", err, c.name, c.shown)
		}
		if v.null || v.text == "" {
			return nil, refuse("no_key", "the key column %s would be null or empty", c.name)
		}
		if t, _ := jsonscan.Scalar(parts[i]); !plainKey(c, t, v.text) {
			return nil, refuse("key_spelling", "the record's key is written in one of several ways that the column %s (%s) takes for the same; write numbers without needless zeros, signs and exponents, "+
				"times in UTC as 2026-11-29T10:00:00Z, and UUIDs in small letters", c.name, c.shown)
		}
		if given && normal(own.text) != normal(v.text) {
			return nil, refuse("key_differs", "the record's field for the key column %s differs from the flow's key; take the field out, or make the key from it", c.name)
		}
		vs[i] = v
	}
	return vs, nil
}

// plainKey reports whether a key is written as its column would, where the column takes several texts for one value: 010 and 10 would be two records of
// the source in one row. Types that we do not convert are left to the unique index.
func plainKey(c *column, given, converted string) bool {
	switch c.oid {
	case pgtype.NumericOID, pgtype.Float4OID, pgtype.Float8OID:
		d, ok := parseDecimal(given)
		return ok && d.trim().String() == given
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.BoolOID, pgtype.TimestamptzOID, pgtype.TimestampOID, pgtype.DateOID, pgtype.UUIDOID:
		return given == converted
	}
	return true
}

// elements are the scalars of a JSON array of n, or nil for any other text.
func elements(text []byte, n int) [][]byte {
	var parts [][]byte
	err := jsonscan.Array(text, func(v []byte) error {
		parts = append(parts, v)
		return nil
	})
	if err != nil || len(parts) != n {
		return nil
	}
	for _, v := range parts {
		if k := jsonscan.Kind(v); k == '{' || k == '[' {
			return nil
		}
	}
	return parts
}

// normal is the form in which a key and a field that it was made from are the same text.
func normal(s string) string { return norm.NFC.String(strings.TrimFunc(s, unicode.IsSpace)) }

func names(cs []*column) []string {
	var ns []string
	for _, c := range cs {
		ns = append(ns, c.name)
	}
	return ns
}

// addChildren reads one collection.
func (r *row) addChildren(c *childPlan, raw []byte) error {
	if _, twice := r.children[c.name]; twice {
		return refuse("field_twice", "field %q is there twice", c.name)
	}
	if r.children == nil {
		r.children = map[string][]childRow{}
	}
	rows := []childRow{}
	if jsonscan.Kind(raw) != 'n' {
		if jsonscan.Kind(raw) != '[' {
			return refuse("bad_children", "field %q is not an array", c.name)
		}
		err := jsonscan.Array(raw, func(v []byte) error {
			if len(rows) == maxChildren {
				return refuse("too_many_children", "field %q has more than %d elements", c.name, maxChildren)
			}
			cr, err := c.newRow(v)
			if err != nil {
				return refuse(refusalCode(err), "element %d of %w", len(rows), err)
			}
			rows = append(rows, cr)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := c.distinct(rows); err != nil {
		return err
	}
	r.children[c.name] = rows
	return nil
}

func refusalCode(err error) string {
	if r, ok := err.(*refusal); ok {
		return r.code
	}
	return "bad_children"
}

// newRow reads one child.
func (c *childPlan) newRow(raw []byte) (childRow, error) {
	if jsonscan.Kind(raw) != '{' {
		return childRow{}, refuse("bad_children", "%q is not an object", c.name)
	}
	set := map[*column]value{}
	err := jsonscan.Object(raw, func(k, v []byte) error {
		col := c.fields[string(k)]
		if col == nil {
			return unknownField(c.table, string(k), c.fields)
		}
		if slices.Contains(c.parent, col) {
			return refuse("bad_children", "field %q: the column %s is set to point at the record; take the field out", k, col.name)
		}
		return put(set, string(k), col, slices.Contains(c.key, col), v)
	})
	if err != nil {
		return childRow{}, refuse(refusalCode(err), "%q: %w", c.name, err)
	}
	var cr childRow
	for _, k := range c.key {
		v, ok := set[k]
		if !ok || v.null {
			return childRow{}, refuse("no_key", "%q: the key column %s has no value", c.name, k.name)
		}
		cr.columns, cr.values = append(cr.columns, k), append(cr.values, v)
		delete(set, k)
	}
	cs, vs := inOrder(c.table, set)
	cr.columns, cr.values = append(cr.columns, cs...), append(cr.values, vs...)
	return cr, nil
}

// distinct refuses two children with one key: which of them counts could not be told.
func (c *childPlan) distinct(rows []childRow) error {
	if len(c.key) == 0 || len(rows) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(rows))
	for _, r := range rows {
		k := joined(r.values[:len(c.key)])
		if seen[k] {
			return refuse("children_twice", "field %q has two elements with the same %s", c.name, list(names(c.key)))
		}
		seen[k] = true
	}
	return nil
}

// joined is a text by which lists of values are compared and sorted. No value holds the character between.
func joined(vs []value) string {
	if len(vs) == 1 {
		return vs[0].text
	}
	var b strings.Builder
	for _, v := range vs {
		b.WriteString(v.text)
		b.WriteByte(0)
	}
	return b.String()
}

// scalarJSON is a returned text as a JSON scalar: numbers of numeric columns as they are, all else as a text.
func scalarJSON(c *column, text string) string {
	if isNumber(c) {
		if _, ok := parseDecimal(text); ok {
			return text
		}
	}
	return string(jsonscan.AppendQuoted(nil, text))
}

// linkJSON is a row's link: its column as a JSON scalar, or for several a text that holds a JSON array.
func (p *plan) linkJSON(texts []string) string {
	if len(p.link) == 1 {
		return scalarJSON(p.link[0], texts[0])
	}
	b := []byte{'['}
	for i, c := range p.link {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, scalarJSON(c, texts[i])...)
	}
	return string(jsonscan.AppendQuoted(nil, string(append(b, ']'))))
}

// linkValues are the values of the link columns that a link stands for.
func (p *plan) linkValues(link string) ([]value, error) {
	raw := json.RawMessage(link)
	if jsonscan.Valid(raw) != nil {
		return nil, refuse("bad_link", "the link is not JSON")
	}
	parts := [][]byte{raw}
	if len(p.link) > 1 {
		text, _ := jsonscan.Scalar(raw)
		if parts = elements([]byte(text), len(p.link)); parts == nil {
			return nil, refuse("bad_link", "the link does not fit the columns %s", list(names(p.link)))
		}
	}
	vs := make([]value, len(parts))
	for i, c := range p.link {
		v, err := c.convert(parts[i])
		if err != nil || v.null {
			return nil, refuse("bad_link", "the link does not fit the column %s (%s)", c.name, c.shown)
		}
		vs[i] = v
	}
	return vs, nil
}
