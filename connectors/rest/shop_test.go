package rest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/connectors/conformance/hostile"
)

// shop is a platform with one listing, /records, that can be paged through in
// every way, sorted by time of change, and a record under /records/{id}.
type shop struct {
	style  string // how answers lead to the next page
	strict bool   // the filter since leaves the bound itself out
	newest bool   // the listing begins with the newest record
	mu     sync.Mutex
	now    time.Time
	recs   map[string]item
	repeat bool
}

type item struct {
	conformance.Record
	gone bool
}

func (s *shop) put(r conformance.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recs[r.ID] = item{Record: r}
}

func (s *shop) delete(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[id]
	r.ChangedAt, r.gone = at, true
	s.recs[id] = r
}

func (s *shop) erase(id string, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.recs, id)
}

func (s *shop) setTime(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *shop) startRepeating() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeat = true
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !s.now.IsZero() {
		w.Header().Set("Date", s.now.Format(http.TimeFormat))
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/api/records/"); ok {
		rec, ok := s.recs[id]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"no such record"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"record": s.show(rec)})
		return
	}
	s.list(w, r)
}

func (s *shop) show(r item) map[string]any {
	m := map[string]any{"value": r.Value, "deleted": r.gone}
	if !r.NoID {
		m["id"] = r.ID
		if _, err := strconv.ParseUint(r.ID, 10, 64); err == nil {
			m["id"] = json.Number(r.ID)
		}
	}
	if !r.ChangedAt.IsZero() {
		m["updated_at"] = r.ChangedAt.UTC().Format(time.RFC3339)
	}
	return m
}

