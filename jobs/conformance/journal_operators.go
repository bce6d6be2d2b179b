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

// discard gives one row up.
func (b *bench) discard(key string) jobs.Acted {
	b.Helper()
	a, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: b.flow.Name, Key: key}}, "no longer there")
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// contended is how many source records claim keys that others have.
func (b *bench) contended() int {
	b.Helper()
	o, err := b.journal.Overview(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return o.Contenders[b.flow.Name]
}

// operatorsRules are what an operator sees and can do of keys and dead letters.
var operatorsRules = []rule{
	{"what was given up and never written can be had back", func(b *bench) {
		b.flow.OnDelete = "delete"
		gone := b.ev("3", 11)
		gone.Gone = true
		bad := b.ev("4", 10)
		bad.Problem, bad.Raw = "no key", []byte(`{"no":"key"}`)
		b.admit(b.ev("3", 10, "GONE", "x"))
		b.apply()
		b.admit(b.ev("1", 10, "READY", "x"), b.ev("2", 10, "DOUBT", "x"), gone, bad)
		unmapped := jobs.UnmappedKey("4", bad.Raw)
		for _, jb := range b.claim() {
			if jb.Key == "DOUBT" {
				b.settle(jb, unknown)
			} else {
				b.settle(jb, connectors.Fail(connectors.Transient, "c", "m"))
			}
		}
		keys := []string{"READY", "DOUBT", "GONE", unmapped}
		var ids []jobs.RowID
		for _, k := range keys {
			b.discard(k)
			b.want(k, jobs.Done, jobs.ReasonDiscarded)
			ids = append(ids, jobs.RowID{Flow: "orders", Key: k})
		}
		b.pass(time.Hour)
		b.none()
		ctx := context.Background()
		st, err := b.journal.ReplayStep(ctx, jobs.Selection{State: jobs.Done}, jobs.RowID{}, b.flows)
		if err != nil || st.Done+st.Asked != 0 || len(st.Skipped) != 4 || !strings.Contains(st.Skipped[0].Why, "--reason-is discarded") {
			b.Fatalf("all that is done is replayed: %+v, %v", st, err)
		}
		a, err := b.journal.Replay(ctx, ids, b.flows)
		if err != nil || a.Done != 3 || a.Asked != 1 || len(a.Skipped) != 0 {
			b.Fatalf("%+v, %v", a, err)
		}
		b.want(unmapped, jobs.Dead, jobs.ReasonMapping)
		got := map[string]*jobs.Job{}
		for _, jb := range b.claim() {
			got[jb.Key] = jb
		}
		is(b, "claimed", len(got), 3)
		is(b, "in doubt", got["DOUBT"].Unresolved(), true)
		is(b, "removal", got["GONE"].Gone, true)
		is(b, "content", string(got["READY"].Body), `{"v":"x"}`)
	}},
	{"a write that was given up in doubt is one that a person can speak of once it is had back", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.discard("A")
		b.pass(time.Hour)
		if _, err := b.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, b.flows); err != nil {
			b.Fatal(err)
		}
		b.settle(b.one(), connectors.Fail(connectors.Transient, jobs.CodeUnresolvable, "at most once"))
		b.want("A", jobs.Held, jobs.ReasonNone)
		b.taken("A", applied7)
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.none()
	}},
	{"an event that was given up can be had back as long as nothing behind it was sent", func(b *bench) {
		b.every("hold")
		b.admit(b.event("G", "E1", 1, "one"), b.event("G", "E2", 2, "two"), b.event("H", "E3", 3, "three"))
		b.discard("E1")
		b.discard("E3")
		ctx := context.Background()
		a, err := b.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "E1"}}, b.flows)
		if err != nil || a.Done != 1 {
			b.Fatalf("%+v, %v", a, err)
		}
		is(b, "first", b.apply().Key, "E1")
		b.apply()
		b.none()
		a, err = b.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "E3"}}, b.flows)
		if err != nil || a.Done != 1 {
			b.Fatalf("%+v, %v", a, err)
		}
		b.discard("E3")
		b.admit(b.event("H", "E4", 4, "four"))
		b.apply()
		a, err = b.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "E3"}, {Flow: "orders", Key: "E4"}}, b.flows)
		if err != nil || len(a.Skipped) != 2 || !strings.Contains(a.Skipped[0].Why, "E4 comes after it in group H") || !strings.Contains(a.Skipped[1].Why, "written once") {
			b.Fatalf("%+v, %v", a, err)
		}
		b.none()
	}},
	{"claims of records that are no longer at the source can be dropped, in whatever state the row is", func(b *bench) {
		for name, reach := range map[string]func(b *bench){
			"done":    func(b *bench) { b.apply() },
			"ready":   func(*bench) {},
			"retry":   func(b *bench) { b.settle(b.one(), connectors.Fail(connectors.Transient, "connect", "refused")) },
			"running": func(b *bench) { b.one() },
		} {
			b.write(name, name)
			b.flow.OnRename = "recreate"
			b.admit(b.ev("1", 10, "A", "one"))
			reach(b)
			before := b.row("A")
			is(b, name+": collided", b.admit(b.ev("2", 10, "A", "two"), b.ev("3", 10, "A", "three")).Collided, 2)
			a := b.discard("A")
			if a.Done > 0 || len(a.Skipped) > 0 || len(a.Dropped) != 1 || a.Dropped[0].RowID != before.RowID || fmt.Sprint(a.Dropped[0].SourceIDs) != "[2 3]" {
				b.Fatalf("%s: %+v", name, a)
			}
			after := b.row("A")
			is(b, name+": state", after.State, before.State)
			is(b, name+": reason", after.Reason, before.Reason)
			is(b, name+": colliding", b.contended(), 0)
			d, _, err := b.journal.Get(context.Background(), after.RowID)
			if err != nil || len(d.Attempts) == 0 || d.Attempts[0].Code != "discarded" || d.Attempts[0].Message != "claims of source records 2, 3 dropped: no longer there" {
				b.Fatalf("%s: history %+v, %v", name, d.Attempts, err)
			}
			b.pass(time.Minute)
			if name == "running" {
				b.restart()
				b.recover()
				b.pass(time.Hour)
			}
			b.stands("A")
			b.admit(b.ev("1", 11, "B", "one")) // nobody is promoted to A
			b.stands("B")
			is(b, name+": A is desired gone", b.row("A").Gone, true)
		}
	}},
	{"a dead row is given up first, and the claims to its key by a second word", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		b.admit(b.ev("2", 10, "A", "two"))
		is(b, "given up", b.discard("A").Done, 1)
		b.want("A", jobs.Done, jobs.ReasonDiscarded)
		is(b, "colliding", b.contended(), 1)
		is(b, "dropped", len(b.discard("A").Dropped), 1)
		is(b, "colliding", b.contended(), 0)
		a := b.discard("A")
		is(b, "a third word", len(a.Skipped), 1)
	}},
	{"a record that is still at the source claims its key again when it is read", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "A", "two"))
		is(b, "dropped", len(b.discard("A").Dropped), 1)
		b.pass(time.Second)
		is(b, "collided", b.admit(b.ev("2", 10, "A", "two")).Collided, 1)
		is(b, "colliding", b.contended(), 1)
	}},
	{"what was asked of a source is told with its row until it has answered", func(b *bench) {
		ctx := context.Background()
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 9, "A", "x")) // the same source record has another row, of which nothing is asked
		b.apply()
		for _, id := range []string{"1", "2"} {
			it := b.ev(id, 10)
			it.Problem, it.Raw = "price is missing", json.RawMessage(`{}`)
			b.admit(it)
		}
		asked := func(key string) *jobs.Request {
			b.Helper()
			r, err := b.journal.Asked(ctx, b.row(key), "shop")
			if err != nil {
				b.Fatal(err)
			}
			return r
		}
		is(b, "asked before", asked("@1") == nil, true)
		at := b.at
		if _, err := b.journal.Replay(ctx, []jobs.RowID{b.row("@1").RowID}, b.flows); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		r := asked("@1")
		if r == nil || !r.At.Equal(at) || asked("@2") != nil || asked("A") != nil {
			b.Fatalf("asked for @1: %+v, for @2: %+v, for A: %+v", r, asked("@2"), asked("A"))
		}
		if err := b.journal.PostponeRequest(ctx, r.ID, time.Hour); err != nil {
			b.Fatal(err)
		}
		r = asked("@1")
		is(b, "due", r.DueAt, b.at.Add(time.Hour))
		it := b.ev("1", 10, "A", "x")
		it.Refresh = true
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Items: []jobs.Item{it}, Requests: []int64{r.ID}}); err != nil {
			b.Fatal(err)
		}
		is(b, "asked after", asked("@1") == nil, true)
	}},
	{"the row of an older state names the dead one of a newer", func(b *bench) {
		newer := func(key string) string {
			b.Helper()
			d, _, err := b.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: key})
			if err != nil {
				b.Fatal(err)
			}
			if d.Newer == nil {
				return ""
			}
			return d.Newer.Key
		}
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "C", "x"))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		is(b, "newer of A", newer("A"), "")
		b.pass(time.Second)
		bad := b.ev("2", 11)
		bad.Problem, bad.Raw = "price is missing", json.RawMessage(`{}`)
		b.admit(b.ev("1", 11, "B", "x"), bad)
		is(b, "newer of A", newer("A"), "B")
		is(b, "newer of B", newer("B"), "")
		is(b, "newer of C", newer("C"), "@2")
		b.discard("B")
		is(b, "newer of A, given up", newer("A"), "")
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"), b.ev("2", 12, "C", "x"))
		is(b, "newer of A", newer("A"), "")
		is(b, "newer of C", newer("C"), "")
	}},
	{"the dead letter of a refused key names what the entity can do", func(b *bench) {
		for can, want := range map[bool]string{true: "say on_rename: rename or recreate in flow", false: "say on_rename: recreate in flow"} {
			name := fmt.Sprint("can-", can)
			b.write(name, name)
			b.flow.CanRename = can
			b.keyRefused(10)
			if m := b.row("B").LastMessage; !strings.Contains(m, want) {
				b.Errorf("%v: %s", can, m)
			}
		}
	}},
}
