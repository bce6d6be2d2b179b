package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"syncd/connectors"
)

// clock is a shop whose records bear stamps in seconds, with a filter that takes
// the bound in or leaves it out.
type clock struct {
	strict bool
	later  int            // by how many seconds too late it takes a bound
	most   int            // gives at most so many at once, 0 for as many as asked for
	recs   map[string]int // stamp by id
	before func(c *clock, since int)
}

func (c *clock) answer(r *http.Request, _ string) (int, string) {
	q := r.URL.Query()
	since, errS := strconv.Atoi(q.Get("since"))
	if c.before != nil {
		c.before(c, since)
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	if c.most > 0 {
		limit = min(limit, c.most)
	}
	var all []string
	for id, at := range c.recs {
		if bound := since + c.later; errS != nil || at > bound || at == bound && !c.strict {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		if c.recs[a] != c.recs[b] {
			return c.recs[a] - c.recs[b]
		}
		return strings.Compare(a, b)
	})
	from := 0
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		from = (n - 1) * limit
	}
	if n, err := strconv.Atoi(q.Get("offset")); err == nil {
		from = n
	}
	var l []string
	for _, id := range all[min(from, len(all)):min(from+limit, len(all))] {
		l = append(l, fmt.Sprintf(`{"id":%q,"at":%d}`, id, c.recs[id]))
	}
	return 200, `{"data":[` + strings.Join(l, ",") + `]}`
}

func clockStream(inclusive bool, keyset string) string {
	text := strings.Replace(streamText("    overlap: 0s\n    paging: {size: 3, size_param: limit, keyset: {"+keyset+"}}\n"), "inclusive: true", fmt.Sprintf("inclusive: %t", inclusive), 1)
	return text
}

// admitted reads until the reading ends or fails, and counts what was handed out
// and what the cursor then keeps.
func admitted(s *script, cursor json.RawMessage) (got map[string]int64, next json.RawMessage, err error) {
	got = map[string]int64{}
	for range 400 {
		p, err := s.pull(cursor)
		if err != nil {
			return got, cursor, err
		}
		for _, e := range p.Events {
			got[e.SourceID] = max(got[e.SourceID], e.Version)
		}
		if cursor = p.Next; !p.More {
			return got, cursor, nil
		}
	}
	s.t.Fatal("no end after 400 pages")
	return nil, nil, nil
}

func TestWhateverIsSaidOfTheFilterNoRecordIsPassedOverInSilence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &clock{strict: rapid.Bool().Draw(rt, "strict"), later: rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(rt, "later"), recs: map[string]int{}}
		at := baseTime - 10000
		for i := range rapid.IntRange(0, 30).Draw(rt, "records") {
			if rapid.IntRange(0, 3).Draw(rt, "step") == 0 {
				at += rapid.IntRange(1, 4).Draw(rt, "seconds")
			}
			c.recs[fmt.Sprintf("%02d", i)] = at
		}
		inclusive := rapid.Bool().Draw(rt, "inclusive")
		keyset := rapid.SampledFrom([]string{"page_param: page", "offset_param: offset", ""}).Draw(rt, "keyset")
		text := clockStream(inclusive, keyset)
		if keyset == "" { // the size is raised, and the shop gives as many as it is asked for
			text = strings.Replace(text, "paging: {", "paging: {full_pages: true, ", 1)
		}
		s := serve(t, text, c.answer)
		got, cursor, err := admitted(s, nil)
		if err != nil {
			if code := codeOf(err); code != "keyset_left_out" && code != "keyset_ignored" {
				rt.Fatalf("%v", err)
			}
			if inclusive != c.strict && c.later == 0 {
				rt.Fatalf("what is said of the filter is right, and yet: %v", err)
			}
			return
		}
		if len(got) != len(c.recs) {
			rt.Fatalf("%d of %d records were read, and no error", len(got), len(c.recs))
		}
		if c.later > 0 || inclusive && c.strict || len(c.recs) == 0 {
			return
		}
		// A record that turns up with the newest stamp after the reading.
		c.recs["zz"] = at
		if got, _, err = admitted(s, cursor); err != nil || got["zz"] == 0 {
			rt.Fatalf("the late record: %v, %v", got, err)
		}
	})
}

