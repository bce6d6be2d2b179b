package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"syncd/connectors"
)

func streamText(rest string) string {
	return `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: at, format: epoch_s}
    since: {param: since, format: epoch_s, inclusive: true}
` + rest
}

// baseTime is the server's clock, in seconds.
const baseTime = 1795946400

// rows writes records as "id@seconds before the server's clock".
func rows(l ...string) string {
	var b strings.Builder
	for i, r := range l {
		id, ago, ok := strings.Cut(r, "@")
		if i > 0 {
			b.WriteByte(',')
		}
		if !ok {
			fmt.Fprintf(&b, `{"id":%q}`, id)
			continue
		}
		var n int
		_, _ = fmt.Sscan(ago, &n)
		fmt.Fprintf(&b, `{"id":%q,"at":%d}`, id, baseTime-n)
	}
	return b.String()
}

// pages answers from a table by the request's query; "*" is for all others.
func pages(t testing.TB, table map[string]string) func(*http.Request, string) (int, string) {
	return func(r *http.Request, _ string) (int, string) {
		a, ok := table[r.URL.RawQuery]
		if !ok {
			a, ok = table["*"]
		}
		if !ok {
			t.Errorf("unexpected request for %q", r.URL.RawQuery)
		}
		if strings.HasPrefix(a, "!") {
			var status int
			_, _ = fmt.Sscan(a[1:], &status)
			return status, `{"error":"no"}`
		}
		return 200, a
	}
}

func TestFollowUpsUseTheServersLinkAndNothingElse(t *testing.T) {
	s := serve(t, streamText("    paging: {size: 50, size_param: limit, link_header: true, rescan: no}\n"), nil)
	s.answer = func(r *http.Request, _ string) (int, string) {
		if r.URL.Query().Has("page_info") && len(r.URL.Query()) > 1 {
			return 400, `{"errors":"page_info cannot be used with limit"}`
		}
		s.header.Del("Link")
		if !r.URL.Query().Has("page_info") {
			s.header.Set("Link", `</api/records?page_info=abc>; rel="next"`)
			return 200, `{"data":[` + rows("1@10") + `]}`
		}
		return 200, `{"data":[` + rows("2@9") + `]}`
	}
	p := s.drain(nil)
	if ids(p) != "1 2" || s.requests[1] != "GET /api/records?page_info=abc" {
		t.Errorf("ids %s, requests %q", ids(p), s.requests)
	}
}

// Credentials in the address go out with each request, also with one to a server's own
// link, which has them in it: once each, and in no cursor and no error.
func TestASecretInTheAddressIsSentWithEachRequestAndKeptNowhere(t *testing.T) {
	s := serve(t, "auth: {query: {name: api_token, value: '${env:TOKEN}'}}\n"+streamText("    paging: {size: 50, link_header: true, rescan: no}\n"), nil)
	s.answer = func(r *http.Request, _ string) (int, string) {
		if got := r.URL.Query()["api_token"]; len(got) != 1 || got[0] != "t0ken" {
			t.Errorf("%s bears %q", r.URL.Path, got)
		}
		if strings.Contains(r.URL.RawQuery, "page_info") {
			s.header.Del("Link")
			return 200, `{"data":[` + rows("2@9") + `]}`
		}
		s.header.Set("Link", `</api/records?api_token=t0ken&page_info=abc&api%5Ftoken=x>; rel="next"`)
		return 200, `{"data":[` + rows("1@10") + `]}`
	}
	p, err := s.pull(nil)
	if err != nil || !p.More || strings.Contains(string(p.Next), "t0ken") {
		t.Fatalf("the cursor is %s, %v", p.Next, err)
	}
	if p, err = s.pull(p.Next); err != nil || ids(p) != "2" {
		t.Fatalf("%s, %v", ids(p), err)
	}
	s.answer = always(500, "no")
	if _, err = s.pull(nil); err == nil || strings.Contains(err.Error(), "t0ken") {
		t.Errorf("got %v", err)
	}
}

func TestALinkToAnotherHostIsNotFollowed(t *testing.T) {
	for _, link := range []string{"https://evil.example/records?page=2", "//evil.example/x", "http://127.0.0.1:1/api/records"} {
		s := serve(t, streamText("    paging: {next_url: {path: next}}\n"), always(200, `{"data":[`+rows("1@10")+`],"next":"`+link+`"}`))
		p := s.mustPull(nil)
		_, err := s.pull(p.Next)
		fails(t, err, connectors.Invalid, "redirect")
		if len(s.requests) != 1 {
			t.Errorf("%s: requests %q", link, s.requests)
		}
	}
}

