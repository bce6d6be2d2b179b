package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var doubtRules = []rule{
	{"a write in doubt is not repeated before it has settled", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		r := b.want("A", jobs.Ready, jobs.ReasonUnresolved)
		is(b, "in doubt since", r.UnresolvedAt, b.at)
		b.pass(30*time.Second - time.Microsecond)
		b.none()
		b.pass(time.Microsecond)
		b.one()
	}},
	{"doubt survives newer versions, refusals, death, replay and discarding", func(b *bench) {
		b.flow.OnDelete = "delete"
		doubt := func(step string) {
			b.Helper()
			if !b.row("A").Unresolved() {
				b.Fatalf("after %s the record is no longer in doubt", step)
			}
		}
		id := []jobs.RowID{{Flow: "orders", Key: "A"}}
		ctx := context.Background()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		doubt("a newer version")
		b.none() // it has not settled yet
		b.pass(time.Minute)
		for _, c := range []connectors.Class{connectors.Transient, connectors.Throttled, connectors.Conflict, connectors.Auth, connectors.Invalid} {
			b.settle(b.one(), connectors.Fail(c, "c", "m"))
			doubt(string(c))
			b.pass(time.Hour)
		}
		b.want("A", jobs.Dead, jobs.ReasonFailed)
		if _, err := b.journal.Replay(ctx, id, b.flows); err != nil {
			b.Fatal(err)
		}
		doubt("a replay")
		if _, err := b.journal.Discard(ctx, id, "test"); err != nil {
			b.Fatal(err)
		}
		doubt("discarding")
		b.pass(time.Second)
		gone := b.ev("1", 12)
		gone.Gone = true
		b.admit(gone)
		doubt("a deletion")
		b.settle(b.one(), connectors.Outcome{Class: connectors.Unchanged, Resolved: true})
		if b.row("A").Unresolved() {
			b.Fatal("finding out did not end the doubt")
		}
	}},
	{"while a write is in doubt, content that came back is still written", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"))
		b.pass(time.Minute)
		is(b, "body", string(b.one().Body), `{"v":"x"}`)
	}},
	{"after an attempt that ended between its steps, content that came back is still written", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "step", "the fields were written, and confirming was refused"))
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"))
		is(b, "body", string(b.one().Body), `{"v":"x"}`)
	}},
	{"what one flow left in doubt is in doubt for every flow that writes the record", func(b *bench) {
		first, second := b.flow, *b.flow
		second.Name = "prices"
		b.flows["prices"] = &second
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		at := b.at
		b.pass(time.Second)
		b.flow = &second
		b.admit(b.ev("1", 10, "A", "y"))
		jb := b.one()
		is(b, "flow", jb.Flow, "prices")
		is(b, "in doubt since", jb.UnresolvedAt, at)
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.flow = first
		if !b.row("A").Unresolved() {
			b.Fatal("the first flow's own doubt is gone")
		}
	}},
	{"an older event does not end a doubt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.admit(b.ev("1", 9, "A", "w"), b.ev("1", 10, "A", "x"))
		if !b.row("A").Unresolved() {
			b.Fatal("the doubt is gone")
		}
	}},
	{"a claim that its daemon left behind is lost and in doubt, and counts one attempt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		b.settle(js[0], connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.restart()
		is(b, "lost", b.recover(), 1)
		r := b.want(js[1].Key, jobs.Ready, jobs.ReasonUnresolved)
		is(b, "class", r.LastClass, connectors.Lost)
		is(b, "tries", r.Tries, 1)
		b.want(js[0].Key, jobs.Done, jobs.ReasonNone)
		is(b, "lost again", b.recover(), 0)
		b.pass(time.Minute)
		is(b, "number", b.one().Number, int64(2))
	}},
	{"a job whose daemon ends at each attempt is given up with all that it was", func(b *bench) {
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor = 3, 0
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "y"))
		for n := range 3 {
			for js := b.claim(); len(js) > 0; js = b.claim() { // what may be the cause is claimed alone
				for _, jb := range js {
					is(b, "number", jb.Number, int64(n+1))
					if jb.Key == "B" {
						b.settle(jb, connectors.Fail(connectors.Throttled, "http_429", "later"))
					}
				}
			}
			b.restart()
			is(b, "lost", b.recover(), 1)
			is(b, "tries", b.row("A").Tries, n+1)
			b.pass(time.Hour)
		}
		r := b.want("A", jobs.Dead, jobs.ReasonFailed)
		is(b, "class", r.LastClass, connectors.Lost)
		is(b, "in doubt", r.Unresolved(), true)
		b.body("A", "x")
		is(b, "due", b.one().Key, "B")
	}},
	{"of many claims that were left behind none is passed over", func(b *bench) {
		const n = 120
		live, old := b.flow, *b.flow
		old.Name = "old"
		b.flows["old"] = &old
		var items []jobs.Item
		for i := range n {
			key := fmt.Sprint("K", i)
			items = append(items, b.ev(key, 10, key, "x"))
		}
		b.admit(items...)
		b.flow = &old
		b.admit(b.ev("1", 10, "gone flow's", "x"))
		claimed := 0
		for { // a claim each
			c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: b.flows, InFlight: len(b.underWay),
				Busy: func(id jobs.RowID, _ jobs.EntityKey) bool { return b.underWay[id] }})
			if err != nil {
				b.Fatalf("claim: %v", err)
			}
			if len(c.Jobs) == 0 {
				break
			}
			claimed++
			b.underWay[c.Jobs[0].RowID] = true
		}
		is(b, "claimed", claimed, n+1)
		b.flow = live
		delete(b.flows, "old") // the configuration was changed meanwhile
		b.restart()
		is(b, "lost", b.recover(), n+1)
		o, err := b.journal.Overview(context.Background())
		if err != nil || o.Running["erp"] != 0 {
			b.Fatalf("%d jobs are still claimed, %v", o.Running["erp"], err)
		}
		in, _, err := b.journal.List(context.Background(), jobs.Filter{Unresolved: true, Limit: 1000})
		if err != nil || len(in) != n+1 {
			b.Fatalf("%d rows are in doubt, %v", len(in), err)
		}
	}},
	{"a job that is lost each time ends as a dead letter, still in doubt", func(b *bench) {
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor = 3, 0
		b.admit(b.ev("1", 10, "A", "x"))
		for range 3 {
			b.one()
			b.restart()
			b.recover()
			b.pass(time.Hour)
		}
		r := b.want("A", jobs.Dead, jobs.ReasonFailed)
		is(b, "class", r.LastClass, connectors.Lost)
		if !r.Unresolved() {
			b.Fatal("the doubt is gone")
		}
	}},
	{"a job that was lost twice is claimed alone, one lost once is not", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		for i := range 2 {
			if jb := b.one(); jb.Solo {
				b.Fatalf("alone after being lost %d times", i)
			}
			b.restart()
			b.recover()
			b.pass(time.Minute)
		}
		b.admit(b.ev("2", 10, "B", "x"), b.ev("3", 10, "C", "x"))
		for range 2 {
			js := b.claim()
			for _, jb := range js {
				if jb.Solo && len(js) > 1 {
					b.Fatalf("a lost job was claimed with %d others", len(js)-1)
				}
				b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
			}
		}
		b.none()
	}},
	{"an outcome that comes after its claim was taken back changes nothing", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		zombie := b.journal
		b.restart()
		b.recover()
		before := b.row("A")
		out, err := zombie.Settle(context.Background(), "erp", []jobs.Settlement{{Job: jb, Flow: b.flow, SentAt: b.at,
			Outcome: connectors.Outcome{Class: connectors.Applied, Link: `7`}}})
		if err != nil || !out[0].Fenced {
			b.Fatalf("settled %+v, %v", out, err)
		}
		after := b.row("A")
		is(b, "state", after.State, before.State)
		is(b, "applied", after.AppliedGeneration, int64(0))
	}},
	{"an outcome stored twice counts once and leaves others' claims alone", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		ok := connectors.Outcome{Class: connectors.Applied, Link: `7`}
		b.settle(js[0], ok)
		is(b, "fenced", b.settle(js[0], ok).Fenced, true)
		is(b, "other fenced", b.settle(js[1], ok).Fenced, false)
		b.want(js[1].Key, jobs.Done, jobs.ReasonNone)
	}},
	{"a record that makes the target fail in the same way each time is given up", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		o := connectors.Fail(connectors.Unknown, "http_500", "internal error")
		o.Answered = true
		b.settle(b.one(), o)
		o.Resolved = true // it was looked for and not found, and sent again
		n := 0
		for b.row("A").State == jobs.Ready && n < 10 {
			b.pass(time.Hour)
			b.settle(b.one(), o)
			n++
		}
		is(b, "attempts after the first", n, 2)
		b.want("A", jobs.Dead, jobs.ReasonFailed)
	}},
	{"claims of our own that were never confirmed are taken back without doubt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		n, err := b.journal.RecoverOwn(context.Background(), jobs.LaneID{Client: "erp"}, b.flows)
		if err != nil || n != 1 {
			b.Fatalf("took back %d, %v", n, err)
		}
		if b.row("A").Unresolved() {
			b.Fatal("a job of which nothing was sent is in doubt")
		}
		b.underWay = map[jobs.RowID]bool{}
		b.pass(time.Minute)
		b.one()
	}},
	{"attempt numbers only grow, over restarts and replays", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		var last int64
		for i := range 6 {
			jb := b.one()
			if jb.Number <= last {
				b.Fatalf("attempt %d after %d", jb.Number, last)
			}
			last = jb.Number
			if i%2 == 0 {
				b.restart()
				b.recover()
			} else {
				b.settle(jb, connectors.Fail(connectors.Invalid, "c", "m"))
				if _, err := b.journal.Replay(context.Background(), []jobs.RowID{jb.RowID}, b.flows); err != nil {
					b.Fatal(err)
				}
			}
			b.pass(time.Hour)
		}
	}},
}
