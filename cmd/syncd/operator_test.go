package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

// sees waits until status --json has all the words.
func (w *world) sees(words ...string) {
	w.t.Helper()
	until(w.t, "status shows "+strings.Join(words, " and "), func() bool {
		out := w.look("status", "--json").out
		return !slices.ContainsFunc(words, func(s string) bool { return !strings.Contains(out, s) })
	})
}

func TestSourceThatRefusesIsAFindingAtOnceAndAfterTheDaemonsEnd(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.shop.refusing(func(rw http.ResponseWriter, _ *http.Request) bool {
			reply(rw, http.StatusNotFound, map[string]any{"error": "no such path"})
			return true
		})
		p := w.run()
		w.sees("reading_fails", `"class": "invalid"`, `"code": "http_404"`)
		p.stop()
		r := w.call("status")
		if r.code != exitFinding || !strings.Contains(r.out, "reading fails: flow orders, since 2") {
			t.Errorf("status ends with %d and says\n%s", r.code, r.out)
		}
	})
}

func TestFailureThatMayPassIsAFindingAfterAWhile(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for class, after := range map[string]time.Duration{"transient": readingPatience, "unknown": readingPatience, "throttled": readingPatience,
		"": readingPatience, "invalid": 0, "auth": 0, "missing": 0} {
		at := func(age time.Duration) bool { return (&failingStatus{Since: now.Add(-age), Class: class}).finding(now) }
		if !at(after) || after > 0 && at(after-time.Second) {
			t.Errorf("class %q is a finding at once %v, after %s %v", class, at(0), after, at(after))
		}
	}
	if (*failingStatus)(nil).finding(now) {
		t.Error("no failure is a finding")
	}
}

func TestSourceOfAFlowThatIsNotReadIsNoFinding(t *testing.T) {
	w := newWorld(t)
	w.configure("MAP", "{ref: .id}'\n    enabled: false\n    vars: {x: 'y'}\n    #'")
	c, err := (&app{config: filepath.Join(w.dir, "syncd.yaml"), secrets: &secrets{}}).load()
	if err != nil {
		t.Fatal(err)
	}
	s := statusOf(c, jobs.Overview{Flows: []jobs.FlowState{{Flow: "orders", Failing: jobs.Failing{Since: time.Now().Add(-time.Hour)}},
		{Flow: "of-yore", Failing: jobs.Failing{Since: time.Now().Add(-time.Hour)}}}})
	if s.finding() {
		t.Errorf("%+v", s.Flows)
	}
}

func TestDaemonWhoseJournalIsRemovedSaysSoLast(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		w := newWorld(t)
		args := []string{}
		if json {
			args = append(args, "--json")
		}
		w.shop.put("A", "first")
		p := w.run(args...)
		w.done("A", 1)
		if err := os.Remove(filepath.Join(w.dir, "syncd.db")); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != exitJournal {
			t.Errorf("exit code %d, want %d", code, exitJournal)
		}
		lines := strings.Split(strings.TrimSpace(p.log()), "\n")
		last := lines[len(lines)-1]
		if !strings.Contains(last, "lost the journal: the journal "+w.dir+"/syncd.db was removed or replaced while it was open; put the file back") ||
			strings.Contains(last, "another daemon") {
			t.Errorf("the last line is %s", last)
		}
	}
}

// A daemon whose log nobody reads any more (the reader died, a pipe broke) goes on.
func TestDaemonGoesOnWithoutAReaderOfItsLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("LEVEL", "debug")
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("syncd", "run")
	cmd.Dir, cmd.Env, cmd.Stderr = w.dir, append(os.Environ(), w.env...), pipe
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	pipe.Close()
	r.Close() // the reader is gone
	until(t, "the daemon is ready", func() bool { status, _ := get(t, w.url("/readyz")); return status == http.StatusOK })
	for _, id := range []string{"A", "B"} {
		w.shop.put(id, "first")
		w.done(id, 1)
	}
	until(t, "the lost lines are counted", func() bool {
		_, m := get(t, w.url("/metrics"))
		return strings.Contains(m, "\nsyncd_lost_log_lines_total ") && !strings.Contains(m, "\nsyncd_lost_log_lines_total 0\n")
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("it did not end")
	}
}
