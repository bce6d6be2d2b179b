package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var keyRules = []rule{
	{"a record that maps to nothing any more and was never written is not created", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(time.Second)
		b.admit(b.ev("1", 11))
		b.none()
		b.want("A", jobs.Done, jobs.ReasonIgnored)
	}},
	{"a vanished key of a written record is removed as on_delete says", func(b *bench) {
		b.flow.OnDelete = "archive"
		b.admit(b.ev("1", 10, "A", "x", "B", "x"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		}
		b.pass(time.Second)
		is(b, "gone", b.admit(b.ev("1", 11, "A", "x")).Gone, 1)
		jb := b.one()
		is(b, "key", jb.Key, "B")
		is(b, "removal", jb.Write(b.flow).Removal, connectors.Archive)
		b.settle(jb, connectors.Outcome{Class: connectors.Applied})
		b.none()
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x", "B", "x"))
		is(b, "back", b.one().Key, "B")
	}},
	{"on_vanish keep leaves a vanished key as it is", func(b *bench) {
		b.flow.OnVanish, b.flow.OnDelete = "keep", "delete"
		b.admit(b.ev("1", 10, "A", "x", "B", "x"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "x"))
		b.none()
		b.want("B", jobs.Done, jobs.ReasonNone)
	}},
	{"a deletion is a version: older states stay out, a later reading alive wins", func(b *bench) {
		b.flow.OnDelete = "delete"
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		late := b.ev("1", 10, "A", "late")
		b.pass(time.Second)
		gone := b.ev("1", 0)
		gone.Gone = true
		b.admit(gone)
		is(b, "removal", b.one().Write(b.flow).Removal, connectors.Delete)
		is(b, "older", b.admit(late).Older, 1)
		b.pass(time.Second)
		b.admit(b.ev("1", 9, "A", "alive"))
		b.body("A", "alive")
		if b.row("A").Gone {
			b.Fatal("a record read alive later is still gone")
		}
	}},
	{"an entry of a log comes back from a deletion only by its version", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(time.Second)
		gone := b.ev("1", 11)
		gone.Gone, gone.Log = true, true
		b.admit(gone)
		b.pass(time.Second)
		replayed := b.ev("1", 10, "A", "x")
		replayed.Log = true
		is(b, "older", b.admit(replayed).Older, 1)
	}},
	{"an older tombstone does not remove a newer record", func(b *bench) {
		b.admit(b.ev("1", 12, "A", "x"))
		b.pass(time.Second)
		gone := b.ev("1", 11)
		gone.Gone = true
		is(b, "older", b.admit(gone).Older, 1)
	}},
	{"a key has one owner; another claimant waits and follows when the owner lets go", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"))
		b.pass(time.Second)
		is(b, "collided", b.admit(b.ev("2", 10, "A", "two")).Collided, 1)
		b.body("A", "one")
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "A", "two again"))
		b.admit(b.ev("1", 11, "A", "one again"))
		b.body("A", "one again")
		b.pass(time.Second)
		b.admit(b.ev("1", 12))
		b.body("A", "two again")
		is(b, "owner", b.row("A").SourceID, "2")
		b.want("A", jobs.Ready, jobs.ReasonNone)
	}},
	{"a claimant that goes elsewhere no longer waits", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"))
		b.admit(b.ev("2", 10, "A", "two"))
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "B", "two"))
		b.admit(b.ev("1", 11, "C", "one"))
		b.want("A", jobs.Done, jobs.ReasonIgnored)
	}},
	{"a swap of two keys ends as the source has it", func(b *bench) {
		b.flow.OnRename = "recreate"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"))
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "A", "two"))
		b.body("A", "two")
		b.body("B", "one")
		is(b, "jobs", len(b.claim()), 2)
	}},
	{"a swap within one page ends as the source has it", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "two"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "one"), b.ev("2", 11, "A", "two"))
		b.body("A", "two")
		b.body("B", "one")
		for _, jb := range b.claim() {
			is(b, "link of "+jb.Key, jb.Link, `"`+jb.Key+`"`)
		}
	}},
	{"a changed key is refused by default, and the refusal is not forgotten", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		for i := range int64(3) {
			b.pass(time.Second)
			b.admit(b.ev("1", 11+i, "B", string(rune('a'+i))))
			b.none()
			b.want("B", jobs.Dead, jobs.ReasonRenamed)
			b.want("A", jobs.Done, jobs.ReasonNone)
		}
		b.pass(time.Second)
		b.admit(b.ev("1", 20, "A", "back"))
		is(b, "key", b.one().Key, "A")
		if r := b.row("B"); r.State == jobs.Dead {
			b.Fatal("the refused key is still dead although the record has its old one again")
		}
	}},
	{"on_rename rename takes the link along", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		jb := b.one()
		is(b, "key", jb.Key, "B")
		is(b, "link", jb.Link, `7`)
		is(b, "from", jb.RenamedFrom, "A")
		b.want("A", jobs.Done, jobs.ReasonRenamed)
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.none()
	}},
	{"on_rename rename takes a write in doubt along", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		if !b.row("B").Unresolved() {
			b.Fatal("the record under its new key is no longer in doubt")
		}
	}},
	{"a key that very many claim is handed on in a page of those who let it go, and they are read once", func(b *bench) {
		c := &claimReads{Engine: b.engine}
		b.journal = jobs.New(c, jobs.Options{Owner: "daemon-1"})
		var claim, leave []jobs.Item
		for i := range 30 {
			id := fmt.Sprintf("s%02d", i)
			claim, leave = append(claim, b.ev(id, 1, "K", id)), append(leave, b.ev(id, 2))
		}
		b.admit(claim...)
		b.pass(time.Second)
		// Out of order, so that some let go before they have it; one claims it anew behind the last.
		page := append([]jobs.Item{leave[7]}, leave[:7]...)
		page = append(append(page, leave[8:25]...), b.ev("s27", 2, "K", "anew"))
		c.reads = 0
		b.admit(page...)
		if c.reads > 3 {
			b.Errorf("the claims were read %d times", c.reads)
		}
		is(b, "owner", b.row("K").SourceID, "s25")
		b.body("K", "s25")
		b.pass(time.Second)
		b.admit(leave[25:27]...)
		is(b, "owner", b.row("K").SourceID, "s28")
		leave[27].Version = 3
		b.admit(leave[28:]...)
		is(b, "owner", b.row("K").SourceID, "s27")
		b.body("K", "anew")
		b.admit(leave[27])
		is(b, "owner", b.row("K").SourceID, "")
	}},
	{"a key that changes before anything was written is no renaming", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		is(b, "key", b.one().Key, "B")
		b.want("A", jobs.Done, jobs.ReasonIgnored)
	}},
	{"a key that changes while its create is on the wire is a renaming", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		b.want("B", jobs.Dead, jobs.ReasonRenamed)
	}},
}

// claimReads counts how often contenders are read.
type claimReads struct {
	jobs.Engine
	reads int
}

type claimReadsTx struct {
	jobs.Tx
	c *claimReads
}

func (c *claimReads) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return c.Engine.Update(ctx, func(tx jobs.Tx) error { return fn(claimReadsTx{tx, c}) })
}

func (t claimReadsTx) Contenders(ctx context.Context, flow string, keys []string) ([]jobs.Contender, error) {
	t.c.reads++
	return t.Tx.Contenders(ctx, flow, keys)
}
