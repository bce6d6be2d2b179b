package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var admissionRules = []rule{
	{"an event makes one job, and its repetition none", func(b *bench) {
		is(b, "new", b.admit(b.ev("1", 10, "A", "x")).New, 1)
		is(b, "unchanged", b.admit(b.ev("1", 10, "A", "x")).Unchanged, 1)
		b.apply()
		b.admit(b.ev("1", 10, "A", "x"))
		b.none()
		is(b, "generation", b.row("A").Generation, int64(1))
	}},
	{"versions not written yet coalesce into the newest", func(b *bench) {
		for i := range int64(5) {
			b.pass(time.Second)
			b.admit(b.ev("1", 10+i, "A", string(rune('a'+i))))
		}
		jb := b.apply()
		is(b, "body", string(jb.Body), `{"v":"e"}`)
		is(b, "generation", jb.Generation, int64(5))
		b.none()
	}},
	{"an older version never replaces a newer one", func(b *bench) {
		b.admit(b.ev("1", 20, "A", "new"))
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", 19, "A", "old")).Older, 1)
		b.body("A", "new")
	}},
	{"at equal versions the later reading wins, not the later admission", func(b *bench) {
		early := b.ev("1", 10, "A", "early")
		b.pass(time.Second)
		b.admit(b.ev("1", 10, "A", "late"))
		is(b, "older", b.admit(early).Older, 1)
		b.body("A", "late")
		b.pass(time.Second)
		is(b, "changed", b.admit(b.ev("1", 10, "A", "later still")).Changed, 1)
	}},
	{"a record without a version is ordered by reading", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "a"))
		b.pass(time.Second)
		b.admit(b.ev("1", 0, "A", "b"))
		b.body("A", "b")
		b.pass(time.Second)
		b.admit(b.ev("1", 9, "A", "c"))
		b.body("A", "b")
	}},
	{"a version of 0 that the source gave is an older one, and not a missing one", func(b *bench) {
		zero := func(content string) jobs.Item {
			it := b.ev("1", 0, "A", content)
			it.Versioned = true
			return it
		}
		b.admit(zero("first"))
		b.pass(time.Second)
		b.admit(b.ev("1", 5, "A", "newer"))
		b.pass(time.Second)
		is(b, "older", b.admit(zero("late")).Older, 1)
		b.body("A", "newer")
	}},
	{"versions below 0 are in order among themselves and before 0", func(b *bench) {
		b.admit(b.ev("1", -5, "A", "first"))
		is(b, "version of a new row", b.row("A").Desired.Version, int64(-5))
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", -9, "A", "late")).Older, 1)
		b.body("A", "first")
		b.pass(time.Second)
		zero := b.ev("1", 0, "A", "zero")
		zero.Versioned = true
		is(b, "changed", b.admit(zero).Changed, 1)
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", -1, "A", "late again")).Older, 1)
		b.body("A", "zero")
	}},
	{"the same content at a newer version writes nothing but is remembered", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "x"))
		b.none()
		is(b, "version", b.row("A").Desired.Version, int64(11))
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", 10, "A", "y")).Older, 1)
	}},
	{"content that went and came back before a write needs no write", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"))
		b.none()
		b.want("A", jobs.Done, jobs.ReasonNone)
	}},
	{"an event that comes while its record is written is written after it", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		next := b.one()
		is(b, "body", string(next.Body), `{"v":"y"}`)
		is(b, "link", next.Link, `7`)
	}},
	{"content that came back while another was written is written again", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"))
		b.settle(jb, connectors.Outcome{Class: connectors.Applied})
		is(b, "body", string(b.one().Body), `{"v":"x"}`)
	}},
	{"the cursor moves with its page or not at all", func(b *bench) {
		ctx := context.Background()
		first := jobs.Admission{Flow: b.flow, Move: true, From: nil, Next: json.RawMessage(`1`), Items: []jobs.Item{b.ev("1", 10, "A", "x")}}
		if _, err := b.journal.Admit(ctx, first); err != nil {
			b.Fatal(err)
		}
		if _, err := b.journal.Admit(ctx, first); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("a page after a cursor that moved gave %v", err)
		}
		bad := jobs.Admission{Flow: b.flow, Move: true, From: json.RawMessage(`0`), Next: json.RawMessage(`2`), Items: []jobs.Item{b.ev("2", 10, "B", "x")}}
		if _, err := b.journal.Admit(ctx, bad); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("a page after another cursor gave %v", err)
		}
		if _, ok, _ := b.journal.Get(ctx, jobs.RowID{Flow: "orders", Key: "B"}); ok {
			b.Fatal("a refused page left a row")
		}
		fs, err := b.journal.Cursor(ctx, "orders")
		if err != nil || string(fs.Cursor) != `1` {
			b.Fatalf("cursor %s, %v", fs.Cursor, err)
		}
	}},
	{"a part of a page leaves the cursor and the count of beginnings as they are", func(b *bench) {
		ctx := context.Background()
		if _, err := b.journal.BeginPage(ctx, "orders", "s"); err != nil {
			b.Fatal(err)
		}
		part := jobs.Admission{Flow: b.flow, Part: true, Next: json.RawMessage(`1`), Items: []jobs.Item{b.ev("1", 10, "A", "x")}}
		if a, err := b.journal.Admit(ctx, part); err != nil || a.New != 1 {
			b.Fatalf("%+v, %v", a, err)
		}
		fs, err := b.journal.Cursor(ctx, "orders")
		if err != nil || fs.Cursor != nil || fs.PageStarts != 1 || fs.Suspect != "s" {
			b.Fatalf("%+v, %v", fs, err)
		}
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, Next: json.RawMessage(`1`)}); err != nil {
			b.Fatal(err)
		}
		part.Items = []jobs.Item{b.ev("2", 10, "B", "x")}
		if _, err := b.journal.Admit(ctx, part); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("a part of a page after a cursor that moved gave %v", err)
		}
		if _, ok, _ := b.journal.Get(ctx, jobs.RowID{Flow: "orders", Key: "B"}); ok {
			b.Fatal("a refused part left a row")
		}
	}},
	{"beginnings of a page are counted until it is admitted", func(b *bench) {
		ctx := context.Background()
		for i := range 3 {
			fs, err := b.journal.BeginPage(ctx, "orders", "s")
			if err != nil || fs.PageStarts != i {
				b.Fatalf("beginning %d: counted %d, %v", i, fs.PageStarts, err)
			}
		}
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, Next: json.RawMessage(`1`)}); err != nil {
			b.Fatal(err)
		}
		fs, _ := b.journal.Cursor(ctx, "orders")
		is(b, "starts", fs.PageStarts, 0)
		is(b, "suspect", fs.Suspect, "")
	}},
	{"the beginning of the next page is counted with the admission of the one before it", func(b *bench) {
		ctx := context.Background()
		if _, err := b.journal.BeginPage(ctx, "orders", "s"); err != nil {
			b.Fatal(err)
		}
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, Begin: true, Next: json.RawMessage(`1`)}); err != nil {
			b.Fatal(err)
		}
		fs, err := b.journal.BeginPage(ctx, "orders", "")
		if err != nil || fs.PageStarts != 1 || fs.Suspect != "" {
			b.Fatalf("%+v, %v", fs, err)
		}
	}},
	{"an event that cannot be mapped is a dead letter of its own and holds nobody back", func(b *bench) {
		bad := b.ev("2", 10)
		bad.Problem, bad.Raw = "price is missing", json.RawMessage(`{"id":2}`)
		noID := jobs.Item{Observed: b.at, Problem: "the record has no id", Raw: json.RawMessage(`{"x":1}`)}
		a := b.admit(b.ev("1", 10, "A", "x"), bad, noID, b.ev("3", 10, "C", "x"))
		is(b, "rejected", a.Rejected, 2)
		is(b, "new", a.New, 2)
		r := b.want("@2", jobs.Dead, jobs.ReasonMapping)
		is(b, "raw", string(r.Body), `{"id":2}`)
		is(b, "message", r.LastMessage, "price is missing")
		is(b, "due", len(b.claim()), 2)
		again := b.ev("2", 10)
		again.Problem, again.Raw = bad.Problem, bad.Raw
		is(b, "told again", b.admit(again, noID).Rejected, 0)
	}},
	{"every event of a page is counted, each once", func(b *bench) {
		bad := func(id string) jobs.Item {
			it := b.ev(id, 10)
			it.Problem, it.Raw = "price is missing", json.RawMessage(`{"v":"?"}`)
			return it
		}
		b.flow.OnDelete = "delete"
		b.admit(b.ev("same", 10, "A", "x"), b.ev("newer", 10, "B", "x"), b.ev("older", 10, "C", "x"), b.ev("deleted", 10, "D", "x"), bad("bad before"))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		b.pass(time.Second)
		deleted := b.ev("deleted", 0)
		deleted.Gone = true
		a := b.admit(b.ev("new", 10, "E", "x"), b.ev("same", 10, "A", "x"), b.ev("newer", 11, "B", "y"), b.ev("older", 9, "C", "w"), deleted,
			b.ev("another's key", 10, "A", "z"), bad("bad"), bad(""), bad("bad before"), b.ev("new", 10, "E", "x"))
		is(b, "counts", a, jobs.Admitted{Events: 10, Pairs: 6, New: 1, Changed: 1, Unchanged: 3, Older: 1, Gone: 1, Collided: 1, Rejected: 2})
		is(b, "sum", a.New+a.Changed+a.Unchanged+a.Older+a.Gone+a.Collided+a.Rejected, a.Events)
	}},
	{"a dead letter of mapping ends when its record maps", func(b *bench) {
		b.admit(b.ev("2", 9, "B", "old"))
		b.apply()
		b.pass(time.Second)
		bad := b.ev("2", 10)
		bad.Problem, bad.Raw = "price is missing", json.RawMessage(`{"id":2}`)
		b.admit(bad)
		b.want("B", jobs.Done, jobs.ReasonNone)
		b.pass(time.Second)
		b.admit(b.ev("2", 11, "B", "x"))
		b.want("@2", jobs.Done, jobs.ReasonSuperseded)
		is(b, "body", string(b.one().Body), `{"v":"x"}`)
	}},
}
