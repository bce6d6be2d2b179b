package httpx

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// States of a wireConn.
const (
	wireIdle   int32 = iota // nothing of the request was written yet
	wireUsed                // a byte may have left
	wireSealed              // nothing was written and nothing will be
	wireBroken              // the first write failed before its first byte
)

var errSealed = errors.New("the request was given up before its first byte")

// wireConn knows whether a byte of the present request was handed to the
// connection. It wraps what requests are written to: the TLS session where
// there is one, so that handshakes and alerts do not count.
type wireConn struct {
	net.Conn
	state atomic.Int32
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.state.CompareAndSwap(wireIdle, wireUsed) {
		n, err := c.Conn.Write(p)
		if n == 0 && err != nil {
			c.state.CompareAndSwap(wireUsed, wireBroken)
		}
		return n, err
	}
	if c.state.Load() != wireUsed {
		return 0, errSealed
	}
	return c.Conn.Write(p)
}

// arm begins a new request on the connection.
func (c *wireConn) arm() { c.state.Store(wireIdle) }

// seal ends the request on the connection and reports whether a byte of it may
// have left. After false, none will.
func (c *wireConn) seal() (used bool) {
	return !c.state.CompareAndSwap(wireIdle, wireSealed) && c.state.Load() == wireUsed
}

// wire follows one request through the transport.
type wire struct {
	mu     sync.Mutex
	conn   *wireConn
	opaque bool // it got a connection that we know nothing of
	reused bool
	first  bool // a byte of an answer has come
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotFirstResponseByte: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.first = true
	}, GotConn: func(info httptrace.GotConnInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reused = info.Reused
		conn := info.Conn
		// Through a proxy the transport itself makes the TLS session on top of ours;
		// then an alert counts as sent, which errs on the safe side.
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn()
		}
		if w.conn, _ = conn.(*wireConn); w.conn == nil {
			w.opaque = true
			return
		}
		w.conn.arm()
	}}
}

// end reports, of a request that failed, whether any of it may have been sent,
// and whether it met a connection that had been used before.
func (w *wire) end() (sent, reused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return w.opaque, w.reused
	}
	return w.conn.seal(), w.reused
}

// answered reports whether any byte of an answer has come.
func (w *wire) answered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}
