package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// anew is what a person can do when a stream's order has gone back. A cursor cannot be mended, since nothing tells which rows were read.
const anew = "; which rows were read cannot be told any more, and nothing is passed over: give the flow a new name, and say start: all and on_existing: adopt there, so that it reads anew"

// wentBack refuses to read on where the order itself has gone back behind the cursor, so that what is new would never be read: a database that was moved by a
// dump, restored, or made anew counts its transactions from where it is, and a sequence may be started again. Each poll asks, at the cost of one
// statement or two. A server that only lags behind, as a standby may after a switch, is believed again once it has caught up.
func (p *pull) wentBack(ctx context.Context) (err error) {
	pos := p.position
	if pos.Upto == nil {
		return nil
	}
	if p.order == byXID {
		if pos.Upto.V >= p.h.next {
			return refuse("went_back", "the last event that was read is of transaction %d, and this server is only at %d: %s is in another database now, moved by a dump or restored"+anew,
				pos.Upto.V, p.h.next, p.table.tableName)
		}
		if p.states != nil || pos.Upto.ID == nil {
			return nil
		}
		// A record's events are ordered by their numbers, so a smaller one would be taken for older.
		n, err := strconv.ParseInt(*pos.Upto.ID, 10, 64)
		if err != nil {
			return nil
		}
		_, err = p.sequenceWentBack(ctx, p.event, n)
		return err
	}
	if p.order != byNumber {
		return nil // times go on with the clock, and each round begins overlap before that
	}
	p.governed, err = p.sequenceWentBack(ctx, p.version, pos.Upto.V)
	return err
}

// moved takes notice of another server, or database, that has the table now. Its transactions have other numbers, so rows cannot be told by them: an outbox is
// read from its beginning once more, and of other tables what lies as far back as late rows can. The journal drops what it knows.
func (p *pull) moved(ctx context.Context) error {
	if !p.h.control {
		return nil
	}
	var server string
	const sql = `SELECT system_identifier::text || '/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) FROM pg_catalog.pg_control_system()`
	if err := p.tx.QueryRow(ctx, sql).Scan(&server); err != nil {
		return err
	}
	pos := p.position
	was := pos.Server
	if pos.Server = server; was == "" || was == server {
		return nil
	}
	p.page.Notes = append(p.page.Notes, fmt.Sprintf("the table %s is in another server or database than when it was last read; rows are read again, and those that are known change nothing", p.table.tableName))
	pos.Xmin, pos.Round.Xmin, pos.NullsXmin = 0, 0, 0
	if p.order == byXID {
		pos.At, pos.Upto = nil, nil
	}
	return nil
}

// ahead refuses events of transactions that this server has not come to. They would wait until its count has passed them, without a word.
func (p *pull) ahead(ctx context.Context) error {
	sql := fmt.Sprintf("SELECT t.%[1]s::text, pg_snapshot_xmax(pg_current_snapshot())::text FROM %[2]s t WHERE t.%[1]s >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY t.%[1]s LIMIT 1",
		quote(p.version.name), p.table.quoted())
	var xid, next string
	err := p.tx.QueryRow(ctx, sql).Scan(&xid, &next)
	if err == pgx.ErrNoRows {
		return nil
	}
	if err != nil {
		return err
	}
	return refuse("ahead", "%s holds an event of transaction %s, and this server is only at %s: it was moved here by a dump, or the column %s was set by hand, and such events would not be read; "+
		"run UPDATE %s SET %s = DEFAULT WHERE %s >= '%s', after which they are read as new ones", p.table.tableName, xid, next, p.version.name,
		p.table.quoted(), quote(p.version.name), quote(p.version.name), next)
}

