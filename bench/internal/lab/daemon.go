package lab

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

// Build makes the binary of syncd as it is released, at a path, with more arguments of go build.
func Build(ctx context.Context, to string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", to}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "syncd/cmd/syncd")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build syncd: %w: %s", err, out)
	}
	return nil
}

// Daemon is syncd run beside this process.
type Daemon struct {
	// Started is when it was started.
	Started time.Time
	cmd     *exec.Cmd
	log     string
	ended   chan struct{} // closed when it has ended
	err     error
}

// StartDaemon starts `syncd run` with a configuration, in the folder of which it leaves a log. It is killed when ctx ends.
func StartDaemon(ctx context.Context, binary, config string, env ...string) (*Daemon, error) {
	d := &Daemon{cmd: exec.CommandContext(ctx, binary, "run", "--config", config), log: config + ".log", ended: make(chan struct{})}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	d.cmd.Dir, d.cmd.Stderr = filepath.Dir(config), log
	d.cmd.Env = append(os.Environ(), env...)
	d.Started = time.Now()
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start syncd: %w", err), log.Close())
	}
	go func() {
		d.err = errors.Join(d.cmd.Wait(), log.Close())
		close(d.ended)
	}()
	return d, nil
}

// PID is the number of its process.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Usage is what a daemon cost.
type Usage struct {
	CPU  time.Duration
	Peak int64 // bytes of memory
}

// Stop ends the daemon gracefully and tells what it cost.
func (d *Daemon) Stop() (Usage, error) {
	peak, err := Memory(d.PID(), "VmHWM")
	if err == nil {
		err = d.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return Usage{}, d.Failed(err)
	}
	<-d.ended
	if d.err != nil {
		return Usage{}, d.Failed(d.err)
	}
	st := d.cmd.ProcessState
	return Usage{CPU: st.UserTime() + st.SystemTime(), Peak: peak}, nil
}

// Signal sends the daemon a signal.
func (d *Daemon) Signal(s os.Signal) error { return d.cmd.Process.Signal(s) }

// Kill ends the daemon at once, whatever it is doing, and waits until it has ended.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill() // it fails for one that has ended
	<-d.ended
}

// Failed is an error with the end of the daemon's log.
func (d *Daemon) Failed(err error) error {
	said, _ := os.ReadFile(d.log)
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	return fmt.Errorf("syncd: %w\n%s", err, bytes.TrimSpace(said))
}

// Until asks again and again until done says yes, the daemon ends, or ctx does.
func (d *Daemon) Until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.Failed(context.Cause(ctx))
		case <-d.ended:
			return d.Failed(fmt.Errorf("ended early: %w", d.err))
		case <-tick.C:
		}
		ok, err := done()
		if err != nil {
			return d.Failed(err)
		}
		if ok {
			return nil
		}
	}
}
