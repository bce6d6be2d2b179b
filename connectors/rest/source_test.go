package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

const unpaged = `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: updated_at}
    paging: none
    fetch: {path: "/records/{id}"}
`

func always(status int, text string) func(*http.Request, string) (int, string) {
	return func(*http.Request, string) (int, string) { return status, text }
}

func TestRecordsWithoutAStampArriveAndDoNotMoveTheCursor(t *testing.T) {
	s := serve(t, unpaged, always(200, `{"data":[{"id":1,"updated_at":"2026-11-29T09:00:00Z"},{"id":2},{"id":3,"updated_at":null},{"id":4,"updated_at":""}]}`))
	p := s.drain(nil)
	if ids(p) != "1 2 3 4" {
		t.Errorf("ids %s", ids(p))
	}
	if got := low(t, p.Next); got != micros(t, "2026-11-29T09:00:00Z") {
		t.Errorf("the cursor stands at %s", timeOf(got))
	}
}

func TestABadRecordFailsAloneAndKeepsItsID(t *testing.T) {
	s := serve(t, unpaged, always(200, `{"data":[
		{"id":1}, {"id":2,"updated_at":"29/11/2026"}, {"name":"nameless"}, {"id":null}, {"id":{"x":1}}, 7, {"id":3,"id":4},
		{"id":"9007199254740993"}, {"id":9007199254740993}, {"id":12345678901234567890123}, {"id":"gid://shop/Order/55"}]}`))
	p := s.drain(nil)
	var got []string
	for _, e := range p.Events {
		got = append(got, fmt.Sprintf("%s|%s", e.SourceID, e.Problem))
	}
	want := []string{
		"1|",
		`2|version: updated_at: "29/11/2026" is not a time such as 1970-01-01T00:00:00Z; a time needs a numeric offset or Z, the abbreviation of a zone is not enough`,
		"|the record has no id at id",
		"|the record has no id at id",
		"|the id at id is an object, not a text or a number",
		"|the record is a number, not an object",
		`|id: id: "id" stands twice in one object`,
		"9007199254740993|",
		"9007199254740993|",
		"12345678901234567890123|",
		"gid://shop/Order/55|",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if string(p.Events[9].Body) != `{"id":12345678901234567890123}` {
		t.Errorf("body %s", p.Events[9].Body)
	}
}

func TestFetchedRecordBearsTheServersTime(t *testing.T) {
	for _, date := range []string{started.Format(http.TimeFormat), ""} {
		s := serve(t, unpaged, always(200, `{"id":"x","updated_at":"2026-11-29T23:00:00Z"}`))
		want := started
		if s.header = (http.Header{"Date": {date}}); date == "" {
			s.header, want = http.Header{"Date": nil}, time.Time{}
		}
		e, err := s.instance.Source().Fetch(t.Context(), "records", "x")
		if err != nil || !e.ServerTime.Equal(want) {
			t.Errorf("Date %q: the server's time is %s, %v", date, e.ServerTime, err)
		}
	}
}

func TestIDThatCannotBeOneIsItsRecordsProblem(t *testing.T) {
	s := serve(t, strings.NewReplacer("id: [id]", "id: [id, part]", `    fetch: {path: "/records/{id}"}`, "").Replace(unpaged), always(200, `{"data":[
		{"id":1,"part":"a"}, {"id":" ","part":"a"}, {"id":1,"part":"\u200b"}, {"id":"\ufeff1","part":"a"}, {"id":1,"part":"a\n"}, {"id":" 1 ","part":"a b"},
		{"id":"gr\u00fcn","part":"`+"\xff"+`"}]}`))
	var got []string
	for _, e := range s.drain(nil).Events {
		got = append(got, fmt.Sprintf("%s|%s", e.SourceID, e.Problem))
	}
	want := []string{
		"1:a|",
		"|the record has no id at id",
		"|the record has no id at part",
		"|the id at id holds a character that cannot be seen, U+FEFF as its byte 1; correct it at the source",
		"|the id at part holds a character that cannot be seen, U+000A as its byte 2; correct it at the source",
		" 1 :a b|",
		"|the id at part holds U+FFFD as its byte 1, which stands for a character that could not be read; correct the encoding at the source",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestListingsThatAreNotListings(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		class  connectors.Class // "" for a page
		want   string
	}{
		{"no content is the end", 204, "", "", ""},
		{"an empty body under 200 may be a cut answer", 200, "", connectors.Transient, "empty body"},
		{"null is an empty list", 200, `{"data":null}`, "", ""},
		{"an object with numbers is a list", 200, `{"data":{"0":{"id":1},"2":{"id":3}}}`, "", "1 3"},
		{"an object is no list", 200, `{"data":{"id":1}}`, connectors.Transient, `records: data: expected a list, not an object with the member "id"`},
		{"nothing where the list should be", 200, `{"items":[]}`, connectors.Transient, "nothing at records: data"},
		{"a page of HTML", 200, "<html>Scheduled maintenance</html>", connectors.Transient, "not one JSON value"},
		{"rubbish after the list", 200, `{"data":[]}<br />PHP Notice`, connectors.Transient, "not one JSON value"},
		{"a byte-order mark", 200, "\xef\xbb\xbf" + `{"data":[{"id":1}]}`, "", "1"},
		{"an error with words", 400, `{"error":"INVALID_PARAMETER","detail":"2026-11-29 is not a date in the format dd/MM/yy"}`, connectors.Invalid, "INVALID_PARAMETER"},
		{"a conflict is not ours to solve", 409, `{}`, connectors.Transient, "409"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, unpaged, always(c.status, c.body))
			p, err := s.pull(nil)
			if c.class != "" {
				fails(t, err, c.class, c.want, "list records")
				return
			}
			if err != nil || ids(p) != c.want || p.More {
				t.Errorf("ids %q, more %v, %v; want %q", ids(p), p.More, err, c.want)
			}
		})
	}
}

