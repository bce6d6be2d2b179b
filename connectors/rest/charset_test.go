package rest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

const unreadable = "M\xfcller" // ISO 8859-1, and nobody says so

func TestRecordWhoseBytesNobodyCanReadIsKeptApartFromItsPage(t *testing.T) {
	text := strings.Replace(unpaged, "id: [id]", "id: [id]\n    deleted: {path: deleted}", 1)
	answer := `{"data":[{"id":1,"name":"` + unreadable + `"},{"id":2,"name":"Müller"},{"id":3,"name":"\ufffd"},{"id":4,"na` + "\xe9" + `me":1},{"id":5,"name":"` + unreadable + `","deleted":true},{"id":"` + unreadable + `"}],"note":"` + unreadable + `"}`
	s := serve(t, text, always(200, answer))
	var got []string
	for _, e := range s.drain(nil).Events {
		got = append(got, fmt.Sprintf("%s gone=%t %.32s", e.SourceID, e.Gone, e.Problem))
		if e.Problem == "" && !e.Gone && strings.Contains(string(e.Body), "\uFFFD") {
			t.Errorf("a damaged text is handed out: %s", e.Body)
		}
	}
	want := []string{"1 gone=false the record holds bytes that are ", "2 gone=false ", "3 gone=false ", "4 gone=false the record holds bytes that are ",
		"5 gone=true ", " gone=false the id at id holds U+FFFD as its"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	s.header.Set("Content-Type", "application/json; charset=ISO-8859-1")
	for _, e := range s.drain(nil).Events[:1] {
		if e.Problem != "" || !strings.Contains(string(e.Body), `"Müller"`) {
			t.Errorf("with its charset named: %s, %s", e.Body, e.Problem)
		}
	}
	s.header.Set("Content-Type", "application/json; charset=ebcdic-cp-de")
	_, err := s.pull(nil)
	fails(t, err, connectors.Transient, "charset", "have the server send UTF-8")
}

func TestCursorWhoseBytesNobodyCanReadIsNotFollowed(t *testing.T) {
	s := serve(t, streamText("    paging: {cursor: {next: next, param: cursor}}\n"), always(200, `{"data":[{"id":1}],"next":"`+unreadable+`"}`))
	_, err := s.pull(nil)
	fails(t, err, connectors.Transient, "answer_shape", "not UTF-8")
}

func TestAnswerAboutOneRecordThatIsNotUTF8IsRefused(t *testing.T) {
	answer := `{"id":"1","ref":"` + unreadable + `","orders":[{"id":"1","ref":"` + unreadable + `"}]}`
	reads := map[string]func(*script) error{
		"fetch": func(s *script) error {
			_, err := s.instance.Source().Fetch(t.Context(), "records", "1")
			return err
		},
		"look-up": func(s *script) error {
			e, err := s.instance.Target().Entity("things")
			if err != nil {
				t.Fatal(err)
			}
			found, err := connectors.PrimitivesOf(e).Finder.Find(t.Context(), connectors.Write{Key: "Müller"})
			if err == nil && len(found) == 0 {
				t.Error("a record that is there is not found")
			}
			return err
		},
	}
	const text = `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    paging: none
    fetch: {path: "/records/{id}"}
entities:
  things:
    create: {path: /orders, key_field: ref, id: id}
    lookup: {path: /orders, query: {q: "{key}"}, records: orders, id: id, key_field: ref, match: partial}
`
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			s := serve(t, text, always(200, answer))
			fails(t, read(s), connectors.Transient, "not_utf8", "have the server send UTF-8, or name its charset")
			s.header.Set("Content-Type", "application/json; charset=iso-8859-1")
			if err := read(s); err != nil {
				t.Error(err)
			}
			s.header.Set("Content-Type", "application/json; charset=unheard-of")
			fails(t, read(s), connectors.Transient, "charset")
		})
	}
}

func TestNothingOfARecordIsLoggedAtAnyLevel(t *testing.T) {
	const marker = "Mustermann"
	body, status := "", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" && status >= 400 {
			_, _ = w.Write([]byte(`{"data":[{"id":1}],"next":"c"}`))
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	for _, b := range []string{marker, "<p>" + marker, `{"data":[{"id":1,"x":"` + marker, `{"error":"` + marker + `"}`, `{"message":"the cursor of ` + marker + `"}`, "[" + marker} {
		for _, n := range []int{200, 400, 404, 410, 500} {
			body, status = b, n
			var log bytes.Buffer
			i, err := settings(t, "url: "+server.URL+"\n"+streamText("    paging: {cursor: {next: next, param: cursor}}\n")).Open(t.Context(), connectors.Env{
				Client: "shop", Gate: &openGate{}, Timeout: 20 * time.Second, Concurrency: 1, Now: func() time.Time { return started },
				Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if err != nil {
				t.Fatal(err)
			}
			req := connectors.PullRequest{Stream: "records", Start: connectors.Start{All: true}, Limit: 100}
			for range 3 {
				p, err := i.Source().Pull(t.Context(), req)
				if err != nil {
					break
				}
				req.Cursor = p.Next
				log.WriteString(strings.Join(p.Notes, "\n")) // the daemon logs them
			}
			_ = i.Close()
			if strings.Contains(log.String(), marker) {
				t.Errorf("%d, %q: %s", n, b, &log)
			}
		}
	}
}
