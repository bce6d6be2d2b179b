package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/ratelimit"
)

func TestAProbeThatWaitsForItsTurnIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, err := ratelimit.NewGate("shop", ratelimit.Settings{Rate: 1.0 / 300}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer gate.Close()
		c := &client{name: "shop", plan: &ClientPlan{}, gate: gate, observer: Silent{}, log: slog.New(slog.DiscardHandler), now: time.Now,
			breaker: breaker.New("shop", breaker.Settings{ConsecutiveFailures: 3, MinDistinct: 3}, nil)}
		read := func(came error) {
			_ = c.read(t.Context(), func(ctx context.Context) error {
				p, err := gate.Enter(ctx, ratelimit.Ask{})
				if err != nil {
					return err
				}
				p.Drop(true)
				return came
			})
		}
		for range 3 {
			read(connectors.Errorf(connectors.Transient, "http_500", "no"))
		}
		if s := c.breaker.State(); s.State != breaker.Open {
			t.Fatalf("it is %s", s.State)
		}
		time.Sleep(31 * time.Second) // a probe may go, and the next call only minutes later
		read(nil)
		if s := c.breaker.State(); s.State != breaker.Closed {
			t.Errorf("after a probe that was served it is %s: %s", s.State, s.LastError)
		}
	})
}
