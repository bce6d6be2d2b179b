package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var outcomeRules = []rule{
	{"throttling, pauses, refused credentials and waiting cost no attempt", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		for i, c := range []connectors.Class{connectors.Throttled, connectors.Paused, connectors.Auth, connectors.Waiting} {
			jb := b.one()
			is(b, "attempt number", jb.Number, int64(i+1))
			o := connectors.Fail(c, "c", "m")
			o.WaitEntity, o.WaitKey = "party", "P"
			b.settle(jb, o)
			r := b.row("A")
			is(b, fmt.Sprintf("tries after %s", c), r.Tries, 0)
			is(b, "state", r.State, jobs.Ready)
			b.pass(2 * time.Minute)
		}
	}},
	{"Retry-After is a floor below which nothing is tried", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		o := connectors.Fail(connectors.Transient, "http_503", "busy")
		o.RetryAfter = 10 * time.Minute
		b.settle(b.one(), o)
		b.pass(10*time.Minute - time.Second)
		b.none()
		b.pass(time.Second)
		b.one()
	}},
	{"attempts are used up only after retry_for, and then the job is dead", func(b *bench) {
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor, b.flow.Retry.MaxDelay = 3, time.Hour, time.Minute
		b.admit(b.ev("1", 10, "A", "x"))
		n := 0
		for b.row("A").State == jobs.Ready && n < 1000 {
			js := b.claim()
			if len(js) == 1 {
				n++
				b.settleWith(jobs.Settlement{Job: js[0], Flow: b.flow, SentAt: b.at, Served: b.at,
					Outcome: connectors.Fail(connectors.Transient, "connect", "refused")})
			}
			b.pass(10 * time.Second)
		}
		r := b.want("A", jobs.Dead, jobs.ReasonFailed)
		if r.LastAt.Sub(r.FirstTryAt) < time.Hour || n < 4 {
			b.Fatalf("given up after %s and %d attempts", r.LastAt.Sub(r.FirstTryAt), n)
		}
	}},
	{"failures while the client serves nobody are not counted", func(b *bench) {
		b.flow.Retry.MaxAttempts, b.flow.Retry.RetryFor = 2, 0
		b.admit(b.ev("1", 10, "A", "x"))
		for range 20 {
			b.settle(b.one(), connectors.Fail(connectors.Transient, "connect", "refused"))
			b.pass(time.Hour)
		}
		r := b.want("A", jobs.Ready, jobs.ReasonRetry)
		is(b, "tries", r.Tries, 1)
		is(b, "attempt", r.Attempt, int64(20))
	}},
	{"an invalid record is dead at once, and a newer version heals it", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "required", "name is required"))
		b.want("A", jobs.Dead, jobs.ReasonFailed)
		b.admit(b.ev("1", 10, "A", "x"))
		b.want("A", jobs.Dead, jobs.ReasonFailed)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "x"))
		r := b.want("A", jobs.Ready, jobs.ReasonNone)
		is(b, "tries", r.Tries, 0)
		is(b, "number", b.one().Number, int64(2))
	}},
	{"an invalid outcome for an older generation does not kill the newer one", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		jb := b.one()
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.settle(jb, connectors.Fail(connectors.Invalid, "required", "m"))
		is(b, "body", string(b.one().Body), `{"v":"y"}`)
	}},
	{"a new version over a failing one keeps its due time and its age", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		open := b.row("A").OpenSince
		o := connectors.Fail(connectors.Transient, "connect", "refused")
		o.RetryAfter = time.Minute
		b.settle(b.one(), o)
		due := b.row("A").DueAt
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		r := b.want("A", jobs.Ready, jobs.ReasonRetry)
		is(b, "due", r.DueAt, due)
		is(b, "open since", r.OpenSince, open)
		is(b, "tries", r.Tries, 0)
	}},
	{"missing through a link: created anew, left or dead, as on_missing says", func(b *bench) {
		for i, c := range []struct {
			say   string
			state jobs.State
		}{{"recreate", jobs.Ready}, {"leave", jobs.Done}, {"dead", jobs.Dead}} {
			b.flow.OnMissing = c.say
			key := fmt.Sprint("K", i)
			b.admit(b.ev(key, 10, key, "x"))
			b.apply()
			b.pass(time.Second)
			b.admit(b.ev(key, 11, key, "y"))
			b.settle(b.one(), connectors.Fail(connectors.Missing, "http_404", "gone"))
			is(b, c.say, b.row(key).State, c.state)
			b.pass(time.Hour)
			if c.state == jobs.Ready {
				is(b, "link", b.one().Link, "")
				b.restart()
				b.recover()
				b.flow.OnMissing = "leave"
				b.pass(time.Hour)
				b.apply()
			}
		}
	}},
	{"a frozen document is dead or ignored, as on_frozen says", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Frozen, "frozen", "it is posted"))
		r := b.want("A", jobs.Dead, jobs.ReasonFailed)
		is(b, "class", r.LastClass, connectors.Frozen)
		b.flow.OnFrozen = "ignore"
		b.admit(b.ev("2", 10, "B", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Frozen, "frozen", "it is posted"))
		b.want("B", jobs.Done, jobs.ReasonIgnored)
	}},
	{"stale is done, and the same content later is still written", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Outcome{Class: connectors.Stale})
		b.want("A", jobs.Done, jobs.ReasonNone)
		b.pass(time.Second)
		b.admit(b.ev("1", 11, "A", "y"))
		b.apply()
		b.pass(time.Second)
		b.admit(b.ev("1", 12, "A", "x"))
		b.one()
	}},
	{"a waiting job is woken when the record it waits for is applied", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		o := connectors.Fail(connectors.Waiting, "reference", "order B is not there yet")
		o.WaitEntity, o.WaitKey = "order", "B"
		byKey := map[string]*jobs.Job{js[0].Key: js[0], js[1].Key: js[1]}
		b.settle(byKey["A"], o)
		b.none()
		b.settle(byKey["B"], connectors.Outcome{Class: connectors.Applied, Link: `8`})
		is(b, "woken", b.one().Key, "A")
	}},
	{"a record applied while another is put to sleep for it is not missed", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		byKey := map[string]*jobs.Job{js[0].Key: js[0], js[1].Key: js[1]}
		b.settle(byKey["B"], connectors.Outcome{Class: connectors.Applied, Link: `8`})
		o := connectors.Fail(connectors.Waiting, "reference", "order B is not there yet")
		o.WaitEntity, o.WaitKey = "order", "B"
		b.settle(byKey["A"], o)
		is(b, "due", b.one().Key, "A")
	}},
	{"a record written without an optional reference is written again when that is there", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		js := b.claim()
		byKey := map[string]*jobs.Job{js[0].Key: js[0], js[1].Key: js[1]}
		b.settleWith(jobs.Settlement{Job: byKey["A"], Flow: b.flow, SentAt: b.at, Outcome: connectors.Outcome{Class: connectors.Applied, Link: `7`},
			Reopen: jobs.EntityKey{Entity: "order", Key: "B"}})
		b.want("A", jobs.Ready, jobs.ReasonWaiting)
		b.none()
		b.settle(byKey["B"], connectors.Outcome{Class: connectors.Applied, Link: `8`})
		is(b, "again", b.one().Key, "A")
	}},
	{"the history names every attempt that was not a quiet success", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Transient, "connect", "refused"))
		b.pass(time.Hour)
		b.apply()
		d, _, err := b.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: "A"})
		if err != nil || len(d.Attempts) != 2 || d.Attempts[0].Class != connectors.Applied || d.Attempts[1].Code != "connect" {
			b.Fatalf("history %+v, %v", d.Attempts, err)
		}
	}},
	{"two flows that write one record are never claimed together", func(b *bench) {
		second := *b.flow
		second.Name = "prices"
		b.flows["prices"] = &second
		b.admit(b.ev("1", 10, "A", "x"))
		b.flow = &second
		b.admit(b.ev("1", 10, "A", "y"))
		jb := b.one()
		b.settle(jb, connectors.Outcome{Class: connectors.Applied, Link: `7`})
		other := b.one()
		if other.Flow == jb.Flow {
			b.Fatal("the same flow was claimed twice")
		}
		is(b, "link", other.Link, `7`)
	}},
	{"a record under way is left out of a claim", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 10, Flows: b.flows,
			Busy: func(id jobs.RowID, k jobs.EntityKey) bool { return id.Key == "A" && k.Entity == "order" }})
		if err != nil || len(c.Jobs) != 0 {
			b.Fatalf("claimed %d, %v", len(c.Jobs), err)
		}
	}},
}
