package rest

import (
	"net/http"
	"strings"
	"testing"
)

const cursorStream = `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    paging: {cursor: {next: meta.next, param: cursor}, size: 2, size_param: limit}
`

func TestFullPageWithNothingWhereTheCursorShouldStandIsRemarked(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		remarked     bool
	}{
		{"the path leads nowhere", `{"data":[{"id":1},{"id":2}],"meta":{"next_cursor":"x"}}`, true},
		{"the server says there is no next page", `{"data":[{"id":1},{"id":2}],"meta":{"next":null}}`, false},
		{"a page that is not full", `{"data":[{"id":1}],"meta":{}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, cursorStream, func(*http.Request, string) (int, string) { return http.StatusOK, c.answer })
			p := s.drain(nil)
			if got := strings.Contains(strings.Join(p.Notes, "\n"), "nothing where the next page's cursor"); got != c.remarked {
				t.Errorf("remarked %v, want %v; notes %q", got, c.remarked, p.Notes)
			}
			fs := s.instance.Check(t.Context(), []string{"records"}, nil)
			if len(fs) != 1 || (fs[0].Problem != "") != c.remarked {
				t.Errorf("check says %+v", fs)
			}
		})
	}
}
