package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/connectors"
)

// one prepares a single record and runs f on it in a transaction; once more when the catalog turns out to have changed.
func (e *entity) one(ctx context.Context, w *connectors.Write, f func(ctx context.Context, tx pgx.Tx, p *plan, r *row) (connectors.Outcome, error)) connectors.Outcome {
	var out connectors.Outcome
	for again := false; ; again = true {
		p, err := e.plan(ctx, again)
		var r *row
		if err == nil {
			r, err = e.oneRow(p, w)
		}
		if err == nil {
			err = e.db.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				out, err = f(ctx, tx, p, r)
				return err
			})
		}
		if err == nil {
			return out
		}
		if again || !stale(err) && !p.unconfirmed(err) {
			return e.failed(p, w, err)
		}
		e.forget()
	}
}

// oneRow reads the record.
func (e *entity) oneRow(p *plan, w *connectors.Write) (*row, error) {
	if w.Body == nil {
		r, err := &row{w: w}, p.comparable(w)
		if w.Link == "" && err == nil {
			r.key, err = p.keyOf(w, nil)
		}
		return r, err
	}
	return p.newRow(w, 0)
}

// failed words the failure of a single record's write.
func (e *entity) failed(p *plan, w *connectors.Write, err error) connectors.Outcome {
	o := outcome(err)
	var pe *pgconn.PgError
	if o.Class != connectors.Invalid || !errors.As(err, &pe) || pe.Code != "23505" || p == nil {
		return o
	}
	if w.Link != "" && p.index != nil && pe.ConstraintName == p.index.name {
		o.Class, o.Code, o.Message = connectors.Waiting, "key_taken", "another row still has this key"
		o.WaitEntity, o.WaitKey = e.name, w.Key
	}
	return o
}

// Create inserts a record. A refusal by any unique index may mean that the record is there.
func (e *entity) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	w.Link = ""
	o := e.one(ctx, &w, func(ctx context.Context, tx pgx.Tx, p *plan, r *row) (connectors.Outcome, error) {
		sql, in := p.insertSQL(r)
		got, err := p.collect(ctx, tx, sql, in.args)
		if err != nil {
			return connectors.Outcome{}, err
		}
		for _, texts := range got.byKey {
			if why := p.amiss(r, texts); why != nil {
				return connectors.Outcome{}, why
			}
			o := connectors.Outcome{Class: connectors.Applied, Link: p.linkJSON(got.pick(texts, p.link))}
			return o, p.writeChildren(ctx, tx, []parent{{r, got, texts}})
		}
		return connectors.Outcome{}, errNotKept
	})
	o.MaybeDuplicate = o.Code == "sqlstate_23505"
	return o
}

// insertSQL is an insert of one record.
func (p *plan) insertSQL(r *row) (string, *input) {
	in := &input{}
	rows := []*row{r}
	columns := slices.Clone(p.key)
	var values []string
	for i, c := range p.key {
		values = append(values, in.texts(c, r.key[i:i+1]))
	}
	for i, c := range r.columns {
		columns, values = append(columns, c), append(values, in.texts(c, r.values[i:i+1]))
	}
	st := p.stamps(in, rows)
	columns, values = append(columns, st.columns...), append(values, st.values...)
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s%s",
		p.table.quoted(), quoteAll("", columns), strings.Join(values, ", "), in.rows(), p.returning()), in
}

// where finds a record by its link or, without one, by its key.
func (p *plan) where(in *input, r *row) (string, error) {
	cs, vs := p.key, r.key
	if r.w.Link != "" {
		var err error
		if vs, err = p.linkValues(r.w.Link); err != nil {
			return "", err
		}
		cs = p.link
	}
	var texts []string
	for i, c := range cs {
		texts = append(texts, in.texts(c, vs[i:i+1]))
	}
	return equal("t.", cs, texts) + p.inIndex(cs), nil
}

// inIndex leaves out of the rows found by key those that are archived and outside a partial unique index: they are the record's past.
func (p *plan) inIndex(cs []*column) string {
	if p.index == nil || !p.index.outside(names(p.key)...) || !slices.Equal(cs, p.key) {
		return ""
	}
	return " AND ((" + p.index.predicate + ") OR NOT " + p.archived("t.") + ")"
}

