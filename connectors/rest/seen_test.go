package rest

import "testing"

func TestAskingAgainForAPageCountsTheSameRecordsAsNew(t *testing.T) {
	var s seen
	page := func(ids ...string) (l []record) {
		for _, id := range ids {
			l = append(l, record{id: id})
		}
		return l
	}
	for _, c := range []struct {
		name  string
		began int64
		pass  int
		ids   []string
		fresh int
	}{
		{"first pass", 7, 0, []string{"a", "b"}, 2},
		{"second pass", 7, 1, []string{"a", "b", "c"}, 1},
		{"the same page again, because storing it failed", 7, 1, []string{"a", "b", "c"}, 1},
		{"another flow's reading", 8, 1, []string{"a"}, 1},
		{"third pass", 7, 2, []string{"a", "b", "c"}, 0},
	} {
		if got := s.add(c.began, c.pass, page(c.ids...)); got != c.fresh {
			t.Errorf("%s: %d new, want %d", c.name, got, c.fresh)
		}
	}
	s.forget(7)
	if got := s.add(7, 3, page("a")); got != 1 {
		t.Errorf("after it was forgotten: %d new", got)
	}
	for began := range int64(20) {
		s.add(began, 0, page("a"))
	}
	if len(s.readings) > maxReadings {
		t.Errorf("%d readings are remembered", len(s.readings))
	}
}
