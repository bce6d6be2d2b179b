package rest

import (
	"fmt"
	"strings"
	"testing"

	"syncd/connectors"
)

// listOf is a list of n records, or an object with numbers for names, as some
// servers write one.
func listOf(n int, asObject bool) string {
	var l []string
	for i := range n {
		r := fmt.Sprintf(`{"id":%d,"refs":{"syncd":"A-%d"}}`, i, i)
		if asObject {
			r = fmt.Sprintf(`"%d":%s`, i, r)
		}
		l = append(l, r)
	}
	if asObject {
		return "{" + strings.Join(l, ",") + "}"
	}
	return "[" + strings.Join(l, ",") + "]"
}

func TestAnswerWithMoreRecordsThanAllowedIsRefused(t *testing.T) {
	for _, asObject := range []bool{false, true} {
		for _, n := range []int{0, 1, 30, 31, 5000} {
			t.Run(fmt.Sprint(n, asObject), func(t *testing.T) {
				s := serve(t, "max_records: 30\n"+unpaged, always(200, `{"data":`+listOf(n, asObject)+`}`))
				p, err := s.pull(nil)
				if n <= 30 {
					if err != nil || len(p.Events) != n {
						t.Errorf("%d records, %v", len(p.Events), err)
					}
					return
				}
				fails(t, err, connectors.Invalid, "list records: ", "too_many_records", "more than 30 records", "max_records")
			})
		}
	}
	s := serve(t, "max_records: 30\n"+things, always(200, `{"orders":`+listOf(31, false)+`}`))
	_, err := connectors.PrimitivesOf(thing(t, s)).Finder.Find(t.Context(), write("A-1", "", `{}`))
	fails(t, err, connectors.Invalid, "too_many_records", "max_records")
}

func TestAnswerThatIsTooLargeSaysWhatToSet(t *testing.T) {
	s := serve(t, "max_body: 1KiB\n"+unpaged, always(200, `{"data":`+listOf(100, false)+`}`))
	_, err := s.pull(nil)
	fails(t, err, connectors.Invalid, "larger than 1024 bytes", "max_body", "ask for less at once")
}
