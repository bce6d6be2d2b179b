package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// every makes the bench's flow one in which each event is written, in order within
// its group.
func (b *bench) every(onDead string) {
	b.flow.Order, b.flow.Group, b.flow.OnDead = "every", ".group", onDead
}

// event is one event with an id of its own, which maps to one record of a group.
func (b *bench) event(group, key string, version int64, content string) jobs.Item {
	it := b.ev("src-"+key, version, key, content)
	it.Pairs[0].Group = group
	return it
}

// claims checks which jobs a claim brings, in any order.
func (b *bench) claims(want ...string) map[string]*jobs.Job {
	b.Helper()
	got := map[string]*jobs.Job{}
	for _, jb := range b.claim() {
		got[jb.Key] = jb
	}
	for _, k := range want {
		if got[k] == nil {
			b.Fatalf("%s is not claimed; claimed %v, want %v", k, got, want)
		}
	}
	if len(got) != len(want) {
		b.Fatalf("claimed %v, want %v", got, want)
	}
	return got
}

// replay replays one row.
func (b *bench) replay(key string) jobs.Acted {
	b.Helper()
	a, err := b.journal.Replay(context.Background(), []jobs.RowID{{Flow: b.flow.Name, Key: key}}, b.flows)
	if err != nil {
		b.Fatalf("replay %s: %v", key, err)
	}
	return a
}

func (b *bench) replayed(key string) {
	b.Helper()
	a := b.replay(key)
	if a.Done != 1 {
		b.Fatalf("replaying %s: %+v", key, a)
	}
}

