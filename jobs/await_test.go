package jobs

import (
	"strings"
	"testing"
)

func TestCirclesAreFoundAmongWaitingRows(t *testing.T) {
	for name, c := range map[string]struct {
		waits []string // ROW>AWAITED, by flow/key; the flow is the entity too
		want  []string
	}{
		"nobody waits":                      {nil, nil},
		"a chain":                           {[]string{"o/1>p/1", "p/1>c/1"}, nil},
		"two of each other":                 {[]string{"o/1>p/1", "p/1>o/1"}, []string{"o/1 p/1"}},
		"one of itself":                     {[]string{"o/1>o/1"}, []string{"o/1"}},
		"three, found from outside":         {[]string{"a/0>o/3", "o/3>o/1", "o/1>o/2", "o/2>o/3"}, []string{"o/1 o/2 o/3"}},
		"two circles, and a tail into each": {[]string{"o/1>p/1", "p/1>o/1", "x/1>o/1", "y/1>z/1", "z/1>y/1", "w/1>z/1"}, []string{"o/1 p/1", "y/1 z/1"}},
		"many wait for one that is outside": {[]string{"o/1>p/9", "o/2>p/9", "p/1>p/9"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []Row
			for _, w := range c.waits {
				row, awaited, _ := strings.Cut(w, ">")
				flow, key, _ := strings.Cut(row, "/")
				entity, other, _ := strings.Cut(awaited, "/")
				rows = append(rows, Row{RowID: RowID{flow, key}, Client: "erp", Entity: flow, State: Ready, Reason: ReasonWaiting, WaitEntity: entity, WaitKey: other})
			}
			var got []string
			for _, c := range circles(rows) {
				var names []string
				for _, r := range c {
					names = append(names, r.String())
				}
				got = append(got, strings.Join(names, " "))
			}
			if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for i := range rows { // one that stands already without what it waits for holds nobody up
				rows[i].AppliedGeneration = 1
			}
			if got := circles(rows); got != nil {
				t.Errorf("circles of rows that stand: %v", got)
			}
		})
	}
}

func TestRowsOfTwoClientsMakeNoCircle(t *testing.T) {
	if got := circles([]Row{
		{RowID: RowID{"o", "1"}, Client: "erp", Entity: "o", State: Ready, Reason: ReasonWaiting, WaitEntity: "p", WaitKey: "1"},
		{RowID: RowID{"p", "1"}, Client: "crm", Entity: "p", State: Ready, Reason: ReasonWaiting, WaitEntity: "o", WaitKey: "1"},
	}); got != nil {
		t.Errorf("got %v", got)
	}
}
