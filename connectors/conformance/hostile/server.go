package hostile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 64 << 20

// Match chooses the requests that a fault is for.
type Match func(*http.Request) bool

// Any matches every request.
func Any(*http.Request) bool { return true }

// Entry is one request as it was on the wire.
type Entry struct {
	Method string
	// Path is the escaped path, Query the raw query.
	Path, Query string
	Header      http.Header
	// BodySize is the body's length in bytes, BodyHash its SHA-256 in hexadecimal.
	BodySize int
	BodyHash string
	// Conn names the connection: requests with the same Conn came over the same one.
	Conn string
	// Fault is the name of the fault that was played, "" for none.
	Fault string
	// Handled says that the wrapped handler did its work.
	Handled bool
}

// Server is a handler behind faults, on a port of the loopback.
type Server struct {
	// URL is where the server listens: "http://127.0.0.1:12345".
	URL string

	handler   http.Handler
	http      *http.Server
	elsewhere *http.Server
	otherURL  string
	closed    chan struct{}
	running   sync.WaitGroup

	mu    sync.Mutex
	plans []plan
	log   []*Entry
	other []*Entry
}

type plan struct {
	fault  Fault
	match  Match
	always bool
}

// Wrap starts a server that serves h as long as no fault is planned. Redirects
// of its faults lead to a second server, which answers everything with 200 and
// a JSON list, and whose log is Elsewhere. It panics when no port of the
// loopback can be had.
func Wrap(h http.Handler) *Server {
	s := &Server{handler: h, closed: make(chan struct{})}
	s.http, s.URL = start(http.HandlerFunc(s.serve))
	s.elsewhere, s.otherURL = start(http.HandlerFunc(s.serveElsewhere))
	return s
}

func start(h http.Handler) (*http.Server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("hostile: listen: %v", err))
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }() // ends with Close
	return srv, "http://" + l.Addr().String()
}

// Close ends all hangs and connections, and waits for the handlers.
func (s *Server) Close() {
	close(s.closed)
	_ = s.http.Close()
	_ = s.elsewhere.Close()
	s.running.Wait()
}

// Next plans a fault for the next request that matches; without a matcher, for
// the next request. Faults planned for the same requests are played in the
// order in which they were planned.
func (s *Server) Next(f Fault, match ...Match) { s.plan(f, false, match) }

// Always plans a fault for every matching request that no other fault is
// planned for, until Calm.
func (s *Server) Always(f Fault, match ...Match) { s.plan(f, true, match) }

// Calm drops all faults that are planned.
func (s *Server) Calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = nil
}

func (s *Server) plan(f Fault, always bool, match []Match) {
	m := Any
	if len(match) > 0 {
		m = func(r *http.Request) bool {
			return !slices.ContainsFunc(match, func(m Match) bool { return !m(r) })
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans = append(s.plans, plan{f, m, always})
}

// Log returns the requests so far, in the order in which they came.
func (s *Server) Log() []Entry { return s.entries(&s.log) }

// Elsewhere returns the requests that reached the server the redirects lead to.
func (s *Server) Elsewhere() []Entry { return s.entries(&s.other) }

func (s *Server) entries(of *[]*Entry) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []Entry
	for _, e := range *of {
		l = append(l, *e)
	}
	return l
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Done()
	e, body := entry(w, r)
	r.Body = io.NopCloser(bytes.NewReader(body)) // for matchers that look into it
	f := s.note(e, r)
	x := &exchange{srv: s, w: w, r: r, body: body, entry: e}
	if f.play == nil {
		x.handle().writeTo(w)
		return
	}
	f.play(x)
}

// note logs a request and takes the fault that is planned for it.
func (s *Server) note(e *Entry, r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, e)
	at := slices.IndexFunc(s.plans, func(p plan) bool { return !p.always && p.match(r) })
	if at < 0 {
		at = slices.IndexFunc(s.plans, func(p plan) bool { return p.match(r) })
	}
	if at < 0 {
		return Fault{}
	}
	p := s.plans[at]
	if !p.always {
		s.plans = slices.Delete(s.plans, at, at+1)
	}
	e.Fault = p.fault.Name
	return p.fault
}

func (s *Server) serveElsewhere(w http.ResponseWriter, r *http.Request) {
	e, _ := entry(w, r)
	s.mu.Lock()
	s.other = append(s.other, e)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `[{"id":1},{"id":2}]`)
}

// entry reads a request whole, so that the server notices when the client goes.
func entry(w http.ResponseWriter, r *http.Request) (*Entry, []byte) {
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	sum := sha256.Sum256(body)
	return &Entry{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone(),
		BodySize: len(body), BodyHash: hex.EncodeToString(sum[:]), Conn: r.RemoteAddr}, body
}

// exchange is one request and what a fault does with it.
type exchange struct {
	srv   *Server
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	entry *Entry
}

// handle lets the wrapped handler do its work and keeps its answer.
func (x *exchange) handle() *answer {
	// A handler works to its end whether or not the client still listens.
	r := x.r.Clone(context.WithoutCancel(x.r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(x.body))
	a := &answer{header: http.Header{}}
	x.srv.handler.ServeHTTP(a, r)
	x.srv.mu.Lock()
	x.entry.Handled = true
	x.srv.mu.Unlock()
	return a
}

// hang waits until the client has gone or the server is closed, and then ends
// the connection.
func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.srv.closed:
	}
	panic(http.ErrAbortHandler)
}

// conn takes the connection over.
func (x *exchange) conn() net.Conn {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	return c
}

// reset ends the connection in the rudest way.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// answer is what a handler answered.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// bytes is the body, or a small one if there is none, for faults that damage it.
func (a *answer) bytes() []byte {
	if a.body.Len() == 0 {
		return []byte(`{"id":12,"name":"green tea"}`)
	}
	return a.body.Bytes()
}

func (a *answer) writeTo(w http.ResponseWriter) { a.send(w, a.body.Bytes()) }

// send answers with the handler's header and another body.
func (a *answer) send(w http.ResponseWriter, body []byte) {
	for name, v := range a.header {
		if name != "Content-Length" {
			w.Header()[name] = v
		}
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(body)
}
