package vendure

import (
	"context"

	"syncd/connectors"
)

// lastYear ends a range that has no end.
const lastYear = "9999-12-31T00:00:00.000Z"

// changes reads one page along a time field.
//
// The next page is asked for from the last stamp seen, not by an offset: rows
// move to the end of the listing when they are saved while it is read, and
// would pull others over the border of a page. An offset is needed only for
// rows of one millisecond that fill a page (an import gives thousands of rows
// the stamp of its transaction); then the listing is narrowed to that
// millisecond, and begun again when rows have left it.
func (s *source) changes(ctx context.Context, k *kind, c *cursor, limit int) (connectors.Page, error) {
	name, from := k.times[c.Pass], max(c.Time[c.Pass], c.At)
	options := map[string]any{"take": limit, "filter": merge(k.where, window(name, c, from)), "sort": ascending(name)}
	if c.Tie {
		// Within one millisecond only the id gives offsets a meaning.
		options["sort"] = ascending("id")
	}
	if c.Skip > 0 {
		options["skip"] = c.Skip
	}
	l, err := s.list(ctx, k, k.full, options)
	if err != nil {
		return connectors.Page{}, err
	}
	earliest := from
	if !c.Past && from > 0 {
		earliest-- // shown cut to the millisecond
	}
	last, err := ordered(k, name, l.items, earliest)
	if err != nil {
		return connectors.Page{}, err
	}
	p := connectors.Page{Observed: l.started, ServerTime: l.server, More: true}
	for _, raw := range l.items {
		p.Events = append(p.Events, event(raw))
	}
	c.High = max(c.High, last)
	switch {
	case c.Tie:
		c.advanceTie(from, len(l.items), l.total)
	case len(l.items) == 0 || len(l.items) >= l.total:
		c.endChanges(s, l)
	case last > from:
		c.At, c.Past = last, false
	default:
		c.At, c.Tie = from, true
	}
	return p, nil
}

// window is the filter for a page. `after` is exclusive but compares what the
// database holds, in microseconds, with a bound in milliseconds, so that asking
// for after the millisecond before gives the bound's own rows, and some of the
// millisecond before. It is also right where a database keeps whole seconds and
// compares texts, as SQLite does.
func window(name string, c *cursor, from int64) map[string]any {
	w := map[string]any{}
	switch {
	case c.Past:
		w["between"] = map[string]any{"start": stampText(from), "end": lastYear}
	case from > 0:
		w["after"] = stampText(from - 1)
	default:
		w["isNull"] = false
	}
	if c.Tie {
		w["before"] = stampText(from + 1)
	}
	return map[string]any{name: w}
}

// advanceTie goes on within the rows of one millisecond.
func (c *cursor) advanceTie(at int64, read, total int) {
	switch {
	case c.Skip > 0 && total != c.Of:
		// Rows have left, and others moved into their places: begin again.
		c.Skip, c.Of = 0, 0
	case read == 0 || c.Skip+read >= total:
		c.At, c.Past = at+1, true
		c.Tie, c.Skip, c.Of = false, 0, 0
	default:
		c.Skip, c.Of = c.Skip+read, total
	}
}

// endChanges ends a pass. The next cycle goes back by the overlap behind the
// latest stamp, or behind the shop's own clock where a stamp lies beyond that.
func (c *cursor) endChanges(s *source, l listing) {
	high := c.High
	if !l.server.IsZero() {
		high = min(high, l.server.UnixMilli())
	}
	c.Time[c.Pass] = max(c.Time[c.Pass], high-s.set.Overlap.Milliseconds())
	c.nextPass()
}
