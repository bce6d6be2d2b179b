package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/ratelimit"
)

// sluggish is a target whose server takes a time for each request.
type sluggish struct {
	*settings
	gate connectors.Env
	took time.Duration
	made atomic.Int64
}

func (s *sluggish) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	s.gate = env
	return s, nil
}

func (s *sluggish) Target() connectors.Target { return s }
func (s *sluggish) Entity(name string) (connectors.Entity, error) {
	return &sluggishly{s.entities[name].(*faketarget.Entity), s}, nil
}

type sluggishly struct {
	*faketarget.Entity
	s *sluggish
}

func (e *sluggishly) request(ctx context.Context) {
	pass, err := e.s.gate.Gate.Enter(ctx, ratelimit.Ask{Kind: ratelimit.Writing})
	if err != nil {
		return
	}
	e.s.made.Add(1)
	time.Sleep(e.s.took)
	pass.Answer(ctx, ratelimit.Signal{Status: 200}, time.Now())
}

func (e *sluggishly) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	e.request(ctx)
	e.request(ctx) // which waits for the rate
	return e.Entity.Create(ctx, w)
}

// A server that serves, but ever more slowly, is left alone where that is wished. What
// requests wait for their own client's rate is no slowness of the server.
func TestAServerThatServesSlowlyIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		slow, took time.Duration
		rate       float64
		opens      bool
	}{
		"slowly":           {5 * time.Second, 5 * time.Second, 0, true},
		"quickly":          {5 * time.Second, 4 * time.Second, 0, false},
		"nobody minds":     {0, 20 * time.Second, 0, false},
		"at a modest rate": {5 * time.Second, time.Second, 0.1, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.plan.Clients["erp"]
				target := &sluggish{settings: p.Settings.(*settings), took: c.took}
				p.Settings, p.Gate.Rate = target, c.rate
				p.Breaker.SlowCall, p.Breaker.ConsecutiveFailures, p.Breaker.MinDistinct, p.Breaker.OpenFor = c.slow, 5, 3, time.Minute
				for i := range 20 {
					id := string(rune('A' + i))
					w.shop.put(id, 1, `{"key":"`+id+`"}`)
				}
				w.start()
				w.pass(5 * time.Minute)
				opened := strings.Contains(w.logged.String(), "breaker changed") && strings.Contains(w.logged.String(), "slow_call is 5s")
				if opened != c.opens {
					t.Errorf("after %d requests the breaker has opened: %v, want %v", target.made.Load(), opened, c.opens)
				}
			})
		})
	}
}
