package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// state is what the journal says of reading the orders.
func (w *world) state() jobs.FlowState {
	w.Helper()
	s, err := w.journal.Cursor(context.Background(), "orders")
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// refuses has the shop answer every poll with an error.
func (w *world) refuses(c connectors.Class, code, message string) {
	w.shop.failing(&connectors.Error{Op: "list orders", Outcome: connectors.Outcome{Class: c, Code: code, Message: message}})
}

func TestSourceThatFailsIsInTheJournal(t *testing.T) {
	for name, how := range map[string]struct {
		class connectors.Class
		code  string
	}{
		"for a while":            {connectors.Transient, "http_503"},
		"because of its answers": {connectors.Invalid, "http_404"},
		"without a word":         {connectors.Unknown, ""},
		"with a secret":          {connectors.Invalid, "no-s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.redact = func(s string) string { return strings.ReplaceAll(s, "s3cret", "…") }
				w.shop.put("1", 1, `{"key":"A"}`)
				w.start()
				w.pass(10 * time.Minute)
				good := w.state()
				if age := time.Since(good.ReadAt); age > jobs.ReadingNoted+2*time.Second || good.Failing != (jobs.Failing{}) {
					t.Fatalf("read well %s ago, failing %+v", age, good.Failing)
				}
				began := time.Now()
				w.refuses(how.class, how.code, "token s3cret is not welcome")
				w.pass(time.Hour)
				w.end() // the next daemon goes on counting
				w.start()
				w.pass(time.Hour)
				got := w.state()
				if d := got.Failing.Since.Sub(began); d < 0 || d > 2*time.Second {
					t.Errorf("failing since %s after it began", d)
				}
				if got.ReadAt.After(began) || began.Sub(got.ReadAt) > jobs.ReadingNoted+2*time.Second {
					t.Errorf("read well %s before it failed", began.Sub(got.ReadAt))
				}
				got.Failing.Since = time.Time{}
				if want := (jobs.Failing{Class: how.class, Code: w.redact(how.code), Message: "token … is not welcome"}); got.Failing != want {
					t.Errorf("failing %+v, want %+v", got.Failing, want)
				}
				w.shop.failing(nil)
				w.pass(2 * time.Minute)
				if got := w.state(); got.Failing != (jobs.Failing{}) || time.Since(got.ReadAt) > jobs.ReadingNoted+2*time.Second {
					t.Errorf("after it came back: %+v", got)
				}
			})
		})
	}
}

func TestTroubleThatChangesIsToldAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuses(connectors.Transient, "http_503", "maintenance")
		w.start()
		w.pass(10 * time.Minute)
		since := w.state().Failing.Since
		w.refuses(connectors.Invalid, "http_404", "no such path")
		w.pass(10 * time.Minute)
		if f := w.state().Failing; f.Code != "http_404" || !f.Since.Equal(since) {
			t.Errorf("failing %+v, want the newest reason since %s", f, since)
		}
	})
}

func TestQuietSourceCostsAWriteAMinute(t *testing.T) {
	inWorld(t, func(w *world) {
		e := &counted{soleEngine: w.engine}
		w.journal = jobs.New(e, jobs.Options{Owner: "first"})
		w.plan.Flows["orders"].Every = time.Second
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(time.Minute)
		before := e.saved.Load()
		w.pass(time.Hour)
		if n := e.saved.Load() - before; n < 50 || n > 62 {
			t.Errorf("%d notes of good readings in an hour of polls every second", n)
		}
	})
}

// counted counts durable writes of how reading goes.
type counted struct {
	soleEngine
	saved atomic.Int64
}

type countedTx struct {
	jobs.Tx
	e *counted
}

func (t countedTx) SaveFlow(ctx context.Context, s jobs.FlowState) error {
	t.e.saved.Add(1)
	return t.Tx.SaveFlow(ctx, s)
}

func (e *counted) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return e.soleEngine.Update(ctx, func(tx jobs.Tx) error { return fn(countedTx{tx, e}) })
}

func TestReadingGoesOnSoonAfterTheJournalIsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		m := &mortal{soleEngine: w.engine}
		w.journal = jobs.New(m, jobs.Options{Owner: "first"})
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		m.dead.Store(true)
		w.shop.put("2", 1, `{"key":"B"}`)
		w.pass(3 * time.Hour)
		m.dead.Store(false)
		w.pass(7 * time.Second)
		w.holds(w.orders, "B", `{"key":"B"}`)
		if f := w.state().Failing; f != (jobs.Failing{}) {
			t.Errorf("the source is blamed for the journal: %+v", f)
		}
	})
}
