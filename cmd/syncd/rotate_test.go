package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// placeSecret puts a secret where a reference names it, in the way of a system that
// rotates secrets: a link to a folder is exchanged, and the file is a link into it.
func placeSecret(t testing.TB, dir, version, secret string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, version), "token", secret+"\n")
	next := filepath.Join(dir, "next")
	if err := os.Symlink(version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..data/token", filepath.Join(dir, "token")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

func TestReloadTakesARotatedSecretAndShowsNeitherTheOldNorTheNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const first, second = "CANARY-first-1f0a", "CANARY-second-77c2"
	placeSecret(t, w.dir, "v1", first)
	w.configure("timeout: 30s", `timeout: 30s
    auth: {bearer: "${file:token}"}`)
	var mu sync.Mutex
	used := map[string]bool{}
	refusing := false
	w.erp.refusing(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		used[r.Header.Get("Authorization")] = true
		if refusing {
			reply(rw, http.StatusUnprocessableEntity, map[string]any{"error": "not for " + r.Header.Get("Authorization")})
		}
		return refusing
	})
	uses := func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		was := used
		used = map[string]bool{}
		return was
	}
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	if got := uses(); len(got) != 1 || !got["Bearer "+first] {
		t.Fatalf("the ERP was shown %v", got)
	}
	placeSecret(t, w.dir, "v2", second)
	p.signal(syscall.SIGHUP)
	p.await("running the new configuration")
	uses()
	w.shop.put("B", "first")
	w.done("B", 1)
	if got := uses(); len(got) != 1 || !got["Bearer "+second] {
		t.Errorf("after the reload the ERP was shown %v", got)
	}
	mu.Lock()
	refusing = true
	mu.Unlock()
	w.shop.put("C", "first")
	until(t, "C is dead", func() bool { return w.job("orders/C").State == "dead" })
	shown := w.call("jobs", "show", "orders/C").out + w.call("explain", "orders/C").out + w.call("status").out
	_, metrics := get(t, w.url("/metrics"))
	p.stop()
	for where, text := range map[string]string{"the commands": shown, "the log": p.log(), "the metrics": metrics} {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%s show a secret:\n%s", where, text)
		}
	}
	if !strings.Contains(shown, "not for") {
		t.Errorf("the refusal did not come through:\n%s", shown)
	}
}
