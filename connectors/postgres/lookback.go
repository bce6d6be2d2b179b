package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
)

// lookBack finds out what became of rows that were not returned under the key that was sent: the guard refused them, there was nothing to
// update, or the column writes its values differently (1.50 for 1.5). It returns those that were written, and adds to back those for which all must be
// rolled back. got is what the statement returned.
func (p *plan) lookBack(ctx context.Context, tx pgx.Tx, rows []*row, rest []int, got *returned, out []connectors.Outcome, back takenBack) ([]parent, error) {
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
	looked, err := tx.Query(ctx, sql, in.args...)
	if err != nil {
		return nil, err
	}
	defer looked.Close()
	found := map[string][]string{}
	for looked.Next() {
		texts := textRow(looked.RawValues())
		found[texts[0]] = texts[1:]
	}
	if err := looked.Err(); err != nil {
		return nil, err
	}
	var written []parent
	for _, at := range rest {
		r, texts := rows[at], found[fmt.Sprint(at)]
		if texts == nil {
			back[r] = errNotKept
			continue
		}
		wrote := got.take(joinedTexts(texts[2 : 2+len(p.key)]))
		why := error(nil)
		if c := p.spelled(r, texts[2:]); c != nil {
			why = otherSpelling(c)
		} else if wrote != nil {
			why = p.amiss(r, wrote)
		}
		var accepted bool
		if why == nil {
			out[at], accepted, why = p.stood(r, texts[0], texts[1] == "true", wrote != nil)
		}
		if why != nil {
			back[r] = why
			continue
		}
		if out[at].Class.Confirmed() {
			out[at].Link = p.linkJSON(w.pick(texts[2:], p.link))
		}
		if accepted {
			written = append(written, parent{r, w, texts[2:]})
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

// stood says what it means that a row stands as it does after a statement. wrote says that the statement returned it, under a key written
// differently. accepted says that the record was written, so that its children are next.
func (p *plan) stood(r *row, order string, same, wrote bool) (o connectors.Outcome, accepted bool, err error) {
	switch {
	case wrote:
		return connectors.Outcome{Class: connectors.Applied}, true, nil
	case order == "newer", order == "later" && !same:
		return connectors.Fail(connectors.Stale, "newer_in_target", "the row holds a newer state"), false, nil
	case order == "later":
		return connectors.Outcome{Class: connectors.Unchanged}, false, nil
	case same && (order == "equal" || order == "none"):
		// There was nothing to update, or a trigger leaves rows alone that would not change.
		return connectors.Outcome{Class: connectors.Unchanged}, true, nil
	}
	return o, false, errNotKept
}

// errNotKept is the refusal of a row that is not there, or not as it was sent, after the database took it. Nothing is left of it.
var errNotKept error = &refusal{"not_kept", errors.New("the database took the row and did not keep it under its key: a trigger, a rule or row-level security is in the way")}

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
