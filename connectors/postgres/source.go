package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/internal/jsonscan"
)

const (
	// pageBytes bounds the bodies of a page together; the row that reaches it is the page's last.
	pageBytes = 8 << 20
	// maxBody bounds one row, in bytes.
	maxBody = 16 << 20
	// maxPage bounds the rows of a page.
	maxPage = 10_000
	// lookBackPage is how many rows are looked at at once on the way to where the last round ended, where most are no events.
	lookBackPage = 10_000
	// maxID bounds the id of a record, in bytes.
	maxID = 1024
)

// Pull returns the next page of a stream.
func (in *instance) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	observed := in.db.env.Now()
	page, err := in.pull(ctx, req)
	if err != nil {
		return connectors.Page{}, in.readError("read stream "+req.Stream, err)
	}
	page.Observed = observed
	return page, nil
}

func (in *instance) pull(ctx context.Context, req connectors.PullRequest) (page connectors.Page, err error) {
	s := in.settings.Tables[req.Stream]
	if s == nil {
		return page, refuse("unknown_stream", "there is no such stream")
	}
	return page, in.reading(ctx, s, func(r *reader) error {
		p := &position{Format: 1, Order: r.order, Of: r.of}
		if req.Cursor != nil {
			if p, err = readPosition(req.Cursor, r.order, r.of); err != nil {
				return &refusal{"cursor", err}
			}
		} else if err := startAt(p, r, req.Start); err != nil {
			return err
		}
		page = connectors.Page{}
		err := in.db.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return (&pull{reader: r, position: p, overlap: s.Overlap, limit: min(max(req.Limit, 1), maxPage), tx: tx, page: &page}).run(ctx)
		})
		if err == nil {
			page.Next = p.write()
		}
		return err
	})
}

// startAt sets where a stream without cursor begins.
func startAt(p *position, r *reader, start connectors.Start) error {
	if start.All {
		return nil
	}
	if r.order != byTime && r.changed == nil {
		return refuse("start", "the version of this stream is a number, which tells no time to start at; name changed_at, or say start: all")
	}
	from := start.From.UnixMicro()
	p.From = &from
	return nil
}

// reading runs f with the stream's plan; a second time when the catalog turns out to have changed.
func (in *instance) reading(ctx context.Context, s *Stream, f func(*reader) error) error {
	for again := false; ; again = true {
		r, err := newReader(s, func(n tableName) (*table, error) { return in.db.table(ctx, n, again) })
		var fail *failure
		switch {
		case err == nil:
			err = f(r)
		case !errors.As(err, &fail) && again:
			return &refusal{"configuration", err}
		case !errors.As(err, &fail):
			continue // perhaps the column is new
		}
		if err == nil || again || !stale(err) {
			return err
		}
		if n, err := parseTable(s.Table); err == nil {
			in.db.forget(n)
		}
	}
}

func (in *instance) readError(op string, err error) error {
	return &connectors.Error{Outcome: outcome(err), Op: op, Err: err}
}

// pull is the making of one page.
type pull struct {
	*reader
	position *position
	overlap  time.Duration
	limit    int
	tx       pgx.Tx
	page     *connectors.Page
	bytes    int
	h        horizon
	governed bool // a sequence tells that the numbers to come are greater than those that were read
}

func (p *pull) run(ctx context.Context) error {
	if err := p.h.look(ctx, p.tx); err != nil {
		return err
	}
	p.page.ServerTime = p.h.clock
	if err := p.wentBack(ctx); err != nil {
		return err
	}
	if err := p.moved(ctx); err != nil {
		return err
	}
	switch pos := p.position; {
	case p.order == byXID:
		return p.events(ctx)
	case pos.Nulls != nil:
		return p.nulls(ctx)
	case !pos.Under || pos.renew(p.h.clock, p.overlap):
		if pos.Round.At == 0 && !p.h.sure {
			p.page.Notes = append(p.page.Notes, "rows that become visible late are looked for within overlap only: "+p.h.why)
		}
		pos.begin(&p.h, p.overlap)
		if err := p.numbersWentBack(ctx); err != nil {
			return err
		}
	}
	return p.rows(ctx)
}

