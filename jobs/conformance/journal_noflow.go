package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// without claims as a daemon that does not have the bench's flow, and returns how many of
// its jobs were put off for that.
func (b *bench) without() int {
	b.Helper()
	c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 10, Flows: map[string]*jobs.Flow{}})
	if err != nil || len(c.Jobs) > 0 {
		b.Fatalf("claimed %d jobs of a flow that is not there, %v", len(c.Jobs), err)
	}
	return c.NoFlow[b.flow.Name]
}

var noFlowRules = []rule{
	{"a job whose flow the daemon does not have is put off with that reason, and due when one has it", func(b *bench) {
		for n := range 700 {
			b.admit(b.ev(fmt.Sprint(n), 1, fmt.Sprint("K", n), "x"))
		}
		is(b, "put off", b.without(), 700)
		is(b, "put off once more", b.without(), 0)
		r := b.want("K7", jobs.Ready, jobs.ReasonNoFlow)
		is(b, "put off for", r.DueAt.Sub(b.at), time.Minute)
		b.none()
		b.pass(time.Second)
		b.recover() // as whoever begins with a lane does
		is(b, "due", b.want("K7", jobs.Ready, jobs.ReasonNone).DueAt, b.at)
		taken := 0
		for range 7 {
			taken += len(b.claim())
		}
		is(b, "claimed", taken, 700)
	}},
	{"a job whose flow is missing for long is looked at every ten minutes", func(b *bench) {
		b.admit(b.ev("1", 1, "A", "x"))
		is(b, "put off", b.without(), 1)
		b.pass(time.Minute)
		is(b, "put off again", b.without(), 1)
		r := b.want("A", jobs.Ready, jobs.ReasonNoFlow)
		is(b, "put off for", r.DueAt.Sub(b.at), 10*time.Minute)
		b.admit(b.ev("1", 2, "A", "y")) // it changes nothing of that
		is(b, "due", b.want("A", jobs.Ready, jobs.ReasonNoFlow).DueAt, r.DueAt)
		b.pass(10 * time.Minute)
		b.settle(b.one(), connectors.Fail(connectors.Transient, "http_503", "no"))
		b.want("A", jobs.Ready, jobs.ReasonRetry)
	}},
	{"a flow that rests while others are taken up goes on when it is taken up itself", func(b *bench) {
		orders := b.flow
		b.admit(b.ev("1", 1, "A", "x"))
		b.write("parties", "party")
		b.admit(b.ev("2", 1, "P", "x"))
		is(b, "put off", b.without(), 1)
		b.recover() // with parties alone
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: "7"})
		b.recover()
		b.flow, b.flows = orders, map[string]*jobs.Flow{"orders": orders, "parties": b.flow}
		b.want("A", jobs.Ready, jobs.ReasonNoFlow)
		b.recover()
		is(b, "claimed", b.one().Key, "A")
	}},
	{"what a job waits for besides its flow is not forgotten, nor is a write in doubt", func(b *bench) {
		b.admit(b.ev("1", 1, "A", "x"), b.ev("2", 1, "B", "x"))
		for _, jb := range b.claim() {
			o := unknown
			if jb.Key == "A" {
				o = connectors.Fail(connectors.Waiting, "reference", "no customer C yet")
				o.WaitEntity, o.WaitKey = "customer", "C"
			}
			b.settle(jb, o)
		}
		b.pass(time.Hour)
		is(b, "put off", b.without(), 2)
		b.want("A", jobs.Ready, jobs.ReasonWaiting)
		b.want("B", jobs.Ready, jobs.ReasonNoFlow)
		b.recover() // as whoever begins with a lane does
		b.want("B", jobs.Ready, jobs.ReasonUnresolved)
		is(b, "claimed", b.one().Key, "B")
	}},
	{"a job that was put off for want of its flow when the journal is restored is in doubt as any other", func(b *bench) {
		ctx := context.Background()
		b.admit(b.ev("1", 1, "A", "x"))
		is(b, "put off", b.without(), 1)
		run, _, _, err := b.journal.BeginRestore(ctx, b.at, 1, "", "ann")
		if err != nil {
			b.Fatal(err)
		}
		for b.step(run.ID).Run.Open() {
		}
		r := b.want("A", jobs.Ready, jobs.ReasonUnresolved)
		is(b, "due", r.DueAt, b.at.Add(time.Minute))
	}},
}
