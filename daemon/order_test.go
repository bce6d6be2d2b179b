package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/mapping"
)

// every makes the world's flow one of events, in order by product.
func (w *world) every(onDead string) {
	f := w.plan.Flows["orders"]
	p, err := mapping.Compile(mapping.Source{Map: `.`, Key: `.key`, Group: `.product`})
	if err != nil {
		w.Fatal(err)
	}
	f.Program, f.Order, f.Group, f.OnDead = p, "every", ".product", onDead
	f.Retry.InitialDelay, f.Retry.RetryFor = 100*time.Millisecond, 0
}

func (w *world) moved(product, key string, version int64) {
	w.shop.put(key, version, fmt.Sprintf(`{"key":%q,"product":%q}`, key, product))
}

// made lists the keys of a product in the order in which the target made them.
func (w *world) made(product string) (keys []string) {
	for _, e := range w.orders.Effects() {
		if strings.HasPrefix(e.Key, product) && !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (w *world) wrote(product string, keys ...string) {
	w.Helper()
	if got := w.made(product); !slices.Equal(got, keys) {
		w.Fatalf("the target made %v of %s, want %v", got, product, keys)
	}
}

// open counts the jobs that are not done, and 1 before any is there.
func (w *world) open() (n int64) {
	w.Helper()
	o, err := w.journal.Overview(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if len(o.Counts) == 0 {
		return 1
	}
	for _, c := range o.Counts {
		if c.State != jobs.Done {
			n += c.N
		}
	}
	return n
}

// fate is one of what may happen to a call that is tried again, at random but the
// same in each run; three of eight calls fare well.
func fate(rnd *rand.Rand) faketarget.Fault {
	kinds := []faketarget.Kind{faketarget.NotSent, faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.Late, faketarget.FailDone}
	if n := rnd.IntN(len(kinds) * 8 / 5); n < len(kinds) {
		return faketarget.Fault{Kind: kinds[n], Delay: 20 * time.Second}
	}
	return faketarget.Fault{}
}

func TestEachEventIsWrittenOnceAndInOrderWithinItsGroup(t *testing.T) {
	for _, s := range []connectors.Strategy{connectors.ExternalRef, connectors.NaturalKey} {
		t.Run(string(s), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.every("hold")
				w.plan.Flows["orders"].Strategy = s
				w.plan.Flows["orders"].Retry.MaxAttempts = 100
				rnd := rand.New(rand.NewPCG(1, 2))
				w.plan.Flows["orders"].Retry.MaxDelay = time.Second
				w.orders.Plan(func(faketarget.Call) faketarget.Fault { return fate(rnd) })
				want := map[string][]string{}
				for i := range 15 {
					product := fmt.Sprint("P", i%3)
					key := fmt.Sprintf("%s-%03d", product, 99-i) // as text they are the other way round
					want[product] = append(want[product], key)
					w.moved(product, key, int64(i))
					w.moved(product, key, int64(i)) // the source repeats itself
				}
				w.start()
				for n := 0; w.open() > 0; n++ {
					if n == 200 {
						w.Fatalf("after %s there are still %d open jobs", time.Duration(n)*time.Minute, w.open())
					}
					w.pass(time.Minute)
					if n%3 == 0 {
						w.end()
						w.start()
						w.pass(time.Second)
					}
				}
				for product, keys := range want {
					w.wrote(product, keys...)
				}
			})
		})
	}
}

func TestADeadEventHoldsItsGroupOrIsSkipped(t *testing.T) {
	for _, onDead := range []string{"hold", "skip"} {
		t.Run(onDead, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.every(onDead)
				closed := true
				w.orders.Plan(func(c faketarget.Call) faketarget.Fault {
					if c.Key == "P-1" && closed {
						return faketarget.Fault{Kind: faketarget.Refuse}
					}
					return faketarget.Fault{}
				})
				for i := 1; i <= 3; i++ {
					w.moved("P", fmt.Sprint("P-", i), int64(i))
					w.moved("Q", fmt.Sprint("Q-", i), int64(i))
				}
				w.start()
				w.pass(time.Hour)
				w.wrote("Q", "Q-1", "Q-2", "Q-3")
				if onDead == "hold" {
					w.wrote("P")
				} else {
					w.wrote("P", "P-2", "P-3")
				}
				closed = false
				if a, err := w.journal.Replay(w.Context(), []jobs.RowID{{Flow: "orders", Key: "P-1"}}, w.plan.JobFlows()); err != nil || a.Done != 1 {
					w.Fatalf("%+v, %v", a, err)
				}
				w.pass(time.Minute)
				if onDead == "hold" {
					w.wrote("P", "P-1", "P-2", "P-3")
				} else {
					w.wrote("P", "P-2", "P-3", "P-1")
				}
			})
		})
	}
}

func TestAnEventThatComesTooLateIsADeadLetterAndLogged(t *testing.T) {
	inWorld(t, func(w *world) {
		w.every("hold")
		w.moved("P", "P-2", 20)
		w.start()
		w.pass(time.Minute)
		w.moved("P", "P-1", 10)
		w.moved("P", "P-3", 30)
		w.shop.put("P-2", 20, `{"key":"P-2","product":"P","quantity":2}`)
		w.pass(time.Minute)
		w.wrote("P", "P-2", "P-3")
		if r := w.row("orders", "P-1"); r.State != jobs.Dead || r.Reason != jobs.ReasonLate {
			w.Fatalf("P-1 is %s %s", r.State, r.Reason)
		}
		for _, want := range []string{`key=P-1 class=invalid state=dead code=late`, `key=@P-2:changed class=invalid state=dead code=changed`} {
			if !strings.Contains(w.logged.String(), want) {
				w.Errorf("the log does not hold %s", want)
			}
		}
	})
}

func TestAGroupThatIsHeldGoesOnWhenItsFlowSkipsAfterAReload(t *testing.T) {
	inWorld(t, func(w *world) {
		w.every("hold")
		w.orders.Plan(func(c faketarget.Call) faketarget.Fault {
			if c.Key == "P-1" {
				return faketarget.Fault{Kind: faketarget.Refuse}
			}
			return faketarget.Fault{}
		})
		w.moved("P", "P-1", 1)
		w.moved("P", "P-2", 2)
		w.start()
		w.pass(time.Minute)
		w.wrote("P")
		w.end()
		w.plan.Flows["orders"].OnDead = "skip"
		w.start()
		w.pass(time.Minute)
		w.wrote("P", "P-2")
	})
}
