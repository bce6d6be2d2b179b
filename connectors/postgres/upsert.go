package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

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

// plan holds the configuration against the catalog. fresh asks for the catalog to be read now.
func (e *entity) plan(ctx context.Context, fresh bool) (*plan, error) {
	p, err := newPlan(e.config, func(n tableName) (*table, error) { return e.db.table(ctx, n, fresh) })
	if err == nil {
		p.fresh = fresh
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
	rows, p := e.prepare(ctx, ws, out, false)
	for i, w := range ws {
		if w.Removal != "" {
			out[i] = e.Remove(ctx, w)
		}
	}
	for len(rows) > 0 {
		shape := nextShape(rows)
		if err := e.upsert(ctx, p, rows[:shape], out); err != nil {
			// The catalog may have changed since it was read: once more with the rows that are left.
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
	out := make([]connectors.Outcome, len(ws))
	rows, p := e.prepare(ctx, ws, out, true)
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
func (e *entity) prepare(ctx context.Context, ws []connectors.Write, out []connectors.Outcome, fresh bool) ([]*row, *plan) {
	p, err := e.plan(ctx, fresh)
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
	if unfit && !p.fresh {
		// Perhaps the column is new, or wider than it was.
		if fresh, err := e.plan(ctx, true); err == nil && fresh.index != nil {
			p = fresh
			rows, _ = p.rows(ws, out)
		}
	}
	return sorted(rows, out), p
}

// rows reads records, and settles those that cannot be sent. unfit says that one does not fit the catalog.
func (p *plan) rows(ws []connectors.Write, out []connectors.Outcome) (rows []*row, unfit bool) {
	for i := range ws {
		if ws[i].Removal != "" {
			continue
		}
		r, err := p.newRow(&ws[i], i)
		if err != nil {
			out[i] = outcome(err)
			unfit = true
			continue
		}
		rows = append(rows, r)
	}
	return rows, unfit
}

// unconfirmed reports whether an error is a refusal for what a catalog says that was not read for this plan.
func (p *plan) unconfirmed(err error) bool {
	var r *refusal
	var back takenBack
	return p != nil && !p.fresh && (errors.As(err, &r) || errors.As(err, &back))
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
	first, bytes := rows[0].shape(), 0
	for i, r := range rows {
		bytes += len(r.w.Body)
		if i > 0 && (i == maxBatch || bytes > maxBatchBytes || r.shape() != first) {
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
	var some takenBack
	switch {
	case err == nil:
		for i, r := range rows {
			out[r.at] = got[i]
		}
	case stale(err), p.unconfirmed(err):
		return err
	case errors.As(err, &some):
		var left []*row
		for _, r := range rows {
			if why := some[r]; why != nil {
				out[r.at] = outcome(why)
				continue
			}
			left = append(left, r)
		}
		if len(left) > 0 {
			return e.upsert(ctx, p, left, out)
		}
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

// takenBack are rows for which a transaction was rolled back, and why. The others of it can be written without them.
type takenBack map[*row]error

func (t takenBack) Error() string {
	for _, err := range t {
		return err.Error()
	}
	return ""
}

// splits reports whether a failed batch may be saved by leaving a record out.
func splits(err error) bool {
	o := outcome(err)
	return o.Class == connectors.Invalid && (isRow(err) || isSecured(err) || isEncoding(err))
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
	back := takenBack{}
	for i, r := range rows {
		texts := w.take(joined(r.key))
		if texts == nil {
			rest = append(rest, i)
			continue
		}
		if why := p.amiss(r, texts); why != nil {
			back[r] = why
			continue
		}
		out[i] = connectors.Outcome{Class: connectors.Applied, Link: p.linkJSON(w.pick(texts, p.link))}
		written = append(written, parent{r, w, texts})
	}
	if len(rest) > 0 {
		more, err := p.lookBack(ctx, tx, rows, rest, w, out, back)
		if err != nil {
			return nil, err
		}
		written = append(written, more...)
	}
	if len(back) > 0 {
		return nil, back
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

// collect runs a statement that returns p.returned as texts, and perhaps its place after them.
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
