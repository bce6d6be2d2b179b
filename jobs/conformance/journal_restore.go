package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// restore says that the journal was put back from a backup of a time, and returns the
// errand as it ended.
func (b *bench) restore(asOf time.Time) jobs.Run {
	b.Helper()
	ctx := context.Background()
	b.restart()
	n, err := b.journal.CountRestore(ctx, asOf, b.flows)
	if err != nil {
		b.Fatal(err)
	}
	run, _, fresh, err := b.journal.BeginRestore(ctx, asOf, n.Open+n.Done, "", "ann")
	if err != nil || !fresh {
		b.Fatalf("begin a restore: %v, %v", fresh, err)
	}
	for range 20 {
		if st := b.step(run.ID); !st.Run.Open() {
			is(b, "counted before and done", st.Run.Done, st.Run.Total)
			return st.Run
		}
		b.restart() // whoever does the next step is another process
	}
	b.Fatal("the errand does not end")
	return run
}

// caughtUp has the flow's stream be read to its end.
func (b *bench) caughtUp() {
	b.Helper()
	b.pass(time.Second)
	if err := b.journal.ReadWell(context.Background(), b.flow.Name, b.at); err != nil {
		b.Fatal(err)
	}
}

// restoreRules are what a restore of the journal from a backup means.
var restoreRules = []rule{
	{"a restore puts in doubt what is open, and has what was done late written once more", func(b *bench) {
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 10, "OLD", "one"))
		b.apply()
		b.pass(time.Hour)
		b.admit(b.ev("2", 10, "LATE", "one"), b.ev("3", 10, "DEAD", "one"))
		for _, jb := range b.claim() {
			o := connectors.Outcome{Class: connectors.Applied, Link: `7`}
			if jb.Key == "DEAD" {
				o = connectors.Fail(connectors.Invalid, "http_422", "no")
			}
			b.settle(jb, o)
		}
		bad := b.ev("5", 10)
		bad.Problem = "no ref"
		b.admit(b.ev("4", 10, "OPEN", "one"), bad)
		asOf := b.at
		b.pass(time.Hour)
		run := b.restore(asOf)
		is(b, "message", run.Message, "3 records are in doubt; 1 of them were done and are written once more, 0 wait for a person, 0 have to be seen to by hand")
		is(b, "old", b.want("OLD", jobs.Done, jobs.ReasonNone).Unresolved(), false)
		is(b, "unmapped", b.row("@5").Unresolved(), false)
		for key, st := range map[string]jobs.State{"LATE": jobs.Ready, "OPEN": jobs.Ready, "DEAD": jobs.Dead} {
			r := b.row(key)
			is(b, key, r.State, st)
			is(b, key+" is in doubt since", r.UnresolvedAt, b.at)
			is(b, key+" could be skipped", len(r.AppliedHash) > 0, false)
		}
		b.none() // what may be at work has to settle
		b.pass(31 * time.Second)
		is(b, "claimed", len(b.claim()), 2)
	}},
	{"a record that is read first after a restore is in doubt until the stream was read to its end", func(b *bench) {
		b.restore(b.at)
		at := b.at
		b.pass(time.Minute)
		b.admit(b.ev("1", 10, "A", "one"))
		is(b, "in doubt since", b.row("A").UnresolvedAt, at)
		if jb := b.one(); !jb.Unresolved() {
			b.Error("it is claimed like one that was never written")
		} else {
			b.settle(jb, connectors.Outcome{Class: connectors.AlreadyApplied, Link: `7`, Resolved: true})
		}
		b.caughtUp()
		b.pass(jobs.RestoreMargin - time.Second)
		b.admit(b.ev("2", 10, "B", "one"))
		is(b, "just after", b.row("B").Unresolved(), true)
		b.pass(time.Second)
		b.admit(b.ev("3", 10, "C", "one"))
		is(b, "well after", b.row("C").Unresolved(), false)
	}},
	{"a page that was the stream's last ends the doubt, one that was not does not", func(b *bench) {
		ctx := context.Background()
		b.restore(b.at)
		page := func(from, next string, end bool) {
			b.Helper()
			b.pass(time.Second)
			var f []byte
			if from != "" {
				f = []byte(from)
			}
			if _, err := b.journal.Admit(ctx, jobs.Admission{Flow: b.flow, Move: true, End: end, From: f, Next: []byte(next)}); err != nil {
				b.Fatal(err)
			}
		}
		caught := func() time.Time {
			b.Helper()
			fs, err := b.journal.Cursor(ctx, "orders")
			if err != nil {
				b.Fatal(err)
			}
			return fs.Restored.Caught
		}
		page("", "1", false)
		is(b, "caught up", caught().IsZero(), true)
		page("1", "2", true)
		is(b, "caught up", caught(), b.at)
		at := b.at
		page("2", "3", true)
		is(b, "caught up", caught(), at)
	}},
	{"what changed and changed back in what the journal lost is written, whatever its hash says", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "one"), b.ev("3", 10, "C", "one"))
		for range b.claim() {
		}
		for _, jb := range b.claimed {
			b.settle(jb, applied)
		}
		b.pass(time.Hour)
		b.restore(b.at)
		b.pass(time.Minute)
		// As the source has them by now: A again as it was, B as it never changed, C otherwise.
		b.admit(b.ev("1", 12, "A", "one"), b.ev("2", 10, "B", "one"), b.ev("3", 12, "C", "two"))
		is(b, "not read anew", b.row("B").State, jobs.Done)
		b.admit(b.ev("3", 13, "C", "one")) // before it was written
		js := b.claim()
		is(b, "claimed", len(js), 2)
		for _, jb := range js {
			is(b, jb.Key+" is in doubt", jb.Unresolved(), true)
			b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`, Resolved: true})
		}
		is(b, "unchanged", b.admit(b.ev("1", 13, "A", "one")).Unchanged, 1)
		b.none()
	}},
	{"a removal that may be of what the journal lost is done", func(b *bench) {
		b.flow.OnDelete, b.flow.CanFind = "delete", true
		b.admit(b.ev("1", 10, "A", "one"))
		if _, err := b.journal.Discard(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, "test"); err != nil {
			b.Fatal(err)
		}
		b.pass(time.Hour)
		b.restore(b.at)
		b.pass(time.Minute)
		gone := b.ev("1", 12)
		gone.Gone = true
		b.admit(gone)
		jb := b.one()
		is(b, "a removal", jb.Gone, true)
		is(b, "in doubt", jb.Unresolved(), true)
	}},
	{"what is written at most once waits for a person after a restore", func(b *bench) {
		b.flow.Strategy = connectors.AtMostOnce
		b.admit(b.ev("1", 10, "DONE", "one"))
		b.settle(b.one(), applied)
		b.admit(b.ev("2", 10, "OPEN", "one"))
		b.pass(time.Minute)
		is(b, "message", b.restore(b.at).Message, "1 records are in doubt; 0 of them were done and are written once more, 1 wait for a person, 0 have to be seen to by hand")
		b.want("DONE", jobs.Done, jobs.ReasonNone)
		b.want("OPEN", jobs.Held, jobs.ReasonNone)
		b.pass(time.Minute)
		row, refused, err := b.journal.Resolve(context.Background(), jobs.RowID{Flow: "orders", Key: "OPEN"}, jobs.Verdict{By: "ann", Why: "it is not there"}, b.flows)
		if err != nil || refused != "" || row.State != jobs.Ready {
			b.Fatalf("%+v, %s, %v", row, refused, err)
		}
		b.admit(b.ev("2", 11, "OPEN", "two"))
		is(b, "in doubt again", b.row("OPEN").Unresolved(), false)
	}},
	{"an event of a flow that writes each is in doubt when it is read first after a restore", func(b *bench) {
		b.every("hold")
		b.restore(b.at)
		at := b.at
		b.pass(time.Second)
		b.admit(b.event("G", "e1", 1, "x"), b.event("G", "e2", 2, "y"))
		is(b, "first", b.row("e1").UnresolvedAt, at)
		is(b, "second", b.row("e2").UnresolvedAt, at)
		b.none()
		b.pass(time.Minute)
		is(b, "head", b.one().Key, "e1")
	}},
	{"under an idempotency key it is told since when a write may have been sent that is not remembered", func(b *bench) {
		b.flow.Strategy = connectors.IdempotencyKey
		b.admit(b.ev("1", 10, "OPEN", "one"))
		asOf := b.at
		b.pass(time.Hour)
		b.restore(asOf)
		b.pass(time.Minute)
		b.admit(b.ev("2", 10, "NEW", "one"))
		for _, jb := range b.claim() {
			is(b, jb.Key, jb.DoubtSince, asOf)
			b.settle(jb, unknown)
		}
		b.pass(time.Hour)
		for _, jb := range b.claim() {
			is(b, jb.Key+" later", jb.DoubtSince, time.Time{}) // a write that is remembered is in doubt by then
		}
	}},
	{"restored again while that is in doubt, what is told is the time of the earlier backup", func(b *bench) {
		b.flow.Strategy = connectors.IdempotencyKey
		b.admit(b.ev("1", 10, "OPEN", "one"))
		first := b.at
		b.pass(time.Hour)
		b.restore(first)
		b.pass(time.Hour)
		b.caughtUp()
		b.pass(2 * jobs.RestoreMargin) // one row is still in doubt
		b.restore(b.at)
		b.pass(time.Minute)
		b.admit(b.ev("2", 10, "NEW", "one"))
		for _, jb := range b.claim() {
			is(b, jb.Key, jb.DoubtSince, first)
			b.settle(jb, applied)
		}
		b.restore(b.at) // the stream was not read to its end in between
		b.pass(time.Minute)
		b.admit(b.ev("3", 10, "OTHER", "one"))
		for _, jb := range b.claim() {
			is(b, jb.Key+", not over", jb.DoubtSince, first)
			b.settle(jb, applied)
		}
		b.caughtUp()
		b.pass(2 * jobs.RestoreMargin)
		later := b.at
		b.restore(later)
		b.pass(time.Minute)
		b.admit(b.ev("4", 10, "LATER", "one"))
		for _, jb := range b.claim() {
			is(b, jb.Key+", the earlier is over", jb.DoubtSince, later)
		}
	}},
	{"after a restore a word that a write was done says nothing of its state, unless it is sent at most once", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "one"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.restore(b.at)
		b.pass(time.Hour)
		b.taken("A", applied7)
		b.want("A", jobs.Ready, jobs.ReasonNone)
		b.settle(b.one(), applied)
		b.admit(b.ev("1", 11, "A", "two"))
		jb = b.one()
		b.pin(jb, 1)
		b.settle(jb, unknown)
		b.pass(time.Hour)
		b.taken("A", applied7) // this one is remembered
		b.want("A", jobs.Done, jobs.ReasonNone)
	}},
	{"what is sent at most once is as it is wanted where a person says so after a restore, and older where they say that", func(b *bench) {
		b.once()
		b.restore(b.at)
		b.pass(time.Minute)
		b.admit(b.ev("1", 10, "A", "one"), b.ev("2", 10, "B", "one"), b.ev("3", 10, "C", "one"))
		for range 3 {
			b.settle(b.one(), connectors.Outcome{Class: connectors.Transient, Code: jobs.CodeUnresolvable})
		}
		e := b.why("A")
		is(b, "asked in which state it is there", e.Older, true)
		if !strings.Contains(e.Text, "the journal was restored at") || !strings.Contains(e.Text, "until the source has been read to its end") || strings.Contains(e.Text, "a write sent") {
			b.Errorf("it says %q", e.Text)
		}
		b.caughtUp()
		if e := b.why("A"); !strings.Contains(e.Text, "of all records that are read until 2026-") {
			b.Errorf("it says %q", e.Text)
		}
		b.taken("A", applied7)
		b.want("A", jobs.Done, jobs.ReasonNone)
		is(b, "text", b.why("A").Text, "a person said that the target has the desired state")
		older := applied7
		older.Older = true
		b.taken("B", older)
		b.want("B", jobs.Ready, jobs.ReasonNone)
		b.admit(b.ev("3", 11, "C", "two")) // after somebody has looked, perhaps
		b.taken("C", applied7)
		b.want("C", jobs.Ready, jobs.ReasonNone)
	}},
	{"a restore goes in steps, on where it was, and no daemon runs before its end", func(b *bench) {
		ctx := context.Background()
		const n = 1100
		b.admitMany(n)
		b.pass(time.Hour)
		run, e, _, err := b.journal.BeginRestore(ctx, b.at, 0, "", "ann")
		if err != nil || e.Number != b.at.Unix() {
			b.Fatalf("%+v, %v", e, err)
		}
		var done []int64
		for open := true; open; {
			if err := b.journal.Join(ctx, nil, jobs.DefaultTerms()); !errors.Is(err, jobs.ErrUnfinished) {
				b.Fatalf("a daemon joins: %v", err)
			}
			if err := b.journal.Part(ctx); err != nil {
				b.Fatal(err)
			}
			if _, ok, err := b.journal.StopRun(ctx, run.ID, "stopped"); err != nil || ok {
				b.Fatalf("it is stopped: %v, %v", ok, err)
			}
			b.restart()
			again, e2, fresh, err := b.journal.BeginRestore(ctx, b.at.Add(-time.Minute), 0, "", "ann")
			if err != nil || fresh || again.ID != run.ID || e2 != e {
				b.Fatalf("%+v, %+v, %v, %v", again, e2, fresh, err)
			}
			st := b.step(run.ID)
			done, open = append(done, st.Run.Done), st.Run.Open()
		}
		if len(done) != 3 || done[0] != 500 || done[1] != 1000 || done[2] != n {
			b.Fatalf("done %v", done)
		}
		if err := b.journal.Join(ctx, nil, jobs.DefaultTerms()); err != nil {
			b.Fatal(err)
		}
	}},
	{"an earlier sign of life counts more than what a person says of the backup, and no daemon may live", func(b *bench) {
		ctx := context.Background()
		e, err := b.journal.Mark(ctx, jobs.Epoch{})
		if err != nil || e.Mark != 1 || e.Number != 1 || e.Journal != e.ID || e.At != b.at {
			b.Fatalf("%+v, %v", e, err)
		}
		b.pass(time.Hour)
		if n, err := b.journal.CountRestore(ctx, b.at, b.flows); err != nil || n.AsOf != e.At {
			b.Fatalf("%+v, %v", n, err)
		}
		if n, err := b.journal.CountRestore(ctx, e.At.Add(-time.Minute), b.flows); err != nil || n.AsOf != e.At.Add(-time.Minute) {
			b.Fatalf("%+v, %v", n, err)
		}
		if err := b.journal.Join(ctx, nil, jobs.DefaultTerms()); err != nil {
			b.Fatal(err)
		}
		if _, _, _, err := b.journal.BeginRestore(ctx, b.at, 0, "", "ann"); !errors.Is(err, jobs.ErrInUse) {
			b.Fatalf("beside a daemon: %v", err)
		}
	}},
	{"a journal that stands behind what was seen of it is told from one that goes on", func(b *bench) {
		ctx := context.Background()
		first, err := b.journal.Mark(ctx, jobs.Epoch{})
		if err != nil {
			b.Fatal(err)
		}
		second, err := b.journal.Mark(ctx, first)
		if err != nil || second.Mark != 2 {
			b.Fatalf("%+v, %v", second, err)
		}
		ahead, other := second, second
		ahead.Mark, other.ID = 3, "X"
		for what, seen := range map[string]jobs.Epoch{"a mark behind": ahead, "an epoch of the same number": other} {
			if _, err := b.journal.Mark(ctx, seen); !errors.Is(err, jobs.ErrRestored) {
				b.Errorf("%s: %v", what, err)
			}
		}
		b.pass(time.Second)
		b.restore(b.at)
		third, err := b.journal.Mark(ctx, ahead)
		if err != nil || third.Number <= second.Number || third.Journal != first.Journal || third.ID == first.ID {
			b.Fatalf("after a restore was said: %+v, %v", third, err)
		}
		later := third
		later.Number++
		if _, err := b.journal.Mark(ctx, later); !errors.Is(err, jobs.ErrRestored) {
			b.Errorf("an epoch before: %v", err)
		}
		elsewhere := later
		elsewhere.Journal = "Y"
		if _, err := b.journal.Mark(ctx, elsewhere); err != nil {
			b.Errorf("another journal's: %v", err)
		}
	}},
	{"a journal in another file than it was left in is noticed until a person says why", func(b *bench) {
		ctx := context.Background()
		for _, file := range []string{"1", "1"} {
			if err := b.journal.SameFile(ctx, file); err != nil {
				b.Fatal(err)
			}
		}
		for what, err := range map[string]error{"noted": b.journal.SameFile(ctx, "2"), "seen": b.journal.SeeFile(ctx, "2")} {
			if !errors.Is(err, jobs.ErrCopied) {
				b.Errorf("%s: %v", what, err)
			}
		}
		if err := b.journal.Moved(ctx, "2"); err != nil {
			b.Fatal(err)
		}
		if err := b.journal.SameFile(ctx, "2"); err != nil {
			b.Fatal(err)
		}
		if _, _, _, err := b.journal.BeginRestore(ctx, b.at, 0, "3", "ann"); err != nil {
			b.Fatal(err)
		}
		if err := b.journal.SeeFile(ctx, "3"); err != nil {
			b.Fatal(err)
		}
	}},
}
