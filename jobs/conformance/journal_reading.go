package conformance

import (
	"context"
	"encoding/json"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var readingRules = []rule{
	{"trouble with reading keeps its beginning and tells its newest reason", func(b *bench) {
		b.readWell()
		began := b.at.Add(time.Minute)
		for _, code := range []string{"http_503", "timeout"} {
			b.pass(time.Minute)
			b.readFailed(code)
		}
		b.reading(jobs.FlowState{Flow: "orders", ReadAt: began.Add(-time.Minute),
			Failing: jobs.Failing{Since: began, Class: connectors.Transient, Code: "timeout", Message: "no answer"}})
	}},
	{"a good reading ends trouble, whether it brought something or not", func(b *bench) {
		b.readFailed("http_503")
		b.pass(time.Minute)
		b.readWell()
		b.reading(jobs.FlowState{Flow: "orders", ReadAt: b.at})
		b.readFailed("http_503")
		b.pass(time.Minute)
		if _, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: b.flow, Move: true, Next: json.RawMessage(`1`)}); err != nil {
			b.Fatal(err)
		}
		b.reading(jobs.FlowState{Flow: "orders", Cursor: json.RawMessage(`1`), ReadAt: b.at})
	}},
	{"noting how reading goes moves no cursor and forgets no suspect", func(b *bench) {
		ctx := context.Background()
		if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, Next: json.RawMessage(`7`)}); err != nil {
			b.Fatal(err)
		}
		if _, err := b.journal.BeginPage(ctx, "orders", "{}"); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Minute)
		b.readFailed("http_503")
		b.readWell()
		b.reading(jobs.FlowState{Flow: "orders", Cursor: json.RawMessage(`7`), ReadAt: b.at, PageStarts: 1, Suspect: "{}"})
	}},
	{"a record that was asked for says nothing of the reading of its stream", func(b *bench) {
		b.readFailed("http_503")
		began := b.at
		b.pass(time.Minute)
		b.admit(b.ev("1", 10, "A", "x"))
		b.reading(jobs.FlowState{Flow: "orders", Failing: jobs.Failing{Since: began, Class: connectors.Transient, Code: "http_503", Message: "no answer"}})
	}},
	{"the last change is when reading last brought something, not when the cursor moved", func(b *bench) {
		at, cursor := time.Time{}, json.RawMessage(nil)
		page := func(ad jobs.Admission, news bool) {
			b.Helper()
			b.pass(time.Minute)
			ad.Flow, ad.From = b.flow, cursor
			if _, err := b.journal.Admit(context.Background(), ad); err != nil {
				b.Fatal(err)
			}
			if news {
				at = b.at
			}
			if ad.Move {
				cursor = ad.Next
			}
			fs, err := b.journal.Cursor(context.Background(), "orders")
			if err != nil {
				b.Fatal(err)
			}
			is(b, "last change", fs.MovedAt, at)
		}
		moved := func(next string, items ...jobs.Item) jobs.Admission {
			return jobs.Admission{Move: true, Next: json.RawMessage(next), Items: items}
		}
		gone := b.ev("1", 30, "A", "y")
		gone.Gone, gone.Pairs = true, nil
		bad := jobs.Item{SourceID: "2", Version: 10, Observed: b.at, Problem: "no price", Raw: json.RawMessage(`{}`)}
		page(moved(`1`), false)
		page(moved(`2`, b.ev("1", 10, "A", "x")), true)
		page(moved(`3`, b.ev("1", 10, "A", "x")), false) // the next page of a listing that is read again
		page(moved(`4`), false)
		page(moved(`4`, b.ev("1", 20, "A", "y")), true) // the cursor stays
		page(jobs.Admission{Part: true, Items: []jobs.Item{b.ev("3", 10, "C", "x")}}, true)
		page(moved(`5`, b.ev("3", 10, "C", "x")), false) // the rest of that page
		page(moved(`6`, bad), true)
		page(moved(`7`, bad), false)
		page(moved(`8`, gone), true)
		page(moved(`9`, gone), false)
	}},
	{"a journal that can be written stands a probe", func(b *bench) {
		if err := b.journal.Probe(context.Background()); err != nil {
			b.Fatal(err)
		}
	}},
}

func (b *bench) readWell() {
	b.Helper()
	if err := b.journal.ReadWell(context.Background(), "orders", b.at); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) readFailed(code string) {
	b.Helper()
	f := jobs.Failing{Since: b.at, Class: connectors.Transient, Code: code, Message: "no answer"}
	if err := b.journal.ReadFailed(context.Background(), "orders", f); err != nil {
		b.Fatal(err)
	}
}

// reading checks what is stored of the flow.
func (b *bench) reading(want jobs.FlowState) {
	b.Helper()
	got, err := b.journal.Cursor(context.Background(), "orders")
	if err != nil {
		b.Fatal(err)
	}
	is(b, "cursor", string(got.Cursor), string(want.Cursor))
	is(b, "page starts", got.PageStarts, want.PageStarts)
	is(b, "suspect", got.Suspect, want.Suspect)
	is(b, "moved at", got.MovedAt, want.MovedAt)
	is(b, "read at", got.ReadAt, want.ReadAt)
	is(b, "failing", got.Failing, want.Failing)
}
