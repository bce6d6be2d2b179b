package rest

import (
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// kind is a way of paging.
type kind string

const (
	pageNone   kind = "none"
	pageCursor kind = "cursor"
	pageLink   kind = "link_header"
	pageURL    kind = "next_url"
	pageNumber kind = "page"
	pageOffset kind = "offset"
	pageKeyset kind = "keyset"
)

// plan is what a stream's settings come to for the reading of its listing.
type plan struct {
	kind       kind
	first      int  // number of the first page
	size       int  // records per page; 0 when not known
	asksSize   bool // the size is sent; else it is what the server is known to give
	maxSize    int  // keyset: how far the size may grow to hold the records of one stamp
	sub        bool // keyset: the records of one stamp can be paged through
	subOffset  bool // keyset: … by an offset, else by a page number
	short      bool // a page with fewer records than asked for is the last
	rescan     bool // pages may shift while being read: read until a pass brings nothing new
	hasUntil   bool
	hasSince   bool
	inclusive  bool        // the filter's answer includes the bound itself
	sinceFmt   stampFormat // how bounds are written
	hasVersion bool
	hasChanged bool
	version    stampFormat
	overlap    int64 // in the version's unit
	settle     int64 // µs
}

// maxPasses bounds how often a listing is read in search of two equal passes.
const maxPasses = 6

// maxEmpty bounds the empty pages in a row that claim to have successors.
const maxEmpty = 100

// maxTries bounds how often one reading begins anew because the server no
// longer knows its own page cursor.
const maxTries = 3

// stay as scan.Hold keeps Low where it is.
const stay = -1

// record is one record of a page.
type record struct {
	id      string
	stamp   int64 // 0 for none
	changed int64 // µs, 0 for none
	event   connectors.Event
}

// listing is one page as the server answered it.
type listing struct {
	recs     []record
	token    string // the server's cursor or link to the next page; "" at the end
	unsure   bool   // there is nothing at all where token should stand, and the page is full
	more     *bool  // what the server says of more pages, if it does
	total    int    // what the server says of the number of records, -1 if nothing
	date     time.Time
	observed time.Time
}

// begin starts a reading where there is none under way.
func (p *plan) begin(pos *position, limit int) {
	size := p.size
	if p.asksSize && limit > 0 {
		size = min(size, limit)
	}
	switch s := pos.Scan; {
	case s == nil:
		pos.Scan = &scan{Since: p.lower(*pos), Size: size, Base: size, Page: p.first}
	case p.kind == pageKeyset && s.Sub == 0 && s.Base != size:
		// Each page is asked for by itself, so that a size that was found wrong can be
		// mended under way.
		s.Size, s.Base = size, size
	}
}

// lower is the bound that a reading asks for: everything from a little before
// where the last one ended, since records may become visible late.
func (p *plan) lower(pos position) int64 {
	if !p.hasSince {
		return 0
	}
	low := pos.Low
	if low > 0 {
		back := p.overlap
		if p.inclusive && !p.sinceFmt.isDate() {
			// Even if the filter leaves the bound out: records of the newest stamp may
			// still turn up.
			back = max(back, p.sinceFmt.unit())
		}
		if mutant.On("no-overlap") {
			back = 0
		}
		low = max(low-back, 1)
	}
	if begin, ok := p.sinceFmt.repeated(low); ok {
		// The server may take the label for its second instance, or compare labels.
		low = begin - p.sinceFmt.unit()
	}
	if p.version.isTime() {
		low = max(low, pos.From)
	}
	return low
}

// step takes a page into account and says where to go on, and whether at once.
func (p *plan) step(pos *position, l listing, mem *seen) (more bool, notes []string, err error) {
	s := pos.Scan
	if s.Began == 0 {
		notes = p.firstPage(pos, l)
		if l.unsure {
			notes = append(notes, fmt.Sprintf(noNext, len(l.recs)))
		}
	}
	for _, r := range l.recs {
		s.Max = max(s.Max, r.stamp)
	}
	if s.Steps == 0 {
		s.Max1 = s.Max
	}
	if p.kind == pageKeyset && !p.sub {
		pos.Most = max(pos.Most, len(l.recs))
	}
	s.Steps++
	if len(l.recs) == 0 {
		s.Empty++
	} else {
		s.Empty = 0
	}
	if s.Empty > maxEmpty {
		return false, nil, connectors.Errorf(connectors.Invalid, "paging_empty",
			"%d empty pages in a row, and the server says there are more", maxEmpty)
	}
	var n []string
	if p.kind == pageKeyset {
		more, n, err = p.stepKeyset(pos, l)
	} else {
		more, n, err = p.stepPages(pos, l, mem)
	}
	return more, append(notes, n...), err
}

// noNext is the remark on a full page that has nothing where the next page's
// cursor should stand: a path that is wrong would end every reading there.
const noNext = "a full page of %d records has nothing where the next page's cursor or address should stand; if there are more records, the path in paging is wrong"

// firstPage notes what the beginning of a reading tells.
func (p *plan) firstPage(pos *position, l listing) (notes []string) {
	s := pos.Scan
	s.Began = l.observed.UnixMicro()
	if l.date.IsZero() {
		return nil
	}
	s.Date = l.date.UnixMicro()
	if p.hasUntil && s.Until == 0 {
		s.Until = s.Date
	}
	// A start that our own clock made must not lie in the source's future.
	pos.From = min(pos.From, s.Date)
	if !p.hasVersion || !p.version.isTime() {
		return nil
	}
	ahead := 0
	below := 0
	for _, r := range l.recs {
		if r.stamp > s.Date+5*60*1_000_000 {
			ahead++
		}
		if s.Since > 0 && r.stamp > 0 && r.stamp < p.sinceFmt.sent(s.Since, p.inclusive) {
			below++
		}
	}
	if ahead > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d records bear a time after the server's own clock; look at the version's format and zone", ahead, len(l.recs)))
	}
	if below > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d records are older than was asked for; the server may not know the parameter of since", below, len(l.recs)))
	}
	return notes
}

