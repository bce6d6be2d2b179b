package daemon

import (
	"context"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/ratelimit"
)

// inTwoCalls are settings whose creates ask the gate for two calls each.
type inTwoCalls struct {
	settings
	orders *faketarget.Entity
}

func (c *inTwoCalls) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	in := *c
	in.entities = map[string]connectors.Entity{"order": twoCalls{c.orders, env}}
	return &in, nil
}

func (c *inTwoCalls) Target() connectors.Target { return c }

type twoCalls struct {
	*faketarget.Entity
	env connectors.Env
}

func (e twoCalls) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	for range 2 {
		pass, err := e.env.Gate.Enter(ctx, ratelimit.Ask{Kind: ratelimit.Writing})
		if err != nil {
			return notLetOut(err)
		}
		pass.Answer(ctx, ratelimit.Signal{Status: 200}, time.Now())
	}
	return e.Entity.Create(ctx, w)
}

// notLetOut is what connectors make of a gate's error.
func notLetOut(err error) connectors.Outcome {
	if _, ok := err.(*ratelimit.PausedError); ok {
		return connectors.Fail(connectors.Paused, "paused", "%s", err)
	}
	return connectors.Fail(connectors.Transient, "canceled", "not sent: %s", err)
}

func TestAWriteWhoseTurnDoesNotComeCostsNoAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		plan := func(rate float64) *Plan {
			next := *w.plan
			erp := *w.plan.Clients["erp"]
			erp.Settings, erp.Gate = &inTwoCalls{orders: w.orders}, ratelimit.Settings{Rate: rate}
			next.Clients = map[string]*ClientPlan{"shop": w.plan.Clients["shop"], "erp": &erp}
			return &next
		}
		w.plan.Flows["orders"].Retry.MaxAttempts, w.plan.Flows["orders"].Retry.RetryFor = 2, 0
		fast := plan(2)
		w.plan = plan(1. / 1200)
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(4 * time.Hour)
		r := w.row("orders", "A")
		if r.State != jobs.Ready || r.Tries > 0 || r.Attempt < 3 || r.Unresolved() {
			t.Errorf("after %d attempts for want of a call it is %s (%s), and %d count", r.Attempt, r.State, r.LastMessage, r.Tries)
		}
		done := make(chan error, 1)
		w.reload <- Reload{Plan: fast, Done: done}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}

func TestAnAttemptWhoseTimeItsTargetUsedUpCounts(t *testing.T) {
	gate, err := ratelimit.NewGate("erp", ratelimit.Settings{}, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err = leased{gate, "erp", nil, time.Now, 5 * time.Second}.Enter(late, ratelimit.Ask{})
	if err != context.DeadlineExceeded {
		t.Errorf("a call that was asked for after its time got %v", err)
	}
}

func TestAStopDuringAPauseIsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Hour})
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(time.Minute)
		for _, c := range w.daemon.Clients() {
			if c.Client == "erp" && c.Gate.Open {
				t.Fatal("the client is not paused")
			}
		}
		begun := time.Now()
		w.end()
		if took := time.Since(begun); took > 0 {
			t.Errorf("the stop took %s", took)
		}
	})
}