// sequenceWentBack compares what was read with the sequence that a column draws its numbers from, if it has one that we may look at. governs says that the
// sequence is at or above all that was read: then what it draws from now on is greater. One that never was, as in a copy that gets its rows with their numbers, tells nothing.
func (p *pull) sequenceWentBack(ctx context.Context, c *column, upto int64) (governs bool, err error) {
	const sql = `SELECT coalesce(pg_catalog.pg_sequence_last_value(q.seqrelid), q.seqstart - 1), q.seqrelid::regclass::text
FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
JOIN pg_catalog.pg_sequence q ON q.seqrelid = d.objid AND q.seqincrement > 0 AND NOT q.seqcycle
WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
  AND d.refobjid = $1 AND a.attname = $2 AND has_sequence_privilege(q.seqrelid, 'SELECT, USAGE') ORDER BY 1 DESC LIMIT 1`
	var last int64
	var name string
	err = p.tx.QueryRow(ctx, sql, p.table.oid, c.name).Scan(&last, &name)
	if err == pgx.ErrNoRows {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch pos := p.position; {
	case last >= upto:
		pos.Drawn = last
		return true, nil
	case pos.Drawn >= upto:
		return true, refuse("went_back", "the last number that was read of %s is %d, and the sequence %s, which was at %d, is only at %d: it was started again, or the table is in another database now"+anew,
			p.table.tableName, upto, name, pos.Drawn, last)
	}
	return false, nil
}

// numbersWentBack looks at the greatest number where no sequence tells; the round has begun. That it is smaller than what was read can mean that the newest row was
// deleted. But when it changes then, and rows written since the last round lie before the place where this one begins, numbers are given anew. A view does
// not tell when its rows were written.
func (p *pull) numbersWentBack(ctx context.Context) error {
	pos := p.position
	if p.order != byNumber || pos.Upto == nil || p.governed || !p.hasXmin() {
		return nil
	}
	top, err := p.top(ctx)
	if err != nil {
		return err
	}
	if top.V > pos.Upto.V || top.V == pos.Upto.V && sameID(top.ID, pos.Upto.ID) {
		pos.Top = nil
		return nil
	}
	if pos.Top != nil && pos.Top.V == top.V && sameID(pos.Top.ID, top.ID) {
		return nil
	}
	if pos.At != nil && top.V != minusInfinity {
		found := pos.Xmin > p.h.next // another server's
		if comparable(pos.Xmin, &p.h) {
			q := &query{}
			sql := fmt.Sprintf("SELECT EXISTS (SELECT FROM %s t WHERE t.%s IS NOT NULL AND NOT (%s) AND age(t.xmin) <= age(%s::xid))", p.table.quoted(), quote(p.version.name),
				p.after(q, pos.At), q.add(fmt.Sprint(uint32(pos.Xmin)), "text"))
			if err := p.tx.QueryRow(ctx, sql, q.args...).Scan(&found); err != nil {
				return err
			}
		}
		if found {
			return refuse("went_back", "the last number that was read of %s is %d, and rows written since have smaller ones: the column %s is numbered anew, or the table is in another database now"+anew,
				p.table.tableName, pos.Upto.V, p.version.name)
		}
	}
	pos.Top = top
	return nil
}

func sameID(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// top is the greatest place in the table; one below all if it has none.
func (p *pull) top(ctx context.Context) (*mark, error) {
	id := "NULL::text"
	order := "t." + quote(p.version.name) + " DESC"
	if p.id != nil {
		id = "t." + quote(p.id.name) + "::text"
		order += ", t." + quote(p.id.name) + " DESC"
	}
	m := &mark{}
	err := p.tx.QueryRow(ctx, fmt.Sprintf("SELECT t.%[1]s::bigint, %[2]s FROM %[3]s t WHERE t.%[1]s IS NOT NULL ORDER BY %[4]s LIMIT 1",
		quote(p.version.name), id, p.table.quoted(), order)).Scan(&m.V, &m.ID)
	if err == pgx.ErrNoRows {
		return &mark{V: minusInfinity}, nil
	}
	return m, err
}
