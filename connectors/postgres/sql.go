package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// input collects the parameters of a statement over many rows: one array per column, of texts that are cast row by row. (Arrays of jsonb
// and the like are parsed by the server element by element at many times the cost.)
type input struct {
	args  []any
	casts []string // of unnest's arguments: $1::text[]
	names []string // of its result
}

// texts adds the column's values and returns how the statement calls them.
func (in *input) texts(c *column, vs []value) string {
	ps := make([]*string, len(vs))
	for i := range vs {
		if !vs[i].null {
			ps[i] = &vs[i].text
		}
	}
	return in.add(ps, "text[]", c.typ)
}

func (in *input) numbers(ns []int64, typ string) string { return in.add(ns, "bigint[]", typ) }

func (in *input) times(ts []time.Time) string { return in.add(ts, "timestamptz[]", "timestamptz") }

func (in *input) add(arg any, array, typ string) string {
	n := len(in.args) + 1
	in.args = append(in.args, arg)
	in.casts = append(in.casts, fmt.Sprintf("$%d::%s", n, array))
	// No column is called so, which leaves the names in an index's predicate with one meaning.
	in.names = append(in.names, fmt.Sprintf(`"syncd #%d"`, n))
	v := fmt.Sprintf(`u."syncd #%d"`, n)
	if array != typ+"[]" {
		v += "::" + typ
	}
	return v
}

// rows is the source of the rows in SQL.
func (in *input) rows() string {
	return fmt.Sprintf("unnest(%s) AS u(%s)", strings.Join(in.casts, ", "), strings.Join(in.names, ", "))
}

// gather collects one column of a list of rows.
func gather[T any](rows []T, f func(T) value) []value {
	vs := make([]value, len(rows))
	for i, r := range rows {
		vs[i] = f(r)
	}
	return vs
}

// equal compares columns with values, in one AND.
func equal(prefix string, cs []*column, values []string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(prefix + quote(c.name) + " = " + values[i])
	}
	return b.String()
}

// asTexts selects columns as texts.
func asTexts(prefix string, cs []*column) string {
	var parts []string
	for _, c := range cs {
		parts = append(parts, prefix+quote(c.name)+"::text")
	}
	return strings.Join(parts, ", ")
}

// stamped are our own columns with what they are set to, for rows in the order of the input.
type stamped struct {
	columns []*column
	values  []string
}

// stamps adds our own columns to the input: version, observed and epoch, as far as the entity has them.
func (p *plan) stamps(in *input, rows []*row) stamped {
	var s stamped
	if p.version != nil {
		s.columns = append(s.columns, p.version)
		s.values = append(s.values, in.numbers(each(rows, func(r *row) int64 { return r.w.Stamp.Version }), p.version.typ))
	}
	if p.observed != nil {
		s.columns = append(s.columns, p.observed)
		s.values = append(s.values, in.times(each(rows, func(r *row) time.Time { return observed(r.w.Stamp.Observed) })))
	}
	if p.epoch != nil {
		s.columns = append(s.columns, p.epoch)
		s.values = append(s.values, in.numbers(each(rows, func(r *row) int64 { return r.w.Stamp.Epoch }), p.epoch.typ))
	}
	return s
}

