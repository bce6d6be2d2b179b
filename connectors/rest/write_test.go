package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"syncd/connectors"
)

const things = `
entities:
  things:
    create: {path: /orders, wrap: order, key_field: refs.syncd, record: order, id: id}
    lookup: {path: /orders, query: {ref: "{key}", archived: any}, records: orders, id: id, key_field: refs.syncd, archived: {path: state, values: [archived]}}
    update: {path: "/orders/{link}", wrap: order, record: order}
    remove: {delete: "/orders/{link}", archive: {path: "/orders/{link}/archive", method: POST}}
    version_field: custom.version
    unsent: [state]
`

const puts = `
entities:
  things:
    put: {path: "/items/{key}", key_field: sku, id: id}
`

func thing(t testing.TB, s *script) connectors.Entity {
	t.Helper()
	e, err := s.instance.Target().Entity("things")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func write(key, link, body string) connectors.Write {
	return connectors.Write{Key: key, Link: link, Body: json.RawMessage(body), Stamp: connectors.Stamp{Version: 1795946400123456}}
}

func TestARecordIsSentWithItsKeyAndVersionAndEveryDigit(t *testing.T) {
	s := serve(t, things, always(201, `{"order":{"id":9007199254740993,"refs":{"syncd":"A-1"}}}`))
	o := connectors.PrimitivesOf(thing(t, s)).Creator.Create(t.Context(), write("A-1", "", `{"total":10.00,"n":12345678901234567890,"state":"confirmed","refs":{"shop":"x"}}`))
	if o.Class != connectors.Applied || o.Link != "9007199254740993" {
		t.Errorf("%+v", o)
	}
	want := `POST /api/orders {"order":{"custom":{"version":1795946400123456},"n":12345678901234567890,"refs":{"shop":"x","syncd":"A-1"},"total":10.00}}`
	if s.requests[0] != want {
		t.Errorf("sent %s\nwant %s", s.requests[0], want)
	}
}

func TestAnUpdateSendsTheKeyAsTheCreateDid(t *testing.T) {
	const flat = `
entities:
  things:
    create: {path: /orders, key_field: ref, id: id}
    update: {path: "/orders/{link}", method: METHOD}
`
	for _, c := range []struct{ method, body, want string }{
		{"PATCH", `{"ref":17,"n":1}`, `{"n":1,"ref":"17"}`},
		{"PATCH", `{"ref":null,"n":1}`, `{"n":1,"ref":"17"}`},
		{"PATCH", `{"n":1}`, `{"n":1}`}, // some servers refuse a reference that is sent again
		{"PUT", `{"ref":17,"n":1}`, `{"n":1,"ref":"17"}`},
		{"PUT", `{"n":1}`, `{"n":1,"ref":"17"}`}, // what is not sent would be emptied
	} {
		s := serve(t, strings.ReplaceAll(flat, "METHOD", c.method), always(200, `{"id":7}`))
		o := connectors.PrimitivesOf(thing(t, s)).Updater.Update(t.Context(), write("17", "7", c.body))
		if want := c.method + " /api/orders/7 " + c.want; o.Class != connectors.Applied || s.requests[0] != want {
			t.Errorf("%+v\nsent %s\nwant %s", o, s.requests[0], want)
		}
	}
}

func TestAnAnswerMustBeAboutTheRecordThatWasSent(t *testing.T) {
	create := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Creator.Create(t.Context(), write("A-1", "", `{}`))
	}
	update := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Updater.Update(t.Context(), write("A-1", "12", `{}`))
	}
	put := func(s *script) connectors.Outcome {
		return connectors.PrimitivesOf(thing(t, s)).Upserter.Upsert(t.Context(), []connectors.Write{write("A-1", "", `{}`)})[0]
	}
	for _, c := range []struct {
		name, yaml string
		do         func(*script) connectors.Outcome
		status     int
		body       string
		class      connectors.Class
		code, link string
	}{
		{"create", things, create, 200, `{"order":{"id":"gid-7"}}`, connectors.Applied, "", `"gid-7"`},
		{"create answered with a list, as after a redirect", things, create, 200, `[{"id":1},{"id":2}]`, connectors.Unknown, "no_record", ""},
		{"create answered with another record", things, create, 200, `{"order":{"id":7,"refs":{"syncd":"A-2"}}}`, connectors.Unknown, "foreign_answer", ""},
		{"create answered without an id", things, create, 200, `{"order":{"refs":{"syncd":"A-1"}}}`, connectors.Unknown, "no_id", ""},
		{"create answered with a null id", things, create, 200, `{"order":{"id":null}}`, connectors.Unknown, "no_id", ""},
		{"create answered with nothing", things, create, 204, ``, connectors.Unknown, "no_record", ""},
		{"create answered with an empty 200", things, create, 200, ``, connectors.Unknown, "empty_body", ""},
		{"create answered with a warning in front", things, create, 200, `<br />Warning` + `{"order":{"id":7}}`, connectors.Unknown, "not_json", ""},
		{"update", things, update, 200, `{"order":{"id":"12"}}`, connectors.Applied, "", "12"},
		{"update answered with another record", things, update, 200, `{"order":{"id":13}}`, connectors.Unknown, "foreign_answer", ""},
		{"put", puts, put, 200, `{"id":5,"sku":"A-1"}`, connectors.Applied, "", "5"},
		{"put answered with a number for the key", strings.ReplaceAll(puts, "id: id", "record: ."), put, 200, `{"sku":17}`, connectors.Unknown, "foreign_answer", ""},
		{"put answered without anything that names the record", strings.ReplaceAll(puts, ", id: id", ""), put, 200, `{}`, connectors.Unknown, "no_key", ""},
		{"put with answers that nobody reads", strings.ReplaceAll(puts, "id: id", "answer: none"), put, 204, ``, connectors.Applied, "", ""},
		{"put with an answer of HTML that nobody reads", strings.ReplaceAll(puts, "id: id", "answer: none"), put, 200, `<html>maintenance</html>`, connectors.Unknown, "not_json", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.yaml, always(c.status, c.body))
			o := c.do(s)
			if o.Class != c.class || o.Code != c.code || o.Link != c.link {
				t.Errorf("%+v; want %s, %q, link %s", o, c.class, c.code, c.link)
			}
		})
	}
}

