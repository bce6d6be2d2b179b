package rest

import (
	"net/http"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestARefusalInsideA200IsARefusalOfTheWrite(t *testing.T) {
	const text = `
answers: {error: errors, code: errors.0.code, codes: {THROTTLED: throttled, TAKEN: duplicate, TIMEOUT: transient}}
`
	create := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Creator.Create(t.Context(), write("A-1", "", `{}`))
	}
	update := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Updater.Update(t.Context(), write("A-1", "12", `{}`))
	}
	put := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Upserter.Upsert(t.Context(), []connectors.Write{write("A-1", "", `{}`)})[0]
	}
	for way, w := range map[string]struct {
		yaml string
		do   func(*script) connectors.Outcome
	}{"create": {things, create}, "update": {things, update}, "put": {puts, put}} {
		for _, c := range []struct {
			name, body string
			class      connectors.Class
			message    string
		}{
			{"of a field", `{"order":null,"errors":[{"field":["note"],"message":"is too long"}]}`, connectors.Invalid, "note: is too long"},
			{"beside a record", `{"order":{"id":12},"id":12,"errors":[{"code":"BAD","message":"is too long"}]}`, connectors.Invalid, "is too long"},
			{"for quota", `{"errors":[{"code":"THROTTLED","message":"slow down"}]}`, connectors.Throttled, "slow down"},
			{"with a word that is no code", `{"errors":[{"message":"Throttled"}]}`, connectors.Invalid, "Throttled"},
			{"of a search that timed out", `{"errors":[{"code":"TIMEOUT","message":"search"}]}`, connectors.Transient, "search"},
			{"none", `{"order":{"id":12},"id":12,"errors":[]}`, connectors.Applied, ""},
		} {
			t.Run(way+", "+c.name, func(t *testing.T) {
				s := serve(t, text+w.yaml, always(200, c.body))
				o := w.do(s)
				if o.Class != c.class || !strings.Contains(o.Message, c.message) {
					t.Errorf("%+v", o)
				}
				if !o.Class.Confirmed() && o.Link != "" {
					t.Errorf("a refused write has the link %s", o.Link)
				}
				if (s.gate.throttled > 0) != (c.class == connectors.Throttled) {
					t.Errorf("the gate was told of %d refusals for quota", s.gate.throttled)
				}
			})
		}
	}
}

func TestOneStatusMeansWhatItsCodeSays(t *testing.T) {
	const text = `
answers: {code: errors.0.reason, codes: {timeout: transient}}
` + things
	for body, want := range map[string]connectors.Class{
		`{"errors":[{"code":"search","reason":"timeout"}]}`: connectors.Transient,
		`{"errors":{"email":["is invalid"]}}`:               connectors.Invalid,
	} {
		s := serve(t, text, always(422, body))
		if o := connectors.PrimitivesOf(thing(t, s)).Updater.Update(t.Context(), write("A-1", "12", `{}`)); o.Class != want {
			t.Errorf("%s: %+v", body, o)
		}
	}
}

func TestAnEmptyListingDeletesNothing(t *testing.T) {
	for name, paging := range map[string]string{
		"not paged": "none", "pages": "{size: 2, size_param: limit, page: {param: page}}", "cursors": "{cursor: {next: next, param: cursor}}",
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"data":[` + rows("1@900", "2@800", "3@700") + `]}`
			s := serve(t, streamText("    paging: "+paging+"\n"), nil)
			asked := 0
			s.answer = func(*http.Request, string) (int, string) {
				if asked++; asked > 1 && name == "pages" {
					return 200, `{"data":[]}`
				}
				return 200, body
			}
			p := s.drain(nil)
			before := low(t, p.Next)
			body = `{"data":[]}`
			p = s.drain(p.Next)
			for _, e := range p.Events {
				if e.Gone {
					t.Errorf("record %s is gone because a listing left it out", e.SourceID)
				}
			}
			if got := low(t, p.Next); got != before {
				t.Errorf("the cursor moved from %d to %d over a listing of nothing", before, got)
			}
		})
	}
}

func TestSeveralRecordsUnderOneKeyAreNotWritten(t *testing.T) {
	s := serve(t, puts, always(300, `["/items/31","/items/32"]`))
	o := connectors.PrimitivesOf(thing(t, s)).Upserter.Upsert(t.Context(), []connectors.Write{write("A-1", "", `{}`)})[0]
	if o.Class != connectors.Invalid || o.Code != "ambiguous" || !strings.Contains(o.Message, "/items/31; /items/32") || len(s.requests) != 1 {
		t.Errorf("%+v after %d requests", o, len(s.requests))
	}
}

func TestRefusalForQuotaIsKnownByTheHeadersOfTheAPI(t *testing.T) {
	for _, c := range []struct {
		quota, header, value string
		class                connectors.Class
	}{
		{"", "X-RateLimit-Remaining", "0", connectors.Throttled},
		{"quota_headers: x_ratelimit\n", "X-RateLimit-Remaining-Minute", "0", connectors.Throttled},
		{"", "X-RateLimit-Remaining", "7", connectors.Auth},
		{"quota_headers: retry_after\n", "X-RateLimit-Remaining", "0", connectors.Auth}, // microseconds, perhaps
	} {
		s := serve(t, c.quota+things, always(403, `{}`))
		s.header.Set(c.header, c.value)
		o := connectors.PrimitivesOf(thing(t, s)).Creator.Create(t.Context(), write("A-1", "", `{}`))
		if o.Class != c.class || (s.gate.throttled > 0) != (c.class == connectors.Throttled) {
			t.Errorf("%s%s: %s: the gate was told of %d refusals, and %+v", c.quota, c.header, c.value, s.gate.throttled, o)
		}
	}
}
