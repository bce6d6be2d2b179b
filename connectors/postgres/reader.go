package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// reader is a stream's configuration held against the database's catalog.
type reader struct {
	table *table
	order order
	of    string

	version *column // what the stream is in the order of: a time, a number, or an xid8
	id      *column // decides between equal versions; nil where the version is an outbox's event number
	source  *column // the record's id
	changed *column // when the change happened; nil if version tells it, or nothing does
	deleted *column
	body    string  // the record as JSON, in SQL
	states  *column // outbox: what orders the events of a record; nil for the event's number
	event   *column // outbox: the event's number
}

// newReader resolves a stream.
func newReader(s *Stream, tables func(tableName) (*table, error)) (*reader, error) {
	t, err := namedTable(s.Table, tables)
	if err != nil {
		return nil, err
	}
	r := &reader{table: t}
	var ps problems
	for _, c := range []struct {
		name string
		to   **column
	}{{s.ID, &r.source}, {s.ChangedAt, &r.changed}, {s.Deleted, &r.deleted}} {
		if c.name == "" {
			continue
		}
		if *c.to = t.columns[c.name]; *c.to == nil {
			ps.add(missingColumn{t.tableName, c.name})
		}
	}
	if r.changed != nil && !isTime(r.changed) {
		ps.add(fmt.Errorf("changed_at: the column %s of %s is %s; it must be a timestamp", r.changed.name, t.tableName, r.changed.shown))
	}
	if s.Mode == modeOutbox {
		ps.add(r.outbox(s))
	} else {
		ps.add(r.poll(s))
	}
	columns, err := t.pick(s.Columns)
	ps.add(err)
	if err := ps.err(); err != nil {
		return r, err
	}
	if r.body == "" {
		r.body = "row_to_json(t)::text"
		if len(columns) > 0 {
			r.body = fmt.Sprintf("(SELECT row_to_json(r)::text FROM (SELECT %s) r)", quoteAll("t.", columns))
		}
	}
	r.of = fmt.Sprintf("%s by %s", t.tableName, r.version.name)
	if r.id != nil {
		r.of += ", " + r.id.name
	}
	return r, nil
}

// poll resolves a table whose rows change.
func (r *reader) poll(s *Stream) error {
	r.version, r.id = r.table.columns[s.Version], r.source
	if r.version == nil {
		return missingColumn{r.table.tableName, s.Version}
	}
	switch {
	case s.VersionAs == versionTime && isTime(r.version):
		r.order = byTime
	case s.VersionAs == versionNumber && isWhole(r.version):
		r.order = byNumber
	case s.VersionAs == versionTime:
		return fmt.Errorf("the column %s of %s is %s, and version_as says that it is a timestamp", r.version.name, r.table.tableName, r.version.shown)
	default:
		return fmt.Errorf("the column %s of %s is %s, and version_as says that it is a whole number", r.version.name, r.table.tableName, r.version.shown)
	}
	return nil
}

// outbox resolves a table of events.
func (r *reader) outbox(s *Stream) error {
	var ps problems
	find := func(name string) *column {
		c := r.table.columns[name]
		if c == nil {
			ps.add(missingColumn{r.table.tableName, name})
		}
		return c
	}
	r.event = find(s.Event)
	if body := find(s.Body); body != nil {
		r.body = "t." + quote(body.name) + "::text"
	}
	if s.Version != "" {
		if r.states = find(s.Version); r.states != nil && !isWhole(r.states) && !isTime(r.states) {
			ps.add(fmt.Errorf("version: the column %s of %s is %s; it must be a whole number or a timestamp", r.states.name, r.table.tableName, r.states.shown))
		}
	}
	r.order, r.version = byNumber, r.event
	needed := []*column{r.event}
	if r.event != nil && !isWhole(r.event) {
		ps.add(fmt.Errorf("event: the column %s of %s is %s; it must be a whole number", r.event.name, r.table.tableName, r.event.shown))
	}
	if s.XID != "" {
		x := find(s.XID)
		if x != nil && x.oid != pgtype.XID8OID {
			ps.add(fmt.Errorf("xid: the column %s of %s is %s; it must be xid8 with the default pg_current_xact_id()", x.name, r.table.tableName, x.shown))
		}
		r.order, r.version, r.id = byXID, x, r.event
		needed = append(needed, x)
	}
	for _, c := range needed {
		if c != nil && !c.notNull {
			ps.add(fmt.Errorf("the column %s of %s can be null, and an event without it would never be read; make it NOT NULL", c.name, r.table.tableName))
		}
	}
	return ps.err()
}

