package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"syncd/internal/pgtest"
)

// status reads status --json.
func (w *world) status() (s statusJSON) {
	w.t.Helper()
	r := w.look("status", "--json")
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		w.t.Fatalf("status: %v: %s%s", err, r.out, r.errout)
	}
	return s
}

// runners are the processes that run the clients, by client.
func (s *statusJSON) runners() map[string]int64 {
	out := map[string]int64{}
	for _, c := range s.Clients {
		if len(c.Owners) == 1 && !c.Owners[0].Lapsed {
			out[c.Client] = c.Owners[0].PID
		}
	}
	return out
}

func TestTwoDaemonsShareAJournalInPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("the daemons are processes of their own")
	}
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "DATABASE_URL="+pgtest.DSN(t))
	w.configure("JOURNAL", `{postgres: {url: "${env:DATABASE_URL}"}}`)
	first := w.run()
	w.addr = freeAddress(t)
	w.configure("ADDRESS", w.addr)
	second := w.run()
	pids := []int64{int64(first.cmd.Process.Pid), int64(second.cmd.Process.Pid)}
	until(t, "each runs one of the two clients", func() bool {
		s := w.status()
		of := s.runners()
		return len(s.Daemons) == 2 && len(of) == 2 && of["shop"] != of["erp"] && slices.Contains(pids, of["shop"]) && slices.Contains(pids, of["erp"])
	})
	r := w.look("status")
	for _, p := range pids {
		if !strings.Contains(r.out, fmt.Sprintf("process %d on ", p)) {
			t.Errorf("status does not name process %d:\n%s", p, r.out)
		}
	}
	for i := range 20 {
		w.shop.put(fmt.Sprintf("A%d", i), "first")
	}
	w.done("A19", 1)

	// The one that writes is killed; the other one takes its client and goes on.
	dead, alive := first, second
	if s := w.status(); s.runners()["erp"] == pids[1] {
		dead, alive = second, first
	}
	dead.signal(syscall.SIGKILL)
	dead.wait()
	died := time.Now()
	w.shop.put("B", "first")
	w.done("B", 1)
	if took := time.Since(died); took > leaseAndASecond {
		t.Errorf("the client of a daemon that was killed was taken over after %s", took)
	}

	// A third one comes, and the last of the first two hands over what it has.
	w.addr = freeAddress(t)
	w.configure("ADDRESS", w.addr)
	third := w.run()
	alive.stop()
	w.shop.put("C", "first")
	w.done("C", 1)
	for _, id := range []string{"A0", "A19", "B", "C"} {
		if n := writesOf(w.erp.effects(), id); n != 1 {
			t.Errorf("%s was written %d times: %v", id, n, w.erp.effects())
		}
	}
	third.stop()
}

// leaseAndASecond is how long the client of a daemon that died may be without one.
const leaseAndASecond = 31 * time.Second

func writesOf(effects []string, id string) (n int) {
	for _, e := range effects {
		if slices.Contains(strings.Fields(e), id) {
			n++
		}
	}
	return n
}
