package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"syncd/jobs"
)

// lockFile is a file beside the journal on which one daemon holds a lock of the
// kernel's, which ends with the process however that ends. SQLite's own locks stay
// free, so that commands can read and write beside the daemon.
type lockFile struct {
	f  *os.File
	at inode
}

func takeLock(journal string, now time.Time) (*lockFile, error) {
	path := journal + ".lock"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, explainFile(path, err)
	}
	l := &lockFile{f: f}
	if err := l.take(path, now); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

func (l *lockFile) take(path string, now time.Time) error {
	switch err := unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: %s holds %s; stop it first, only one daemon may have a journal", jobs.ErrInUse, holder(l.f), path)
	case err != nil:
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if err := l.f.Truncate(0); err != nil {
		return explainFile(path, err)
	}
	text := fmt.Sprintf("process %d, started %s\n", os.Getpid(), now.UTC().Format(time.RFC3339))
	if _, err := l.f.WriteAt([]byte(text), 0); err != nil {
		return explainFile(path, err)
	}
	var err error
	if l.at, err = inodeOfFile(l.f); err != nil {
		return err
	}
	// Somebody may have removed the file between our opening and our locking it.
	return l.check(path)
}

// holder says who holds the lock, as it wrote itself down.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 200))
	text := strings.TrimSpace(string(b))
	if err != nil || text == "" {
		return "another process"
	}
	return text
}

// check makes sure that the name still leads to the file that is locked: were it
// removed, a second daemon could lock a new one.
func (l *lockFile) check(path string) error {
	at, err := inodeOf(path)
	if err == nil && at == l.at {
		return nil
	}
	return fmt.Errorf("%w, or may be: the lock file %s was removed or replaced; leave it where it is while a daemon runs, and start the daemon again", jobs.ErrInUse, path)
}

// release unlocks before it closes: closing alone leaves the lock to a process that is
// just being started and has not closed what it was born with.
func (l *lockFile) release() error {
	err := unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
	return errors.Join(err, l.f.Close())
}

// inode tells whether two names, or one at two times, are one file.
type inode struct{ dev, ino uint64 }

func inodeOf(path string) (inode, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return inode{uint64(s.Dev), s.Ino}, nil
}

func inodeOfFile(f *os.File) (inode, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return inode{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return inode{uint64(s.Dev), s.Ino}, nil
}
