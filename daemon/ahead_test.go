package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
)

// slowing is an entity that takes its first upserts at once, and each of those after
// them in its time.
type slowing struct {
	*faketarget.Entity
	fast, begun atomic.Int64
	takes       time.Duration
}

func (s *slowing) Upsert(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	if s.begun.Add(1) > s.fast.Load() {
		t := time.NewTimer(s.takes)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return []connectors.Outcome{connectors.Fail(connectors.Unknown, "canceled", "cut off")}
		}
	}
	return s.Entity.Upsert(ctx, ws)
}

// ahead has records written by key to a target that becomes slow when many of them
// have been claimed for ahead.
func (w *world) ahead(takes time.Duration) *slowing {
	s := &slowing{Entity: w.orders, takes: takes}
	s.fast.Store(4)
	w.plan.Clients["erp"].Settings.(*settings).entities["order"] = s
	w.plan.Flows["orders"].Strategy = connectors.NaturalKey
	w.plan.Flows["orders"].Page = 100
	for i := range 100 {
		w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","v":1}`, i))
	}
	return s
}

func TestWhatIsClaimedAheadIsNotBegunOnceTheDaemonStops(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.ahead(time.Second)
		w.start()
		w.pass(2500 * time.Millisecond)
		begun := s.begun.Load()
		w.end()
		if n := s.begun.Load(); begun < 5 || n != begun {
			t.Errorf("%d writes had begun, and %d more after the stop", begun, n-begun)
		}
		for i := range 100 {
			if r := w.row("orders", fmt.Sprintf("K%d", i)); r.Unresolved() {
				t.Errorf("%s is in doubt after a graceful stop", r.Key)
			}
		}
	})
}

func TestWhatIsClaimedAheadAndComesLateIsWrittenAsItIsWantedByThen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.ahead(20 * time.Second)
		w.plan.Flows["orders"].MaxAge = 30 * time.Second
		w.start()
		w.pass(3 * time.Second)
		for i := range 100 {
			w.shop.put(fmt.Sprint(i), 2, fmt.Sprintf(`{"key":"K%d","v":2}`, i))
		}
		w.pass(time.Hour)
		old := 0
		for _, e := range w.orders.Effects() {
			if e.Body != "" && e.Body[len(e.Body)-2] == '1' {
				old++
			}
		}
		if old > 8 {
			t.Errorf("%d records were written in a state that was not wanted any more", old)
		}
		for i := range 100 {
			w.holds(w.orders, fmt.Sprintf("K%d", i), fmt.Sprintf(`{"key":"K%d","v":2}`, i))
		}
	})
}
