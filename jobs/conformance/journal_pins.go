package conformance

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// keyed has the bench's flow create under idempotency keys.
func (b *bench) keyed() { b.flow.Strategy = connectors.IdempotencyKey }

// pinned is what a strategy pins before it sends a create of a job.
func (b *bench) pinned(jb *jobs.Job, epoch int64) jobs.Pin {
	return jobs.Pin{RowID: jb.RowID, Operation: "create", Epoch: epoch, Key: "k", Body: jb.Body,
		Generation: jb.Generation, Hash: jb.Hash, FirstSentAt: b.at}
}

func (b *bench) pin(jb *jobs.Job, epoch int64) {
	b.Helper()
	if err := b.journal.PutPin(context.Background(), "erp", b.pinned(jb, epoch)); err != nil {
		b.Fatal(err)
	}
}

// refusedPin expects that the journal refuses a pin, and why.
func (b *bench) refusedPin(p jobs.Pin, want string) {
	b.Helper()
	if err := b.journal.PutPin(context.Background(), "erp", p); err == nil || !strings.Contains(err.Error(), want) {
		b.Fatalf("the pin of epoch %d: %v, want %q", p.Epoch, err, want)
	}
}

var pinRules = []rule{
	{"what is pinned comes with the next claim in the same bytes, under newer versions and after a crash", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		if jb.Pin != nil {
			b.Fatalf("a new job has a pin: %+v", jb.Pin)
		}
		b.pin(jb, 0)
		first := b.at
		b.restart()
		b.recover()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.pass(time.Hour)
		jb = b.one()
		p := jb.Pin
		if p == nil || string(p.Body) != `{"v":"x"}` || p.Key != "k" || !p.FirstSentAt.Equal(first) || p.Generation != 1 {
			b.Fatalf("the pin is %+v", p)
		}
		is(b, "desired", string(jb.Body), `{"v":"y"}`)
		b.settle(jb, unknown)
		b.pass(time.Hour)
		if p := b.one().Pin; p == nil || string(p.Body) != `{"v":"x"}` {
			b.Fatalf("after another lost answer the pin is %+v", p)
		}
	}},
	{"a key that was used is never used again, whatever came of it", func(b *bench) {
		b.keyed()
		for i, o := range []connectors.Outcome{
			{Class: connectors.Applied, Link: `7`},
			connectors.Fail(connectors.Invalid, "http_422", "refused"),
			connectors.Fail(connectors.Throttled, "http_429", "too many"),
		} {
			key := string(rune('A' + i))
			b.admit(b.ev(key, 10, key, "x"))
			jb := b.one()
			b.pin(jb, 0)
			b.settle(jb, o)
			is(b, key+": key epoch after "+string(o.Class), b.row(key).KeyEpoch, int64(1))
			b.pass(time.Hour)
			b.admit(b.ev(key, 11, key, "y"))
			jb = b.one()
			if jb.Pin != nil || jb.KeyEpoch != 1 {
				b.Fatalf("%s: the next job has epoch %d and pin %+v", key, jb.KeyEpoch, jb.Pin)
			}
			b.refusedPin(b.pinned(jb, 0), "key epoch 0 is over")
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
			b.pass(time.Second)
		}
	}},
	{"while a write is in doubt its key and bytes cannot be replaced, only followed by a key of a later epoch", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.pass(time.Hour)
		jb = b.one()
		b.refusedPin(b.pinned(jb, 0), "in doubt")
		b.pin(jb, 1)
		is(b, "key epoch", b.row("A").KeyEpoch, int64(1))
		b.settle(jb, unknown)
		b.pass(time.Hour)
		jb = b.one()
		if jb.Pin == nil || jb.Pin.Epoch != 1 {
			b.Fatalf("the pin is %+v", jb.Pin)
		}
		b.refusedPin(b.pinned(jb, 0), "is over")
	}},
	{"an error that the target keeps ends the key, and the doubt stays", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, connectors.Fail(connectors.Unknown, jobs.CodeKeptError, "http_500"))
		r := b.want("A", jobs.Ready, jobs.ReasonUnresolved)
		is(b, "key epoch", r.KeyEpoch, int64(1))
		b.pass(time.Hour)
		if p := b.one().Pin; p != nil {
			b.Fatalf("the pin is %+v", p)
		}
	}},
	{"a flow that meets a record in doubt by another flow's create gets that flow's pin", func(b *bench) {
		b.keyed()
		second := *b.flow
		second.Name = "prices"
		b.flows["prices"] = &second
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.pass(time.Second)
		b.flow = &second
		b.admit(b.ev("1", 10, "A", "y"))
		jb = b.one()
		is(b, "flow", jb.Flow, "prices")
		if jb.Pin == nil || jb.Pin.Flow != "orders" || string(jb.Pin.Body) != `{"v":"x"}` {
			b.Fatalf("the pin is %+v", jb.Pin)
		}
		// Where that one's key is used up, so is this one's: they are the same.
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.flow = b.flows["orders"]
		b.pass(time.Hour)
		jb = b.one()
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.flow = &second
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "z"))
		is(b, "key epoch", b.one().KeyEpoch, int64(1))
	}},
	{"a record that changes its key leaves no idempotency key behind", func(b *bench) {
		b.keyed()
		b.flow.OnRename = "rename"
		b.flow.CanRename = true
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "B", "x"))
		is(b, "key epoch of the old key", b.row("A").KeyEpoch, int64(1))
		b.pass(time.Hour)
		jb = b.one()
		if jb.Key != "B" || jb.Pin != nil || !jb.Unresolved() {
			b.Fatalf("claimed %s, pin %+v, in doubt %v", jb.Key, jb.Pin, jb.Unresolved())
		}
	}},
	{"the secret is made once and kept", func(b *bench) {
		ctx := context.Background()
		first, err := b.journal.Secret(ctx)
		if err != nil || len(first) != 32 {
			b.Fatalf("%d bytes, %v", len(first), err)
		}
		b.restart()
		again, err := b.journal.Secret(ctx)
		if err != nil || string(again) != string(first) {
			b.Fatalf("another one after a restart, %v", err)
		}
	}},
	{"the secret is there before anybody needs it, so that every backup has it", func(b *bench) {
		ctx := context.Background()
		var m map[string]string
		err := b.engine.View(ctx, func(tx jobs.Tx) (err error) {
			m, err = tx.Meta(ctx)
			return err
		})
		secret, serr := b.journal.Secret(ctx)
		if err := errors.Join(err, serr); err != nil || m["idempotency_secret"] != hex.EncodeToString(secret) {
			b.Fatalf("a new journal has %d bytes of a secret, %v", len(m["idempotency_secret"])/2, err)
		}
	}},
	{"of daemons that need the secret first at the same time one makes it", func(b *bench) {
		ctx := context.Background()
		err := b.engine.Update(ctx, func(tx jobs.Tx) error { return tx.PutMeta(ctx, "idempotency_secret", "") })
		if err != nil {
			b.Fatal(err)
		}
		const n = 8
		type made struct {
			secret string
			err    error
		}
		got := make(chan made, n)
		for range n {
			j := jobs.New(b.engine, jobs.Options{Owner: "daemon-x"})
			go func() {
				s, err := j.Secret(ctx)
				got <- made{string(s), err}
			}()
		}
		seen := map[string]bool{}
		var errs []error
		for range n {
			m := <-got
			seen[m.secret] = true
			errs = append(errs, m.err)
		}
		if err := errors.Join(errs...); err != nil || len(seen) != 1 {
			b.Fatalf("%d secrets, %v", len(seen), err)
		}
	}},
}