// events reads an outbox in the order of transactions. Each row is final: what could still come before it, its transaction would have a number that is not
// below the snapshot's xmin.
func (p *pull) events(ctx context.Context) error {
	if err := p.ahead(ctx); err != nil {
		return err
	}
	sql, args := p.reader.page(p.position, &p.h, p.limit)
	n, full, err := p.scan(ctx, sql, args)
	p.page.More = full || n == p.limit
	return err
}

// rows reads on in the round.
func (p *pull) rows(ctx context.Context) error {
	pos := p.position
	limit := p.limit
	back := pos.Old != nil && (pos.At == nil || pos.At.V < pos.Old.V) && p.hasXmin() && comparable(pos.Xmin, &p.h)
	if back && !pos.Dense {
		limit = max(limit, lookBackPage)
	}
	sql, args := p.reader.page(pos, &p.h, limit)
	n, full, err := p.scan(ctx, sql, args)
	if err != nil {
		return err
	}
	pos.Dense = back && 2*len(p.page.Events) >= n
	if full || n == limit {
		p.page.More = true
		return nil
	}
	pos.Under, pos.At = false, nil
	if p.id != nil && !p.version.notNull && pos.nullsDue(p.h.clock) {
		start := ""
		pos.Nulls, p.page.More = &start, true
	}
	return nil
}

// nulls reads rows without a version; they do not move the place of the others.
func (p *pull) nulls(ctx context.Context) error {
	pos := p.position
	limit := p.limit
	if pos.NullsXmin != 0 {
		limit = max(limit, lookBackPage)
	}
	sql, args := p.reader.nulls(pos, &p.h, limit)
	place, upto := pos.At, pos.Upto
	n, full, err := p.scan(ctx, sql, args)
	if err != nil {
		return err
	}
	if pos.At != place {
		pos.Nulls = pos.At.ID
	}
	pos.At, pos.Upto = place, upto
	if full || n == limit {
		p.page.More = true
		return nil
	}
	if !p.id.notNull {
		sql, args := p.nameless(&p.h, pos.NullsXmin)
		if _, _, err := p.scan(ctx, sql, args); err != nil {
			return err
		}
		pos.At, pos.Upto = place, upto
	}
	pos.Nulls, pos.NullsAt, pos.NullsXmin = nil, p.h.clock.UnixMicro(), pos.Round.Xmin
	return nil
}

// scan runs a statement and takes its rows. full says that it stopped before the last one because the page was full.
func (p *pull) scan(ctx context.Context, sql string, args []any) (n int, full bool, err error) {
	rows, err := p.tx.Query(ctx, sql, args...)
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if len(p.page.Events) >= p.limit || p.bytes >= pageBytes {
			full = true
			break
		}
		var r sourceRow
		if err := r.scan(rows); err != nil {
			return n, false, err
		}
		n++
		if r.id != nil && !utf8.ValidString(*r.id) {
			// The cursor is JSON, which could not keep it: rows would be passed over.
			return n, false, refuse("not_utf8", "the column %s of %s holds a text that is not UTF-8, so that the stream cannot go on after it; correct it: %s", p.id.name, p.table.tableName, whyNotUTF8)
		}
		m := mark{V: r.number, ID: r.id}
		if p.order == byTime {
			m.V, _ = micros(r.at)
		}
		p.position.seen(m)
		if r.event {
			e := r.make(p.reader)
			p.bytes += len(e.Body)
			p.page.Events = append(p.page.Events, e)
		}
	}
	rows.Close()
	return n, full, rows.Err()
}

// sourceRow is one row of a page, as reader.columns selects it.
type sourceRow struct {
	number         int64
	at             pgtype.Timestamptz
	id, source     *string
	event          bool
	changed, state pgtype.Timestamptz
	deleted        bool
	version        int64
	given          bool // whether number or version, whichever orders the record, is no null
	body           *string
}

