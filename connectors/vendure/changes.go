package vendure

import (
	"context"
	"encoding/json"

	"syncd/connectors"
)

// changes reads one page along a time field. What it reads is marked, so that
// the next sweep does not read it again.
func (s *source) changes(ctx context.Context, k *kind, c *cursor, marks *lease, limit int) (connectors.Page, error) {
	field := k.times[c.Pass]
	first := !c.Walking
	if first {
		c.Walking, c.place = true, place{At: c.Time[c.Pass]}
	}
	l, err := s.list(ctx, k, k.full, c.options(k, field, limit))
	if err != nil {
		return connectors.Page{}, err
	}
	last, err := c.check(k, field, l.items)
	if err != nil {
		return connectors.Page{}, err
	}
	p := connectors.Page{Observed: l.started, ServerTime: l.server, More: true}
	for _, raw := range l.items {
		p.Events = append(p.Events, event(raw))
		s.note(k, c, marks, raw)
	}
	if first {
		s.beginLater(c, l)
	}
	c.High = max(c.High, last)
	if c.advance(len(l.items), l.total, last) {
		s.endChanges(c, l)
	}
	return p, nil
}

// note marks a record that was read whole, if a sweep will come by it.
func (s *source) note(k *kind, c *cursor, marks *lease, raw json.RawMessage) {
	var st stamps
	if json.Unmarshal(raw, &st) != nil || st.id() == "" {
		return
	}
	if k.slow || st.at(k.fixed).After(s.now().Add(-s.set.Window)) {
		marks.note(st.id(), st.mark(), c.Swept)
	}
}

// beginLater puts off where the other passes begin, when the first one is about
// to read everything: they are for what it will have missed.
func (s *source) beginLater(c *cursor, l listing) {
	if c.Pass > 0 || c.At > 0 || l.server.IsZero() {
		return
	}
	for i := 1; i < len(c.Time); i++ {
		c.Time[i] = max(c.Time[i], l.server.UnixMilli()-s.set.Overlap.Milliseconds())
	}
}

// endChanges ends a pass. The next cycle goes back by the overlap behind the
// latest stamp, or behind the shop's own clock where a stamp lies beyond that.
func (s *source) endChanges(c *cursor, l listing) {
	high := c.High
	if !l.server.IsZero() {
		high = min(high, l.server.UnixMilli())
	}
	c.Time[c.Pass] = max(c.Time[c.Pass], high-s.set.Overlap.Milliseconds())
	c.next()
}
