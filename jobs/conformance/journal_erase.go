package conformance

import (
	"context"
	"encoding/json"
	"strings"

	"syncd/connectors"
	"syncd/jobs"
)

// erase erases what the journal has of rows of the flow, and of all that belongs to them.
func (b *bench) erase(discard, source bool, keys ...string) jobs.Erased {
	b.Helper()
	ctx := context.Background()
	var ids []jobs.RowID
	for _, k := range keys {
		ids = append(ids, jobs.RowID{Flow: b.flow.Name, Key: k})
	}
	rows, _, err := b.journal.Traces(ctx, ids, source)
	if err != nil {
		b.Fatal(err)
	}
	ids = nil
	for i := range rows {
		ids = append(ids, rows[i].RowID)
	}
	out, err := b.journal.Erase(ctx, ids, jobs.Erasure{By: "ann", Why: "asked to", Discard: discard})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// told is all that the journal holds, as one text.
func (b *bench) told() string {
	b.Helper()
	var all []any
	b.update(func(ctx context.Context, tx jobs.Tx) error {
		rows, err := tx.List(ctx, jobs.Filter{Limit: 1000})
		if err != nil {
			return err
		}
		ids := make([]jobs.RowID, len(rows))
		for i := range rows {
			ids[i] = rows[i].RowID
		}
		if rows, err = tx.Rows(ctx, ids, true); err != nil {
			return err
		}
		for i := range rows {
			all = append(all, string(rows[i].Body), rows[i].LastMessage)
		}
		as, _, err := tx.ListAttempts(ctx, 0, 1000)
		if err != nil {
			return err
		}
		ps, err := tx.ListPins(ctx, jobs.Pin{}, 1000)
		if err != nil {
			return err
		}
		for _, p := range ps {
			all = append(all, string(p.Body))
		}
		flows, err := tx.Flows(ctx)
		if err != nil {
			return err
		}
		for _, f := range flows {
			cs, err := tx.ListContenders(ctx, f.Flow, jobs.Contender{}, 1000)
			if err != nil {
				return err
			}
			for _, c := range cs {
				all = append(all, string(c.Body))
			}
			all = append(all, f.Suspended)
		}
		runs, err := tx.Runs(ctx, false, 1000)
		all = append(all, as, runs)
		return err
	})
	text, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// eraseRules are what erasing the content of records means.
var eraseRules = []rule{
	{"nothing of a record is left but what makes a late event harmless, in all flows that write it", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "canary"), b.ev("2", 10, "A", "canary claims"), b.ev("3", 10, "OTHER", "kept"))
		for _, jb := range b.claim() {
			o := connectors.Fail(connectors.Invalid, "http_422", "canary is no name")
			if jb.Key == "OTHER" {
				o = applied
			}
			b.settle(jb, o)
		}
		bad := b.ev("1", 11)
		bad.Problem, bad.Raw = "canary has no key", json.RawMessage(`{"name":"canary"}`)
		b.admit(bad)
		first := b.flow
		b.write("parties", "order")
		b.admit(b.ev("p", 10, "A", "canary too"))
		b.settle(b.one(), applied)
		b.write("files", "file")
		b.admit(b.ev("f", 10, "A", "another record of that key"))
		b.settle(b.one(), applied)
		b.flow, b.flows = first, map[string]*jobs.Flow{first.Name: first}
		hash, link := b.row("A").Hash, b.link("A")
		if n := strings.Count(b.told(), "canary"); n < 6 {
			b.Fatalf("the canary is told %d times before: %s", n, b.told())
		}
		out := b.erase(false, false, "A")
		is(b, "rows", out.Rows, 3)
		is(b, "bodies", out.Bodies, 3)
		is(b, "claims", out.Claims, 1)
		if told := b.told(); strings.Contains(told, "canary") || !strings.Contains(told, "content erased by ann: asked to") || !strings.Contains(told, "kept") ||
			!strings.Contains(told, "another record") {
			b.Errorf("told afterwards: %s", told)
		}
		r := b.want("A", jobs.Done, jobs.ReasonDiscarded)
		is(b, "hash", string(r.Hash), string(hash))
		is(b, "link", b.link("A"), link)
		// A late and a repeated event change nothing, and something else is written.
		b.admit(b.ev("1", 9, "A", "late"), b.ev("1", 12, "A", "canary"))
		b.none()
		b.admit(b.ev("1", 13, "A", "other"))
		is(b, "written", b.one().Key, "A")
		// Once more does no harm.
		b.restart()
		b.recover()
		is(b, "again", b.erase(true, false, "A").Rows, 3)
	}},
	{"an open job is left alone or given up, one that is being written is left alone", func(b *bench) {
		b.admit(b.ev("1", 10, "OPEN", "canary"))
		out := b.erase(false, false, "OPEN")
		if out.Rows != 0 || len(out.Skipped) != 1 || !strings.Contains(out.Skipped[0].Why, "has to be written yet") {
			b.Fatalf("%+v", out)
		}
		b.body("OPEN", "canary")
		jb := b.one()
		out = b.erase(true, false, "OPEN")
		if out.Rows != 0 || len(out.Skipped) != 1 || !strings.Contains(out.Skipped[0].Why, "is being written") {
			b.Fatalf("%+v", out)
		}
		b.settle(jb, connectors.Fail(connectors.Transient, "connect", "no way to canary"))
		is(b, "rows", b.erase(true, false, "OPEN").Rows, 1)
		b.want("OPEN", jobs.Done, jobs.ReasonDiscarded)
		if told := b.told(); strings.Contains(told, "canary") {
			b.Error(told)
		}
	}},
	{"what is asked of the source is asked no more, or its answer would be written", func(b *bench) {
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 10, "A", "canary"), b.ev("2", 10, "B", "kept"))
		for range b.claim() {
		}
		for _, jb := range b.claimed {
			b.settle(jb, applied)
		}
		if _, err := b.journal.Remap(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}, {Flow: "orders", Key: "B"}}, b.flows); err != nil {
			b.Fatal(err)
		}
		b.erase(false, false, "A")
		if rs := b.asked(); len(rs) != 1 || rs[0].SourceID != "2" {
			b.Errorf("asked %+v", rs)
		}
	}},
	{"bytes under an idempotency key are erased, the doubt stays, and the key is used no more", func(b *bench) {
		b.keyed()
		b.flow.CanFind = true
		b.admit(b.ev("1", 10, "A", "canary"))
		jb := b.one()
		p := b.pinned(jb, 0)
		p.Body = json.RawMessage(`"canary"`)
		if err := b.journal.PutPin(context.Background(), "erp", p); err != nil {
			b.Fatal(err)
		}
		b.settle(jb, unknown)
		is(b, "rows", b.erase(true, false, "A").Rows, 1)
		r := b.row("A")
		is(b, "in doubt", r.Unresolved(), true)
		is(b, "key epoch", r.KeyEpoch, int64(1))
		if told := b.told(); strings.Contains(told, "canary") {
			b.Error(told)
		}
	}},
	{"with its source record all that this maps to is erased, and a group and a mention are found", func(b *bench) {
		ctx := context.Background()
		b.admit(b.ev("1", 10, "A", "Canary"), b.ev("2", 10, "B", "kept"))
		b.admit(b.ev("1", 11, "A", "Canary", "A2", "more"))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		found, err := b.journal.Mentions(ctx, "canarY")
		if err != nil || len(found) != 1 || found[0].Key != "A" {
			b.Fatalf("mentions %v, %v", found, err)
		}
		is(b, "rows", b.erase(false, true, "A").Rows, 2)
		is(b, "the other's", len(b.row("B").Body) > 0, true)
		if found, err = b.journal.Mentions(ctx, "canary"); err != nil || len(found) != 0 {
			b.Fatalf("mentions %v, %v", found, err)
		}
		b.write("events", "event")
		b.every("hold")
		b.admit(b.event("G", "e1", 1, "x"), b.event("H", "e2", 2, "y"))
		ids, err := b.journal.GroupRows(ctx, "events", "G")
		if err != nil || len(ids) != 1 || ids[0].Key != "e1" {
			b.Fatalf("group %v, %v", ids, err)
		}
	}},
}