// group returns what is remembered of a group of the flow.
func (b *bench) group(name string) (g jobs.Group) {
	b.Helper()
	err := b.engine.View(context.Background(), func(tx jobs.Tx) error {
		gs, err := tx.Groups(context.Background(), b.flow.Name, []string{name})
		if len(gs) > 0 {
			g = gs[0]
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

var confirmed = connectors.Outcome{Class: connectors.Applied, Link: `7`}

var refusal = connectors.Fail(connectors.Invalid, "http_422", "no")

// orderRules are those of a flow with order: every.
var orderRules = []rule{
	{"each event is written, one after the other within its group and at once between groups", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "3", 30, "c"), b.event("P", "1", 10, "a"), b.event("Q", "9", 90, "x"), b.event("P", "2", 20, "b"))
		js := b.claims("1", "9")
		b.none()
		b.want("2", jobs.Ready, jobs.ReasonBehind)
		b.want("3", jobs.Ready, jobs.ReasonBehind)
		b.settle(js["9"], confirmed)
		b.none()
		b.settle(js["1"], confirmed)
		b.settle(b.claims("2")["2"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
		b.none()
		for _, k := range []string{"1", "2", "3", "9"} {
			b.want(k, jobs.Done, jobs.ReasonNone)
		}
	}},
	{"what stands behind a head is not due before that has ended", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.admit(b.event("P", "3", 30, "c"))
		for _, k := range []string{"2", "3"} {
			if r := b.row(k); r.DueAt.Before(b.at.Add(1000 * 24 * time.Hour)) {
				b.Fatalf("%s is due at %s", k, r.DueAt)
			}
		}
		js := b.claims("1")
		b.settle(js["1"], connectors.Fail(connectors.Transient, "connect", "refused"))
		b.want("2", jobs.Ready, jobs.ReasonBehind)
		b.pass(time.Hour)
		b.settle(b.claims("1")["1"], confirmed)
		is(b, "due", b.want("2", jobs.Ready, jobs.ReasonNone).DueAt, b.at)
		b.want("3", jobs.Ready, jobs.ReasonBehind)
	}},
	{"events of one state of the source are in the order of their keys", func(b *bench) {
		b.every("hold")
		it := b.event("P", "b", 10, "b")
		it.Pairs = append(it.Pairs, jobs.Pair{Key: "a", Group: "P", Body: it.Pairs[0].Body})
		b.admit(it)
		b.settle(b.claims("a")["a"], confirmed)
		b.settle(b.claims("b")["b"], confirmed)
	}},
	{"an event that comes before what was not sent yet takes its place", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"))
		b.admit(b.event("P", "1", 10, "a"))
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("2")["2"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
	}},
	{"an event that comes before what was sent is late, and its group goes on", func(b *bench) {
		for _, onDead := range []string{"hold", "skip"} {
			b.write(onDead, onDead)
			b.every(onDead)
			b.admit(b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"))
			jb := b.claims("2")["2"]
			is(b, "rejected", b.admit(b.event("P", "1", 10, "a")).Rejected, 1)
			late := b.want("1", jobs.Dead, jobs.ReasonLate)
			is(b, "code", late.LastCode, "late")
			b.settle(jb, confirmed)
			b.settle(b.claims("3")["3"], confirmed)
			b.admit(b.event("P", "1", 10, "a"), b.event("P", "4", 40, "d"))
			b.want("1", jobs.Dead, jobs.ReasonLate)
			b.settle(b.claims("4")["4"], confirmed)
			b.replayed("1")
			b.settle(b.claims("1")["1"], confirmed)
			b.want("1", jobs.Done, jobs.ReasonNone)
			is(b, "sent", b.group("P").SentKey, "4")
		}
	}},
	{"a replayed event is not written at the same time as another of its group", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"))
		jb := b.claims("2")["2"]
		b.admit(b.event("P", "1", 10, "a"))
		b.replayed("1")
		b.none()
		// It comes first whatever became of the other.
		b.settle(jb, connectors.Fail(connectors.Transient, "connect", "refused"))
		b.pass(time.Hour)
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("2")["2"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
	}},
	{"a replayed event waits for what is under way, whatever else happens to its group", func(b *bench) {
		b.every("skip")
		b.admit(b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"), b.event("P", "4", 40, "d"))
		jb := b.claims("2")["2"]
		b.admit(b.event("P", "1", 10, "a"))
		b.replayed("1")
		b.discard("4")
		b.admit(b.event("P", "5", 50, "e"))
		// As another lane of the client does when it starts.
		if _, err := b.journal.Recover(context.Background(), jobs.LaneID{Client: "erp", Shard: 1}, b.flows); err != nil {
			b.Fatal(err)
		}
		b.none()
		b.settle(jb, confirmed)
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
		b.settle(b.claims("5")["5"], confirmed)
	}},
	{"a replayed event comes before what waits to be tried again", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "2", 20, "b"))
		b.settle(b.one(), connectors.Fail(connectors.Transient, "connect", "refused"))
		b.admit(b.event("P", "1", 10, "a"))
		b.replayed("1")
		b.pass(time.Hour)
		jb := b.claims("1")["1"]
		b.want("2", jobs.Ready, jobs.ReasonBehind)
		b.settle(jb, refusal)
		b.none() // it holds the group as any head does
		b.discard("1")
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"an event is known for ever, and comes once", func(b *bench) {
		b.every("hold")
		first := b.event("P", "1", 10, "a")
		b.admit(first)
		b.apply()
		b.pass(100 * 24 * time.Hour)
		again := b.event("P", "1", 99, "a")
		is(b, "unchanged", b.admit(first, again).Unchanged, 2)
		b.none()
		is(b, "version", b.row("1").Desired.Version, int64(10))
		b.admit(b.event("P", "2", 20, "b")) // 99 is not what was sent
		b.apply()
	}},
	{"an event that is repeated before it is written keeps its place", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.pass(time.Second)
		b.admit(b.event("P", "1", 30, "a"), b.event("P", "2", 5, "b"))
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"an event that comes again with other content is refused, and what was taken stays", func(b *bench) {
		b.every("hold")
		for _, state := range []string{"ready", "done"} {
			key := "M-" + state
			b.admit(b.event(state, key, 10, "a"))
			if state == "done" {
				b.settle(b.claims(key)[key], confirmed)
			}
			for _, version := range []int64{9, 10, 11} {
				before := b.row(key)
				a := b.admit(b.event(state, key, version, "b"))
				is(b, "rejected and unchanged", a.Rejected+a.Unchanged, 1)
				after := b.row(key)
				is(b, "row", fmt.Sprint(after.Desired, after.Hash, after.State), fmt.Sprint(before.Desired, before.Hash, before.State))
				b.body(key, "a")
			}
			b.body("@"+key+":changed", "b")
			b.want("@"+key+":changed", jobs.Dead, jobs.ReasonRefused)
			a := b.replay("@" + key + ":changed")
			if a.Done+a.Asked > 0 || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "other content") {
				b.Fatalf("replayed: %+v", a)
			}
			// Given up, it does not come back, and yet other content is told again.
			b.discard("@" + key + ":changed")
			b.admit(b.event(state, key, 12, "b"))
			b.want("@"+key+":changed", jobs.Done, jobs.ReasonDiscarded)
			b.admit(b.event(state, key, 13, "c"))
			b.want("@"+key+":changed", jobs.Dead, jobs.ReasonRefused)
			if state == "ready" {
				b.settle(b.claims(key)[key], confirmed)
			}
		}
	}},
	{"another record's event of the same id and content is the same event", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"))
		other := b.event("P", "1", 20, "a")
		other.SourceID = "other"
		is(b, "unchanged", b.admit(other).Unchanged, 1)
		other.Pairs = b.event("P", "1", 20, "b").Pairs
		is(b, "rejected", b.admit(other).Rejected, 1)
		is(b, "colliding", b.contended(), 0)
	}},
	{"an event that is gone at its source, or maps to less, is written all the same", func(b *bench) {
		b.every("hold")
		it := b.event("P", "1", 10, "a")
		it.Pairs = append(it.Pairs, jobs.Pair{Key: "2", Group: "Q", Body: it.Pairs[0].Body})
		b.admit(it)
		it.Version, it.Pairs = 20, it.Pairs[:1]
		b.admit(it)
		gone := it
		gone.Version, gone.Pairs, gone.Gone = 30, nil, true
		b.admit(gone)
		for _, jb := range b.claims("1", "2") {
			if jb.Gone {
				b.Fatalf("%s is to be removed", jb.Key)
			}
			b.settle(jb, confirmed)
		}
	}},
	{"a dead head holds its group, and only that, until a person acts", func(b *bench) {
		for _, act := range []string{"discard", "replay"} {
			b.write(act, act)
			b.every("hold")
			b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"), b.event("Q", "9", 90, "x"))
			js := b.claims("1", "9")
			b.settle(js["1"], refusal)
			b.settle(js["9"], confirmed)
			b.pass(100 * 24 * time.Hour)
			b.admit(b.event("P", "3", 30, "c"), b.event("Q", "10", 100, "y"))
			b.settle(b.claims("10")["10"], confirmed)
			b.none()
			if act == "discard" {
				b.discard("1")
			} else {
				b.replayed("1")
				b.settle(b.claims("1")["1"], confirmed)
			}
			b.settle(b.claims("2")["2"], confirmed)
			b.settle(b.claims("3")["3"], confirmed)
		}
	}},
	{"a dead head is skipped where the flow says so, and may be written after all", func(b *bench) {
		b.every("skip")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"))
		b.settle(b.claims("1")["1"], refusal)
		b.settle(b.claims("2")["2"], confirmed)
		b.replayed("1")
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
		b.admit(b.event("P", "4", 40, "d"))
		b.settle(b.claims("4")["4"], confirmed)
	}},
	{"what joins a group behind a dead head is due or not, as the flow says", func(b *bench) {
		for onDead, why := range map[string]jobs.Reason{"hold": jobs.ReasonBehind, "skip": jobs.ReasonNone} {
			b.write(onDead, onDead)
			b.every(onDead)
			b.admit(b.event("P", "1", 10, "a"))
			b.settle(b.one(), refusal)
			b.admit(b.event("P", "2", 20, "b"))
			b.want("2", jobs.Ready, why)
		}
	}},
	{"a flow that skips by now goes on where it was held, from the next start on", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.settle(b.one(), refusal)
		b.none()
		b.flow.OnDead = "skip"
		b.restart()
		b.recover()
		jb := b.claims("2")["2"]
		// And the other way round.
		b.settle(jb, refusal)
		b.admit(b.event("P", "3", 30, "c"))
		b.flow.OnDead = "hold"
		b.none()
		b.want("3", jobs.Ready, jobs.ReasonBehind)
	}},
	{"nothing overtakes a write in doubt", func(b *bench) {
		for _, onDead := range []string{"hold", "skip"} {
			b.write(onDead, onDead)
			b.every(onDead)
			b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
			b.claims("1")
			b.restart()
			b.recover()
			b.none()
			is(b, "in doubt", b.row("1").Unresolved(), true)
			b.want("2", jobs.Ready, jobs.ReasonBehind)
			b.pass(time.Hour)
			b.settle(b.claims("1")["1"], connectors.Outcome{Class: connectors.AlreadyApplied, Link: `7`})
			b.settle(b.claims("2")["2"], confirmed)
		}
	}},
	{"a claim that was never confirmed leaves the order as it is", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.claims("1")
		b.underWay = map[jobs.RowID]bool{}
		if _, err := b.journal.RecoverOwn(context.Background(), jobs.LaneID{Client: "erp"}, b.flows); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"a held head holds its group whatever the flow says of dead ones, until a person has resolved it", func(b *bench) {
		for _, onDead := range []string{"hold", "skip"} {
			for _, applied := range []bool{true, false} {
				name := fmt.Sprint(onDead, applied)
				b.write(name, name)
				b.every(onDead)
				b.flow.Strategy = connectors.AtMostOnce
				b.flow.CreateOnly = true
				b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
				b.settle(b.one(), unknown)
				b.want("1", jobs.Held, jobs.ReasonNone)
				b.none()
				b.admit(b.event("P", "3", 30, "c"))
				b.pass(time.Hour)
				b.none()
				v := jobs.Verdict{Applied: applied, By: "ann", Why: "looked"}
				if _, refused, err := b.journal.Resolve(context.Background(), jobs.RowID{Flow: name, Key: "1"}, v, b.flows); err != nil || refused != "" {
					b.Fatalf("resolve: %s, %v", refused, err)
				}
				if !applied {
					b.settle(b.claims("1")["1"], confirmed)
				}
				b.settle(b.claims("2")["2"], confirmed)
				b.settle(b.claims("3")["3"], confirmed)
			}
		}
	}},
	{"a held head that is given up lets its group go on", func(b *bench) {
		b.every("hold")
		b.flow.Strategy = connectors.AtMostOnce
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.settle(b.one(), unknown)
		b.discard("1")
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"a skipped write in doubt that a person has sent again waits for what is under way", func(b *bench) {
		b.every("skip")
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor = 1, 0
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.settle(b.one(), unknown)
		b.want("1", jobs.Dead, jobs.ReasonFailed)
		jb := b.claims("2")["2"]
		b.pass(time.Hour)
		v := jobs.Verdict{By: "ann", Why: "looked"}
		if _, refused, err := b.journal.Resolve(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: "1"}, v, b.flows); err != nil || refused != "" {
			b.Fatalf("resolve: %s, %v", refused, err)
		}
		b.none()
		b.settle(jb, confirmed)
		b.settle(b.claims("1")["1"], confirmed)
	}},
	{"one in the middle that is given up leaves no gap", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"), b.event("P", "3", 30, "c"))
		b.discard("2")
		b.settle(b.claims("1")["1"], confirmed)
		b.settle(b.claims("3")["3"], confirmed)
		is(b, "unchanged", b.admit(b.event("P", "2", 20, "b")).Unchanged, 1)
		b.none()
	}},
	{"a head that is given up before it was sent lets the next one go on", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"), b.event("P", "2", 20, "b"))
		b.discard("1")
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"an event that is done is not written again", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"))
		b.apply()
		a := b.replay("1")
		if a.Done+a.Asked > 0 || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "written once") {
			b.Fatalf("%+v", a)
		}
		b.none()
	}},
	{"an event that could not be mapped holds nobody, and ends when it can be", func(b *bench) {
		b.every("hold")
		bad := jobs.Item{SourceID: "src-1", Version: 10, Observed: b.at, Problem: "no product", Raw: []byte(`{}`)}
		b.admit(bad, b.event("P", "2", 20, "b"))
		b.want("@src-1", jobs.Dead, jobs.ReasonMapping)
		b.settle(b.claims("2")["2"], confirmed)
		b.admit(b.event("P", "1", 10, "a"))
		b.want("@src-1", jobs.Done, jobs.ReasonSuperseded)
		b.want("1", jobs.Dead, jobs.ReasonLate)
	}},
	{"a record without a group is a dead letter", func(b *bench) {
		b.every("hold")
		is(b, "rejected", b.admit(b.event("", "1", 10, "a")).Rejected, 1)
		b.want("@src-1", jobs.Dead, jobs.ReasonMapping)
	}},
	{"a new source epoch comes after all before it", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 100, "a"))
		b.apply()
		b.update(func(ctx context.Context, tx jobs.Tx) error {
			fs, err := tx.LockFlow(ctx, b.flow.Name)
			fs.Epoch++
			if err != nil {
				return err
			}
			return tx.SaveFlow(ctx, fs)
		})
		b.admit(b.event("P", "2", 1, "b"))
		b.settle(b.claims("2")["2"], confirmed)
	}},
	{"a thousand behind a head cost a claim nothing", func(b *bench) {
		b.every("hold")
		var items []jobs.Item
		for i := range 1000 {
			items = append(items, b.event("P", fmt.Sprintf("%04d", i), int64(i), "a"))
		}
		b.admit(append(items, b.event("Q", "q", 1, "a"))...)
		js := b.claims("0000", "q")
		due := 0
		err := b.engine.View(context.Background(), func(tx jobs.Tx) error {
			rows, err := tx.Due(context.Background(), jobs.LaneID{Client: "erp"}, b.at.Add(365*24*time.Hour), 5000)
			due = len(rows)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		is(b, "due within a year", due, 2)
		b.settle(js["0000"], confirmed)
		b.claims("0001")
	}},
	{"a group that came in reverse is written in order", func(b *bench) {
		b.every("hold")
		for i := 20; i > 0; i-- {
			b.admit(b.event("P", fmt.Sprintf("%02d", i), int64(i), "a"))
		}
		for i := 1; i <= 20; i++ {
			key := fmt.Sprintf("%02d", i)
			b.settle(b.claims(key)[key], confirmed)
		}
	}},
	{"the order of a flow is for ever, and its groups change by consent alone", func(b *bench) {
		b.every("hold")
		b.admit(b.event("P", "1", 10, "a"))
		b.bind()
		b.flow.OnDead = "skip"
		b.bind()
		b.flow.Group = ".other"
		b.flow.AcceptChange = b.refused("group").Token
		b.bind()
		b.flow.Order = "latest"
		is(b, "token", b.refused("order").Token, "")
	}},
}

func (b *bench) update(fn func(ctx context.Context, tx jobs.Tx) error) {
	b.Helper()
	if err := b.engine.Update(context.Background(), func(tx jobs.Tx) error { return fn(context.Background(), tx) }); err != nil {
		b.Fatal(err)
	}
}
