package conformance

import (
	"context"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// once has the bench's flow send at most once.
func (b *bench) once() { b.flow.Strategy = connectors.AtMostOnce }

// says is a person who found out about a record.
func (b *bench) says(key string, v jobs.Verdict) string {
	b.Helper()
	v.By, v.Why = "ann", "looked it up"
	_, refused, err := b.journal.Resolve(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: key}, v, b.flows)
	if err != nil {
		b.Fatal(err)
	}
	return refused
}

// refuses expects that a verdict is refused, and why.
func (b *bench) refuses(key string, v jobs.Verdict, want string) {
	b.Helper()
	if got := b.says(key, v); !strings.Contains(got, want) {
		b.Fatalf("the verdict is refused with %q, want %q", got, want)
	}
}

// taken expects that a verdict is taken, and returns the newest entry of the history.
func (b *bench) taken(key string, v jobs.Verdict) jobs.Attempt {
	b.Helper()
	if got := b.says(key, v); got != "" {
		b.Fatalf("the verdict is refused: %s", got)
	}
	d, _, err := b.journal.Get(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: key})
	if err != nil || len(d.Attempts) == 0 {
		b.Fatalf("%d entries, %v", len(d.Attempts), err)
	}
	return d.Attempts[0]
}

var (
	applied7 = jobs.Verdict{Applied: true, Link: `7`}
	resend   = jobs.Verdict{}
)

