package breaker

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// subject is a breaker with a record number that never repeats.
type subject struct {
	*Breaker
	t    *testing.T
	next int
	news []string
}

func newSubject(t *testing.T, s Settings) *subject {
	t.Helper()
	b := &subject{t: t}
	b.Breaker = New("erp", s, func(from, to State, why Why) {
		b.news = append(b.news, fmt.Sprintf("%s to %s: %s", from, to, why))
	})
	return b
}

// call makes a call on the records, by default on a new one; it reports false
// when it was not let through.
func (b *subject) call(v Verdict, records ...string) bool {
	b.t.Helper()
	c, err := b.Allow()
	if err != nil {
		return false
	}
	if len(records) == 0 {
		b.next++
		records = []string{fmt.Sprint("record-", b.next)}
	}
	c.Done(Result{Verdict: v, Records: records, Err: "http_503: Service Unavailable"})
	return true
}

func (b *subject) want(s State) {
	b.t.Helper()
	if got := b.State().State; got != s {
		b.t.Fatalf("breaker is %s, want %s", got, s)
	}
}

// opensWithin makes calls until the breaker opens, and returns how many that took.
func (b *subject) opensWithin(most int, every time.Duration, call func(i int)) int {
	b.t.Helper()
	for i := range most {
		call(i)
		if b.State().State == Open {
			return i + 1
		}
		time.Sleep(every)
	}
	b.t.Fatalf("still closed after %d calls", most)
	return 0
}

func TestOutagesAreSeen(t *testing.T) {
	tests := []struct {
		name   string
		every  time.Duration
		before int // successes before
		call   func(b *subject, i int)
		within int
	}{
		{"everything fails at once", time.Millisecond, 0, func(b *subject, _ int) { b.call(Failure) }, 5},
		{"quiet client, one call in 10 s", 10 * time.Second, 0, func(b *subject, _ int) { b.call(Failure) }, 5},
		{"very quiet client, one call an hour", time.Hour, 0, func(b *subject, _ int) { b.call(Failure) }, 5},
		{"long good history", 10 * time.Millisecond, 2000, func(b *subject, _ int) { b.call(Failure) }, 20},
		{"four of five fail", time.Second, 0, func(b *subject, i int) {
			if i%5 == 4 {
				b.call(Success)
				return
			}
			b.call(Failure)
		}, 11},
		{"listings fail, which are about no record", time.Second, 0, func(b *subject, _ int) {
			if c, err := b.Allow(); err == nil {
				c.Done(Result{Verdict: Failure, Err: "timeout"})
			}
		}, 5},
		{"results without a verdict", time.Second, 0, func(b *subject, i int) {
			if c, err := b.Allow(); err == nil {
				c.Done(Result{Records: []string{fmt.Sprint(i)}})
			}
		}, 5},
		{"four of five time out after longer than the window", 0, 0, func(b *subject, i int) {
			c, err := b.Allow()
			if err != nil {
				return
			}
			if i%5 == 4 {
				c.Done(Result{Verdict: Success})
				return
			}
			go func() { // many at once, or the window would never see ten
				time.Sleep(90 * time.Second)
				c.Done(Result{Verdict: Failure, Records: []string{fmt.Sprint(i)}})
			}()
			time.Sleep(5 * time.Second)
		}, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSubject(t, Settings{})
				for range tt.before {
					b.call(Success)
					time.Sleep(tt.every)
				}
				b.opensWithin(tt.within, tt.every, func(i int) { tt.call(b, i) })
				if b.call(Success) {
					t.Error("an open breaker let a call through")
				}
				time.Sleep(2 * time.Minute) // for calls still under way
			})
		})
	}
}

func TestWhatIsNoOutageKeepsItClosed(t *testing.T) {
	tests := []struct {
		name string
		call func(b *subject, i int)
	}{
		{"refused records: 422, 404, 409", func(b *subject, _ int) { b.call(Success) }},
		{"throttling and cancellations", func(b *subject, _ int) { b.call(Ignore) }},
		{"one poison record", func(b *subject, _ int) { b.call(Failure, "poison") }},
		{"one poison record in different batches", func(b *subject, i int) {
			b.call(Failure, fmt.Sprint("a", i), "poison", fmt.Sprint("b", i))
		}},
		{"one batch again and again", func(b *subject, _ int) { b.call(Failure, "a", "b", "c", "d", "e") }},
		{"one batch in halves", func(b *subject, i int) {
			halves := [][]string{{"a", "b", "c", "d"}, {"a", "b"}, {"c", "d"}, {"a"}, {"b"}, {"c"}, {"d"}}
			h := halves[min(i, 2)]
			b.call(Failure, h...)
		}},
		{"two poison records", func(b *subject, i int) { b.call(Failure, fmt.Sprint("poison-", i%2)) }},
		{"half of the calls fail", func(b *subject, i int) { b.call([]Verdict{Success, Failure}[i%2]) }},
		{"a poison record between good ones", func(b *subject, i int) {
			if i%3 == 0 {
				b.call(Success)
				return
			}
			b.call(Failure, "poison")
		}},
		{"failures far apart with successes between", func(b *subject, i int) {
			for range 4 {
				b.call(Failure)
			}
			b.call(Success)
			time.Sleep(time.Hour)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSubject(t, Settings{})
				for i := range 200 {
					tt.call(b, i)
					b.want(Closed)
					time.Sleep(100 * time.Millisecond)
				}
				if !b.call(Success) {
					t.Error("a good call was not let through")
				}
			})
		})
	}
}

func TestBatchOfManyRecordsIsComparedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		for i := range 40 {
			var batch []string
			for r := range 999 {
				batch = append(batch, fmt.Sprintf("%d-%d", i, r))
			}
			b.call(Failure, append(batch, "poison")...)
		}
		b.want(Closed)
	})
}

func open(t *testing.T, b *subject) {
	t.Helper()
	b.opensWithin(5, 0, func(int) { b.call(Failure) })
}

func TestOneProbeAtATimeGoesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		open(t, b)
		time.Sleep(30*time.Second - 1)
		b.want(Open)
		time.Sleep(time.Nanosecond)
		b.want(HalfOpen)
		var mu sync.Mutex
		var through, refused int
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				c, err := b.Allow()
				mu.Lock()
				defer mu.Unlock()
				var closed *OpenError
				switch {
				case err == nil:
					through++
					time.AfterFunc(20*time.Second, func() { c.Done(Result{Verdict: Success}) })
				case errors.As(err, &closed) && closed.Probing:
					refused++
				default:
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if through != 1 || refused != 49 {
			t.Errorf("%d let through, %d refused", through, refused)
		}
		if s := b.State(); !s.Probing || time.Until(s.Until) != 30*time.Second {
			t.Errorf("state is %+v, want a probe under way for 30 s at most", s)
		}
		time.Sleep(21 * time.Second)
		b.want(Closed)
		if b.State().Probing {
			t.Error("it is closed and says that it is being probed")
		}
	})
}

func TestSlowCallsCountAsFailedWhereThatIsWished(t *testing.T) {
	calls := func(b *subject, took time.Duration, records ...string) int {
		made := 0
		for i := range 40 {
			c, err := b.Allow()
			if err != nil {
				break
			}
			rs := records
			if len(rs) == 0 {
				rs = []string{fmt.Sprint("record-", i)}
			}
			c.Done(Result{Verdict: Success, Took: took, Records: rs})
			made++
		}
		return made
	}
	for _, tt := range []struct {
		name    string
		slow    time.Duration
		took    time.Duration
		records []string
		made    int
	}{
		{"slow ones open the breaker", 10 * time.Second, 10 * time.Second, nil, 5},
		{"quick ones do not", 10 * time.Second, 10*time.Second - 1, nil, 40},
		{"nothing is slow by default", 0, time.Hour, nil, 40},
		{"one record that is slow again and again is no outage", 10 * time.Second, time.Minute, []string{"the same"}, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSubject(t, Settings{SlowCall: tt.slow})
				if n := calls(b, tt.took, tt.records...); n != tt.made {
					t.Errorf("%d calls were let through, want %d", n, tt.made)
				}
				if tt.made == 40 {
					return
				}
				want := "closed to open: failures in a row: 5 of 5 calls failed, for 5 different records; last failure: served, but it took 10s (slow_call is 10s)"
				if len(b.news) != 1 || b.news[0] != want {
					t.Errorf("it tells %q, want %q", b.news, want)
				}
				time.Sleep(30 * time.Second)
				calls(b, tt.took)
				b.want(Open) // a slow probe proves that it is slow
				time.Sleep(30 * time.Second)
				calls(b, time.Second)
				b.want(Closed)
			})
		})
	}
}

func TestProbeDecides(t *testing.T) {
	tests := []struct {
		name    string
		verdict Verdict
		want    State
	}{
		{"success closes", Success, Closed},
		{"failure opens again", Failure, Open},
		{"a probe that says nothing makes way for the next", Ignore, HalfOpen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSubject(t, Settings{})
				open(t, b)
				opened := b.State().Since
				time.Sleep(30 * time.Second)
				// The same record as before: in half-open it need not be another one.
				if !b.call(tt.verdict, "record-1") {
					t.Fatal("the probe was not let through")
				}
				b.want(tt.want)
				s := b.State()
				if s.Probing {
					t.Error("the probe is over and counts as under way")
				}
				switch tt.want {
				case Open:
					if !s.Since.Equal(opened) || time.Until(s.Until) != 30*time.Second {
						t.Errorf("state is %+v, want an outage since %s", s, opened)
					}
				case Closed:
					if !s.Since.Equal(time.Now()) || s.LastError != "" || s.InRow != 0 {
						t.Errorf("state is %+v", s)
					}
				case HalfOpen:
					if !b.call(Success) {
						t.Error("no second probe")
					}
				}
			})
		})
	}
}

func TestProbeThatIsNeverEndedCountsAsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		open(t, b)
		time.Sleep(30 * time.Second)
		lost, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30*time.Second - 1)
		b.want(HalfOpen)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		b.want(Open)
		if s := b.State(); s.LastError != "the probe had no end within 30s" {
			t.Errorf("last error %q", s.LastError)
		}
		lost.Done(Result{Verdict: Success}) // too late
		b.want(Open)
		time.Sleep(30 * time.Second)
		if !b.call(Success) {
			t.Fatal("wedged")
		}
		b.want(Closed)
	})
}

func TestLateResultOfAnEarlierStateIsDropped(t *testing.T) {
	for _, v := range []Verdict{Success, Failure, Ignore} {
		for _, at := range []State{Open, HalfOpen, Closed} {
			t.Run(fmt.Sprintf("%s while %s", v, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newSubject(t, Settings{})
					late, err := b.Allow()
					if err != nil {
						t.Fatal(err)
					}
					open(t, b)
					if at != Open {
						time.Sleep(30 * time.Second)
					}
					if at == Closed {
						b.call(Success)
					}
					time.Sleep(time.Second)
					b.want(at)
					before := b.State()
					late.Done(Result{Verdict: v, Records: []string{"late"}, Err: "late"})
					if diff := cmp.Diff(before, b.State()); diff != "" {
						t.Errorf("state (-before +after):\n%s", diff)
					}
				})
			})
		}
	}
}

func TestOnlyTheFirstDoneCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{ConsecutiveFailures: 1, MinDistinct: 1})
		for range 10 {
			func() {
				c, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Done(Result{Verdict: Failure, Err: "panic"})
				c.Done(Result{Verdict: Success})
			}()
		}
		b.want(Closed)
	})
}

func TestPanicIsAFailureWhereDoneIsDeferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSubject(t, Settings{})
		for range 5 {
			func() {
				defer func() { _ = recover() }()
				c, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Done(Result{Verdict: Failure, Err: "panic"})
				panic("strategy")
			}()
		}
		b.want(Open)
	})
}

func TestListenerMayUseTheBreakerAndHearsChangesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var heard []string
		b = New("erp", Settings{OpenFor: time.Second}, func(from, to State, _ Why) {
			heard = append(heard, from.String()+"-"+to.String())
			_ = b.State()
			switch to {
			case Open:
				if _, err := b.Allow(); err == nil {
					t.Error("open breaker lets through")
				}
				time.Sleep(2 * time.Second)
				_ = b.State() // becomes half-open in here, and is told afterwards
			case HalfOpen:
				if c, err := b.Allow(); err == nil {
					c.Done(Result{Verdict: Success})
				}
			}
		})
		for i := range 5 {
			c, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			c.Done(Result{Records: []string{fmt.Sprint(i)}})
		}
		want := []string{"closed-open", "open-half-open", "half-open-closed"}
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	})
}

func TestListenerThatPanicsDoesNotSilenceTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		b := New("erp", Settings{}, func(State, State, Why) {
			if n++; n == 1 {
				panic("listener")
			}
		})
		for i := range 5 {
			func() {
				defer func() { _ = recover() }()
				c, _ := b.Allow()
				c.Done(Result{Records: []string{fmt.Sprint(i)}})
			}()
		}
		time.Sleep(30 * time.Second)
		if b.State().State != HalfOpen || n != 2 {
			t.Errorf("state %v, told %d times", b.State(), n)
		}
	})
}

func TestSettingsOutOfRangeHaveTheirDefaults(t *testing.T) {
	def := Settings{Window: time.Minute, MinCalls: 10, Ratio: 0.6, ConsecutiveFailures: 5, MinDistinct: 3, OpenFor: 30 * time.Second, ProbeTimeout: 30 * time.Second}
	for name, s := range map[string]Settings{
		"none":     {},
		"negative": {Window: -1, MinCalls: -1, Ratio: -1, ConsecutiveFailures: -1, MinDistinct: -1, OpenFor: -1, ProbeTimeout: -1},
		"too much": {Window: time.Millisecond, Ratio: 1.5},
	} {
		if diff := cmp.Diff(def, s.withDefaults()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	own := Settings{Window: time.Hour, MinCalls: 1, Ratio: 1, ConsecutiveFailures: 1, MinDistinct: 1, OpenFor: time.Second, ProbeTimeout: time.Hour}
	if diff := cmp.Diff(own, own.withDefaults()); diff != "" {
		t.Errorf("own (-want +got):\n%s", diff)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	b := New("erp", Settings{OpenFor: time.Microsecond, ProbeTimeout: time.Millisecond}, func(State, State, Why) {})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 500 {
				c, err := b.Allow()
				if err != nil {
					continue
				}
				if i%97 == 0 {
					continue // lost
				}
				c.Done(Result{Verdict: Verdict(i % 3), Records: []string{fmt.Sprint(w, i)}})
			}
		})
	}
	all.Wait()
	for { // a probe may have been lost at the end
		c, err := b.Allow()
		if err != nil {
			continue
		}
		c.Done(Result{Verdict: Success})
		if b.State().State == Closed {
			return
		}
	}
}
