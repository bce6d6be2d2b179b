package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// engines are the journals that a test of the process runs on; with -short the
// embedded one alone, for the process does the same with both.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t))
	})
	if testing.Short() {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env = append(w.env, "DATABASE_URL="+pgtest.DSN(t))
		w.configure("JOURNAL", `{postgres: {url: "${env:DATABASE_URL}"}}`)
		test(t, w)
	})
}

func TestStopLetsWritesUnderWayFinishAndBeginsNothing(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for _, id := range []string{"A", "B", "C", "D"} {
			w.shop.put(id, "first")
		}
		w.erp.block()
		p := w.run()
		held := w.erp.held(t)
		p.signal(syscall.SIGTERM)
		p.await("stopping")
		until(t, "it says that it stops", func() bool {
			status, body := get(t, w.url("/readyz"))
			return status == http.StatusServiceUnavailable && body == "stopping\n"
		})
		if status, _ := get(t, w.url("/healthz")); status != http.StatusOK {
			t.Errorf("/healthz answers %d while stopping", status)
		}
		w.erp.release()
		if code := p.wait(); code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
		if got := w.erp.effects(); !slices.Equal(got, []string{held}) {
			t.Errorf("writes %q, want only the one under way when the stop came, %s", got, held)
		}
		j := w.job("orders/" + strings.Fields(held)[1])
		if j.State != "done" || j.Unresolved != nil || j.Link == "" {
			t.Errorf("the write under way was left %s, in doubt since %v, link %q", j.State, j.Unresolved, j.Link)
		}
		for _, id := range []string{"A", "B", "C", "D"} {
			if j := w.job("orders/" + id); j.Unresolved != nil {
				t.Errorf("%s is in doubt after a graceful stop", id)
			}
		}
	})
}

func TestGraceEndsWritesThatDoNotFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	w.erp.block()
	p := w.run("--grace", "300ms")
	w.erp.held(t)
	p.signal(syscall.SIGINT)
	p.await("did not finish in time")
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	if j := w.job("orders/A"); j.State != "ready" || j.Unresolved == nil {
		t.Fatalf("a write that was cut off is %s, in doubt since %v", j.State, j.Unresolved)
	}
	w.erp.release()
	p = w.run()
	w.done("A", 1)
	p.stop()
	if got := w.erp.effects(); !slices.Equal(got, []string{"create A first"}) {
		t.Errorf("writes %q, want one", got)
	}
}

func TestSecondSignalEndsAtOnceAndTheNextStartFindsOut(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"SIGTERM": {syscall.SIGTERM, 143}, "SIGINT": {syscall.SIGINT, 130}} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				w.shop.put("A", "first")
				w.erp.block()
				p := w.run()
				w.erp.held(t)
				p.signal(c.signal)
				p.await("stopping")
				again := time.NewTicker(100 * time.Millisecond)
				defer again.Stop()
				for ended := false; !ended; {
					select {
					case <-p.ended:
						ended = true
					case <-again.C:
						p.signal(c.signal)
					}
				}
				if code := p.wait(); code != c.code {
					t.Fatalf("exit code %d, want %d", code, c.code)
				}
				p.await("ended at once")
				w.erp.release()
				p = w.run()
				p.await("left in doubt")
				w.done("A", 1)
				p.stop()
				if got := w.erp.effects(); !slices.Equal(got, []string{"create A first"}) {
					t.Errorf("writes %q, want one", got)
				}
			})
		})
	}
}

func TestSignalThatComesTwiceAtOnceIsOneSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	w.erp.block()
	p := w.run()
	w.erp.held(t)
	p.signal(syscall.SIGTERM)
	p.await("stopping")
	p.signal(syscall.SIGTERM)
	w.erp.release()
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d, want 0: timeout(1) and terminals signal the process and its group", code)
	}
}

func TestReloadTakesTheNewConfigurationAndFinishesWhatIsUnderWayOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.shop.put("A", "first")
		w.erp.block()
		p := w.run()
		w.erp.held(t)
		w.configure("MAP", `{ref: .id, name: (.name | ascii_upcase), version: $meta.version}`)
		p.signal(syscall.SIGHUP)
		p.await("read again")
		w.shop.put("B", "other")
		w.erp.release()
		p.await("running the new configuration")
		w.done("A", 1)
		// It may have been read, and even written, just before.
		until(t, "B is as the new mapping has it", func() bool {
			return slices.ContainsFunc(w.erp.effects(), func(e string) bool { return strings.HasSuffix(e, " B OTHER") })
		})
		w.shop.put("A", "second")
		until(t, "A has its second state", func() bool { return slices.Contains(w.erp.effects(), "update A SECOND") })
		p.stop()
		got := w.erp.effects()
		if n := begins(got, "create A"); n != 1 {
			t.Errorf("A was created %d times: %q", n, got)
		}
		if n := begins(got, "create B"); n != 1 {
			t.Errorf("B was created %d times: %q", n, got)
		}
	})
}

