package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// bind ties the flows as the daemon does when it starts.
func (b *bench) bind() []jobs.Change {
	b.Helper()
	cs, err := b.journal.Bind(context.Background(), b.flows)
	if err != nil {
		b.Fatalf("bind: %v", err)
	}
	return cs
}

// refused binds, and wants the one change that keeps the daemon from starting.
func (b *bench) refused(fields ...string) jobs.Change {
	b.Helper()
	_, err := b.journal.Bind(context.Background(), b.flows)
	var ce *jobs.ChangedError
	if !errors.As(err, &ce) || len(ce.Changes) != 1 {
		b.Fatalf("bind: %v, want one change", err)
	}
	seen, err := b.journal.Changes(context.Background(), b.flows)
	if err != nil || len(seen) != 1 || seen[0].Token != ce.Changes[0].Token {
		b.Fatalf("a look at the changes shows %+v (%v), and the start was refused for %+v", seen, err, ce.Changes)
	}
	c := ce.Changes[0]
	var got []string
	for _, d := range c.Differences {
		got = append(got, d.Field)
	}
	if !slices.Equal(got, fields) {
		b.Fatalf("%v differ, want %v", got, fields)
	}
	return c
}

// tied is the bench's flow with everything that ties its records.
func tied(b *bench) {
	b.flow.SourceIDs, b.flow.Versions = "id", "updated_at, a time"
	b.flow.KeyField, b.flow.Key, b.flow.KeyConstants = "ref", `$vars.prefix + .number`, map[string]string{"prefix": "SHOP-"}
	b.bind()
}

