package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type oneAnswer struct {
	status int // 0: no answer comes
	header map[string]string
}

func TestNoAnswerStopsAClientForADay(t *testing.T) {
	const lim, rem, reset = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"
	lost := oneAnswer{}
	for name, c := range map[string]struct {
		settings Settings
		dialect  Dialect
		answers  []oneAnswer
	}{
		"unlimited, told as 0 of 0":          {answers: []oneAnswer{{200, map[string]string{lim: "0", rem: "0"}}}},
		"unlimited, told as -1 of -1":        {answers: []oneAnswer{{200, map[string]string{lim: "-1", rem: "-1"}}}},
		"the first call is refused":          {answers: []oneAnswer{{429, map[string]string{lim: "100", rem: "0", "Retry-After": "5"}}}},
		"headers on refusals alone":          {answers: []oneAnswer{{200, nil}, {200, nil}, {429, map[string]string{lim: "100", rem: "0", "Retry-After": "5"}}}},
		"one a second, told without reset":   {answers: []oneAnswer{{200, map[string]string{lim: "1", rem: "0"}}}},
		"one a second, reset told as 0":      {answers: []oneAnswer{{200, map[string]string{lim: "1", rem: "0", reset: "0"}}}},
		"with a share, nothing is left":      {settings: Settings{Share: 0.2}, answers: []oneAnswer{{200, map[string]string{lim: "100", rem: "0"}}}},
		"three left, and replies are lost":   {answers: []oneAnswer{{200, map[string]string{lim: "100", rem: "3"}}, lost, lost, lost}},
		"one lie about the reset":            {answers: []oneAnswer{{200, map[string]string{lim: "100", rem: "50", reset: "60"}}, {200, map[string]string{lim: "100", rem: "0", reset: "999999999"}}}},
		"Xero: refused for 10 min, day is 0": {dialect: Xero, answers: []oneAnswer{{429, map[string]string{"X-DayLimit-Remaining": "0", "X-MinLimit-Remaining": "60", "Retry-After": "600"}}}},
		"one answer of a day's window says 0": {answers: []oneAnswer{
			{200, map[string]string{lim: "100000", rem: "99999", reset: "86000"}}, {200, map[string]string{lim: "100000", rem: "0", reset: "86000"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := NewGate("c", c.settings, nil, nil, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				for _, a := range c.answers {
					p, err := g.Enter(t.Context(), Ask{})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Millisecond)
					if a.status == 0 {
						p.Drop(true)
						continue
					}
					h := http.Header{}
					for k, v := range a.header {
						h.Set(k, v)
					}
					p.Answer(t.Context(), c.dialect.Read(a.status, h, time.Now()), time.Now())
				}
				time.Sleep(15 * time.Minute) // every Retry-After is over
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Hour)
				defer cancel()
				if _, err := g.Enter(ctx, Ask{}); err != nil {
					t.Errorf("nothing has gone for %s: %v; %+v", time.Since(begun), err, g.State(time.Now()))
				}
			})
		})
	}
}

// served counts what is accepted and refused in a time.
func served(t *testing.T, total time.Duration, serve func(now time.Duration) (status int, h map[string]string)) (ok, refused float64) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		ctx, cancel := context.WithTimeout(t.Context(), total)
		defer cancel()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					p, err := g.Enter(ctx, Ask{Shape: "a"})
					var pe *PausedError
					if errors.As(err, &pe) {
						select {
						case <-ctx.Done():
						case <-time.After(max(time.Until(pe.Pause.Until), 10*time.Millisecond)):
						}
						continue
					}
					if err != nil {
						return
					}
					time.Sleep(50 * time.Millisecond)
					mu.Lock()
					status, kv := serve(time.Since(start))
					if status == 429 {
						refused++
					} else {
						ok++
					}
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					h := http.Header{}
					for k, v := range kv {
						h.Set(k, v)
					}
					p.Answer(ctx, Automatic.Read(status, h, time.Now()), time.Now())
				}
			})
		}
		wg.Wait()
	})
	return ok, refused
}