func begins(list []string, prefix string) (n int) {
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func TestReloadWithMistakesKeepsTheOldConfigurationAndTellsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	good, err := os.ReadFile(filepath.Join(w.dir, "syncd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "syncd.yaml", strings.NewReplacer("map: '{", "map: '{{", "every: 100ms", "every: often", "start: all", "strat: all").Replace(string(good)))
	p.signal(syscall.SIGHUP)
	for _, want := range []string{"flows.orders.from.start:", "flows.orders.from.strat:", "flows.orders.from.every:", "flows.orders.map:"} {
		p.await("level=ERROR", "a mistake in the new configuration", "syncd.yaml:3", want)
	}
	p.await("level=ERROR", "the old one stays", "mistakes=4")
	w.shop.put("A", "second")
	until(t, "the old mapping has written the second state", func() bool { return slices.Contains(w.erp.effects(), "update A second") })
	// Mended, it is taken, and what is read again is mapped by it.
	w.configure("MAP", `{ref: .id, name: "mended", version: $meta.version}`)
	p.signal(syscall.SIGHUP)
	p.await("running the new configuration")
	w.done("A", 3)
	p.stop()
	if got, want := w.erp.effects(), []string{"create A first", "update A second", "update A mended"}; !slices.Equal(got, want) {
		t.Errorf("writes %q, want %q", got, want)
	}
}

// tokenOf finds the token of a refused change in a text.
func tokenOf(t *testing.T, text string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "write accept_change: ")
	token, _, _ := strings.Cut(after, " ")
	if !found || token == "" {
		t.Fatalf("no token in: %s", text)
	}
	return token
}

func TestAChangedKeyIsRefusedUntilItIsAccepted(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.shop.put("A", "first")
		p := w.run()
		w.done("A", 1)
		w.configure("KEY", `'"X-" + .ref'`)
		p.signal(syscall.SIGHUP)
		p.await("level=ERROR", "a mistake in the new configuration", "syncd.yaml:34:11", "flows.orders.key: is", "1 done, 0 open, 0 dead")
		p.await("level=ERROR", "the old one stays")
		w.shop.put("A", "second")
		until(t, "the old configuration has written the second state", func() bool { return slices.Contains(w.erp.effects(), "update A second") })
		p.stop()
		polls := w.shop.count()
		r := w.call("run")
		if r.code != exitConfig || w.shop.count() != polls {
			t.Fatalf("exit code %d, want %d, after %d requests to the shop: %s", r.code, exitConfig, w.shop.count()-polls, r.errout)
		}
		w.configure("KEY", `'"X-" + .ref'`+"\n    accept_change: "+tokenOf(t, r.errout))
		p = w.run()
		p.await("level=WARN", "the change is accepted", "flow=orders", "field=key")
		until(t, "the changed key is met by on_rename", func() bool { return w.job("orders/X-A").Reason == "renamed" })
		p.stop()
		// The token may stay, and accepts nothing else.
		p = w.run()
		p.stop()
		w.configure("KEY", strings.Replace(w.set["KEY"], "X-", "Y-", 1))
		if r := w.call("run"); r.code != exitConfig || !strings.Contains(r.errout, "stands for another change") {
			t.Fatalf("exit code %d, want %d: %s", r.code, exitConfig, r.errout)
		}
		if got, want := w.erp.effects(), []string{"create A first", "update A second"}; !slices.Equal(got, want) {
			t.Errorf("writes %q, want %q", got, want)
		}
	})
}

func TestAFlowWithJobsCannotBeTakenOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, err := sqlite.Open(t.Context(), filepath.Join(w.dir, "syncd.db"), sqlite.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	var rows []jobs.Row
	for i, state := range []jobs.State{jobs.Ready, jobs.Dead, jobs.Held, jobs.Done} {
		rows = append(rows, jobs.Row{RowID: jobs.RowID{Flow: "gone", Key: string(state)}, Client: "erp", Entity: "orders", State: state, Generation: 1},
			jobs.Row{RowID: jobs.RowID{Flow: fmt.Sprint("done-", i), Key: "A"}, Client: "erp", Entity: "orders", State: jobs.Done, Generation: 1})
	}
	err = errors.Join(e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), rows) }), e.Close())
	if err != nil {
		t.Fatal(err)
	}
	r := w.call("run")
	if r.code != exitConfig || !strings.Contains(r.errout, "flow gone is not in the configuration, and the journal has 1 open and 2 dead jobs of it") || strings.Contains(r.errout, "done-") {
		t.Fatalf("exit code %d, want %d: %s", r.code, exitConfig, r.errout)
	}
	file := filepath.Join(w.dir, "syncd.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "syncd.yaml", string(text)+"retired: [gone]\n")
	p := w.run()
	if _, m := get(t, w.url("/metrics")); strings.Contains(m, `flow="gone"`) || !strings.Contains(m, `syncd_jobs{flow="done-0"`) {
		t.Errorf("the metrics count the retired flow, or no other: %s", m)
	}
	// At a reload the old configuration stays.
	w.configure()
	p.signal(syscall.SIGHUP)
	p.await("level=ERROR", "the old one stays", "flow gone is not in the configuration")
	w.shop.put("A", "first")
	w.done("A", 1)
	if r := w.call("jobs", "discard", "--flow", "gone", "--state", "ready,dead,held", "--reason", "closed", "--yes"); r.code != 0 || r.out == "" {
		t.Fatalf("exit code %d: %s%s", r.code, r.out, r.errout)
	}
	p.signal(syscall.SIGHUP)
	p.await("running the new configuration")
	p.stop()
}

func TestReloadSaysWhatItCannotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.run()
	w.configure("LEVEL", "debug")
	p.signal(syscall.SIGHUP)
	p.await("read at start only")
	p.await("running the new configuration")
	p.stop()
}

func TestStopWhileStillStartingIsGraceful(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A database that takes the connection and never answers.
	address, called := silent(t)
	w.env = append(w.env, "DATABASE_URL=postgres://ann:secret@"+address+"/syncd?sslmode=disable")
	w.configure("JOURNAL", `{postgres: {url: "${env:DATABASE_URL}"}}`)
	p := start(t, w.dir, w.env, "run", "--json")
	select {
	case <-called:
	case <-time.After(patience):
		t.Fatal("it did not connect")
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d, want 0; log: %s", code, p.log())
	}
	for line := range strings.Lines(p.log()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("with --json the log has the line %s", line)
		}
	}
}

func TestOnlyOneDaemonHasAJournalInAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.run()
	first := w.addr
	w.configure("ADDRESS", freeAddress(t))
	r := w.call("run")
	if r.code != exitJournal || r.out != "" {
		t.Fatalf("the second daemon ended with %d, said %q", r.code, r.out)
	}
	want := "syncd: open the journal $WORK/syncd.db: in use by another daemon: process PID, started TIME holds $WORK/syncd.db.lock; stop it first, only one daemon may have a journal\n"
	if got := normal(r.errout, w.dir); got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
	if status, _ := get(t, "http://"+first+"/readyz"); status != http.StatusOK {
		t.Errorf("the first daemon answers %d now", status)
	}
	p.stop()
}

func TestPortInUseIsAMistakeOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure("ADDRESS", strings.TrimPrefix(w.shop.URL, "http://"))
	r := w.call("run")
	want := "syncd: listen on 127.0.0.1:PORT: bind: address already in use; another program (perhaps another syncd) has the port: choose another with listen: in the configuration, or switch it off with listen: off\n"
	lines := strings.SplitAfter(normal(r.errout, w.dir), "\n")
	if got := lines[len(lines)-2]; r.code != exitConfig || got != want {
		t.Errorf("exit code %d, said %q, want %d and %q", r.code, got, exitConfig, want)
	}
}

func TestReplayAndDiscardBesideTheDaemon(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.erp.refusing(func(rw http.ResponseWriter, r *http.Request) bool {
			reply(rw, http.StatusUnprocessableEntity, map[string]any{"error": "name is too long"})
			return true
		})
		for _, id := range []string{"A", "B", "a/b c"} {
			w.shop.put(id, "first")
		}
		p := w.run()
		for _, id := range []string{"A", "B", "a/b c"} {
			until(t, id+" is dead", func() bool { return w.job("orders/"+id).State == "dead" })
		}
		if r := w.call("status"); r.code != exitFinding || !strings.Contains(r.out, "dead: invalid 3") || !strings.Contains(r.out, "daemon   running") {
			t.Errorf("status ends with %d and says\n%s", r.code, r.out)
		}
		w.erp.refusing(nil)
		if r := w.call("replay", "orders/A", "orders/a/b c"); r.code != 0 || r.out != "2 due again\n" {
			t.Errorf("replay ends with %d and says %q%q", r.code, r.out, r.errout)
		}
		if r := w.call("discard", "orders/B", "--reason", "a test order"); r.code != 0 || r.out != "1 discarded\n" {
			t.Errorf("discard ends with %d and says %q%q", r.code, r.out, r.errout)
		}
		w.done("A", 1)
		w.done("a/b c", 1)
		if j := w.job("orders/B"); j.State != "done" || j.Reason != "discarded" || j.Attempts[0].Message != "discarded: a test order" {
			t.Errorf("B is %s %s, history %v", j.State, j.Reason, j.Attempts)
		}
		if r := w.call("status"); r.code != 0 {
			t.Errorf("status ends with %d and says\n%s", r.code, r.out)
		}
		// A newer version opens it again.
		w.shop.put("B", "second")
		w.done("B", 2)
		p.stop()
	})
}

func TestIdleDaemonWritesNothingAndSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	p := w.run()
	w.done("A", 1)
	polls := w.shop.count()
	until(t, "the shop has been read again", func() bool { return w.shop.count() > polls+3 })
	before, said := journalFiles(t, w.dir), p.log()
	polls = w.shop.count()
	until(t, "the shop has been read twenty times more", func() bool { return w.shop.count() > polls+20 })
	if after := journalFiles(t, w.dir); after != before {
		t.Errorf("the journal was written although nothing changed: %s, now %s", before, after)
	}
	if now := p.log(); now != said {
		t.Errorf("the log goes on although nothing changed:\n%s", strings.TrimPrefix(now, said))
	}
	p.stop()
}
