package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runs reads the errands by runs --json.
func (w *world) runs() (out runsJSON) {
	w.t.Helper()
	r := w.look("runs", "--json")
	if err := json.Unmarshal([]byte(r.out), &out); err != nil {
		w.t.Fatalf("runs: %v: %s%s", err, r.out, r.errout)
	}
	return out
}

// Records whose mapping was edited are read again one by one, and those that come out
// as they were are not written.
func TestRemapWritesWhatComesOutOtherwise(t *testing.T) {
	inFull(t)
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"A", "B", "C"} {
		w.shop.put(id, "first")
	}
	p := w.run()
	for _, id := range []string{"A", "B", "C"} {
		w.done(id, 1)
	}
	// The list tells nothing any more: only single records can be read.
	w.shop.refusing(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/orders/") {
			return false
		}
		rw.WriteHeader(http.StatusNotFound)
		return true
	})
	w.configure("MAP", `{ref: .id, name: (if .id == "B" then "other" else .name end), version: $meta.version}`)
	p.signal(syscall.SIGHUP)
	p.await("running the new configuration")
	if r := w.call("remap", "orders", "--yes"); r.code != 0 || !strings.Contains(r.out, "3 source records of flow orders") || !strings.Contains(r.out, "goes on in the daemon") {
		t.Fatalf("remap: %d %s%s", r.code, r.out, r.errout)
	}
	w.done("B", 2)
	until(t, "the errand has ended", func() bool { rs := w.runs().Runs; return len(rs) == 1 && rs[0].EndedAt != nil })
	if r := w.runs().Runs[0]; r.Done != 3 || r.Total != 3 || r.Message != "3 source records were read again" {
		t.Errorf("%+v", r)
	}
	p.stop()
	got := w.erp.effects()
	slices.Sort(got)
	if want := []string{"create A first", "create B first", "create C first", "update B other"}; !slices.Equal(got, want) {
		t.Errorf("writes %q, want %q", got, want)
	}
}

// A target that was restored from a backup gets back what it lost, once, and what the
// backup has is not created again.
func TestRedeliverBringsBackWhatARestoredTargetLost(t *testing.T) {
	inFull(t)
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	p.stop()
	w.erp.mu.Lock()
	backup := []map[string]any{{"id": 1, "ref": "A", "name": "first"}}
	w.erp.mu.Unlock()
	at := time.Now().UTC()
	w.shop.put("A", "second")
	w.shop.put("B", "first")
	p = w.run()
	w.done("A", 2)
	w.done("B", 1)
	p.stop()
	w.erp.mu.Lock()
	// Ids given since the backup are given again, to others.
	w.erp.orders = append(backup, map[string]any{"id": 2, "ref": "Z", "name": "not ours"})
	w.erp.writes = nil
	w.erp.mu.Unlock()
	if r := w.call("redeliver", "orders", "--since", at.Format(time.RFC3339Nano), "--yes"); r.code != 0 ||
		!strings.Contains(r.out, "2 records of flow orders were written since") || !strings.Contains(r.out, "and 1 ids of client erp") {
		t.Fatalf("redeliver: %d %s%s", r.code, r.out, r.errout)
	}
	p = w.run()
	until(t, "both are written", func() bool { return len(w.erp.effects()) >= 2 })
	until(t, "nothing is open", func() bool { return w.job("orders/A").State == "done" && w.job("orders/B").State == "done" })
	p.stop()
	got := w.erp.effects()
	slices.Sort(got)
	if want := []string{"create B first", "update A second"}; !slices.Equal(got, want) {
		t.Errorf("writes %q, want %q", got, want)
	}
}

// The daemon removes what is kept no longer, and what was removed is read again when
// it is replayed.
func TestDaemonRemovesWhatIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	body := func() bool {
		r := w.look("jobs", "show", "orders/A", "--body", "--json")
		return strings.Contains(r.out, `"body"`)
	}
	if !body() {
		t.Fatal("it has no content from the beginning")
	}
	p.stop()
	w.configure("LEVEL", "info}\nretention: {bodies: 1ms")
	p = w.run()
	until(t, "the content is gone", func() bool { return !body() })
	p.await("removed what is kept no longer", "bodies=1")
	if r := w.call("replay", "orders/A"); r.code != 0 || !strings.Contains(r.out, "0 due again, 1 asked of their source") {
		t.Fatalf("replay: %d %s%s", r.code, r.out, r.errout)
	}
	until(t, "it is written once more", func() bool { return len(w.erp.effects()) == 2 })
	p.stop()
}
