package main

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

	"syncd/bench/internal/lab"
)

// child is syncd run beside this process.
type child struct {
	cmd     *exec.Cmd
	log     string
	started time.Time
	ended   chan struct{} // closed when it has ended
	err     error
}

// startChild starts `syncd run` with a configuration. It is killed when ctx ends.
func startChild(ctx context.Context, binary, config string, env ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, binary, "run", "--config", config), log: config + ".log", ended: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("start syncd: %w", err)
	}
	c.cmd.Dir, c.cmd.Stderr = filepath.Dir(config), log
	c.cmd.Env = append(os.Environ(), env...)
	c.started = time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start syncd: %w", err), log.Close())
	}
	go func() {
		c.err = errors.Join(c.cmd.Wait(), log.Close())
		close(c.ended)
	}()
	return c, nil
}

// usage is what a child cost.
type usage struct {
	cpu  time.Duration
	peak int64 // bytes
}

// stop ends the child gracefully and tells what it cost.
func (c *child) stop() (usage, error) {
	peak, err := lab.Memory(c.cmd.Process.Pid, "VmHWM")
	if err == nil {
		err = c.cmd.Process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return usage{}, c.failed(err)
	}
	<-c.ended
	if c.err != nil {
		return usage{}, c.failed(c.err)
	}
	st := c.cmd.ProcessState
	return usage{cpu: st.UserTime() + st.SystemTime(), peak: peak}, nil
}

// writeProfiles has a profiled child write what it has.
func (c *child) writeProfiles(ctx context.Context, dir string) error {
	if err := c.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return c.failed(err)
	}
	heap := filepath.Join(dir, fmt.Sprintf("heap-%d.pprof", c.cmd.Process.Pid))
	return c.until(ctx, 10*time.Millisecond, func() (bool, error) {
		_, err := os.Stat(heap)
		return err == nil, nil
	})
}

// failed is an error with the end of the child's log.
func (c *child) failed(err error) error {
	said, _ := os.ReadFile(c.log)
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	return fmt.Errorf("syncd: %w\n%s", err, bytes.TrimSpace(said))
}

// until asks again and again until done says yes, the child ends, or ctx does.
func (c *child) until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.failed(context.Cause(ctx))
		case <-c.ended:
			return c.failed(fmt.Errorf("ended early: %w", c.err))
		case <-tick.C:
		}
		ok, err := done()
		if err != nil {
			return c.failed(err)
		}
		if ok {
			return nil
		}
	}
}
