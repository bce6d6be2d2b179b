package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"syncd/connectors"
)

// capped is a shop that sorts by time and silently gives at most so many records
// at once, whatever it is asked for.
type capped struct {
	most  int
	stamp []int // of record 1, 2, …, ascending
	extra func(given, all int) string
}

func (c *capped) answer(r *http.Request, _ string) (int, string) {
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	limit = min(limit, c.most)
	from, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	if page, _ := strconv.Atoi(r.URL.Query().Get("page")); page > 1 {
		from = (page - 1) * limit
	}
	var l []string
	all := 0
	for i, at := range c.stamp {
		if baseTime+at < since {
			continue
		}
		if all++; all > from && len(l) < limit {
			l = append(l, fmt.Sprintf(`{"id":%d,"at":%d}`, i+1, baseTime+at))
		}
	}
	extra := ""
	if c.extra != nil {
		extra = c.extra(len(l), all)
	}
	return 200, `{` + extra + `"data":[` + strings.Join(l, ",") + `]}`
}

// readOn pulls until the end of the reading or an error.
func readOn(s *script, cursor json.RawMessage) (seen map[string]bool, next json.RawMessage, err error) {
	seen = map[string]bool{}
	for range 50 {
		p, err := s.pull(cursor)
		if err != nil {
			return seen, cursor, err
		}
		for _, e := range p.Events {
			seen[e.SourceID] = true
		}
		if cursor = p.Next; !p.More {
			return seen, cursor, nil
		}
	}
	s.t.Fatal("no end after 50 pages")
	return nil, nil, nil
}

func group(n, at int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = at
	}
	return l
}

func TestGroupOfOneStampThatMayBeCutNeverEndsAReadingInSilence(t *testing.T) {
	moreIf := func(given, all int) string { return fmt.Sprintf(`"more":%t,`, given < all) }
	total := func(_, all int) string { return fmt.Sprintf(`"total":%d,`, all) }
	for _, c := range []struct {
		name   string
		most   int
		stamps []int
		paging string
		extra  func(given, all int) string
		stuck  bool
	}{
		{"nothing but a group larger than what is given", 3, group(7, -60), "", nil, true},
		{"a group that is exactly what is given", 3, group(3, -60), "", nil, true},
		{"a group behind other records", 3, append([]int{-90, -80, -70, -65}, group(7, -60)...), "", nil, true},
		{"a group between other records", 3, append(append([]int{-90, -80, -70, -65}, group(7, -60)...), -50, -40), "", nil, true},
		{"a large group of a large shop", 100, append(append([]int{-90, -80}, group(150, -60)...), -50), "", nil, true},
		{"the server says that there are more", 3, append([]int{-90, -80, -70}, group(4, -60)...), ", more: more", moreIf, true},
		{"the server says that there are no more", 3, append([]int{-90}, group(3, -60)...), ", more: more", moreIf, false},
		{"the total says that there are more", 3, group(7, -60), ", total: total", total, true},
		{"the total says that there are no more", 3, group(3, -60), ", total: total", total, false},
		{"a promise", 100, group(3, -60), ", full_pages: true", nil, false},
		{"a promise that the server denies", 3, group(7, -60), ", full_pages: true, more: more", moreIf, true},
		{"a group smaller than a page before", 3, append([]int{-90, -80, -70}, group(2, -60)...), "", nil, false},
		{"one record", 3, group(1, -60), "", nil, false},
		{"records of different times", 3, []int{-90, -80, -70, -60, -50, -40, -30}, "", nil, false},
		{"a page that grew, and may not grow further", 7, append([]int{-90, -80, -70, -65, -63}, group(7, -60)...), "", nil, true},
		{"a page that grew, and a promise", 1000, append([]int{-90, -80, -70, -65, -63}, group(7, -60)...), ", full_pages: true", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop := &capped{c.most, c.stamps, c.extra}
			size := 5
			if c.most == 100 {
				size = 200
			}
			s := serve(t, streamText(fmt.Sprintf("    paging: {size: %d, size_param: limit, keyset: {}%s}\n", size, c.paging)), shop.answer)
			cursor := json.RawMessage(nil)
			for reading := range 3 { // the second and third go on from where the one before ended
				seen, next, err := readOn(s, cursor)
				cursor = next
				if c.stuck {
					fails(t, err, connectors.Invalid, "list records: ", "keyset_stuck", "page_param", "offset_param", "more or total", "full_pages")
					continue
				}
				if err != nil {
					t.Fatalf("reading %d: %v", reading+1, err)
				}
				if reading == 0 && len(seen) != len(c.stamps) {
					t.Errorf("%d of %d records were read", len(seen), len(c.stamps))
				}
			}
		})
	}
}

func TestEachAdviceToAStuckReadingHelpsFromWhereItStands(t *testing.T) {
	for paging, records := range map[string]int{
		"keyset: {page_param: page}":     7,
		"keyset: {offset_param: offset}": 7,
		"keyset: {}, more: more":         3, // all there is
		"keyset: {}, total: total":       3,
		"keyset: {}, full_pages: true":   3,
	} {
		t.Run(paging, func(t *testing.T) {
			shop := &capped{most: 3, stamp: group(records, -60), extra: func(given, all int) string { return fmt.Sprintf(`"more":%t,"total":%d,`, given < all, all) }}
			if records > 3 {
				shop.extra = nil
			}
			s := serve(t, streamText("    paging: {size: 5, size_param: limit, keyset: {}}\n"), shop.answer)
			before, cursor, err := readOn(s, nil)
			fails(t, err, connectors.Invalid, "keyset_stuck")
			s = serve(t, streamText("    paging: {size: 5, size_param: limit, "+paging+"}\n"), shop.answer)
			after, _, err := readOn(s, cursor)
			for id := range after {
				before[id] = true
			}
			if err != nil || len(before) != records {
				t.Errorf("%d of %d records were read, %v", len(before), records, err)
			}
		})
	}
}

func TestSizeIsTakenFromTheSettingsUnderWay(t *testing.T) {
	shop := &capped{most: 1000, stamp: []int{-90, -80, -70, -60, -50}}
	refuse := func(r *http.Request, body string) (int, string) {
		if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 2 {
			return 422, `{"error":"limit is at most 2"}`
		}
		return shop.answer(r, body)
	}
	s := serve(t, streamText("    paging: {size: 3, size_param: limit, keyset: {}}\n"), shop.answer)
	p := s.mustPull(nil)
	s = serve(t, streamText("    paging: {size: 2, size_param: limit, keyset: {}}\n"), refuse)
	if seen, _, err := readOn(s, p.Next); err != nil || !seen["5"] {
		t.Errorf("read %v, %v", seen, err)
	}
}
