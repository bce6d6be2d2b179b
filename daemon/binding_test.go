package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

func TestAFlowThatIsNotAsItsRecordsWereMadeReadsAndWritesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		w.end()
		w.shop.put("2", 1, `{"key":"B"}`)
		pulls := w.shop.pulled()
		w.plan.Flows["orders"].Client = "shop"
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		err := New(w.journal, Options{}).Run(ctx, w.plan, nil)
		var ce *jobs.ChangedError
		if !errors.As(err, &ce) || err.Error() != `flow orders is not as its records were made: to.client is "shop" and was "erp"` {
			t.Errorf("it ended with %v", err)
		}
		if n := w.shop.pulled() - pulls; n != 0 {
			t.Errorf("the shop was asked %d times", n)
		}
	})
}

// shut is a client that cannot be opened.
type shut struct{ settings }

func (*shut) Open(context.Context, connectors.Env) (connectors.Instance, error) {
	return nil, errors.New("it is shut")
}

func TestAChangeIsAcceptedOnlyByTheDaemonThatRunsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		next, flow, client := *w.plan, *w.plan.Flows["orders"], *w.plan.Clients["erp"]
		flow.Strategy, client.Settings = connectors.Lookup, &shut{}
		next.Flows = map[string]*FlowPlan{"orders": &flow}
		next.Clients = map[string]*ClientPlan{"shop": w.plan.Clients["shop"], "erp": &client}
		cs, err := w.journal.Changes(w.Context(), next.JobFlows())
		if err != nil || len(cs) != 1 {
			t.Fatalf("%d changes, %v", len(cs), err)
		}
		flow.AcceptChange = cs[0].Token
		done := make(chan error, 1)
		w.reload <- Reload{Plan: &next, Done: done}
		if err := <-done; err == nil {
			t.Fatal("a client that is shut was opened")
		}
		w.pass(5 * time.Second)
		if cs, err := w.journal.Changes(w.Context(), w.plan.JobFlows()); err != nil || len(cs) != 0 {
			t.Errorf("the daemon goes on with the old plan, which the journal no longer knows: %+v, %v", cs, err)
		}
	})
}

func TestAnotherStrategyWaitsForWhatAnEndedDaemonLeftUnderWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		w.end()
		flow := &w.plan.Flows["orders"].Flow
		body := jobs.Pair{Key: "B", Body: []byte(`{"key":"B"}`)}
		ended := jobs.New(w.engine, jobs.Options{Owner: "ended"})
		_, err := ended.Admit(w.Context(), jobs.Admission{Flow: flow, Items: []jobs.Item{{SourceID: "2", Version: 1, Observed: w.journal.Now(), Pairs: []jobs.Pair{body}}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ended.Claim(w.Context(), jobs.ClaimRequest{Client: "erp", Limit: 10, Flows: w.plan.JobFlows(),
			Busy: func(jobs.RowID, jobs.EntityKey) bool { return false }})
		if err != nil || len(got.Jobs) != 1 {
			t.Fatalf("claimed %d jobs: %v", len(got.Jobs), err)
		}
		// The daemon that claimed ends here.
		flow.Strategy = connectors.Lookup
		cs, err := w.journal.Changes(w.Context(), w.plan.JobFlows())
		if err != nil || len(cs) != 1 {
			t.Fatalf("%d changes, %v", len(cs), err)
		}
		flow.AcceptChange = cs[0].Token
		var ce *jobs.ChangedError
		ctx, stop := context.WithTimeout(w.Context(), time.Second)
		defer stop()
		if err := New(w.journal, Options{}).Run(ctx, w.plan, nil); !errors.As(err, &ce) || ce.Changes[0].Until.IsZero() {
			t.Fatalf("it ended with %v", err)
		}
		w.pass(flow.SettleTime)
		w.start()
		w.pass(5 * time.Minute)
		w.holds(w.orders, "B", `{"key":"B"}`)
	})
}
