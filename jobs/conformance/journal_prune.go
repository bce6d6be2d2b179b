package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// prune removes what is kept no longer.
func (b *bench) prune(keep jobs.Retention) (sum jobs.Pruned) {
	b.Helper()
	pass := b.journal.Prune(jobs.LaneID{Client: "erp"}, keep, b.flows)
	for range 100 {
		n, over, err := pass.Step(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		sum.Add(n)
		if over {
			return sum
		}
	}
	b.Fatal("it does not end")
	return sum
}

// forget removes the content of everything that is done.
func (b *bench) forget() {
	b.Helper()
	b.pass(time.Hour)
	b.prune(jobs.Retention{Bodies: time.Minute})
}

const dayLong = 24 * time.Hour

// pruneRules are what stays when the journal forgets.
var pruneRules = []rule{
	{"content and history go when their time is over, and not before", func(b *bench) {
		keep := jobs.Retention{Attempts: 2 * dayLong, Bodies: dayLong}
		b.admit(b.ev("1", 10, "A", "one"))
		b.settle(b.one(), connectors.Fail(connectors.Transient, "c", "m"))
		b.pass(time.Minute)
		b.apply()
		b.pass(dayLong)
		is(b, "removed after a day", b.prune(keep), jobs.Pruned{})
		b.pass(time.Second)
		is(b, "removed after more than a day", b.prune(keep), jobs.Pruned{Bodies: 1})
		row := b.row("A")
		is(b, "body", len(row.Body), 0)
		b.pass(dayLong)
		is(b, "removed after two days", b.prune(keep), jobs.Pruned{Attempts: 2})
		row.Body = nil
		is(b, "link", b.link("A"), `7`)
		is(b, "unchanged", b.admit(b.ev("1", 10, "A", "one")).Unchanged+0, 1)
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", 9, "A", "zero")).Older, 1)
		b.none()
		b.admit(b.ev("1", 11, "A", "two"))
		is(b, "content", string(b.one().Body), `{"v":"two"}`)
	}},
	{"what is open, dead, held or in doubt keeps its content", func(b *bench) {
		b.admit(b.ev("1", 10, "READY", "x"), b.ev("2", 10, "DEAD", "x"), b.ev("3", 10, "DOUBT", "x"))
		for _, jb := range b.claim() {
			switch jb.Key {
			case "READY":
				b.settle(jb, connectors.Fail(connectors.Transient, "c", "m"))
			case "DEAD":
				b.settle(jb, connectors.Fail(connectors.Invalid, "c", "m"))
			default:
				b.settle(jb, unknown)
			}
		}
		b.discard("DOUBT")
		is(b, "unresolved", b.row("DOUBT").Unresolved(), true)
		b.pass(1000 * dayLong)
		is(b, "removed", b.prune(jobs.Retention{Bodies: dayLong}), jobs.Pruned{})
		for _, k := range []string{"READY", "DEAD", "DOUBT"} {
			b.body(k, "x")
		}
	}},
	{"a dead letter that nobody sees to is given up, if the configuration says so, and one in doubt is not", func(b *bench) {
		b.refuse(2, "K%d")
		b.admit(b.ev("9", 10, "DOUBT", "x"))
		b.settle(b.one(), unknown)
		row := b.row("DOUBT")
		row.State, row.Reason = jobs.Dead, jobs.ReasonFailed
		if err := b.engine.Update(context.Background(), func(tx jobs.Tx) error {
			return tx.PatchRows(context.Background(), []jobs.Row{*row})
		}); err != nil {
			b.Fatal(err)
		}
		b.pass(dayLong)
		is(b, "removed", b.prune(jobs.Retention{Dead: dayLong}), jobs.Pruned{})
		b.pass(dayLong)
		is(b, "kept for good", b.prune(jobs.Retention{}), jobs.Pruned{})
		is(b, "removed", b.prune(jobs.Retention{Dead: dayLong}), jobs.Pruned{Dead: 2})
		b.want("K0", jobs.Done, jobs.ReasonDiscarded)
		is(b, "body", len(b.row("K0").Body), 0)
		b.want("DOUBT", jobs.Dead, jobs.ReasonFailed)
		if why := b.why("K0").Text; !strings.Contains(why, "retention.dead") || strings.Contains(why, "person") {
			b.Fatalf("it is explained so: %s", why)
		}
		d, _, err := b.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: "K0"})
		if err != nil || d.Attempts[0].Code != "discarded" {
			b.Fatalf("history %+v, %v", d.Attempts, err)
		}
	}},
	{"what a write in doubt was is known however long ago that is, so that a person's word ends it", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(1000 * dayLong)
		b.prune(jobs.Retention{Attempts: dayLong})
		b.taken("A", applied7)
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.once()
		b.admit(b.ev("2", 10, "B", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "B", "y"))
		b.pass(1000 * dayLong)
		b.prune(jobs.Retention{Attempts: dayLong})
		b.taken("B", applied7)
		jb := b.one()
		is(b, "key", jb.Key, "B")
		is(b, "link", jb.Link, `7`)
		b.settle(jb, applied)
		b.pass(dayLong)
		is(b, "removed once nothing is in doubt", b.prune(jobs.Retention{Attempts: time.Hour}), jobs.Pruned{Attempts: 2})
	}},
	{"it is known too where what tells of it is behind many looks, and where it is gone", func(b *bench) {
		ctx := context.Background()
		b.once()
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		for range 2 {
			b.settle(b.one(), unknown)
		}
		b.pass(time.Hour)
		err := b.engine.Update(ctx, func(tx jobs.Tx) error {
			looks := make([]jobs.Attempt, 1500)
			for i := range looks {
				looks[i] = jobs.Attempt{RowID: b.row("A").RowID, Number: int64(i + 2), At: b.at, Class: connectors.Transient}
			}
			if err := tx.AddAttempts(ctx, looks); err != nil {
				return err
			}
			return tx.DeleteAttempts(ctx, []jobs.RowID{b.row("B").RowID})
		})
		if err != nil {
			b.Fatal(err)
		}
		for _, k := range []string{"A", "B"} {
			b.taken(k, applied7)
			b.want(k, jobs.Done, jobs.ReasonNone)
		}
		b.none()
	}},
	{"what a person says of a record while it is redelivered stands, however long that takes", func(b *bench) {
		b.keyed()
		since := b.at
		b.admit(b.ev("1", 10, "SAID", "one"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `1`})
		b.pass(time.Hour)
		id := b.begin(jobs.NewRedelivery(b.flow, since, 1))
		b.step(id)
		b.pass(time.Hour)
		b.taken("SAID", applied7)
		b.pass(10 * dayLong)
		b.prune(jobs.Retention{Attempts: dayLong})
		for b.step(id).Run.Open() {
		}
		is(b, "link of SAID", b.link("SAID"), `7`)
	}},
	{"a record that may stand under either of two keys is given no third one, however long ago that was tried", func(b *bench) {
		b.flow.OnRename, b.flow.CanRefresh = "rename", true
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied})
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Transient, "http_500", "it may be done half"))
		b.want("B", jobs.Ready, jobs.ReasonRetry)
		b.pass(10 * dayLong)
		b.prune(jobs.Retention{Attempts: dayLong})
		b.admit(b.ev("1", 12, "C", "x"))
		b.want("C", jobs.Dead, jobs.ReasonRenamed)
	}},
	{"a dead letter that holds its group back is given up by a person alone", func(b *bench) {
		b.every("hold")
		b.admit(b.event("G", "Z-1", 1, "one"), b.event("G", "Z-2", 2, "two"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		b.pass(2 * dayLong)
		is(b, "removed", b.prune(jobs.Retention{Dead: dayLong}), jobs.Pruned{})
		b.want("Z-1", jobs.Dead, jobs.ReasonFailed)
		b.none()
		flow := b.flow
		b.flows = map[string]*jobs.Flow{} // nobody knows what its flow would say
		is(b, "removed without its flow", b.prune(jobs.Retention{Dead: dayLong}), jobs.Pruned{})
		b.flows = map[string]*jobs.Flow{flow.Name: flow}
		flow.OnDead = "skip"
		is(b, "removed where it holds nothing back", b.prune(jobs.Retention{Dead: dayLong}), jobs.Pruned{Dead: 1})
	}},
	{"errands that have ended go, and those that go on stay", func(b *bench) {
		ctx := context.Background()
		old := b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop"})
		if _, _, err := b.journal.StopRun(ctx, old, "stopped"); err != nil {
			b.Fatal(err)
		}
		open := b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop"})
		b.pass(2 * dayLong)
		is(b, "removed", b.prune(jobs.Retention{Errands: dayLong}), jobs.Pruned{Errands: 1})
		rs, err := b.journal.Runs(ctx, false, 10)
		if err != nil || len(rs) != 1 || rs[0].ID != open {
			b.Fatalf("%+v, %v", rs, err)
		}
	}},
	{"it goes in steps through all there is", func(b *bench) {
		const n = 1203
		b.refuse(n, "K%04d")
		b.pass(2 * dayLong)
		pass := b.journal.Prune(jobs.LaneID{Client: "erp"}, jobs.Retention{Dead: dayLong}, b.flows)
		var steps []int
		for over := false; !over && len(steps) < 20; {
			st, last, err := pass.Step(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			steps = append(steps, st.Dead)
			over = last
		}
		is(b, "steps", fmt.Sprint(steps), "[500 500 203]")
	}},
	{"a record that is done and whose content is not kept is replayed by reading it again", func(b *bench) {
		ctx := context.Background()
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.forget()
		id := []jobs.RowID{{Flow: "orders", Key: "A"}}
		a, err := b.journal.Replay(ctx, id, b.flows)
		if err != nil || a.Done+a.Asked != 0 || len(a.Skipped) != 1 {
			b.Fatalf("%+v, %v", a, err)
		}
		b.flow.CanRefresh = true
		a, err = b.journal.Replay(ctx, id, b.flows)
		if err != nil || a.Asked != 1 || a.Done != 0 {
			b.Fatalf("%+v, %v", a, err)
		}
		b.want("A", jobs.Ready, jobs.ReasonRefresh)
		b.none()
		rs, err := b.journal.Requests(ctx, "shop", 10)
		if err != nil || len(rs) != 1 {
			b.Fatalf("%+v, %v", rs, err)
		}
		it := b.ev("1", 10, "A", "one")
		it.Refresh = true
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Items: []jobs.Item{it}, Requests: []int64{rs[0].ID}}); err != nil {
			b.Fatal(err)
		}
		is(b, "content", string(b.one().Body), `{"v":"one"}`)
	}},
	{"nothing is ever sent of a row that has no content", func(b *bench) {
		ctx := context.Background()
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.forget()
		open := func() {
			row := b.row("A")
			row.State, row.Reason, row.DueAt = jobs.Ready, jobs.ReasonNone, b.at
			if err := b.engine.Update(ctx, func(tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{*row}) }); err != nil {
				b.Fatal(err)
			}
		}
		open()
		b.none()
		b.want("A", jobs.Dead, jobs.ReasonFailed)
		b.flow.CanRefresh = true
		open()
		b.none()
		b.want("A", jobs.Ready, jobs.ReasonRefresh)
	}},
}