func TestARepeatedPageEndsTheReading(t *testing.T) {
	same := `{"data":[{"id":1},{"id":2}],"next":"c2"}`
	s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), always(200, same))
	p := s.mustPull(nil)
	_, err := s.pull(p.Next)
	fails(t, err, connectors.Invalid, "paging_repeats", "the same records as the page before")

	n := 0
	s = serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), func(r *http.Request, _ string) (int, string) {
		n++ // three cursors in a circle, with ever new records
		return 200, fmt.Sprintf(`{"data":[{"id":%d}],"next":"c%d"}`, n, n%3)
	})
	cursor := json.RawMessage(nil)
	for range 12 {
		p, e := s.pull(cursor)
		if err = e; e != nil {
			break
		}
		cursor = p.Next
	}
	fails(t, err, connectors.Invalid, "leads back to a page already read")

	s = serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), func(r *http.Request, _ string) (int, string) {
		n++
		return 200, fmt.Sprintf(`{"data":[],"next":"c%d"}`, n)
	})
	cursor, err = nil, nil
	for range 200 {
		p, e := s.pull(cursor)
		if err = e; e != nil {
			break
		}
		cursor = p.Next
	}
	fails(t, err, connectors.Invalid, "paging_empty")
}

func TestAnExpiredPageCursorBeginsTheReadingAgain(t *testing.T) {
	expired := true
	s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), nil)
	s.answer = func(r *http.Request, _ string) (int, string) {
		switch {
		case r.URL.Query().Get("cursor") == "":
			return 200, `{"data":[` + rows("1@10") + `],"next":"c2"}`
		case expired:
			return 410, `{"error":"this cursor has expired"}`
		}
		return 200, `{"data":[` + rows("2@9") + `]}`
	}
	p := s.mustPull(nil)
	p = s.mustPull(p.Next)
	if len(p.Events) != 0 || !p.More || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "begins again") {
		t.Errorf("%+v", p)
	}
	// A server that refuses every cursor does not keep us busy for ever.
	q := s.mustPull(p.Next)
	q = s.mustPull(q.Next)
	q = s.mustPull(q.Next)
	_, err := s.pull(q.Next)
	fails(t, err, connectors.Invalid, "this cursor has expired")
	expired = false
	if p = s.drain(p.Next); ids(p) != "1 2" {
		t.Errorf("ids %s", ids(p))
	}
}

func TestAFailingPageLeavesTheCursorBeforeIt(t *testing.T) {
	fail := true
	s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), nil)
	s.answer = func(r *http.Request, _ string) (int, string) {
		n := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &n)
		if n == 2 && fail {
			return 503, "<html>"
		}
		next := fmt.Sprintf(`,"next":"%d"`, n+1)
		if n == 4 {
			next = ""
		}
		return 200, `{"data":[` + rows(fmt.Sprintf("%d@%d", n, 100-n)) + `]` + next + `}`
	}
	p := s.mustPull(nil)
	p = s.mustPull(p.Next)
	_, err := s.pull(p.Next)
	fails(t, err, connectors.Transient, "503")
	fail = false
	if p = s.drain(p.Next); ids(p) != "2 3 4" {
		t.Errorf("ids %s", ids(p))
	}
}

func TestATotalThatDoesNotMatchIsANote(t *testing.T) {
	// An order without a tie-break: B twice, C never.
	text := streamText("    paging: {size: 2, size_param: limit, total: total, page: {param: page}}\n")
	s := serve(t, text, pages(t, map[string]string{
		"limit=2&page=1": `{"total":4,"data":[` + rows("A@9", "B@8") + `]}`,
		"limit=2&page=2": `{"total":4,"data":[` + rows("B@8", "D@7") + `]}`,
	}))
	p := s.drain(nil)
	if notes := strings.Join(p.Notes, "|"); !strings.Contains(notes, "the server counts 4 records and gave 3 different ones") {
		t.Errorf("notes %q", notes)
	}
	if got := low(t, p.Next); got != 0 {
		t.Errorf("the cursor moved to %d although a record was never seen", got)
	}
	if len(s.requests) != 2*maxPasses {
		t.Errorf("%d requests", len(s.requests))
	}
}