// fixedWindow is a fixed window.
func fixedWindow(limit int, window time.Duration, tell func(left int, resets time.Duration) map[string]string) func(time.Duration) (int, map[string]string) {
	used := map[time.Duration]int{}
	return func(now time.Duration) (int, map[string]string) {
		k := now / window
		status := 200
		if used[k] >= limit {
			status = 429
		} else {
			used[k]++
		}
		return status, tell(limit-used[k], window-now%window)
	}
}

func TestServersThatTellLittleAreUsed(t *testing.T) {
	left := func(limit int) func(int, time.Duration) map[string]string {
		return func(n int, _ time.Duration) map[string]string {
			return map[string]string{"X-RateLimit-Limit": fmt.Sprint(limit), "X-RateLimit-Remaining": fmt.Sprint(n)}
		}
	}
	const anyMinute = "60 in any minute, limit and remaining told"
	var window []time.Duration
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		hours float64
		rate  float64 // what the server serves in an hour
		used  float64 // of which at least this part is to be used
		serve func(time.Duration) (int, map[string]string)
	}{
		"2 a second, limit and remaining told":   {4, 7200, 0.7, fixedWindow(2, time.Second, left(2))},
		"1000 an hour, limit and remaining told": {8, 1000, 0.8, fixedWindow(1000, time.Hour, left(1000))},
		"10 a second, the limit alone told":      {2, 36000, 0.6, fixedWindow(10, time.Second, func(int, time.Duration) map[string]string { return map[string]string{"X-RateLimit-Limit": "10"} })},
		"1200 a minute, told in refusals alone": {0.5, 72000, 0.9, func() func(time.Duration) (int, map[string]string) {
			serve := fixedWindow(1200, time.Minute, func(n int, r time.Duration) map[string]string {
				return map[string]string{"X-RateLimit-Limit": "1200", "X-RateLimit-Remaining": fmt.Sprint(n), "X-RateLimit-Reset": fmt.Sprint(int(r.Seconds()) + 1)}
			})
			return func(now time.Duration) (int, map[string]string) {
				status, h := serve(now)
				if status != 429 {
					h = nil
				}
				return status, h
			}
		}()},
		"80 a second, told of a large quota once": {0.1, 80 * 3600, 0.8, func() func(time.Duration) (int, map[string]string) {
			h := map[string]string{"X-RateLimit-Limit": "100000", "X-RateLimit-Remaining": "99999", "X-RateLimit-Reset": "60"}
			return func(time.Duration) (int, map[string]string) {
				told := h
				h = nil
				return 200, told
			}
		}()},
		"60 a minute, reset told as of the hour": {6, 3600, 0.7, fixedWindow(60, time.Minute, func(n int, r time.Duration) map[string]string {
			return map[string]string{"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": fmt.Sprint(n), "X-RateLimit-Reset": fmt.Sprint(int(r.Seconds()) + 3600)}
		})},
		"10 a second, reset told a minute too late": {1, 36000, 0.6, fixedWindow(10, time.Second, func(n int, r time.Duration) map[string]string {
			return map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": fmt.Sprint(n), "X-RateLimit-Reset": fmt.Sprint(int(r.Seconds()) + 60)}
		})},
		"60 a minute, reset always told as a second": {3, 3600, 0.7, fixedWindow(60, time.Minute, func(n int, _ time.Duration) map[string]string {
			return map[string]string{"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": fmt.Sprint(n), "X-RateLimit-Reset": "1"}
		})},
		anyMinute: {3, 3600, 0.8, func(now time.Duration) (int, map[string]string) {
			if len(window) > 0 && now < window[len(window)-1] {
				window = nil // another play
			}
			for len(window) > 0 && now-window[0] >= time.Minute {
				window = window[1:]
			}
			status := 200
			if len(window) >= 60 {
				status = 429
			} else {
				window = append(window, now)
			}
			return status, left(60)(60-len(window), 0)
		}},
		"one call in fifty refused, whatever the rate": {5, 8 * 10 * 3600 * 0.98, 0.03, func(time.Duration) (int, map[string]string) {
			if rnd.Float64() < 0.02 {
				return 429, nil
			}
			return 200, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play := func() (use, per float64) {
				ok, refused := served(t, time.Duration(c.hours*float64(time.Hour)), c.serve)
				return ok / (c.rate * c.hours), refused / max(ok, 1) * 1000
			}
			use, per := play()
			if use < c.used && name == anyMinute { // whose plays differ by the order of goroutines: two of three count
				a, _ := play()
				b, _ := play()
				use = min(a, b)
			}
			if use < c.used || per > 80 {
				t.Errorf("used %.1f %% of what is served, %.0f refusals per 1,000 calls", use*100, per)
			}
		})
	}
}

