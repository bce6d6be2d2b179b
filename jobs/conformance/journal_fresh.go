package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// asked is what the source is asked for now.
func (b *bench) asked() []jobs.Request {
	b.Helper()
	rs, err := b.journal.Requests(context.Background(), "shop", 100)
	if err != nil {
		b.Fatal(err)
	}
	return rs
}

// answer admits the answer to all that the source was asked for.
func (b *bench) answer(items ...jobs.Item) {
	b.Helper()
	var ids []int64
	for _, r := range b.asked() {
		ids = append(ids, r.ID)
	}
	for i := range items {
		items[i].Refresh = true
	}
	if _, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: b.flow, Items: items, Requests: ids}); err != nil {
		b.Fatal(err)
	}
}

var freshRules = []rule{
	{"a create that has waited longer than fresh_within is read anew once, and then sent as it is by now", func(b *bench) {
		b.flow.FreshWithin, b.flow.CanRefresh = 10*time.Minute, true
		b.admit(b.ev("1", 10, "A", "old"))
		b.pass(10 * time.Minute)
		if e := b.why("A"); !e.Due {
			b.Fatalf("young enough: %+v", e)
		}
		b.pass(time.Second)
		if e := b.why("A"); e.Due || e.Reason != "refresh" || !strings.Contains(e.Text, "fresh_within 10m0s") {
			b.Fatalf("before it is asked: %+v", e)
		}
		b.none()
		r := b.want("A", jobs.Ready, jobs.ReasonRefresh)
		is(b, "class", r.LastClass, connectors.Class(""))
		b.none()
		if rs := b.asked(); len(rs) != 1 || rs[0].SourceID != "1" || rs[0].Kind != jobs.Refresh {
			b.Fatalf("asked %+v", rs)
		}
		if e := b.why("A"); e.Due || !strings.Contains(e.Text, "fresh_within 10m0s since it was read; its present state is asked for") {
			b.Fatalf("asked: %+v", e)
		}
		b.pass(time.Minute)
		b.answer(b.ev("1", 11, "A", "new"))
		jb := b.one()
		is(b, "body", string(jb.Body), `{"v":"new"}`)
		is(b, "generation", jb.Generation, int64(2))
		is(b, "asked again", len(b.asked()), 0)
	}},
	{"an order that was cancelled while it waited is not created", func(b *bench) {
		b.flow.FreshWithin, b.flow.CanRefresh = 10*time.Minute, true
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		b.pass(time.Hour)
		b.none()
		gone := b.ev("2", 0)
		gone.Gone = true
		b.answer(b.ev("1", 11), gone) // one that maps to nothing any more, and one that is not there
		b.want("A", jobs.Done, jobs.ReasonIgnored)
		b.want("B", jobs.Done, jobs.ReasonIgnored)
		b.none()
	}},
	{"what was ever written, or may have been, is not read anew by fresh_within", func(b *bench) {
		b.flow.FreshWithin, b.flow.CanRefresh = 10*time.Minute, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"), b.ev("2", 10, "B", "x"))
		for _, jb := range b.claim() {
			if jb.Key == "A" {
				b.settle(jb, connectors.Fail(connectors.Paused, "paused", "nothing was sent"))
			} else {
				b.settle(jb, unknown)
			}
		}
		b.pass(time.Hour)
		is(b, "claimed", len(b.claim()), 2)
	}},
	{"a record read again as current is fresh, and one whose source cannot be asked is sent as it is", func(b *bench) {
		b.flow.FreshWithin, b.flow.CanRefresh = 10*time.Minute, true
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(9 * time.Minute)
		b.admit(b.ev("1", 10, "A", "x"))
		b.pass(9 * time.Minute)
		b.one()
		b.flow.CanRefresh = false
		b.admit(b.ev("2", 10, "B", "x"))
		b.pass(time.Hour)
		b.one()
	}},
	{"the answer takes the place that its row had, before a backlog that would make it old again", func(b *bench) {
		for name, set := range map[string]func(){
			"fresh_within": func() { b.flow.FreshWithin = 10 * time.Minute },
			"max_age":      func() { b.flow.FreshWithin, b.flow.MaxAge = 0, 10*time.Minute },
		} {
			set()
			b.flow.CanRefresh = true
			first := name + "-first"
			b.admit(b.ev(first, 10, first, "x"))
			b.pass(8 * time.Minute)
			var items []jobs.Item
			for i := range 5 {
				items = append(items, b.ev(fmt.Sprint(name, i), 10, fmt.Sprint(name, i), "x"))
			}
			b.admit(items...)
			b.pass(3 * time.Minute)
			if c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: b.flows}); err != nil || c.Refreshed != 1 {
				b.Fatalf("%s: %+v, %v", name, c, err)
			} else {
				for _, jb := range c.Jobs {
					b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
				}
			}
			b.answer(b.ev(first, 11, first, "y"))
			c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: b.flows})
			if err != nil || len(c.Jobs) != 1 || c.Jobs[0].Key != first {
				b.Fatalf("%s: claimed %+v, %v", name, c.Jobs, err)
			}
			b.settle(c.Jobs[0], connectors.Outcome{Class: connectors.Applied, Link: `8`})
			for _, jb := range b.claim() {
				b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `9`})
			}
		}
	}},
	{"an entry of a log is read anew once too, although that makes it no younger", func(b *bench) {
		b.flow.FreshWithin, b.flow.CanRefresh = 10*time.Minute, true
		entry := b.ev("1", 10, "A", "x")
		entry.Log = true
		b.admit(entry)
		b.pass(time.Hour)
		b.none()
		again := b.ev("1", 10, "A", "x")
		again.Log = true
		b.answer(again)
		b.one()
	}},
}
