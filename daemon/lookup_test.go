package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// asking is an entity whose look-ups are answered by a test.
type asking struct {
	*faketarget.Entity
	answer func(key string) error
	asked  *atomic.Int64
}

func (a asking) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	a.asked.Add(1)
	if err := a.answer(w.Key); err != nil {
		return nil, err
	}
	return a.Entity.Find(ctx, w)
}

// referring makes orders refer to parties that no flow writes, whose look-ups
// answer decides over; it returns how often one was looked up.
func (w *world) referring(answer func(key string) error) *atomic.Int64 {
	n := new(atomic.Int64)
	w.plan.Flows["orders"] = w.flow("orders", "order", `{key, party: ref("party"; .customer)}`, `.key`)
	w.plan.Flows["orders"].Retry.MaxAttempts, w.plan.Flows["orders"].Retry.RetryFor = 4, 0
	w.plan.Clients["erp"].Settings.(*settings).entities["party"] = asking{w.parties, answer, n}
	return n
}

func failing(c connectors.Class, code string) func(string) error {
	return func(string) error {
		return &connectors.Error{Outcome: connectors.Outcome{Class: c, Code: code, Message: "the ERP says no"}}
	}
}

func TestRefusedLookUpEndsTheJobAndNamesWhatWasLookedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.referring(failing(connectors.Invalid, "http_400"))
		w.shop.put("1", 1, `{"key":"A","customer":"C1"}`)
		w.start()
		w.pass(time.Minute)
		r := w.row("orders", "A")
		if r.State != jobs.Dead || r.LastCode != "http_400" || !strings.Contains(r.LastMessage, "look up party C1: ") || r.Unresolved() {
			t.Errorf("%s (%s): %s", r.State, r.LastCode, r.LastMessage)
		}
	})
}

func TestAnsweredLookUpProvesThatTheClientLives(t *testing.T) {
	inWorld(t, func(w *world) {
		n := w.referring(func(string) error { return nil })
		if o := w.parties.Create(t.Context(), connectors.Write{Key: "C1", Body: []byte(`{}`)}); o.Class != connectors.Applied {
			t.Fatal(o)
		}
		w.orders.Plan(func(faketarget.Call) faketarget.Fault { return faketarget.Fault{Kind: faketarget.NotSent} })
		w.plan.Flows["orders"].Retry.MaxDelay = time.Hour
		w.plan.Flows["orders"].Retry.InitialDelay = 30 * time.Minute // each attempt looks the party up again
		w.plan.Flows["orders"].Retry.NoJitter = true
		w.plan.Flows["orders"].Retry.MaxAttempts, w.plan.Flows["orders"].Retry.RetryFor = 3, 0
		w.plan.Flows["orders"].Every = time.Hour
		w.shop.put("1", 1, `{"key":"A","customer":"C1"}`)
		w.start()
		w.pass(3 * time.Hour)
		if r := w.row("orders", "A"); r.State != jobs.Dead {
			t.Errorf("after %d tries and %d answered look-ups it is %s (%s)", r.Tries, n.Load(), r.State, r.LastMessage)
		}
	})
}

func TestLookUpsThatFailOpenTheBreaker(t *testing.T) {
	inWorld(t, func(w *world) {
		var down atomic.Bool
		down.Store(true)
		n := w.referring(func(key string) error {
			if down.Load() {
				return failing(connectors.Transient, "http_503")(key)
			}
			return nil
		})
		w.plan.Clients["erp"].Breaker = breaker.Settings{Window: time.Minute, MinCalls: 5, Ratio: 0.5, OpenFor: 5 * time.Minute, ProbeTimeout: time.Minute}
		w.plan.Flows["orders"].Retry.MaxDelay = 2 * time.Second
		for i := range 20 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","customer":"C%d"}`, i, i))
		}
		w.start()
		w.pass(time.Minute)
		before := n.Load()
		w.pass(time.Hour)
		if k := n.Load() - before; k == 0 || k > 30 {
			t.Errorf("%d look-ups in an hour of a target that fails at each", k)
		}
		down.Store(false)
		w.pass(20 * time.Minute)
		if r := w.row("orders", "K7"); r.Reason != jobs.ReasonWaiting || r.Tries > 1 {
			t.Errorf("after the outage: %s %s, %d tries", r.State, r.Reason, r.Tries)
		}
	})
}

func TestOneRecordWhoseLookUpFailsIsNoOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.referring(failing(connectors.Transient, "http_500"))
		w.plan.Clients["erp"].Breaker = breaker.Settings{}
		w.plan.Flows["orders"].Retry.MaxDelay = time.Second
		w.shop.put("1", 1, `{"key":"A","customer":"C1"}`)
		w.start()
		w.pass(10 * time.Minute)
		for _, c := range w.daemon.Clients() {
			if c.Breaker.State != breaker.Closed {
				t.Errorf("the breaker of %s is %s", c.Client, c.Breaker.State)
			}
		}
	})
}