// stepPages goes through numbered pages and pages that the server leads to.
func (p *plan) stepPages(pos *position, l listing, mem *seen) (more bool, notes []string, err error) {
	s := pos.Scan
	if len(l.recs) > 0 {
		d := idsDigest(l.recs)
		if d == s.Prev && p.numbered() && s.Tries == 0 {
			// In a listing with the newest first, as many new records as a page holds
			// push the page before to this number. A server that does not know the
			// parameter gives the same page again after this, too.
			pos.Scan = &scan{Since: s.Since, Size: s.Size, Page: p.first, Tries: 1}
			return true, []string{fmt.Sprintf("page %d holds the same records as the page before; the reading begins again", s.Steps)}, nil
		}
		if d == s.Prev {
			return false, nil, connectors.Errorf(connectors.Invalid, "paging_repeats",
				"page %d holds the same records as the page before: the server ignores the paging parameter or repeats its last page; look at paging, or name the total%s", s.Steps, p.hintEnd(s.Token))
		}
		s.Prev = d
		s.Pages++
	}
	if l.token != "" && (l.token == s.Token || l.token == s.Mark) {
		return false, nil, connectors.Errorf(connectors.Invalid, "paging_repeats",
			"after page %d the server leads back to a page already read%s", s.Steps, p.hintEnd(l.token))
	}
	old := p.count(s, l)
	if p.rescan {
		s.Fresh += mem.add(s.Began, s.Pass, old)
	}
	if p.ends(s, l) {
		more, notes, err = p.endPass(pos, l)
		if !more {
			mem.forget(s.Began)
		}
		return more, notes, err
	}
	if s.Steps&(s.Steps-1) == 0 {
		s.Mark = s.Token
	}
	s.Token = l.token
	s.Page++
	s.Offset += len(l.recs)
	return true, nil, nil
}

// hintEnd says what to set where a cursor may have meant that there is no next page.
func (p *plan) hintEnd(token string) string {
	if p.kind != pageCursor {
		return ""
	}
	hint := "; if the API has a cursor that says that there is no next page, such as 0, name it in paging.cursor.end"
	if token == "0" || token == "-1" || token == "false" {
		hint = "; if the cursor " + token + " says that there is no next page, name it in paging.cursor.end"
	}
	return hint
}

// numbered tells whether pages may be counted from the listing's front, so that
// what is new there moves all others on. A server's own links often do that.
func (p *plan) numbered() bool {
	switch p.kind {
	case pageNumber, pageOffset, pageLink, pageURL:
		return true
	}
	return false
}

