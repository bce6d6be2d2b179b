package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
)

// entity is an entity of an open client.
type entity struct {
	db     *db
	name   string
	config *Entity
}

// Info describes the entity.
func (e *entity) Info() connectors.EntityInfo {
	return e.config.info(e.name, e.db.settings.StatementTimeout)
}

// plan holds the configuration against the catalog. fresh asks for a catalog that was read lately.
func (e *entity) plan(ctx context.Context, fresh bool) (*plan, error) {
	p, err := newPlan(e.config, func(n tableName) (*table, error) { return e.db.table(ctx, n, fresh) })
	if err == nil {
		return p, nil
	}
	var f *failure
	if errors.As(err, &f) {
		return nil, err
	}
	if !fresh {
		return e.plan(ctx, true)
	}
	return nil, &refusal{"configuration", fmt.Errorf("entity %s: %w", e.name, err)}
}

// forget has the catalog of all tables of the entity read again.
func (e *entity) forget() {
	texts := []string{e.config.Table}
	for _, c := range e.config.Children {
		texts = append(texts, c.Table)
	}
	for _, t := range texts {
		if n, err := parseTable(t); err == nil {
			e.db.forget(n)
		}
	}
}

// Upsert writes records in as few transactions as their shapes allow: records with the same fields share one statement. A record that the
// database refuses for its content is found by halving, so that it takes no other along.
func (e *entity) Upsert(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	out := make([]connectors.Outcome, len(ws))
	rows, p := e.prepare(ctx, ws, out)
	for i, w := range ws {
		if w.Removal != "" {
			out[i] = e.Remove(ctx, w)
		}
	}
	for len(rows) > 0 {
		shape := nextShape(rows)
		if err := e.upsert(ctx, p, rows[:shape], out); err != nil {
			// The catalog had changed since it was read: once more with the rows that are left.
			var left []connectors.Write
			for _, r := range rows {
				left = append(left, *r.w)
			}
			again := e.upsertOnce(ctx, left)
			for i, r := range rows {
				out[r.at] = again[i]
			}
			return out
		}
		rows = rows[shape:]
	}
	return out
}

// upsertOnce is Upsert without a second look at the catalog.
func (e *entity) upsertOnce(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	e.forget()
	out := make([]connectors.Outcome, len(ws))
	rows, p := e.prepare(ctx, ws, out)
	for len(rows) > 0 {
		shape := nextShape(rows)
		if err := e.upsert(ctx, p, rows[:shape], out); err != nil {
			setAll(rows[:shape], out, outcome(err))
		}
		rows = rows[shape:]
	}
	return out
}

// prepare makes rows of records, sorted by shape and key, and settles those that cannot be sent.
func (e *entity) prepare(ctx context.Context, ws []connectors.Write, out []connectors.Outcome) ([]*row, *plan) {
	p, err := e.plan(ctx, false)
	if err == nil && p.index == nil {
		err = refuse("configuration", "entity %s has unique: false, so it cannot be upserted; use strategy lookup", e.name)
	}
	if err != nil {
		for i := range ws {
			out[i] = outcome(err)
		}
		return nil, nil
	}
	rows, unfit := p.rows(ws, out)
	if unfit {
		// Perhaps the column is new.
		if fresh, err := e.plan(ctx, true); err == nil && fresh.index != nil && fresh.table != p.table {
			p = fresh
			rows, _ = p.rows(ws, out)
		}
	}
	return sorted(rows, out), p
}

// rows reads records, and settles those that cannot be sent. unfit says that one has a field of which the catalog knows nothing.
func (p *plan) rows(ws []connectors.Write, out []connectors.Outcome) (rows []*row, unfit bool) {
	for i := range ws {
		if ws[i].Removal != "" {
			continue
		}
		r, err := p.newRow(&ws[i], i)
		if err != nil {
			out[i] = outcome(err)
			unfit = unfit || isUnknown(err)
			continue
		}
		rows = append(rows, r)
	}
	return rows, unfit
}

func isUnknown(err error) bool {
	r, ok := err.(*refusal)
	return ok && r.code == unknown
}

// shape is a text that is the same for records that can share a statement.
func (r *row) shape() string {
	var b strings.Builder
	for _, c := range r.columns {
		b.WriteString(c.name)
		b.WriteByte(0)
	}
	return b.String()
}