var bindingRules = []rule{
	{"a flow that has rows is refused when what ties its records is another", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"), b.ev("3", 10, "C", "x"))
		for _, jb := range b.claim() {
			switch jb.Key {
			case "A":
				b.settle(jb, applied)
			case "B":
				b.settle(jb, unknown)
			default:
				b.settle(jb, connectors.Fail(connectors.Invalid, "http_422", "no"))
			}
		}
		before := *b.flow
		for field, change := range map[string]func(f *jobs.Flow){
			"from.client":         func(f *jobs.Flow) { f.SourceClient = "other" },
			"from.stream":         func(f *jobs.Flow) { f.Stream = "other" },
			"from.stream.id":      func(f *jobs.Flow) { f.SourceIDs = "number" },
			"from.stream.version": func(f *jobs.Flow) { f.Versions = "rev, a number" },
			"to.client":           func(f *jobs.Flow) { f.Client = "other" },
			"to.entity":           func(f *jobs.Flow) { f.Entity = "other" },
			"to.entity.key_field": func(f *jobs.Flow) { f.KeyField = "other" },
			"to.strategy":         func(f *jobs.Flow) { f.Strategy = connectors.Lookup },
			"key":                 func(f *jobs.Flow) { f.Key = `$vars.prefix + .id` },
			"vars.prefix":         func(f *jobs.Flow) { f.KeyConstants = map[string]string{"prefix": "WEB-"} },
		} {
			change(b.flow)
			c := b.refused(field)
			is(b, "done", c.Done, int64(1))
			is(b, "open", c.Open, int64(1))
			is(b, "dead", c.Dead, int64(1))
			is(b, "unresolved", c.Unresolved, int64(1))
			*b.flow = before
			is(b, "changes accepted once it is put back", len(b.bind()), 0)
		}
	}},
	{"white space and comments of the key do not count", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Key = "# for ever\n  $vars.prefix+.number"
		b.bind()
	}},
	{"a flow without rows or a cursor is free to change", func(b *bench) {
		tied(b)
		b.flow.Client, b.flow.Key = "other", ".id"
		is(b, "accepted", len(b.bind()), 0)
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Client = "erp"
		is(b, "what it was", b.refused("to.client").Differences[0].Was, "other")
	}},
	{"a cursor alone ties a flow", func(b *bench) {
		tied(b)
		_, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: b.flow, Move: true, Next: json.RawMessage(`1`)})
		is(b, "error", err, nil)
		b.flow.Entity = "other"
		b.refused("to.entity")
	}},
	{"what is tied to a client, an entity or a stream cannot be accepted away", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Client, b.flow.Key = "other", ".id"
		is(b, "token", b.refused("to.client", "key").Token, "")
		b.flow.Client, b.flow.AcceptChange = "erp", ""
		is(b, "accepted without a token", b.refused("key").Accepted, false)
	}},
	{"what ids and versions are made of cannot be accepted away", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.SourceIDs, b.flow.Versions, b.flow.Key = "number", "the order of reading", ".id"
		c := b.refused("from.stream.id", "from.stream.version", "key")
		is(b, "token", c.Token, "")
		is(b, "was", c.Differences[1].Was, "updated_at, a time")
	}},
	{"a flow tied before it was kept what ids and versions are made of takes what they are now", func(b *bench) {
		b.bind()
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Key = ".id"
		before := b.refused("key").Token
		b.flow.SourceIDs, b.flow.Versions = "id", "updated_at, a time"
		is(b, "the token of another change", b.refused("key").Token, before)
		b.flow.Key = ""
		is(b, "accepted", len(b.bind()), 0)
		b.restart()
		b.flow.Versions = "rev, a number"
		b.refused("from.stream.version")
		b.flow.Versions, b.flow.SourceIDs = "updated_at, a time", "number"
		b.refused("from.stream.id")
	}},
	{"a token lets exactly the change pass that it stands for", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		seen := map[string]bool{}
		change := func(to string) {
			b.flow.Key = to
			tok := b.refused("key").Token
			if seen[tok] {
				b.Fatalf("the change to %s has the token of another one", to)
			}
			seen[tok] = true
		}
		change(".sku") // one of two ways from here, and not taken
		for _, to := range []string{".id", ".name", ".sku"} {
			change(to)
			b.flow.AcceptChange = b.refused("key").Token
			is(b, "accepted", len(b.bind()), 1)
			b.restart()
			is(b, "accepted again", len(b.bind()), 0)
		}
		change(".id") // from elsewhere than the first time
	}},
	{"another strategy is accepted when no write in doubt may be at work any more", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		late := map[string]*jobs.Job{}
		for _, jb := range b.claim() {
			late[jb.Key] = jb
		}
		b.settle(late["B"], unknown)
		b.pass(10 * time.Second)
		at := b.at
		b.settle(late["A"], unknown)
		b.flow.Strategy = connectors.Lookup
		b.flow.AcceptChange = b.refused("to.strategy").Token
		b.pass(b.flow.SettleTime - time.Second)
		c := b.refused("to.strategy")
		is(b, "until", c.Until, at.Add(b.flow.SettleTime))
		b.pass(time.Second)
		is(b, "accepted", len(b.bind()), 1)
	}},
	{"a write that an ended daemon left under way is waited for too", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		b.one()
		b.restart()
		b.recover()
		b.flow.Strategy = connectors.Lookup
		b.flow.AcceptChange = b.refused("to.strategy").Token
		is(b, "accepted", b.refused("to.strategy").Accepted, false)
		b.pass(b.flow.SettleTime)
		is(b, "accepted later", len(b.bind()), 1)
	}},
	{"a token of one flow is none of another's", func(b *bench) {
		tied(b)
		other := *b.flow
		other.Name = "products"
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Key = ".id"
		one := b.refused("key").Token
		b.flows = map[string]*jobs.Flow{"products": &other}
		b.bind()
		if _, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: &other, Items: []jobs.Item{b.ev("1", 10, "A", "x")}}); err != nil {
			b.Fatal(err)
		}
		other.Key = ".id"
		if b.refused("key").Token == one {
			b.Fatal("both flows have the same token")
		}
	}},
	{"while one flow is refused nothing is stored of any", func(b *bench) {
		tied(b)
		b.admit(b.ev("1", 10, "A", "x"))
		kept := b.flow.Client
		b.flow.Client = "other"
		fresh := *b.flow
		fresh.Name = "products"
		b.flows["products"] = &fresh
		b.refused("to.client")
		b.flow.Client = kept
		if _, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: &fresh, Items: []jobs.Item{b.ev("1", 10, "A", "x")}}); err != nil {
			b.Fatal(err)
		}
		fresh.Key = ".never.stored"
		is(b, "accepted", len(b.bind()), 0)
	}},
	{"a journal from before is tied to the flow as it is, if its rows are written there", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow.Entity = "other"
		c := b.refused("to.entity")
		is(b, "what it was", c.Differences[0].Was, "order")
		b.flow.Entity = "order"
		is(b, "accepted", len(b.bind()), 0)
		b.flow.Key = ".id"
		b.refused("key")
	}},
	{"after an accepted change of the key on_rename says what becomes of each record", func(b *bench) {
		for i, on := range []string{"refuse", "rename", "recreate"} {
			b.flow.OnRename = on
			source, before, after := on, on+"-old", on+"-new"
			b.flow.Key = ".old"
			if i > 0 {
				b.flow.AcceptChange = b.refused("key").Token
			}
			b.bind()
			b.admit(b.ev(source, 10, before, "x"))
			b.apply()
			b.flow.Key = ".new"
			b.flow.AcceptChange = b.refused("key").Token
			is(b, "accepted", len(b.bind()), 1)
			b.none() // nothing happens before the record is read again
			b.pass(time.Second)
			b.admit(b.ev(source, 10, after, "x"))
			switch on {
			case "refuse":
				b.none()
				b.want(after, jobs.Dead, jobs.ReasonRenamed)
				b.want(before, jobs.Done, jobs.ReasonNone)
			case "rename":
				is(b, "link", b.apply().Link, `7`)
				b.want(before, jobs.Done, jobs.ReasonRenamed)
			default:
				is(b, "link", b.apply().Link, "")
				b.want(before, jobs.Done, jobs.ReasonIgnored)
			}
		}
	}},
	{"a source record of several keys is not renamed when all of them change", func(b *bench) {
		b.flow.Key, b.flow.OnDelete = ".old", "archive"
		b.bind()
		b.admit(b.ev("1", 10, "A", "x", "B", "x"))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		b.flow.Key = ".new"
		b.flow.AcceptChange = b.refused("key").Token
		b.bind()
		b.pass(time.Second)
		b.admit(b.ev("1", 10, "C", "x", "D", "x"))
		for _, jb := range b.claim() {
			is(b, jb.Key+" is gone", jb.Gone, jb.Key < "C")
			b.settle(jb, applied)
		}
		for _, key := range []string{"A", "B", "C", "D"} {
			b.want(key, jobs.Done, jobs.ReasonNone)
		}
	}},
}
