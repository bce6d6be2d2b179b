package vendure

import (
	"context"
	"encoding/json"
	"time"

	"syncd/connectors"
)

// mostLight is the largest page of the light query.
const mostLight = 500

// sweepDue reports whether a sweep is to begin. A sweep rests for as long as it
// took, so that a large shop is not swept without end.
func (s *source) sweepDue(k *kind, c *cursor) bool {
	every := s.set.SweepEvery
	if k.slow {
		every = s.set.SlowSweepEvery
	}
	took := time.Duration(min(c.Took, 4*every.Milliseconds())) * time.Millisecond // it may have been interrupted
	gone := s.now().Sub(time.UnixMilli(c.Swept))
	return gone >= max(every, 2*took) || gone < 0 // a clock that was set back
}

// sweep reads one page of the light query and, in whole, what moved of it.
func (s *source) sweep(ctx context.Context, k *kind, c *cursor, marks *lease, limit int) (connectors.Page, error) {
	if c.Sweep == 0 {
		c.Swept, c.Sweep = max(s.now().UnixMilli(), 1), 1
		if !k.slow {
			c.Sweep = max(c.Swept-s.set.Window.Milliseconds(), 1)
		}
	}
	take := limit // before anything is known, all of a page is read whole
	if marks.known {
		take = min(5*limit, mostLight)
	}
	options := map[string]any{"take": take, "filter": merge(k.where, map[string]any{k.fixed: map[string]any{"after": stampText(c.Sweep - 1)}}),
		"sort": ascending(k.fixed)}
	if c.Skip > 0 {
		options["skip"] = c.Skip
	}
	l, err := s.list(ctx, k, k.light, options)
	if err != nil {
		return connectors.Page{}, err
	}
	if _, err := ordered(k, k.fixed, l.items, c.Sweep-1); err != nil {
		return connectors.Page{}, err
	}
	page := look(marks, l.items, limit)
	p, whole, err := s.moved(ctx, k, c, page, l)
	if err != nil {
		return connectors.Page{}, err
	}
	for _, r := range page.records {
		if r.id != "" && (!r.moved || whole[r.id]) {
			marks.note(r.id, r.mark, c.Swept)
		}
	}
	s.advanceSweep(k, c, marks, page, l)
	p.More = c.Sweep > 0
	return p, nil
}

// lightPage is as much of a light page as is dealt with in one pull.
type lightPage struct {
	records []lightRecord
	// all says that the whole page is dealt with.
	all bool
}

type lightRecord struct {
	id, mark string
	moved    bool
}

// look finds which records of a light page moved since they were last seen, and
// stops behind the one that fills a page of whole records.
func look(marks *lease, items []json.RawMessage, limit int) lightPage {
	p := lightPage{all: true}
	moved := 0
	for i, raw := range items {
		var st stamps
		if json.Unmarshal(raw, &st) != nil || st.id() == "" {
			st = stamps{}
		}
		r := lightRecord{id: st.id(), mark: st.mark()}
		r.moved = r.id != "" && !marks.same(r.id, r.mark)
		p.records = append(p.records, r)
		if !r.moved {
			continue
		}
		if moved++; moved == limit && i+1 < len(items) {
			p.all = false
			break
		}
	}
	return p
}

// moved reads the records that moved. whole tells which of them there were.
func (s *source) moved(ctx context.Context, k *kind, c *cursor, page lightPage, l listing) (p connectors.Page, whole map[string]bool, err error) {
	p = connectors.Page{Observed: l.started, ServerTime: l.server}
	var ids []string
	for _, r := range page.records {
		if r.moved {
			ids = append(ids, r.id)
		}
	}
	if len(ids) == 0 {
		return p, nil, nil
	}
	full, err := s.list(ctx, k, k.full, map[string]any{"take": len(ids), "filter": map[string]any{"id": map[string]any{"in": ids}}})
	if err != nil {
		return p, nil, err
	}
	p.Observed = full.started
	whole = map[string]bool{}
	for _, raw := range full.items {
		ev := event(raw)
		whole[ev.SourceID] = true
		// Only the whole record tells when it changed last.
		if c.Start > 0 && !ev.ChangedAt.IsZero() && ev.ChangedAt.UnixMilli() < c.Start {
			continue
		}
		p.Events = append(p.Events, ev)
	}
	return p, whole, nil
}

// advanceSweep moves the cursor behind what was dealt with.
func (s *source) advanceSweep(k *kind, c *cursor, marks *lease, page lightPage, l listing) {
	n := len(page.records)
	if page.all && (n == 0 || c.Skip+n >= l.total) {
		marks.ended(c.Swept)
		c.Took = max(s.now().UnixMilli()-c.Swept, 0)
		c.Pass, c.Skip, c.Sweep = 0, 0, 0
		return
	}
	last := timeOf(l.items[n-1], k.fixed)
	if last > c.Sweep {
		c.Sweep, c.Skip = last, 0
		return
	}
	c.Skip += n
}

// ascending asks for a listing sorted by one field. A second one cannot be
// added: the shop sorts by the fields in the order of its schema, whatever their
// order in the query (https://spec.graphql.org/October2021/#sec-Input-Objects), and
// there id comes before every time.
func ascending(name string) map[string]any { return map[string]any{name: "ASC"} }
