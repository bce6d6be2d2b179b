package sqlite_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// smallDisk is a folder on a file system of its own with a few MiB. It takes root
// to make one.
func smallDisk(t *testing.T, mebibytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Fatalf("mount a small file system: %v; run this test as root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
		t.Fatalf("remount %s: %v", dir, err)
	}
}

func TestAFullDiskLosesNothingAndIsGotOver(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 6)
	e := opened(t, filepath.Join(dir, "journal.db"), sqlite.Options{Exclusive: true})
	noise := make([]byte, 200<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	store := func(i int) error {
		r := row(fmt.Sprint("K-", i))
		r.Body = noise
		return e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{r}) })
	}
	stored := int64(0)
	var err error
	for i := range 100 {
		if err = store(i); err != nil {
			break
		}
		stored++
	}
	want := "no space is left in " + dir + "; nothing was changed; make space; a daemon that runs goes on by itself ("
	if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, jobs.ErrCommitUnknown) {
		t.Fatalf("after %d rows the error is %v, want %q", stored, err, want)
	}
	if n := count(t, e); n != stored {
		t.Errorf("%d rows are there, %d were acknowledged", n, stored)
	}
	if w := e.Warnings(t.Context()); !strings.Contains(strings.Join(w, "\n"), "MiB are free on the journal's disk; make space") {
		t.Errorf("the warnings are %q", w)
	}
	remount(t, dir, 0, "size=40m")
	for i := range 20 {
		if err := store(1000 + i); err != nil {
			t.Fatalf("after space was made: %v", err)
		}
		stored++
	}
	if n := count(t, e); n != stored {
		t.Errorf("%d rows are there, %d were acknowledged", n, stored)
	}
}

func TestADiskThatIsFullAtTheStartIsNamed(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 1)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = filler.Write(block)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal.db")
	_, err = sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err == nil || !strings.Contains(err.Error(), "make space") {
		t.Errorf("the error is %v", err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	put(t, opened(t, path, sqlite.Options{Exclusive: true}), "A")
}

func TestAReadOnlyFileSystemIsNamed(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 8)
	path := filepath.Join(dir, "journal.db")
	e, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, e, "A")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	remount(t, dir, unix.MS_RDONLY, "")
	for _, c := range []struct {
		name string
		o    sqlite.Options
		file string
	}{
		{"the daemon", sqlite.Options{Exclusive: true}, path + ".lock"},
		{"a command", sqlite.Options{}, path},
	} {
		want := "open the journal " + path + ": " + c.file + " lies on a file system that is mounted read-only; mount it writable or choose another place: "
		if _, err := sqlite.Open(t.Context(), path, c.o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", c.name, err, want)
		}
	}
	want := "open the journal " + path + ": " + path + " lies on a file system that is mounted read-only, on which a journal can neither be written nor looked at; " +
		"mount it writable, or copy the file with its -wal to another place and look there ("
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("to look: the error is %v", err)
	}
	remount(t, dir, 0, "")
	if n := count(t, opened(t, path, sqlite.Options{Exclusive: true})); n != 1 {
		t.Errorf("%d rows are there, want 1", n)
	}
}

func TestADiskThatIsLostIsWarnedOf(t *testing.T) {
	t.Parallel()
	path := filepath.Join(smallDisk(t, 8), "journal.db")
	e := opened(t, path, sqlite.Options{Exclusive: true})
	want := "the journal " + path + " lies in memory (tmpfs) and is lost when the machine restarts; move it to a disk"
	if w := strings.Join(e.Warnings(t.Context()), "\n"); !strings.Contains(w, want) {
		t.Errorf("the warnings are %q, want %q", w, want)
	}
}

func TestTheLogGrowsUnderALongReaderAndIsCutBackAfterwards(t *testing.T) {
	t.Parallel()
	path := place(t)
	e := opened(t, path, sqlite.Options{Exclusive: true})
	put(t, e, "A")
	const warning = "the journal's write-ahead log has grown to "
	if err := e.View(t.Context(), func(tx jobs.Tx) error {
		if _, err := tx.List(t.Context(), jobs.Filter{}); err != nil {
			return err
		}
		grow(t, e, 20)
		if w := strings.Join(e.Warnings(t.Context()), "\n"); logMiB(t, path) <= 64 || !strings.Contains(w, warning) {
			t.Errorf("with a log of %d MiB the warnings are %q", logMiB(t, path), w)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	grow(t, e, 10)
	if w := strings.Join(e.Warnings(t.Context()), "\n"); logMiB(t, path) > 64 || strings.Contains(w, warning) {
		t.Errorf("after the reader ended the log has %d MiB, and the warnings are %q", logMiB(t, path), w)
	}
}

func TestTheLogIsBoundedAlthoughSomebodyAlwaysReads(t *testing.T) {
	t.Parallel()
	path := place(t)
	e := opened(t, path, sqlite.Options{Exclusive: true})
	put(t, e, "A")
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	readers.Go(func() {
		// Each View ends only after the next has begun.
		end := func() {}
		for ctx.Err() == nil {
			begun, over := make(chan struct{}), make(chan struct{})
			readers.Go(func() {
				if err := e.View(t.Context(), func(tx jobs.Tx) error {
					_, err := tx.List(t.Context(), jobs.Filter{})
					close(begun)
					<-over
					return err
				}); err != nil {
					t.Error(err)
				}
			})
			<-begun
			end()
			end = func() { close(over) }
		}
		end()
	})
	grow(t, e, 40)
	cancel()
	readers.Wait()
	if n := logMiB(t, path); n > 80 {
		t.Errorf("after 160 MiB were written the log has %d", n)
	}
}

// grow writes times 4 MiB to the journal.
func grow(t *testing.T, e *sqlite.Engine, times int) {
	t.Helper()
	r := row("big")
	noise := make([]byte, 4<<20)
	for range times {
		// Other bytes each time: a page that stays the same is not written.
		if _, err := rand.Read(noise); err != nil {
			t.Fatal(err)
		}
		r.Body = noise
		if err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{r}) }); err != nil {
			t.Fatal(err)
		}
	}
}

func logMiB(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size() >> 20
}

func TestTheDiskIsLowBelowWhatIsToStayFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		least int64
		low   bool
	}{{1, false}, {1 << 60, true}} {
		e, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Exclusive: true, MinFree: c.least})
		if err != nil {
			t.Fatal(err)
		}
		if why := e.LowDisk(false); (why != "") != c.low || c.low && !strings.Contains(why, "MiB are to stay free (min_free)") {
			t.Errorf("at least %d: %q", c.least, why)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
