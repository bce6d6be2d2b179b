package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskLosesNothingAndHealsByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A small disk of its own, which only the daemon's mount namespace has; the
	// test reaches into it through /proc.
	mnt := filepath.Join(w.dir, "mnt")
	if err := os.Mkdir(mnt, 0o700); err != nil {
		t.Fatal(err)
	}
	w.configure("JOURNAL", "sqlite:"+mnt+"/syncd.db")
	flags := "-m"
	if os.Getuid() != 0 {
		flags = "-rm"
	}
	p := startAs(t, w.dir, w.env, "unshare", flags, "sh", "-c", "mount -t tmpfs -o size=4m none mnt && exec syncd run")
	p.await("syncd runs")
	within := fmt.Sprintf("/proc/%d/root%s", p.cmd.Process.Pid, mnt)
	w.shop.put("A", "first")
	until(t, "A is in the ERP", func() bool { return len(w.erp.effects()) == 1 })

	ballast := fill(t, filepath.Join(within, "ballast"))
	w.shop.put("A", "second")
	w.shop.put("B", "first")
	p.await("no space is left")
	until(t, "it is not ready", func() bool {
		status, body := get(t, w.url("/readyz"))
		return status == http.StatusServiceUnavailable && body == "the journal cannot be written\n"
	})
	// Nothing is sent that could not be noted before.
	if got := w.erp.effects(); len(got) != 1 {
		t.Errorf("writes %q although the journal's disk is full", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "it is ready again", func() bool { status, _ := get(t, w.url("/readyz")); return status == http.StatusOK })
	until(t, "both are in the ERP", func() bool {
		got := w.erp.effects()
		return slices.Contains(got, "update A second") && slices.Contains(got, "create B first")
	})
	p.stop()
	if got := w.erp.effects(); len(got) != 3 {
		t.Errorf("writes %q, want three", got)
	}
}

// fill writes a file until its disk is full.
func fill(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	return path
}

func TestDaemonWhoseLockWasTakenAwayEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	if err := os.Remove(filepath.Join(w.dir, "syncd.db.lock")); err != nil {
		t.Fatal(err)
	}
	w.shop.put("A", "second")
	if code := p.wait(); code != exitJournal {
		t.Errorf("exit code %d, want %d", code, exitJournal)
	}
	if got := w.erp.effects(); !slices.Equal(got, []string{"create A first"}) {
		t.Errorf("writes %q after the lock was gone", got)
	}
}

func TestSourceThatIsAwayIsToldOnceAndWhenItIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	w.shop.refusing(func(rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "try later", http.StatusInternalServerError)
		return true
	})
	p.await("reading failed", "cursor stays")
	w.sees("reading_fails", `"code": "http_500"`)
	if status, body := get(t, w.url("/readyz")); status != http.StatusOK {
		t.Errorf("a source in trouble makes it unready: %d %s", status, body)
	}
	if r := w.call("status"); r.code != exitOK || !strings.Contains(r.out, "\nreading fails: flow orders, since 2") || !strings.Contains(r.out, "): transient (http_500)") {
		t.Errorf("status ends with %d and says\n%s", r.code, r.out)
	}
	if _, m := get(t, w.url("/metrics")); strings.Contains(m, `syncd_flow_reading_failing_since_timestamp_seconds{flow="orders"} 0`) ||
		!strings.Contains(m, `syncd_flow_last_read_timestamp_seconds{flow="orders"} 1`) {
		t.Errorf("the metrics do not show it:\n%s", m)
	}
	polls := w.shop.count()
	until(t, "it was asked twice more", func() bool { return w.shop.count() > polls+1 })
	w.shop.refusing(nil)
	p.await("reading works again")
	until(t, "status shows no trouble", func() bool { return !strings.Contains(w.look("status", "--json").out, "reading_fails") })
	w.shop.put("A", "second")
	w.done("A", 2)
	p.stop()
	if n := strings.Count(p.log(), "reading failed"); n != 1 {
		t.Errorf("one failure was told %d times", n)
	}
}

func TestProcessKilledAtAWriteFindsOutAboutIt(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.shop.put("A", "first")
		w.erp.block()
		p := w.run()
		w.erp.held(t)
		p.signal(syscall.SIGKILL)
		if code := p.wait(); code != -1 {
			t.Fatalf("exit code %d", code)
		}
		w.erp.release()
		if r := w.call("status"); r.code != exitFinding || !strings.Contains(r.out, "not reachable") {
			t.Errorf("status of a dead daemon ends with %d and says\n%s", r.code, r.out)
		}
		p = w.run()
		p.await("left in doubt", "jobs=1")
		w.done("A", 1)
		p.stop()
		if got := w.erp.effects(); !slices.Equal(got, []string{"create A first"}) {
			t.Errorf("writes %q, want one", got)
		}
	})
}
