package daemon

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// transacted is a journal that counts its open transactions.
type transacted struct {
	soleEngine
	open atomic.Int64
}

func (c *transacted) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	c.open.Add(1)
	defer c.open.Add(-1)
	return c.soleEngine.Update(ctx, fn)
}

func (c *transacted) View(ctx context.Context, fn func(jobs.Tx) error) error {
	c.open.Add(1)
	defer c.open.Add(-1)
	return c.soleEngine.View(ctx, fn)
}

// pace has every call of a source or a target take its time, and counts those under way.
type pace struct {
	connectors.Instance
	takes    time.Duration
	underWay map[string]*atomic.Int64
}

func (p *pace) call(ctx context.Context, op string) {
	p.underWay[op].Add(1)
	defer p.underWay[op].Add(-1)
	sleep(ctx, p.takes)
}

// slowSource is the shop, slowly.
type slowSource struct {
	*shop
	p *pace
}

func (s slowSource) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	s.p.call(ctx, "pull")
	return s.shop.Pull(ctx, req)
}

func (s slowSource) Fetch(ctx context.Context, stream, id string) (connectors.Event, error) {
	s.p.call(ctx, "fetch")
	return s.shop.Fetch(ctx, stream, id)
}

// slowEntity is an entity that writes and finds slowly.
type slowEntity struct {
	*faketarget.Entity
	p *pace
}

func (e slowEntity) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	e.p.call(ctx, "create")
	return e.Entity.Create(ctx, w)
}

func (e slowEntity) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	e.p.call(ctx, "update")
	return e.Entity.Update(ctx, w)
}

func (e slowEntity) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	e.p.call(ctx, "find")
	return e.Entity.Find(ctx, w)
}

// slowly makes a shop that is read slowly a connector.
type slowly struct {
	*settings
	p *pace
}

func (s slowly) Open(context.Context, connectors.Env) (connectors.Instance, error) { return s, nil }
func (s slowly) Source() connectors.Source                                         { return slowSource{s.shop, s.p} }

func TestNoTransactionIsOpenDuringACall(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &pace{takes: 700 * time.Millisecond, underWay: map[string]*atomic.Int64{}}
		for _, op := range []string{"pull", "fetch", "create", "update", "find"} {
			p.underWay[op] = &atomic.Int64{}
		}
		journal := &transacted{soleEngine: w.engine}
		w.journal = jobs.New(journal, jobs.Options{Owner: "first"})
		w.plan.Clients["shop"].Settings = slowly{w.plan.Clients["shop"].Settings.(*settings), p}
		entities := w.plan.Clients["erp"].Settings.(*settings).entities
		entities["order"], entities["party"] = slowEntity{w.orders, p}, slowEntity{w.parties, p}
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("no") else . + (if .customer then {party: ref("party"; .customer)} else {} end) end`, `.key`)
		w.parties.Seed("C", `{}`)
		w.orders.Script(faketarget.Fault{Kind: faketarget.LoseAnswer})
		w.shop.put("1", 1, `{"key":"A"}`)
		w.shop.put("2", 1, `{"key":"B","customer":"C"}`)
		w.shop.put("3", 1, `{"bad":true}`)
		w.start()
		seen := map[string]bool{}
		for i := range 3000 {
			w.pass(50 * time.Millisecond)
			for op, n := range p.underWay {
				if n.Load() == 0 {
					continue
				}
				seen[op] = true
				if open := journal.open.Load(); open != 0 {
					t.Fatalf("%d transactions are open during a %s", open, op)
				}
			}
			switch i {
			case 100:
				w.shop.put("2", 2, `{"key":"B","customer":"C","v":2}`)
				w.shop.mu.Lock()
				w.shop.present["3"] = connectors.Event{SourceID: "3", Version: 1, Body: json.RawMessage(`{"key":"D"}`)}
				w.shop.mu.Unlock()
				if _, err := w.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "@3"}}, w.plan.JobFlows()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(seen) != len(p.underWay) {
			t.Errorf("only %v was seen under way", seen)
		}
		for _, key := range []string{"A", "B", "D"} {
			if len(w.orders.Records(key)) != 1 {
				t.Errorf("the target has %d records of %s", len(w.orders.Records(key)), key)
			}
		}
	})
}
