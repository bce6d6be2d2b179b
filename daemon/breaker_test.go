package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/ratelimit"
)

func TestOpenBreakerIsStoredAndARestartBeginsWithTheProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		down := connectors.Outcome{Class: connectors.Transient, Code: "connect"}
		var script []connectors.Outcome
		for range 40 {
			script = append(script, down)
		}
		refused := w.refuse(script...)
		w.plan.Clients["erp"].Concurrency = 1
		w.plan.Clients["erp"].Breaker = breaker.Settings{Window: time.Minute, MinCalls: 5, Ratio: 0.5, OpenFor: 10 * time.Minute, ConsecutiveFailures: 5, MinDistinct: 3}
		for i := range 10 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(time.Minute)
		cs, err := w.journal.Clients(context.Background())
		if err != nil || len(cs) != 1 || cs[0].Reason != ratelimit.ReasonBreaker || !cs[0].PausedUntil.After(w.journal.Now()) {
			t.Fatalf("stored %+v, %v", cs, err)
		}
		before := refused.calls()
		w.end()
		w.start()
		w.pass(time.Minute)
		if n := refused.calls(); n != before {
			t.Fatalf("%d calls of a client whose breaker was open before the restart", n-before)
		}
		w.pass(10 * time.Minute)
		if n := refused.calls(); n != before+1 {
			t.Fatalf("%d calls when the time was over, want one probe", n-before)
		}
	})
}
