package vendure

import (
	"context"

	"syncd/connectors"
)

// changes reads one page along a time field.
func (s *source) changes(ctx context.Context, k *kind, c *cursor, limit int) (connectors.Page, error) {
	field := k.times[c.Pass]
	if !c.Walking {
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
	}
	c.High = max(c.High, last)
	if c.advance(len(l.items), l.total, last) {
		s.endChanges(c, l)
	}
	return p, nil
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
