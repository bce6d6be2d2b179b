package main

import (
	"net/http"
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
		ratelimit.ReasonThrottled: false, ratelimit.ReasonUnavailable: false, ratelimit.ReasonBeyond: false, ratelimit.ReasonOperator: false,
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

// quota refuses what comes after n requests within a window.
func quota(n int, window time.Duration, retryAfter string) func(http.ResponseWriter, *http.Request) bool {
	var asked int
	var since time.Time
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if time.Since(since) >= window {
			asked, since = 0, time.Now()
		}
		if asked++; asked <= n {
			return false
		}
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return true
	}
}

func TestCheckWaitsOutShortPausesOfASmallQuota(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 6} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.shop.put("A", "first")
			w.shop.refusing(quota(n, 900*time.Millisecond, "1"))
			w.erp.refusing(quota(n, 900*time.Millisecond, "1"))
			r := w.call("check", "--live")
			if r.code != exitOK || !strings.Contains(r.out, "ok          erp flow orders: 1 record read and mapped\n") {
				t.Errorf("a quota of %d: exit code %d:\n%s%s", n, r.code, r.out, r.errout)
			}
		})
	}
}

func TestCheckTellsALongPauseAtOnceAndOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.shop.put("A", "first")
			w.shop.refusing(quota(n, time.Hour, "600"))
			begun := time.Now()
			r := w.call("check", "--live")
			if r.code != exitUnreachable || time.Since(begun) > 30*time.Second {
				t.Errorf("exit code %d after %s", r.code, time.Since(begun))
			}
			told := map[string]int{}
			for line := range strings.Lines(r.out) {
				if strings.HasPrefix(line, "PAUSED") {
					told[line]++
				}
			}
			if len(told) == 0 {
				t.Errorf("no pause is told:\n%s", r.out)
			}
			for line, times := range told {
				if times > 1 {
					t.Errorf("told %d times: %s", times, line)
				}
			}
		})
	}
}