// A call every ten seconds proves nothing about a rate of 10/s. What is learned doubles every five minutes all the same: 20,480/s after an hour,
// beyond MaxRate (so that no other gate recalls it) after 1.5 h, +Inf after days; then Within is negative and daemon.show's json.Marshal fails for good.
func TestLittleUseDoesNotRaiseWhatIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		g.Recall(Learned{Rate: 10, Calm: 2 * time.Minute, Fills: 3})
		for range 360 { // an hour
			p, _ := g.Enter(t.Context(), Ask{})
			p.Answer(t.Context(), Automatic.Read(200, http.Header{}, time.Now()), time.Now())
			time.Sleep(10 * time.Second)
		}
		if r := g.State(time.Now()).Learned.Rate; r > 20 {
			t.Errorf("learned 10/s, used 0.1/s for an hour, now %v/s", r)
		}
	})
}

func callTold(t *testing.T, g *Gate, a Ask, kv ...string) {
	t.Helper()
	p, err := g.Enter(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	p.Answer(t.Context(), Automatic.Read(200, h, time.Now()), time.Now())
}

func countedApart(t *testing.T, f func(t *testing.T, g *Gate)) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		callTold(t, g, Ask{Kind: Writing, Shape: "POST /orders"}, "X-RateLimit-Limit", "6000", "X-RateLimit-Remaining", "5999", "X-RateLimit-Reset", "60")
		callTold(t, g, Ask{Shape: "GET /stock"}, "X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3600")
		f(t, g)
	})
}

func TestAWaitingPollDoesNotHoldUpWritesWithAQuotaOfTheirOwn(t *testing.T) {
	countedApart(t, func(t *testing.T, g *Gate) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		go func() {
			if p, err := g.Enter(ctx, Ask{Shape: "GET /stock"}); err == nil {
				p.Drop(true)
			}
		}()
		synctest.Wait()
		begun := time.Now()
		for range 2 { // after the first it is the poll's turn
			p, err := g.Enter(ctx, Ask{Kind: Writing, Shape: "POST /orders"})
			if err != nil {
				t.Fatal(err)
			}
			p.Drop(true)
		}
		if d := time.Since(begun); d > time.Minute {
			t.Errorf("two writes with 5999 of 6000 left took %s", d)
		}
	})
}

// The lane's Ready has no shape, and no answer tells of calls without one: all quotas hold it.
func TestALaneDoesNotWaitForTheQuotaOfAPoll(t *testing.T) {
	countedApart(t, func(t *testing.T, g *Gate) {
		begun := time.Now()
		_ = g.Ready(t.Context(), Ask{Kind: Writing})
		if d := time.Since(begun); d > time.Minute {
			t.Errorf("writes with 5999 of 6000 left may be claimed after %s", d)
		}
	})
}

