package notify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is a program for tests; syncd itself uses none.
func shell(script string, args ...string) *command {
	return newCommand(Settings{Command: append([]string{"/bin/sh", "-c", script, "sh"}, args...)})
}

func run(ctx context.Context, c *command, body string) error {
	return c.send(ctx, "msg_1", []byte(body), time.Now())
}

func TestCommandGetsTheMessageAndNoSecrets(t *testing.T) {
	t.Setenv("CANARY_TOKEN", "CANARY")
	dir := t.TempDir()
	said, env := filepath.Join(dir, "said"), filepath.Join(dir, "env")
	if err := run(context.Background(), shell(`cat >"$1"; env >"$2"`, said, env), `{"type":"syncd.notice"}`); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(said); string(got) != `{"type":"syncd.notice"}` {
		t.Errorf("it was given %q", got)
	}
	got, _ := os.ReadFile(env)
	for line := range strings.Lines(string(got)) {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "PWD", "OLDPWD", "SHLVL", "_", "PATH", "HOME", "LANG", "TZ", "TMPDIR": // the first four are the shell's own
		default:
			t.Errorf("it was given the variable %s", name)
		}
	}
	if !strings.Contains(string(got), "PATH=") {
		t.Errorf("it was given %q", got)
	}
}

func TestCommandIsNoLineForAShell(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	c := newCommand(Settings{Command: []string{"/bin/echo", "$(touch " + made + ")", "; touch " + made}})
	if err := run(context.Background(), c, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("an argument was run")
	}
}

func TestCommandsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		c    *command
		want string
	}{
		"exit code":  {shell(`echo CANARY; echo CANARY >&2; exit 3`), "run sh: it ended with exit status 3"},
		"signal":     {shell(`kill -9 $$`), "run sh: it ended with signal: killed"},
		"no program": {newCommand(Settings{Command: []string{"/nowhere/page-me"}}), "run page-me: fork/exec /nowhere/page-me: no such file or directory"},
	} {
		if err := run(context.Background(), c.c, "{}"); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestCommandThatTalksWithoutReadingIsHeardOut(t *testing.T) {
	if err := run(context.Background(), shell(`head -c 10000000 /dev/zero; head -c 10000000 /dev/zero >&2`), strings.Repeat("x", 1<<20)); err != nil {
		t.Error(err)
	}
}

func TestCommandThatHangsIsKilledWithAllThatItStarted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, shell(`trap "" TERM; sleep 1000 & echo $! $$ >"$1"; wait`, pipe), "{}") }()
	text, err := os.ReadFile(pipe) // until both run
	if err != nil {
		t.Fatal(err)
	}
	var child, self int
	if _, err := fmt.Sscan(string(text), &child, &self); err != nil {
		t.Fatal(err)
	}
	cancel() // as the time of a try ends it
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "run sh: killed, because it had not ended in time") {
		t.Errorf("got %v", err)
	}
	for _, pid := range []int{child, self} {
		awaitEnd(t, pid)
	}
}

// awaitEnd waits until a process that was killed is gone, or only to be collected.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "Z") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d still runs: %s", pid, stat)
		}
	}
}
