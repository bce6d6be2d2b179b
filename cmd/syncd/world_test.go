package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a shop and an ERP that tests hold in their hands, and a folder with a
// configuration for syncd between them.
type world struct {
	t    testing.TB
	dir  string
	addr string // of the daemon
	env  []string
	shop *fakeShop
	erp  *fakeERP
	// set are texts that replace the words in capitals of the configuration.
	set map[string]string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), addr: freeAddress(t), shop: newShop(t), erp: newERP(t)}
	w.set = map[string]string{"JOURNAL": "sqlite:" + w.dir + "/syncd.db", "ADDRESS": w.addr, "SHOP": w.shop.URL, "ERP": w.erp.URL,
		"MAP": "{ref: .id, name, version: $meta.version}", "STARTS": "all", "KEY": ".ref", "LEVEL": "info"}
	w.configure()
	return w
}

const worldConfig = `journal: JOURNAL
listen: ADDRESS
log: {level: LEVEL}
clients:
  shop:
    connector: rest
    url: SHOP
    timeout: 5s
    streams:
      orders:
        list: {path: /orders}
        records: data
        id: [id]
        version: {path: version, format: integer}
        paging: none
        fetch: {path: "/orders/{id}"}
  erp:
    connector: rest
    url: ERP
    timeout: 30s
    concurrency: 1
    retry: {initial_delay: 50ms, max_delay: 200ms}
    entities:
      orders:
        unique: true
        create: {path: /orders, id: id, key_field: ref}
        lookup: {path: /orders, query: {ref: "{key}"}, records: data, id: id, key_field: ref}
        update: {path: "/orders/{link}"}
        settle_time: 1s
flows:
  orders:
    from: {client: shop, stream: orders, start: STARTS, every: 100ms}
    to: {client: erp, entity: orders, strategy: external_ref, on_existing: adopt}
    key: KEY
    map: 'MAP'
`

// configure writes the configuration, with the pairs of words and texts changed.
func (w *world) configure(pairs ...string) {
	w.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		w.set[pairs[i]] = pairs[i+1]
	}
	text := worldConfig
	for word, with := range w.set {
		text = strings.ReplaceAll(text, word, with)
	}
	write(w.t, w.dir, "syncd.yaml", text)
}

// run starts the daemon and waits until it is ready.
func (w *world) run(args ...string) *process {
	w.t.Helper()
	p := start(w.t, w.dir, w.env, append([]string{"run"}, args...)...)
	until(w.t, "the daemon is ready", func() bool {
		select {
		case <-p.ended:
			w.t.Fatalf("syncd ended (%v) before it was ready", p.err)
		default:
		}
		status, _ := get(w.t, w.url("/readyz"))
		return status == http.StatusOK
	})
	return p
}

func (w *world) url(path string) string { return "http://" + w.addr + path }

// call runs a command beside the daemon.
func (w *world) call(args ...string) result {
	w.t.Helper()
	return call(w.t, w.dir, w.env, args...)
}

// look runs a command within the test's own process: what a test asks again and
// again needs no process each time.
func (w *world) look(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var out, errout strings.Builder
	args = append(args, "--config", filepath.Join(w.dir, "syncd.yaml"))
	code := execute(ctx, args, append(os.Environ(), w.env...), &out, &errout)
	return result{code, out.String(), errout.String()}
}

// job reads one job by jobs show --json.
func (w *world) job(name string) (j showJSON) {
	w.t.Helper()
	r := w.look("jobs", "show", "--json", name)
	if r.code == exitFinding {
		return showJSON{}
	}
	if err := json.Unmarshal([]byte(r.out), &j); err != nil {
		w.t.Fatalf("jobs show %s: %v: %s%s", name, err, r.out, r.errout)
	}
	return j
}

// done waits until a job is done in a state that has the name.
func (w *world) done(key string, generation int64) {
	w.t.Helper()
	until(w.t, key+" is done", func() bool {
		j := w.job("orders/" + key)
		return j.State == "done" && j.Applied >= generation
	})
}