func TestAListingThatNeverStandsStillIsReadAgainFromTheSamePlace(t *testing.T) {
	n := 0
	s := serve(t, streamText("    paging: {size: 2, size_param: limit, page: {param: page}}\n"), func(r *http.Request, _ string) (int, string) {
		n++
		if r.URL.Query().Get("page") == "3" {
			return 200, `{"data":[]}`
		}
		return 200, `{"data":[` + rows(fmt.Sprintf("x%d@50", n), fmt.Sprintf("y%d@40", n)) + `]}`
	})
	p := s.drain(nil)
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "each of 6 passes over the listing brought") || low(t, p.Next) != 0 {
		t.Errorf("notes %q, cursor %s", p.Notes, p.Next)
	}
}

func TestPassesEndWhenOneBringsNothingNewThoughRecordsChangeAllTheTime(t *testing.T) {
	n := 0
	s := serve(t, streamText("    paging: {size: 2, size_param: limit, page: {param: page}}\n"), func(r *http.Request, _ string) (int, string) {
		n++
		switch r.URL.Query().Get("page") {
		case "1":
			return 200, `{"data":[` + rows(fmt.Sprintf("1@%d", 90-n), fmt.Sprintf("2@%d", 60-n)) + `]}`
		case "2":
			return 200, `{"data":[` + rows(fmt.Sprintf("3@%d", 30-n)) + `]}`
		}
		return 200, `{"data":[]}`
	})
	p := s.drain(nil)
	if len(s.requests) != 6 || len(p.Notes) > 0 || low(t, p.Next) == 0 {
		t.Errorf("%d requests, notes %q, cursor %s", len(s.requests), p.Notes, p.Next)
	}
}

func TestARestartBetweenPassesCostsSomeAndEndsTheSame(t *testing.T) {
	n := 0
	answer := func(r *http.Request, _ string) (int, string) {
		n++
		switch r.URL.Query().Get("page") {
		case "1":
			return 200, `{"data":[` + rows(fmt.Sprintf("1@%d", 90-n), fmt.Sprintf("2@%d", 60-n)) + `]}`
		case "2":
			return 200, `{"data":[` + rows(fmt.Sprintf("3@%d", 30-n)) + `]}`
		}
		return 200, `{"data":[]}`
	}
	text := streamText("    paging: {size: 2, size_param: limit, page: {param: page}}\n")
	s := serve(t, text, answer)
	var p connectors.Page
	for range 4 { // into the second pass
		p = s.mustPull(p.Next)
	}
	s = serve(t, text, answer)
	p = s.drain(p.Next)
	if len(s.requests) != 8 || len(p.Notes) > 0 || low(t, p.Next) == 0 {
		t.Errorf("%d requests, notes %q, cursor %s", len(s.requests), p.Notes, p.Next)
	}
}

func TestAShortPageIsNotTheEndUnlessPromised(t *testing.T) {
	table := map[string]string{
		"limit=3&page=1": `{"data":[` + rows("1@9", "2@8") + `]}`, // a third one is hidden from us
		"limit=3&page=2": `{"data":[` + rows("4@6") + `]}`,
		"limit=3&page=3": `{"data":[]}`,
	}
	s := serve(t, streamText("    paging: {size: 3, size_param: limit, page: {param: page}}\n"), pages(t, table))
	if p := s.drain(nil); !strings.HasPrefix(ids(p), "1 2 4") {
		t.Errorf("ids %s", ids(p))
	}
	s = serve(t, streamText("    paging: {size: 3, size_param: limit, full_pages: true, page: {param: page}}\n"), pages(t, table))
	if p := s.drain(nil); ids(p) != "1 2" || len(s.requests) != 1 {
		t.Errorf("ids %s, requests %q", ids(p), s.requests)
	}
}

func TestOneShortPageIsReadOnce(t *testing.T) {
	s := serve(t, streamText("    paging: {size: 3, size_param: limit, page: {param: page}}\n"), pages(t, map[string]string{
		"limit=3&page=1": `{"data":[` + rows("1@9", "2@8") + `]}`,
		"limit=3&page=2": `{"data":[]}`,
	}))
	if p := s.drain(nil); ids(p) != "1 2" || len(s.requests) != 2 {
		t.Errorf("ids %s, requests %q", ids(p), s.requests)
	}
}

func TestOneFullPageIsLookedAtAgain(t *testing.T) {
	// After page one a record of it was deleted: C moved from page two to page one.
	first := true
	s := serve(t, streamText("    paging: {size: 2, size_param: limit, page: {param: page}}\n"), func(r *http.Request, _ string) (int, string) {
		switch {
		case r.URL.Query().Get("page") != "1":
			return 200, `{"data":[]}`
		case first:
			first = false
			return 200, `{"data":[` + rows("A@900", "B@800") + `]}`
		}
		return 200, `{"data":[` + rows("B@800", "C@850") + `]}`
	})
	if p := s.drain(nil); !strings.HasSuffix(ids(p), "B C") {
		t.Errorf("ids %s", ids(p))
	}
}