// list answers a page.
func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	all := s.filtered(q)
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = 2
	}
	from := s.from(q, all, limit)
	page := all[min(from, len(all)):min(from+limit, len(all))]
	body := map[string]any{"total": len(all)}
	recs := []map[string]any{}
	for _, rec := range page {
		recs = append(recs, s.show(rec))
	}
	body["data"] = map[string]any{"items": recs}
	if next := s.next(q, page, from, limit, len(all)); next != "" {
		body["next"] = next
		if s.style == "link" {
			w.Header().Set("Link", `<https://api.example/first, odd>; rel="first", <`+next+`>; rel="next"; title="a, b"`)
			delete(body, "next")
		}
	}
	if s.style == "all" {
		body["data"] = map[string]any{"items": s.showAll(all)}
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (s *shop) showAll(all []item) []map[string]any {
	recs := []map[string]any{}
	for _, rec := range all {
		recs = append(recs, s.show(rec))
	}
	return recs
}

// filtered is what the query asks for, sorted by time of change and id.
func (s *shop) filtered(q url.Values) []item {
	var all []item
	since, errS := time.Parse(time.RFC3339, q.Get("since"))
	until, errU := time.Parse(time.RFC3339, q.Get("until"))
	for _, r := range s.recs {
		if errS == nil && !s.repeat && (r.ChangedAt.IsZero() || r.ChangedAt.Before(since) || s.strict && r.ChangedAt.Equal(since)) {
			continue
		}
		if errU == nil && r.ChangedAt.After(until) {
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b item) int {
		return cmp.Or(a.ChangedAt.Compare(b.ChangedAt), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	if s.newest {
		slices.Reverse(all)
	}
	return all
}

// from is the index of the page's first record.
func (s *shop) from(q url.Values, all []item, limit int) int {
	if s.repeat {
		return 0
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		return (n - 1) * limit
	}
	if n, err := strconv.Atoi(q.Get("offset")); err == nil {
		return n
	}
	token, _ := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	stamp, id, ok := strings.Cut(string(token), " ")
	if !ok {
		return 0
	}
	micros, _ := strconv.ParseInt(stamp, 10, 64)
	for i, r := range all {
		if n := unix(r.ChangedAt); n > micros || n == micros && (len(r.ID) > len(id) || len(r.ID) == len(id) && r.ID > id) {
			return i
		}
	}
	return len(all)
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// next is the pointer to the next page, "" at the end.
func (s *shop) next(q url.Values, page []item, from, limit, all int) string {
	if len(page) == 0 || from+limit >= all && !s.repeat {
		return ""
	}
	last := page[len(page)-1]
	token := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", unix(last.ChangedAt), last.ID))
	switch s.style {
	case "cursor":
		return token
	case "link", "next_url":
		// A page's number, as many servers do it behind their links.
		q.Set("page", strconv.Itoa(from/limit+2))
		if s.style == "next_url" {
			return "/api/records?" + q.Encode()
		}
		return "?" + q.Encode()
	}
	return ""
}

// model starts a shop and describes it in the terms of the suite.
func (s *shop) model(t testing.TB, stream string) conformance.SourceModel {
	s.recs = map[string]item{}
	front := hostile.Wrap(s)
	t.Cleanup(front.Close)
	m := conformance.SourceModel{
		Stream: "records", Put: s.put, Delete: s.delete, Tombstones: true, SetTime: s.setTime, Repeat: s.startRepeating,
		Late: 5 * time.Minute, NoID: true, NoTime: true, CanFetch: true, Hostile: front,
		Value: func(body json.RawMessage) string {
			var r struct{ Value string }
			if err := json.Unmarshal(body, &r); err != nil {
				t.Errorf("body: %v", err)
			}
			return r.Value
		},
		Open: func(env connectors.Env) (connectors.Instance, error) {
			return settings(t, "url: "+front.URL+"/api\nmax_body: 1MiB\n"+stream).Open(t.Context(), env)
		},
	}
	return m
}

const common = `
auth: {header: {name: X-Access-Token, value: "${env:TOKEN}"}}
streams:
  records:
    records: data.items
    id: [id]
    version: {path: updated_at}
    deleted: {path: deleted}
    fetch: {path: "/records/{id}", record: record}
`

func TestEveryWayOfPagingPassesTheSuiteForSources(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		style      string
		strict     bool
		newest     bool
		faults     bool // play every fault, too
		erases     bool // deleted records are simply gone
	}{
		{name: "cursor", style: "cursor", faults: true, yaml: `
    list: {path: /records}
    since: {param: since, inclusive: true}
    paging: {size_param: limit, cursor: {next: next, param: cursor}}`},
		{name: "cursor in a query template, strict filter", style: "cursor", strict: true, yaml: `
    list: {path: /records, query: {cursor: "{cursor}", since: "{since}", limit: "{limit}"}}
    paging: {cursor: {next: next}}`},
		{name: "link header", style: "link", faults: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, link_header: true}`},
		{name: "next url", style: "next_url", yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, next_url: {path: next}}`},
		{name: "page", style: "page", yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, page: {param: page}}`},
		{name: "page with a total and an upper bound", style: "page", yaml: `
    list: {path: /records, query: {until: "{until}"}}
    since: {param: since, inclusive: true}
    paging: {size_param: limit, total: total, page: {param: page}}`},
		{name: "offset", style: "offset", yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, offset: {param: offset}}`},
		{name: "page, and deletions leave no trace", style: "page", erases: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, page: {param: page}}`},
		{name: "offset, and deletions leave no trace", style: "offset", erases: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, total: total, offset: {param: offset}}`},
		{name: "page, newest first", style: "page", newest: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, page: {param: page}}`},
		{name: "offset, newest first", style: "offset", newest: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, offset: {param: offset}}`},
		{name: "link header, newest first", style: "link", newest: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, link_header: true}`},
		{name: "page, newest first, and deletions leave no trace", style: "page", newest: true, erases: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, page: {param: page}}`},
		{name: "not paged", style: "all", yaml: `
    list: {path: /records}
    since: {param: since}
    paging: none`},
		{name: "keyset with pages", style: "keyset", faults: true, yaml: `
    list: {path: /records}
    since: {param: since, inclusive: true}
    paging: {size_param: limit, keyset: {page_param: page}}`},
		{name: "keyset with offsets, strict filter", style: "keyset", strict: true, yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, keyset: {offset_param: offset}}`},
		{name: "keyset with a growing page", style: "keyset", yaml: `
    list: {path: /records}
    since: {param: since}
    paging: {size_param: limit, keyset: {}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conformance.Source(t, func(t testing.TB) conformance.SourceModel {
				s := &shop{style: c.style, strict: c.strict, newest: c.newest}
				m := s.model(t, common+c.yaml)
				if !c.faults {
					m.Hostile = nil
				}
				if c.erases {
					m.Delete, m.Tombstones = s.erase, false
				}
				if c.style == "all" {
					m.Repeat = nil // there is no second page
				}
				return m
			})
		})
	}
}