// Update brings a record to its fields, and gives it its key where the row is called by something else.
func (e *entity) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	if w.Link == "" {
		return connectors.Fail(connectors.Invalid, "no_link", "an update needs the link of the row")
	}
	return e.one(ctx, &w, func(ctx context.Context, tx pgx.Tx, p *plan, r *row) (connectors.Outcome, error) {
		sql, in, err := p.updateSQL(r)
		if err != nil {
			return connectors.Outcome{}, err
		}
		got, err := p.collect(ctx, tx, sql, in.args)
		if err != nil {
			return connectors.Outcome{}, err
		}
		for _, texts := range got.byKey {
			return connectors.Outcome{Class: connectors.Applied, Link: w.Link}, p.writeChildren(ctx, tx, []parent{{r, got, texts}})
		}
		return p.notUpdated(ctx, tx, r)
	})
}

func (p *plan) updateSQL(r *row) (string, *input, error) {
	in := &input{}
	where, err := p.where(in, r)
	if err != nil {
		return "", nil, err
	}
	var set []string
	if p.renames() {
		for i, c := range p.key {
			set = append(set, quote(c.name)+" = "+in.texts(c, r.key[i:i+1]))
		}
	}
	for i, c := range r.columns {
		set = append(set, quote(c.name)+" = "+in.texts(c, r.values[i:i+1]))
	}
	st := p.stamps(in, []*row{r})
	for i, c := range st.columns {
		set = append(set, quote(c.name)+" = "+st.values[i])
	}
	if p.gone != nil && !slices.Contains(r.columns, p.gone) {
		set = append(set, quote(p.gone.name)+" = DEFAULT")
	}
	if len(set) == 0 {
		c := quote(p.key[0].name)
		set = append(set, c+" = t."+c) // so that it is told whether the row is there
	}
	sql := fmt.Sprintf("UPDATE %s t SET %s FROM %s WHERE %s", p.table.quoted(), strings.Join(set, ", "), in.rows(), where)
	if guard := p.notNewer("t.", st.value); guard != "" {
		sql += " AND " + guard
	}
	return sql + " RETURNING " + asTexts("t.", p.returned()), in, nil
}

// renames reports whether rows are called by something else than their key, so that the key can change.
func (p *plan) renames() bool { return !slices.Equal(p.link, p.key) }

// notUpdated finds out why no row was updated.
func (p *plan) notUpdated(ctx context.Context, tx pgx.Tx, r *row) (connectors.Outcome, error) {
	st, err := p.look(ctx, tx, r, false)
	switch {
	case err != nil:
		return connectors.Outcome{}, err
	case st == nil:
		return connectors.Fail(connectors.Missing, "not_there", "no row has this link"), nil
	}
	o, _, err := p.stood(r, st.order, st.same, false)
	o.Link = r.w.Link
	return o, err
}

// standingRow is a row of the target as a look at it found it.
type standingRow struct {
	order    string
	same     bool
	archived bool
	version  int64
	texts    []string // of p.returned
}

