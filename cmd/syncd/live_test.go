package main

import (
	"strings"
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/sqlite"
	"syncd/ratelimit"
)

func TestCheckAsksNoClientThatIsPausedInTheJournal(t *testing.T) {
	t.Parallel()
	for reason, asked := range map[string]bool{
		ratelimit.ReasonThrottled: false, ratelimit.ReasonUnavailable: false, ratelimit.ReasonOperator: false,
		// What a check is to find out about.
		ratelimit.ReasonBreaker: true, ratelimit.ReasonSuspended: true,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.shop.put("A", "first")
			e, err := sqlite.Open(t.Context(), w.dir+"/syncd.db", sqlite.Options{Exclusive: true})
			if err != nil {
				t.Fatal(err)
			}
			j := jobs.New(e, jobs.Options{Owner: "test"})
			until := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
			if err := j.SavePause(t.Context(), "shop", ratelimit.Pause{Until: until, Reason: reason, Since: until.Add(-2 * time.Hour)}); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			r := w.call("check", "--live")
			said := "PAUSED      shop orders: could not be checked now: the client is paused until " + until.Format(time.RFC3339) + " (" + reason + ")\n"
			if got := w.shop.count() > 0; got != asked || strings.Contains(r.out, said) == asked || asked != (r.code == exitOK) || !asked && r.code != exitUnreachable {
				t.Errorf("exit code %d, asked %d times, says\n%s%s", r.code, w.shop.count(), r.out, r.errout)
			}
		})
	}
}

func TestCheckWritesNothingIntoTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shop.put("A", "first")
	r := w.call("check", "--live")
	if r.code != exitOK || !strings.Contains(r.out, "ok          erp flow orders: 1 record read and mapped\n") {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.errout)
	}
	if got := w.erp.effects(); len(got) != 0 {
		t.Errorf("writes %q", got)
	}
}