func TestTheServersOwnWordOnMorePagesCounts(t *testing.T) {
	s := serve(t, streamText("    paging: {more: has_more, rescan: no, offset: {param: offset}}\n"), pages(t, map[string]string{
		"offset=0": `{"has_more":true,"data":[` + rows("1@9", "2@8") + `]}`,
		"offset=2": `{"has_more":true,"data":[` + rows("3@7") + `]}`,
		"offset=3": `{"has_more":false,"data":[` + rows("4@6") + `]}`,
	}))
	if p := s.drain(nil); ids(p) != "1 2 3 4" {
		t.Errorf("ids %s", ids(p))
	}
}

func TestKeysetPagingRefusesWhatItCannotRestOn(t *testing.T) {
	keyset := streamText("    paging: {size: 2, size_param: limit, keyset: {}}\n")
	s := serve(t, keyset, always(200, `{"data":[`+rows("1@5", "2@9")+`]}`))
	_, err := s.pull(nil)
	fails(t, err, connectors.Invalid, "keyset_unsorted", "record 2 of the page")

	s = serve(t, keyset, always(200, `{"data":[`+rows("1@9", "2@5")+`]}`))
	p := s.mustPull(nil)
	_, err = s.pull(p.Next)
	fails(t, err, connectors.Invalid, "keyset_ignored", "parameter of since")

	s = serve(t, streamText("    paging: {size: 2, size_param: limit, keyset: {page_param: page}}\n"), always(200, `{"data":[`+rows("1@5", "2@5")+`]}`))
	p = s.mustPull(nil)
	p = s.mustPull(p.Next)
	_, err = s.pull(p.Next)
	fails(t, err, connectors.Invalid, "paging_repeats", "the server ignores the paging parameter")

	s = serve(t, streamText("    paging: {size: 2, size_param: limit, keyset: {max_size: 3}}\n"), always(200, `{"data":[`+rows("1@5", "2@5", "3@5", "4@5")+`]}`))
	p = s.mustPull(nil)
	p = s.mustPull(p.Next)
	p = s.mustPull(p.Next)
	_, err = s.pull(p.Next)
	fails(t, err, connectors.Invalid, "keyset_stuck", "4 records or more share one stamp")
}

func TestStampsThatTheFilterCannotTellApartAreOneGroup(t *testing.T) {
	const n = 20
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"id":%d,"at":%d.%06d}`, i, baseTime-60, i))
	}
	s := serve(t, streamText("    paging: {size: 2, size_param: limit, keyset: {page_param: page}}\n"), func(r *http.Request, _ string) (int, string) {
		page := 1
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		from := min(2*(page-1), n)
		return 200, `{"data":[` + strings.Join(all[from:min(from+2, n)], ",") + `]}`
	})
	p := s.drain(nil)
	if got := low(t, p.Next); got != (baseTime-60)*1_000_000+n-1 {
		t.Errorf("the cursor stands at %d", got)
	}
	// Twice through its pages, and once to find it; not once more for each stamp.
	if len(s.requests) > 2*(n/2+1)+1 {
		t.Errorf("%d requests for one group of %d pages", len(s.requests), n/2)
	}
}

func TestASequenceIsReadFromALittleBefore(t *testing.T) {
	text := `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: seq, format: integer}
    since: {param: after, format: integer}
    overlap_steps: 10
    paging: {size: 2, size_param: limit, keyset: {}}
`
	s := serve(t, text, pages(t, map[string]string{
		"limit=2":                        `{"data":[{"id":"a","seq":9007199254740992},{"id":"b","seq":9007199254740993}]}`,
		"after=9007199254740992&limit=2": `{"data":[{"id":"b","seq":9007199254740993}]}`,
		"after=9007199254740982&limit=2": `{"data":[]}`,
	}))
	p := s.drain(nil)
	if low(t, p.Next) != 9007199254740993 || p.Events[0].Version != 9007199254740992 || !p.Events[0].ChangedAt.IsZero() {
		t.Errorf("cursor %s, events %+v", p.Next, p.Events)
	}
	s.drain(p.Next)
}

func TestASequenceInAnyOrderMovesTheCursorOnlyAsFarAsTheFirstPageShowed(t *testing.T) {
	text := `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: seq, format: integer}
    since: {param: after, format: integer}
    paging: {cursor: {next: next, param: cursor}}