// Ended calls of one shape are kept for a minute because a quota that does not concern them is told of by a rare poll; each call
// walks all of them several times under the lock: 1 ms a call at 25,000 kept.
func TestCallsAreNotKeptForAForeignQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		one := func(shape string, limit int) {
			p, _ := g.Enter(t.Context(), Ask{Shape: shape})
			h := http.Header{}
			h.Set("X-RateLimit-Limit", fmt.Sprint(limit))
			h.Set("X-RateLimit-Remaining", fmt.Sprint(limit-1))
			h.Set("X-RateLimit-Reset", "60")
			p.Answer(t.Context(), Automatic.Read(200, h, time.Now()), time.Now())
		}
		one("poll", 1000)
		for range 2000 {
			one("write", 1e9)
			time.Sleep(5 * time.Millisecond)
		}
		if n := len(g.pacer.calls); n > 100 {
			t.Errorf("%d calls are kept, and none is under way", n)
		}
	})
}

// Calls of one kind that are to wait for longer than max_pause: no suspension, nothing in State, nothing stored, and Resume does not end it, although
// the log says "the client is suspended until then; ... end it with: syncd resume".
func TestOneKindOfCallsIsNotHeldBeyondMaxPauseInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		call := func(shape string, status int, after string) error {
			p, err := g.Enter(t.Context(), Ask{Shape: shape})
			if err != nil {
				return err
			}
			p.Answer(t.Context(), Automatic.Read(status, http.Header{"Retry-After": {after}}, time.Now()), time.Now())
			return nil
		}
		_ = call("a", 429, "1")
		time.Sleep(3 * time.Second)
		_ = call("b", 200, "")
		_ = call("a", 429, "25920000") // 300 days
		if g.State(time.Now()).Open {
			t.Error("max_pause is a day, the server asks for 300, and nothing shows")
		}
		_ = g.Resume(t.Context(), "me")
		time.Sleep(time.Second)
		if err := call("a", 200, ""); err != nil {
			t.Error("after resume:", err)
		}
	})
}

func TestALostCallIsCountedInItsOwnQuotaAlone(t *testing.T) {
	countedApart(t, func(t *testing.T, g *Gate) {
		spent := func(shape string) float64 {
			for _, m := range g.pacer.mirrors {
				if m.shapes[shape] {
					return m.own
				}
			}
			t.Fatalf("no quota tells of %s", shape)
			return 0
		}
		orders, stock := spent("POST /orders"), spent("GET /stock")
		p, err := g.Enter(t.Context(), Ask{Kind: Writing, Shape: "POST /orders"})
		if err != nil {
			t.Fatal(err)
		}
		p.Drop(true)
		if o, s := spent("POST /orders"), spent("GET /stock"); o != orders+1 || s != stock {
			t.Errorf("counted are %v and %v, want %v and %v", o, s, orders+1, stock)
		}
	})
}

// A server that told of an hour's quota without anything left, and that refused calls of
// one kind, is asked anew by one call, and the others go after its answer.
func TestWhatIsForgottenIsFoundOutAnewByOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		answer := func(p Pass, left string) {
			p.Answer(t.Context(), Automatic.Read(200, http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {"3600"}}, time.Now()), time.Now())
		}
		p, err := g.Enter(t.Context(), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		answer(p, "0")
		g.Recall(Learned{Rate: 0.001})
		passes := make(chan Pass, 5)
		for range 5 {
			go func() {
				if p, err := g.Enter(t.Context(), Ask{}); err == nil {
					passes <- p
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(passes) != 0 {
			t.Fatalf("%d calls went although nothing is left", len(passes))
		}
		g.Forget("ada")
		synctest.Wait()
		if len(passes) != 1 {
			t.Fatalf("%d calls went at once, want one alone", len(passes))
		}
		answer(<-passes, "99")
		synctest.Wait()
		if len(passes) != 4 {
			t.Errorf("%d calls follow the answer, which told that there is enough for all", len(passes))
		}
		if l := g.State(time.Now()).Learned; l.Rate != 0 {
			t.Errorf("a learned rate of %g is still known", l.Rate)
		}
	})
}
