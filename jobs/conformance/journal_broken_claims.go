package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// hostileRules are sequences that lost something, doubled something or held
// others back.
var hostileRules = []rule{
	{"a claim of our own that an ended run left behind is in doubt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		b.underWay = map[jobs.RowID]bool{}
		is(b, "lost", b.recover(), 1)
		is(b, "in doubt", b.row("A").Unresolved(), true)
		b.none()
	}},
	{"a job named twice in one settlement takes no other off its claim", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		s := jobs.Settlement{Job: js[0], Flow: b.flow, Outcome: applied, SentAt: b.at}
		out, err := b.journal.Settle(context.Background(), "erp", []jobs.Settlement{s, s})
		if err != nil || out[0].Fenced || !out[1].Fenced {
			b.Fatalf("settled %+v, %v", out, err)
		}
		is(b, "other fenced", b.settle(js[1], unknown).Fenced, false)
		is(b, "in doubt", b.row(js[1].Key).Unresolved(), true)
	}},
	{"the backlog of a flow that is no longer configured holds nobody back", func(b *bench) {
		old := *b.flow
		old.Name = "old"
		live := b.flow
		b.flow = &old
		var items []jobs.Item
		for i := range 300 {
			items = append(items, b.ev(fmt.Sprint(i), 1, fmt.Sprint("K", i), "x"))
		}
		b.admit(items...)
		b.pass(time.Second)
		b.flow = live
		b.admit(b.ev("1", 1, "A", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 2, Flows: b.flows})
		if err != nil || len(c.Jobs) != 1 {
			b.Fatalf("claimed %d, %v", len(c.Jobs), err)
		}
	}},
	{"jobs past max_age hold nobody back", func(b *bench) {
		b.flow.MaxAge = time.Hour
		var items []jobs.Item
		for i := range 300 {
			items = append(items, b.ev(fmt.Sprint(i), 1, fmt.Sprint("K", i), "x"))
		}
		b.admit(items...)
		b.pass(2 * time.Hour)
		b.admit(b.ev("new", 1, "A", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 2, Flows: b.flows})
		if err != nil || len(c.Jobs) != 1 || c.Expired > 20 || !c.ExpiryHeld.Is() {
			b.Fatalf("claimed %d, expired %d, held %+v, %v", len(c.Jobs), c.Expired, c.ExpiryHeld, err)
		}
	}},
	{"rows of records that are under way hold nobody back", func(b *bench) {
		for _, name := range []string{"two", "three", "four"} {
			f := *b.flow
			f.Name = name
			b.flows[name] = &f
		}
		for _, name := range []string{"orders", "two", "three", "four"} {
			b.flow = b.flows[name]
			b.admit(b.ev("1", 1, "A", name), b.ev("2", 1, "B", name))
		}
		b.flow = b.flows["orders"]
		busy := map[string]bool{"A": true, "B": true}
		b.pass(time.Second)
		b.admit(b.ev("3", 1, "C", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: b.flows, InFlight: 2,
			Busy: func(_ jobs.RowID, k jobs.EntityKey) bool { return busy[k.Key] }})
		if err != nil || len(c.Jobs) != 1 || c.Jobs[0].Key != "C" {
			b.Fatalf("claimed %d, %v", len(c.Jobs), err)
		}
	}},
	{"a new entry of a log is young, whenever its record was first read", func(b *bench) {
		b.flow.MaxAge = time.Hour
		log := func(version int64, content string) jobs.Item {
			it := b.ev("1", version, "A", content)
			it.Log = true
			return it
		}
		b.admit(log(10, "x"))
		b.apply()
		b.pass(2 * time.Hour)
		b.admit(log(11, "y"))
		is(b, "body", string(b.one().Body), `{"v":"y"}`)
	}},
	{"an old entry of a log that is read again is not young", func(b *bench) {
		b.flow.MaxAge = time.Hour
		log := func() jobs.Item {
			it := b.ev("1", 10, "A", "x")
			it.Log = true
			return it
		}
		b.admit(log())
		b.pass(2 * time.Hour)
		b.admit(log())
		b.none()
		b.want("A", jobs.Dead, jobs.ReasonExpired)
	}},
	{"a record whose id cannot be stored is a dead letter and holds nobody back", func(b *bench) {
		long := b.ev(strings.Repeat("i", jobs.MaxID+1), 1, "L", "x")
		long.Raw = json.RawMessage(`{"id":"long"}`)
		a := b.admit(b.ev("1", 1, "A", "x"), long, b.ev("2", 1, "B", "x"))
		is(b, "rejected", a.Rejected, 1)
		is(b, "due", len(b.claim()), 2)
	}},
	{"a replay that nobody could answer is refused", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		id := []jobs.RowID{{Flow: "orders", Key: "B"}}
		for can, asked := range map[bool]int{false: 0, true: 1} {
			b.flow.CanRefresh = can
			a, err := b.journal.Replay(context.Background(), id, b.flows)
			if err != nil || a.Asked != asked || len(a.Skipped) != 1-asked {
				b.Fatalf("asked %d, skipped %+v, %v", a.Asked, a.Skipped, err)
			}
		}
	}},
	{"a record that was created and not brought to its state is removed when it is gone", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Invalid, Code: "step", Message: "not confirmed", Link: `7`})
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		is(b, "removal", jb.Write(b.flow).Removal, connectors.Delete)
		is(b, "link", jb.Link, `7`)
	}},
	{"a record that another flow wrote is not removed because it is gone from a flow that never did", func(b *bench) {
		second := *b.flow
		second.Name, second.OnDelete = "prices", "delete"
		b.flows["prices"] = &second
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.flow = &second
		b.admit(b.ev("1", 10, "A", "y"))
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		b.none()
	}},
	{"a record that is gone and left alone stays in doubt until somebody finds out", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		b.pass(time.Hour)
		b.none()
		b.want("A", jobs.Done, jobs.ReasonIgnored)
		b.admit(b.ev("1", 11, "A", "x"))
		is(b, "in doubt", b.one().Unresolved(), true)
	}},
	{"a deletion that is claimed and left alone finds nothing out", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Minute)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		b.flow.OnDelete = "ignore" // the configuration was changed
		b.settle(jb, connectors.Outcome{Class: connectors.Unchanged, Code: "ignored"})
		is(b, "in doubt", b.row("A").Unresolved(), true)
	}},
	{"a record found gone does not come back by an earlier reading, whatever its version", func(b *bench) {
		b.admit(b.ev("1", 8, "A", "x"))
		b.apply()
		b.pass(time.Second)
		page := b.ev("1", 9, "A", "y") // read, and admitted late
		b.pass(time.Second)
		gone := b.ev("1", 0) // meanwhile the record was asked for by its id
		gone.Gone = true
		b.admit(gone)
		is(b, "older", b.admit(page).Older, 1)
		is(b, "gone", b.row("A").Gone, true)
	}},
	{"no server can put a job off for years", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		for _, c := range []connectors.Class{connectors.Throttled, connectors.Transient, connectors.Unknown, connectors.Waiting} {
			o := connectors.Fail(c, "c", "m")
			o.RetryAfter = 10 * 365 * 24 * time.Hour
			b.settle(b.one(), o)
			b.pass(jobs.MaxWait)
		}
		b.one()
	}},
	{"a job is not tried before the time that its client lets a server ask for", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		for _, c := range []connectors.Class{connectors.Throttled, connectors.Transient, connectors.Unknown, connectors.Waiting} {
			o := connectors.Fail(c, "c", "m")
			o.RetryAfter = 29 * 24 * time.Hour // max_pause goes to 30 days
			b.settle(b.one(), o)
			b.pass(o.RetryAfter - time.Second)
			b.none()
			b.pass(time.Second)
		}
		b.one()
	}},
	{"a record that stands without an optional reference does not wait for it beyond max_age", func(b *bench) {
		for _, can := range []bool{false, true} {
			b.flow.MaxAge, b.flow.CanRefresh = time.Hour, can
			key := fmt.Sprint("A", can)
			b.admit(b.ev(key, 10, key, "x"))
			b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, SentAt: b.at, Outcome: applied,
				Reopen: jobs.EntityKey{Entity: "party", Key: "P"}})
			b.want(key, jobs.Ready, jobs.ReasonWaiting)
			b.pass(2 * time.Hour)
			b.none()
			b.want(key, jobs.Done, jobs.ReasonNone)
		}
	}},
	{"coming too early uses up no attempt, however often", func(b *bench) {
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor = 2, 0
		b.admit(b.ev("1", 10, "A", "x"))
		for range 10 {
			for _, code := range []string{jobs.CodeSettling, jobs.CodeAbsentOnce, jobs.CodeCreatedInDoubt} {
				b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, SentAt: b.at, Served: b.at,
					Outcome: connectors.Fail(connectors.Transient, code, "m")})
				b.pass(time.Hour)
			}
		}
		is(b, "tries", b.row("A").Tries, 0)
		b.one()
	}},
	{"a create after a create in doubt is itself in doubt until one more look", func(b *bench) {
		b.flow.SettleTime = time.Minute
		b.admit(b.ev("1", 10, "A", "x"))
		b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, SentAt: b.at, Served: b.at, Outcome: unknown})
		b.pass(2 * time.Hour)
		o := connectors.Fail(connectors.Transient, jobs.CodeCreatedInDoubt, "m")
		o.Link, o.RetryAfter = "7", time.Second
		b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, SentAt: b.at, Served: b.at, Outcome: o})
		b.want("A", jobs.Ready, jobs.ReasonUnresolved)
		is(b, "in doubt since", b.row("A").UnresolvedAt, b.at)
		b.admit(b.ev("1", 11, "A", "y")) // does not hurry it
		b.pass(59 * time.Second)
		b.none()
		b.pass(time.Second)
		is(b, "link", b.one().Link, "7")
	}},
	{"waits grow with each failure, and begin anew after a success", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		wait := func() time.Duration {
			b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, SentAt: b.at, Served: b.at,
				Outcome: connectors.Fail(connectors.Transient, "connect", "refused")})
			d := b.row("A").DueAt.Sub(b.at)
			b.pass(d)
			return d
		}
		for i := range 5 {
			is(b, "wait", wait(), time.Second<<i)
		}
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		is(b, "wait after a success", wait(), time.Second)
	}},
	{"a settlement under another daemon's name changes nothing", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		other := jobs.New(b.engine, jobs.Options{Owner: "another"})
		out, err := other.Settle(context.Background(), "erp", []jobs.Settlement{{Job: jb, Flow: b.flow, Outcome: applied, SentAt: b.at}})
		if err != nil || !out[0].Fenced {
			b.Fatalf("settled %+v, %v", out, err)
		}
		is(b, "attempt", b.row("A").Attempt, int64(0))
		is(b, "fenced", b.settle(jb, applied).Fenced, false)
	}},
}