// fakeShop lists orders.
type fakeShop struct {
	*httptest.Server
	mu     sync.Mutex
	orders map[string]map[string]any
	refuse func(w http.ResponseWriter, r *http.Request) bool
	polls  int
}

func newShop(t testing.TB) *fakeShop {
	s := &fakeShop{orders: map[string]map[string]any{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// put gives an order its next version.
func (s *fakeShop) put(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 1
	if o := s.orders[id]; o != nil {
		n = o["version"].(int) + 1
	}
	s.orders[id] = map[string]any{"id": id, "name": name, "version": n}
}

func (s *fakeShop) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

// refusing has every request answered by f, while that returns true.
func (s *fakeShop) refusing(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

func (s *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	if s.refuse != nil && s.refuse(w, r) {
		return
	}
	if id, one := strings.CutPrefix(r.URL.Path, "/orders/"); one {
		reply(w, http.StatusOK, s.orders[id])
		return
	}
	var list []any
	for _, o := range s.orders {
		list = append(list, o)
	}
	reply(w, http.StatusOK, map[string]any{"data": list})
}

// fakeERP keeps orders under a reference. Writes can be held up.
type fakeERP struct {
	*httptest.Server
	mu     sync.Mutex
	orders []map[string]any
	writes []string // what had an effect: create REF NAME, update REF NAME
	refuse func(w http.ResponseWriter, r *http.Request) bool
	// doubles: a second record of a reference is taken.
	doubles bool

	arrived chan string   // a write that is held up
	hold    chan struct{} // open while writes are held up
}

func newERP(t testing.TB) *fakeERP {
	e := &fakeERP{arrived: make(chan string, 100)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(func() {
		e.release()
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// block holds writes up from now on, after they have had their effect.
func (e *fakeERP) block() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = make(chan struct{})
}

func (e *fakeERP) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hold != nil {
		close(e.hold)
		e.hold = nil
	}
}

// held waits for a write that is held up and names it.
func (e *fakeERP) held(t testing.TB) string {
	t.Helper()
	select {
	case s := <-e.arrived:
		return s
	case <-time.After(patience):
		t.Fatal("no write arrived")
		return ""
	}
}

func (e *fakeERP) refusing(f func(http.ResponseWriter, *http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuse = f
}

// effects are the writes that had an effect, in order.
func (e *fakeERP) effects() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.writes)
}

func (e *fakeERP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.refuse != nil && e.refuse(w, r) {
		e.mu.Unlock()
		return
	}
	status, out, what := e.serve(r)
	hold := e.hold
	e.mu.Unlock()
	if hold != nil && what != "" {
		e.arrived <- what
		<-hold
	}
	reply(w, status, out)
}

func (e *fakeERP) serve(r *http.Request) (status int, out any, what string) {
	if r.Method == http.MethodGet {
		list := []any{}
		for _, o := range e.orders {
			if o["ref"] == r.FormValue("ref") {
				list = append(list, o)
			}
		}
		return http.StatusOK, map[string]any{"data": list}, ""
	}
	var body map[string]any
	b, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(b, &body); err != nil {
		return http.StatusBadRequest, map[string]any{"error": "no JSON"}, ""
	}
	if r.Method == http.MethodPost {
		for _, o := range e.orders {
			if o["ref"] == body["ref"] && !e.doubles {
				return http.StatusConflict, map[string]any{"error": "ref is taken"}, ""
			}
		}
		body["id"] = len(e.orders) + 1
		e.orders = append(e.orders, body)
		what = fmt.Sprintf("create %v %v", body["ref"], body["name"])
		e.writes = append(e.writes, what)
		return http.StatusCreated, body, what
	}
	for _, o := range e.orders {
		if r.URL.Path == fmt.Sprintf("/orders/%v", o["id"]) {
			for k, v := range body {
				o[k] = v
			}
			what = fmt.Sprintf("update %v %v", o["ref"], o["name"])
			e.writes = append(e.writes, what)
			return http.StatusOK, o, what
		}
	}
	return http.StatusNotFound, map[string]any{"error": "no such order"}, ""
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
