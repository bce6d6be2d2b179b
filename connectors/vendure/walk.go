package vendure

import (
	"encoding/json"

	"syncd/connectors"
)

// A listing is walked through along a time field, from the last stamp seen and
// not by an offset: rows move to the end of a listing when they are saved while
// it is read, and would pull others over the border of a page.
//
// An offset is needed only for rows of one millisecond that fill a page (an
// import gives thousands of rows the stamp of its transaction). Then the listing
// is narrowed to that millisecond and sorted by id, and begun again when rows
// have left it.
type place struct {
	// At is the stamp from which to go on, in ms.
	At int64 `json:"at,omitempty"`
	// Past says that the millisecond before At was read to its end.
	Past bool `json:"past,omitempty"`
	// Tie says that the rows of the millisecond At are read by an offset. Of is how
	// many there were, Skip how many were read.
	Tie  bool `json:"tie,omitempty"`
	Of   int  `json:"of,omitempty"`
	Skip int  `json:"skip,omitempty"`
}

// lastYear ends a range that has no end.
const lastYear = "9999-12-31T00:00:00.000Z"

// options asks for the next page along a field.
//
// `after` is exclusive but compares what the database holds, in microseconds,
// with a bound in milliseconds, so that asking for after the millisecond before
// gives the bound's own rows, and some of the millisecond before. It is also
// right where a database keeps whole seconds and compares texts, as SQLite does.
//
// The listing is sorted by one field, since the shop sorts by several in the
// order of its schema, whatever their order in the query, and there id comes
// before every time (https://spec.graphql.org/October2021/#sec-Input-Objects).
func (p *place) options(k *kind, field string, take int) map[string]any {
	when, sort := map[string]any{}, field
	switch {
	case p.Past:
		when["between"] = map[string]any{"start": stampText(p.At), "end": lastYear}
	case p.At > 0:
		when["after"] = stampText(p.At - 1)
	default:
		when["isNull"] = false
	}
	if p.Tie {
		when["before"], sort = stampText(p.At+1), "id"
	}
	o := map[string]any{"take": take, "filter": merge(k.where, map[string]any{field: when}), "sort": map[string]any{sort: "ASC"}}
	if p.Skip > 0 {
		o["skip"] = p.Skip
	}
	return o
}

// check makes sure that a page holds what was asked for, in order, and returns
// its last stamp: where a page is not as asked, going on from its last record
// would leave others out.
func (p *place) check(k *kind, field string, items []json.RawMessage) (last int64, err error) {
	earliest := p.At
	if !p.Past && p.At > 0 {
		earliest-- // shown cut to the millisecond
	}
	for _, raw := range items {
		t := timeOf(raw, field)
		switch {
		case t < earliest || p.Tie && t > p.At:
			return 0, disorder(k, "that are not of the "+field+" that was asked for")
		case t < last && !p.Tie:
			return 0, disorder(k, "that are not sorted by "+field)
		}
		last = max(last, t)
	}
	return last, nil
}

func disorder(k *kind, what string) error {
	return failed("list "+k.name, connectors.Transient, "disorder", "the shop answered records "+what+
		"; if this goes on, see whether the shop and its database have different time zones")
}

// advance moves behind the first n records of a page, the last of which has the
// stamp last. total is how many records the listing had. It reports the end.
func (p *place) advance(n, total int, last int64) (end bool) {
	switch {
	case p.Tie && p.Skip > 0 && total != p.Of:
		// Rows have left, and others moved into their places: begin again.
		p.Skip, p.Of = 0, 0
	case p.Tie && (n == 0 || p.Skip+n >= total):
		*p = place{At: p.At + 1, Past: true}
	case p.Tie:
		p.Skip, p.Of = p.Skip+n, total
	case n == 0 || n >= total:
		return true
	case last > p.At:
		*p = place{At: last}
	default:
		p.Tie = true
	}
	return false
}
