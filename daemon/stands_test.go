package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// count returns how many rows of the orders are in a state.
func (w *world) count(state jobs.State) int {
	w.Helper()
	l, _, err := w.journal.List(context.Background(), jobs.Filter{Flow: "orders", State: state, Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	return len(l)
}

func (w *world) orderEach(from, to int) {
	for i := from; i < to; i++ {
		w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%02d"}`, i))
	}
}

func TestFlowWhoseRecordsAreAllRefusedRestsUntilOneIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.orders.Plan(func(c faketarget.Call) (f faketarget.Fault) {
			if c.Op == faketarget.Create {
				f.Kind = faketarget.Refuse
			}
			return f
		})
		w.orderEach(0, 200)
		w.start()
		w.pass(30 * time.Second)
		calls := len(w.orders.Calls(faketarget.Create))
		if calls < 20 || calls > 100 || !w.state().Suspended.Is() {
			t.Fatalf("%d calls, suspended: %+v", calls, w.state().Suspended)
		}
		if n := w.count(jobs.Ready); n != 200 {
			t.Errorf("%d of 200 jobs are ready", n)
		}
		w.pass(time.Hour)
		if n := len(w.orders.Calls(faketarget.Create)) - calls; n < 6 || n > 12 {
			t.Errorf("%d probes within an hour", n)
		}
		w.orders.Plan(nil)
		w.pass(11 * time.Minute)
		if w.state().Suspended.Is() || w.count(jobs.Done) != 200 {
			t.Errorf("after a record was taken: suspended %+v, %d done", w.state().Suspended, w.count(jobs.Done))
		}
		for _, word := range []string{`level=ERROR msg="the flow is suspended: `, `msg="the flow goes on: `} {
			if n := strings.Count(w.logged.String(), word); n != 1 {
				t.Errorf("%s: logged %d times", word, n)
			}
		}
	})
}

func TestSourceIsReadNoFurtherWhileTooMuchOfItsFlowIsOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"].MaxOpen = 30
		refused := w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.plan.Clients["erp"].Concurrency = 1
		w.orderEach(0, 5)
		w.start()
		w.pass(5 * time.Second) // the client is paused now
		w.orderEach(5, 60)
		w.pass(5 * time.Minute)
		open, pulled := w.count(jobs.Ready), w.shop.pulled()
		if open < 30 || open > 50 || !w.state().Full.Is() {
			t.Fatalf("%d open with room for 30, full: %+v, %d calls", open, w.state().Full, refused.calls())
		}
		w.pass(2 * time.Minute)
		if n := w.shop.pulled() - pulled; n > 0 {
			t.Errorf("%d pulls of a flow that is full", n)
		}
		w.pass(10 * time.Minute)
		if w.state().Full.Is() || w.count(jobs.Done) != 60 {
			t.Errorf("after the pause: full %+v, %d of 60 done", w.state().Full, w.count(jobs.Done))
		}
	})
}

func TestMuchThatIsTooOldAtOnceIsHeldUntilAPersonLooked(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.plan.Flows["orders"]
		f.MaxAge, f.CanRefresh = 30*time.Minute, false
		w.plan.Clients["erp"].Concurrency = 1
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: time.Hour})
		w.orderEach(0, 60)
		w.start()
		w.pass(time.Minute)
		// Read once: what is read again would be young again.
		w.shop.failing(&connectors.Error{Outcome: connectors.Outcome{Class: connectors.Transient, Code: "http_503"}})
		w.pass(time.Hour + time.Minute)
		held := w.stored("erp").ExpiryHeld
		if dead := w.count(jobs.Dead); !held.Is() || dead > 20 || w.count(jobs.Ready) < 40 {
			t.Fatalf("%d dead, %d ready, held: %+v", dead, w.count(jobs.Ready), held)
		}
		if n := len(w.orders.Effects()); n > 0 {
			t.Errorf("%d over-aged jobs were sent", n)
		}
		flows := map[string]*jobs.Flow{"orders": &f.Flow}
		if was, err := w.journal.ResumeExpiry(context.Background(), "erp", flows); err != nil || was != held {
			t.Fatalf("%+v, %v", was, err)
		}
		w.pass(time.Minute)
		if dead, n := w.count(jobs.Dead), len(w.orders.Effects()); dead != 60 || n > 0 {
			t.Errorf("after a person resumed it: %d of 60 dead, %d sent", dead, n)
		}
	})
}

func TestManyRecordsThatAreBadInOneWayEndAsDeadLettersAndHoldBackNoLaterOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.orders.Plan(func(c faketarget.Call) (f faketarget.Fault) {
			if c.Op == faketarget.Create && !strings.HasPrefix(c.Key, "good") {
				f.Kind = faketarget.Refuse
			}
			return f
		})
		w.orderEach(0, 50)
		w.shop.put("good", 1, `{"key":"good"}`)
		w.start()
		for range 60 {
			w.pass(10 * time.Minute)
			if len(w.orders.Records("good")) == 1 {
				break
			}
		}
		w.holds(w.orders, "good", `{"key":"good"}`)
		w.pass(time.Minute)
		if n := w.count(jobs.Dead); n != 50 || w.state().Suspended.Is() {
			t.Errorf("a minute after the good one %d of 50 are dead letters, and the flow is suspended: %v", n, w.state().Suspended.Is())
		}
		w.shop.put("later", 1, `{"key":"good-later"}`)
		w.pass(3 * time.Second)
		w.holds(w.orders, "good-later", `{"key":"good-later"}`)
	})
}
