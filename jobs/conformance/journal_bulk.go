package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// refuse makes n records whose writes the target refuses, each in a way of its own, with
// keys from format.
func (b *bench) refuse(n int, format string) {
	b.Helper()
	var items []jobs.Item
	for i := range n {
		key := fmt.Sprintf(format, i)
		items = append(items, b.ev(key, 10, key, "one"))
	}
	b.admit(items...)
	for range n {
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Fail(connectors.Invalid, "c"+jb.Key, "m"))
		}
	}
}

// bulkRules are what a command over many rows does.
var bulkRules = []rule{
	{"a command over many rows takes them in steps, by key, and goes on where it was", func(b *bench) {
		ctx := context.Background()
		const n = 1201
		b.refuse(n, "K-%04d")
		b.refuse(3, "L-%d")
		s := jobs.Selection{Flow: "orders", State: jobs.Dead, KeyPrefix: "K-"}
		cs, err := b.journal.Choose(ctx, s)
		if err != nil || len(cs) != 1 || cs[0].N != n || cs[0].Flow != "orders" || cs[0].Class != "invalid" || cs[0].Reason != jobs.ReasonFailed {
			b.Fatalf("chosen %+v, %v", cs, err)
		}
		var after jobs.RowID
		var steps []int
		for over := false; !over && len(steps) < 20; {
			st, err := b.journal.ReplayStep(ctx, s, after, b.flows)
			if err != nil {
				b.Fatal(err)
			}
			after, over = st.After, st.Over
			steps = append(steps, st.Done)
		}
		is(b, "steps", fmt.Sprint(steps), "[500 500 201]")
		is(b, "the last one", after.Key, "K-1200")
		b.want("K-0000", jobs.Ready, jobs.ReasonNone)
		b.want("L-0", jobs.Dead, jobs.ReasonFailed)
	}},
	{"a key that is the beginning itself is chosen too, once", func(b *bench) {
		ctx := context.Background()
		b.refuse(2, "A%d")
		b.admit(b.ev("A", 10, "A", "x"), b.ev("B", 10, "B", "x"), b.ev("@", 10, "\x01", "x"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Fail(connectors.Invalid, "c", "m"))
		}
		s := jobs.Selection{Flow: "orders", State: jobs.Dead, KeyPrefix: "A"}
		cs, err := b.journal.Choose(ctx, s)
		if err != nil || len(cs) != 1 || cs[0].N != 3 {
			b.Fatalf("chosen %+v, %v", cs, err)
		}
		st, err := b.journal.DiscardStep(ctx, s, jobs.RowID{}, "no longer wanted")
		if err != nil || st.Done != 3 || !st.Over {
			b.Fatalf("%+v, %v", st, err)
		}
		b.want("A", jobs.Done, jobs.ReasonDiscarded)
		b.want("B", jobs.Dead, jobs.ReasonFailed)
		d, _, err := b.journal.Get(ctx, jobs.RowID{Flow: "orders", Key: "A1"})
		if err != nil || len(d.Attempts) == 0 || d.Attempts[0].Message != "discarded: no longer wanted" {
			b.Fatalf("history %+v, %v", d.Attempts, err)
		}
	}},
	{"what is chosen by the time of its last outcome is no older and no younger", func(b *bench) {
		ctx := context.Background()
		for _, key := range []string{"A", "B", "C"} {
			b.admit(b.ev(key, 10, key, "x"))
			b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
			b.pass(time.Hour)
		}
		s := jobs.Selection{State: jobs.Dead, Since: b.row("B").LastAt, Before: b.row("C").LastAt}
		st, err := b.journal.ReplayStep(ctx, s, jobs.RowID{}, b.flows)
		if err != nil || st.Done != 1 || !st.Over {
			b.Fatalf("%+v, %v", st, err)
		}
		b.want("A", jobs.Dead, jobs.ReasonFailed)
		b.want("B", jobs.Ready, jobs.ReasonNone)
		b.want("C", jobs.Dead, jobs.ReasonFailed)
	}},
	{"rows being written are not given up, whatever chooses them", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "one"))
		js := b.claim()
		is(b, "claimed", len(js), 2)
		b.settle(js[0], connectors.Fail(connectors.Transient, "c", "m"))
		st, err := b.journal.DiscardStep(context.Background(), jobs.Selection{Flow: "orders", State: jobs.Ready}, jobs.RowID{}, "r")
		if err != nil || st.Done != 1 || len(st.Skipped) != 1 || st.Skipped[0].Key != js[1].Key {
			b.Fatalf("%+v, %v", st, err)
		}
	}},
	{"a row to be mapped again is asked of its source, and written whatever it was", func(b *bench) {
		ctx := context.Background()
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		id := []jobs.RowID{{Flow: "orders", Key: "A"}}
		a, err := b.journal.Remap(ctx, id, b.flows)
		if err != nil || a.Asked != 0 || len(a.Skipped) != 1 || a.Skipped[0].Why != jobs.NoRemap(b.flow) {
			b.Fatalf("a source that cannot be asked: %+v, %v", a, err)
		}
		b.flow.CanRefresh = true
		a, err = b.journal.Remap(ctx, id, b.flows)
		if err != nil || a.Asked != 1 || len(a.Skipped) != 0 {
			b.Fatalf("%+v, %v", a, err)
		}
		rs, err := b.journal.Requests(ctx, "shop", 10)
		if err != nil || len(rs) != 1 || rs[0].Kind != jobs.Remap || rs[0].SourceID != "1" || rs[0].Key != "A" {
			b.Fatalf("%+v, %v", rs, err)
		}
		b.want("A", jobs.Done, jobs.ReasonNone)
	}},
}
