package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// begin begins an errand and returns its number.
func (b *bench) begin(r jobs.Run) int64 {
	b.Helper()
	run, fresh, err := b.journal.StartRun(context.Background(), r)
	if err != nil || !fresh {
		b.Fatalf("begin an errand: %+v, %v, %v", run, fresh, err)
	}
	return run.ID
}

func (b *bench) step(id int64) jobs.Stepped {
	b.Helper()
	st, err := b.journal.StepRun(context.Background(), id, b.flows)
	if err != nil {
		b.Fatal(err)
	}
	return st
}

// redeliver redelivers the flow since a time and returns the errand as it ended.
func (b *bench) redeliver(since time.Time) jobs.Run {
	b.Helper()
	n, err := b.journal.CountRedeliver(context.Background(), b.flow, since)
	if err != nil {
		b.Fatal(err)
	}
	id := b.begin(jobs.NewRedelivery(b.flow, since, n.Rows))
	for range 20 {
		if st := b.step(id); !st.Run.Open() {
			is(b, "counted before and done", st.Run.Done, st.Run.Total)
			return st.Run
		}
	}
	b.Fatal("the errand does not end")
	return jobs.Run{}
}

// errandRules are what errands do.
var errandRules = []rule{
	{"a redelivery writes once more what was written since the backup, and nothing older", func(b *bench) {
		b.admit(b.ev("1", 10, "OLD", "one"), b.ev("2", 10, "BOTH", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Hour)
		backup := b.at
		b.pass(time.Hour)
		b.admit(b.ev("2", 11, "BOTH", "two"), b.ev("3", 11, "NEW", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		epoch := b.row("NEW").KeyEpoch
		b.pass(time.Hour)
		run := b.redeliver(backup)
		is(b, "records", run.Done, int64(2))
		is(b, "old", b.row("OLD").State, jobs.Done)
		is(b, "link of before", b.link("BOTH"), `"BOTH"`)
		is(b, "link of since", b.link("NEW"), "")
		is(b, "key epoch", b.row("NEW").KeyEpoch, epoch+1)
		js := b.claim()
		is(b, "claimed", len(js), 2)
		for _, jb := range js {
			if len(jb.AppliedHash) > 0 {
				b.Errorf("%s could be skipped by its hash", jb.Key)
			}
			is(b, jb.Key+" had a link", jb.Link != "", jb.Key == "BOTH")
			is(b, jb.Key+" stands", jb.Applied(), jb.Key == "BOTH")
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"again"`})
		}
		b.none()
	}},
	{"while a flow is redelivered nothing is written to its client", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		id := b.begin(jobs.NewRedelivery(b.flow, b.at, 1))
		for open := true; open; open = b.step(id).Run.Open() {
			b.pass(time.Minute)
			b.admit(b.ev("2", 10, "B", "one"))
			b.none()
		}
		b.none() // it was put off
		_, s, _, err := b.journal.Surround(context.Background(), jobs.RowID{Flow: "orders", Key: "B"}, b.flows)
		if err != nil || s.Redelivered {
			b.Errorf("redelivered in the end: %v, %v", s.Redelivered, err)
		}
		b.pass(5 * time.Second)
		is(b, "claimed in the end", len(b.claim()), 2)
		b.begin(jobs.NewRedelivery(b.flow, b.at, 1))
		b.admit(b.ev("3", 10, "C", "one"))
		d, s, ok, err := b.journal.Surround(context.Background(), jobs.RowID{Flow: "orders", Key: "C"}, b.flows)
		if e := jobs.Why(&d.Row, s, b.at); err != nil || !ok || e.Reason != "redelivered" || e.Due {
			b.Errorf("explained as %+v, %v, %v", e, ok, err)
		}
		other := *b.flow
		other.Name, other.Client = "elsewhere", "shop"
		b.flows["elsewhere"] = &other
		delete(b.flows, "orders") // nobody takes steps of that errand any more
		if _, s, _, err := b.journal.Surround(context.Background(), jobs.RowID{Flow: "orders", Key: "C"}, b.flows); err != nil || s.Redelivered {
			b.Errorf("held up by a flow that is not configured, %v", err)
		}
	}},
	{"what is being written when a redelivery begins is taken back, however late that is told", func(b *bench) {
		since := b.at
		b.admit(b.ev("1", 10, "LATE", "one"), b.ev("2", 10, "WRITTEN", "one"))
		js := b.claim()
		is(b, "claimed", len(js), 2)
		b.pass(time.Hour)
		settle := func(key string) {
			for _, jb := range js {
				if jb.Key == key {
					b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + key + `"`})
				}
			}
		}
		settle("WRITTEN")
		id := b.begin(jobs.NewRedelivery(b.flow, since, 2))
		for range 2 {
			st := b.step(id)
			is(b, "done while it is under way", st.Run.Done, int64(0))
			is(b, "it waits", st.Wait > 0, true)
			b.pass(time.Minute)
		}
		settle("LATE")
		for b.step(id).Run.Open() {
		}
		js = b.claim()
		is(b, "written once more", len(js), 2)
		for _, jb := range js {
			is(b, "id of "+jb.Key, jb.Link, "")
			is(b, jb.Key+" stands", jb.Applied(), false)
			is(b, jb.Key+" could be skipped", len(jb.AppliedHash) > 0, false)
		}
	}},
	{"so is a create under a key of a daemon that has ended, and its key is not used again", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "one"))
		jb := b.one()
		b.pin(jb, 0)
		b.pass(time.Hour)
		id := b.begin(jobs.NewRedelivery(b.flow, b.at.Add(-time.Minute), 1))
		is(b, "it waits", b.step(id).Wait > 0, true)
		b.restart()
		if n, err := b.journal.Recover(context.Background(), jobs.LaneID{Client: "erp"}, b.flows); err != nil || n.Jobs != 1 {
			b.Fatalf("%d, %v", n.Jobs, err)
		}
		for b.step(id).Run.Open() {
		}
		b.pass(time.Hour)
		jb = b.one()
		is(b, "in doubt", jb.Unresolved(), true)
		is(b, "key epoch", jb.KeyEpoch > 0, true)
		if jb.Pin != nil {
			b.Errorf("sent again under its key: %+v", jb.Pin)
		}
	}},
	{"the same content read after a redelivery began is written all the same", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.redeliver(b.at)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "one"))
		is(b, "key", b.one().Key, "A")
	}},
	{"a record that is gone before it was redelivered is looked for, since the backup may have it", func(b *bench) {
		b.flow.OnDelete, b.flow.CanFind = "delete", true
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Hour)
		b.redeliver(b.at.Add(-time.Hour))
		gone := b.ev("1", 11)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		is(b, "removed", jb.Gone, true)
		is(b, "in doubt", jb.Unresolved(), true)
	}},
	{"the link of a record that has another key since the backup is not void", func(b *bench) {
		b.flow.OnRename = "rename"
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "C", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Hour)
		backup := b.at
		b.pass(time.Hour)
		b.admit(b.ev("1", 11, "B", "one"), b.ev("2", 11, "C", "two"))
		js := b.claim()
		b.admit(b.ev("2", 12, "D", "two"))
		for _, jb := range js {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: jb.Link})
		}
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `"C"`})
		b.redeliver(backup)
		is(b, "link of B", b.link("B"), `"A"`)
		is(b, "link of D", b.link("D"), `"C"`)
	}},
	{"a record that was created since the backup under a key, and cannot be looked for, waits for a person", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "OLD", "one"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `1`})
		b.pass(time.Hour)
		since := b.at
		b.pass(time.Hour)
		b.admit(b.ev("1", 11, "OLD", "two"), b.ev("2", 10, "NEW", "one"), b.ev("3", 10, "HAS", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: map[string]string{"OLD": `1`, "NEW": `2`, "HAS": `3`}[jb.Key]})
		}
		n, err := b.journal.CountRedeliver(context.Background(), b.flow, since)
		if err != nil || n.Rows != 3 || n.Held != 2 {
			b.Errorf("counted %+v, %v", n, err)
		}
		b.redeliver(since)
		b.want("OLD", jobs.Ready, jobs.ReasonNone)
		b.want("NEW", jobs.Held, jobs.ReasonNone)
		b.want("HAS", jobs.Held, jobs.ReasonNone)
		b.pass(time.Hour)
		b.taken("NEW", jobs.Verdict{By: "ann", Why: "looked"})
		b.want("NEW", jobs.Ready, jobs.ReasonNone)
		b.taken("HAS", jobs.Verdict{By: "ann", Why: "looked", Applied: true, Link: `3`})
		b.want("HAS", jobs.Done, jobs.ReasonNone)
		b.flow.CanFind = true // then it is looked for
		b.admit(b.ev("4", 10, "FOUND", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.redeliver(since)
		b.want("FOUND", jobs.Ready, jobs.ReasonNone)
	}},
	{"so does one of which no more is known than that it was created since", func(b *bench) {
		for _, strategy := range []connectors.Strategy{connectors.IdempotencyKey, connectors.AtMostOnce} {
			b.flow.Strategy = strategy
			b.pass(time.Hour)
			since := b.at
			b.pass(time.Hour)
			key := "A" + string(strategy)
			b.admit(b.ev(key, 10, key, "one"))
			jb := b.one()
			if err := b.journal.PutLink(context.Background(), jb, `"1"`); err != nil {
				b.Fatal(err)
			}
			b.settle(jb, connectors.Fail(connectors.Paused, "paused", "before it was as it should be"))
			if n, err := b.journal.CountRedeliver(context.Background(), b.flow, since); err != nil || n.Rows != 1 || n.Held != 1 {
				b.Errorf("counted %+v, %v", n, err)
			}
			b.redeliver(since)
			row := b.want(key, jobs.Held, jobs.ReasonNone)
			is(b, "in doubt since it was created", row.UnresolvedAt.IsZero(), false)
			is(b, "asked in which state it is there", b.why(key).Older, true)
			b.taken(key, jobs.Verdict{By: "ann", Why: "looked", Applied: true, Older: true, Link: `"7"`})
			b.want(key, jobs.Ready, jobs.ReasonNone)
			is(b, "link", b.link(key), `"7"`)
			b.pass(time.Hour)
			b.apply()
		}
	}},
	{"one that is gone when it is redelivered, and comes again, waits for a person too", func(b *bench) {
		b.keyed()
		b.flow.OnDelete = "ignore"
		since := b.at
		b.admit(b.ev("1", 10, "A", "one"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `1`})
		gone := b.ev("1", 11)
		gone.Gone = true
		b.admit(gone)
		b.want("A", jobs.Done, jobs.ReasonIgnored)
		b.redeliver(since)
		b.admit(b.ev("1", 12, "A", "two"))
		b.pass(time.Hour)
		is(b, "in doubt", b.one().Unresolved(), true)
	}},
	{"so does one that was removed since the backup, whether it has come again by then or comes later", func(b *bench) {
		b.keyed()
		b.flow.OnDelete = "delete"
		removed := func(id string, version int64) jobs.Item {
			it := b.ev(id, version)
			it.Gone = true
			return it
		}
		b.admit(b.ev("1", 10, "LATER", "one"), b.ev("2", 10, "AGAIN", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `"` + jb.Key + `"`})
		}
		b.pass(time.Hour)
		since := b.at
		b.pass(time.Hour)
		b.admit(removed("1", 11), removed("2", 11))
		for _, jb := range b.claim() {
			b.settle(jb, applied)
		}
		b.pass(time.Second)
		b.admit(b.ev("2", 12, "AGAIN", "two"))
		if n, err := b.journal.CountRedeliver(context.Background(), b.flow, since); err != nil || n.Held != 1 {
			b.Errorf("counted %+v, %v", n, err)
		}
		b.redeliver(since)
		b.want("AGAIN", jobs.Held, jobs.ReasonNone)
		b.admit(b.ev("1", 12, "LATER", "two"))
		b.pass(time.Hour)
		jb := b.one()
		is(b, "key", jb.Key, "LATER")
		is(b, "in doubt", jb.Unresolved(), true)
	}},
	{"what a person says of a record while it is redelivered stands, and ids of before do not", func(b *bench) {
		b.keyed()
		since := b.at
		b.admit(b.ev("1", 10, "SAID", "one"), b.ev("2", 10, "SENT", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: map[string]string{"SAID": `1`, "SENT": `2`}[jb.Key]})
		}
		b.pass(time.Hour)
		id := b.begin(jobs.NewRedelivery(b.flow, since, 2))
		b.step(id)
		b.want("SAID", jobs.Held, jobs.ReasonNone)
		b.pass(time.Hour)
		b.taken("SAID", jobs.Verdict{By: "ann", Why: "looked", Applied: true, Link: `7`})
		b.taken("SENT", jobs.Verdict{By: "ann", Why: "looked"})
		err := b.engine.Update(context.Background(), func(tx jobs.Tx) error { // an answer that is late
			return tx.PutLinks(context.Background(), "erp", []jobs.Link{{EntityKey: b.row("SENT").EntityKey(), Link: `2`, SeenAt: b.at}})
		})
		if err != nil {
			b.Fatal(err)
		}
		for b.step(id).Run.Open() {
		}
		is(b, "link of SAID", b.link("SAID"), `7`)
		is(b, "link of SENT", b.link("SENT"), "")
	}},
	{"so do they in what is written after that", func(b *bench) {
		b.keyed()
		since := b.at
		b.admit(b.ev("1", 10, "THERE", "one"), b.ev("2", 10, "LOST", "one"))
		for _, jb := range b.claim() {
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: map[string]string{"THERE": `1`, "LOST": `2`}[jb.Key]})
		}
		b.pass(time.Hour)
		id := b.begin(jobs.NewRedelivery(b.flow, since, 2))
		b.step(id)
		b.pass(time.Hour)
		b.taken("THERE", jobs.Verdict{By: "ann", Why: "looked", Applied: true, Older: true, Link: `7`})
		b.taken("LOST", jobs.Verdict{By: "ann", Why: "looked"})
		b.none()
		for b.step(id).Run.Open() {
		}
		b.pass(time.Minute)
		js := b.claim()
		is(b, "claimed", len(js), 2)
		for _, jb := range js {
			is(b, "id of "+jb.Key, jb.Link, map[string]string{"THERE": `7`, "LOST": ""}[jb.Key])
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: map[string]string{"THERE": `7`, "LOST": `8`}[jb.Key]})
		}
		is(b, "link of THERE", b.link("THERE"), `7`)
		is(b, "link of LOST", b.link("LOST"), `8`)
	}},
	{"so is one that was removed since the backup and is to be written again", func(b *bench) {
		b.flow.OnDelete, b.flow.CanFind = "delete", true
		gone := func(version int64) jobs.Item {
			it := b.ev("1", version)
			it.Gone = true
			return it
		}
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Hour)
		since := b.at
		b.admit(gone(11))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied})
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "one"))
		b.pass(time.Second)
		b.redeliver(since)
		b.admit(gone(13))
		is(b, "removed", b.one().Gone, true)
	}},
	{"a removal since the backup is done again, unless the flow leaves what is deleted", func(b *bench) {
		for _, onDelete := range []string{"delete", "ignore"} {
			b.write(onDelete, onDelete)
			b.flow.OnDelete, b.flow.CanFind = onDelete, true
			b.admit(b.ev("1", 10, "A", "one"))
			b.apply()
			b.pass(time.Hour)
			gone := b.ev("1", 11)
			gone.Gone = true
			b.admit(gone)
			for _, jb := range b.claim() {
				b.settle(jb, applied)
			}
			b.redeliver(b.at.Add(-2 * time.Hour))
			if onDelete == "ignore" {
				b.none()
				continue
			}
			is(b, "removed again", b.one().Gone, true)
		}
	}},
	{"what is written at most once waits for a person after a redelivery", func(b *bench) {
		b.flow.Strategy = connectors.AtMostOnce
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		b.pass(time.Hour)
		run := b.redeliver(b.at.Add(-2 * time.Hour))
		is(b, "message", run.Message, "1 records were seen to; 0 of them are read again before they are written, 1 wait for a person, 0 have to be seen to by hand")
		b.want("A", jobs.Held, jobs.ReasonNone)
		is(b, "asked in which state it is there", b.why("A").Older, true)
		b.none()
		row, refused, err := b.journal.Resolve(context.Background(), jobs.RowID{Flow: "orders", Key: "A"}, jobs.Verdict{By: "ann", Why: "not in the backup"}, b.flows)
		if err != nil || refused != "" || row.State != jobs.Ready {
			b.Fatalf("%+v, %s, %v", row, refused, err)
		}
		is(b, "sent again", b.one().Key, "A")
	}},
	{"whoever was to look at a held record is told that the target was restored since", func(b *bench) {
		b.flow.Strategy = connectors.AtMostOnce
		b.admit(b.ev("1", 10, "A", "one"))
		b.settle(b.one(), unknown)
		b.redeliver(b.at.Add(-2 * time.Hour))
		row := b.want("A", jobs.Held, jobs.ReasonNone)
		is(b, "code", row.LastCode, "restored")
		if want := "the target was restored to its state of 2026-11-29T08:00:00Z; it waited for a person before"; !strings.HasPrefix(row.LastMessage, want) {
			b.Errorf("it says %q, want %q", row.LastMessage, want)
		}
	}},
	{"a record that was done and whose content is not kept is read again first", func(b *bench) {
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 10, "A", "one"))
		b.apply()
		if err := b.engine.Update(context.Background(), func(tx jobs.Tx) error {
			_, err := tx.DropBodies(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}})
			return err
		}); err != nil {
			b.Fatal(err)
		}
		b.redeliver(b.at)
		b.want("A", jobs.Ready, jobs.ReasonRefresh)
		b.none()
		rs, err := b.journal.Requests(context.Background(), "shop", 10)
		if err != nil || len(rs) != 1 || rs[0].SourceID != "1" {
			b.Fatalf("%+v, %v", rs, err)
		}
	}},
	{"a redelivery goes in steps and on where it was, also for the links that no row has", func(b *bench) {
		ctx := context.Background()
		const n = 1100
		b.admitMany(n)
		for left := n; left > 0; {
			for _, jb := range b.claim() {
				b.settle(jb, applied)
				left--
			}
		}
		for _, k := range []jobs.EntityKey{{Entity: "order", Key: "elsewhere"}, {Entity: "other", Key: "x"}} {
			b.update(func(ctx context.Context, tx jobs.Tx) error {
				return tx.PutLinks(ctx, "erp", []jobs.Link{{EntityKey: k, Link: `1`, SeenAt: b.at}})
			})
		}
		id := b.begin(jobs.NewRedelivery(b.flow, b.at, n))
		var done []int64
		for range 20 {
			st := b.step(id)
			done = append(done, st.Run.Done)
			is(b, "the link of a row that is due", b.link("K0000"), "")
			b.restart() // whoever does the next one is another daemon
			if !st.Run.Open() {
				break
			}
			b.journalStays(id)
		}
		if len(done) < 4 || done[0] != 500 || done[1] != 1000 || done[2] != n {
			b.Fatalf("done %v", done)
		}
		ls, err := b.journal.Links(ctx, "erp", []jobs.EntityKey{{Entity: "order", Key: "elsewhere"}, {Entity: "other", Key: "x"}})
		if err != nil || len(ls) != 1 {
			b.Fatalf("links %v, %v", ls, err)
		}
	}},
	{"a redelivery that goes on stands for one that does no more, and for none that does", func(b *bench) {
		id := b.begin(jobs.NewRedelivery(b.flow, b.at, 1))
		for _, since := range []time.Time{b.at, b.at.Add(time.Minute)} {
			if run, fresh, err := b.journal.StartRun(context.Background(), jobs.NewRedelivery(b.flow, since, 1)); err != nil || fresh || run.ID != id {
				b.Fatalf("since %s: %+v, %v, %v", since, run, fresh, err)
			}
		}
		earlier := jobs.NewRedelivery(b.flow, b.at.Add(-time.Minute), 1)
		if _, _, err := b.journal.StartRun(context.Background(), earlier); !errors.Is(err, jobs.ErrNotCovered) {
			b.Fatalf("one that begins earlier is taken for it: %v", err)
		}
		for b.step(id).Run.Open() {
		}
		b.begin(earlier)
	}},
	{"one errand of a kind goes on for a flow, and can be stopped", func(b *bench) {
		ctx := context.Background()
		id := b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop"})
		again, fresh, err := b.journal.StartRun(ctx, jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop"})
		if err != nil || fresh || again.ID != id {
			b.Fatalf("%+v, %v, %v", again, fresh, err)
		}
		if run, ok, err := b.journal.StopRun(ctx, id, "stopped"); err != nil || !ok || run.Open() {
			b.Fatalf("%+v, %v, %v", run, ok, err)
		}
		if _, ok, err := b.journal.StopRun(ctx, id, "stopped"); err != nil || ok {
			b.Fatalf("stopped twice: %v, %v", ok, err)
		}
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 10, "A", "x"))
		b.step(id)
		if rs, err := b.journal.Requests(ctx, "shop", 10); err != nil || len(rs) != 0 {
			b.Fatalf("a stopped errand asks: %+v, %v", rs, err)
		}
	}},
	{"after a reset of the source lower versions are newer, and what was read before is not admitted", func(b *bench) {
		ctx := context.Background()
		page := func(epoch int64, from, next string, items ...jobs.Item) error {
			var f, n json.RawMessage
			if from != "" {
				f = json.RawMessage(from)
			}
			if next != "" {
				n = json.RawMessage(next)
			}
			_, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, From: f, Next: n, Epoch: epoch, Items: items})
			return err
		}
		if err := page(0, "", `1`, b.ev("1", 50, "A", "before")); err != nil {
			b.Fatal(err)
		}
		b.apply()
		b.pass(time.Second)
		is(b, "older", b.admit(b.ev("1", 40, "A", "restored")).Older, 1)
		s, err := b.journal.SourceReset(ctx, "orders")
		if err != nil || s.Epoch != 1 || s.Cursor != nil {
			b.Fatalf("%+v, %v", s, err)
		}
		if err := page(0, `1`, `2`, b.ev("1", 51, "A", "late")); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("a page behind the old cursor: %v", err)
		}
		if err := page(0, "", `1`, b.ev("1", 51, "A", "late")); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("a page from the start, pulled before: %v", err)
		}
		if err := page(1, "", `1`, b.ev("1", 40, "A", "restored")); err != nil {
			b.Fatal(err)
		}
		b.body("A", "restored")
		is(b, "written", b.apply().Desired.Version, int64(40))
	}},
}

// journalStays shows that an errand that goes on is told by the journal.
func (b *bench) journalStays(id int64) {
	b.Helper()
	rs, err := b.journal.Runs(context.Background(), true, 10)
	if err != nil || len(rs) != 1 || rs[0].ID != id {
		b.Fatalf("open errands %+v, %v", rs, err)
	}
}
