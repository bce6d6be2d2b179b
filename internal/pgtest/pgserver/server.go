// Package pgserver runs a private PostgreSQL server in a folder of its own, on a loopback port of its
// own, and takes it away again. It never touches a server that happens to run on the machine. It is
// called by pgtest for tests and by withpg for the test command; nothing in the product uses it.
package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Mode is a way to stop the server.
type Mode string

const (
	// Fast disconnects everybody and shuts down cleanly.
	Fast Mode = "fast"
	// Immediate stops without a checkpoint: the next start recovers from the log, as after a crash.
	Immediate Mode = "immediate"
	// Kill sends SIGKILL to the server's first process; the others notice and leave.
	Kill Mode = "kill"
)

// Server is one private PostgreSQL server. Its methods are for one goroutine at a time.
type Server struct {
	// Port is the loopback port; it stays the same over Stop and Start.
	Port int

	bin     string
	dir     string
	data    string
	account account
	watcher *exec.Cmd
	// alive is the watcher's standard input. While this process holds it open the server may live.
	alive io.Closer
}

// settings are what differs from the defaults. Durability (fsync, synchronous_commit,
// full_page_writes) is left as it is, because the journal reads it back and refuses less.
// The rest makes many short-lived databases cheap on a small machine.
var settings = [...]string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"max_connections=300",
	"shared_buffers=64MB",
	"wal_level=minimal",
	"max_wal_senders=0",
	"wal_init_zero=off",
	"wal_recycle=off",
	"max_wal_size=1GB",
	"checkpoint_timeout=30min",
	"log_min_messages=warning",
}

// New makes a database cluster in a fresh temporary folder and starts it. extra are further settings
// as NAME=VALUE. The server is stopped and its folder removed by Close, and also when this process
// ends in any way, SIGKILL included.
func New(ctx context.Context, extra ...string) (*Server, error) {
	return started(ctx, "", nil, extra)
}

// NewUnder is New with the fresh folder below parent, if the server's account can pass through that.
func NewUnder(ctx context.Context, parent string, extra ...string) (*Server, error) {
	return started(ctx, "", []string{parent}, extra)
}

// NewIn is New with the server's data in a fresh folder below parent, which may be on a disk of its own and is not removed by Close;
// "" keeps it in the temporary folder. Nothing but the server itself works in it.
func NewIn(ctx context.Context, parent string, extra ...string) (*Server, error) {
	return started(ctx, parent, nil, extra)
}

// started makes a server with its data in a folder below disk, "" for its own, which is below the first passable one of parents or else of
// the temporary folders.
func started(ctx context.Context, disk string, parents, extra []string) (*Server, error) {
	bin, err := FindBinaries()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := who.makeFolder(append(parents, os.TempDir(), "/tmp", "/var/tmp")...)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, data: filepath.Join(dir, "data"), account: who}
	if disk != "" {
		if s.data, err = who.makeFolder(disk); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := s.watch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.create(ctx, extra); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// create runs initdb and the first start. A free port can be lost to somebody else between choosing it and
// binding it, so that step has a few tries.
func (s *Server) create(ctx context.Context, extra []string) error {
	out, err := s.command(ctx, "initdb", "-D", s.data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", s.data, err, tail(out))
	}
	var conf bytes.Buffer
	for _, line := range append(settings[:], extra...) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("setting %q: want NAME=VALUE", line)
		}
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	// postgresql.auto.conf is read after postgresql.conf and exists already, with the right owner.
	if err := os.WriteFile(filepath.Join(s.data, "postgresql.auto.conf"), conf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the server's settings: %w", err)
	}
	for try := 1; ; try++ {
		if s.Port, err = freePort(); err != nil {
			return err
		}
		err = s.Start(ctx)
		if err == nil || try == 5 || ctx.Err() != nil {
			return err
		}
	}
}

