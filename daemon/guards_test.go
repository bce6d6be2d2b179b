package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

func TestPauseThatWasStoredHoldsForJobsThatComeAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		refused := w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.plan.Clients["erp"].Concurrency = 1
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		w.end()
		w.shop.put("2", 1, `{"key":"B"}`)
		w.start()
		w.pass(5 * time.Minute)
		if n := refused.calls(); n != 1 {
			t.Fatalf("%d calls of a paused client", n)
		}
		w.pass(6 * time.Minute)
		w.holds(w.orders, "B", `{"key":"B"}`)
	})
}

func TestPauseThatOutlivesAConfigurationEndsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		w.end()
		w.start()
		w.pass(20 * time.Minute)
		w.end()
		if n := strings.Count(w.logged.String(), `msg="pause is over" client=erp reason=throttled since=2000-01-01T00:00:0`); n != 1 {
			t.Errorf("the first pause is over %d times\n%s", n, w.logged.String())
		}
	})
}

func TestPausedSourceIsPulledByNoFlow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["second"] = w.flow("second", "party", `.`, `.key`)
		w.plan.Flows["second"].Every = 7 * time.Second
		w.start()
		w.pass(15500 * time.Millisecond)
		w.shop.failing(&connectors.Error{Outcome: connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute}})
		w.pass(2 * time.Second) // one of them is refused
		w.shop.failing(nil)
		before := w.shop.pulled()
		w.pass(9 * time.Minute)
		if n := w.shop.pulled() - before; n > 0 {
			t.Fatalf("%d pulls of a paused source", n)
		}
		w.pass(2 * time.Minute)
		if w.shop.pulled() == before {
			t.Fatal("it is not pulled after the pause")
		}
	})
}

func TestOutcomeThatCannotBeStoredIsStoredLater(t *testing.T) {
	inWorld(t, func(w *world) {
		m := &mortal{soleEngine: w.engine}
		w.journal = jobs.New(m, jobs.Options{Owner: "first"})
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, 5 * time.Second}
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(2 * time.Second)
		m.dead.Store(true) // the disk is full
		w.pass(time.Minute)
		m.dead.Store(false)
		w.pass(time.Minute)
		if r := w.row("orders", "A"); r.State != jobs.Done || len(w.orders.Calls(faketarget.Create)) != 1 {
			t.Fatalf("%s after attempt %d and %d creates", r.State, r.Attempt, len(w.orders.Calls(faketarget.Create)))
		}
	})
}

func TestPanicInAStrategyLeavesItsJobsInDoubt(t *testing.T) {
	l := &lane{log: slog.New(slog.DiscardHandler)} // without doers
	out := l.safely(t.Context(), &jobs.Flow{Name: "orders"}, make([]*jobs.Job, 2))
	if len(out) != 2 || out[0].Class != connectors.Unknown || out[1].Class != connectors.Unknown {
		t.Fatalf("%+v", out)
	}
}

func TestOutageUsesUpNoAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.plan.Flows["orders"]
		f.Retry.MaxAttempts, f.Retry.RetryFor = 2, 0
		w.orders.Plan(func(faketarget.Call) faketarget.Fault { return faketarget.Fault{Kind: faketarget.NotSent} })
		for i := range 5 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(2 * time.Hour)
		w.orders.Plan(nil)
		w.pass(time.Hour)
		for i := range 5 {
			w.holds(w.orders, fmt.Sprintf("K%d", i), fmt.Sprintf(`{"key":"K%d"}`, i))
		}
	})
}

func TestFailingRecordUsesUpItsAttemptsWhileOthersAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.plan.Flows["orders"]
		f.Retry.MaxAttempts, f.Retry.RetryFor, f.Retry.MaxDelay = 4, 0, time.Minute
		w.orders.Plan(func(c faketarget.Call) faketarget.Fault {
			if c.Key == "bad" {
				return faketarget.Fault{Kind: faketarget.NotSent}
			}
			return faketarget.Fault{}
		})
		w.shop.put("bad", 1, `{"key":"bad"}`)
		w.start()
		for i := range 20 {
			w.pass(time.Minute)
			w.shop.put("good", int64(i+1), fmt.Sprintf(`{"key":"good","v":%d}`, i))
		}
		w.pass(time.Minute)
		if r := w.row("orders", "bad"); r.State != jobs.Dead {
			t.Fatalf("after %d tries it is %s", r.Tries, r.State)
		}
		w.holds(w.orders, "good", `{"key":"good","v":19}`)
	})
}

