package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// shop is a source over HTTP that behaves as shops do on a bad day: it shows changes late, and twice, and fails now and then.
type shop struct {
	server
	streams map[string]*stream
	names   []string // of the streams, once for each share of the changes
	// failing has each request of a listing fail.
	failing bool
}

// stream is one kind of record.
type stream struct {
	ledger *ledger
	prefix string // of the keys that its records have in the target
	refers string // the stream whose records its own refer to
	// groups is among how many groups its records are parted, each of which is written once and in order; 0 for records that change.
	groups  int
	records []*article
	last    *article // the one that changed last
}

// article is one record of the shop.
type article struct {
	id, rev, of int64
	updated     time.Time
	// visible is when listings show the last change; until then they show before.
	visible time.Time
	before  *article
}

const firstID = 9007199254740993 // beyond what a float holds

func newShop(seed uint64) (*shop, error) {
	s := &shop{streams: map[string]*stream{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{stream}", s.list)
	mux.HandleFunc("GET /{stream}/{id}", s.get)
	return s, s.open(seed, mux)
}

// offer adds a stream whose records refer to those of another one; "" for none. Its share of all changes is that of so many parts.
func (s *shop) offer(name, prefix, refers string, share int, l *ledger) {
	s.streams[name] = &stream{ledger: l, prefix: prefix, refers: refers}
	for range share {
		s.names = append(s.names, name)
	}
}

// offerEvents adds a stream of events in groups.
func (s *shop) offerEvents(name, prefix string, groups int, l *ledger) {
	s.offer(name, prefix, "", 2, l)
	s.streams[name].groups = groups
}

// trade makes n changes: most are to records that are there.
func (s *shop) trade(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		st := s.streams[s.names[s.rnd.IntN(len(s.names))]]
		if len(st.records) > 3 && st.groups == 0 && s.rnd.Float64() < 0.55 {
			s.change(st, st.records[s.rnd.IntN(len(st.records))])
			continue
		}
		a := &article{id: firstID + int64(len(st.records))}
		if st.refers != "" {
			to := s.streams[st.refers]
			if len(to.records) == 0 {
				continue
			}
			a.of = to.records[s.rnd.IntN(len(to.records))].id
		}
		if st.groups > 0 {
			a.of = int64(s.rnd.IntN(st.groups))
		}
		st.records = append(st.records, a)
		s.change(st, a)
	}
}

// change gives a record its next state. Some become visible late, as behind a replica.
func (s *shop) change(st *stream, a *article) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(a.updated) {
		now = a.updated.Add(time.Microsecond)
	}
	if st.groups > 0 && st.last != nil && !now.After(st.last.updated) {
		now = st.last.updated.Add(time.Microsecond) // their order is told by it
	}
	old := *a
	old.before = nil
	a.before, a.rev, a.updated, a.visible = &old, a.rev+1, now, now
	if !s.calm && s.chance(0.1) {
		a.visible = now.Add(time.Duration(s.rnd.Int64N(int64(latest))))
	}
	if st.groups > 0 && st.last != nil && a.visible.Before(st.last.visible) {
		a.visible = st.last.visible // late they are, but in their order
	}
	st.last = a
	st.ledger.said(st.key(a), state{version: now.UnixMicro(), body: s.body(st, a), at: now})
}

// latest is how late a change becomes visible at most; the overlap in the configuration is longer by far.
const latest = 800 * time.Millisecond

func (st *stream) key(a *article) string { return st.prefix + strconv.FormatInt(a.id, 10) }

// body is what the target must hold.
func (s *shop) body(st *stream, a *article) string {
	switch {
	case st.groups > 0:
		return fmt.Sprintf("%d in %d", a.rev, a.of)
	case st.refers == "":
		return strconv.FormatInt(a.rev, 10)
	}
	return fmt.Sprintf("%d of %s%d", a.rev, s.streams[st.refers].prefix, a.of)
}

// seen is what a reader sees of a record now; nil for nothing yet.
func (a *article) seen(now time.Time) *article {
	if !a.visible.After(now) {
		return a
	}
	if a.before.rev == 0 {
		return nil
	}
	return a.before
}

func (a *article) json() map[string]any {
	return map[string]any{"id": a.id, "rev": a.rev, "of": a.of, "updated_at": a.updated.Format("2006-01-02T15:04:05.000000Z")}
}

// list answers GET /orders?since=…&limit=…, by the time of change.
func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	if s.badDay(w, true) {
		return
	}
	since, err := time.Parse(time.RFC3339Nano, r.FormValue("since"))
	if err != nil && r.FormValue("since") != "" {
		http.Error(w, "since is not a time", http.StatusBadRequest)
		return
	}
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	limit = min(max(limit, 1), 200)
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[r.PathValue("stream")]
	if st == nil {
		http.NotFound(w, r)
		return
	}
	var rows []*article
	for _, a := range st.records {
		if v := a.seen(now); v != nil && !v.updated.Before(since) {
			rows = append(rows, v)
		}
	}
	slices.SortFunc(rows, func(a, b *article) int {
		if c := a.updated.Compare(b.updated); c != 0 {
			return c
		}
		return int(a.id - b.id)
	})
	out := []any{}
	for _, a := range rows[:min(len(rows), limit)] {
		out = append(out, a.json())
		if !s.calm && s.chance(0.03) {
			out = append(out, a.json()) // told twice
		}
	}
	answer(w, http.StatusOK, map[string]any{"data": out})
}

func (s *shop) get(w http.ResponseWriter, r *http.Request) {
	if s.badDay(w, false) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[r.PathValue("stream")]
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if st == nil || id < firstID || id-firstID >= int64(len(st.records)) {
		http.NotFound(w, r)
		return
	}
	answer(w, http.StatusOK, st.records[id-firstID].json())
}

// badDay fails a request now and then.
func (s *shop) badDay(w http.ResponseWriter, listing bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failing && listing, !s.calm && s.chance(0.01):
		answer(w, http.StatusServiceUnavailable, map[string]any{"error": "try later"})
	case !s.calm && s.chance(0.01):
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>back soon</html>")
	default:
		return false
	}
	return true
}

// fail has listings fail, or not any more.
func (s *shop) fail(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = on
}

// server is what shop and ERP have in common.
type server struct {
	url    string
	http   *http.Server
	mu     sync.Mutex
	rnd    *rand.Rand
	calm   bool
	closed chan struct{}
	once   sync.Once
}

func (s *server) open(seed uint64, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open a server on loopback: %w", err)
	}
	s.url, s.rnd, s.closed = "http://"+l.Addr().String(), rand.New(rand.NewPCG(seed, seed)), make(chan struct{})
	s.http = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return nil
}

func (s *server) close() error {
	s.once.Do(func() { close(s.closed) })
	return s.http.Close()
}

func (s *server) chance(p float64) bool { return s.rnd.Float64() < p }

// beCalm ends the bad day, or begins one.
func (s *server) beCalm(calm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = calm
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that is gone is no concern
}