// sorted orders rows by shape, then by the whole key, so that concurrent batches lock rows in one order; of two with the same key the newer one stays.
func sorted(rows []*row, out []connectors.Outcome) []*row {
	type keyed struct {
		*row
		shape, key string
	}
	ks := make([]keyed, len(rows))
	newest := make(map[string]*row, len(rows))
	for i, r := range rows {
		ks[i] = keyed{r, r.shape(), joined(r.key)}
		if old := newest[ks[i].key]; old == nil || old.w.Stamp.Compare(r.w.Stamp) <= 0 {
			newest[ks[i].key] = r
		}
	}
	slices.SortFunc(ks, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.shape, b.shape), cmp.Compare(a.key, b.key)) })
	kept := rows[:0:0]
	for _, k := range ks {
		switch n := newest[k.key]; {
		case n == k.row:
			kept = append(kept, k.row)
		case n.w.Key == k.w.Key:
			out[k.at] = connectors.Fail(connectors.Stale, "same_batch", "a newer state of the record is in the same batch")
		default:
			out[k.at] = connectors.Fail(connectors.Invalid, "same_row", "another record of the batch goes to the same row; the flow's key and the key columns must tell records apart alike")
		}
	}
	return kept
}

// nextShape counts the rows at the beginning that can share a statement.
func nextShape(rows []*row) int {
	first := rows[0].shape()
	for i, r := range rows {
		if i == maxBatch || r.shape() != first {
			return i
		}
	}
	return len(rows)
}

func setAll(rows []*row, out []connectors.Outcome, o connectors.Outcome) {
	for _, r := range rows {
		out[r.at] = o
	}
}

// upsert writes rows of one shape. Its error says that the catalog must be read again; all others become outcomes.
func (e *entity) upsert(ctx context.Context, p *plan, rows []*row, out []connectors.Outcome) error {
	var got []connectors.Outcome
	err := e.db.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		got, err = p.upsert(ctx, tx, rows)
		return err
	})
	switch {
	case err == nil:
		for i, r := range rows {
			out[r.at] = got[i]
		}
	case stale(err):
		return err
	case splits(err) && len(rows) > 1:
		half := len(rows) / 2
		if err := e.upsert(ctx, p, rows[:half], out); err != nil {
			return err
		}
		return e.upsert(ctx, p, rows[half:], out)
	default:
		setAll(rows, out, outcome(err))
	}
	return nil
}

// splits reports whether a failed batch may be saved by leaving a record out.
func splits(err error) bool {
	o := outcome(err)
	return o.Class == connectors.Invalid && isRow(strings.TrimPrefix(o.Code, "sqlstate_"))
}

// upsert writes rows of one shape, and their children, in a transaction.
func (p *plan) upsert(ctx context.Context, tx pgx.Tx, rows []*row) ([]connectors.Outcome, error) {
	sql, in := p.upsertSQL(rows)
	w, err := p.collect(ctx, tx, sql, in.args)
	if err != nil {
		return nil, err
	}
	out := make([]connectors.Outcome, len(rows))
	var written []parent
	var rest []int
	for i, r := range rows {
		texts := w.take(joined(r.key))
		if texts == nil {
			rest = append(rest, i)
			continue
		}
		out[i] = connectors.Outcome{Class: connectors.Applied, Link: p.linkJSON(w.pick(texts, p.link))}
		written = append(written, parent{r, w, texts})
	}
	if len(rest) > 0 {
		more, err := p.lookBack(ctx, tx, rows, rest, out)
		if err != nil {
			return nil, err
		}
		written = append(written, more...)
	}
	return out, p.writeChildren(ctx, tx, written)
}

// returned are rows that a statement gave back as texts, by their key.
type returned struct {
	columns []*column
	byKey   map[string][]string
}

// parent is a written record whose children are to be written, with its returned columns.
type parent struct {
	*row
	from  *returned
	texts []string
}

func (w *returned) take(key string) []string { return w.byKey[key] }

// pick finds columns among the returned ones.
func (w *returned) pick(texts []string, cs []*column) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = texts[slices.Index(w.columns, c)]
	}
	return out
}

// collect runs a statement that returns p.returned as texts.
func (p *plan) collect(ctx context.Context, tx pgx.Tx, sql string, args []any) (*returned, error) {
	w := &returned{columns: p.returned(), byKey: map[string][]string{}}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		texts := textRow(rows.RawValues())
		w.byKey[joinedTexts(texts[:len(p.key)])] = texts
	}
	return w, rows.Err()
}

// textRow copies a row of texts; NULL becomes "".
func textRow(raw [][]byte) []string {
	texts := make([]string, len(raw))
	for i, b := range raw {
		texts[i] = string(b)
	}
	return texts
}

func joinedTexts(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(t)
		b.WriteByte(0)
	}
	return b.String()
}