func (r *sourceRow) scan(rows pgx.Rows) error {
	return rows.Scan(&r.number, &r.at, &r.id, &r.source, &r.event, &r.changed, &r.deleted, &r.version, &r.state, &r.given, &r.body)
}

// make makes the event of a row.
func (r *sourceRow) make(rd *reader) connectors.Event {
	e := connectors.Event{Gone: r.deleted, ChangedAt: timeOf(r.changed)}
	switch {
	case rd.order == byTime:
		e.Version, e.Versioned = finite(r.at)
		e.ChangedAt = timeOf(r.at)
	case rd.event == nil:
		e.Version, e.Versioned = r.number, r.given
	case r.state.Valid:
		e.Version, e.Versioned = finite(r.state)
	default:
		e.Version, e.Versioned = r.version, r.given
	}
	if r.source == nil || *r.source == "" {
		e.Problem = fmt.Sprintf("no id: the column %s is null or empty", rd.source.name)
	} else if len(*r.source) > maxID {
		e.Problem = fmt.Sprintf("no id: the column %s is longer than %d bytes", rd.source.name, maxID)
	} else if !utf8.ValidString(*r.source) {
		e.Problem = fmt.Sprintf("no id: the column %s is not UTF-8: %s", rd.source.name, whyNotUTF8)
	} else {
		e.SourceID = *r.source
	}
	switch {
	case r.body == nil && e.Gone:
	case r.body == nil:
		e.Problem = problem(e.Problem, "the record is null")
	case len(*r.body) > maxBody:
		e.Problem = problem(e.Problem, fmt.Sprintf("the record is larger than %d MiB", maxBody>>20))
	case !utf8.ValidString(*r.body):
		e.Problem = problem(e.Problem, "the record holds a text that is not UTF-8: "+whyNotUTF8)
		e.Body = jsonscan.AppendQuoted(nil, *r.body)
	case rd.event != nil && jsonscan.Valid([]byte(*r.body)) != nil:
		e.Problem = problem(e.Problem, "the record is not JSON")
		e.Body = jsonscan.AppendQuoted(nil, *r.body)
	default:
		e.Body = []byte(*r.body)
	}
	return e
}

// whyNotUTF8 is how a text can come that is not UTF-8: all other databases give what we asked for.
const whyNotUTF8 = "the database's encoding is SQL_ASCII, which keeps whatever bytes it is given"

func problem(first, then string) string {
	if first != "" {
		return first
	}
	return then
}

// finite is a time as a version; 0 for one that is null or infinite, which orders nothing.
func finite(t pgtype.Timestamptz) (micro int64, ok bool) {
	v, ok := micros(t)
	if v == plusInfinity || v == minusInfinity {
		return 0, false
	}
	return v, ok
}

func timeOf(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}

// Fetch returns the present row of a record.
func (in *instance) Fetch(ctx context.Context, stream, id string) (connectors.Event, error) {
	ev := connectors.Event{SourceID: id, Gone: true}
	s := in.settings.Tables[stream]
	if s == nil || s.Mode != modePoll {
		return connectors.Event{}, in.readError("fetch from "+stream, refuse("unknown_stream", "there is no such stream, or it is an outbox, which keeps events and no records"))
	}
	err := in.reading(ctx, s, func(r *reader) error {
		v, err := r.source.convert(jsonscan.AppendQuoted(nil, id))
		if err != nil || strings.ContainsRune(id, 0) {
			return nil // no row can have an id that its column cannot hold
		}
		sql, args := r.one(v)
		return in.db.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			if rows.Next() {
				var row sourceRow
				if err := row.scan(rows); err != nil {
					return err
				}
				ev = row.make(r)
			}
			rows.Close()
			return rows.Err()
		})
	})
	if err != nil {
		return connectors.Event{}, in.readError(fmt.Sprintf("fetch from %s", stream), err)
	}
	return ev, nil
}
