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
	if !c.Walking {
		c.Walking, c.Swept, c.place = true, max(s.now().UnixMilli(), 1), place{}
		if !k.slow {
			c.At = max(c.Swept-s.set.Window.Milliseconds(), 0)
		}
	}
	take := limit // while little is known, most of a page is read whole
	if marks.known {
		take = min(5*limit, mostLight)
	}
	l, err := s.list(ctx, k, k.light, c.options(k, k.fixed, take))
	if err != nil {
		return connectors.Page{}, err
	}
	if _, err := c.check(k, k.fixed, l.items); err != nil {
		return connectors.Page{}, err
	}
	records := look(marks, l.items, limit)
	p, whole, err := s.moved(ctx, k, c, records, l)
	if err != nil {
		return connectors.Page{}, err
	}
	moved := 0
	for _, r := range records {
		if r.id != "" && (!r.moved || whole[r.id]) {
			marks.note(r.id, r.mark, c.Swept)
		}
		if r.moved {
			moved++
		}
	}
	marks.known = 2*moved <= len(records)
	n := len(records)
	last, _ := c.check(k, k.fixed, l.items[:n])
	if c.advance(n, l.total, last) {
		marks.ended(c.Swept)
		c.Took = max(s.now().UnixMilli()-c.Swept, 0)
		c.next()
		c.Pass = 0
	}
	p.More = c.Walking
	return p, nil
}

// lightRecord is what the light query tells of a record.
type lightRecord struct {
	id, mark string
	moved    bool
}

// look finds which records of a light page moved since they were last seen, and
// stops behind the one that fills a page of whole records: what comes after it
// is asked for again.
func look(marks *lease, items []json.RawMessage, limit int) (records []lightRecord) {
	moved := 0
	for _, raw := range items {
		var st stamps
		if json.Unmarshal(raw, &st) != nil {
			st = stamps{}
		}
		r := lightRecord{id: st.id(), mark: st.mark()}
		r.moved = r.id != "" && !marks.same(r.id, r.mark)
		records = append(records, r)
		if r.moved {
			moved++
		}
		if moved == limit {
			break
		}
	}
	return records
}

// moved reads the records that moved. whole tells which of them there were.
func (s *source) moved(ctx context.Context, k *kind, c *cursor, records []lightRecord, l listing) (p connectors.Page, whole map[string]bool, err error) {
	p = connectors.Page{Observed: l.started, ServerTime: l.server}
	var ids []string
	for _, r := range records {
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
