package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// pauses has a person pause a client beside the daemon; d = 0 is until resumes.
func (w *world) pauses(client string, d time.Duration) {
	w.Helper()
	if _, err := jobs.New(w.engine, jobs.Options{Owner: "a command"}).PauseClient(context.Background(), client, jobs.PauseWish{For: d, By: "ada"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) resumes(client string) {
	w.Helper()
	r, err := jobs.New(w.engine, jobs.Options{Owner: "a command"}).ResumeClient(context.Background(), client, "ada", w.plan.JobFlows())
	if err != nil || r.Ended == (ratelimit.Pause{}) {
		w.Fatalf("ended %+v, %v", r, err)
	}
}

func TestAPersonsPauseHoldsOverRestartsUntilItIsEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.pass(2 * time.Second)
		w.pauses("erp", 0)
		w.pass(1100 * time.Millisecond)
		w.shop.put("1", 1, `{"key":"K1"}`)
		w.pass(10 * time.Minute)
		w.end()
		w.start()
		w.pass(10 * time.Minute)
		if n := len(w.orders.Effects()); n != 0 {
			t.Fatalf("%d effects although the client is paused", n)
		}
		if r := w.row("orders", "K1"); r.Attempt != 0 || r.State != jobs.Ready {
			t.Errorf("the job is %s after %d attempts", r.State, r.Attempt)
		}
		w.resumes("erp")
		w.pass(1100 * time.Millisecond)
		w.holds(w.orders, "K1", `{"key":"K1"}`)
	})
}

func TestAPersonsPauseStopsPolls(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("shop")
		door.mend()
		w.start()
		w.pass(10 * time.Second)
		w.pauses("shop", time.Hour)
		w.pass(3 * time.Second) // what is under way ends
		before := door.called()
		w.pass(59 * time.Minute)
		if n := door.called() - before; n != 0 {
			t.Errorf("%d polls of a paused client", n)
		}
		w.pass(2 * time.Minute)
		if door.called() == before {
			t.Error("no poll after the end of the pause")
		}
	})
}

func TestAPersonHasRefusedCredentialsTriedAtOnceByOneCall(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		w.pass(20 * time.Second)
		for range 2 {
			before := door.called()
			w.resumes("erp")
			w.pass(4 * time.Second)
			if n := door.called() - before; n != 1 {
				t.Fatalf("%d calls, want 1", n)
			}
			w.pass(time.Minute)
		}
		w.pauses("erp", 0) // over the suspension
		w.pass(2 * time.Second)
		door.mend()
		w.resumes("erp")
		w.pass(10 * time.Second)
		if n := w.orders.Len(); n != 20 {
			t.Errorf("%d records, want 20", n)
		}
	})
}

func TestCredentialsRefusedBeforeAPersonsPauseAreTriedByOneCallAfterIt(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		w.pass(20 * time.Second)
		w.pauses("erp", time.Hour)
		w.end()
		w.start()
		w.pass(59 * time.Minute)
		before := door.called()
		w.pass(2 * time.Minute)
		if n := door.called() - before; n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		for _, c := range w.daemon.Clients() {
			if c.Client == "erp" && c.Suspended.IsZero() {
				t.Error("nobody is told since when the credentials are refused")
			}
		}
	})
}

func TestAnAnswerToAnEarlierCallDoesNotEndAPersonsPause(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		w.pass(20 * time.Second)
		w.end()
		door.mend()
		door.takes = 10 * time.Second
		w.start() // one call tries the credentials
		w.pass(3 * time.Second)
		w.pauses("erp", 0)
		w.pass(time.Minute)
		if n := w.orders.Len(); n != 1 {
			t.Errorf("%d records, want that of the call under way alone", n)
		}
	})
}

func TestRefusedCredentialsDuringAPersonsPauseAreToldAtItsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		door.takes = 10 * time.Second
		w.start()
		w.pass(3 * time.Second)
		w.pauses("erp", 0)
		w.pass(time.Minute)
		over, err := w.journal.PausedOver(context.Background(), "erp")
		if err != nil || over.Reason != ratelimit.ReasonSuspended {
			t.Fatalf("beneath is %+v, %v", over, err)
		}
		if s := w.stored("erp"); s.Reason != ratelimit.ReasonOperator {
			t.Errorf("stored is %+v", s)
		}
	})
}