func TestTheCursorStaysBehindTheServersClockAndTheStartOfTheReading(t *testing.T) {
	one := `{"data":[{"id":1,"updated_at":"2026-11-29T09:59:50Z"}]}`
	s := serve(t, strings.Replace(unpaged, "paging: none", "paging: none\n    settle: 1m", 1), always(200, one))
	if got := low(t, s.drain(nil).Next); got != micros(t, "2026-11-29T09:59:00Z") {
		t.Errorf("with settle 1m the cursor stands at %s", timeOf(got))
	}
	s = serve(t, unpaged, always(200, strings.Replace(one, "09:59:50", "23:00:00", 1)))
	p := s.drain(nil)
	if got := low(t, p.Next); got != started.UnixMicro() {
		t.Errorf("after a stamp in the future the cursor stands at %s", timeOf(got))
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "after the server's own clock") {
		t.Errorf("notes %q", p.Notes)
	}
	s.header = http.Header{"Date": nil}
	if got := low(t, s.drain(nil).Next); got != micros(t, "2026-11-29T23:00:00Z") {
		t.Errorf("without a Date the cursor stands at %s", timeOf(got))
	}
}

func TestACursorLeftInTheFutureIsSetBack(t *testing.T) {
	s := serve(t, unpaged, always(200, `{"data":[{"id":1,"updated_at":"2026-11-29T09:59:50Z"}]}`))
	p := s.drain(json.RawMessage(`{"v":1,"unit":"us","low":` + fmt.Sprint(micros(t, "2027-01-01T00:00:00Z")) + `}`))
	if got := low(t, p.Next); got != started.UnixMicro() {
		t.Errorf("the cursor stands at %s", timeOf(got))
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "backfill") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestOneRecordIsFetchedByItsEscapedID(t *testing.T) {
	status, text := 200, `{"id":"a/b?","updated_at":"2026-11-29T09:00:00Z"}`
	s := serve(t, unpaged, func(*http.Request, string) (int, string) { return status, text })
	src := s.instance.Source()
	e, err := src.Fetch(t.Context(), "records", "a/b?")
	if err != nil || e.SourceID != "a/b?" || e.Version != micros(t, "2026-11-29T09:00:00Z") {
		t.Errorf("%+v, %v", e, err)
	}
	if s.requests[0] != "GET /api/records/a%2Fb%3F" {
		t.Errorf("request %s", s.requests[0])
	}
	for _, c := range []struct {
		name   string
		status int
		text   string
		class  connectors.Class // "" for gone
	}{
		{"the API says there is none", 404, `{"error":"not found"}`, ""},
		{"gone, without a word", 410, ``, ""},
		{"a page of HTML proves nothing", 404, `<html>404</html>`, connectors.Invalid},
		{"another record", 200, `{"id":"other"}`, connectors.Transient},
		{"nothing", 200, `null`, connectors.Transient},
		{"no content", 204, ``, connectors.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text = c.status, c.text
			e, err := src.Fetch(t.Context(), "records", "x")
			if c.class != "" {
				fails(t, err, c.class, "fetch records x")
			} else if err != nil || !e.Gone || e.SourceID != "x" {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func TestErrorsInsideAnAnswerAreErrors(t *testing.T) {
	const text = `
answers: {error: error, code: error.code, codes: {THROTTLED: throttled, SLEEPING: transient}}
` + unpaged
	body := ""
	s := serve(t, text, func(*http.Request, string) (int, string) { return 200, body })
	body = `{"error":{"code":"THROTTLED","message":"Throttled"}}`
	_, err := s.pull(nil)
	fails(t, err, connectors.Throttled)
	if s.gate.throttled != 1 {
		t.Error("the gate was not told")
	}
	body = `{"error":{"code":"SLEEPING","message":"the shop is being restored"}}`
	_, err = s.pull(nil)
	fails(t, err, connectors.Transient, "SLEEPING", "the shop is being restored")
	body = `{"error":{"code":"BAD_FIELD","message":"Throttled"}}`
	_, err = s.pull(nil)
	fails(t, err, connectors.Invalid, "BAD_FIELD")
	if s.gate.throttled != 1 {
		t.Error("the word Throttled without the code was taken for a refusal for quota")
	}
	body = `{"error":null,"data":[{"id":1}]}`
	if p, err := s.pull(nil); err != nil || ids(p) != "1" {
		t.Errorf("%s, %v", ids(p), err)
	}
}

// A server that refuses calls for those under way at one time and words it in a body:
// the gate is told so.
func TestARefusalForCallsAtOneTimeIsToldAsOne(t *testing.T) {
	const text = `
quota_headers: netsuite
answers: {code: error.code, codes: {SSS_REQUEST_LIMIT_EXCEEDED: throttled}}
` + unpaged
	s := serve(t, text, always(400, `{"error":{"code":"SSS_REQUEST_LIMIT_EXCEEDED","message":"Request Limit Exceeded"}}`))
	_, err := s.pull(nil)
	fails(t, err, connectors.Throttled)
	if s.gate.throttled != 1 || s.gate.atOnce != 1 {
		t.Errorf("the gate was told of %d refusals, %d of them for calls at one time, want 1 and 1", s.gate.throttled, s.gate.atOnce)
	}
}

func TestCodeThatIsNoNameIsLeftOutRatherThanMadeFit(t *testing.T) {
	body := ""
	s := serve(t, "answers: {error: error, code: error.code}\n"+unpaged, func(*http.Request, string) (int, string) { return 200, body })
	for code, want := range map[string]string{
		"BAD_FIELD": "BAD_FIELD", "orders/not-found.1": "orders/not-found.1", "Duplicate key": "refused", "p/w+d=x": "refused",
		"": "refused", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): "refused",
	} {
		body = `{"error":{"code":` + strconv.Quote(code) + `,"message":"no"}}`
		_, err := s.pull(nil)
		if e := withOp(err, ""); e.Code != want || e.Message != "no" {
			t.Errorf("%q became %+v", code, e.Outcome)
		}
	}
}

func TestAStartDateNeedsTimes(t *testing.T) {
	s := serve(t, strings.Replace(unpaged, "version: {path: updated_at}", "", 1), always(200, `{"data":[]}`))
	_, err := s.instance.Source().Pull(t.Context(), connectors.PullRequest{Stream: "records", Start: connectors.Start{From: started}})
	fails(t, err, connectors.Invalid, "tells no times", "use start: all")
	if len(s.requests) > 0 {
		t.Error("a request was sent")
	}
}

func TestAVersionOfZeroIsNotAMissingOne(t *testing.T) {
	s := serve(t, strings.Replace(unpaged, "version: {path: updated_at}", "version: {path: v, format: integer}", 1),
		always(200, `{"data":[{"id":"zero","v":0},{"id":"below","v":-5},{"id":"null","v":null},{"id":"none"}]}`))
	p, err := s.pull(nil)
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, e := range p.Events {
		if e.HasVersion() {
			has = append(has, fmt.Sprint(e.SourceID, " ", e.Version))
		}
	}
	if got := strings.Join(has, ", "); got != "zero 0, below -5" {
		t.Errorf("with a version: %s", got)
	}
}

func TestAStartInTheSourcesFutureIsBroughtBack(t *testing.T) {
	stamp := "2026-11-29T10:03:00Z"
	s := serve(t, unpaged, func(*http.Request, string) (int, string) {
		return 200, `{"data":[{"id":1,"updated_at":"2026-11-29T09:00:00Z"},{"id":2,"updated_at":"` + stamp + `"}]}`
	})
	// Our clock is ten minutes fast, so that "now" is later than the record's change.
	p, err := s.instance.Source().Pull(t.Context(), connectors.PullRequest{Stream: "records", Start: connectors.Start{From: started.Add(10 * time.Minute)}})
	if err != nil || ids(p) != "2" {
		t.Errorf("ids %q, %v; the first is older than the start, the second is not", ids(p), err)
	}
}

func TestACursorOfAnotherUnitIsRefused(t *testing.T) {
	s := serve(t, unpaged, always(200, `{"data":[]}`))
	_, err := s.pull(json.RawMessage(`{"v":1,"unit":"seq","low":17}`))
	fails(t, err, connectors.Invalid, "cursor_unit", "new start")
	_, err = s.pull(json.RawMessage(`{"v":2}`))
	fails(t, err, connectors.Invalid, "cursor_unreadable")
}
