package httpx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"syncd/connectors/conformance/hostile"
)

// count returns how many requests for a path were on the wire.
func count(srv *hostile.Server, path string) (n int) {
	for _, e := range srv.Log() {
		if e.Path == path {
			n++
		}
	}
	return n
}

// warm leaves a client with a connection that was used and is free again. It asks more than once where net/http gave one up: it does so
// when the goroutine that wrote the request has not said so within 50 ms of the answer, as happens on a busy machine.
func warm(t *testing.T, c *Client) {
	t.Helper()
	for range 20 {
		var free atomic.Bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) { free.Store(err == nil) }})
		if _, err := c.Do(ctx, &Request{Path: "/first"}); err != nil {
			t.Fatal(err)
		}
		if free.Load() {
			return
		}
	}
	t.Fatal("no connection stayed open")
}

func TestWriteThatFailsOnAUsedConnectionIsOnTheWireOnce(t *testing.T) {
	bodies := map[string][]byte{"with body": []byte(`{"ref":1}`), "without body": nil}
	for _, fault := range []string{"reset_after", "close_after", "reset_before", "close_before"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"} {
			for name, body := range bodies {
				for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"} {
					t.Run(fmt.Sprintf("%s/%s %s, key %q", fault, method, name, key), func(t *testing.T) {
						srv := hostile.Wrap(answerer(200, "{}"))
						defer srv.Close()
						c, g := newClient(t, srv.URL, nil)
						r := &Request{Method: method, Path: "/orders", Write: true, Body: body}
						if key != "" {
							r.Header = http.Header{key: {"k-1"}}
						}
						warm(t, c)
						before, waits := srv.Log(), g.waits
						srv.Next(hostile.Named(fault))
						_, err := c.Do(t.Context(), r)
						var e *Error
						if !errors.As(err, &e) || e.Kind != Unknown || !e.Sent {
							t.Errorf("got %v, want an unknown outcome", err)
						}
						if n := count(srv, "/orders"); n != 1 || g.waits != waits+1 {
							t.Errorf("a call: %d requests on the wire, %d times at the gate", n, g.waits-waits)
						}
						log := srv.Log()
						if last := log[len(log)-1]; last.Conn != before[len(before)-1].Conn {
							t.Error("the call was not on the used connection; the test proves nothing")
						} else if key != "" && last.Header.Get("Idempotency-Key") == "" && last.Header.Get("X-Idempotency-Key") == "" {
							t.Errorf("the key was lost: %v", last.Header)
						}
					})
				}
			}
		}
	}
}

func TestEmptyBodyOfAWriteIsFramedAsUsual(t *testing.T) {
	tests := []struct {
		method, want string // Content-Length as the server saw it
	}{
		{method: "POST", want: "0"},
		{method: "PUT", want: "0"},
		{method: "DELETE", want: ""},
		{method: "GET", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.method, func(t *testing.T) {
			var length string
			var encoding []string
			c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				length, encoding = r.Header.Get("Content-Length"), r.TransferEncoding
			})), nil)
			_, err := c.Do(t.Context(), &Request{Method: tt.method, Write: true, Header: http.Header{"Idempotency-Key": {"k"}}})
			if err != nil || length != tt.want || encoding != nil {
				t.Errorf("Content-Length %q, Transfer-Encoding %v, error %v; want length %q", length, encoding, err, tt.want)
			}
		})
	}
}

func TestReadOnAUsedConnectionThatBrokeIsRepeatedSilently(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, fault := range []string{"close_before", "close_after", "reset_before", "reset_after"} {
			t.Run(method+"/"+fault, func(t *testing.T) {
				srv := hostile.Wrap(answerer(200, "{}"))
				defer srv.Close()
				c, _ := newClient(t, srv.URL, nil)
				warm(t, c)
				srv.Next(hostile.Named(fault))
				if _, err := c.Do(t.Context(), &Request{Method: method, Path: "/orders", Body: []byte(`{"query":"q"}`)}); err != nil {
					t.Errorf("got %v", err)
				}
				log := srv.Log()
				if n := count(srv, "/orders"); n != 2 {
					t.Fatalf("%d requests on the wire: %+v", n, log)
				}
				if first, again := log[len(log)-2], log[len(log)-1]; first.BodyHash != again.BodyHash || first.Conn == again.Conn {
					t.Errorf("on the wire: %+v", log)
				}
			})
		}
	}
}

func TestReadByPOSTIsRepeatedOnceAndOnlyOnAUsedConnectionWithoutAnAnswer(t *testing.T) {
	tests := []struct {
		name  string
		used  bool
		fault string
		times int // how often the fault is met
		want  int // requests on the wire
		code  string
	}{
		{"a new connection", false, "close_before", 1, 1, "closed"},
		{"closed once more", true, "close_before", 2, 2, "closed"},
		{"reset once more", true, "reset_before", 2, 2, "reset"},
		{"closed within the header", true, "cut_header", 1, 1, "closed"},
		{"closed within the body", true, "cut_body", 1, 1, "cut"},
		{"no HTTP", true, "not_http", 1, 1, "protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := hostile.Wrap(answerer(200, "{}"))
			defer srv.Close()
			c, _ := newClient(t, srv.URL, nil)
			if tt.used {
				warm(t, c)
			}
			for range tt.times {
				srv.Next(hostile.Named(tt.fault))
			}
			_, err := c.Do(t.Context(), &Request{Method: "POST", Path: "/orders", Body: []byte(`{}`)})
			wantError(t, err, Unknown, tt.code)
			if n := count(srv, "/orders"); n != tt.want {
				t.Errorf("%d requests on the wire, want %d", n, tt.want)
			}
		})
	}
}

