package rest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

const fine = `
url: https://shop.example.com/api
streams:
  orders:
    list: {path: /orders}
    records: data
    id: [id]
    paging: none
entities:
  items:
    put: {path: "/items/{key}", id: id}
`

// with replaces a part of the settings that are fine.
func with(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(fine, old) {
		t.Fatalf("%q is not in the settings", old)
	}
	return strings.Replace(fine, old, new, 1)
}

func TestMistakesInTheSettingsAreExplained(t *testing.T) {
	create := `create: {path: /orders, key_field: ref, id: id}
    lookup: {path: /orders, query: {ref: "{key}"}, id: id, key_field: ref}`
	put := `put: {path: "/items/{key}", id: id}`
	for _, c := range []struct{ name, old, new, want string }{
		{"nothing described", fine[strings.Index(fine, "streams:"):], "", "neither streams nor entities are described; describe at least one of them"},
		{"unknown key", "list: {path: /orders}", "list: {path: /orders, querry: {}}", `streams.orders.list.querry: unknown key; did you mean query?`},
		{"no paging", "\n    paging: none", "", "streams.orders.paging: missing; say how the listing is split into pages, or none: a listing that is cut short looks like a complete one"},
		{"no way of paging", "paging: none", "paging: {size: 5}", "streams.orders.paging: no way of paging; give one of cursor, link_header, next_url, page, offset and keyset, or write paging: none"},
		{"unknown way of paging", "paging: none", "paging: scroll", "streams.orders.paging: not a way of paging; write none, or one of cursor, link_header, next_url, page, offset and keyset as a mapping"},
		{"two ways of paging", "paging: none", "paging: {page: {param: p}, link_header: true}", "streams.orders.paging: two ways of paging (page, link_header); give one"},
		{"a cursor that nothing carries", "paging: none", "paging: {cursor: {next: next}}", "streams.orders.paging.cursor: nothing carries the cursor; give param, or use {cursor} in list.query or list.body"},
		{"a cursor from nowhere", "paging: none", "paging: {cursor: {param: c}}", "streams.orders.paging.cursor.next: missing; say where the answer holds the next cursor"},
		{"an address from nowhere", "paging: none", "paging: {next_url: {}}", "streams.orders.paging.next_url.path: missing; say where the answer holds the address of the next page"},
		{"a page number that nothing carries", "paging: none", "paging: {page: {}}", "streams.orders.paging.page: nothing carries the number; give param, or use {page} in list.query or list.body"},
		{"an offset that nothing carries", "paging: none", "paging: {offset: {}}", "streams.orders.paging.offset: nothing carries the offset; give param, or use {offset} in list.query or list.body"},
		{"keyset without since", "paging: none", "paging: {keyset: {page_param: p}}", "streams.orders.paging.keyset: keyset paging needs `version` and `since`"},
		{"keyset that can be stuck", "paging: none", "version: {path: at}\n    since: {param: s}\n    paging: {keyset: {}}", "streams.orders.paging.keyset: records that share a stamp may fill more than a page; give page_param or offset_param, or size_param beside keyset"},
		{"keyset with both", "paging: none", "version: {path: at}\n    since: {param: s}\n    paging: {keyset: {page_param: p, offset_param: o}}", "streams.orders.paging.keyset: page_param and offset_param exclude each other; give one"},
		{"since without version", "paging: none", "since: {param: since}\n    paging: none", "streams.orders.since: since needs `version`, where the stamps come from"},
		{"{since} without version", "list: {path: /orders}", `list: {path: /orders, query: {q: "{since}"}}`, "streams.orders.list: {since} and {until} need `version`, where the stamps come from"},
		{"unknown placeholder", "list: {path: /orders}", `list: {path: /orders, query: {q: "{sicne}"}}`, "streams.orders.list.query.q: the placeholder {sicne} is not known here; known are {since}, {until}, {cursor}, {page}, {offset}, {limit}"},
		{"time and sequence", "paging: none", "version: {path: n, format: integer}\n    since: {param: s}\n    paging: none", "streams.orders.since.format: the version is integer and the bound rfc3339; both must be times, or both a sequence"},
		{"overlap of a sequence", "paging: none", "version: {path: n, format: integer}\n    overlap: 5m\n    paging: none", "streams.orders.overlap: the version is a sequence; use overlap_steps"},
		{"abbreviation of a zone", "paging: none", "version: {path: at, format: \"2006-01-02 15:04:05 MST\"}\n    paging: none", "streams.orders.version.format: the abbreviation of a zone does not say which zone is meant; use a layout with a numeric offset (-07:00), or one without and `zone`"},
		{"changed_at that is no time", "paging: none", "changed_at: {path: at, format: integer}\n    paging: none", "streams.orders.changed_at.format: changed_at must be a time"},
		{"a path without a slash", "list: {path: /orders}", "list: {path: orders}", "streams.orders.list.path: a path begins with a slash; the address itself stands in url"},
		{"a path with a query", "list: {path: /orders}", "list: {path: \"/orders?status=any\"}", "streams.orders.list.path: a path holds no query; use `query`"},
		{"a body without POST", "list: {path: /orders}", "list: {path: /orders, body: {}}", "streams.orders.list.body: a body needs method: POST"},
		{"a fetch that asks for nothing", "paging: none", "fetch: {path: /orders}\n    paging: none", "streams.orders.fetch.path: the path does not hold {id}"},
		{"a fetch of an id of parts", "id: [id]", "id: [sku, place]\n    fetch: {path: \"/x/{id}\"}", "streams.orders.fetch: a record with an id of several parts cannot be read by it"},
		{"no id", "id: [id]", "id: []", "streams.orders.id: empty; give a list of texts, for example id"},
		{"a broken path", "id: [id]", "id: [a..b]", `streams.orders.id: "a..b": a path with an empty step; join names with single dots, as in data.items`},
		{"values of no field", "paging: none", "deleted: {values: [x]}\n    paging: none", "streams.orders.deleted.path: missing; say where the mark stands in the record"},
		{"neither put nor create", put, "update: {path: \"/x/{key}\"}", "entities.items: neither put nor create is described; describe one of them"},
		{"put and create", put, put + "\n    " + create, "entities.items.create: put and create exclude each other; describe one"},
		{"a put that carries no key", put, "put: {path: /items, id: id}", "entities.items.put.path: nothing carries the key; put {key} into the path, or give key_field"},
		{"a put whose answer names nothing", put, "put: {path: \"/items/{key}\"}", "entities.items.put: nothing in the answer would name the record; give id or key_field, or answer: none"},
		{"a create under a unique key without lookup", put, "unique: true\n    create: {path: /orders, key_field: ref, id: id}", "entities.items.lookup: missing; a record that the server refuses as a duplicate has to be looked up"},
		{"a create without a key", put, strings.Replace(create, "key_field: ref, ", "", 1), "entities.items.create.key_field: missing; say which field of the target holds the key"},
		{"a create without an id", put, strings.Replace(create, "key_field: ref, id: id", "key_field: ref", 1), "entities.items.create.id: missing; say where the answer holds the new record's id"},
		{"a look-up that carries no key", put, strings.Replace(create, `query: {ref: "{key}"}, `, "", 1), "entities.items.lookup: nothing carries the key; put {key} into path or query"},
		{"a look-up that cannot tell keys apart", put, create[:strings.LastIndex(create, ", key_field")] + "}", "entities.items.lookup.key_field: missing; say where a record holds the key: a server that ignores the filter must not lead to a wrong match"},
		{"an update of nothing", put, create + "\n    update: {path: /orders}", "entities.items.update.path: the path holds neither {link} nor {key}"},
		{"a removal of nothing", put, create + "\n    remove: {}", "entities.items.remove: neither delete nor archive is described; describe at least one"},
		{"a link that a put does not have", put, "put: {path: \"/items/{key}\", key_field: sku}\n    remove: {delete: \"/items/{link}\"}", "entities.items: remove.delete uses {link}, which is not known without put.id; use {key}, or give put.id"},
		{"an unknown meaning", put, put + "\n    codes: {X: retry}", `entities.items.codes.X: "retry" is not a meaning; use one of throttled, duplicate, conflict, frozen, missing, waiting, invalid, auth, transient, unknown`},
		{"a name with a blank", "items:", "Items Sold:", `entities."Items Sold": the name "Items Sold" cannot be used; expected a name of small letters, digits and underscores that begins with a letter`},
		{"codes from nowhere", "streams:", "answers: {codes: {X: invalid}}\nstreams:", "answers.code: missing; say where an error's code stands"},
		{"a credential among the parameters", "list: {path: /orders}", "list: {path: /orders, query: {api_key: abc}}", "streams.orders.list.query.api_key: a parameter that proves who asks belongs into auth (query with name and value), where it is kept out of logs and listings"},
		{"a credential among the headers", "streams:", "headers: {Accept: x, X-Api-Key: abc}\nstreams:", "headers.X-Api-Key: a header that proves who asks belongs into auth (bearer, or header with name and value), where it is kept out of logs and listings"},
		{"a status that is none", "streams:", "answers: {statuses: {\"99\": invalid}}\nstreams:", "answers.statuses.99: not a status between 200 and 599"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := read(t, with(t, c.old, c.new))
			var got []string
			for _, p := range problems {
				line := p.Msg
				if p.Path != "" {
					line = p.Path + ": " + p.Msg
				}
				got = append(got, line)
			}
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

func TestStreamsAndEntitiesSayWhatTheyCan(t *testing.T) {
	s := settings(t, `
url: https://shop.example.com/api
streams:
  orders:
    list: {path: /orders}
    records: data
    id: [id]
    version: {path: updated_at}
    deleted: {path: deleted}
    fetch: {path: "/orders/{id}"}
    paging: {size: 50, link_header: true}
  files:
    doc: Files of the shop.
    list: {path: /files}
    records: .
    id: [folder, name]
    version: {path: n, format: integer}
    paging: none
entities:
  items:
    put: {path: "/items/{key}", id: id}
    remove: {archive: {path: "/items/{key}/archive"}}
    settle_time: 90s
  orders:
    create: {path: /orders, key_field: ref, id: id}
    lookup: {path: /orders, query: {ref: "{key}"}, id: id, key_field: ref}
    unique: true
`)
	want := []connectors.StreamInfo{
		{Name: "files", Doc: "Files of the shop.", IDs: "folder, name", Versions: "n, integer", Page: 100},
		{Name: "orders", Doc: "Records of /orders.", CanFetch: true, VersionIsTime: true, Tombstones: true,
			IDs: "id", Versions: "updated_at, rfc3339", Page: 50},
	}
	for i, got := range s.Streams() {
		if got != want[i] {
			t.Errorf("stream %+v\nwant %+v", got, want[i])
		}
	}
	es := s.Entities()
	if len(es) != 2 || es[0].Name != "items" || !es[0].Carries(connectors.NaturalKey) || es[0].SettleTime != 90*time.Second ||
		len(es[0].Removals) != 1 || es[0].Removals[0] != connectors.Archive {
		t.Errorf("%+v", es)
	}
	if o := es[1]; o.Strategies[0].Strategy != connectors.ExternalRef || o.Strategies[1].Strategy != connectors.Lookup || o.SettleTime == 0 || o.Guarded {
		t.Errorf("%+v", o)
	}
}

func TestAnAnswerWithoutTheListSaysWhatItHolds(t *testing.T) {
	for body, want := range map[string]string{
		`{"total":3,"items":[],"page":1}`:                   "the answer holds nothing at records: data; its fields are items, page, total",
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"secret":""}`: "the answer holds nothing at records: data; its fields are a, b, c, d, e, …",
		`{}`: "the answer holds nothing at records: data; it is empty",
		`[]`: "the answer holds nothing at records: data; it is a list",
	} {
		s := serve(t, "streams:\n  records: {list: {path: /records}, records: data, id: [id], paging: none}\n", always(200, body))
		if _, err := s.instance.Source().Pull(t.Context(), connectors.PullRequest{Stream: "records", Start: connectors.Start{All: true}}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestALiveCheckFindsWhatWouldHideChanges(t *testing.T) {
	const text = `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: at, format: epoch_s}
    since: {param: since, format: epoch_s, inclusive: true}
    paging: none
    fetch: {path: "/records/{id}"}
` + "entities:\n  things:" + `
    create: {path: /orders, key_field: ref, id: id}
    lookup: {path: /orders, query: {ref: "{key}"}, records: data, id: id, key_field: ref}
`
	for _, c := range []struct {
		name        string
		all, since  string
		fetch       int
		lookup      string
		problem     string // of the stream
		also        string // another one
		entity      string // problem of the entity
		unreachable bool
	}{
		{name: "all is well", all: rows("1@10", "2@5"), since: rows("2@5"), fetch: 200},
		{name: "the listing is empty"},
		{name: "the bound is read in another zone", all: rows("1@10", "2@5"), since: ``, fetch: 200, problem: "does not give that record"},
		{name: "the bound is ignored", all: rows("1@10", "2@5"), since: rows("1@10", "2@5"), fetch: 200, problem: "gives older records too"},
		{name: "stamps after the server's clock", all: rows("1@-4000"), since: rows("1@-4000"), fetch: 200, problem: "after the server's own clock"},
		{name: "no stamps", all: rows("1", "2"), fetch: 200, problem: "no record of the first page bears a stamp at at"},
		{name: "no ids", all: `{"at":5}`, problem: "record 1 of the first page: the record has no id at id"},
		{name: "a wrong path to fetch", all: rows("2@5"), since: rows("2@5"), fetch: 404, problem: "not found under fetch.path"},
		{name: "two things are wrong", all: rows("2@-4000"), fetch: 404, problem: "after the server's own clock", also: "not found under fetch.path"},
		{name: "two records are wrong", all: rows("1@10") + `,{"at":5},{"at":6}`, since: rows("1@10"), fetch: 200, problem: "record 2 of the first page: the record has no id at id", also: "record 3 of the first page: "},
		{name: "the quota ends between two requests", all: rows("1@10", "2@5"), since: "429", fetch: 200, problem: "list since the newest record's own stamp: throttled", unreachable: true},
		{name: "a look-up that ignores its filter", lookup: `{"id":1,"ref":"X"}`, entity: "lookup: "},
		{name: "the server is down", all: "!", problem: "list", unreachable: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, text, func(r *http.Request, _ string) (int, string) {
				switch {
				case c.all == "!":
					return 503, "<html>"
				case r.URL.Path == "/api/orders":
					return 200, `{"data":[` + c.lookup + `]}`
				case r.URL.Path != "/api/records":
					return max(c.fetch, 200), `{"id":"` + r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] + `"}`
				case r.URL.Query().Has("since") && c.since == "429":
					return 429, ""
				case r.URL.Query().Has("since"):
					return 200, `{"data":[` + c.since + `]}`
				}
				return 200, `{"data":[` + c.all + `]}`
			})
			l := s.instance.Check(t.Context(), []string{"records", "nothing"}, []string{"things", "nothing"})
			also := ""
			if len(l) == 5 && l[1].Subject == "records" {
				also = l[1].Problem
				l = slices.Delete(l, 1, 2)
			}
			if len(l) != 4 || l[1].Problem == "" || l[3].Problem == "" {
				t.Fatalf("%+v", l)
			}
			if (also == "") != (c.also == "") || !strings.Contains(also, c.also) {
				t.Errorf("the other problem of the stream: %q", also)
			}
			if (l[0].Problem == "") != (c.problem == "") || !strings.Contains(l[0].Problem, c.problem) || l[0].Unreachable != c.unreachable {
				t.Errorf("stream: %+v", l[0])
			}
			if !c.unreachable && ((l[2].Problem == "") != (c.entity == "") || !strings.HasPrefix(l[2].Problem, c.entity)) {
				t.Errorf("entity: %+v", l[2])
			}
			for _, r := range s.requests {
				if !strings.HasPrefix(r, "GET ") {
					t.Errorf("a check sent %s", r)
				}
			}
		})
	}
}