// count adds a page to the pass and returns those of its records that count.
// What changed after the reading began belongs to the next reading and must not
// keep two passes from being equal.
func (p *plan) count(s *scan, l listing) (old []record) {
	s.Count += len(l.recs)
	if l.total >= 0 && p.kind != pageKeyset {
		s.IDs, _ = addIDs(s.IDs, l.recs)
	}
	for _, r := range l.recs {
		if s.Date == 0 || !p.hasVersion || !p.version.isTime() || r.stamp <= s.Date {
			old = append(old, r)
		}
	}
	s.Sum = addSum(s.Sum, old)
	return old
}

// ends tells whether a page is the last of its pass. A page with few records is
// not, unless the settings promise it: some servers leave out of a page what
// the reader may not see.
func (p *plan) ends(s *scan, l listing) bool {
	n := len(l.recs)
	switch p.kind {
	case pageNone:
		return true
	case pageCursor, pageLink, pageURL:
		return l.token == "" || l.more != nil && !*l.more
	}
	switch {
	case l.more != nil:
		return !*l.more
	case n == 0:
		return true
	case l.total >= 0 && s.Count >= l.total:
		return true
	}
	return p.short && s.Size > 0 && n < s.Size
}

// endPass decides, at the end of the listing, whether it must be read again.
func (p *plan) endPass(pos *position, l listing) (more bool, notes []string, err error) {
	s := pos.Scan
	distinct := -1
	if l.total >= 0 {
		distinct = countIDs(s.IDs)
	}
	mixed := distinct >= 0 && distinct < l.total && distinct < s.Count
	still := s.Pass > 0 && (s.Sum == s.Was || s.Fresh == 0)
	clean := !p.rescan || s.Steps == 1 || !mixed && (still || p.oneShortPage(s))
	if !clean && s.Pass+1 < maxPasses {
		s.Was, s.Sum, s.Count, s.IDs, s.Fresh = s.Sum, "", 0, "", 0
		s.Pass++
		s.restart(p.first)
		return true, nil, nil
	}
	if !clean {
		s.Hold = stay
		notes = append(notes, fmt.Sprintf("each of %d passes over the listing brought records that those before had not; it is read again from the same place. Sort it by something that does not change, or use keyset paging", maxPasses))
	}
	if distinct >= 0 && distinct != l.total {
		notes = append(notes, fmt.Sprintf("the server counts %d records and gave %d different ones", l.total, distinct))
	}
	return false, append(notes, p.finish(pos, l)...), nil
}

// oneShortPage tells whether the pass was one page that was not even full: then
// nothing can have moved across a border.
func (p *plan) oneShortPage(s *scan) bool {
	return s.Pages <= 1 && s.Size > 0 && s.Count < s.Size
}

// restart goes back to the first page.
func (s *scan) restart(first int) {
	s.Page, s.Offset, s.Token, s.At, s.Sub = first, 0, "", 0, 0
	s.Prev, s.Mark, s.Pages, s.Empty = "", "", 0, 0
	s.Steps = 0
}

// anew begins the reading again after the server refused its own page cursor.
// It returns false when that has been tried often enough.
func (p *plan) anew(pos *position) bool {
	s := pos.Scan
	if s.Token == "" || s.Tries+1 >= maxTries {
		return false
	}
	pos.Scan = &scan{Since: s.Since, Size: s.Size, Page: p.first, Tries: s.Tries + 1}
	return true
}

// finish ends the reading and moves Low: to the greatest stamp seen, but not
// past the moment at which the reading began, because a record read early may
// have changed while the rest was read.
func (p *plan) finish(pos *position, l listing) (notes []string) {
	s := pos.Scan
	pos.Scan = nil
	if !p.hasVersion || s.Max == 0 {
		return nil
	}
	low := s.Max
	switch {
	case p.version.isTime() && s.Date > 0:
		low = min(low, s.Date-p.settle)
	case p.version.isTime():
		// No server's clock to go by: as far back as the reading took.
		low -= p.settle + max(0, l.observed.UnixMicro()-s.Began)
	case p.kind == pageKeyset || p.rescan || p.kind == pageNone:
		// Two equal passes, or an order that only grows: nothing was missed below the greatest.
	default:
		low = s.Max1
	}
	if s.Hold != 0 {
		low = min(low, s.Hold)
	}
	if p.version.isTime() && s.Date > 0 && pos.Low > s.Date+5*60*1_000_000 {
		notes = append(notes, "the cursor lay ahead of the server's clock and was set back; changes made before the clock was corrected may need a backfill")
		pos.Low = s.Date - p.settle
	}
	pos.Low = max(pos.Low, low)
	return notes
}