// look reads the row of a record, by link or key; nil if there is none. lock keeps it as it is until the transaction ends.
func (p *plan) look(ctx context.Context, tx pgx.Tx, r *row, lock bool) (*standingRow, error) {
	all, err := p.lookAll(ctx, tx, r, lock)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// lookAll reads the rows of a record, those that live and have the newest version first.
func (p *plan) lookAll(ctx context.Context, tx pgx.Tx, r *row, lock bool) ([]standingRow, error) {
	in := &input{}
	where, err := p.where(in, r)
	if err != nil {
		return nil, err
	}
	st := p.stamps(in, []*row{r})
	order, same := p.standing([]*row{r}, in, st)
	archived, version := p.archived("t."), "'0'"
	if p.version != nil {
		version = "coalesce(t." + quote(p.version.name) + ", 0)::text"
	}
	sql := fmt.Sprintf("SELECT %s, %s, (%s)::text, %s, %s FROM %s, %s t WHERE %s ORDER BY 3, %s DESC NULLS LAST LIMIT %d",
		order, same, archived, version, asTexts("t.", p.returned()), in.rows(), p.table.quoted(), where, p.newestFirst(), maxFound)
	if lock {
		sql += " FOR UPDATE OF t"
	}
	rows, err := tx.Query(ctx, sql, in.args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(cr pgx.CollectableRow) (s standingRow, err error) {
		texts := textRow(cr.RawValues())
		s = standingRow{order: texts[0], same: texts[1] == "true", archived: texts[2] == "true", texts: texts[4:]}
		_, err = fmt.Sscan(texts[3], &s.version)
		return s, err
	})
	if err == nil && r.w.Link == "" {
		for _, s := range all {
			if c := p.spelled(r, s.texts); c != nil {
				return nil, otherSpelling(c)
			}
		}
	}
	return all, err
}

// spelled returns a key column in which a row stands with another text than the record's, which its type or collation takes for the same.
func (p *plan) spelled(r *row, texts []string) *column {
	for i, c := range p.key {
		if c.text && texts[i] != r.key[i].text {
			return c
		}
	}
	return nil
}

// otherSpelling refuses a key: two records of the source would be written to one row in turn.
func otherSpelling(c *column) error {
	return refuse("key_spelling", "a row has this key in another spelling (small and capital letters, accents or blanks), which the column %s (%s) takes for the same; "+
		"make the key in the mapping as the database has it, or correct the row", c.name, c.shown)
}

// amiss says why a row that was written must be taken back: texts are what the statement returned of it.
func (p *plan) amiss(r *row, texts []string) error {
	if c := p.spelled(r, texts); c != nil {
		return otherSpelling(c)
	}
	switch texts[len(texts)-1] {
	case outside:
		return refuse("outside_index", "the row would lie outside the unique index %s, which holds only WHERE %s, so that each write would double it; "+
			"create a unique index for all rows, or keep such records out in the mapping", p.index.name, p.index.predicate)
	case beside:
		return refuse("outside_index", "a row with this key lies outside the unique index %s, which holds only WHERE %s, and this would be a second one; "+
			"bring that row in or delete it, or name in gone the column that says that it is archived", p.index.name, p.index.predicate)
	}
	return nil
}

// maxFound bounds the rows that one key is looked up to.
const maxFound = 20

// archived says in SQL whether a row, whose columns have the prefix, is marked as gone. It is never null.
func (p *plan) archived(prefix string) string {
	switch {
	case p.gone == nil:
		return "false"
	case p.goneValue == "":
		return "(" + prefix + quote(p.gone.name) + " IS NOT NULL)"
	}
	// The value comes from the configuration and stands in the statement as a literal.
	return fmt.Sprintf("(%s%s IS NOT DISTINCT FROM %s::%s)", prefix, quote(p.gone.name), literal(p.goneValue), p.gone.typ)
}

// literal is a text as SQL has it, whatever standard_conforming_strings says.
func literal(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `'`, `''`)
	return "E'" + withoutNUL(s) + "'"
}

// Find looks a record up by its key. Several rows may carry one where no index forbids it.
func (e *entity) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	fail := func(err error) ([]connectors.Found, error) {
		o := outcome(err)
		return nil, &connectors.Error{Op: fmt.Sprintf("find %s %s", e.name, w.Key), Outcome: o, Err: err}
	}
	w.Link = ""
	var found []connectors.Found
	for again := false; ; again = true {
		p, err := e.plan(ctx, again)
		var r *row
		if err == nil {
			r, err = e.oneRow(p, &w)
		}
		if err == nil {
			err = e.db.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				found, err = p.find(ctx, tx, r)
				return err
			})
		}
		if err == nil {
			return found, nil
		}
		if again || !stale(err) && !p.unconfirmed(err) {
			return fail(err)
		}
		e.forget()
	}
}

func (p *plan) find(ctx context.Context, tx pgx.Tx, r *row) ([]connectors.Found, error) {
	all, err := p.lookAll(ctx, tx, r, false)
	if err != nil {
		return nil, err
	}
	var found []connectors.Found
	for _, s := range all {
		f := connectors.Found{Link: p.linkJSON(p.pick(s.texts, p.link)), Version: s.version, Archived: s.archived}
		if r.w.Body != nil && s.same {
			if f.Same, err = p.sameChildren(ctx, tx, r, s.texts); err != nil {
				return nil, err
			}
		}
		found = append(found, f)
	}
	return found, nil
}

// pick finds columns among those of p.returned.
func (p *plan) pick(texts []string, cs []*column) []string {
	return (&returned{columns: p.returned()}).pick(texts, cs)
}

func (p *plan) sameChildren(ctx context.Context, tx pgx.Tx, r *row, texts []string) (bool, error) {
	for name, rows := range r.children {
		c := p.children[name]
		same, err := c.sameChildren(ctx, tx, p.parents(c, texts), rows)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (p *plan) parents(c *childPlan, texts []string) []value {
	var vs []value
	for _, t := range p.pick(texts, c.to) {
		vs = append(vs, value{text: t})
	}
	return vs
}