func isTime(c *column) bool { return c.oid == pgtype.TimestamptzOID || c.oid == pgtype.TimestampOID }

func isWhole(c *column) bool {
	return slices.Contains([]uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID}, c.oid)
}

// hasXmin reports whether rows tell which transaction wrote them.
func (r *reader) hasXmin() bool { return strings.IndexByte("rpm", r.table.kind) >= 0 }

// asTime is a column of times in SQL, as timestamptz; one without zone is in UTC.
func asTime(c *column) string {
	if c.oid == pgtype.TimestampOID {
		return "t." + quote(c.name) + " AT TIME ZONE 'UTC'"
	}
	return "t." + quote(c.name)
}

// query builds one statement with its parameters.
type query struct{ args []any }

func (q *query) add(arg any, typ string) string {
	q.args = append(q.args, arg)
	return fmt.Sprintf("$%d::%s", len(q.args), typ)
}

// place is a mark's version as a parameter of the column's type.
func (r *reader) place(q *query, v int64) string {
	switch r.order {
	case byTime:
		p := q.add(stampOf(v), "timestamptz")
		if r.version.oid == pgtype.TimestampOID {
			p = "(" + p + " AT TIME ZONE 'UTC')"
		}
		return p
	case byXID:
		return q.add(fmt.Sprint(v), "text") + "::xid8"
	}
	return q.add(v, "bigint")
}

func (r *reader) idPlace(q *query, id string) string { return q.add(id, "text") + "::" + r.id.typ }

// after is the condition for rows after a mark.
func (r *reader) after(q *query, m *mark) string {
	v := "t." + quote(r.version.name)
	switch {
	case m == nil:
		return v + " IS NOT NULL"
	case r.id == nil:
		return v + " > " + r.place(q, m.V)
	case m.ID == nil:
		return v + " >= " + r.place(q, m.V)
	}
	return fmt.Sprintf("(%s, t.%s) > (%s, %s)", v, quote(r.id.name), r.place(q, m.V), r.idPlace(q, *m.ID))
}

// sorted is the order of reading.
func (r *reader) sorted() string {
	s := "t." + quote(r.version.name)
	if r.id != nil {
		s += ", t." + quote(r.id.name)
	}
	return s
}

// columns selects what a row needs, in the order in which scan reads it. event says in SQL whether the row is an event; its body is only made then.
func (r *reader) columns(event string) string {
	version := "0::bigint, NULL::timestamptz"
	switch r.order {
	case byTime:
		version = "0::bigint, " + asTime(r.version)
	case byNumber:
		version = "coalesce(t." + quote(r.version.name) + ", 0)::bigint, NULL::timestamptz"
	case byXID:
		version = "t." + quote(r.version.name) + "::text::bigint, NULL::timestamptz"
	}
	id, changed, deleted, number, state := "NULL::text", "NULL::timestamptz", "false", "0::bigint", "NULL::timestamptz"
	if r.id != nil {
		id = "t." + quote(r.id.name) + "::text"
	}
	if r.changed != nil {
		changed = asTime(r.changed)
	}
	if r.deleted != nil {
		deleted = isGone(r.deleted)
	}
	given := "true"
	if r.event == nil {
		given = "t." + quote(r.version.name) + " IS NOT NULL"
	}
	switch {
	case r.states != nil && isTime(r.states):
		state = asTime(r.states)
	case r.states != nil:
		given = "t." + quote(r.states.name) + " IS NOT NULL"
		number = "coalesce(t." + quote(r.states.name) + ", 0)::bigint"
	case r.event != nil:
		number = "t." + quote(r.event.name) + "::bigint"
	}
	return strings.Join([]string{version, id, "t." + quote(r.source.name) + "::text", event, changed, deleted, number, state, given,
		fmt.Sprintf("CASE WHEN %s THEN %s END", event, r.body)}, ", ")
}

// isGone says in SQL whether a column marks a row as gone.
func isGone(c *column) string {
	n := "t." + quote(c.name)
	switch {
	case c.oid == pgtype.BoolOID:
		return "coalesce(" + n + ", false)"
	case isWhole(c):
		return "coalesce(" + n + " <> 0, false)"
	}
	return n + " IS NOT NULL"
}