// observed is a time as the column keeps it, so that it compares as equal to itself.
func observed(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func each[T, R any](rows []T, f func(T) R) []R {
	out := make([]R, len(rows))
	for i, r := range rows {
		out[i] = f(r)
	}
	return out
}

// notNewer is the guard: a row under prefix is not newer than the stamp that the other one brings. A row that bears no version was not written by us, and is older.
func (p *plan) notNewer(prefix string, brings func(c *column) string) string {
	if p.version == nil {
		return ""
	}
	var has, new []string
	if p.epoch != nil {
		has, new = append(has, "coalesce("+prefix+quote(p.epoch.name)+", 0)"), append(new, brings(p.epoch))
	}
	has, new = append(has, prefix+quote(p.version.name)), append(new, brings(p.version))
	if p.observed != nil {
		has, new = append(has, "coalesce("+prefix+quote(p.observed.name)+", '-infinity')"), append(new, brings(p.observed))
	}
	return fmt.Sprintf("(%s%s IS NULL OR (%s) <= (%s))", prefix, quote(p.version.name), strings.Join(has, ", "), strings.Join(new, ", "))
}

func (s stamped) value(c *column) string { return s.values[slices.Index(s.columns, c)] }

// upsertSQL is the statement that writes rows of one shape. Rows that the guard refuses are not returned.
func (p *plan) upsertSQL(rows []*row) (string, *input) {
	in := &input{}
	var key []string
	for i, c := range p.key {
		key = append(key, in.texts(c, gather(rows, func(r *row) value { return r.key[i] })))
	}
	columns, values := slices.Clone(p.key), slices.Clone(key)
	var set []*column
	for i, c := range rows[0].columns {
		columns, values, set = append(columns, c), append(values, in.texts(c, gather(rows, func(r *row) value { return r.values[i] }))), append(set, c)
	}
	st := p.stamps(in, rows)
	columns, values, set = append(columns, st.columns...), append(values, st.values...), append(set, st.columns...)
	if p.gone != nil && !slices.Contains(columns, p.gone) {
		// The row lives: excluded holds the column's default.
		set = append(set, p.gone)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s AS t (%s) SELECT %s FROM %s", p.table.quoted(), quoteAll("", columns), strings.Join(values, ", "), in.rows())
	if p.index.predicate != "" && p.version != nil {
		// A newer state may lie outside the partial index, archived: the guard below would never see it.
		fmt.Fprintf(&b, " WHERE NOT EXISTS (SELECT FROM %s o WHERE %s AND NOT %s)", p.table.quoted(), equal("o.", p.key, key), p.notNewer("o.", st.value))
	}
	b.WriteString(onConflict(p.index, set))
	if guard := p.notNewer("t.", func(c *column) string { return "excluded." + quote(c.name) }); guard != "" && len(set) > 0 {
		b.WriteString(" WHERE " + guard)
	}
	b.WriteString(p.returning())
	return b.String(), in
}

// returning gives back p.returned of a row that was written, and last whether the unique index keeps it the only one of its key.
func (p *plan) returning() string {
	return " RETURNING " + asTexts("t.", p.returned()) + ", " + p.place()
}

// Places of a row that was written, in regard to a partial unique index.
const (
	within  = "within"
	outside = "outside" // where the index forbids no double
	beside  = "beside"  // within, beside a row outside that is no archived one
)

// place says in SQL where a row t stands in regard to the unique index.
func (p *plan) place() string {
	var key []string
	for _, c := range p.key {
		key = append(key, "t."+quote(c.name))
	}
	if p.index == nil || !p.index.outside(names(p.key)...) {
		return literal(within)
	}
	// The predicate comes from the catalog, and names its columns as they are: inside the subquery they are those of o.
	return fmt.Sprintf("CASE WHEN (%[1]s) IS NOT TRUE THEN %[2]s WHEN EXISTS (SELECT FROM %[3]s o WHERE %[4]s AND (%[1]s) IS NOT TRUE AND NOT %[5]s) THEN %[6]s ELSE %[7]s END",
		p.index.predicate, literal(outside), p.table.quoted(), equal("o.", p.key, key), p.archived("o."), literal(beside), literal(within))
}

// onConflict updates the row that is there already. The index's predicate is copied from the catalog: a parameter in it would fit no
// index once the server has made a generic plan.
func onConflict(u *unique, set []*column) string {
	var b strings.Builder
	b.WriteString(" ON CONFLICT (")
	for i, c := range u.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(c))
	}
	b.WriteString(")")
	if u.predicate != "" {
		b.WriteString(" WHERE " + u.predicate)
	}
	if len(set) == 0 {
		b.WriteString(" DO NOTHING")
		return b.String()
	}
	b.WriteString(" DO UPDATE SET ")
	for i, c := range set {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(c.name) + " = excluded." + quote(c.name))
	}
	return b.String()
}
