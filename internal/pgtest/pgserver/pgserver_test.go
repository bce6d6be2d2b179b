package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// holdServer makes this test binary, run again as a child, start a server and hold it until it is killed.
const holdServer = "PGSERVER_TEST_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdServer) == "" {
		os.Exit(m.Run())
	}
	s, err := New(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Port, s.dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// until polls a condition, with a deadline that is long because the machine may be busy.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after a minute: not yet %s", what)
		}
	}
}

func listening(port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAServerDoesNotOutliveAProcessThatWasKilled(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdServer+"=yes")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var port int
	var dir string
	if _, err := fmt.Fscan(bufio.NewReader(out), &port, &dir); err != nil {
		t.Fatalf("the child's server did not start: %v", err)
	}
	if !listening(port) || !exists(dir) {
		t.Fatalf("the child's server does not run: port %d, folder %s", port, dir)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	until(t, "stopped", func() bool { return !listening(port) })
	until(t, "removed", func() bool { return !exists(dir) })
}

func TestCloseTakesTheServerAndItsFolderAway(t *testing.T) {
	s, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !listening(s.Port) {
		t.Error("the server does not listen")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if listening(s.Port) {
		t.Error("the server still listens")
	}
	if exists(s.dir) {
		t.Errorf("the folder %s is still there", s.dir)
	}
}

func TestASettingThatTheServerRefusesIsToldAndLeavesNothingBehind(t *testing.T) {
	tmp := traversableTemp(t)
	t.Setenv("TMPDIR", tmp)
	_, err := New(t.Context(), "max_connections=many")
	if err == nil {
		t.Fatal("the server started with max_connections=many")
	}
	if !strings.Contains(err.Error(), `invalid value for parameter "max_connections": "many"`) {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// traversableTemp is a temporary folder that the server's user can pass through, as t.TempDir is not for root.
func traversableTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func install(t *testing.T, dir string, programs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheNewestCompleteInstallationIsFound(t *testing.T) {
	root := t.TempDir()
	all := []string{"initdb", "pg_ctl", "postgres"}
	install(t, filepath.Join(root, "9", "bin"), all...)
	fifteen := install(t, filepath.Join(root, "15", "bin"), all...)
	install(t, filepath.Join(root, "17", "bin"), "psql", "pg_dump") // the client package alone
	own := install(t, filepath.Join(root, "own"), all...)
	glob := filepath.Join(root, "*", "bin")

	for _, c := range []struct {
		name, glob string
		path       []string
		want       string
	}{
		{"fifteen is newer than nine, though not as text", glob, nil, fifteen},
		{"the system's packages come before PATH", glob, []string{own}, fifteen},
		{"PATH serves without packages", filepath.Join(root, "none", "*"), []string{"relative", root, own}, own},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := findBinaries(c.glob, c.path)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

func TestWithoutPostgreSQLTheErrorSaysHowToInstallIt(t *testing.T) {
	_, err := findBinaries(filepath.Join(t.TempDir(), "*"), []string{t.TempDir()})
	if !errors.Is(err, ErrNoBinaries) {
		t.Fatalf("error is %v, want ErrNoBinaries", err)
	}
	const want = "the PostgreSQL server programs (initdb, pg_ctl, postgres) were found neither in " +
		"/usr/lib/postgresql/*/bin nor in PATH; on Debian or Ubuntu: apt-get install postgresql"
	if err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestAFolderBehindAClosedParentIsNotPassable(t *testing.T) {
	root := traversableTemp(t)
	inner := filepath.Join(root, "closed", "open")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if !passable(inner) {
		t.Errorf("%s is not passable while all is open", inner)
	}
	if err := os.Chmod(filepath.Join(root, "closed"), 0o750); err != nil {
		t.Fatal(err)
	}
	if passable(inner) {
		t.Errorf("%s is passable though its parent is closed to others", inner)
	}
}
