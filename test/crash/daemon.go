package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds the syncd of this module into dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "syncd")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "syncd/cmd/syncd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build syncd: %w: %s", err, out)
	}
	return path, nil
}

// daemon is a running syncd.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error

	mu    sync.Mutex
	last  []string // the end of its log
	doubt int
}

// lastLines is how much of a log is kept.
const lastLines = 30

func (r *run) start() (*daemon, error) {
	d := &daemon{cmd: exec.Command(r.Binary, "run", "--config", r.config), ended: make(chan struct{})}
	d.cmd.Dir, d.cmd.Env = r.Dir, r.env()
	log, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	go func() {
		s := bufio.NewScanner(log)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			d.line(s.Text())
		}
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	return d, nil
}

func (r *run) env() []string {
	return append(os.Environ(), "CRASH_DATABASE="+r.Postgres)
}

// line keeps a line of the log, and counts the writes that a start found in doubt.
func (d *daemon) line(text string) {
	var l struct {
		Msg  string `json:"msg"`
		Jobs int    `json:"jobs"`
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = append(d.last[max(0, len(d.last)-lastLines+1):], text)
	if json.Unmarshal([]byte(text), &l) == nil && strings.Contains(l.Msg, "left in doubt") {
		d.doubt += l.Jobs
	}
}

func (d *daemon) foundInDoubt() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doubt
}

func (d *daemon) tail() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.last, "\n")
}

// kill ends the daemon as a power cut would, as far as a process can tell.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// stop ends the daemon gracefully.
func (d *daemon) stop(ctx context.Context) error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the last daemon: %w", err)
	}
	select {
	case <-d.ended:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stuck):
		return errors.New("the last daemon does not stop")
	}
	if d.err != nil {
		return fmt.Errorf("the last daemon ended with %w; the end of its log:\n%s", d.err, d.tail())
	}
	return nil
}

// open is how many jobs are not done, as syncd status says; 1 while there is no
// journal that it could read.
func (r *run) open(ctx context.Context) (int64, error) {
	cmd := exec.CommandContext(ctx, r.Binary, "status", "--json", "--config", r.config)
	cmd.Dir, cmd.Env = r.Dir, r.env()
	out, err := cmd.Output()
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee) && ee.ExitCode() == 4:
		return 1, nil
	case err != nil && (ee == nil || ee.ExitCode() != 1):
		return 0, fmt.Errorf("syncd status: %w", err)
	}
	var s struct {
		Totals struct{ Open, Running, Dead, Unresolved int64 }
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return 0, fmt.Errorf("syncd status: %w: %s", err, out)
	}
	return s.Totals.Open + s.Totals.Dead + s.Totals.Unresolved, nil
}
