package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/jobs"
	"syncd/ratelimit"
)

// countedJournal counts what is asked of a journal.
type countedJournal struct {
	soleEngine
	updates, views atomic.Int64
}

func (e *countedJournal) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	e.updates.Add(1)
	return e.soleEngine.Update(ctx, fn)
}

func (e *countedJournal) View(ctx context.Context, fn func(jobs.Tx) error) error {
	e.views.Add(1)
	return e.soleEngine.View(ctx, fn)
}

func (e *countedJournal) calls() int64 { return e.updates.Load() + e.views.Load() }

// limited is a target whose server refuses one call, and asks for an hour.
type limited struct {
	settings
	gate connectors.Env

	mu      sync.Mutex
	refuse  bool
	under   int
	most    int         // calls at one time, of all that followed the refusal
	began   []time.Time // of each call
	ended   []time.Time
	refused time.Time
	keys    map[string]bool
}

func (l *limited) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	l.gate = env
	return l, nil
}
func (*limited) Fields(*field.Set)                          {}
func (l *limited) Source() connectors.Source                { return nil }
func (l *limited) Target() connectors.Target                { return l }
func (l *limited) Entity(string) (connectors.Entity, error) { return l, nil }
func (l *limited) Entities() []connectors.EntityInfo        { return []connectors.EntityInfo{l.Info()} }
func (*limited) Info() connectors.EntityInfo {
	return connectors.EntityInfo{Name: "order", Doc: "an order", MaxBatch: 1, SettleTime: time.Minute,
		Strategies: []connectors.StrategyInfo{{Strategy: connectors.NaturalKey, Field: "key", KeyField: "key"}}}
}

// Upsert takes 20 ms for a record.
func (l *limited) Upsert(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	pass, err := l.gate.Gate.Enter(ctx, ratelimit.Ask{Kind: ratelimit.Writing})
	if err != nil {
		return []connectors.Outcome{connectors.Fail(connectors.Paused, "paused", "%s", err)}
	}
	l.mu.Lock()
	now := time.Now()
	l.began = append(l.began, now)
	if l.refuse {
		l.refuse, l.refused = false, now
		l.mu.Unlock()
		pass.Answer(ctx, ratelimit.Signal{Status: 429, Throttled: true, RetryAfter: time.Hour, HasRetryAfter: true, Evidence: "429 Retry-After: 3600"}, now)
		o := connectors.Fail(connectors.Throttled, "http_429", "too many requests")
		o.RetryAfter = time.Hour
		return []connectors.Outcome{o}
	}
	l.under++
	l.most = max(l.most, l.under)
	l.mu.Unlock()
	sleep(ctx, 20*time.Millisecond)
	l.mu.Lock()
	l.under--
	l.ended = append(l.ended, time.Now())
	l.keys[ws[0].Key] = true
	l.mu.Unlock()
	pass.Answer(ctx, ratelimit.Signal{Status: 200}, time.Now())
	return []connectors.Outcome{{Class: connectors.Applied, Link: ws[0].Key}}
}

// TestAnHourThatAServerAsksForIsKeptToWhateverWaits has very many jobs wait for a client whose server asked for an hour.
func TestAnHourThatAServerAsksForIsKeptToWhateverWaits(t *testing.T) {
	many := 100_000
	if testing.Short() {
		many = 5_000
	}
	const quietFor = 55 * time.Minute
	setUp := func(w *world) (*limited, *countedJournal) {
		target := &limited{refuse: true, keys: map[string]bool{}}
		w.plan.Clients["erp"].Settings = target
		w.plan.Clients["erp"].Concurrency = 16
		f := w.plan.Flows["orders"]
		f.Strategy, f.Page, f.Every = connectors.NaturalKey, 1000, 24*time.Hour
		j := &countedJournal{soleEngine: w.engine}
		w.journal = jobs.New(j, jobs.Options{Owner: "first"})
		return target, j
	}
	var idle int64
	inWorld(t, func(w *world) { // what a daemon asks that has nothing to do
		_, j := setUp(w)
		w.start()
		w.pass(3 * time.Minute)
		begun := j.calls()
		w.pass(quietFor)
		idle = j.calls() - begun
	})
	inWorld(t, func(w *world) {
		target, j := setUp(w)
		for i := range many {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(3 * time.Minute)
		calls := func() int {
			target.mu.Lock()
			defer target.mu.Unlock()
			return len(target.began)
		}
		before, asked := calls(), j.calls()
		if target.refused.IsZero() {
			t.Fatal("nothing was refused")
		}
		// What was under way at the refusal is answered; nothing else goes.
		if n := before; n > 16 {
			t.Errorf("%d calls before the hour, of 16 at one time", n)
		}
		w.pass(quietFor)
		if n := calls() - before; n > 0 {
			t.Errorf("%d calls within the hour", n)
		}
		n := j.calls() - asked
		t.Logf("%d jobs wait; the journal was asked %d times in %s, and %d times where nothing waits", many, n, quietFor, idle)
		if most := idle + 10; n > most {
			t.Errorf("the journal was asked %d times in %s while all waited, and %d times by a daemon without any work", n, quietFor, idle)
		}
		w.pass(20 * time.Minute)
		target.mu.Lock()
		defer target.mu.Unlock()
		after := target.began[before:]
		if len(after) < 3 {
			t.Fatalf("%d calls after the hour", len(after))
		}
		if d := after[0].Sub(target.refused); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("the first call came after %s", d)
		}
		if d := after[1].Sub(after[0]); d < 20*time.Millisecond {
			t.Errorf("the second call came %s after the first, whose answer takes 20 ms", d)
		}
		if target.most < 16 {
			t.Errorf("at most %d calls at one time after the probe, want 16", target.most)
		}
		if n := len(target.keys); n != many {
			t.Errorf("%d of %d records arrived", n, many)
		}
	})
}
