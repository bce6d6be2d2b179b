package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// mortal is the journal of a daemon that can be cut off from it, as by the end
// of its process.
type mortal struct {
	soleEngine
	dead atomic.Bool
}

var errDead = errors.New("the process has ended")

func (m *mortal) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	if m.dead.Load() {
		return errDead
	}
	return m.soleEngine.Update(ctx, fn)
}

// lives starts a daemon under a name of its own; the returned function ends it
// in the middle of whatever it does.
func (w *world) lives(name string) (kill func()) {
	m := &mortal{soleEngine: w.engine}
	w.journal = jobs.New(m, jobs.Options{Owner: name})
	w.start()
	return func() {
		m.dead.Store(true)
		w.end()
	}
}

// TestDaemonKeepsItsPromisesWhateverFails runs a daemon between a shop that
// changes and an ERP that loses, delays and doubles answers, kills, stops and
// reloads it, and looks at the ERP when all failures have ended.
func TestDaemonKeepsItsPromisesWhateverFails(t *testing.T) {
	strategies := []connectors.Strategy{connectors.Lookup, connectors.ExternalRef, connectors.NaturalKey}
	for seed := range uint64(12) {
		strategy := strategies[seed%3]
		t.Run(fmt.Sprintf("%s %d", strategy, seed), func(t *testing.T) {
			inWorld(t, func(w *world) { w.rough(rand.New(rand.NewPCG(seed, 1)), strategy) })
		})
	}
}

// rough plays one history.
func (w *world) rough(r *rand.Rand, strategy connectors.Strategy) {
	for _, e := range []**faketarget.Entity{&w.orders, &w.parties} {
		*e = faketarget.New(faketarget.Options{Name: (*e).Info().Name, Unique: strategy == connectors.ExternalRef, SettleTime: time.Minute,
			MaxBatch: 3}, func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) })
	}
	w.plan.Clients["erp"].Settings = &settings{entities: map[string]connectors.Entity{"order": w.orders, "party": w.parties}}
	w.plan.Flows["orders"] = w.flow("orders", "order", `select(.total) | {key, total, party: ref("party"; .customer)}`, `.key`)
	w.plan.Flows["parties"] = w.flow("parties", "party", `select(.name) | {key, name}`, `.key`)
	for _, f := range w.plan.Flows {
		f.Strategy, f.Every = strategy, 5*time.Second
		f.Retry.MaxAttempts, f.Retry.MaxDelay = 100, time.Minute
	}
	faults := []faketarget.Kind{faketarget.NotSent, faketarget.Throttle, faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.Late,
		faketarget.FailDone, faketarget.FailUndone, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.NoLink, faketarget.Short}
	for _, e := range []*faketarget.Entity{w.orders, w.parties} {
		r := rand.New(rand.NewPCG(r.Uint64(), 2)) // the two are called at the same time
		e.Plan(func(faketarget.Call) faketarget.Fault {
			if r.IntN(3) > 0 {
				return faketarget.Fault{}
			}
			return faketarget.Fault{Kind: faults[r.IntN(len(faults))], Delay: time.Duration(r.IntN(55)) * time.Second, Code: fmt.Sprint("http_", r.IntN(1000))}
		})
	}
	newest := map[string]string{}
	kill, lives := w.lives("0"), 0
	for version := range int64(40) {
		i := r.IntN(5)
		if r.IntN(3) == 0 {
			newest[fmt.Sprint("P", i)] = fmt.Sprintf(`{"key":"P%d","name":"%d"}`, i, version)
			w.shop.put(fmt.Sprint("p", i), version+1, newest[fmt.Sprint("P", i)])
		} else {
			newest[fmt.Sprint("O", i)] = fmt.Sprintf(`{"key":"O%d","party":%%s,"total":"%d"}`, i, version)
			w.shop.put(fmt.Sprint("o", i), version+1, fmt.Sprintf(`{"key":"O%d","total":"%d","customer":"P%d"}`, i, version, i))
		}
		w.pass(time.Duration(r.IntN(40)) * time.Second)
		switch r.IntN(8) {
		case 0:
			kill()
		case 1:
			w.end()
		case 2:
			w.reload <- Reload{Plan: w.plan}
			continue
		default:
			continue
		}
		lives++
		kill = w.lives(fmt.Sprint(lives))
	}
	w.orders.Plan(nil)
	w.parties.Plan(nil)
	for i := range 5 {
		key := fmt.Sprint("P", i)
		newest[key] = fmt.Sprintf(`{"key":"P%d","name":"at last"}`, i)
		w.shop.put(fmt.Sprint("p", i), 100, newest[key])
	}
	w.pass(30 * time.Minute)
	w.end()
	w.quiet(newest)
}

// quiet holds the target against the newest states, and the journal against the target.
func (w *world) quiet(newest map[string]string) {
	w.Helper()
	rows, running, err := w.journal.List(context.Background(), jobs.Filter{Limit: 1000})
	if err != nil || len(running) > 0 {
		w.Fatalf("%d jobs are under way, %v", len(running), err)
	}
	for _, r := range rows {
		if r.State != jobs.Done || r.Unresolved() {
			w.Errorf("%s is %s %s, in doubt %v: %s %s", r.RowID, r.State, r.Reason, r.Unresolved(), r.LastClass, r.LastMessage)
		}
	}
	for key, body := range newest {
		e := w.parties
		if key[0] == 'O' {
			e, body = w.orders, fmt.Sprintf(body, w.parties.Records("P" + key[1:])[0].Link())
		}
		if n := e.MostAtOnce(key); n > 1 {
			w.Errorf("%d records of %s stood at once", n, key)
		}
		w.holds(e, key, body)
	}
	for _, e := range append(w.orders.Effects(), w.parties.Effects()...) {
		if e.Back {
			w.Errorf("an older state was written over a newer one: %+v", e)
		}
	}
}
