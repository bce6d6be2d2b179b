package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"syncd/jobs"
	"syncd/jobs/internal/schema"
)

// Options of Open.
type Options struct {
	// Exclusive is for the daemon: no second one may have the journal, and a journal
	// that is missing or of an older version is made or brought up to date. Without
	// it the journal has to be there already, as this version knows it.
	Exclusive bool
	// ReadOnly refuses Update.
	ReadOnly bool
	// Overwrite has pages overwritten with zeros that are freed, as what is removed within
	// a page always is; see also Scrub.
	Overwrite bool
	// MinFree is how many bytes of the disk are to stay free, for LowDisk; 0 for 5 % of it
	// or 512 MiB, whichever is less.
	MinFree int64
	// Now is the time; nil for the process's clock.
	Now func() time.Time
	// Log is told of what is not worth an error; nil for no log.
	Log *slog.Logger
}

// Engine is the journal in one SQLite file. It implements jobs.Engine.
type Engine struct {
	path string
	o    Options
	sql  rowSQL
	// totals is what Counts remembers.
	totals totals
	lock   *lockFile // nil unless Exclusive
	file   inode     // the file as it was opened
	open   bool      // whether the channels below are filled

	// writer holds the one connection that writes, or nil after it had to be given
	// up; whoever receives it is the writer.
	writer chan *conn
	// readers holds connections at rest; a nil one stands for one not opened yet.
	readers chan *conn

	lost     chan struct{}
	lostWhy  error // set before lost is closed
	loseOnce sync.Once

	closed    chan struct{}
	closeOnce sync.Once
	closeErr  error

	// checkpointAfter is the earliest next try at emptying a long write-ahead log;
	// it belongs to the writer.
	checkpointAfter time.Time
}

// readers is how many Views run at once; more wait.
const readers = 4

// Open opens the journal at path. Its errors say what to do; they wrap
// jobs.ErrInUse, jobs.ErrNewer, jobs.ErrOlder, jobs.ErrAbsent and
// jobs.ErrUnsafe where these apply.
func Open(ctx context.Context, path string, o Options) (*Engine, error) {
	e, err := open(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("open the journal %s: %w", path, err)
	}
	return e, nil
}

func open(ctx context.Context, path string, o Options) (e *Engine, err error) {
	if o.Exclusive && o.ReadOnly {
		return nil, errors.New("a daemon cannot have its journal read-only")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	path, err = place(path)
	if err != nil {
		return nil, err
	}
	// Commits with fdatasync: as durable, and twice as fast where fsync has the
	// file's times written too. The error means that this system has no fdatasync.
	_, _ = sqlite.Fdatasync(true)
	e = &Engine{path: path, o: o, sql: newRowSQL(), writer: make(chan *conn, 1), readers: make(chan *conn, readers),
		lost: make(chan struct{}), closed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	// It is told before anything is made: SQLite deletes a write-ahead log that
	// stands beside an empty database.
	if err = leftover(path); err != nil {
		return e, err
	}
	if o.Exclusive {
		before := hadOne(path)
		if e.lock, err = takeLock(path, o.Now()); err != nil {
			return e, err
		}
		made, err := create(path)
		if err != nil {
			return e, err
		}
		if made && before {
			o.Log.Warn("the journal was not there and is made anew, although a lock file says that there was one before; every flow begins as its start says, and nothing is known of what was written. "+
				"If it was not meant to go, stop, put it back, and start again", "journal", path)
		}
	}
	if err = reachable(path, o.ReadOnly); err != nil {
		return e, err
	}
	w, err := e.prepare(ctx)
	if err != nil {
		return e, e.explain(err)
	}
	e.writer <- w
	for range readers {
		e.readers <- nil
	}
	e.open = true
	if e.file, err = inodeOf(path); err != nil {
		return e, err
	}
	if o.Exclusive {
		err = e.Update(ctx, func(t jobs.Tx) error { return t.(*tx).freeAll(ctx) })
	}
	return e, err
}

// place is the file's real path, so that two names of one journal have one lock.
func place(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("no path is given; set the journal's path to a file")
	case strings.Contains(path, ":memory:") || strings.HasPrefix(path, "file:"):
		return "", errors.New("a journal has to survive a power cut; give the path of a plain file on a local disk")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s does not exist; create it, writable for the user that runs syncd: %w", filepath.Dir(abs), err)
	} else if err != nil {
		return "", err
	}
	if network, name := onNetwork(dir); network {
		return "", fmt.Errorf("%w: %s lies on a network file system (%s), on which SQLite's write-ahead log does not work "+
			"(https://www.sqlite.org/wal.html); put the journal on a local disk, or use a PostgreSQL journal", jobs.ErrUnsafe, dir, name)
	}
	file := filepath.Join(dir, filepath.Base(abs))
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no plain file (%s); give the path of a file", file, info.Mode().Type())
	}
	return filepath.EvalSymlinks(file)
}