func TestRefusalsAreClassifiedByCodeThenByStatus(t *testing.T) {
	const text = `
answers:
  code: error.code
  codes: {SSS_REQUEST_LIMIT_EXCEEDED: throttled, DUP_RCRD: duplicate, POSTED: frozen, ROLLED_BACK: transient, NO_ACCESS: auth}
  statuses: {"418": throttled}
` + things + `    codes: {NO_ACCESS: invalid}
`
	for _, c := range []struct {
		name      string
		status    int
		body      string
		class     connectors.Class
		code      string
		message   string
		duplicate bool
	}{
		{"throttled behind a 400", 400, `{"error":{"code":"SSS_REQUEST_LIMIT_EXCEEDED"}}`, connectors.Throttled, "SSS_REQUEST_LIMIT_EXCEEDED", "", false},
		{"throttled by a status of its own", 418, `{}`, connectors.Throttled, "throttled", "", false},
		{"duplicate behind a 500", 500, `{"error":{"code":"DUP_RCRD","message":"exists"}}`, connectors.Conflict, "DUP_RCRD", "exists", true},
		{"frozen", 400, `{"error":{"code":"POSTED","message":"already posted"}}`, connectors.Frozen, "POSTED", "already posted", false},
		{"rolled back", 500, `{"error":{"code":"ROLLED_BACK"}}`, connectors.Transient, "ROLLED_BACK", "", false},
		{"the entity's own meaning goes first", 403, `{"error":{"code":"NO_ACCESS"}}`, connectors.Invalid, "NO_ACCESS", "", false},
		{"unknown code", 422, `{"error":{"code":"WHATEVER","message":"is too long"}}`, connectors.Invalid, "http_422", "is too long", true},
		{"fields", 422, `{"errors":{"sku":["has already been taken"]}}`, connectors.Invalid, "http_422", "sku: has already been taken", true},
		{"conflict", 409, `{"errors":"taken"}`, connectors.Conflict, "http_409", "taken", true},
		{"server error", 500, `{"errors":[{"message":"oops","field":["order","lines"]}]}`, connectors.Unknown, "http_500", "order.lines: oops", true},
		{"plain refusal of the client", 403, `{"error":"plan limit"}`, connectors.Auth, "http_403", "plan limit", false},
		{"page of a proxy", 404, `<html>`, connectors.Invalid, "http_404", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, text, always(c.status, c.body))
			o := connectors.PrimitivesOf(thing(t, s)).Creator.Create(t.Context(), write("A-1", "", `{}`))
			if o.Class != c.class || o.Code != c.code || o.MaybeDuplicate != c.duplicate || !strings.HasSuffix(o.Message, c.message) {
				t.Errorf("%+v", o)
			}
			if (s.gate.throttled > 0) != (c.class == connectors.Throttled) {
				t.Errorf("the gate was told of %d refusals for quota", s.gate.throttled)
			}
		})
	}
}

