package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var ageRules = []rule{
	{"a job past max_age is never sent: it is superseded by the source's present state", func(b *bench) {
		ctx := context.Background()
		b.flow.MaxAge, b.flow.CanRefresh = time.Hour, true
		b.admit(b.ev("1", 10, "A", "old"))
		b.pass(61 * time.Minute)
		b.none()
		b.want("A", jobs.Ready, jobs.ReasonRefresh)
		rs, err := b.journal.Requests(ctx, "shop", 10)
		if err != nil || len(rs) != 1 || rs[0].SourceID != "1" || rs[0].Kind != jobs.Refresh {
			b.Fatalf("requests %+v, %v", rs, err)
		}
		b.none()
		it := b.ev("1", 10, "A", "old")
		it.Refresh = true
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Items: []jobs.Item{it}, Requests: []int64{rs[0].ID}}); err != nil {
			b.Fatal(err)
		}
		jb := b.one()
		is(b, "generation", jb.Generation, int64(2))
		if rs, _ = b.journal.Requests(ctx, "shop", 10); len(rs) != 0 {
			b.Fatal("the answered request is still there")
		}
	}},
	{"reading a record again as current makes it young", func(b *bench) {
		b.flow.MaxAge = time.Hour
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(50 * time.Minute)
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(50 * time.Minute)
		b.one()
	}},
	{"a job whose record is read again while its source is asked for it waits for no answer", func(b *bench) {
		b.flow.MaxAge, b.flow.CanRefresh = time.Hour, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		b.none()
		b.want("A", jobs.Ready, jobs.ReasonRefresh)
		answer := b.ev("1", 10, "A", "x")
		b.pass(time.Second)
		b.admit(b.ev("1", 10, "A", "x"))
		b.answer(answer) // read before that
		b.want("A", jobs.Ready, jobs.ReasonNone)
		b.settle(b.one(), applied)
		b.none()
	}},
	{"a job past max_age whose source cannot be asked is a dead letter, and heals when read again", func(b *bench) {
		b.flow.MaxAge = time.Hour
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		b.none()
		b.want("A", jobs.Dead, jobs.ReasonExpired)
		b.pass(time.Second)
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
	}},
	{"on_expire drop ends it quietly, and it is counted", func(b *bench) {
		b.flow.MaxAge, b.flow.OnExpire = time.Hour, "drop"
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 10, Flows: b.flows})
		if err != nil || c.Expired != 1 {
			b.Fatalf("expired %d, %v", c.Expired, err)
		}
		b.want("A", jobs.Done, jobs.ReasonExpired)
	}},
	{"a record that is gone when it is asked for again expires if it was never written", func(b *bench) {
		b.flow.MaxAge, b.flow.CanRefresh = time.Hour, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		b.none()
		gone := b.ev("1", 0)
		gone.Gone, gone.Refresh = true, true
		b.admit(gone)
		r := b.want("A", jobs.Dead, jobs.ReasonExpired)
		is(b, "code", r.LastCode, "gone")
	}},
	{"an expired job that is in doubt stays in doubt", func(b *bench) {
		b.flow.MaxAge = time.Hour
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(2 * time.Hour)
		b.none()
		if r := b.want("A", jobs.Dead, jobs.ReasonExpired); !r.Unresolved() {
			b.Fatal("the doubt is gone")
		}
	}},
	{"a job without max_age waits as long as it must", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		for _, jb := range b.claim() {
			if jb.Key == "B" { // never tried again in all that time
				b.settle(jb, connectors.Fail(connectors.Paused, "paused", "an operator's"))
			} else {
				b.settle(jb, connectors.Fail(connectors.Transient, "connect", "refused"))
			}
		}
		b.pass(3 * 365 * 24 * time.Hour)
		js := b.claim()
		is(b, "due after three years", len(js), 2)
		for _, jb := range js {
			is(b, "body of "+jb.Key, string(jb.Body), `{"v":"x"}`)
		}
	}},
	{"the age of a deletion does not matter", func(b *bench) {
		b.flow.MaxAge, b.flow.OnDelete = time.Hour, "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		b.pass(3 * time.Hour)
		is(b, "gone", b.one().Gone, true)
	}},
}