var heldRules = []rule{
	{"what was pinned is what a person says was applied, and a newer state follows", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.admit(b.ev("1", 11, "A", "y"))
		b.pass(time.Hour)
		b.settle(b.one(), connectors.Fail(connectors.Unknown, jobs.CodeUnresolvable, "sent again under its key")) // in the bytes of x
		is(b, "state before", b.row("A").State, jobs.Held)
		b.taken("A", applied7)
		is(b, "state", b.row("A").State, jobs.Ready)
		is(b, "link", b.one().Link, "7")
	}},
	{"what is sent at most once is claimed by itself, others beside it are not", func(b *bench) {
		once := *b.flow
		once.Name, once.Entity, once.Strategy = "notes", "note", connectors.AtMostOnce
		b.flows["notes"] = &once
		orders := b.flow
		b.flow = &once
		b.admit(b.ev("1", 10, "N1", "x"), b.ev("2", 10, "N2", "x"))
		b.flow = orders
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"), b.ev("3", 10, "C", "x"))
		most, n := 0, 0
		for {
			js := b.claim()
			if len(js) == 0 {
				break
			}
			n += len(js)
			for _, jb := range js {
				if jb.Flow == "notes" && len(js) > 1 {
					b.Fatalf("%s was claimed with %d others", jb.Key, len(js)-1)
				}
			}
			most = max(most, len(js))
		}
		is(b, "claimed", n, 5)
		is(b, "most at once", most, 3)
	}},
	{"a write that is sent at most once and whose answer is lost is held and never sent again", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		s := b.settle(b.one(), unknown)
		is(b, "settled as", s.State, jobs.Held)
		r := b.want("A", jobs.Held, jobs.ReasonNone)
		if !r.Unresolved() {
			b.Fatal("it is not in doubt")
		}
		b.pass(24 * time.Hour)
		b.none()
		a, err := b.journal.Replay(context.Background(), []jobs.RowID{r.RowID}, b.flows)
		if err != nil || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "syncd resolve") {
			b.Fatalf("a replay came to %+v, %v", a, err)
		}
		b.none()
	}},
	{"a claim that a daemon left behind is held too, also when its flow is no longer configured", func(b *bench) {
		b.once()
		if _, err := b.journal.Bind(context.Background(), b.flows); err != nil {
			b.Fatal(err)
		}
		for _, key := range []string{"A", "B"} {
			b.admit(b.ev(key, 10, key, "x"))
			b.one()
			b.restart()
			live := b.flows
			if key == "B" {
				b.flows = map[string]*jobs.Flow{}
			}
			is(b, "lost", b.recover(), 1)
			b.flows = live
			r := b.want(key, jobs.Held, jobs.ReasonNone)
			is(b, "class", r.LastClass, connectors.Lost)
		}
		b.pass(24 * time.Hour)
		b.none()
	}},
	{"a failure of which nothing was sent is tried again as any other", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Transient, "connect", "refused"))
		b.want("A", jobs.Ready, jobs.ReasonRetry)
		b.pass(time.Hour)
		b.one()
	}},
	{"a newer version waits while its record is held, and a removal too", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Hour)
		b.admit(b.ev("1", 11, "A", "y"))
		b.want("A", jobs.Held, jobs.ReasonNone)
		b.body("A", "y")
		b.none()
		b.pass(time.Hour)
		gone := b.ev("1", 12)
		gone.Gone = true
		b.admit(gone)
		r := b.want("A", jobs.Held, jobs.ReasonNone)
		is(b, "desired gone", r.Gone, true)
		b.none()
		b.taken("A", applied7)
		b.want("A", jobs.Done, jobs.ReasonIgnored) // on_delete: ignore
	}},
	{"a newer version that came while the write was under way waits too", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.settle(jb, unknown)
		b.want("A", jobs.Held, jobs.ReasonNone)
		b.pass(time.Hour)
		b.none()
		b.taken("A", applied7)
		jb = b.one()
		is(b, "body", string(jb.Body), `{"v":"y"}`)
		is(b, "link", jb.Link, `7`)
		is(b, "in doubt", jb.Unresolved(), false)
	}},
	{"a strategy that cannot find out what became of a write has its row held", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.want("A", jobs.Ready, jobs.ReasonUnresolved)
		since := b.row("A").UnresolvedAt
		b.pass(time.Hour)
		b.settle(b.one(), connectors.Fail(connectors.Transient, jobs.CodeUnresolvable, "no look-up"))
		r := b.want("A", jobs.Held, jobs.ReasonNone)
		is(b, "in doubt since", r.UnresolvedAt, since)
		is(b, "tries", r.Tries, 1)
	}},
	{"a row that is not in doubt itself is not held over another flow's doubt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		o := connectors.Fail(connectors.Transient, jobs.CodeUnresolvable, "another flow's")
		o.RetryAfter = time.Minute
		b.settle(b.one(), o)
		is(b, "state", b.row("A").State, jobs.Ready)
		b.pass(time.Minute - time.Microsecond)
		b.none()
		b.pass(time.Microsecond)
		b.one()
	}},
	{"a person who says that the write was done ends the job, and is named in its history", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		e := b.taken("A", applied7)
		if e.Code != "resolved" || e.Message != "ann says: applied: looked it up" {
			b.Fatalf("the history says %+v", e)
		}
		r := b.want("A", jobs.Done, jobs.ReasonNone)
		is(b, "applied", r.AppliedGeneration, r.Generation)
		is(b, "in doubt", r.Unresolved(), false)
		is(b, "link", b.link("A"), `7`)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "x")) // the same content is not written again
		b.none()
		b.admit(b.ev("1", 12, "A", "y"))
		is(b, "link", b.one().Link, `7`)
	}},
	{"a person who says that the write was not done has it sent again, once that can be known", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.refuses("A", resend, "may still be at work in the target until 2026-11-29T10:00:30Z")
		b.want("A", jobs.Held, jobs.ReasonNone)
		b.pass(30 * time.Second)
		e := b.taken("A", resend)
		if e.Code != "resolved" || e.Message != "ann says: not applied, to be sent again: looked it up" {
			b.Fatalf("the history says %+v", e)
		}
		jb := b.one()
		is(b, "in doubt", jb.Unresolved(), false)
		is(b, "number", jb.Number, int64(2))
		b.settle(jb, unknown)
		b.want("A", jobs.Held, jobs.ReasonNone)
	}},
	{"an id is asked for where later changes need it and nobody could find it", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.refuses("A", jobs.Verdict{Applied: true}, "--link")
		b.flow.CreateOnly = true
		b.taken("A", jobs.Verdict{Applied: true})
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.flow.CreateOnly, b.flow.CanFind = false, true
		b.admit(b.ev("2", 10, "B", "x"))
		b.settle(b.one(), unknown)
		b.taken("B", jobs.Verdict{Applied: true})
		b.want("B", jobs.Done, jobs.ReasonNone)
	}},
	{"only held rows, and ready or dead ones in doubt, can be resolved", func(b *bench) {
		b.refuses("A", applied7, "there is no such job")
		b.admit(b.ev("1", 10, "A", "x"))
		b.refuses("A", applied7, "it is ready, and no write of it is in doubt")
		jb := b.one()
		b.refuses("A", applied7, "it is being written")
		b.settle(jb, unknown)
		b.pass(time.Hour)
		b.taken("A", applied7) // ready, in doubt
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.refuses("A", applied7, "it is done")
		b.admit(b.ev("2", 10, "B", "x"))
		b.settle(b.one(), unknown)
		b.pass(time.Hour)
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "http_422", "refused"))
		b.want("B", jobs.Dead, jobs.ReasonFailed)
		b.taken("B", resend)
		b.want("B", jobs.Ready, jobs.ReasonNone)
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "http_422", "refused"))
		b.refuses("B", resend, "it is dead, and no write of it is in doubt")
		flows := b.flows
		b.admit(b.ev("3", 10, "C", "x"))
		b.settle(b.one(), unknown)
		b.flows = map[string]*jobs.Flow{}
		b.refuses("C", applied7, "flow orders is not in the configuration")
		b.flows = flows
	}},
	{"a key in use ends with a person's word", func(b *bench) {
		b.keyed()
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pin(jb, 0)
		b.settle(jb, unknown)
		b.pass(time.Hour)
		b.taken("A", resend)
		jb = b.one()
		if jb.Pin != nil || jb.KeyEpoch != 1 {
			b.Fatalf("epoch %d, pin %+v", jb.KeyEpoch, jb.Pin)
		}
	}},
	{"what waits for a held record is woken when a person says that it is there", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		b.admit(b.ev("2", 10, "B", "x"))
		wait := connectors.Fail(connectors.Waiting, "reference", "order A is not there")
		wait.WaitEntity, wait.WaitKey = "order", "A"
		b.settle(b.one(), wait)
		b.none()
		b.taken("A", applied7)
		is(b, "woken", b.one().Key, "B")
	}},
	{"a held row can be given up, and other content of it is held again", func(b *bench) {
		b.once()
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), unknown)
		is(b, "given up", b.discard("A").Done, 1)
		b.want("A", jobs.Done, jobs.ReasonDiscarded)
		b.pass(time.Hour)
		b.admit(b.ev("1", 11, "A", "y"))
		jb := b.one()
		is(b, "in doubt", jb.Unresolved(), true)
		b.settle(jb, connectors.Fail(connectors.Transient, jobs.CodeUnresolvable, "at most once"))
		b.want("A", jobs.Held, jobs.ReasonNone)
	}},
}