func TestOpenBreakerKeepsJobsFromAFailingTarget(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Clients["erp"].Breaker = breaker.Settings{Window: time.Minute, MinCalls: 5, Ratio: 0.5, OpenFor: 2 * time.Minute, ProbeTimeout: time.Minute}
		w.plan.Flows["orders"].Retry.MaxDelay = 2 * time.Second
		w.orders.Plan(func(faketarget.Call) faketarget.Fault { return faketarget.Fault{Kind: faketarget.NotSent} })
		for i := range 30 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(time.Minute)
		before := len(w.orders.Calls())
		w.pass(20 * time.Minute)
		if n := len(w.orders.Calls()) - before; n > 60 {
			t.Errorf("%d calls of a target that fails, in 20 minutes", n)
		}
		w.orders.Plan(nil)
		w.pass(30 * time.Minute)
		if n := w.orders.Len(); n != 30 {
			t.Errorf("%d records in the end", n)
		}
	})
}

func TestSecretsAreCutOutOfWhatIsStored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.redact = func(s string) string { return strings.ReplaceAll(s, "s3cret", "…") }
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("no price for s3cret") else . end`, `.key`)
		w.refuse(connectors.Fail(connectors.Invalid, "no-s3cret", "token s3cret is not welcome"))
		w.shop.put("1", 1, `{"key":"A"}`)
		w.shop.put("2", 1, `{"key":"B","bad":true}`)
		w.start()
		w.pass(5 * time.Second)
		for key, want := range map[string]string{"A": "not welcome", "@2": "no price"} {
			d, _, err := w.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: key})
			told := d.Row.LastMessage + d.Row.LastCode
			for _, a := range d.Attempts {
				told += a.Message + a.Code
			}
			if err != nil || !strings.Contains(told, want) || strings.Contains(told, "s3cret") {
				t.Errorf("%s tells %q, %v", key, told, err)
			}
		}
	})
}

func TestJobPastMaxAgeIsSentWhenTheSourceSaysThatItIsStillSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"].MaxAge = time.Hour
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 3 * time.Hour})
		w.plan.Clients["erp"].Concurrency = 1
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(4 * time.Hour)
		w.holds(w.orders, "A", `{"key":"A"}`)
		if w.row("orders", "A").Generation < 2 || w.shop.fetches == 0 {
			t.Fatal("it was sent without being asked for again")
		}
	})
}

func TestVersionBeyondTheSourcesClockShadowsNothingWhenItWasFetched(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.plan.Flows["orders"]
		f.MaxAge, f.Source.VersionIsTime = time.Hour, true
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 3 * time.Hour})
		w.plan.Clients["erp"].Concurrency = 1
		begun := time.Now()
		w.shop.put("1", begun.UnixMicro(), `{"key":"A"}`)
		w.shop.present["1"] = connectors.Event{SourceID: "1", Version: begun.Add(48 * time.Hour).UnixMicro(), ServerTime: begun.Add(3 * time.Hour), Body: json.RawMessage(`{"key":"A","n":2}`)}
		w.start()
		w.pass(4 * time.Hour)
		w.holds(w.orders, "A", `{"key":"A","n":2}`)
		w.shop.put("1", time.Now().UnixMicro(), `{"key":"A","n":3}`)
		w.pass(10 * time.Minute)
		w.holds(w.orders, "A", `{"key":"A","n":3}`)
	})
}

func TestClaimsLeftBehindAreInDoubtAfterAStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, time.Hour}
		w.shop.put("1", 1, `{"key":"A"}`)
		kill := w.lives("one")
		w.pass(2 * time.Second)
		kill()
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = w.orders
		w.lives("two")
		w.pass(time.Second)
		r := w.row("orders", "A")
		if !r.Unresolved() || r.LastClass != connectors.Lost {
			t.Fatalf("a write that its daemon left under way is %s, in doubt %v", r.LastClass, r.Unresolved())
		}
		w.pass(10 * time.Minute)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}
