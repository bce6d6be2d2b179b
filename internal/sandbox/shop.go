package sandbox

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shop is the sandbox shop.
type Shop struct {
	server
	records map[string]*shopRecord // by kind/id
	nextID  int64
	calm    bool
}

// shopRecord is a customer or an order.
type shopRecord struct {
	kind    string
	id      int64
	updated time.Time
	visible time.Time // when the listing shows its last change
	body    map[string]any
	before  map[string]any // what the listing shows until then
	beforeT time.Time
}

// firstID makes ids as long as those of big shops, beyond what a float holds.
const firstID = 9007199254740993

// NewShop opens a shop.
func NewShop(seed uint64) (*Shop, error) {
	s := &Shop{records: map[string]*shopRecord{}, nextID: firstID}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{kind}", s.list)
	mux.HandleFunc("GET /{kind}/{id}", s.get)
	return s, s.open(seed, bucket{size: 12, perSecond: 6.5}, mux)
}

// Calm ends the bad day: everything is visible, nothing fails any more.
func (s *Shop) Calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
	for _, r := range s.records {
		r.visible = time.Time{}
	}
}

// Trade makes n changes: new customers and orders, and changes to old ones.
func (s *Shop) Trade(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		switch p := s.rnd.Float64(); {
		case p < 0.2 || len(s.records) < 4:
			s.add("customers", map[string]any{"name": pick(s, names) + " " + pick(s, surnames)})
		case p < 0.65:
			c := s.any("customers")
			cents := 500 + s.rnd.Int64N(50000)
			s.add("orders", map[string]any{"customer_id": c.id, "state": "open", "total_cents": cents,
				"note": pick(s, []string{"", "leave at the door", "caf\u00e9 \u2014 ring twice"})})
		case p < 0.9:
			if o := s.any("orders"); o != nil {
				s.change(o, "state", pick(s, []string{"paid", "packed", "shipped", "cancelled"}))
			}
		default:
			c := s.any("customers")
			s.change(c, "name", pick(s, names)+" "+pick(s, surnames))
		}
	}
}

func (s *Shop) add(kind string, body map[string]any) {
	id := s.nextID
	s.nextID++
	r := &shopRecord{kind: kind, id: id, body: map[string]any{}}
	s.records[kind+"/"+strconv.FormatInt(id, 10)] = r
	body["id"] = id
	s.set(r, body)
}

func (s *Shop) change(r *shopRecord, field string, v any) {
	body := map[string]any{}
	for k, x := range r.body {
		body[k] = x
	}
	body[field] = v
	s.set(r, body)
}

// set gives a record its next state. One in ten becomes visible late, as behind
// a replica.
func (s *Shop) set(r *shopRecord, body map[string]any) {
	now := time.Now().UTC()
	r.before, r.beforeT = r.body, r.updated
	r.body, r.updated, r.visible = body, now, now
	if !s.calm && s.chance(0.1, "change visible late") {
		r.visible = now.Add(time.Duration(500+s.rnd.Int64N(1500)) * time.Millisecond)
	}
}

func (s *Shop) any(kind string) *shopRecord {
	var ids []string
	for k := range s.records {
		if strings.HasPrefix(k, kind+"/") {
			ids = append(ids, k)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return s.records[ids[s.rnd.IntN(len(ids))]]
}

func pick[T any](s *Shop, of []T) T { return of[s.rnd.IntN(len(of))] }

var (
	names    = []string{"Ada", "Bo", "Chidi", "Dana", "Emre", "Freya", "Grace", "Hiro", "Ines", "Jun"}
	surnames = []string{"Adeyemi", "Berg", "Costa", "Dvorak", "Eriksen", "Fontaine", "Garc\u00eda", "Hansen", "Ito", "Janssen"}
)

// seen is the state of a record that a reader sees now.
func (r *shopRecord) seen(now time.Time) (map[string]any, time.Time) {
	if r.visible.After(now) {
		return r.before, r.beforeT
	}
	return r.body, r.updated
}

func (r *shopRecord) json(body map[string]any, updated time.Time) map[string]any {
	out := map[string]any{"updated_at": updated.Format("2006-01-02T15:04:05.000000Z"), "id": r.id}
	for k, v := range body {
		out[k] = v
	}
	return out
}

// list answers GET /orders?since=…&limit=…, sorted by the time of change.
func (s *Shop) list(w http.ResponseWriter, req *http.Request) {
	if !s.quota(w) || s.badDay(w) {
		return
	}
	since, err := time.Parse(time.RFC3339Nano, req.FormValue("since"))
	if err != nil && req.FormValue("since") != "" {
		problem(w, http.StatusBadRequest, "since is not an RFC 3339 time")
		return
	}
	limit, _ := strconv.Atoi(req.FormValue("limit"))
	limit = min(max(limit, 1), 100)
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	type row struct {
		at  time.Time
		id  int64
		out map[string]any
	}
	var rows []row
	for _, r := range s.records {
		if body, at := r.seen(now); r.kind == req.PathValue("kind") && len(body) > 0 && !at.Before(since) {
			rows = append(rows, row{at, r.id, r.json(body, at)})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return int(a.id - b.id)
	})
	rows = rows[:min(len(rows), limit)]
	out := []map[string]any{}
	for _, r := range rows {
		out = append(out, r.out)
		if !s.calm && s.chance(0.03, "event told twice") {
			out = append(out, r.out)
		}
	}
	answer(w, http.StatusOK, map[string]any{"data": out})
}

func (s *Shop) get(w http.ResponseWriter, req *http.Request) {
	if !s.quota(w) || s.badDay(w) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[req.PathValue("kind")+"/"+req.PathValue("id")]
	if r == nil {
		problem(w, http.StatusNotFound, "no such record")
		return
	}
	answer(w, http.StatusOK, r.json(r.body, r.updated))
}

// badDay fails a request now and then.
func (s *Shop) badDay(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calm:
		return false
	case s.chance(0.01, "503 from the shop"):
		problem(w, http.StatusServiceUnavailable, "try later")
	case s.chance(0.01, "HTML instead of JSON"):
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>back soon</html>")
	default:
		return false
	}
	return true
}
