package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

// both are the flow orders and a second one of the same records, which it reads by a shop.
func (f *fleet) both(shop string) *Plan {
	p := f.planned(1)
	more := (&world{T: f.T}).flow("more", "order", `.`, `"M-" + .key`)
	more.SourceClient = shop
	p.Flows["more"] = more
	return p
}

// A flow is added to one daemon after the other: the first to have it reads it, and the
// one that writes to its client says that it lacks it. Its jobs go on as soon as that
// daemon has it too.
func TestJobsOfAFlowThatTheWriterLacksGoOnWhenItHasIt(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		b := f.start("b")
		f.pass(2 * time.Minute)
		writer, reader := a, b
		if slices.Contains(b.lanes(), "erp") {
			writer, reader = b, a
		}
		shop := "shop"
		if !slices.Contains(reader.lanes(), shop) {
			shop = "shop2"
		}
		f.order(1)
		done := make(chan error, 1)
		reload := func(m *member) {
			m.reload <- Reload{Plan: m.own(f.both(shop)), Done: done}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		reload(reader)
		f.pass(20 * time.Second)
		id := jobs.RowID{Flow: "more", Key: "M-O-1"}
		d, ok, err := reader.daemon.journal.Get(t.Context(), id)
		if err != nil || !ok || d.Row.State != jobs.Ready || d.Row.Reason != jobs.ReasonNoFlow {
			t.Errorf("%s is %s (%q), found %v, %v, want ready (no_flow)", id, d.Row.State, d.Row.Reason, ok, err)
		}
		f.order(2)
		f.pass(20 * time.Second)
		said := strings.Count(writer.logged.String(), "does not have their flow")
		if said != 1 || !strings.Contains(writer.logged.String(), "client=erp flow=more") {
			t.Errorf("it was said %d times that the flow is wanting, want once with client and flow", said)
		}
		reload(writer)
		f.pass(2 * time.Second)
		f.written("M-O-1")
		f.written("M-O-2")
		b.end()
		a.end()
	})
}

// The jobs of a flow that was disabled and is enabled again go on at once, and nobody is
// told of what the configuration says itself.
func TestJobsOfAFlowThatIsEnabledAgainGoOnAtOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		j := a.daemon.journal
		rest := f.planned(1)
		flow := &rest.Flows["orders"].Flow
		delete(rest.Flows, "orders")
		rest.Flows["more"] = f.both("shop2").Flows["more"] // somebody writes to the client
		rest.Resting = []string{"orders"}
		done := make(chan error, 1)
		reload := func(p *Plan) {
			a.reload <- Reload{Plan: a.own(p), Done: done}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		reload(rest)
		if _, err := j.Admit(context.WithoutCancel(t.Context()), jobs.Admission{Flow: flow, Items: []jobs.Item{{SourceID: "1", Version: 1, Observed: time.Now(),
			Pairs: []jobs.Pair{{Key: "O-1", Body: []byte(`{"key":"O-1"}`)}}}}}); err != nil {
			t.Error(err)
		}
		f.pass(20 * time.Second)
		if d, _, err := j.Get(t.Context(), jobs.RowID{Flow: "orders", Key: "O-1"}); err != nil || d.Row.Reason != jobs.ReasonNoFlow {
			t.Errorf("the job has reason %q, %v, want no_flow", d.Row.Reason, err)
		}
		if strings.Contains(a.logged.String(), "does not have their flow") {
			t.Error("it is said of a flow that rests that it is wanting")
		}
		reload(f.planned(1))
		f.pass(2 * time.Second)
		f.written("O-1")
		a.end()
	})
}