`
	s := serve(t, text, pages(t, map[string]string{
		"":         `{"data":[{"id":"a","seq":5},{"id":"b","seq":3}],"next":"x"}`,
		"cursor=x": `{"data":[{"id":"c","seq":9}]}`,
	}))
	if got := low(t, s.drain(nil).Next); got != 5 {
		t.Errorf("the cursor stands at %d; a record of the first page may have become 8 meanwhile", got)
	}
}

func TestASearchIsPostedWithItsBody(t *testing.T) {
	text := `
streams:
  records:
    list:
      path: /search/order
      method: POST
      body: {limit: "{limit}", page: "{page}", filter: [{type: range, field: at, parameters: {gte: "{since}"}}]}
    records: data
    id: [id]
    version: {path: at, format: epoch_s}
    since: {format: epoch_s, inclusive: true, all: "0"}
    paging: {size: 2, full_pages: true, page: {}}
`
	s := serve(t, text, always(200, `{"data":[`+rows("1@600")+`]}`))
	p := s.drain(nil)
	s.drain(p.Next)
	want := []string{
		`POST /api/search/order {"filter":[{"field":"at","parameters":{"gte":"0"},"type":"range"}],"limit":2,"page":1}`,
		fmt.Sprintf(`POST /api/search/order {"filter":[{"field":"at","parameters":{"gte":"%d"},"type":"range"}],"limit":2,"page":1}`, baseTime-900),
	}
	if strings.Join(s.requests, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(s.requests, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnUpperBoundIsFrozenAfterTheFirstPass(t *testing.T) {
	text := strings.Replace(streamText("    paging: {size: 1, size_param: limit, page: {param: page}}\n"), "list: {path: /records}", `list: {path: /records, query: {until: "{until}"}}`, 1)
	s := serve(t, text, func(r *http.Request, _ string) (int, string) {
		switch r.URL.Query().Get("page") {
		case "1":
			return 200, `{"data":[` + rows("1@9") + `]}`
		case "2":
			return 200, `{"data":[` + rows("2@8") + `]}`
		}
		return 200, `{"data":[]}`
	})
	s.drain(nil)
	until := fmt.Sprintf("&until=%d", baseTime+1)
	for i, r := range s.requests {
		if has := strings.HasSuffix(r, until); has != (i >= 3) {
			t.Errorf("request %d is %s", i+1, r)
		}
	}
	if len(s.requests) != 6 {
		t.Errorf("%d requests, want two passes of three", len(s.requests))
	}
}

func TestALinkHeaderIsReadAsItIsWritten(t *testing.T) {
	for _, c := range []struct {
		name, want string
		headers    []string
	}{
		{"plain", "/x?page=2", []string{`</x?page=2>; rel="next"`}},
		{"among others", "/b", []string{`</a>; rel="prev", </b>; rel=next, </c>; rel="last"`}},
		{"in a second header", "/b", []string{`</a>; rel="prev"`, `</b>; rel="next"`}},
		{"commas and semicolons inside", "/b?x=1,2;3", []string{`</a,b>; rel="prev"; title="a, b; rel=next", </b?x=1,2;3>; title="\"x\", y"; REL="nofollow Next"`}},
		{"none", "", []string{`</a>; rel="prev"`, `rubbish`, `<unclosed`, ``}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := nextLink(c.headers); err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	if _, err := nextLink([]string{"<" + strings.Repeat("x", maxLink+1) + `>; rel="next"`}); err == nil {
		t.Error("an endless link was taken")
	}
}

func TestACursorIsBoundedWhateverTheServerSends(t *testing.T) {
	s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), always(200, `{"data":[],"next":"`+strings.Repeat("x", maxLink+1)+`"}`))
	_, err := s.pull(nil)
	fails(t, err, connectors.Transient, "more than 8192")

	n := 0
	s = serve(t, streamText("    paging: {size: 1000, size_param: limit, total: total, page: {param: page}}\n"), func(*http.Request, string) (int, string) {
		var l []string
		for range 1000 {
			n++
			l = append(l, fmt.Sprintf("record-%d@%d", n, 99999-n))
		}
		return 200, `{"total":99999,"data":[` + rows(l...) + `]}`
	})
	var p connectors.Page
	for range 5 {
		if p = s.mustPull(p.Next); len(p.Next) > maxCursor {
			t.Fatalf("a cursor of %d bytes", len(p.Next))
		}
	}
}
