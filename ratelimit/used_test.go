package ratelimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"syncd/internal/quota"
)

// play has 16 workers call a server for a time.
type play struct {
	sort    quota.Sort
	telling quota.Telling
	foreign float64 // part of the rate that others take
	gates   int     // that do not know of each other; 0 for one
	trip    time.Duration
	warm    time.Duration
	lasts   time.Duration
	change  float64 // of the quota, in the middle
	again   bool    // in the middle of the steady state another gate takes over
	returns bool    // the server takes twice the cost at first
	limit   float64
	rate    float64
}

func (p play) String() string {
	return fmt.Sprintf("%s, %s, %g foreign", p.sort, p.telling, p.foreign)
}

type played struct {
	warm, all, steady quota.Counts
}

func (p play) run(t *testing.T) (out played) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		random := func() float64 { mu.Lock(); defer mu.Unlock(); return rnd.Float64() }
		s := quota.New(p.sort, p.telling, p.limit, p.rate, time.Now())
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		if p.foreign > 0 {
			wg.Go(func() {
				for ctx.Err() == nil {
					rest(ctx, time.Duration(float64(time.Second)/(p.rate*p.foreign)))
					s.Foreign(time.Now(), 1)
				}
			})
		}
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for range max(p.gates, 1) {
				g, err := NewGate("shop", Settings{}, nil, nil, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				for range 16 / max(p.gates, 1) {
					wg.Go(func() { p.work(ctx, g, s, random) })
				}
			}
			return func() {
				cancel()
				wg.Wait()
			}
		}
		stop := start()
		defer func() { stop() }()
		time.Sleep(p.warm)
		out.warm = s.Counts(time.Now())
		if p.change > 0 {
			s.Change(time.Now(), p.change)
		}
		time.Sleep(p.lasts / 2)
		if p.again {
			stop()
			stop = start()
		}
		time.Sleep(p.lasts - p.lasts/2)
		out.all = s.Counts(time.Now())
		out.steady = out.all.Sub(out.warm)
		cancel()
		wg.Wait()
	})
	return out
}

// work calls as often as the gate lets it.
func (p play) work(ctx context.Context, g *Gate, s *quota.Server, random func() float64) {
	for ctx.Err() == nil {
		if p.call(ctx, g, s, random) {
			continue
		}
		if st := g.State(time.Now()); !st.Open {
			rest(ctx, time.Until(st.Pause.Until))
		}
	}
}

func (p play) call(ctx context.Context, g *Gate, s *quota.Server, random func() float64) bool {
	cost := 1.0
	if p.sort == quota.Cost {
		cost = float64(1 + int(random()*3)*4)
	}
	pass, err := g.Enter(ctx, Ask{Kind: Writing, Shape: fmt.Sprint("cost ", cost)})
	if err != nil {
		return false
	}
	way := time.Duration(float64(p.trip) * (0.3 + 0.2*random()))
	rest(ctx, way)
	asked := cost
	if p.returns {
		asked = 2 * cost
	}
	ok, h := s.Call(time.Now(), asked)
	if ok && p.returns {
		time.Sleep(way)
		s.Return(time.Now(), cost)
	}
	left, limit, rate := s.Left(time.Now())
	rest(ctx, way)
	status := 200
	if !ok {
		status = 429
	}
	sig := Automatic.Read(status, h, time.Now())
	if p.sort == quota.Cost && p.telling <= quota.Seconds {
		sig.Quotas = []Quota{{Limit: limit, Remaining: left, Known: true, Restore: rate, Cost: cost, Asked: asked}}
	}
	pass.Answer(ctx, sig, time.Now())
	return ok
}

func rest(ctx context.Context, d time.Duration) {
	tm := time.NewTimer(d)
	defer tm.Stop()
	select {
	case <-tm.C:
	case <-ctx.Done():
	}
}

// TestQuotaIsUsedWholeAndHardlyEverExceeded has 16 workers use all they can get of servers of all sorts.
func TestQuotaIsUsedWholeAndHardlyEverExceeded(t *testing.T) {
	type bound struct {
		used    float64 // at least
		refused float64 // of 1,000 calls, at most
	}
	bounds := map[quota.Telling]bound{
		quota.Headers:    {0.99, 0},
		quota.Seconds:    {0.99, 0},
		quota.RetryAfter: {0.95, 4},
		quota.Nothing:    {0.9, 4},
	}
	for telling, b := range bounds {
		for _, sort := range []quota.Sort{quota.Bucket, quota.Window, quota.Cost} {
			for _, foreign := range []float64{0, 0.25} {
				p := play{sort: sort, telling: telling, foreign: foreign, trip: 20 * time.Millisecond, warm: 30 * time.Second, lasts: 40 * time.Second, limit: 400, rate: 200}
				switch {
				case sort == quota.Cost:
					p.limit, p.rate = 2000, 1000
				case sort == quota.Window && telling == quota.Seconds:
					p.limit, p.lasts, p.warm = 2000, 60*time.Second, 20*time.Second
				}
				t.Run(p.String(), func(t *testing.T) {
					t.Parallel()
					p.keeps(t, b.used, b.refused)
				})
			}
		}
	}
}