func codeOf(err error) string {
	var e *connectors.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestFilterThatLeavesOutTheBoundIsToldOfWithWhatToSet(t *testing.T) {
	for _, n := range []int{4, 35} {
		c := &clock{strict: true, recs: map[string]int{}}
		for i := range n {
			c.recs[fmt.Sprintf("%02d", i)] = baseTime - 1000
		}
		s := serve(t, clockStream(true, "page_param: page"), c.answer)
		got, cursor, err := admitted(s, nil)
		fails(t, err, connectors.Invalid, "keyset_left_out", "set inclusive: false in since")
		if len(got) != 3 {
			t.Errorf("%d records were read", len(got))
		}
		s = serve(t, clockStream(false, "page_param: page"), c.answer)
		rest, _, err := admitted(s, cursor)
		if err != nil || len(rest) != n {
			t.Errorf("after the advice: %d of %d records, %v", len(rest), n, err)
		}
	}
	c := &clock{later: 3600, recs: map[string]int{"1": baseTime - 9000, "2": baseTime - 8000, "3": baseTime - 7000, "4": baseTime - 6500, "5": baseTime - 60}}
	s := serve(t, clockStream(true, "page_param: page"), c.answer)
	_, _, err := admitted(s, nil)
	fails(t, err, connectors.Invalid, "keyset_left_out")
}

func TestCheckHoldsTheFilterOfAKeysetToWhatIsSaidOfIt(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, inclusive := range []bool{false, true} {
			c := &clock{strict: strict, recs: map[string]int{}}
			for i := range 12 {
				c.recs[fmt.Sprintf("%02d", i)] = baseTime - 1000 + i/2
			}
			s := serve(t, clockStream(inclusive, "page_param: page"), c.answer)
			f := s.instance.Check(t.Context(), []string{"records"}, nil)
			if wrong := strict && inclusive; len(f) != 1 || (f[0].Problem != "") != wrong {
				t.Errorf("strict %t, inclusive %t: %+v", strict, inclusive, f)
			}
		}
	}
}

func TestRecordThatTurnsUpWithTheNewestStampIsReadWhateverIsSaidOfTheFilter(t *testing.T) {
	for _, paging := range []string{"{page: {param: page}}", "{offset: {param: offset}}", "{size: 1000, keyset: {page_param: page}, full_pages: true}"} {
		for _, strict := range []bool{false, true} {
			for _, inclusive := range []bool{false, true} {
				c := &clock{strict: strict, recs: map[string]int{"1": baseTime - 60}}
				text := strings.Replace(clockStream(inclusive, ""), "{size: 3, size_param: limit, keyset: {}}", strings.Replace(paging, "{", "{size_param: limit, ", 1), 1)
				s := serve(t, text, c.answer)
				_, cursor, err := admitted(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				c.recs["2"] = baseTime - 60
				if got, _, err := admitted(s, cursor); err != nil || got["2"] == 0 {
					t.Errorf("%s, strict %t, inclusive %t: %v, %v", paging, strict, inclusive, got, err)
				}
			}
		}
	}
}

func TestRecordsThatChangeBetweenTwoPagesAreNoProofAgainstTheFilter(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := &clock{strict: strict, recs: map[string]int{}}
		for i := range 8 {
			c.recs[strconv.Itoa(i)] = baseTime - 1000 + i/3*10
		}
		asked := 0
		c.before = func(c *clock, _ int) {
			if asked++; asked == 2 { // the three of the first page change before the second is asked for
				for _, id := range []string{"0", "1", "2"} {
					c.recs[id] = baseTime - 5
				}
				c.recs["late"] = baseTime - 1000 // and one with their stamp becomes visible
			}
		}
		s := serve(t, clockStream(true, "page_param: page"), c.answer)
		got, cursor, err := admitted(s, nil)
		for range 3 {
			if err != nil {
				break
			}
			var more map[string]int64
			more, cursor, err = admitted(s, cursor)
			for id, v := range more {
				got[id] = max(got[id], v)
			}
		}
		if err != nil {
			if codeOf(err) == "keyset_left_out" && strict {
				continue // the truth
			}
			t.Fatal(err)
		}
		for id, at := range c.recs {
			if got[id] != int64(at)*1_000_000 {
				t.Errorf("strict %t: record %s was read as of %d, it is of %d", strict, id, got[id], at)
			}
		}
	}
}