var operatorRules = []rule{
	{"a replay gives a dead job all its attempts again", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		a, err := b.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}, {Flow: "orders", Key: "nope"}}, b.flows)
		if err != nil || a.Done != 1 || len(a.Skipped) != 1 {
			b.Fatalf("replayed %+v, %v", a, err)
		}
		is(b, "tries", b.one().Tries, 0)
	}},
	{"a replayed job is written as it was, after a restart too", func(b *bench) {
		it := b.ev("1", 10)
		it.Pairs = []jobs.Pair{{Key: "A", Body: json.RawMessage(`{"id":9007199254740993,"total":"10.00","n":1.10,"note":"é"}`)}}
		b.admit(it)
		first := b.one()
		b.settle(first, connectors.Fail(connectors.Invalid, "c", "m"))
		b.restart()
		b.pass(time.Hour)
		if _, err := b.journal.Replay(context.Background(), []jobs.RowID{first.RowID}, b.flows); err != nil {
			b.Fatal(err)
		}
		again := b.one()
		is(b, "body", string(again.Body), string(first.Body))
		is(b, "body of the first attempt", string(first.Body), string(it.Pairs[0].Body))
		is(b, "version", again.Desired.Version, int64(10))
	}},
	{"a replay writes a done job once more, as it is wanted", func(b *bench) {
		id := []jobs.RowID{{Flow: "orders", Key: "A"}}
		replay := func(done, asked int) {
			if a, err := b.journal.Replay(context.Background(), id, b.flows); err != nil || a.Done != done || a.Asked != asked || len(a.Skipped) != 1-done-asked {
				b.Fatalf("replayed %+v, %v", a, err)
			}
		}
		b.admit(b.ev("1", 10, "A", "x"))
		first := b.apply()
		replay(1, 0)
		again := b.one()
		is(b, "body", string(again.Body), string(first.Body))
		is(b, "link", again.Link, `7`)
		b.settle(again, connectors.Fail(connectors.Transient, "connect", "refused"))
		b.pass(time.Hour)
		b.admit(b.ev("1", 11, "A", "x")) // the same content: it is still to be written
		b.settle(b.one(), applied)
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.none()
		b.flow.MaxAge = time.Hour
		b.pass(2 * time.Hour)
		replay(0, 0) // too old to be sent, and the source cannot be asked
		b.flow.CanRefresh = true
		replay(0, 1)
		b.admit(b.ev("1", 0)) // the source no longer has it
		b.pass(time.Second)
		replay(0, 0)
	}},
	{"a replay takes all that are named and no other", func(b *bench) {
		const n = 250
		var items []jobs.Item
		var ids []jobs.RowID
		for i := range n {
			key := fmt.Sprint("K", i)
			items, ids = append(items, b.ev(key, 10, key, "x")), append(ids, jobs.RowID{Flow: "orders", Key: key})
		}
		b.admit(items...)
		for js := b.claim(); len(js) > 0; js = b.claim() {
			for _, jb := range js {
				b.settle(jb, connectors.Fail(connectors.Invalid, "c"+jb.Key, "m")) // each in a way of its own
			}
		}
		b.admit(b.ev("late", 10, "late", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		a, err := b.journal.Replay(context.Background(), ids, b.flows)
		if err != nil || a.Done != n {
			b.Fatalf("replayed %+v, %v", a, err)
		}
		due := 0
		for js := b.claim(); len(js) > 0; js = b.claim() {
			due += len(js)
		}
		is(b, "due", due, n)
		b.want("late", jobs.Dead, jobs.ReasonFailed)
	}},
	{"a replay of a job past max_age reads the source again", func(b *bench) {
		ctx := context.Background()
		b.flow.MaxAge, b.flow.CanRefresh = time.Hour, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		b.pass(2 * time.Hour)
		a, err := b.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "A"}}, b.flows)
		if err != nil || a.Asked != 1 {
			b.Fatalf("replayed %+v, %v", a, err)
		}
		b.none()
		if rs, _ := b.journal.Requests(ctx, "shop", 10); len(rs) != 1 {
			b.Fatalf("%d requests", len(rs))
		}
	}},
	{"a replay of a dead letter of mapping has it mapped again", func(b *bench) {
		ctx := context.Background()
		bad := b.ev("2", 10)
		bad.Problem, bad.Raw = "price is missing", json.RawMessage(`{"id":2}`)
		b.admit(bad)
		a, err := b.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "@2"}}, b.flows)
		if err != nil || a.Asked != 1 {
			b.Fatalf("replayed %+v, %v", a, err)
		}
		rs, _ := b.journal.Requests(ctx, "shop", 10)
		if len(rs) != 1 || rs[0].Kind != jobs.Remap || rs[0].Key != "@2" {
			b.Fatalf("requests %+v", rs)
		}
		it := b.ev("2", 10, "B", "x")
		it.Refresh = true
		b.admit(it)
		b.want("@2", jobs.Done, jobs.ReasonSuperseded)
		is(b, "key", b.one().Key, "B")
	}},
	{"a discarded job is done until a newer version comes", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		a, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, "not needed")
		if err != nil || a.Done != 1 {
			b.Fatalf("discarded %+v, %v", a, err)
		}
		b.admit(b.ev("1", 10, "A", "x"))
		b.want("A", jobs.Done, jobs.ReasonDiscarded)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.one()
	}},
	{"a job under way cannot be discarded", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		a, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, "no")
		if err != nil || a.Done != 0 || len(a.Skipped) != 1 {
			b.Fatalf("discarded %+v, %v", a, err)
		}
	}},
	{"listings and counts agree and miss nothing", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"), b.ev("3", 10, "C", "x"))
		js := b.claim()
		b.settle(js[0], connectors.Fail(connectors.Invalid, "c", "m"))
		b.settle(js[1], connectors.Outcome{Class: connectors.Applied, Link: `7`})
		o, err := b.journal.Overview(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		n := int64(0)
		for _, c := range o.Counts {
			n += c.N
		}
		is(b, "counted", n, int64(3))
		is(b, "running", o.Running["erp"], 1)
		rows, running, err := b.journal.List(context.Background(), jobs.Filter{Flow: "orders"})
		if err != nil || len(rows) != 3 || !running[js[2].RowID] || len(running) != 1 {
			b.Fatalf("listed %d rows, running %v, %v", len(rows), running, err)
		}
	}},
}