// Start starts the server after a Stop and returns when it accepts connections.
func (s *Server) Start(ctx context.Context) error {
	log := filepath.Join(s.dir, "log")
	out, err := s.command(ctx, "pg_ctl", "-D", s.data, "-l", log, "-o", "-p "+strconv.Itoa(s.Port),
		"-w", "-t", "120", "start").CombinedOutput()
	if err != nil {
		said, _ := os.ReadFile(log)
		return fmt.Errorf("start PostgreSQL on port %d: %w: %s: %s", s.Port, err, tail(out), tail(said))
	}
	return nil
}

// Standby has the next Start begin a standby, or a primary again.
func (s *Server) Standby(on bool) error {
	signal := filepath.Join(s.data, "standby.signal")
	var err error
	if on {
		err = os.WriteFile(signal, nil, 0o644) //nolint:gosec // the server's account must be able to read it
	} else {
		err = os.Remove(signal)
	}
	if err != nil {
		return fmt.Errorf("have PostgreSQL on port %d start in another role: %w", s.Port, err)
	}
	return nil
}

// Stop stops the server and returns when its first process is gone. Stopping a stopped server is an error.
func (s *Server) Stop(ctx context.Context, mode Mode) error {
	if mode == Kill {
		return s.kill(ctx)
	}
	out, err := s.command(ctx, "pg_ctl", "-D", s.data, "-m", string(mode), "-w", "-t", "120", "stop").CombinedOutput()
	if err != nil {
		return fmt.Errorf("stop PostgreSQL on port %d (%s): %w: %s", s.Port, mode, err, tail(out))
	}
	return nil
}

// PID is the server's first process, of which all others are children.
func (s *Server) PID() (int, error) {
	lock, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("look for PostgreSQL on port %d: %w", s.Port, err)
	}
	first, _, _ := strings.Cut(string(lock), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("look for PostgreSQL on port %d: its lock file names the process %q", s.Port, first)
	}
	return pid, nil
}

func (s *Server) kill(ctx context.Context) error {
	pid, err := s.PID()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill PostgreSQL on port %d (process %d): %w", s.Port, pid, err)
	}
	// The orphan is reaped by init; until then, and until its children have let go of the shared memory,
	// a new start would be refused. The port is free again when nobody accepts.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill PostgreSQL on port %d: process %d is still there: %w", s.Port, pid, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// DSN is the connection string of one database of this server, as its superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.Port, database)
}

// Close stops the server, removes its folder and returns when both are gone.
func (s *Server) Close() error {
	if err := s.alive.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close PostgreSQL on port %d: %w", s.Port, err)
	}
	if err := s.watcher.Wait(); err != nil {
		return fmt.Errorf("close PostgreSQL on port %d: %w", s.Port, err)
	}
	return nil
}

// watch starts the process that outlives this one: when its input ends, because we closed it or
// because we died, it stops the server and removes the folder. It has a session of its own, so that
// Ctrl-C in a terminal does not reach it before it has done so.
func (s *Server) watch() error {
	const script = `while read -r line; do :; done
"$1/pg_ctl" -D "$3" -m immediate -w -t 60 stop
cd / && rm -rf "$2"`
	cmd := exec.Command("/bin/sh", "-c", script, "syncd-pg-watcher", s.bin, s.dir, s.data)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.account.credential}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("watch over PostgreSQL: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watch over PostgreSQL: %w", err)
	}
	s.watcher, s.alive = cmd, in
	return nil
}

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account.credential}
	return cmd
}

// freePort finds a loopback port that nobody listens on, below the range from which the system takes
// the ports of outgoing connections: a server that is stopped for a while must get its port back.
func freePort() (int, error) {
	const low, high = 20000, 32000
	for range 100 {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("give back port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", low, high)
}

// tail keeps the end of a program's output, where the reason stands.
func tail(out []byte) string {
	const most = 2000
	out = bytes.TrimSpace(out)
	if len(out) > most {
		out = append([]byte("… "), out[len(out)-most:]...)
	}
	return string(out)
}