func TestRecordsThatBecomeVisibleWithinTheLastSecondAreNoProofAgainstTheFilter(t *testing.T) {
	at := func(id string, micros int) string {
		return fmt.Sprintf(`{"id":%q,"at":%d.%06d}`, id, baseTime-60, micros)
	}
	first := true
	s := serve(t, clockStream(true, "page_param: page"), func(r *http.Request, _ string) (int, string) {
		all := []string{at("1", 500), at("2", 600), at("3", 700)}
		if !first || r.URL.Query().Has("since") {
			all = append([]string{at("a", 100), at("b", 200), at("c", 300)}, all...)
		}
		first = first && !r.URL.Query().Has("since")
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if !r.URL.Query().Has("since") {
			all = all[len(all)-3:]
		}
		from := min(3*(page-1), len(all))
		return 200, `{"data":[` + strings.Join(all[from:min(from+3, len(all))], ",") + `]}`
	})
	if got, _, err := admitted(s, nil); err != nil || len(got) != 6 {
		t.Errorf("%d of 6 records, %v", len(got), err)
	}
}

func TestWhatAStuckReadingHasReadIsHandedOutAndSoIsWhatChangesLater(t *testing.T) {
	for _, c := range []struct {
		name   string
		most   int
		group  int
		keyset string
	}{
		{"a server that gives fewer than asked for", 10, 35, ""},
		{"a size that may not grow", 0, 35, "max_size: 20"},
		{"all of the group, which nobody can know", 40, 35, "max_size: 80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop := &clock{most: c.most, recs: map[string]int{}}
			for i := range c.group {
				shop.recs[fmt.Sprintf("%03d", i)] = baseTime - 1000
			}
			s := serve(t, clockStream(true, c.keyset), shop.answer)
			got, cursor, err := admitted(s, nil)
			fails(t, err, connectors.Invalid, "keyset_stuck")
			given := c.group
			if c.most > 0 {
				given = min(given, c.most)
			} else {
				given = min(given, 20)
			}
			if len(got) != given {
				t.Errorf("%d records were handed out, %d were read", len(got), given)
			}
			all := maps.Clone(got)
			// Twice the same complaint, and nothing twice.
			got, cursor, err = admitted(s, cursor)
			fails(t, err, connectors.Invalid, "keyset_stuck")
			if len(got) != 0 {
				t.Errorf("handed out again: %v", got)
			}
			for round, id := range []string{"000", "005", "020", "005", "new"} {
				shop.recs[id] = baseTime - 100 + round
				got, cursor, err = admitted(s, cursor)
				if err != nil {
					fails(t, err, connectors.Invalid, "keyset_stuck")
				}
				maps.Copy(all, got)
				if got[id] != int64(shop.recs[id])*1_000_000 {
					t.Errorf("the change of %s is not found: %v, %v", id, got, err)
				}
			}
			// When it can be read, all is.
			s = serve(t, clockStream(true, "page_param: page"), shop.answer)
			got, _, err = admitted(s, cursor)
			if maps.Copy(all, got); err != nil || len(all) != len(shop.recs) {
				t.Errorf("after the advice: %d of %d records, %v", len(all), len(shop.recs), err)
			}
		})
	}
}
