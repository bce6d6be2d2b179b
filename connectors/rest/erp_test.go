package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/connectors/conformance/hostile"
)

// erp is a platform that takes records: items by PUT under their key, orders
// by POST with a reference.
type erp struct {
	unique bool
	keys   keyring
	mu     sync.Mutex
	last   int
	recs   map[string]map[string]any // by id
}

func (e *erp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	if parts[0] == "token" {
		e.say(w, 200, map[string]any{"access_token": "t-" + strconv.Itoa(e.last), "token_type": "Bearer", "expires_in": 3600})
		return
	}
	var body map[string]any
	b, _ := io.ReadAll(r.Body)
	if len(b) > 0 {
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		if err := d.Decode(&body); err != nil {
			e.say(w, 400, map[string]any{"errors": "no JSON"})
			return
		}
	}
	if inner, ok := body["order"].(map[string]any); ok {
		body = inner
	}
	if body["value"] == "refuse me" {
		e.say(w, 422, map[string]any{"errors": map[string]any{"value": []string{"is not allowed"}}})
		return
	}
	if key := r.Header.Get("X-Request-Key"); key != "" {
		answer, keep := e.keys.use(w, key, string(b))
		if answer {
			return
		}
		w = keep
	}
	switch {
	case parts[0] == "items" && len(parts) == 2:
		e.items(w, r, parts[1], body)
	case parts[0] == "orders" && len(parts) == 1 && r.Method == http.MethodPost:
		e.createOrder(w, body)
	case parts[0] == "orders" && len(parts) == 1:
		e.findOrders(w, r.URL.Query())
	case parts[0] == "orders" && len(parts) >= 2:
		e.order(w, r, parts[1:], body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (e *erp) say(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (e *erp) items(w http.ResponseWriter, r *http.Request, key string, body map[string]any) {
	id := ""
	for i, rec := range e.recs {
		if rec["ref"] == key {
			id = i
		}
	}
	switch r.Method {
	case http.MethodPut:
		if id == "" {
			id = e.add(map[string]any{"ref": key})
		}
		maps.Copy(e.recs[id], body)
		e.say(w, 200, e.recs[id])
	case http.MethodDelete:
		if id == "" {
			e.say(w, 404, map[string]any{"error": "unknown item"})
			return
		}
		delete(e.recs, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		if id == "" {
			e.say(w, 404, map[string]any{"error": "unknown item"})
			return
		}
		e.say(w, 200, e.recs[id])
	}
}

func (e *erp) add(rec map[string]any) string {
	e.last++
	id := strconv.Itoa(9007199254740992 + e.last)
	rec["id"] = json.Number(id)
	if rec["state"] == nil {
		rec["state"] = "draft"
	}
	e.recs[id] = rec
	return id
}

func (e *erp) createOrder(w http.ResponseWriter, body map[string]any) {
	for _, rec := range e.recs {
		if e.unique && rec["ref"] == body["ref"] {
			e.say(w, 422, map[string]any{"errors": map[string]any{"ref": []string{"has already been taken"}}})
			return
		}
	}
	id := e.add(body)
	e.say(w, 201, map[string]any{"order": e.recs[id]})
}

// findOrders looks for a part of the reference, as many servers do.
func (e *erp) findOrders(w http.ResponseWriter, q url.Values) {
	l := []any{}
	for _, rec := range e.recs {
		if ref, _ := rec["ref"].(string); strings.Contains(ref, q.Get("ref")) {
			l = append(l, rec)
		}
	}
	e.say(w, 200, map[string]any{"orders": l})
}

func (e *erp) order(w http.ResponseWriter, r *http.Request, parts []string, body map[string]any) {
	rec, ok := e.recs[parts[0]]
	if !ok {
		e.say(w, 404, map[string]any{"errors": "Not Found"})
		return
	}
	tag := fmt.Sprintf(`W/"%v"`, len(fmt.Sprint(rec)))
	w.Header().Set("ETag", tag)
	switch {
	case len(parts) == 2 && r.Method == http.MethodPost: // confirm, ship
		rec["state"] = parts[1] + "ed"
		e.say(w, 200, map[string]any{"order": rec})
	case r.Method == http.MethodDelete:
		delete(e.recs, parts[0])
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPatch:
		if m := r.Header.Get("If-Match"); m != "" && m != tag {
			e.say(w, 412, map[string]any{"error": "changed meanwhile"})
			return
		}
		maps.Copy(rec, body)
		e.say(w, 200, map[string]any{"order": rec})
	default:
		e.say(w, 200, map[string]any{"order": rec})
	}
}

func (e *erp) held(key string) []conformance.Held {
	e.mu.Lock()
	defer e.mu.Unlock()
	var l []conformance.Held
	for id, rec := range e.recs {
		if rec["ref"] == key {
			v, _ := rec["value"].(string)
			l = append(l, conformance.Held{Link: id, Value: v, Archived: rec["archived"] == true})
		}
	}
	return l
}

func (e *erp) put(key, value string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.add(map[string]any{"ref": key, "value": value})
}

func (e *erp) erase(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.recs, link)
}

func (e *erp) setOther(key, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rec := range e.recs {
		if rec["ref"] == key {
			rec["other"] = value
		}
	}
}

func (e *erp) other(key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rec := range e.recs {
		if rec["ref"] == key {
			s, _ := rec["other"].(string)
			return s
		}
	}
	return ""
}

func (e *erp) model(t testing.TB, entity string) conformance.TargetModel {
	e.recs = map[string]map[string]any{}
	front := hostile.Wrap(e)
	t.Cleanup(front.Close)
	m := conformance.TargetModel{
		Entity: "things", Held: e.held, Put: e.put, Erase: e.erase, Other: e.other, SetOther: e.setOther, Hostile: front,
		Key: func(n int) string { return fmt.Sprintf("SKU %d/ä+%%;?#", n) },
		Body: func(value string) json.RawMessage {
			b, _ := json.Marshal(map[string]any{"value": value})
			return b
		},
		Refused: func() json.RawMessage { return json.RawMessage(`{"value":"refuse me"}`) },
		Open: func(env connectors.Env) (connectors.Instance, error) {
			return settings(t, "url: "+front.URL+"\nmax_body: 1MiB\nauth: {bearer: \"${env:TOKEN}\"}\nentities:\n  things:\n"+entity).Open(t.Context(), env)
		},
	}
	if !e.unique {
		m.SecretlyTwice = e.put
	}
	return m
}

const (
	create = `
    create: {path: /orders, wrap: order, key_field: ref, record: order, id: id}
`
	changeOrders = `
    update: {path: "/orders/{link}", wrap: order, record: order}
    remove:
      delete: "/orders/{link}"
      archive: {path: "/orders/{link}", body: {archived: true}}
`
	findOrders = `
    lookup: {path: /orders, query: {ref: "{key}"}, records: orders, id: id, key_field: ref, match: partial, archived: {path: archived}}
` + changeOrders
	orders = create + findOrders
)

// keyed is create under an idempotency key.
func keyed(how string) string {
	return strings.Replace(create, "id: id}", "id: id, idempotency: "+how+"}", 1)
}

func TestEveryKindOfEntityPassesTheSuiteForTargets(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		unique     bool
		oauth      bool
		keys       string
		quoted     bool
	}{
		{name: "put under the key", unique: true, yaml: `
    put: {path: "/items/{key}", key_field: ref}
    lookup: {path: "/items/{key}", id: id, key_field: ref}
    remove: {delete: "/items/{key}"}
`},
		{name: "put that answers a link, with a version", unique: true, yaml: `
    put: {path: "/items/{key}", key_field: ref, id: id}
    lookup: {path: /orders, query: {ref: "{key}"}, records: orders, id: id, key_field: ref, match: partial}
    version_field: custom.version
`},
		{name: "put with a token that can be renewed", unique: true, oauth: true, yaml: `
    put: {path: "/items/{key}", key_field: ref, id: id}
`},
		{name: "create with a unique reference", unique: true, yaml: "    unique: true" + orders},
		{name: "create where nothing is unique", yaml: orders},
		{name: "create under a key", yaml: keyed("{header: X-Request-Key, retention: 24h}") + findOrders, keys: "refused"},
		{name: "create under a key in quotes, of which another body gets the first answer", keys: "ignored", quoted: true,
			yaml: keyed("{header: X-Request-Key, quoted: true, mismatch: ignored, retention: 30m, keeps_errors: false}") + findOrders},
		{name: "create under a key that counts for nothing with another body", keys: "creates",
			yaml: keyed("{header: X-Request-Key, form: hex, max_length: 40, mismatch: creates}") + findOrders},
		{name: "create under a key, of what cannot be looked up", yaml: keyed("{header: X-Request-Key}") + changeOrders, keys: "refused"},
		{name: "create of what cannot be looked up", yaml: create + changeOrders},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conformance.Target(t, func(t testing.TB) conformance.TargetModel {
				e := &erp{unique: c.unique, keys: keyring{mismatch: c.keys, quoted: c.quoted}}
				m := e.model(t, c.yaml)
				if c.oauth {
					m.Refreshes = true
					m.IsWrite = func(r *http.Request) bool { return r.Method == http.MethodPut }
					m.Open = func(env connectors.Env) (connectors.Instance, error) {
						at := m.Hostile.URL
						return settings(t, "url: "+at+"\nmax_body: 1MiB\nauth: {oauth2: {token_url: \""+at+"/token\", client_id: syncd, client_secret: \"${env:PASSWORD}\"}}\nentities:\n  things:\n"+c.yaml).Open(t.Context(), env)
					}
				}
				return m
			})
		})
	}
}
