package daemon

import (
	"context"
	"testing"
	"time"

	"syncd/jobs"
	"syncd/ratelimit"
)

// learned is what the gate of a client of the running daemon has learned.
func (w *world) learned(client string) float64 {
	w.Helper()
	return w.gateOf(client).State(time.Now()).Learned.Rate
}

func (w *world) gateOf(client string) *ratelimit.Gate {
	w.Helper()
	w.daemon.mu.Lock()
	defer w.daemon.mu.Unlock()
	for _, t := range w.daemon.current.all() {
		if t.client.name == client {
			return t.client.gate
		}
	}
	w.Fatalf("client %s is not run", client)
	return nil
}

// anew has a person wish that the limits of a client that is not paused be found out anew.
func (w *world) anew(client string) {
	w.Helper()
	r, err := jobs.New(w.engine, jobs.Options{Owner: "a command"}).ResumeClient(context.Background(), client, "ada", w.plan.JobFlows())
	if err != nil || !r.Anew {
		w.Fatalf("it came to %+v, %v", r, err)
	}
}

func TestWhatIsBelievedOfALimitIsFoundOutAnewWhenAPersonWishesSo(t *testing.T) {
	const slow = 0.5
	inWorld(t, func(w *world) {
		w.start()
		w.pass(5 * time.Second)
		w.gateOf("erp").Recall(ratelimit.Learned{Rate: slow})
		w.pass(time.Minute)
		w.end()
		w.start()
		w.pass(5 * time.Second)
		if got := w.learned("erp"); got != slow {
			t.Fatalf("after a restart a rate of %g is known, want %g", got, slow)
		}
		w.anew("erp")
		w.pass(2 * time.Second)
		if got := w.learned("erp"); got != 0 {
			t.Errorf("a rate of %g is still known", got)
		}

		// Also while no daemon runs.
		w.gateOf("erp").Recall(ratelimit.Learned{Rate: slow})
		w.pass(time.Minute)
		w.end()
		w.pass(time.Second)
		w.anew("erp")
		w.start()
		w.pass(5 * time.Second)
		if got := w.learned("erp"); got != 0 {
			t.Errorf("after a restart a rate of %g is known again", got)
		}
	})
}
