package rest

import (
	"net/http"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestEveryCursorThatIsThereIsFollowed(t *testing.T) {
	for _, next := range []string{`0`, `"0"`, `-1`, `"false"`, `0.0`, `" "`, `"null"`} {
		t.Run(next, func(t *testing.T) {
			s := serve(t, streamText("    paging: {cursor: {next: meta.next, param: cursor}}\n"), func(r *http.Request, _ string) (int, string) {
				if !r.URL.Query().Has("cursor") {
					return 200, `{"data":[` + rows("1@10") + `],"meta":{"next":` + next + `}}`
				}
				return 200, `{"data":[` + rows("2@9") + `],"meta":{"next":null}}`
			})
			if got := ids(s.drain(nil)); got != "1 2" {
				t.Errorf("read %s", got)
			}
			if sent := s.requests[1]; !strings.Contains(strings.NewReplacer("%20", " ", "+", " ").Replace(sent), "cursor="+strings.Trim(next, `"`)) {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

func TestCursorThatIsNotThereIsTheEnd(t *testing.T) {
	for _, meta := range []string{`{}`, `{"next":null}`, `{"next":""}`, `{"next":false}`, `{"next":[]}`, `{"next":{}}`, `null`} {
		s := serve(t, streamText("    paging: {cursor: {next: meta.next, param: cursor}}\n"), always(200, `{"data":[`+rows("1@10")+`],"meta":`+meta+`}`))
		if got := ids(s.drain(nil)); got != "1" {
			t.Errorf("%s: read %s", meta, got)
		}
	}
}

func TestCursorThatMeansTheEndCanBeNamedAndIsAskedFor(t *testing.T) {
	for _, pages := range []int{1, 2, 3} {
		answer := func(r *http.Request, _ string) (int, string) { // 0 at the end, and again the first page when asked for it
			n := map[string]int{"": 1, "0": 1, "c2": 2, "c3": 3}[r.URL.Query().Get("cursor")]
			next := []string{"", `"c2"`, `"c3"`, `0`}[n]
			if n == pages {
				next = "0"
			}
			return 200, `{"data":[` + rows([]string{"", "1@10", "2@9", "3@8"}[n]) + `],"next":` + next + `}`
		}
		s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), answer)
		_, _, err := readOn(s, nil)
		fails(t, err, connectors.Invalid, "paging_repeats", "name it in paging.cursor.end")
		s = serve(t, streamText("    paging: {cursor: {next: next, param: cursor, end: [0]}}\n"), answer)
		if got := ids(s.drain(nil)); got != strings.Join([]string{"1", "2", "3"}[:pages], " ") {
			t.Errorf("%d pages: read %s", pages, got)
		}
	}
}
