package rest

import (
	"fmt"

	"syncd/connectors"
)

// stepKeyset goes through a listing in ascending order of its stamps by asking
// anew from the last stamp seen, so that a record which moves to the end while
// we read pulls none across a border. Records that share the last stamp come
// twice, and where they fill a page, they are paged through.
func (p *plan) stepKeyset(pos *position, l listing) (more bool, notes []string, err error) {
	s := pos.Scan
	top, err := p.checkOrder(s, l)
	if err != nil {
		return false, nil, err
	}
	defer func() {
		if err == nil {
			s.Stuck, s.Past, s.Last = "", 0, ""
		}
	}()
	// Stamps that the filter cannot tell apart are one group.
	if at := floor(top, p.sinceFmt.unit()); at > s.At {
		return p.stepOn(pos, l, at)
	}
	if p.last(s, l) {
		if p.groupAgain(s, &notes) {
			return true, notes, nil
		}
		return false, append(notes, p.finish(pos, l)...), nil
	}
	if !p.sub {
		return p.widen(pos, l)
	}
	d := idsDigest(l.recs)
	if s.Sub > 0 && d == s.Prev {
		return false, nil, connectors.Errorf(connectors.Invalid, "paging_repeats",
			"the records of one stamp fill more than a page and the next page holds the same ones: the server ignores the paging parameter; look at paging.keyset")
	}
	s.Prev = d
	s.Pages++
	p.count(s, l)
	s.nextSub(p, l)
	return true, nil, nil
}

// stepOn goes on from a greater stamp.
func (p *plan) stepOn(pos *position, l listing, at int64) (more bool, notes []string, err error) {
	s := pos.Scan
	if s.Sub > 0 {
		var same listing
		for _, r := range l.recs {
			if floor(r.stamp, p.sinceFmt.unit()) <= s.At {
				same.recs = append(same.recs, r)
			}
		}
		p.count(s, same)
		s.Pages++
		if p.groupAgain(s, &notes) {
			return true, notes, nil
		}
	}
	s.Before, s.Top = &bound{At: s.At, Sub: s.Sub}, topOf(l)
	s.At = at
	s.clearGroup()
	if p.last(s, l) {
		return false, append(notes, p.finish(pos, l)...), nil
	}
	return true, notes, nil
}

// last tells whether the server has said, or the settings promise, that no record
// follows those of the page.
func (p *plan) last(s *scan, l listing) bool {
	if len(l.recs) == 0 || l.more != nil {
		return len(l.recs) == 0 || !*l.more
	}
	return p.short && s.Size > 0 && len(l.recs) < s.Size
}

// groupAgain tells whether the records of one stamp, which filled several
// pages, must be read again because they may have moved meanwhile; and if so,
// goes back to the first of them.
func (p *plan) groupAgain(s *scan, notes *[]string) bool {
	alone := s.Sub == 0 || s.Pages <= 1 && s.Size > 0 && s.Count < s.Size
	if alone || s.Pass > 0 && s.Sum == s.Was {
		return false
	}
	if s.Pass+1 >= maxPasses {
		// Go on, but come back to this stamp with the next reading.
		if s.Hold == 0 || s.Hold > s.At {
			s.Hold = s.At
		}
		*notes = append(*notes, fmt.Sprintf("the records of one stamp changed during each of %d passes; they are read again", maxPasses))
		return false
	}
	s.Was, s.Sum, s.Count = s.Sum, "", 0
	s.Pass++
	s.Sub, s.Pages, s.Prev = 0, 0, ""
	return true
}

func (s *scan) clearGroup() {
	s.Sub, s.Pages, s.Prev = 0, 0, ""
	s.Was, s.Sum, s.Count, s.Pass = "", "", 0, 0
}

func (s *scan) nextSub(p *plan, l listing) {
	if p.subOffset {
		s.Sub += len(l.recs)
	} else {
		s.Sub++
	}
}

// widen asks for more records at once where the records of one stamp fill a
// page and cannot be paged through.
func (p *plan) widen(pos *position, l listing) (more bool, notes []string, err error) {
	s, n := pos.Scan, len(l.recs)
	switch {
	case n >= s.Size:
	case l.more == nil && (n < pos.Most || n == 1 || l.total >= 0 && l.total <= n):
		return false, p.finish(pos, l), nil
	default:
		// Fewer than asked for, and yet it may be all that the server ever gives at
		// once: then it is not known whether these are all records of the stamp.
		return false, nil, connectors.Errorf(connectors.Invalid, "keyset_stuck",
			"%d records share one stamp, and the server has never given more at once, although %d were asked for: these were read; if there are more of them, they cannot be reached. Set page_param or offset_param in paging.keyset; or more or total in paging; or full_pages: true if the API promises that a page with fewer records than asked for is the last", n, s.Size)
	}
	if s.Size >= p.maxSize {
		return false, nil, connectors.Errorf(connectors.Invalid, "keyset_stuck",
			"%d records or more share one stamp and fill a page: these were read, the others cannot be reached; set page_param or offset_param in paging.keyset, or a larger max_size", len(l.recs))
	}
	s.Size = min(2*s.Size, p.maxSize)
	return true, nil, nil
}

// checkOrder makes sure that the page is what keyset paging rests on: sorted,
// and from the stamp on that was asked for. It returns the greatest stamp.
func (p *plan) checkOrder(s *scan, l listing) (top int64, err error) {
	var least int64
	if s.At > 0 {
		least = p.sinceFmt.sent(s.At, p.inclusive) - p.version.slack()
	}
	for i, r := range l.recs {
		if r.stamp == 0 {
			continue
		}
		if r.stamp+p.version.slack() < top {
			return 0, connectors.Errorf(connectors.Invalid, "keyset_unsorted",
				"record %d of the page has a lower stamp than the one before; keyset paging needs a listing sorted by the field of version, ascending", i+1)
		}
		if r.stamp < least {
			return 0, connectors.Errorf(connectors.Invalid, "keyset_ignored",
				"the page holds a record older than was asked for; the server does not know the parameter of since, or reads it in another zone")
		}
		top = max(top, r.stamp)
	}
	return top, nil
}