// lookBack finds out what became of rows that were not returned under the key that was sent: the guard refused them, there was nothing to
// update, or the column writes its values differently (10 for 010). It returns those that were written.
func (p *plan) lookBack(ctx context.Context, tx pgx.Tx, rows []*row, rest []int, out []connectors.Outcome) ([]parent, error) {
	some := make([]*row, len(rest))
	for i, at := range rest {
		some[i] = rows[at]
	}
	in := &input{}
	var key []string
	for i, c := range p.key {
		key = append(key, in.texts(c, gather(some, func(r *row) value { return r.key[i] })))
	}
	ord := in.numbers(each(rest, func(i int) int64 { return int64(i) }), "bigint")
	st := p.stamps(in, some)
	w := &returned{columns: p.returned()}
	order, same := p.standing(some, in, st)
	sql := fmt.Sprintf("SELECT DISTINCT ON (%[1]s) %[1]s::text, %[2]s, %[3]s, %[4]s FROM %[5]s JOIN %[6]s t ON %[7]s ORDER BY %[1]s, %[8]s DESC NULLS LAST",
		ord, order, same, asTexts("t.", w.columns), in.rows(), p.table.quoted(), equal("t.", p.key, key), p.newestFirst())
	got, err := tx.Query(ctx, sql, in.args...)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	found := map[string][]string{}
	for got.Next() {
		texts := textRow(got.RawValues())
		found[texts[0]] = texts[1:]
	}
	if err := got.Err(); err != nil {
		return nil, err
	}
	var written []parent
	for _, at := range rest {
		texts := found[fmt.Sprint(at)]
		if texts == nil {
			out[at] = notKept()
			continue
		}
		var accepted bool
		out[at], accepted = p.stood(rows[at], texts[0], texts[1] == "true")
		if out[at].Class.Confirmed() {
			out[at].Link = p.linkJSON(w.pick(texts[2:], p.link))
		}
		if accepted {
			written = append(written, parent{rows[at], w, texts[2:]})
		}
	}
	return written, nil
}

// standing compares the rows that stand with those that were sent: older, equal or newer; and whether the content is the same.
func (p *plan) standing(rows []*row, in *input, st stamped) (order, same string) {
	var eq []string
	for i, c := range rows[0].columns {
		eq = append(eq, sameValue(c, "t."+quote(c.name), in.texts(c, gather(rows, func(r *row) value { return r.values[i] }))))
	}
	same = "true::text"
	if len(eq) > 0 {
		same = "(" + strings.Join(eq, " AND ") + ")::text"
	}
	if p.version == nil {
		return "'none'::text", same
	}
	version, brought := "t."+quote(p.version.name), st.value(p.version)
	if p.epoch != nil {
		version, brought = fmt.Sprintf("(coalesce(t.%s, 0), %s)", quote(p.epoch.name), version), fmt.Sprintf("(%s, %s)", st.value(p.epoch), brought)
	}
	is := fmt.Sprintf("CASE WHEN t.%s IS NULL THEN 'older' WHEN %s > %s THEN 'newer' WHEN %s < %s THEN 'older'", quote(p.version.name), version, brought, version, brought)
	if p.observed != nil {
		has, new := fmt.Sprintf("coalesce(t.%s, '-infinity')", quote(p.observed.name)), st.value(p.observed)
		is += fmt.Sprintf(" WHEN %s > %s THEN 'later' WHEN %s < %s THEN 'older'", has, new, has, new)
	}
	return is + " ELSE 'equal' END", same
}

// newestFirst is what decides between several rows of one key, of which all but one are archived.
func (p *plan) newestFirst() string {
	var by []string
	for _, c := range []*column{p.epoch, p.version, p.observed} {
		if c != nil {
			by = append(by, "t."+quote(c.name))
		}
	}
	if len(by) == 0 {
		return "t." + quote(p.key[0].name)
	}
	return "(" + strings.Join(by, ", ") + ")"
}

// stood says what it means that a row stands as it does after a statement that did not return it. accepted says that the record was written, so that
// its children are next.
func (p *plan) stood(r *row, order string, same bool) (o connectors.Outcome, accepted bool) {
	switch {
	case order == "newer", order == "later" && !same:
		return connectors.Fail(connectors.Stale, "newer_in_target", "the row holds a newer state"), false
	case order == "later":
		return connectors.Outcome{Class: connectors.Unchanged}, false
	case order == "equal", order == "none" && p.updates(r):
		return connectors.Outcome{Class: connectors.Applied}, true
	case order == "none":
		return connectors.Outcome{Class: connectors.Unchanged}, true
	}
	return notKept(), false
}

// updates reports whether the upsert of a row changes one that is there.
func (p *plan) updates(r *row) bool { return len(r.columns) > 0 || p.version != nil || p.gone != nil }

func notKept() connectors.Outcome {
	return connectors.Fail(connectors.Invalid, "not_kept", "the database took the row and did not keep it: a trigger, a rule or row-level security is in the way")
}

// sameValue compares a column with a value of its type: as the texts that the server writes, which every type has and which are the same for
// the same value, except that numbers may have zeros at their end and that json keeps its blanks.
func sameValue(c *column, has, want string) string {
	switch c.oid {
	case pgtype.NumericOID:
		return fmt.Sprintf("%s IS NOT DISTINCT FROM %s", has, want)
	case pgtype.JSONOID:
		return fmt.Sprintf("%s::jsonb IS NOT DISTINCT FROM %s::jsonb", has, want)
	}
	return fmt.Sprintf("%s::text IS NOT DISTINCT FROM (%s)::text", has, want)
}
