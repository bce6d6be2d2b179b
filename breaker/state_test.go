package breaker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		open(t, b)
		time.Sleep(30 * time.Second)
		b.call(Failure)
		time.Sleep(30 * time.Second)
		_, _ = b.Allow() // lost
		time.Sleep(60 * time.Second)
		b.call(Success)
		for i := range 10 {
			b.call([]Verdict{Failure, Failure, Failure, Failure, Success}[i%5])
		}
		want := []string{
			"closed to open: failures in a row: 5 of 5 calls failed, for 5 different records; last failure: http_503: Service Unavailable",
			"open to half-open: open long enough; last failure: http_503: Service Unavailable",
			"half-open to open: the probe failed; last failure: http_503: Service Unavailable",
			"open to half-open: open long enough; last failure: http_503: Service Unavailable",
			"half-open to open: probe without an end; last failure: the probe had no end within 30s",
			"open to half-open: open long enough; last failure: the probe had no end within 30s",
			"half-open to closed: the probe succeeded",
		}
		if diff := cmp.Diff(want, b.news); diff != "" {
			t.Errorf("news (-want +got):\n%s", diff)
		}
		b.call(Failure) // 9 of 11 is the first failure after the tenth call
		last := b.news[len(b.news)-1]
		if want := "closed to open: share of failures: 9 of 11 calls failed, for 9 different records; last failure: http_503: Service Unavailable"; last != want {
			t.Errorf("got  %s\nwant %s", last, want)
		}
	})
}

func TestOpenBreakerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		for i := range 5 {
			c, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			c.Done(Result{Records: []string{fmt.Sprint(i)}, Err: "tls: certificate has expired"})
		}
		_, err := b.Allow()
		want := `client "erp": breaker open since 2000-01-01T00:00:00Z, next probe at 2000-01-01T00:00:30Z; last failure: tls: certificate has expired`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		time.Sleep(40 * time.Second)
		probe, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Done(Result{Verdict: Ignore})
		_, err = b.Allow()
		want = `client "erp": breaker open since 2000-01-01T00:00:00Z, a probe is under way; last failure: tls: certificate has expired`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		var closed *OpenError
		if errors.As(err, &closed) && time.Until(closed.Until) != 30*time.Second {
			t.Errorf("until %s", closed.Until)
		}
	})
}

func TestLongFailureTextIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		c, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		c.Done(Result{Err: strings.Repeat("é", 10_000)})
		if s := b.State().LastError; len(s) > maxText+10 || !strings.HasSuffix(s, "é…") {
			t.Errorf("%d bytes kept, ending in %q", len(s), s[len(s)-6:])
		}
	})
}

func TestRestartBeginsWithTheProbe(t *testing.T) {
	tests := []struct {
		name  string
		until time.Duration // from the restart
		wait  time.Duration
	}{
		{"in the middle of the pause", 20 * time.Second, 20 * time.Second},
		{"after its end", -time.Hour, 2 * time.Nanosecond}, // the first of which has to have passed
		{"with a clock that jumped", 1000 * time.Hour, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSubject(t, Settings{})
				b.Restore(true, time.Now().Add(tt.until).Round(0), "http_503")
				if s := b.State(); s.State != Open || s.LastError != "http_503" {
					t.Errorf("state is %+v", s)
				}
				time.Sleep(tt.wait - 1)
				b.want(Open)
				time.Sleep(time.Nanosecond)
				probe, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				if b.call(Success) {
					t.Error("more than the probe was let through")
				}
				probe.Done(Result{Verdict: Failure})
				b.want(Open)
				if s := b.State(); time.Until(s.Until) != 30*time.Second {
					t.Errorf("open again until %s", s.Until)
				}
				if diff := cmp.Diff([]string{"open to half-open: open long enough; last failure: http_503", "half-open to open: the probe failed"}, b.news); diff != "" {
					t.Errorf("news (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRestoreOfAClosedStateChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		b.Restore(false, time.Now().Add(time.Hour), "old")
		b.want(Closed)
		open(t, b)
		before := b.State()
		b.Restore(true, time.Now().Add(time.Second), "old") // too late for that
		if diff := cmp.Diff(before, b.State()); diff != "" {
			t.Errorf("state (-before +after):\n%s", diff)
		}
	})
}

func TestReadingsAreNotCalledRecords(t *testing.T) {
	for want, calls := range map[string][][]string{
		"failures in a row: 5 of 5 calls failed, all of them readings":                     {nil, nil, nil, nil, nil},
		"failures in a row: 5 of 5 calls failed, for 5 different records":                  {{"a"}, {"b"}, {"c"}, {"d"}, {"e"}},
		"failures in a row: 5 of 5 calls failed, for 1 different record and at 3 readings": {{"a"}, {"a"}, nil, nil, nil},
		"failures in a row: 6 of 6 calls failed, for 2 different records and at 1 reading": {{"a"}, {"a"}, {"a"}, {"a"}, {"b"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			b := New("erp", Settings{}, func(_, _ State, why Why) { got = append(got, why.String()) })
			for _, records := range calls {
				c, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				c.Done(Result{Records: records})
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}

func TestAProbeThatIsWantedGoesBeforeTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("erp", Settings{OpenFor: time.Hour}, nil)
		b.Probe() // nothing is open
		if s := b.State(); s.State != Closed {
			t.Fatalf("state %s", s.State)
		}
		b.Restore(true, time.Now().Add(time.Hour), "connection refused")
		time.Sleep(time.Second)
		b.Probe()
		call, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Allow(); err == nil {
			t.Error("a second call is let through beside the probe")
		}
		call.Done(Result{Verdict: Success})
		if s := b.State(); s.State != Closed {
			t.Errorf("state %s after a probe that succeeded", s.State)
		}
	})
}
