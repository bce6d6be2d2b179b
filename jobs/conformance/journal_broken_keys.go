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

var applied = connectors.Outcome{Class: connectors.Applied, Link: `7`}

// handedKeyRules are sequences in which a key changes hands at a bad moment.
var handedKeyRules = []rule{
	{"the owner of a key is stored although neither content nor version changed", func(b *bench) {
		b.flow.OnVanish, b.flow.OnDelete = "keep", "delete"
		b.admit(b.ev("1", 0, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 0)) // lets go of A, and A stays in the target
		b.pass(time.Second)
		b.admit(b.ev("2", 0, "A", "x"))
		is(b, "owner", b.row("A").SourceID, "2")
		b.pass(time.Second)
		gone := b.ev("2", 0)
		gone.Gone = true
		b.admit(gone)
		is(b, "removal", b.one().Write(b.flow).Removal, connectors.Delete)
	}},
	{"a record gone while its first write is under way is removed after it", func(b *bench) {
		b.flow.MaxAge, b.flow.CanRefresh, b.flow.OnDelete = time.Hour, true, "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		b.none() // its present state is asked for
		b.admit(b.ev("1", 11, "A", "y"))
		jb := b.one()
		b.pass(time.Second)
		answer := b.ev("1", 0)
		answer.Gone, answer.Refresh = true, true
		b.admit(answer)
		b.settle(jb, applied)
		next := b.one()
		is(b, "removal", next.Write(b.flow).Removal, connectors.Delete)
	}},
	{"a record that expired because it is gone does not keep its key from another", func(b *bench) {
		b.flow.MaxAge, b.flow.CanRefresh = time.Hour, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(2 * time.Hour)
		b.none()
		answer := b.ev("1", 0)
		answer.Gone, answer.Refresh = true, true
		b.admit(answer)
		b.want("A", jobs.Dead, jobs.ReasonExpired)
		b.pass(time.Second)
		b.admit(b.ev("2", 10, "A", "y"))
		is(b, "body", string(b.one().Body), `{"v":"y"}`)
	}},
	{"a record whose key changes while its create is under way is written under the new key only after it", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "y"))
		b.none() // the create of A is under way: B is the same record
		b.settle(jb, applied)
		next := b.one()
		is(b, "key", next.Key, "B")
		is(b, "link", next.Link, `7`)
		is(b, "from", next.RenamedFrom, "A")
		is(b, "applied", next.AppliedGeneration > 0, true)
		b.settle(next, applied)
		b.none()
		b.want("A", jobs.Done, jobs.ReasonRenamed)
	}},
	{"a record that another lane is writing under its old key is written under the new one only after that", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.underWay = map[jobs.RowID]bool{} // the lane of B has nothing under way
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "y"))
		b.none()
		b.pass(2 * time.Minute)
		b.none() // however long it takes
		b.settle(jb, applied)
		next := b.one()
		is(b, "key", next.Key, "B")
		is(b, "link", next.Link, `7`)
	}},
	{"records that move on one after the other while a write is under way keep their links", func(b *bench) {
		for _, brings := range []bool{false, true} {
			b.write(fmt.Sprint("brings ", brings), fmt.Sprint("brings ", brings))
			b.flow.OnRename = "rename"
			b.admit(b.ev("1", 10, "B", "one"))
			b.apply()
			b.admit(b.ev("2", 10, "E", "two"))
			jb := b.one()
			b.pass(time.Second)
			b.admit(b.ev("2", 11, "A", "two"))
			b.pass(time.Second)
			b.admit(b.ev("1", 11, "E", "one"))
			want := ""
			if brings {
				want = `8`
				if err := b.journal.PutLink(context.Background(), jb, want); err != nil {
					b.Fatal(err)
				}
			}
			b.restart()
			b.recover()
			is(b, "link of A", b.link("A"), want)
			is(b, "link of E", b.link("E"), `7`)
		}
	}},
	{"a create of unknown outcome under the old key puts the new key in doubt", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "y"))
		b.pass(time.Second)
		b.settle(jb, unknown)
		b.none() // not before the write has settled
		b.pass(time.Minute)
		next := b.one()
		is(b, "key", next.Key, "B")
		is(b, "in doubt", next.Unresolved(), true)
		is(b, "from", next.RenamedFrom, "A")
		b.want("A", jobs.Done, jobs.ReasonRenamed)
		is(b, "A in doubt", b.row("A").Unresolved(), false)
	}},
	{"a create that was lost under the old key puts the new key in doubt", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "y"))
		b.restart()
		b.recover()
		b.none()
		b.pass(time.Minute)
		next := b.one()
		is(b, "key", next.Key, "B")
		is(b, "in doubt", next.Unresolved(), true)
	}},
	{"an ended daemon that goes on gives a key that has changed hands no link", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Hour)
		jb, was := b.one(), b.journal // it has found the record
		b.restart()
		b.recover()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"), b.ev("2", 11, "A", "two"))
		b.pass(time.Hour)
		next := b.one()
		is(b, "key", next.Key, "B")
		b.settle(next, applied)
		if err := was.PutLink(context.Background(), jb, `7`); err == nil || !strings.Contains(err.Error(), "given up for lost") {
			b.Errorf("the link is stored: %v", err)
		}
		is(b, "link of A", b.one().Link, "")
	}},
	{"the link that an ended daemon brings is kept while nothing else has become of its job", func(b *bench) {
		b.once() // nobody else could ever find it
		b.admit(b.ev("1", 10, "A", "x"))
		jb, was := b.one(), b.journal
		b.restart()
		b.recover()
		b.want("A", jobs.Held, jobs.ReasonNone)
		if err := was.PutLink(context.Background(), jb, `7`); err != nil {
			b.Fatal(err)
		}
		is(b, "link", b.link("A"), `7`)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		if err := was.PutLink(context.Background(), jb, `8`); err == nil {
			b.Error("the link is stored although something newer is wanted")
		}
	}},
	{"an ended daemon that goes on gives a record of a target that was restored meanwhile no link", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		since := b.at
		jb, was := b.one(), b.journal
		b.restart()
		b.recover()
		b.pass(time.Second)
		b.redeliver(since)
		if err := was.PutLink(context.Background(), jb, `7`); err == nil {
			b.Error("the link is stored, and may be another record's by now")
		}
	}},
	{"a create that was never sent under the old key leaves the new key a plain one", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "y"))
		b.settle(jb, connectors.Fail(connectors.Transient, "connect", "refused"))
		next := b.one()
		is(b, "key", next.Key, "B")
		is(b, "in doubt", next.Unresolved(), false)
		b.settle(next, applied)
		b.pass(time.Hour)
		b.none()
	}},
	{"a key that a record leaves is not given to another before that record has its new one", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"), b.ev("2", 11, "A", "two"))
		jb := b.one()
		is(b, "key", jb.Key, "B")
		b.pass(5 * time.Minute) // a slow write
		b.none()
		b.settle(jb, applied)
		next := b.one()
		is(b, "key", next.Key, "A")
		is(b, "link", next.Link, "")
	}},
	{"a refused key is not written because a removal under it was still under way", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		b.pass(time.Second)
		gone := b.ev("2", 0)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"))
		b.want("B", jobs.Dead, jobs.ReasonRenamed)
		b.settle(jb, connectors.Outcome{Class: connectors.Applied})
		b.want("B", jobs.Dead, jobs.ReasonRenamed)
		b.none()
	}},
	{"a person's word on what was written under a refused key is no permission to create the record again", func(b *bench) {
		b.flow.Strategy, b.flow.OnDelete = connectors.AtMostOnce, "delete"
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		for i, v := range []jobs.Verdict{{}, {Applied: true, Link: `8`}} {
			id := jobs.RowID{Flow: "orders", Key: fmt.Sprint("B", i)}
			b.admit(b.ev(id.Key, 10, id.Key, "two"))
			b.settle(b.one(), unknown)
			b.pass(time.Minute)
			gone := b.ev(id.Key, 11)
			gone.Gone = true
			b.admit(gone, b.ev("1", 11+int64(i), id.Key, "one"))
			b.want(id.Key, jobs.Dead, jobs.ReasonRenamed)
			if _, refused, err := b.journal.Resolve(context.Background(), id, v, b.flows); refused != "" || err != nil {
				b.Fatal(refused, err)
			}
			is(b, "in doubt", b.want(id.Key, jobs.Dead, jobs.ReasonRenamed).Unresolved(), false)
			is(b, "stands in the target", b.row(id.Key).Applied(), v.Applied)
			b.none()
		}
	}},
	{"giving up a refused key is no permission to create the record again", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		if _, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "B"}}, "no"); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.none()
		is(b, "state", b.row("B").State, jobs.Done)
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "B", "y"))
		b.none()
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.want("B", jobs.Dead, jobs.ReasonRenamed)
	}},
	{"a key that changes twice before it is written is looked for where the record stands", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied}) // a target without ids
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "C", "x"))
		jb := b.one()
		is(b, "key", jb.Key, "C")
		is(b, "from", jb.RenamedFrom, "A")
	}},
	{"a key that changes and changes back before it is written is written under the first", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "y"))
		jb := b.one()
		is(b, "key", jb.Key, "A")
		is(b, "link", jb.Link, `7`)
		b.settle(jb, applied)
		b.none()
		b.want("B", jobs.Done, jobs.ReasonRenamed)
	}},
	{"a record that got a key which once was removed is removed itself in the end", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("2", 10, "B", "two"))
		b.apply()
		b.pass(time.Second)
		gone := b.ev("2", 0)
		gone.Gone = true
		b.admit(gone)
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied})
		b.pass(time.Second)
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"))
		b.pass(time.Second)
		gone = b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		is(b, "removal of "+jb.Key, jb.Write(b.flow).Removal, connectors.Delete)
		is(b, "link", jb.Link, `7`)
	}},
	{"giving up a changed key does not forget under which key the record stands", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		if _, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "B"}}, "no"); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		b.admit(b.ev("1", 12, "B", "y"))
		jb := b.one()
		is(b, "from", jb.RenamedFrom, "A")
		is(b, "in doubt", jb.Unresolved(), true)
		b.settle(jb, applied)
		is(b, "from", b.row("B").RenamedFrom, "")
	}},
	{"a key that changes again while the record is between two keys waits until it has one", func(b *bench) {
		ctx := context.Background()
		b.flow.OnRename, b.flow.CanRefresh = "rename", true
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied}) // a target without ids
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "C", "x"))
		b.want("C", jobs.Dead, jobs.ReasonRenamed)
		ask := func() []jobs.Request {
			b.Helper()
			rs, err := b.journal.Requests(ctx, "shop", 10)
			if err != nil {
				b.Fatal(err)
			}
			return rs
		}
		again := b.ev("1", 12, "C", "x")
		again.Refresh = true
		is(b, "asked at once", len(ask()), 0)
		b.pass(2 * time.Minute)
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Items: []jobs.Item{again}, Requests: []int64{ask()[0].ID}}); err != nil {
			b.Fatal(err)
		}
		is(b, "asked again at once", len(ask()), 0)
		jb := b.one()
		is(b, "key", jb.Key, "B")
		b.settle(jb, connectors.Outcome{Class: connectors.Applied})
		b.pass(2 * time.Minute)
		again.Observed = b.at
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Items: []jobs.Item{again}, Requests: []int64{ask()[0].ID}}); err != nil {
			b.Fatal(err)
		}
		jb = b.one()
		is(b, "key", jb.Key, "C")
		is(b, "from", jb.RenamedFrom, "B")
		is(b, "requests", len(ask()), 0)
	}},
	{"records that swap vacated keys do not wait for one another", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "X", "one"))
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "A", "two")) // waits until 1 has X
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "B", "one")) // which 2 has until it has A
		for range 10 {
			for _, jb := range b.claim() {
				b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
			}
			b.pass(2 * time.Minute)
		}
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.want("B", jobs.Done, jobs.ReasonNone)
	}},
	{"the version of a key never falls, whoever owns it", func(b *bench) {
		b.admit(b.ev("1", 20, "A", "one"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("2", 10, "A", "two"))
		b.admit(b.ev("1", 21))
		is(b, "body", string(b.one().Body), `{"v":"two"}`)
		is(b, "version", b.row("A").Desired.Version, int64(20))
	}},
	{"a key under which another record's create is under way is not taken by a renaming", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("2", 10, "B", "two"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("2", 11), b.ev("1", 11, "B", "one"))
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `8`})
		is(b, "link", b.link("B"), `8`)
		is(b, "link", b.link("A"), `7`)
		for _, jb := range b.claim() {
			if jb.Key == "A" {
				is(b, "removal", jb.Write(b.flow).Removal, connectors.Delete)
			}
			b.settle(jb, connectors.Outcome{Class: connectors.Applied})
		}
		b.want("B", jobs.Done, jobs.ReasonNone)
		b.body("B", "one")
	}},
	{"a record that is gone between two keys is removed under the old one", func(b *bench) {
		for _, bad := range []bool{false, true} {
			b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
			src, from, to := fmt.Sprint("s", bad), fmt.Sprint("A", bad), fmt.Sprint("B", bad)
			b.admit(b.ev(src, 10, from, "x"))
			jb := b.one()
			b.pass(time.Second)
			b.admit(b.ev(src, 11, to, "x"))
			if bad {
				it := b.ev(src, 11)
				it.Problem, it.Raw = "cannot be mapped", json.RawMessage(`1`)
				b.admit(it)
			}
			b.pass(time.Second)
			gone := b.ev(src, 0)
			gone.Gone = true
			b.admit(gone)
			b.settle(jb, applied)
			next := b.one()
			is(b, "removal of "+next.Key, next.Write(b.flow).Removal, connectors.Delete)
			is(b, "link", next.Link, `7`)
			b.settle(next, connectors.Outcome{Class: connectors.Applied})
		}
	}},
	{"a refused key is let go when the record has another one", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "C", "x"))
		b.want("C", jobs.Dead, jobs.ReasonRenamed)
		is(b, "B", b.row("B").State, jobs.Done)
		b.pass(time.Second)
		b.admit(b.ev("2", 10, "B", "y"))
		is(b, "key", b.one().Key, "B")
	}},
	{"a record that was given up between two keys does not come back for one that another has by now", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "one"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"))
		b.settle(jb, connectors.Fail(connectors.Transient, "connect", "refused")) // A was never made
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		b.admit(b.ev("2", 10, "A", "two"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "B", "one again"))
		jb = b.one()
		is(b, "key", jb.Key, "B")
		is(b, "from", jb.RenamedFrom, "")
	}},
	{"a record that waited for a key and goes elsewhere takes nothing of the one that leaves it", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		b.admit(b.ev("1", 10, "A", "one"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"), b.ev("2", 11, "A", "two"))
		b.pass(time.Second)
		b.admit(b.ev("2", 12, "C", "two"))
		b.settle(jb, applied)
		is(b, "link of B", b.link("B"), `7`)
		is(b, "link of C", b.link("C"), "")
		is(b, "from", b.row("C").RenamedFrom, "")
		is(b, "jobs", len(b.claim()), 2)
	}},
	{"a key to which a move is given up has no link to the record that was to move", func(b *bench) {
		b.flow.OnRename, b.flow.OnDelete = "rename", "delete"
		write := func(link string, class connectors.Class) {
			b.Helper()
			b.pass(time.Hour)
			for _, jb := range b.claim() {
				b.settle(jb, connectors.Outcome{Class: class, Link: link})
			}
		}
		b.admit(b.ev("1", 1, "A", "one"))
		write(`"1"`, connectors.Applied)
		b.admit(b.ev("0", 1, "C", "nought"))
		write(`"2"`, connectors.Applied)
		b.admit(b.ev("0", 2, "D", "nought"))
		write("", connectors.Unknown) // 0 has the key C or D
		b.admit(b.ev("2", 1, "B", "two"))
		if err := b.journal.PutLink(context.Background(), b.one(), `"3"`); err != nil { // and that is the last of it
			b.Fatal(err)
		}
		b.admit(b.ev("2", 2, "C", "two"))
		is(b, "link of C on its way", b.link("C"), `"3"`)
		b.admit(b.ev("3", 1, "C", "three"))
		b.admit(b.ev("2", 3, "A", "two"))
		b.admit(b.ev("3", 2, "A", "three"))
		b.want("C", jobs.Ready, jobs.ReasonNone)
		b.admit(b.ev("0", 3, "C", "nought"))
		b.want("C", jobs.Dead, jobs.ReasonRenamed)
		is(b, "link of C", b.link("C"), "")
		is(b, "link of B", b.link("B"), `"3"`)
	}},
}
