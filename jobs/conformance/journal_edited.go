package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// keyRefused admits record 1 under A, has it written, and has its change to B refused.
func (b *bench) keyRefused(version int64) {
	b.Helper()
	b.admit(b.ev("1", version, "A", "x"))
	b.apply()
	b.pass(time.Second)
	if version > 0 {
		version++
	}
	b.admit(b.ev("1", version, "B", "x"))
	b.want("A", jobs.Done, jobs.ReasonNone)
	b.want("B", jobs.Dead, jobs.ReasonRenamed)
	b.none()
	b.pass(time.Second)
}

// stands lets everything be written and expects the record under exactly these keys.
func (b *bench) stands(keys ...string) {
	b.Helper()
	for range 5 {
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		}
		b.pass(2 * time.Minute)
	}
	b.none()
	for _, k := range keys {
		if r := b.row(k); r.State != jobs.Done || !r.Applied() {
			b.Fatalf("%s is %s %s, applied %v", k, r.State, r.Reason, r.Applied())
		}
	}
}

// editedRules are of flows that are edited after a change of key was refused: the
// old key is let go only in the transaction in which the new one becomes open.
var editedRules = []rule{
	{"a refused key is written once it is allowed, whatever version and content the next reading has", func(b *bench) {
		n := 0
		for _, rename := range []string{"recreate", "rename"} {
			for _, remove := range []string{"ignore", "archive", "delete"} {
				for _, was := range []int64{0, 10} { // a source without versions, and one with
					for _, by := range []int64{0, 1} {
						for _, content := range []string{"x", "y"} {
							for _, discarded := range []bool{false, true} {
								n++
								if was == 0 && by > 0 {
									continue
								}
								name := fmt.Sprint("f", n)
								b.write(name, name)
								b.flow.OnDelete = remove
								b.allowed(rename, remove, was, by, content, discarded)
							}
						}
					}
				}
			}
		}
	}},
	{"a record whose refused key was allowed goes back to its old key", func(b *bench) {
		for _, remove := range []string{"ignore", "delete"} {
			for _, rename := range []string{"recreate", "rename"} {
				name := rename + remove
				b.write(name, name)
				b.flow.OnDelete = remove
				b.keyRefused(10)
				b.flow.OnRename = rename
				b.admit(b.ev("1", 12, "A", "z"))
				b.want("B", jobs.Done, jobs.ReasonIgnored)
				b.body("A", "z")
				b.stands("A")
				b.admit(b.ev("1", 13, "B", "x"))
				b.stands("B")
				b.admit(b.ev("1", 14, "A", "x"))
				b.body("A", "x")
				b.stands("A")
				is(b, "A is desired gone", b.row("A").Gone, false)
			}
		}
	}},
	{"a refused key that is let go is no dead letter, although vanished keys are kept", func(b *bench) {
		b.flow.OnVanish = "keep"
		b.keyRefused(10)
		b.admit(b.ev("1", 12, "A", "x"))
		b.want("B", jobs.Done, jobs.ReasonSuperseded)
		b.admit(b.ev("2", 10, "B", "x"))
		is(b, "key", b.one().Key, "B")
	}},
	{"a refused key is no dead letter when the record is gone at the source", func(b *bench) {
		b.flow.OnDelete, b.flow.CanRefresh = "delete", true
		b.keyRefused(10)
		if a, err := b.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "B"}}, b.flows); err != nil || a.Asked != 1 {
			b.Fatalf("replayed %+v, %v", a, err)
		}
		gone := b.ev("1", 0)
		gone.Gone, gone.Refresh = true, true
		b.admit(gone)
		jb := b.one()
		is(b, "removal of "+jb.Key, jb.Write(b.flow).Removal, connectors.Delete)
		b.want("B", jobs.Done, jobs.ReasonIgnored)
	}},
	{"a key refused because another record has it does not take the old one away", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		for range 3 { // the change, and the overlap
			b.pass(time.Second)
			is(b, "collided", b.admit(b.ev("1", 11, "B", "one")).Collided, 1)
			b.none()
			b.want("A", jobs.Done, jobs.ReasonNone)
			is(b, "owner of A", b.row("A").SourceID, "1")
		}
		b.flow.OnRename = "recreate"
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "C", "two")) // frees B
		b.admit(b.ev("1", 11, "B", "one"))
		b.body("B", "one")
		b.stands("B", "C")
		is(b, "A is desired gone", b.row("A").Gone, true)
	}},
	{"a refused key that another record claims meanwhile stays with the one it was refused to", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.keyRefused(10)
		is(b, "collided", b.admit(b.ev("2", 10, "B", "two")).Collided, 1)
		b.flow.OnRename = "recreate"
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.body("B", "x")
		b.stands("B")
		b.admit(b.ev("1", 12, "C", "x"))
		b.body("B", "two")
		b.stands("B", "C")
	}},
	{"a claim to another record's key ends when the claimant's next key is refused", func(b *bench) {
		b.admit(b.ev("1", 10, "D", "one"), b.ev("2", 10, "B", "two", "D", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "E", "two"))
		b.want("E", jobs.Dead, jobs.ReasonRenamed)
		is(b, "colliding", b.contended(), 0)
		b.pass(time.Second)
		b.admit(b.ev("1", 11)) // nobody follows it
		is(b, "owner of D", b.row("D").SourceID, "")
		is(b, "D is desired gone", b.row("D").Gone, true)
	}},
	{"an old key that another record takes over does not keep the refused one closed", func(b *bench) {
		for _, rename := range []string{"recreate", "rename"} {
			b.write(rename, rename)
			b.flow.OnDelete = "delete"
			b.keyRefused(10)
			is(b, "collided", b.admit(b.ev("2", 10, "A", "two")).Collided, 1)
			b.flow.OnRename = rename
			b.pass(time.Second)
			b.admit(b.ev("1", 11, "B", "x"))
			b.body("A", "two")
			b.stands("A", "B")
		}
	}},
	{"a key that comes to another record is opened although a person had given it up", func(b *bench) {
		b.flow.OnVanish = "keep"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "c", "m"))
		if _, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, "no"); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11))
		b.none()
		b.admit(b.ev("2", 10, "A", "x"))
		is(b, "key", b.one().Key, "A")
	}},
}

// allowed has a change of key refused, edits the flow, and has the record read once more.
func (b *bench) allowed(rename, remove string, was, by int64, content string, discarded bool) {
	b.Helper()
	b.keyRefused(was)
	if was > 0 {
		was++
	}
	if discarded {
		if _, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: b.flow.Name, Key: "B"}}, "no"); err != nil {
			b.Fatal(err)
		}
	}
	b.flow.OnRename = rename
	what := fmt.Sprintf("%s, %s, version %d + %d, content %s, discarded %v: ", rename, remove, was, by, content, discarded)
	b.admit(b.ev("1", was+by, "B", content))
	r := b.row("B")
	is(b, what+"state", r.State, jobs.Ready)
	is(b, what+"reason", r.Reason, jobs.ReasonNone)
	is(b, what+"owner", r.SourceID, "1")
	is(b, what+"body", string(r.Body), `{"v":"`+content+`"}`)
	is(b, what+"the old key is gone", b.row("A").Gone, true)
	if rename == "rename" {
		is(b, what+"from", r.RenamedFrom, "A")
	}
	b.stands("B")
}