// onNetwork reports file systems on which several machines see one file.
func onNetwork(dir string) (bool, string) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return false, ""
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC:
		return true, "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return true, "SMB"
	case unix.AFS_SUPER_MAGIC:
		return true, "AFS"
	}
	return false, ""
}

// leftover refuses a write-ahead log whose database is gone or empty. It may hold the
// newest writes of one that can be put back: beside a new database SQLite would delete
// it, and beside another one it would be applied to that
// (https://www.sqlite.org/howtocorrupt.html, "Unlinking or renaming a database file while
// in use", and https://www.sqlite.org/wal.html).
func leftover(path string) error {
	db, err := os.Stat(path)
	if err == nil && db.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // others tell what is wrong with it
	}
	wal, werr := os.Stat(path + "-wal")
	if werr != nil || wal.Size() == 0 {
		return nil
	}
	state := "is gone"
	if err == nil {
		state = "is empty"
	}
	return fmt.Errorf("it %s, and its write-ahead log %s-wal, which may hold its newest writes, is still there; "+
		"put the journal back beside it, or move %s-wal and %s-shm away to begin with an empty one", state, path, path, path)
}

// hadOne reports whether a daemon had a journal here before.
func hadOne(path string) bool {
	_, err := os.Stat(path + ".lock")
	return err == nil
}

// create makes the file, readable for its owner alone, unless it is there. An
// existing file is not opened: see the package's comment.
func create(path string) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, explainFile(path, err)
	}
	if err := f.Close(); err != nil {
		return true, err
	}
	// The new name has to be as durable as what is written under it.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return true, err
	}
	return true, errors.Join(dir.Sync(), dir.Close())
}

// reachable looks at the file's place before SQLite does, whose errors do not
// say what is wrong.
func reachable(path string, readOnly bool) error {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w at %s; `syncd run` makes it when it starts for the first time", jobs.ErrAbsent, path)
	case err != nil:
		return err
	}
	if readOnly {
		return explainFile(path, unix.Access(path, unix.R_OK))
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
		return explainFile(path, err)
	}
	return explainFile(filepath.Dir(path), unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK))
}

func explainFile(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s lies on a file system that is mounted read-only; mount it writable or choose another place: %w", path, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("no space is left for %s; make space: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("user %d may not write %s; let the user that runs syncd own the journal's folder and files: %w", os.Geteuid(), path, err)
	}
	return err
}

// dsn is the file as SQLite takes it. Commands beside the daemon never make a file.
func (e *Engine) dsn() string {
	mode := "rw"
	if e.o.ReadOnly {
		mode = "ro"
	}
	return "file:" + (&url.URL{Path: e.path}).EscapedPath() + "?mode=" + mode + "&_dqs=0&_error_rc=1&_defensive=1"
}

// dial opens one connection and gives it its settings. Each is read back: SQLite
// silently ignores a setting that it does not know or cannot make.
func (e *Engine) dial(ctx context.Context, queryOnly bool) (*conn, error) {
	connector, err := sqlite.NewConnector(e.dsn())
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := newConn(raw)
	if err := settings(ctx, c, queryOnly); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepare opens the writer's connection and makes sure that the file is our
// journal, of our version, with a write-ahead log.
func (e *Engine) prepare(ctx context.Context) (*conn, error) {
	c, err := e.dial(ctx, e.o.ReadOnly)
	if err != nil {
		return nil, err
	}
	// What is removed or moved within a page is overwritten there, which costs nothing,
	// so that erasing leaves no copy. Pages that are freed are written for it on demand.
	// https://www.sqlite.org/pragma.html#pragma_secure_delete
	how, want := "FAST", int64(2)
	if e.o.Overwrite {
		how, want = "ON", 1
	}
	if got, err := c.one(ctx, "PRAGMA secure_delete = "+how); err != nil || got != want {
		return nil, errors.Join(fmt.Errorf("have what is removed overwritten: SQLite says %v", got), err, c.close())
	}
	if err := e.adopt(ctx, c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (e *Engine) adopt(ctx context.Context, c *conn) error {
	// Nothing is written before this is known: the file may be another program's.
	version, err := recognise(ctx, c, e.path)
	if err != nil {
		return err
	}
	ms, want, err := schema.Migrations(migrations, nil)
	if err != nil {
		return err
	}
	if err := e.mayUse(version, want); err != nil {
		return err
	}
	if !e.o.ReadOnly {
		if err := useWAL(ctx, c); err != nil {
			return err
		}
	}
	if err := checkWAL(ctx, c); err != nil {
		return err
	}
	if version == want {
		return nil
	}
	if err := e.up(ctx, ms); err != nil {
		return fmt.Errorf("bring the schema from version %d to %d: %w", version, want, err)
	}
	return e.sign(ctx, c)
}
