package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// command runs a program with the message on its standard input.
type command struct {
	argv []string
	env  []string
}

// handed are the variables that the program gets; the daemon's own hold secrets.
var handed = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// waitDelay is how long after its end, or its kill, the program's input is waited for.
const waitDelay = time.Second

func newCommand(s Settings) *command {
	c := &command{argv: s.Command, env: []string{}}
	for _, name := range handed {
		if v, ok := os.LookupEnv(name); ok {
			c.env = append(c.env, name+"="+v)
		}
	}
	return c
}

func (c *command) name() string { return "command" }

// send runs the program, without a shell, and waits until it ends; exit code 0 says
// that the message has arrived. When ctx ends first, all of its process group is
// killed. What it prints goes nowhere: it may be anything.
func (c *command) send(ctx context.Context, _ string, body []byte, _ time.Time) error {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = c.env, bytes.NewReader(body), waitDelay
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	what := "run " + filepath.Base(c.argv[0])
	var ee *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: killed, because it had not ended in time: %w", what, ctx.Err())
	case errors.As(err, &ee):
		return fmt.Errorf("%s: it ended with %s", what, ee.ProcessState)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