// failing is a connection whose writes begin to fail after its first request.
type failing struct {
	net.Conn
	writes *atomic.Int32
	taken  int // bytes that the failing write says it sent
}

func (f *failing) Write(p []byte) (int, error) {
	if f.writes.Add(1) == 1 {
		return f.Conn.Write(p)
	}
	n := 0
	if f.taken > 0 {
		n, _ = f.Conn.Write(p[:f.taken])
	}
	_ = f.Conn.Close()
	return n, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

// staleFirst dials connections of which the first fails from its second write on.
func staleFirst(taken int) func(context.Context, string, string) (net.Conn, error) {
	var dials atomic.Int32
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil && dials.Add(1) == 1 {
			return &failing{Conn: conn, writes: new(atomic.Int32), taken: taken}, nil
		}
		return conn, err
	}
}

func TestConnectionThatDiedWhileIdleIsReplacedWhenNothingWasWritten(t *testing.T) {
	for _, method := range []string{"POST", "DELETE", "GET"} {
		for _, isWrite := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, write %t", method, isWrite), func(t *testing.T) {
				srv := hostile.Wrap(answerer(200, "{}"))
				defer srv.Close()
				c, _ := newClient(t, srv.URL, func(o *Options) { o.Dial = staleFirst(0) })
				if _, err := c.Do(t.Context(), &Request{Path: "/first"}); err != nil {
					t.Fatal(err)
				}
				r := &Request{Method: method, Path: "/orders", Write: isWrite, Header: http.Header{"Idempotency-Key": {"k"}}}
				if method == "POST" {
					r.Body = []byte(`{"ref":1}`)
				}
				if _, err := c.Do(t.Context(), r); err != nil {
					t.Errorf("got %v", err)
				}
				log := srv.Log()
				if n := count(srv, "/orders"); n != 1 || log[len(log)-1].BodySize != len(r.Body) {
					t.Errorf("%d requests on the wire: %+v", n, log)
				}
			})
		}
	}
}

func TestWriteOfWhichAByteLeftIsNotRepeated(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	c, _ := newClient(t, srv.URL, func(o *Options) { o.Dial = staleFirst(1) })
	if _, err := c.Do(t.Context(), &Request{Path: "/first"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(t.Context(), write("/orders", `{"ref":1}`))
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unknown || !e.Sent || count(srv, "/orders") != 0 {
		t.Errorf("got %v, %d requests on the wire", err, count(srv, "/orders"))
	}
}

func TestServerThatAlwaysClosesIdleConnectionsNeverGetsAWriteTwice(t *testing.T) {
	var mu sync.Mutex
	times := map[string]int{}
	srv := hostile.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		times[string(b)]++
		mu.Unlock()
		answerer(200, "{}").ServeHTTP(w, r)
	}))
	defer srv.Close()
	srv.Always(hostile.Named("close_idle"))
	c, _ := newClient(t, srv.URL, nil)
	for i := range 300 {
		body := fmt.Sprintf(`{"ref":%d}`, i)
		r := write("/orders", body)
		r.Header = http.Header{"Idempotency-Key": {body}}
		_, err := c.Do(t.Context(), r)
		mu.Lock()
		n := times[body]
		mu.Unlock()
		var e *Error
		switch {
		case err == nil && n != 1:
			t.Errorf("write %d succeeded and was done %d times", i, n)
		case err != nil && n > 1:
			t.Errorf("write %d was done %d times", i, n)
		case err != nil && (!errors.As(err, &e) || e.Kind != Unknown):
			// The close can meet the write on its way: then it is in doubt.
			t.Errorf("write %d: %v", i, err)
		}
	}
}

func TestSealedConnectionTakesNoByte(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	c := &wireConn{Conn: a}
	go func() { _, _ = io.Copy(io.Discard, b) }()
	if c.seal() {
		t.Error("an idle connection counts as used")
	}
	if n, err := c.Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("a sealed connection took %d bytes, error %v", n, err)
	}
	c.arm()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if !c.seal() {
		t.Error("a used connection counts as idle")
	}
}

// busy is an authorizer that makes another request just before a request is repeated.
type busy struct {
	none
	applied int
	before  int // at which call
	do      func()
}

func (b *busy) Apply(*http.Request) uint64 {
	if b.applied++; b.applied == b.before {
		b.do()
	}
	return 0
}

func TestReadIsRepeatedOnceAlthoughAnotherConnectionHasComeFree(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	auth := &busy{before: 3}
	c, _ := newClient(t, srv.URL, func(o *Options) { o.Auth = auth })
	other := func() {
		if _, err := c.Do(t.Context(), &Request{Path: "/other"}); err != nil {
			t.Error(err)
		}
	}
	auth.do = other
	other()
	for range 2 {
		srv.Next(hostile.Named("close_before"), func(r *http.Request) bool { return r.URL.Path == "/orders" })
	}
	_, err := c.Do(t.Context(), &Request{Method: "POST", Path: "/orders", Body: []byte(`{}`)})
	wantError(t, err, Unknown, "closed")
	log := srv.Log()
	if len(log) != 4 || count(srv, "/orders") != 2 || log[2].Conn != log[3].Conn {
		t.Errorf("%d requests on the wire: %+v", count(srv, "/orders"), log)
	}
}
