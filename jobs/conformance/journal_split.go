package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// splitTerms are those of daemons that share a client.
var splitTerms = jobs.Terms{For: time.Minute, Renew: 20 * time.Second, Margin: time.Second}

// daemon ends the present daemon, with whatever it has under way, and begins one that
// splits client erp into so many shards and runs all lanes.
func (b *bench) daemon(name string, shards int) {
	b.Helper()
	b.pass(time.Minute)
	for _, h := range b.journal.Holds() {
		if err := b.journal.Release(context.Background(), h); err != nil {
			b.Fatal(err)
		}
	}
	if err := b.journal.Part(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.underWay = map[jobs.RowID]bool{}
	b.journal = jobs.New(b.engine, jobs.Options{Owner: name, Rand: func() float64 { return 0.5 }})
	b.flow.Shards = shards
	lanes := []jobs.LaneID{{Client: "shop"}}
	for n := range shards {
		lanes = append(lanes, jobs.LaneID{Client: "erp", Shard: n})
	}
	ctx := context.Background()
	if err := b.journal.Join(ctx, lanes, splitTerms); err != nil {
		b.Fatal(err)
	}
	s, err := b.journal.Survey(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range lanes {
		was, free := s.Free(l, b.journal.Me(), false)
		if h, err := b.journal.Take(ctx, was); !free || h == nil || err != nil {
			b.Fatalf("lane %s: free %v, %v, %v", l, free, h, err)
		}
		if _, err := b.journal.Recover(ctx, l, b.flows); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) split(shards int) {
	b.Helper()
	if err := b.journal.Reshard(context.Background(), "erp", shards, b.flows); err != nil {
		b.Fatal(err)
	}
}

// keyOf is a key of a shard of two.
func (b *bench) keyOf(shard int) string {
	for n := 0; ; n++ {
		if k := fmt.Sprint("K", n); jobs.ShardOf(jobs.EntityKey{Entity: b.flow.Entity, Key: k}, 2) == shard {
			return k
		}
	}
}

// claimIn claims the one job that is due in a shard.
func (b *bench) claimIn(shard int) *jobs.Job {
	b.Helper()
	c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Shard: shard, Limit: 10, Flows: b.flows})
	if err != nil || len(c.Jobs) != 1 {
		b.Fatalf("shard %d: %d jobs, %v", shard, len(c.Jobs), err)
	}
	return c.Jobs[0]
}

var splitRules = []rule{
	{"what an ended daemon left under way in a shard is in doubt when the client is split anew", func(b *bench) {
		key := b.keyOf(1)
		b.daemon("one", 2)
		b.split(2)
		b.admit(b.ev("1", 1, key, "x"))
		jb := b.claimIn(1)
		b.daemon("two", 1)
		b.split(1)
		if r := b.row(key); !r.Unresolved() || r.Attempt != jb.Number || r.Shard != 0 {
			b.Errorf("in doubt %v, attempt %d, shard %d", r.Unresolved(), r.Attempt, r.Shard)
		}
	}},
	{"nothing is admitted into shards that are not those of the client", func(b *bench) {
		b.daemon("one", 2)
		_, err := b.journal.Admit(context.Background(), jobs.Admission{Flow: b.flow, Items: []jobs.Item{b.ev("1", 1, "A", "x")}})
		var re *jobs.ReshardError
		if !errors.As(err, &re) || re.Has != 1 || re.Get != 2 {
			b.Fatalf("admitted before the split: %v", err)
		}
		b.split(2)
		b.admit(b.ev("1", 1, "A", "x"))
	}},
	{"a job that a person has written is due in its shard of today", func(b *bench) {
		b.flow.Strategy = connectors.AtMostOnce
		for n, act := range []func(id jobs.RowID) error{
			func(id jobs.RowID) error {
				_, refused, err := b.journal.Resolve(context.Background(), id, jobs.Verdict{By: "p", Why: "w"}, b.flows)
				if refused != "" {
					b.Errorf("refused: %s", refused)
				}
				return err
			},
			func(id jobs.RowID) error {
				_, err := b.journal.Replay(context.Background(), []jobs.RowID{id}, b.flows)
				return err
			},
		} {
			b.write(fmt.Sprint("orders-", n), "order")
			b.flow.Strategy = connectors.AtMostOnce
			key := b.keyOf(1)
			b.daemon(fmt.Sprint("one-", n), 2)
			b.split(2)
			b.admit(b.ev("1", 1, key, "x"))
			o := []connectors.Outcome{unknown, connectors.Fail(connectors.Invalid, "no", "no")}[n]
			if _, err := b.journal.Settle(context.Background(), "erp", []jobs.Settlement{{Job: b.claimIn(1), Flow: b.flow, Outcome: o, SentAt: b.at}}); err != nil {
				b.Fatal(err)
			}
			b.daemon(fmt.Sprint("two-", n), 1)
			b.split(1)
			if err := act(jobs.RowID{Flow: b.flow.Name, Key: key}); err != nil {
				b.Fatal(err)
			}
			if r := b.row(key); r.State != jobs.Ready || r.Shard != 0 {
				b.Errorf("%d: %s in shard %d", n, r.State, r.Shard)
			}
		}
	}},
	{"an answer that was read before the source began anew is not admitted after it", func(b *bench) {
		b.flow.CanRefresh = true
		b.admit(b.ev("1", 7, "A", "x"))
		b.settle(b.one(), connectors.Fail(connectors.Invalid, "mapping", "no"))
		if _, err := b.journal.Remap(context.Background(), []jobs.RowID{{Flow: "orders", Key: "A"}}, b.flows); err != nil {
			b.Fatal(err)
		}
		rs, err := b.journal.Requests(context.Background(), "shop", 10)
		if err != nil || len(rs) != 1 {
			b.Fatalf("%d requests, %v", len(rs), err)
		}
		fs, err := b.journal.Cursor(context.Background(), "orders")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := b.journal.SourceReset(context.Background(), "orders"); err != nil {
			b.Fatal(err)
		}
		ad := jobs.Admission{Flow: b.flow, Epoch: fs.Epoch, Items: []jobs.Item{b.ev("1", 8, "A", "y")}, Requests: []int64{rs[0].ID}}
		if _, err := b.journal.Admit(context.Background(), ad); !errors.Is(err, jobs.ErrCursorMoved) {
			b.Fatalf("admitted: %v", err)
		}
		b.body("A", "x")
	}},
	{"a key that passes to a record that was read earlier keeps its order", func(b *bench) {
		b.flow.OnRename = "recreate"
		early := b.ev("2", 5, "A", "y")
		b.pass(time.Minute)
		b.admit(b.ev("1", 5, "A", "x"))
		b.apply()
		b.admit(early)
		before := b.row("A").Desired
		b.pass(time.Minute)
		b.admit(b.ev("1", 6, "B", "x"))
		if r := b.row("A"); r.SourceID != "2" || r.Desired.Compare(before) < 0 {
			b.Errorf("A of %q is ordered at %+v, and was at %+v", r.SourceID, r.Desired, before)
		}
	}},
	{"a record that became again what it was is written once more where an optional reference was left out", func(b *bench) {
		b.admit(b.ev("1", 1, "A", "x"))
		b.settleWith(jobs.Settlement{Job: b.one(), Flow: b.flow, Outcome: connectors.Outcome{Class: connectors.Applied, Link: "7"}, SentAt: b.at,
			Reopen: jobs.EntityKey{Entity: "party", Key: "P"}})
		b.admit(b.ev("1", 2, "A", "y"))
		b.admit(b.ev("1", 3, "A", "x"))
		b.want("A", jobs.Ready, jobs.ReasonNone)
	}},
	{"a person's pause is shortened by no daemon, but by a person", func(b *bench) {
		ctx := context.Background()
		person := jobs.New(b.engine, jobs.Options{Owner: "a person"})
		b.daemon("d", 1)
		wish := func(j *jobs.Journal, p ratelimit.Pause, want string) {
			b.Helper()
			if err := j.SavePause(ctx, "erp", p); err != nil {
				b.Fatal(err)
			}
			cs, err := b.journal.Clients(ctx)
			if err != nil || len(cs) != 1 || cs[0].Reason != want {
				b.Fatalf("paused by %+v (%v), want %q", cs, err, want)
			}
		}
		throttled := ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Until: b.at.Add(time.Minute)}
		wish(person, ratelimit.Pause{Reason: ratelimit.ReasonOperator, Until: ratelimit.Forever()}, ratelimit.ReasonOperator)
		wish(b.journal, throttled, ratelimit.ReasonOperator)
		wish(b.journal, ratelimit.Pause{}, ratelimit.ReasonOperator)
		wish(person, ratelimit.Pause{}, "")
		wish(b.journal, throttled, ratelimit.ReasonThrottled)
	}},
	{"pauses that are stored at one moment are told apart", func(b *bench) {
		seen := map[time.Time]bool{}
		for range 3 {
			if err := b.journal.SavePause(context.Background(), "erp", ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Until: b.at.Add(time.Minute)}); err != nil {
				b.Fatal(err)
			}
			cs, err := b.journal.Clients(context.Background())
			if err != nil || len(cs) != 1 || seen[cs[0].SeenAt] {
				b.Fatalf("the pause is taken for one from before: %+v, %v", cs, err)
			}
			seen[cs[0].SeenAt] = true
		}
	}},
	{"so it is if it changed while it was written, or a closed gate came in between", func(b *bench) {
		left := jobs.EntityKey{Entity: "party", Key: "P"}
		b.admit(b.ev("1", 1, "A", "x"), b.ev("2", 1, "B", "x"))
		for _, jb := range b.claim() {
			if jb.Key == "A" {
				b.admit(b.ev("1", 2, "A", "y"))
			}
			b.settleWith(jobs.Settlement{Job: jb, Flow: b.flow, Outcome: connectors.Outcome{Class: connectors.Applied, Link: "7" + jb.Key}, SentAt: b.at, Reopen: left})
		}
		b.admit(b.ev("1", 3, "A", "x"))
		b.want("A", jobs.Ready, jobs.ReasonNone)

		b.admit(b.ev("2", 2, "B", "y"))
		for _, jb := range b.claim() {
			b.settleWith(jobs.Settlement{Job: jb, Flow: b.flow, Outcome: connectors.Outcome{Class: connectors.Throttled, RetryAfter: time.Minute}, SentAt: b.at})
		}
		b.admit(b.ev("2", 3, "B", "x"))
		b.want("B", jobs.Ready, jobs.ReasonNone)
	}},
}
