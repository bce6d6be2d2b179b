package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"syncd/internal/pgtest"
)

// supervisor is systemd's end of sd_notify(3).
type supervisor struct {
	t    testing.TB
	path string
	conn *net.UnixConn
}

func newSupervisor(t testing.TB) *supervisor {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{t: t, path: filepath.Join(dir, "socket")}
	if s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.conn.Close()
		os.RemoveAll(dir)
	})
	return s
}

// next is what the daemon says next; "" when it says nothing for d.
func (s *supervisor) next(d time.Duration) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := s.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// await reads what the daemon says until it is want, and fails at what is not allowed before.
func (s *supervisor) await(want string, allowed ...string) string {
	s.t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		got := s.next(patience)
		if got == want || strings.HasPrefix(got, want+"\n") {
			return got
		}
		ok := false
		for _, a := range allowed {
			ok = ok || got == a
		}
		if !ok {
			s.t.Fatalf("the daemon says %q, want %q", got, want)
		}
	}
	s.t.Fatalf("the daemon did not say %q", want)
	return ""
}

func TestSystemdIsToldOfStartReloadAndStop(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSupervisor(t)
	w.env = append(w.env, "NOTIFY_SOCKET="+s.path)
	w.shop.put("A", "first")
	w.erp.block()
	p := w.run()
	s.await("READY=1")
	w.erp.held(t)

	before := monotonicMicros(t)
	p.signal(syscall.SIGHUP)
	said := s.await("RELOADING=1")
	at, err := strconv.ParseInt(strings.TrimPrefix(said, "RELOADING=1\nMONOTONIC_USEC="), 10, 64)
	if err != nil || at < before || at > monotonicMicros(t) {
		t.Errorf("the reload carries %q, which is no time of the monotonic clock between %d and now", said, before)
	}
	p.await("read again")
	if got := s.next(300 * time.Millisecond); got != "" {
		t.Errorf("the daemon says %q while writes of the old configuration are still under way", got)
	}
	w.erp.release()
	s.await("READY=1")
	w.done("A", 1)

	// A mistake ends the reload too.
	write(t, w.dir, "syncd.yaml", "nonsense: 1\n")
	p.signal(syscall.SIGHUP)
	s.await("RELOADING=1")
	s.await("READY=1")
	w.configure()

	// The stop is told when it begins, not when it is over.
	w.erp.block()
	w.shop.put("A", "second")
	w.erp.held(t)
	p.signal(syscall.SIGTERM)
	s.await("STOPPING=1")
	w.erp.release()
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func monotonicMicros(t testing.TB) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano() / 1000
}

func TestWatchdogIsFedOnlyWhileTheJournalCanBeRead(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), newSupervisor(t)
	server := pgtest.Cluster(t)
	w.env = append(w.env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=600000", "DATABASE_URL="+server.DSN("syncd"))
	w.configure("JOURNAL", `{postgres: {url: "${env:DATABASE_URL}"}}`)
	w.shop.put("A", "first")
	p := w.run()
	s.await("READY=1")
	for range 3 {
		s.await("WATCHDOG=1")
	}
	w.done("A", 1)

	server.Stop(pgtest.Immediate)
	p.await("watchdog is not fed")
	for s.next(50*time.Millisecond) != "" { // what was sent before
	}
	if got := s.next(time.Second); got != "" {
		t.Errorf("the daemon says %q although its journal is away", got)
	}
	if status, body := get(t, w.url("/readyz")); status != http.StatusServiceUnavailable || body != "the journal cannot be read\n" {
		t.Errorf("/readyz answers %d %q", status, body)
	}
	if status, _ := get(t, w.url("/healthz")); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	if _, page := get(t, w.url("/metrics")); !strings.Contains(page, "\nsyncd_journal_up 0\n") {
		t.Error("the metrics do not say that the journal is down")
	}

	server.Start()
	p.await("watchdog is fed")
	s.await("WATCHDOG=1")
	w.shop.put("A", "second")
	w.done("A", 2)
	p.stop()
}
