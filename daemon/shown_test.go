package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"syncd/jobs"
	"syncd/ratelimit"
)

func TestWhatAGateHasLearnedGoesWithItsClient(t *testing.T) {
	inFleet(t, func(f *fleet) {
		a := f.start("a")
		f.pass(5 * time.Second)
		lane := jobs.LaneID{Client: "erp"}
		tenure := func(m *member) *tenure {
			m.daemon.mu.Lock()
			defer m.daemon.mu.Unlock()
			return m.daemon.current.tenures[lane]
		}
		tenure(a).client.gate.Recall(ratelimit.Learned{Rate: 12.5, Calm: time.Minute, Fills: 2})
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		tenure(a).client.gate.RecallShapes([]ratelimit.ShapePause{{Shape: "POST /orders", Pause: ratelimit.Pause{Until: until, Evidence: "429"}}})
		f.pass(f.terms.Renew + time.Second)
		text, err := jobs.New(f.engine, jobs.Options{Owner: "beside"}).Shown(context.Background(), lane)
		s, ok := ReadShown(text)
		if err != nil || !ok || s.Learned == nil || s.Learned.Rate != 12.5 || s.At.IsZero() {
			t.Fatalf("stored is %q, %v", text, err)
		}
		a.kill()
		b := f.start("b")
		f.pass(f.terms.For + 5*time.Second)
		synctest.Wait()
		if l := tenure(b).client.gate.State(time.Now()).Learned; l.Rate != 12.5 || l.Fills != 2 {
			t.Errorf("the next daemon knows %+v", l)
		}
		if ps := tenure(b).client.gate.State(time.Now()).Shapes; len(ps) != 1 || ps[0].Shape != "POST /orders" || !ps[0].Until.Equal(until) || ps[0].Evidence != "429" {
			t.Errorf("for the next daemon %+v wait by themselves", ps)
		}
		a.end()
		b.end()
	})
}

func TestWhatIsShownNamesNoMoreThanIsKnown(t *testing.T) {
	at := time.Date(2026, 12, 1, 10, 0, 0, 5, time.UTC)
	s := ClientStatus{Client: "shop", Gate: ratelimit.State{Open: true, Waiting: 2, HeldBy: "quota",
		Quotas: []ratelimit.QuotaState{{Limit: 40, Left: 3.7, Restore: 2}}}}.shown(at)
	if len(s.Quotas) != 1 || s.Quotas[0].Left != 3 || s.Quotas[0].Restore != 2 || s.Learned != nil || s.Breaker != "" || s.At.Nanosecond() != 0 {
		t.Errorf("%+v", s)
	}
	if _, ok := ReadShown("{"); ok {
		t.Error("what cannot be read was read")
	}
	if _, ok := ReadShown(strings.Repeat(" ", 3)); ok {
		t.Error("nothing was read")
	}
}
