package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between engine and server and acts when a COMMIT goes by.
type proxy struct {
	dsn    string
	server string
	hook   atomic.Pointer[func(message []byte, client, server net.Conn) bool]
	work   sync.WaitGroup
}

// commitMessage is COMMIT as a simple query of the protocol.
var commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")

func newProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host}
	u.Host = l.Addr().String()
	p.dsn = u.String()
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.work.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.work.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if hook := p.hook.Load(); n > 0 && hook != nil && bytes.Contains(buf[:n], commitMessage) && !(*hook)(buf[:n], client, server) {
			return
		}
		if _, e := server.Write(buf[:n]); e != nil || err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return
		}
	}
}

// cutAtCommit cuts the connection once, at the next COMMIT, which arrives at the server or not.
func (p *proxy) cutAtCommit(arrives bool) {
	var once sync.Once
	hook := func(message []byte, client, server net.Conn) (forward bool) {
		forward = true
		once.Do(func() {
			forward = false
			_ = client.Close()
			if arrives {
				_, _ = server.Write(message)
			}
		})
		return forward
	}
	p.hook.Store(&hook)
}

// atCommit calls fn while a COMMIT is on its way.
func (p *proxy) atCommit(fn func()) {
	hook := func([]byte, net.Conn, net.Conn) bool {
		fn()
		return true
	}
	p.hook.Store(&hook)
}
