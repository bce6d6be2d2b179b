package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
)

// Remove archives or deletes a record, unless the row holds a newer state.
func (e *entity) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	w.Body = nil
	if w.Removal != connectors.Delete && (w.Removal != connectors.Archive || e.config.Gone.Column == "") {
		return connectors.Fail(connectors.Invalid, "removal", "entity %s cannot %s; name a column in gone, or say on_delete: delete", e.name, w.Removal)
	}
	return e.one(ctx, &w, func(ctx context.Context, tx pgx.Tx, p *plan, r *row) (connectors.Outcome, error) {
		s, err := p.look(ctx, tx, r, true)
		switch {
		case err != nil:
			return connectors.Outcome{}, err
		case s == nil:
			return connectors.Outcome{Class: connectors.Unchanged, Code: "not_there"}, nil
		case s.order == "newer" || s.order == "later":
			return connectors.Fail(connectors.Stale, "newer_in_target", "the row holds a newer state"), nil
		}
		o := connectors.Outcome{Class: connectors.Applied, Link: p.linkJSON(p.pick(s.texts, p.link))}
		if w.Removal == connectors.Archive {
			if s.archived {
				o.Class = connectors.Unchanged
			}
			return o, p.archive(ctx, tx, r, s, e.db.env.Now())
		}
		for _, c := range p.children {
			if err := c.deleteAll(ctx, tx, p.parents(c, s.texts)); err != nil {
				return connectors.Outcome{}, err
			}
		}
		return o, p.change(ctx, tx, s, "DELETE FROM %[1]s t USING %[2]s WHERE %[3]s", &input{})
	})
}

// archive marks the row as gone. A mark that is a time stays as it is.
func (p *plan) archive(ctx context.Context, tx pgx.Tx, r *row, s *standingRow, now time.Time) error {
	in := &input{}
	var set []string
	switch {
	case s.archived:
	case p.goneValue != "":
		set = append(set, quote(p.gone.name)+" = "+in.texts(p.gone, []value{{text: p.goneValue}}))
	default:
		at := r.w.Stamp.Observed
		if at.IsZero() {
			at = now
		}
		set = append(set, quote(p.gone.name)+" = "+in.texts(p.gone, []value{{text: timeText(p.gone, at)}}))
	}
	st := p.stamps(in, []*row{r})
	for i, c := range st.columns {
		set = append(set, quote(c.name)+" = "+st.values[i])
	}
	if len(set) == 0 {
		return nil
	}
	return p.change(ctx, tx, s, "UPDATE %[1]s t SET "+strings.ReplaceAll(strings.Join(set, ", "), "%", "%%")+" FROM %[2]s WHERE %[3]s", in)
}

// timeText is a time as a column of times or dates takes it.
func timeText(c *column, at time.Time) string {
	if c.oid == pgtype.DateOID {
		return at.UTC().Format("2006-01-02")
	}
	return observed(at).Format(time.RFC3339Nano)
}

// change runs a statement on the row that was looked at and locked.
func (p *plan) change(ctx context.Context, tx pgx.Tx, s *standingRow, format string, in *input) error {
	var vs []string
	for i, t := range p.pick(s.texts, p.link) {
		vs = append(vs, in.texts(p.link[i], []value{{text: t}}))
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(format, p.table.quoted(), in.rows(), equal("t.", p.link, vs)+p.inIndex(p.link)), in.args...)
	return err
}