// mostlyKeeps plays up to three times, and says what was missed in two of them: what is learned of refusals alone depends on
// the order of goroutines, and one play in a hundred is an outlier.
func (p play) mostlyKeeps(t *testing.T, used, refused float64) {
	if o := p.run(t); o.steady.Used() >= used && float64(o.steady.Refused) <= refused*float64(o.steady.Calls)/1000 {
		return
	}
	p.keeps(t, used, refused)
	if t.Failed() {
		return
	}
	p.keeps(t, used, refused)
}

// keeps plays, and says what was missed.
func (p play) keeps(t *testing.T, used, refused float64) {
	o := p.run(t)
	no := 1000 * float64(o.steady.Refused) / float64(o.steady.Calls)
	t.Logf("used %.2f %%, refused %.2f of 1,000; while it began %.1f %%, %d of %d refused; others: %.0f, %d denied", 100*o.steady.Used(), no,
		100*o.warm.Used(), o.warm.Refused, o.warm.Calls, o.steady.Others, o.steady.Denied)
	if o.steady.Used() < used || no > refused {
		t.Errorf("used %.2f %% and refused %.2f of 1,000, want %.0f %% and at most %g", 100*o.steady.Used(), no, 100*used, refused)
	}
}

// TestTwoThatDoNotKnowOfEachOtherShareAQuota is what the shards of a client do, and other programs like this one.
func TestTwoThatDoNotKnowOfEachOtherShareAQuota(t *testing.T) {
	for _, sort := range []quota.Sort{quota.Bucket, quota.Window} {
		for _, telling := range []quota.Telling{quota.Headers, quota.RetryAfter} {
			p := play{sort: sort, telling: telling, gates: 2, trip: 20 * time.Millisecond, warm: 30 * time.Second, lasts: 40 * time.Second, limit: 400, rate: 200}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				if telling == quota.Headers {
					p.keeps(t, 0.99, 0)
				} else {
					p.mostlyKeeps(t, 0.9, 4)
				}
			})
		}
	}
}

// TestWhoTakesOverFromAnotherIsNotRefused is a restart, and a lease that is handed over: the new gate knows nothing, and little is left.
func TestWhoTakesOverFromAnotherIsNotRefused(t *testing.T) {
	for _, sort := range []quota.Sort{quota.Bucket, quota.Window, quota.Cost} {
		for _, foreign := range []float64{0, 0.25} {
			p := play{sort: sort, telling: quota.Headers, foreign: foreign, again: true, trip: 20 * time.Millisecond, warm: 20 * time.Second, lasts: 42 * time.Second, limit: 400, rate: 200}
			if sort == quota.Cost {
				p.limit, p.rate = 2000, 1000
			}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				p.keeps(t, 0.985, 0)
			})
		}
	}
}

// TestTwoThatHoldMoreThanTheyTakeDoNotStandStill has each of two see the other take all that comes back: what it holds at first, too.
func TestTwoThatHoldMoreThanTheyTakeDoNotStandStill(t *testing.T) {
	for _, limit := range []float64{1000, 2000} {
		p := play{sort: quota.Cost, telling: quota.Headers, gates: 2, returns: true, trip: 20 * time.Millisecond, warm: 14 * time.Second, lasts: 40 * time.Second, limit: limit, rate: limit / 2}
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			p.keeps(t, 0.99, 0)
		})
	}
}

// TestAChangedQuotaIsKeptToAtOnce halves and doubles a quota under way.
func TestAChangedQuotaIsKeptToAtOnce(t *testing.T) {
	for _, sort := range []quota.Sort{quota.Bucket, quota.Window, quota.Cost} {
		for _, change := range []float64{0.5, 2} {
			p := play{sort: sort, telling: quota.Headers, change: change, trip: 20 * time.Millisecond, warm: 9900 * time.Millisecond, lasts: 10 * time.Second, limit: 400, rate: 200}
			t.Run(fmt.Sprintf("%s times %g", sort, change), func(t *testing.T) {
				t.Parallel()
				p.keeps(t, 0.95, 0)
			})
		}
	}
}

// TestRefusalsStayFewWhereAnswersTakeLong: then many calls are under way when the quota is used up, and all of them are refused.
func TestRefusalsStayFewWhereAnswersTakeLong(t *testing.T) {
	for _, trip := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
		p := play{sort: quota.Window, telling: quota.Nothing, trip: trip, warm: time.Minute, lasts: 80 * time.Second, limit: 200, rate: 40}
		t.Run(trip.String(), func(t *testing.T) {
			t.Parallel()
			p.keeps(t, 0.75, 15) // 95 and 2 as a rule; 44 and 72 are refused where their number is not looked at
		})
	}
}
