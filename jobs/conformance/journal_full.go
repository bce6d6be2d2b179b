package conformance

import (
	"context"
	"strings"

	"syncd/connectors"
	"syncd/jobs"
)

// counts counts the counts of ready rows, and has the journal's disk be as full as is said.
type counts struct {
	jobs.Engine
	n    int
	disk string
	more bool
}

func (c *counts) LowDisk(more bool) string {
	c.more = more
	return c.disk
}

func (c *counts) View(ctx context.Context, fn func(jobs.Tx) error) error {
	return c.Engine.View(ctx, func(tx jobs.Tx) error { return fn(countingTx{tx, c}) })
}

type countingTx struct {
	jobs.Tx
	c *counts
}

func (t countingTx) CountReady(ctx context.Context, flow string, most int) (int, error) {
	t.c.n++
	return t.Tx.CountReady(ctx, flow, most)
}

// watch is a watch over the bench's flow, on an engine that counts.
func (b *bench) watch() (*jobs.Backlog, *counts) {
	c := &counts{Engine: b.engine}
	return jobs.New(c, jobs.Options{Owner: "daemon-1"}).Backlog(b.flow), c
}

// full asks the watch, and reports what is stored too.
func (b *bench) full(w *jobs.Backlog) (code string, turned bool) {
	b.Helper()
	s, turned, err := w.Full(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	fs, err := b.journal.Cursor(context.Background(), b.flow.Name)
	if err != nil || fs.Full != s {
		b.Fatalf("stored %+v, said %+v, %v", fs.Full, s, err)
	}
	return s.Code, turned
}

var fullRules = []rule{
	{"reading stops at max_open, goes on below nine tenths of it, and that survives a restart", func(b *bench) {
		b.flow.MaxOpen = 100
		b.orders(99)
		w, _ := b.watch()
		code, turned := b.full(w)
		is(b, "at 99", code, "")
		is(b, "new", turned, false)
		w.Admitted(b.admit(b.ev("more", 1, "more", "x")))
		for range 10 {
			w.Admitted(jobs.Admitted{New: 1}) // as far as it knows
		}
		code, turned = b.full(w)
		is(b, "at 100", code, "backlog")
		is(b, "new", turned, true)
		js := b.claim()
		for _, jb := range js[:10] {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		}
		w, _ = b.watch()
		code, turned = b.full(w)
		is(b, "at 90, another daemon", code, "backlog")
		is(b, "new", turned, false)
		b.settle(js[10], connectors.Outcome{Class: connectors.Applied, Link: `7`})
		code, turned = b.full(w)
		is(b, "at 89", code, "")
		is(b, "new", turned, true)
	}},
	{"open jobs are counted seldom, however many pages are read", func(b *bench) {
		b.flow.MaxOpen = 1000
		w, c := b.watch()
		for range 900 {
			b.full(w)
			w.Admitted(jobs.Admitted{New: 1})
		}
		is(b, "counts of 900 pages", c.n, 1)
		b.orders(990)
		for range 200 { // near the bound
			b.full(w)
			w.Admitted(jobs.Admitted{New: 1})
		}
		if c.n > 6 {
			b.Fatalf("counted %d times", c.n)
		}
	}},
	{"reading stops while the disk is low, and says so", func(b *bench) {
		w, c := b.watch()
		c.disk = "only 3 MiB are free"
		code, turned := b.full(w)
		is(b, "low", code, "disk")
		is(b, "new", turned, true)
		fs, _ := b.journal.Cursor(context.Background(), b.flow.Name)
		is(b, "says why", strings.HasPrefix(fs.Full.Message, "only 3 MiB are free; "), true)
		b.full(w)
		is(b, "asks for more before it goes on", c.more, true)
		c.disk = ""
		code, _ = b.full(w)
		is(b, "space", code, "")
	}},
}
