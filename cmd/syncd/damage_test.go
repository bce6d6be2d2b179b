package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spoiled overwrites the middle of a stopped daemon's journal.
func (w *world) spoiled() {
	w.t.Helper()
	path := filepath.Join(w.dir, "syncd.db")
	b, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatalf("the write-ahead log is still there: %v", err)
	}
	// The pages after the tables' own first ones; SQLite's are of 4 KiB.
	from := len(b) / 2 / 4096 * 4096
	copy(b[from:], bytes.Repeat([]byte{0xff}, 4096*4))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestDamagedJournalEndsTheDaemonAndIsToldByTheCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	p.stop()
	w.spoiled()
	const says = "the journal is damaged: "
	const do = "cannot be relied on any more; stop syncd, keep the file with its -wal, and restore the journal from a backup"
	p = start(t, w.dir, w.env, "run")
	if code := p.wait(); code != exitJournal {
		t.Errorf("the daemon ends with %d, want %d", code, exitJournal)
	}
	if log := p.log(); !strings.Contains(log, says) || !strings.Contains(log, do) {
		t.Errorf("its log does not say so:\n%s", log)
	}
	if r := w.call("status"); r.code != exitJournal || !strings.Contains(r.errout, says) || !strings.Contains(r.errout, do) {
		t.Errorf("status ends with %d:\n%s%s", r.code, r.out, r.errout)
	}
	if r := w.call("check", "--live"); r.code == exitOK || !strings.Contains(r.out, says) || !strings.Contains(r.out, do) {
		t.Errorf("check --live ends with %d:\n%s%s", r.code, r.out, r.errout)
	}
}
