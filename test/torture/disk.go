package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// disk is a disk of the journal's own.
type disk interface {
	path() string
	// ready is called when all that is there before the first daemon stands on the disk.
	ready(ctx context.Context) error
	close() error
}

// powerCut and diskFull name faults.
const (
	powerCut = "power cut"
	diskFull = "journal disk full"
)

// root reports whether disks can be made here, and says what is left out where not.
func root(say func(string, ...any), fault string) bool {
	if os.Geteuid() == 0 {
		return true
	}
	say("SKIPPED: %s: only root can make a disk for it; run as root to have it done", fault)
	return false
}

// fullDisk are the rows of a journal's disk that is full for a while.
func (o options) fullDisk(say func(string, ...any)) []*row {
	if o.faults == 0 || !root(say, diskFull) {
		return nil
	}
	return []*row{{fault: diskFull, planned: o.faults, inject: fill}}
}

// cuts are the rows of a power that fails.
func (o options) cuts(say func(string, ...any)) []*row {
	if o.powerCuts == 0 || !root(say, powerCut) {
		return nil
	}
	return []*row{{fault: powerCut, planned: o.powerCuts, inject: cut}}
}

// system runs a program of the system.
func system(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// unmount takes a disk off. What worked on it may take a moment to let go.
func unmount(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := system(ctx, "umount", at)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// smallDisk is a disk in memory.
type smallDisk struct{ at string }

// smallSize leaves room for a database server.
const smallSize = "256m"

func newSmallDisk(ctx context.Context, dir string) (disk, error) {
	d := &smallDisk{filepath.Join(dir, "disk")}
	if err := os.Mkdir(d.at, 0o711); err != nil {
		return nil, err
	}
	return d, system(ctx, "mount", "-t", "tmpfs", "-o", "mode=0711,size="+smallSize, "syncd-torture", d.at)
}

func (d *smallDisk) path() string                { return d.at }
func (d *smallDisk) ready(context.Context) error { return nil }
func (d *smallDisk) close() error                { return unmount(d.at) }

// ballast is the file that fills a disk.
func (d *smallDisk) ballast() string { return filepath.Join(d.at, "ballast") }

// fill writes until nothing more fits.
func (d *smallDisk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 4
		case err != nil:
			return err
		}
	}
	return nil
}