func TestMessagesAreFoundInEveryShape(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":"Not Found"}`: "Not Found",
		`{"errors":{"sku":["has already been taken"],"name":["is"]}}`: "sku: has already been taken; name: is",
		`{"errors":[{"message":"Throttled"}]}`:                        "Throttled",
		`{"error":"plan limit"}`:                                      "plan limit",
		`{"error":{"type":"x","message":"no\nsuch   thing"}}`:         "no such thing",
		`{"error":true,"message":"invalid e-mail"}`:                   "invalid e-mail",
		`{"title":"Bad","detail":"the date is wrong"}`:                "the date is wrong",
		`{"errors":[{"path":["a",0],"detail":"odd"}]}`:                "a: odd",
		`"just a text"`: "just a text",
		`{"message":"` + strings.Repeat("x", 400) + `"}`: strings.Repeat("x", 300) + "…",
		`{"errors":[]}`: "",
		`[1,2]`:         "",
		`{"errors":{"a":{"b":{"c":{"d":"too deep"}}}}}`: "",
	} {
		if got := new(answerSettings).message(raw(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestALookUpBelievesOnlyTheExactKey(t *testing.T) {
	find := func(t *testing.T, yaml string, status int, body string) ([]connectors.Found, error) {
		s := serve(t, yaml, always(status, body))
		l, err := connectors.PrimitivesOf(thing(t, s)).Finder.Find(t.Context(), connectors.Write{Key: "A-1"})
		if err == nil && s.requests[0] != "GET /api/orders?archived=any&ref=A-1" && !strings.Contains(yaml, "/orders/{key}") {
			t.Errorf("asked %s", s.requests[0])
		}
		return l, err
	}
	partial := strings.Replace(things, "archived: {path", "match: partial, size: 3, archived: {path", 1)
	single := strings.Replace(things, `lookup: {path: /orders, query: {ref: "{key}", archived: any}, records: orders`, `lookup: {path: "/orders/{key}", records: order`, 1)
	rec := func(id, key string) string { return `{"id":` + id + `,"refs":{"syncd":"` + key + `"}}` }
	for _, c := range []struct {
		name, yaml string
		status     int
		body       string
		links      string
		class      connectors.Class
		words      string
	}{
		{"none", things, 200, `{"orders":[]}`, "", "", ""},
		{"no content", things, 204, ``, "", "", ""},
		{"one", things, 200, `{"orders":[` + rec("7", "A-1") + `]}`, "7", "", ""},
		{"two", things, 200, `{"orders":[` + rec("31", "A-1") + `,` + rec("32", "A-1") + `]}`, "31 32", "", ""},
		{"the filter is ignored", things, 200, `{"orders":[` + rec("1", "X") + `,` + rec("2", "Y") + `]}`, "", connectors.Invalid, "the server ignores the filter"},
		{"the filter is ignored, and ours is there by chance", things, 200, `{"orders":[` + rec("1", "X") + `,` + rec("7", "A-1") + `]}`, "7", "", ""},
		{"the key was stored in small letters", things, 200, `{"orders":[` + rec("1", "a-1") + `]}`, "", connectors.Invalid, "changes keys"},
		{"the filter finds parts", partial, 200, `{"orders":[` + rec("1", "A-10") + `,` + rec("2", "A-11") + `]}`, "", "", ""},
		{"the filter finds too many parts", partial, 200, `{"orders":[` + rec("1", "A-10") + `,` + rec("2", "A-11") + `,` + rec("3", "A-12") + `]}`, "", connectors.Invalid, "there may be more"},
		{"a list with nothing where it should be", things, 200, `{"items":[]}`, "", connectors.Transient, "nothing at records"},
		{"an empty 200", things, 200, ``, "", connectors.Transient, "empty body"},
		{"404 on a search is no answer", things, 404, `{"error":"no"}`, "", connectors.Invalid, "404"},
		{"the record itself", single, 200, `{"order":` + rec("7", "A-1") + `}`, "7", "", ""},
		{"the record itself does not exist", single, 404, `{"error":"no"}`, "", "", ""},
		{"the record itself, and a proxy that knows nothing", single, 404, `<html>not found</html>`, "", connectors.Invalid, "404"},
		{"a found record without an id", things, 200, `{"orders":[{"refs":{"syncd":"A-1"}}]}`, "", connectors.Transient, "no id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := find(t, c.yaml, c.status, c.body)
			if c.class != "" {
				fails(t, err, c.class, c.words, "find things A-1")
				return
			}
			var links []string
			for _, f := range l {
				links = append(links, f.Link)
			}
			if err != nil || strings.Join(links, " ") != c.links {
				t.Errorf("found %v, %v; want %s", links, err, c.links)
			}
		})
	}
}

func TestAFoundRecordTellsItsVersionAndWhetherItIsAsDesired(t *testing.T) {
	s := serve(t, things, always(200, `{"orders":[{"id":7,"refs":{"syncd":"A-1"},"state":"archived","custom":{"version":"1795946400123456"},"total":"10.00","more":1}]}`))
	f := connectors.PrimitivesOf(thing(t, s)).Finder
	for body, same := range map[string]bool{`{"total":"10.00"}`: true, `{"total":"10.00","state":"confirmed"}`: true, `{"total":"10.01"}`: false} {
		l, err := f.Find(t.Context(), write("A-1", "", body))
		if err != nil || len(l) != 1 || l[0].Version != 1795946400123456 || !l[0].Archived || l[0].Same != same {
			t.Errorf("%s: %+v, %v", body, l, err)
		}
	}
}

func TestAMissingRecordIsMissingOnlyIfTheAPISaysSo(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		update connectors.Class
		remove connectors.Class
	}{
		{"JSON", 404, `{"errors":"Not Found"}`, connectors.Missing, connectors.Unchanged},
		{"no body", 404, ``, connectors.Missing, connectors.Unchanged},
		{"gone", 410, `{}`, connectors.Missing, connectors.Unchanged},
		{"a proxy's page", 404, `<html>no such route</html>`, connectors.Transient, connectors.Transient},
		{"a proxy's text", 404, "default backend - 404", connectors.Transient, connectors.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, things, always(c.status, c.body))
			e := thing(t, s)
			if o := connectors.PrimitivesOf(e).Updater.Update(t.Context(), write("A-1", `"a/b"`, `{}`)); o.Class != c.update {
				t.Errorf("update: %+v", o)
			}
			if !strings.HasPrefix(s.requests[0], "PATCH /api/orders/a%2Fb ") {
				t.Errorf("request %s", s.requests[0])
			}
			for _, how := range []connectors.Removal{connectors.Delete, connectors.Archive} {
				if o := connectors.PrimitivesOf(e).Remover.Remove(t.Context(), connectors.Write{Key: "A-1", Link: "7", Removal: how}); o.Class != c.remove {
					t.Errorf("%s: %+v", how, o)
				}
			}
		})
	}
}

