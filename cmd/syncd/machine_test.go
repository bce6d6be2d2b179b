package main

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// journalFiles is a fingerprint of a SQLite journal and its write-ahead log.
func journalFiles(t testing.TB, dir string) string {
	t.Helper()
	out := ""
	for _, name := range []string{"syncd.db", "syncd.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		out += fmt.Sprintf("%s %d bytes %x  ", name, len(b), sha256.Sum256(b))
	}
	return out
}

// silent is an address that takes connections and never answers, and a channel
// that is closed when somebody has connected.
func silent(t testing.TB) (string, <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called, first := make(chan struct{}), true
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
			if first {
				close(called)
				first = false
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range open {
			c.Close()
		}
	})
	return l.Addr().String(), called
}