// fill fills the journal's disk for a while. A daemon that ends then is started again when there is room, as a supervisor would; so is the
// journal's server.
func fill(ctx context.Context, s *session) (time.Duration, error) {
	d := s.disk.(*smallDisk)
	// A log that has grown is written anew from its beginning and needs no more room: a fresh one does.
	if err := s.w.daemon.stop(ctx); err != nil {
		return 0, err
	}
	if err := s.revive(ctx, ""); err != nil {
		return 0, err
	}
	if err := d.fill(); err != nil {
		return 0, fmt.Errorf("fill the disk: %w", err)
	}
	full := s.w.daemon.sleep(ctx, time.Second+s.upTo(time.Second))
	log := s.w.daemon.tail()
	// A server goes on for a while in what it has room for already.
	for n := 0; full == nil && !noticed(log) && n < 20 && ctx.Err() == nil; n++ {
		full = s.w.daemon.sleep(ctx, time.Second)
		log = s.w.daemon.tail()
	}
	if err := os.Remove(d.ballast()); err != nil {
		return 0, fmt.Errorf("make room on the disk: %w", err)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if s.w.journal != nil {
		if pid, err := s.w.journal.server.PID(); err != nil || syscall.Kill(pid, 0) != nil {
			if err := s.w.journal.server.Start(ctx); err != nil {
				return 0, err
			}
		}
	}
	if full != nil {
		return 0, nil // it has ended, and the next one shows how long it takes
	}
	if !noticed(log) {
		return 0, fmt.Errorf("the disk was full, and syncd did not notice; the end of its log:\n%s", log)
	}
	return s.w.serves(ctx, s.w.watch())
}

// noticed reports whether a log tells of a full disk.
func noticed(log string) bool {
	return strings.Contains(log, "full") || strings.Contains(log, "53100") || strings.Contains(log, "space")
}

// image is a disk in a file, of which only what was flushed to it survives a power cut.
type image struct {
	dir, at string
	n       int
	// writeback and expire are how the kernel flushed by itself.
	writeback, expire string
}

const vm = "/proc/sys/vm/"

func newImage(ctx context.Context, dir string) (disk, error) {
	d := &image{dir: dir, at: filepath.Join(dir, "disk")}
	if err := d.flushNothing(); err != nil {
		return nil, err
	}
	err := func() error {
		if err := os.Mkdir(d.at, 0o711); err != nil {
			return err
		}
		if err := system(ctx, "truncate", "-s", "512M", d.file()); err != nil {
			return err
		}
		if err := system(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", d.file()); err != nil {
			return err
		}
		return d.mount(ctx)
	}()
	if err != nil {
		return nil, errors.Join(err, d.flush())
	}
	return d, nil
}

func (d *image) file() string { return filepath.Join(d.dir, fmt.Sprintf("image-%d", d.n)) }
func (d *image) path() string { return d.at }

// ready flushes what an installation has flushed long before the power fails.
func (d *image) ready(ctx context.Context) error { return system(ctx, "sync", "-f", d.at) }

func (d *image) mount(ctx context.Context) error {
	if err := system(ctx, "mount", "-o", "loop", d.file(), d.at); err != nil {
		return err
	}
	return os.Chmod(d.at, 0o711)
}

// flushNothing keeps the kernel from flushing by itself, for the whole machine, so that a cut takes all that nobody asked to be durable.
func (d *image) flushNothing() (err error) {
	for _, s := range []struct {
		name, want string
		old        *string
	}{{"dirty_writeback_centisecs", "0", &d.writeback}, {"dirty_expire_centisecs", "360000", &d.expire}} {
		text, err := os.ReadFile(vm + s.name)
		if err != nil {
			return err
		}
		*s.old = strings.TrimSpace(string(text))
		if err := os.WriteFile(vm+s.name, []byte(s.want), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (d *image) flush() error {
	return errors.Join(os.WriteFile(vm+"dirty_writeback_centisecs", []byte(d.writeback), 0o644),
		os.WriteFile(vm+"dirty_expire_centisecs", []byte(d.expire), 0o644))
}

func (d *image) close() error { return errors.Join(unmount(d.at), d.flush()) }

// copyNow copies what has reached the disk.
func (d *image) copyNow(ctx context.Context) error {
	next := *d
	next.n++
	return system(ctx, "cp", "--sparse=always", d.file(), next.file())
}

// swap puts the copy in the disk's place.
func (d *image) swap(ctx context.Context) error {
	if err := unmount(d.at); err != nil {
		return err
	}
	if err := os.Remove(d.file()); err != nil {
		return err
	}
	d.n++
	return d.mount(ctx)
}

// cut cuts the power: everybody who writes to the disk stops in the middle, and only what has reached the disk by then is there afterwards.
// The world around, which was told of every write, goes on.
func cut(ctx context.Context, s *session) (time.Duration, error) {
	d := s.disk.(*image)
	if err := s.w.daemon.sleep(ctx, 200*time.Millisecond+s.upTo(700*time.Millisecond)); err != nil {
		return 0, err
	}
	pids := []int{s.w.daemon.cmd.Process.Pid}
	if s.w.journal != nil {
		server, err := s.w.journal.server.PID()
		if err != nil {
			return 0, err
		}
		// The first process of the server is stopped before its children are looked for, so that there are no new ones.
		if err := send(syscall.SIGSTOP, server); err != nil {
			return 0, err
		}
		children, err := childrenOf(server)
		if err != nil {
			return 0, err
		}
		pids = append(append(pids, server), children...)
	}
	if err := send(syscall.SIGSTOP, pids...); err != nil {
		return 0, err
	}
	if err := stopped(ctx, pids...); err != nil {
		return 0, err
	}
	err := d.copyNow(ctx)
	if err := send(syscall.SIGKILL, pids...); err != nil {
		return 0, err
	}
	<-s.w.daemon.ended
	if err != nil {
		return 0, err
	}
	for _, pid := range pids[1:] {
		if err := gone(ctx, pid); err != nil {
			return 0, err
		}
	}
	if err := d.swap(ctx); err != nil {
		return 0, err
	}
	if s.w.journal != nil {
		if err := s.w.journal.server.Start(ctx); err != nil {
			return 0, err
		}
	}
	return 0, s.remembers(ctx)
}

// remembers books each record of the ERP of which the journal knows nothing after a cut: it was admitted and claimed, durably, before it was
// sent. What the sources say would bring most of them back, so the targets alone do not show that a journal forgets.
func (s *session) remembers(ctx context.Context) error {
	for _, l := range s.w.ledgers {
		js, err := s.w.list(ctx, "--flow", l.flow)
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for _, j := range js {
			known[j.Key] = true
		}
		for _, key := range l.written() {
			if !known[key] && len(known) < mostListed {
				s.book(finding{lost, l.flow, key, time.Now(), "the target has it, and the journal has forgotten it"})
			}
		}
	}
	return nil
}

// send signals processes; one that has ended is no concern.
func send(what syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, what); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
	}
	return nil
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) ([]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, dir := range dirs {
		child, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		if fields := stat(child); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out, nil
}

// stat is what the kernel tells of a process, from its state on; nil for one that is not there.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	i := strings.LastIndexByte(string(text), ')')
	return strings.Fields(string(text)[i+1:])
}

// stopped waits until the kernel has stopped processes.
func stopped(ctx context.Context, pids ...int) error {
	return until(ctx, pids, func(state string) bool { return state == "T" || state == "" || state == "Z" })
}

// gone waits until a process is no more.
func gone(ctx context.Context, pid int) error {
	return until(ctx, []int{pid}, func(state string) bool { return state == "" })
}

// until waits for the state of processes; "" is that of one that is not there.
func until(ctx context.Context, pids []int, is func(state string) bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for {
			state := ""
			if fields := stat(pid); len(fields) > 0 {
				state = fields[0]
			}
			if is(state) {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
