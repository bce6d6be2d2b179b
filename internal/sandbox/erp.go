package sandbox

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ERP is the sandbox ERP.
type ERP struct {
	server
	records []*erpRecord
	nextID  int64
	calm    bool
	away    time.Time // maintenance until then
	wrote   int
	stale   int
	late    time.Duration
	twice   map[string]bool // kinds whose references may be taken twice
}

type erpRecord struct {
	id   int64
	kind string
	ref  string
	body map[string]any
}

// NewERP opens an ERP.
func NewERP(seed uint64) (*ERP, error) {
	e := &ERP{nextID: 1}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{kind}", e.create)
	mux.HandleFunc("GET /{kind}", e.find)
	mux.HandleFunc("PATCH /{kind}/{id}", e.update)
	return e, e.server.open(seed, bucket{size: 30, perSecond: 25}, mux)
}

// Calm ends the bad day.
func (e *ERP) Calm() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calm, e.away = true, time.Time{}
}

// Maintain closes the ERP for a time; it tells callers when to come back.
func (e *ERP) Maintain(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = time.Now().Add(d)
}

// WorkLate has the ERP do a third of all writes late, up to d after they arrived:
// also when the caller has gone meanwhile, as servers do that work on a request
// they can no longer answer.
func (e *ERP) WorkLate(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = d
}

// TakeTwice lets records of a kind share a reference, as in an ERP that does not
// know that the reference means anything.
func (e *ERP) TakeTwice(kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.twice == nil {
		e.twice = map[string]bool{}
	}
	e.twice[kind] = true
}

// fault is what happens to one write.
type fault int

const (
	none fault = iota
	hangBefore
	hangAfter
	resetAfter
	failAfter
)

// gate refuses a request in maintenance or over quota.
func (e *ERP) gate(w http.ResponseWriter) bool {
	e.mu.Lock()
	left := time.Until(e.away)
	if left > 0 {
		e.faults["503 in maintenance"]++
	}
	e.mu.Unlock()
	if left > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(left.Seconds())+1))
		problem(w, http.StatusServiceUnavailable, "in maintenance")
		return false
	}
	return e.quota(w)
}

func (e *ERP) dice() fault {
	switch {
	case e.calm:
		return none
	case e.chance(0.02, "request never answered, work not done"):
		return hangBefore
	case e.chance(0.03, "work done, then never answered"):
		return hangAfter
	case e.chance(0.02, "work done, then the connection cut"):
		return resetAfter
	case e.chance(0.02, "work done, then answered with 500"):
		return failAfter
	}
	return none
}

// write carries out one write under its fault.
func (e *ERP) write(w http.ResponseWriter, r *http.Request, do func(body map[string]any) (int, any)) {
	if !e.gate(w) {
		return
	}
	var body map[string]any
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, "not a JSON object")
		return
	}
	e.wait()
	e.mu.Lock()
	f := e.dice()
	status, out := 0, any(nil)
	if f != hangBefore {
		status, out = do(body)
	}
	e.mu.Unlock()
	switch f {
	case hangBefore, hangAfter:
		select {
		case <-r.Context().Done():
		case <-e.closed:
		}
	case resetAfter:
		reset(w)
	case failAfter:
		problem(w, http.StatusInternalServerError, "internal error")
	default:
		answer(w, status, out)
	}
}

// wait puts a write off, if it is one of those that are done late.
func (e *ERP) wait() {
	e.mu.Lock()
	var d time.Duration
	if e.late > 0 && !e.calm && e.chance(1./3, "work done late") {
		d = time.Duration(e.rnd.Int64N(int64(e.late)))
	}
	e.mu.Unlock()
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.closed:
	}
}

// reset cuts the connection so that the caller sees a reset.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (e *ERP) create(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	e.write(w, r, func(body map[string]any) (int, any) {
		ref, _ := body["ref"].(string)
		if ref == "" {
			return http.StatusUnprocessableEntity, map[string]string{"error": "ref is required"}
		}
		for _, x := range e.records {
			if x.kind == kind && x.ref == ref && !e.twice[kind] {
				return http.StatusConflict, map[string]string{"error": "ref is taken"}
			}
		}
		x := &erpRecord{id: e.nextID, kind: kind, ref: ref, body: body}
		e.nextID++
		e.records = append(e.records, x)
		e.wrote++
		return http.StatusCreated, x.json()
	})
}

func (e *ERP) update(w http.ResponseWriter, r *http.Request) {
	e.write(w, r, func(body map[string]any) (int, any) {
		for _, x := range e.records {
			if x.kind != r.PathValue("kind") || strconv.FormatInt(x.id, 10) != r.PathValue("id") {
				continue
			}
			if version(body) < version(x.body) {
				e.stale++
			}
			for k, v := range body {
				x.body[k] = v
			}
			e.wrote++
			return http.StatusOK, x.json()
		}
		return http.StatusNotFound, map[string]string{"error": "no such record"}
	})
}

func (e *ERP) find(w http.ResponseWriter, r *http.Request) {
	if !e.gate(w) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []any{}
	for _, x := range e.records {
		if x.kind == r.PathValue("kind") && x.ref == r.FormValue("ref") {
			out = append(out, x.json())
		}
	}
	answer(w, http.StatusOK, map[string]any{"data": out})
}

func (x *erpRecord) json() map[string]any {
	out := map[string]any{"id": x.id}
	for k, v := range x.body {
		out[k] = v
	}
	return out
}

// version is the source's version that a record carries.
func version(body map[string]any) int64 {
	n, _ := body["version"].(json.Number)
	v, _ := n.Int64()
	return v
}