func TestAnETagGoesBackAsItCame(t *testing.T) {
	text := strings.Replace(things, `update: {path: "/orders/{link}"`, `update: {if_match: true, path: "/orders/{link}"`, 1)
	s := serve(t, text, nil)
	s.header.Set("ETag", `W/"abc"`)
	var sent string
	s.answer = func(r *http.Request, _ string) (int, string) {
		if r.Method == http.MethodPatch {
			if sent = r.Header.Get("If-Match"); sent != `W/"abc"` {
				return 412, `{}`
			}
		}
		return 200, `{"order":{"id":7}}`
	}
	up := connectors.PrimitivesOf(thing(t, s)).Updater
	if o := up.Update(t.Context(), write("A-1", "7", `{}`)); o.Class != connectors.Applied {
		t.Errorf("%+v, If-Match %s", o, sent)
	}
	s.answer = func(r *http.Request, _ string) (int, string) {
		if r.Method == http.MethodPatch {
			return 412, `{}`
		}
		return 200, `{"order":{"id":7}}`
	}
	if o := up.Update(t.Context(), write("A-1", "7", `{}`)); o.Class != connectors.Conflict {
		t.Errorf("%+v", o)
	}
	s.header.Del("ETag")
	if o := up.Update(t.Context(), write("A-1", "7", `{}`)); o.Class != connectors.Invalid || o.Code != "no_etag" {
		t.Errorf("%+v", o)
	}
	s.answer = always(404, `{}`)
	if o := up.Update(t.Context(), write("A-1", "7", `{}`)); o.Class != connectors.Missing {
		t.Errorf("%+v", o)
	}
}

