package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var mandatory = connectors.Fail(connectors.Invalid, "required", "country is missing")

// orders admits records 0 to n-1, each with the key K and its number.
func (b *bench) orders(n int) {
	items := make([]jobs.Item, n)
	for i := range items {
		items[i] = b.ev(fmt.Sprint(i), 1, fmt.Sprint("K", i), "x")
	}
	b.admit(items...)
}

// refuseSome claims and has the target refuse at most n jobs in the same way, one
// outcome after the other, and returns the last of what became of them.
func (b *bench) refuseSome(n int) (last jobs.Settled) {
	b.Helper()
	for n > 0 {
		js := b.claim()
		if len(js) == 0 {
			b.Fatalf("nothing is due, and %d jobs were to be refused", n)
		}
		for _, jb := range js[:min(n, len(js))] {
			last = b.settle(jb, mandatory)
			n--
		}
	}
	return last
}

// suspended is FlowState.Suspended of the bench's flow, as it is stored.
func (b *bench) suspended() jobs.Standing {
	b.Helper()
	s, err := b.journal.Cursor(context.Background(), b.flow.Name)
	if err != nil {
		b.Fatal(err)
	}
	return s.Suspended
}

// counted is how many rows of the bench's flow are in a state.
func (b *bench) counted(st jobs.State) int {
	b.Helper()
	rows, _, err := b.journal.List(context.Background(), jobs.Filter{Flow: b.flow.Name, State: st, Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	return len(rows)
}

// why explains a row of the bench's flow.
func (b *bench) why(key string) jobs.Explanation {
	b.Helper()
	d, s, ok, err := b.journal.Surround(context.Background(), jobs.RowID{Flow: b.flow.Name, Key: key}, b.flows)
	if err != nil || !ok {
		b.Fatalf("row %s: found %v, %v", key, ok, err)
	}
	return jobs.Why(&d.Row, s, b.at)
}

var refusalRules = []rule{
	{"twenty refusals of one kind in a row suspend the flow, and none of its jobs has lost an attempt", func(b *bench) {
		b.orders(30)
		if s := b.refuseSome(19); s.State != jobs.Dead || s.Suspended.Is() || b.suspended().Is() {
			b.Fatalf("after nineteen: %+v", s)
		}
		is(b, "dead after nineteen", b.counted(jobs.Dead), 19)
		js := b.under()
		s := b.settle(js[0], mandatory)
		if s.State != jobs.Ready || s.Suspended.Code != "required" || !strings.Contains(s.Suspended.Message, "country is missing") {
			b.Fatalf("the twentieth: %+v", s)
		}
		is(b, "dead", b.counted(jobs.Dead), 0)
		for _, jb := range b.claimed[:20] {
			r := b.want(jb.Key, jobs.Ready, jobs.ReasonRetry)
			if r.Tries != 0 || !r.FirstTryAt.IsZero() || r.Attempt != 1 || r.LastCode != "required" {
				b.Fatalf("row %s: %d tries since %s, attempt %d, %s", r.Key, r.Tries, r.FirstTryAt, r.Attempt, r.LastCode)
			}
		}
		// What was under way by then is refused too.
		for _, jb := range js[1:] {
			is(b, "state of one that was under way", b.settle(jb, mandatory).State, jobs.Ready)
		}
		b.none()
	}},
	{"refusals are counted of different records, of one kind, and since the last success", func(b *bench) {
		b.orders(60)
		b.refuseSome(19)
		b.settle(b.under()[0], connectors.Outcome{Class: connectors.Applied, Link: `7`})
		b.refuseUnder(19)
		b.settle(b.under()[0], connectors.Fail(connectors.Invalid, "other", "m"))
		b.refuseUnder(19)
		if b.suspended().Is() {
			b.Fatal("suspended")
		}
		one := b.under()[0]
		b.settle(one, connectors.Fail(connectors.Invalid, "poison", "m"))
		for range 25 {
			if _, err := b.journal.Replay(context.Background(), []jobs.RowID{one.RowID}, b.flows); err != nil {
				b.Fatal(err)
			}
			b.settle(b.one(), connectors.Fail(connectors.Invalid, "poison", "m"))
		}
		if b.suspended().Is() {
			b.Fatal("suspended for one record")
		}
	}},
	{"a suspended flow has one job tried at a time, seldomer each time, and each time another one", func(b *bench) {
		b.orders(30)
		b.refuseSome(20)
		for _, jb := range b.under() {
			b.settle(jb, connectors.Fail(connectors.Paused, "paused", "nothing was sent"))
		}
		tried := map[string]bool{}
		for i, every := range []time.Duration{1, 2, 4, 8, 10, 10} {
			at := b.suspended().Until
			if i == 0 {
				is(b, "the first probe", at.Sub(b.at), time.Minute)
			}
			b.at = at.Add(-time.Millisecond)
			b.none()
			b.at = at
			jb := b.one()
			b.none()
			b.pass(time.Second)
			b.none()
			b.settle(jb, mandatory)
			b.want(jb.Key, jobs.Ready, jobs.ReasonRetry)
			if tried[jb.Key] {
				b.Fatalf("%s was tried twice", jb.Key)
			}
			tried[jb.Key] = true
			if i > 0 {
				is(b, fmt.Sprint("the time to probe ", i), b.suspended().Until.Sub(at), min(every*time.Minute*2, 10*time.Minute))
			}
		}
	}},
	{"a job that was not refused is tried before those that were", func(b *bench) {
		b.orders(40)
		b.refuseSome(20)
		refused := map[string]bool{}
		for i, jb := range b.under() {
			if i < 15 {
				refused[jb.Key] = true
				b.settle(jb, mandatory)
				continue
			}
			b.settle(jb, connectors.Fail(connectors.Paused, "paused", "nothing was sent"))
		}
		for range 5 {
			b.at = b.suspended().Until
			jb := b.one()
			if refused[jb.Key] || jb.LastClass == connectors.Invalid {
				b.Fatalf("%s was refused already, and others were not", jb.Key)
			}
			b.settle(jb, mandatory)
			b.pass(15 * time.Second)
			b.none() // the others are put off to the next probe
		}
		b.at = b.suspended().Until.Add(time.Second)
		b.one() // now one of those
	}},
	{"the first success ends the suspension, and what was put off goes on", func(b *bench) {
		ctx := context.Background()
		b.orders(30)
		b.refuseSome(20)
		rest := b.under()
		for _, jb := range rest {
			b.settle(jb, mandatory)
		}
		b.pass(time.Minute + time.Second)
		s := b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `7`})
		if s.Freed.Code != "required" || b.suspended().Is() {
			b.Fatalf("freed %+v, stands %+v", s.Freed, b.suspended())
		}
		if err := b.journal.AfterSuspension(ctx, "orders", s.Freed); err != nil {
			b.Fatal(err)
		}
		b.pass(10 * time.Second) // those that waited for the probe
		js := b.claim()
		is(b, "claimed", len(js), 29)
		for i, jb := range js {
			if s := b.settle(jb, mandatory); i < 19 && s.State != jobs.Dead {
				b.Fatalf("refusal %d after the end: %+v", i+1, s)
			}
		}
	}},
	{"records that are refused as before once another was written are dead letters, however many", func(b *bench) {
		b.orders(50)
		b.refuseSome(20)
		for _, jb := range b.under() {
			b.settle(jb, mandatory)
		}
		b.pass(time.Minute + time.Second)
		s := b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `7`})
		if err := b.journal.AfterSuspension(context.Background(), "orders", s.Freed); err != nil {
			b.Fatal(err)
		}
		b.pass(10 * time.Second)
		b.refuseSome(49)
		is(b, "dead", b.counted(jobs.Dead), 49)
		is(b, "suspended", b.suspended().Is(), false)
		// What was never refused before is counted as ever.
		b.orders(70)
		b.refuseSome(20)
		is(b, "suspended by others", b.suspended().Is(), true)
		is(b, "dead of before", b.counted(jobs.Dead), 49)
	}},
	{"a reload has a suspended flow tried at once, and so has a restart", func(b *bench) {
		b.orders(25)
		b.refuseSome(20)
		for _, jb := range b.under() {
			b.settle(jb, mandatory)
		}
		for range 2 {
			b.none()
			b.restart()
			b.pass(time.Second)
			b.none()
			if err := b.journal.ProbeNow(context.Background(), b.flows); err != nil {
				b.Fatal(err)
			}
			b.settle(b.one(), mandatory)
			if !b.suspended().Is() {
				b.Fatal("the suspension ended without a success")
			}
		}
	}},
	{"a suspended flow holds back no other flow of its client", func(b *bench) {
		b.orders(300)
		b.refuseSome(20)
		for _, jb := range b.under() {
			b.settle(jb, mandatory)
		}
		b.flow = &jobs.Flow{Name: "two", SourceClient: "shop", Client: "erp", Entity: "party", Strategy: connectors.ExternalRef,
			Retry: jobs.DefaultRetry(), OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate"}
		b.flows["two"] = b.flow
		b.pass(time.Second)
		b.admit(b.ev("1", 1, "A", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 2, Flows: b.flows})
		if err != nil || len(c.Jobs) != 1 || c.Jobs[0].Flow != "two" {
			b.Fatalf("claimed %d, %v", len(c.Jobs), err)
		}
	}},
	{"jobs of a suspended flow do not expire, and each is explained by the suspension", func(b *bench) {
		b.flow.MaxAge = time.Hour
		b.orders(40)
		b.refuseSome(20)
		for _, jb := range b.under() {
			b.settle(jb, mandatory)
		}
		b.none()
		for _, key := range []string{"K0", "K39"} {
			e := b.why(key)
			if e.Due || e.Reason != "flow_suspended" || !e.Since.Equal(b.suspended().Since) || e.Until.Before(b.suspended().Until) ||
				e.Until.After(b.suspended().Until.Add(time.Second)) || !strings.Contains(e.Text, "country is missing") {
				b.Fatalf("%s: %+v", key, e)
			}
		}
		b.pass(time.Minute + time.Second)
		if e := b.why("K0"); !e.Due {
			b.Fatalf("the probe: %+v", e)
		}
		b.settle(b.one(), mandatory)
		b.pass(90 * time.Second)
		b.none()
		b.pass(2 * time.Hour)
		b.none() // the probe has expired, and no other
		is(b, "dead", b.counted(jobs.Dead) <= 20, true)
	}},
}

// under are the jobs that are claimed and not settled, in the order of their keys.
func (b *bench) under() []*jobs.Job {
	b.Helper()
	var out []*jobs.Job
	for _, jb := range b.claimed {
		if b.underWay[jb.RowID] {
			out = append(out, jb)
		}
	}
	return out
}

// refuseUnder refuses n of the jobs that are under way.
func (b *bench) refuseUnder(n int) {
	b.Helper()
	for _, jb := range b.under()[:n] {
		b.settle(jb, mandatory)
	}
}