func TestAPersonHasAnOpenBreakerProbeAtOnce(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("beneath a pause %v", paused), func(t *testing.T) {
			inWorld(t, func(w *world) {
				var script []connectors.Outcome
				for range 6 {
					script = append(script, connectors.Outcome{Class: connectors.Transient, Code: "connect"})
				}
				refused := w.refuse(script...)
				w.plan.Clients["erp"].Concurrency = 1
				w.plan.Clients["erp"].Breaker = breaker.Settings{Window: time.Minute, MinCalls: 5, Ratio: 0.5, OpenFor: time.Hour, ConsecutiveFailures: 5, MinDistinct: 3}
				for i := range 10 {
					w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
				}
				w.start()
				w.pass(time.Minute)
				if s := w.stored("erp"); s.Reason != ratelimit.ReasonBreaker {
					t.Fatalf("stored %+v", s)
				}
				if paused {
					w.pauses("erp", 0)
					w.pass(time.Minute)
				}
				before := refused.calls()
				w.resumes("erp")
				w.pass(3 * time.Second)
				if n := refused.calls() - before; n != 1 {
					t.Fatalf("%d calls, want one probe", n)
				}
				w.pass(time.Minute)
				w.resumes("erp") // the probe failed
				w.pass(2 * time.Minute)
				if n := w.orders.Len(); n != 10 {
					t.Errorf("%d records after a probe that succeeded, want 10", n)
				}
			})
		})
	}
}

func TestABreakerThatAPersonPausedOverStaysOpenOverARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		var script []connectors.Outcome
		for range 20 {
			script = append(script, connectors.Outcome{Class: connectors.Transient, Code: "connect"})
		}
		refused := w.refuse(script...)
		w.plan.Clients["erp"].Concurrency = 1
		w.plan.Clients["erp"].Breaker = breaker.Settings{Window: time.Minute, MinCalls: 5, Ratio: 0.5, OpenFor: time.Hour, ConsecutiveFailures: 5, MinDistinct: 3}
		for i := range 10 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(time.Minute)
		if s := w.stored("erp"); s.Reason != ratelimit.ReasonBreaker {
			t.Fatalf("stored %+v", s)
		}
		w.pauses("erp", 2*time.Hour)
		w.pass(time.Minute)
		w.end()
		w.start()
		before := refused.calls()
		w.pass(2*time.Hour + 10*time.Minute)
		if n := refused.calls() - before; n != 1 {
			t.Errorf("%d calls of a client that was down, want one probe", n)
		}
	})
}

func TestAllShardsOfAllDaemonsHeedAPersonsPauseAndItsEnd(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.plan = func() *Plan { return f.planned(4) }
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(3 * time.Minute)
		lanes := f.lanesOf("erp", a, b)
		person := jobs.New(f.engine, jobs.Options{Owner: "a command"})
		all := func(when, reason string) {
			t.Helper()
			for _, l := range lanes {
				if st := l.client.gate.State(time.Now()); st.Pause.Reason != reason {
					t.Errorf("%s: lane %s has %+v", when, l.hold.LaneID, st.Pause)
				}
			}
		}
		// Another pause is there already, shorter in one lane than in the others.
		if err := lanes[0].client.gate.PauseFor(context.Background(), ratelimit.ReasonThrottled, "429", time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := person.PauseClient(context.Background(), "erp", jobs.PauseWish{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		f.pass(1100 * time.Millisecond)
		all("after a person's pause", ratelimit.ReasonOperator)
		for _, l := range lanes { // an answer to a call under way asks for less
			if err := l.client.gate.PauseFor(context.Background(), ratelimit.ReasonThrottled, "429", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		f.pass(5 * time.Second)
		all("after answers to calls before it", ratelimit.ReasonOperator)
		r, err := person.ResumeClient(context.Background(), "erp", "ada", f.plan().JobFlows())
		if err != nil || r.Asked().Reason != ratelimit.ReasonThrottled {
			t.Errorf("ended %+v, %v", r, err)
		}
		f.pass(1100 * time.Millisecond)
		all("after its end", "")
		f.pass(time.Minute)
		all("a minute later", "")
		for _, m := range []*member{a, b} {
			if !strings.Contains(m.logged.String(), "a person has ended the pause of the client") {
				t.Errorf("daemon %s does not tell that a person ended the pause", m.name)
			}
		}
		b.end()
		a.end()
	})
}