func TestUnsendableWritesAreRefusedBeforeTheWire(t *testing.T) {
	s := serve(t, things, always(200, `{}`))
	e := thing(t, s)
	p := serve(t, puts, always(200, `{}`))
	for name, o := range map[string]connectors.Outcome{
		"a body that is no object":     connectors.PrimitivesOf(e).Creator.Create(t.Context(), write("A-1", "", `[1]`)),
		"an update without a link":     connectors.PrimitivesOf(e).Updater.Update(t.Context(), write("A-1", "", `{}`)),
		"a link that is an object":     connectors.PrimitivesOf(e).Updater.Update(t.Context(), write("A-1", `{}`, `{}`)),
		"a key that leads upwards":     connectors.PrimitivesOf(thing(t, p)).Upserter.Upsert(t.Context(), []connectors.Write{write("..", "", `{}`)})[0],
		"a key in the way of a field":  connectors.PrimitivesOf(e).Creator.Create(t.Context(), write("A-1", "", `{"refs":[1]}`)),
		"a removal that is not there":  connectors.PrimitivesOf(e).Remover.Remove(t.Context(), connectors.Write{Link: "7", Removal: "shred"}),
		"a removal of what never was":  connectors.PrimitivesOf(e).Remover.Remove(t.Context(), connectors.Write{Removal: connectors.Delete}),
		"a record that is not written": connectors.PrimitivesOf(e).Creator.Create(t.Context(), write("A-1", "", ``)),
	} {
		if o.Class != connectors.Invalid || o.Message == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if len(s.requests)+len(p.requests) > 0 {
		t.Errorf("sent %q %q", s.requests, p.requests)
	}
}

const steps = things + `    advance:
      read: "/orders/{link}"
      record: order
      steps:
        - {when: state, equals: [confirmed, shipped], path: "/orders/{link}/confirm", done: state, in: [confirmed, shipped]}
        - {when: state, equals: [shipped], path: "/orders/{link}/ship", body: {by: syncd}, done: state, in: [shipped]}
`

func TestADocumentIsBroughtToItsStateStepByStep(t *testing.T) {
	for _, c := range []struct {
		name, at, want string
		class          connectors.Class
		sent           string
	}{
		{"two steps", "draft", "shipped", connectors.Applied, "confirm ship"},
		{"one step", "draft", "confirmed", connectors.Applied, "confirm"},
		{"half done", "confirmed", "shipped", connectors.Applied, "ship"},
		{"done", "shipped", "shipped", connectors.Unchanged, ""},
		{"past it", "shipped", "confirmed", connectors.Unchanged, ""},
		{"no step asked for", "draft", "draft", connectors.Unchanged, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, sent := c.at, []string{}
			s := serve(t, steps, func(r *http.Request, _ string) (int, string) {
				if r.Method == http.MethodPost {
					step := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
					sent = append(sent, step)
					state = map[string]string{"confirm": "confirmed", "ship": "shipped"}[step]
				}
				return 200, `{"order":{"id":7,"state":"` + state + `"}}`
			})
			o := connectors.PrimitivesOf(thing(t, s)).Advancer.Advance(t.Context(), write("A-1", "7", `{"state":"`+c.want+`"}`))
			if o.Class != c.class || strings.Join(sent, " ") != c.sent {
				t.Errorf("%+v, sent %q", o, sent)
			}
		})
	}
}