// since drops earlier changes where the order itself does not.
func (r *reader) since(q *query, p *position) string {
	if p.From == nil || r.order == byTime || r.changed == nil {
		return ""
	}
	at := asTime(r.changed)
	return fmt.Sprintf(" AND (%s >= %s OR %s IS NULL)", at, q.add(stampOf(*p.From), "timestamptz"), at)
}

// page is the statement for the rows after p.At. Rows that an earlier round has given are found, so that the place moves on past them, but are no events.
func (r *reader) page(p *position, h *horizon, limit int) (string, []any) {
	q := &query{}
	event := "true"
	if p.Old != nil && r.order != byXID && r.hasXmin() && comparable(p.Xmin, h) {
		// A counter of 32 bits, as xmin is.
		event = fmt.Sprintf("(%s OR age(t.xmin) <= age(%s::xid))", r.after(q, p.Old), q.add(fmt.Sprint(uint32(p.Xmin)), "text"))
	}
	where := r.after(q, p.At) + r.since(q, p)
	if r.id != nil && !r.id.notNull {
		where += " AND t." + quote(r.id.name) + " IS NOT NULL" // those without are read with the rows without version
	}
	if r.order == byXID {
		// Any transaction that could still commit has this number or a greater one.
		where += " AND t." + quote(r.version.name) + " < " + r.place(q, h.xmin)
	}
	return fmt.Sprintf("SELECT %s FROM %s t WHERE %s ORDER BY %s LIMIT %d", r.columns(event), r.table.quoted(), where, r.sorted(), limit), q.args
}

// nulls is the statement for rows without a version, after an id.
func (r *reader) nulls(p *position, h *horizon, limit int) (string, []any) {
	q := &query{}
	event := "true"
	if r.hasXmin() && comparable(p.NullsXmin, h) {
		event = fmt.Sprintf("(age(t.xmin) <= age(%s::xid))", q.add(fmt.Sprint(uint32(p.NullsXmin)), "text"))
	}
	id := "t." + quote(r.id.name)
	where := id + " IS NOT NULL"
	if *p.Nulls != "" {
		where = id + " > " + r.idPlace(q, *p.Nulls)
	}
	return fmt.Sprintf("SELECT %s FROM %s t WHERE t.%s IS NULL AND %s%s ORDER BY %s LIMIT %d",
		r.columns(event), r.table.quoted(), quote(r.version.name), where, r.since(q, p), id, limit), q.args
}

// nameless is the statement for rows without an id, which can become no more than dead letters.
func (r *reader) nameless(h *horizon, since int64) (string, []any) {
	q := &query{}
	event := "true"
	if r.hasXmin() && comparable(since, h) {
		event = fmt.Sprintf("(age(t.xmin) <= age(%s::xid))", q.add(fmt.Sprint(uint32(since)), "text"))
	}
	return fmt.Sprintf("SELECT %s FROM %s t WHERE t.%s IS NULL AND %s LIMIT %d", r.columns("true"), r.table.quoted(), quote(r.id.name), event, maxNameless), q.args
}

// maxNameless bounds the rows without an id that are told of at once.
const maxNameless = 100

// one is the statement for the present state of a record.
func (r *reader) one(id value) (string, []any) {
	q := &query{}
	return fmt.Sprintf("SELECT %s FROM %s t WHERE t.%s = %s ORDER BY t.%s DESC NULLS LAST LIMIT 1",
		r.columns("true"), r.table.quoted(), quote(r.source.name), r.idPlace(q, id.text), quote(r.version.name)), q.args
}

// stampOf is a time from microseconds since 1970.
func stampOf(v int64) pgtype.Timestamptz {
	switch v {
	case minusInfinity:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case plusInfinity:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return pgtype.Timestamptz{Valid: true, Time: time.UnixMicro(v).UTC()}
}

// micros is the reverse of stampOf; valid is false for NULL.
func micros(t pgtype.Timestamptz) (v int64, valid bool) {
	switch {
	case !t.Valid:
		return 0, false
	case t.InfinityModifier == pgtype.Infinity:
		return plusInfinity, true
	case t.InfinityModifier == pgtype.NegativeInfinity:
		return minusInfinity, true
	}
	return t.Time.UnixMicro(), true
}
