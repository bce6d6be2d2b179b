package conformance

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// Journal runs every rule of a job's life over an engine. open returns an
// engine on a fresh place for this test alone, which tells the time by now.
func Journal(t *testing.T, open func(t *testing.T, now func() time.Time) jobs.Engine) {
	for _, group := range [][]rule{admissionRules, keyRules, outcomeRules, doubtRules, ageRules, operatorRules,
		handedKeyRules, editedRules, operatorsRules, hostileRules, readingRules, waitRules, bindingRules, pinRules, heldRules,
		bulkRules, errandRules, remapRules, pruneRules, orderRules, refusalRules, expiryRules, freshRules, fullRules, restoreRules, eraseRules, splitRules, noFlowRules, pauseRules, shownRules} {
		for _, r := range group {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				b := &bench{T: t, underWay: map[jobs.RowID]bool{}, at: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
				b.engine = open(t, func() time.Time { return b.at })
				b.journal = jobs.New(b.engine, jobs.Options{Owner: "daemon-1", Rand: func() float64 { return 0.5 }})
				b.write("orders", "order")
				r.prove(b)
			})
		}
	}
}

type rule struct {
	name  string
	prove func(b *bench)
}

// bench is one journal under test, with a clock and the words of a test.
type bench struct {
	*testing.T
	at      time.Time
	engine  jobs.Engine
	journal *jobs.Journal
	flow    *jobs.Flow
	flows   map[string]*jobs.Flow
	// underWay is what the daemon being played has claimed and not settled.
	underWay map[jobs.RowID]bool
	// claimed is all that was ever claimed, in order.
	claimed []*jobs.Job
}

// write goes on with a flow of its own that writes an entity.
func (b *bench) write(flow, entity string) {
	b.flow = &jobs.Flow{Name: flow, SourceClient: "shop", Stream: "orders", Client: "erp", Entity: entity,
		Strategy: connectors.ExternalRef, SettleTime: 30 * time.Second, Retry: jobs.DefaultRetry(),
		OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate",
		OnFrozen: "dead", OnExpire: "dead"}
	b.flows = map[string]*jobs.Flow{flow: b.flow}
}

func (b *bench) pass(d time.Duration) { b.at = b.at.Add(d) }

// ev is an event that maps to pairs of key and content.
func (b *bench) ev(source string, version int64, pairs ...string) jobs.Item {
	it := jobs.Item{SourceID: source, Version: version, Observed: b.at}
	for i := 0; i+1 < len(pairs); i += 2 {
		it.Pairs = append(it.Pairs, jobs.Pair{Key: pairs[i], Body: json.RawMessage(`{"v":"` + pairs[i+1] + `"}`)})
	}
	return it
}

func (b *bench) admit(items ...jobs.Item) jobs.Admitted {
	b.Helper()
	a, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: b.flow, Items: items})
	if err != nil {
		b.Fatalf("admit: %v", err)
	}
	return a
}

func (b *bench) claim() []*jobs.Job {
	b.Helper()
	c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 100, Flows: b.flows,
		InFlight: len(b.underWay), Busy: func(id jobs.RowID, _ jobs.EntityKey) bool { return b.underWay[id] }})
	if err != nil {
		b.Fatalf("claim: %v", err)
	}
	for _, jb := range c.Jobs {
		b.underWay[jb.RowID] = true
	}
	b.claimed = append(b.claimed, c.Jobs...)
	return c.Jobs
}

// one claims and expects exactly one job.
func (b *bench) one() *jobs.Job {
	b.Helper()
	js := b.claim()
	if len(js) != 1 {
		b.Fatalf("claimed %d jobs, want 1", len(js))
	}
	return js[0]
}

func (b *bench) none() {
	b.Helper()
	if js := b.claim(); len(js) != 0 {
		b.Fatalf("claimed %d jobs (%s first), want none", len(js), js[0].Key)
	}
}

func (b *bench) settle(jb *jobs.Job, o connectors.Outcome) jobs.Settled {
	b.Helper()
	return b.settleWith(jobs.Settlement{Job: jb, Flow: b.flow, Outcome: o, SentAt: b.at})
}

func (b *bench) settleWith(s jobs.Settlement) jobs.Settled {
	b.Helper()
	out, err := b.journal.Settle(context.Background(), "erp", []jobs.Settlement{s})
	if err != nil {
		b.Fatalf("settle: %v", err)
	}
	delete(b.underWay, s.Job.RowID)
	return out[0]
}

// apply claims the one due job and confirms it.
func (b *bench) apply() *jobs.Job {
	b.Helper()
	jb := b.one()
	b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
	return jb
}

func (b *bench) row(key string) *jobs.Row {
	b.Helper()
	d, ok, err := b.journal.Get(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: key})
	if err != nil || !ok {
		b.Fatalf("row %s: found %v, %v", key, ok, err)
	}
	return &d.Row
}

func (b *bench) link(key string) string {
	b.Helper()
	d, _, err := b.journal.Get(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: key})
	if err != nil {
		b.Fatal(err)
	}
	return d.Link
}

func (b *bench) want(key string, st jobs.State, why jobs.Reason) *jobs.Row {
	b.Helper()
	r := b.row(key)
	if r.State != st || r.Reason != why {
		b.Fatalf("row %s is %s (%q), want %s (%q); last %s %s %s", key, r.State, r.Reason, st, why, r.LastClass, r.LastCode, r.LastMessage)
	}
	return r
}

func (b *bench) body(key, content string) {
	b.Helper()
	if got := string(b.row(key).Body); got != `{"v":"`+content+`"}` {
		b.Fatalf("row %s desires %s, want %s", key, got, content)
	}
}

func (b *bench) recover() int {
	b.Helper()
	n, err := b.journal.Recover(context.Background(), jobs.LaneID{Client: "erp"}, b.flows)
	if err != nil {
		b.Fatalf("recover: %v", err)
	}
	return n.Jobs
}

// restart is a daemon that ends without a word and one that starts after it.
func (b *bench) restart() {
	b.underWay = map[jobs.RowID]bool{}
	b.journal = jobs.New(b.engine, jobs.Options{Owner: b.journal.Owner() + "'", Rand: func() float64 { return 0.5 }})
}

var unknown = connectors.Fail(connectors.Unknown, "timeout", "no answer")

func is(b *bench, what string, got, want any) {
	b.Helper()
	if got != want {
		b.Fatalf("%s is %v, want %v", what, got, want)
	}
}