func TestAStepWhoseAnswerWasLostIsNotTakenTwice(t *testing.T) {
	state, posts := "draft", 0
	s := serve(t, steps, func(r *http.Request, _ string) (int, string) {
		if r.Method == http.MethodPost {
			posts++
			state = "confirmed"
			return 502, `<html>`
		}
		return 200, `{"order":{"id":7,"state":"` + state + `"}}`
	})
	adv := connectors.PrimitivesOf(thing(t, s)).Advancer
	w := write("A-1", "7", `{"state":"confirmed"}`)
	if o := adv.Advance(t.Context(), w); o.Class != connectors.Unknown {
		t.Errorf("%+v", o)
	}
	if o := adv.Advance(t.Context(), w); o.Class != connectors.Unchanged || posts != 1 {
		t.Errorf("%+v after %d posts", o, posts)
	}
}

func TestAStepThatDoesNotShowIsTriedAgainLater(t *testing.T) {
	s := serve(t, steps, always(200, `{"order":{"id":7,"state":"draft"}}`))
	o := connectors.PrimitivesOf(thing(t, s)).Advancer.Advance(t.Context(), write("A-1", "7", `{"state":"confirmed"}`))
	if o.Class != connectors.Transient || o.Code != "step_pending" {
		t.Errorf("%+v", o)
	}
	s.answer = always(404, `{}`)
	if o := connectors.PrimitivesOf(thing(t, s)).Advancer.Advance(t.Context(), write("A-1", "7", `{"state":"confirmed"}`)); o.Class != connectors.Missing {
		t.Errorf("%+v", o)
	}
}

func TestAnEntityShowsExactlyWhatIsDescribed(t *testing.T) {
	has := func(e connectors.Entity) (l string) {
		can := connectors.PrimitivesOf(e)
		if can.Upserter != nil {
			l += "upsert "
		}
		if can.Creator != nil {
			l += "create "
		}
		if can.Finder != nil {
			l += "find "
		}
		if can.Updater != nil {
			l += "update "
		}
		if can.Remover != nil {
			l += "remove "
		}
		if can.Advancer != nil {
			l += "advance "
		}
		return l
	}
	bits := []string{"", "find", "update", "remove", "advance"}
	for mask := range 16 {
		e := &entity{set: &entitySettings{}}
		want := map[bool]string{}
		on := func(bit int) bool { return mask>>(bit-1)&1 == 1 }
		if on(1) {
			e.set.Lookup.Path = "/x"
		}
		if on(2) {
			e.set.Update.Path = "/x"
		}
		if on(3) {
			e.info.Removals = []connectors.Removal{connectors.Delete}
		}
		if on(4) {
			e.set.Advance.Steps = []*stepSettings{{}}
		}
		want[true], want[false] = "upsert ", "create "
		for bit := 1; bit <= 4; bit++ {
			if !on(bit) {
				continue
			}
			if bit != 2 {
				want[true] += bits[bit] + " "
			}
			want[false] += bits[bit] + " "
		}
		if got := has(e); got != want[false] {
			t.Errorf("mask %b: %s, want %s", mask, got, want[false])
		}
		e.set.Put.Path = "/x"
		if got := has(e); got != want[true] {
			t.Errorf("mask %b: %s, want %s", mask, got, want[true])
		}
	}
}
