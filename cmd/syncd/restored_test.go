package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// keep copies files of the world's folder, while no daemon runs; the returned function
// puts them back, into the files that are there by then, or into new ones.
func (w *world) keep(names ...string) (back func(anew bool)) {
	w.t.Helper()
	was := map[string][]byte{}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(w.dir, n))
		if err != nil {
			w.t.Fatal(err)
		}
		was[n] = b
	}
	return func(anew bool) {
		w.t.Helper()
		for n, b := range was {
			path := filepath.Join(w.dir, n)
			if anew {
				if err := os.Remove(path); err != nil {
					w.t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// witness is the file that tells how far the world's journal had come.
func (w *world) witness() string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "journal-*.json"))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("state files %v, %v", found, err)
	}
	return filepath.Base(found[0])
}

// refused calls syncd run, which must not start, and returns why.
func (w *world) refused(words ...string) {
	w.t.Helper()
	for _, args := range [][]string{{"run"}, {"check", "--live"}, {"status"}} {
		r := w.call(args...)
		if r.code == 0 || args[0] == "run" && r.code != exitJournal {
			w.t.Fatalf("%v: code %d: %s%s", args, r.code, r.out, r.errout)
		}
		for _, word := range words {
			if !strings.Contains(r.out+r.errout, word) {
				w.t.Errorf("%v does not say %q: %s%s", args, word, r.out, r.errout)
			}
		}
	}
}

// A journal that was put back from a backup is noticed, and once a person has said so,
// what it does not know any more is found in the target and not created again.
func TestARestoredJournalCreatesNothingTwice(t *testing.T) {
	inFull(t)
	t.Parallel()
	w := newWorld(t)
	w.erp.doubles = true // it would take a second record of one reference
	w.configure("unique: true", "", "strategy: external_ref", "strategy: lookup")
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	p.stop()
	back := w.keep("syncd.db")
	asOf := time.Now().UTC()
	w.shop.put("A", "second")
	w.shop.put("B", "first")
	p = w.run()
	w.done("A", 2)
	w.done("B", 1)
	p.stop()
	// A is at the source as the backup knows it, and in the target otherwise.
	w.shop.put("A", "first")
	back(false)
	w.refused("was restored from a backup", "syncd restored --as-of ", w.witness())

	r := w.call("restored", "--as-of", asOf.Format(time.RFC3339Nano))
	if r.code != exitFinding || !strings.Contains(r.out, "nothing was done; say --yes to do it") {
		t.Fatalf("restored: %d %s%s", r.code, r.out, r.errout)
	}
	w.refused("was restored from a backup")
	r = w.call("restored", "--as-of", asOf.Format(time.RFC3339Nano), "--yes", "--json")
	var out restoredJSON
	if err := json.Unmarshal([]byte(r.out), &out); err != nil || r.code != 0 || !out.Confirmed || out.Epoch < 1e9 || out.Run.EndedAt == nil || out.AsOf.After(asOf) {
		t.Fatalf("restored: %d %s%s", r.code, r.out, r.errout)
	}
	p = w.run()
	until(t, "A is as the source has it", func() bool { return slices.Contains(w.erp.effects()[3:], "update A first") })
	until(t, "nothing is open", func() bool { return w.job("orders/A").State == "done" && w.job("orders/B").State == "done" })
	w.shop.put("C", "first")
	w.done("C", 1)
	p.stop()
	for _, k := range []string{"A", "B", "C"} {
		n := 0
		for _, e := range w.erp.effects() {
			if strings.HasPrefix(e, "create "+k) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s was created %d times: %q", k, n, w.erp.effects())
		}
	}
}

// A folder that was put back whole tells as much of the journal as of the file beside it;
// but the journal stands in a new file then.
func TestAFolderThatWasPutBackIsNoticedByTheFile(t *testing.T) {
	inFull(t)
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	p.stop()
	back := w.keep("syncd.db", w.witness())
	back(true)
	w.refused("it stands in another file", "syncd restored --moved", "syncd restored --as-of ")
	if r := w.call("restored", "--moved"); r.code != 0 {
		t.Fatalf("restored --moved: %d %s%s", r.code, r.out, r.errout)
	}
	w.shop.put("A", "second")
	p = w.run()
	w.done("A", 2)
	// Nobody says it of a journal that is worked on.
	if r := w.call("restored", "--as-of", "1h", "--yes"); r.code != exitJournal || !strings.Contains(r.errout, "stop syncd first") {
		t.Fatalf("restored beside a daemon: %d %s%s", r.code, r.out, r.errout)
	}
	p.stop()
}
