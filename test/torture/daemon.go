package main

import (
	"bufio"
	"context"
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

// build builds the syncd that can be told where to die, and returns its path. With mistakes it can be told one that it makes.
func build(ctx context.Context, dir string, mistakes bool) (string, error) {
	path := filepath.Join(dir, "syncd")
	tags := "torture"
	if mistakes {
		tags += ",mutants"
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-ldflags", "-s -w", "-o", path, "syncd/cmd/syncd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build syncd: %w: %s", err, out)
	}
	return path, nil
}

// process is a running syncd.
type process struct {
	cmd   *exec.Cmd
	begun time.Time
	// once is the file that lets the passings of its point count.
	once  string
	ended chan struct{}
	// took is closed when it runs a client that it did not have from the start.
	took     chan struct{}
	tookOnce sync.Once
	// spoke is closed when it has said something, and so heeds signals.
	spoke     chan struct{}
	spokeOnce sync.Once

	mu   sync.Mutex
	last []string // the end of its log
}

// lastLines is how much of a log is kept.
const lastLines = 40

// start starts a syncd that is to die at a point, "" for one that is not: at once, or when it is armed.
func (w *world) start(point string, atOnce bool) (*process, error) {
	w.started++
	if err := w.configure(); err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(w.binary, "run", "--config", w.config), ended: make(chan struct{}), took: make(chan struct{}),
		spoke: make(chan struct{}), once: filepath.Join(w.dir, fmt.Sprintf("once-%d", w.started))}
	p.cmd.Dir = w.dir
	p.cmd.Env = append(w.env(), "TORTURE_CRASH="+point)
	if !atOnce {
		p.cmd.Env = append(p.cmd.Env, "TORTURE_CRASH_ONCE="+p.once)
	}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	go func() {
		s := bufio.NewScanner(log)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.line(s.Text())
			if w.log != nil {
				fmt.Fprintln(w.log, s.Text())
			}
		}
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		_ = os.Remove(p.once)
		close(p.ended)
	}()
	return p, nil
}

// speaks waits until the process says something.
func (p *process) speaks(ctx context.Context) error {
	t := time.NewTimer(recoverTime)
	defer t.Stop()
	select {
	case <-p.spoke:
		return nil
	case <-p.ended:
		return p.strange("ended by itself")
	case <-t.C:
		return fmt.Errorf("syncd said nothing for %s", recoverTime)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) line(text string) {
	p.spokeOnce.Do(func() { close(p.spoke) })
	if strings.Contains(text, `"running a client"`) {
		p.tookOnce.Do(func() { close(p.took) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last[max(0, len(p.last)-lastLines+1):], text)
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// arm lets the passings of the point count.
func (p *process) arm() error {
	if err := os.WriteFile(p.once, nil, 0o600); err != nil {
		return fmt.Errorf("let a crash point count: %w", err)
	}
	return nil
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the process with SIGKILL, if it has not ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// dies waits until the process has killed itself and reports whether it did in time.
func (p *process) dies(ctx context.Context, within time.Duration) (bool, error) {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !s.Signaled() || s.Signal() != syscall.SIGKILL {
		return false, p.strange("ended by itself")
	}
	return true, nil
}

// diesStopping asks the process to end, and reports whether it killed itself meanwhile.
func (p *process) diesStopping(ctx context.Context) (bool, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return false, fmt.Errorf("stop syncd: %w", err)
	}
	died, err := p.dies(ctx, stopTime)
	if err != nil && p.hasEnded() && p.cmd.ProcessState.Success() {
		return false, nil
	}
	return died, err
}

// stopTime is how long a daemon may take to end.
const stopTime = 40 * time.Second

// strange is an end that nobody asked for.
func (p *process) strange(how string) error {
	return fmt.Errorf("syncd %s (%s); the end of its log:\n%s", how, p.cmd.ProcessState, p.tail())
}

// stop ends the process gracefully.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop syncd: %w", err)
	}
	t := time.NewTimer(stopTime)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return errors.New("syncd does not stop")
	}
	if !p.cmd.ProcessState.Success() {
		return p.strange("did not stop well")
	}
	return nil
}

// sleep waits, unless ctx or the process ends before.
func (p *process) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ended:
		return p.strange("ended by itself")
	case <-ctx.Done():
		return ctx.Err()
	}
}
