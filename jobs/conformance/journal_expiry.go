package conformance

import (
	"context"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// claimWith claims as the bench's daemon does, and says what else the claim did.
func (b *bench) claimWith(doubted bool) jobs.Claimed {
	b.Helper()
	c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 100, Flows: b.flows, ClockDoubted: doubted})
	if err != nil {
		b.Fatalf("claim: %v", err)
	}
	return c
}

// expiryHeld is what is stored of the client.
func (b *bench) expiryHeld() jobs.Standing {
	b.Helper()
	cs, err := b.journal.Clients(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range cs {
		if c.Client == "erp" {
			return c.ExpiryHeld
		}
	}
	return jobs.Standing{}
}

// jump has the clock jump over the age of n open jobs.
func (b *bench) jump(n int) jobs.Claimed {
	b.flow.MaxAge = time.Hour
	b.orders(n)
	b.pass(365 * 24 * time.Hour)
	return b.claimWith(false)
}

var expiryRules = []rule{
	{"a clock that jumps expires nothing, and sends nothing that is over-aged", func(b *bench) {
		c := b.jump(50)
		if c.Expired != 0 || len(c.Jobs) != 0 || c.ExpiryHeld.Code != "mass_expiry" || b.expiryHeld() != c.ExpiryHeld {
			b.Fatalf("%+v; stored %+v", c, b.expiryHeld())
		}
		b.pass(30 * time.Minute)
		if c := b.claimWith(false); c.Expired != 0 || len(c.Jobs) != 0 || c.ExpiryHeld.Is() || c.ExpiryEnded.Is() {
			b.Fatalf("half an hour later %+v", c)
		}
		is(b, "ready", b.counted(jobs.Ready), 50)
		e := b.why("K7")
		if e.Due || e.Reason != "expiry_held" || !e.Since.Equal(b.expiryHeld().Since) || !e.Until.Equal(b.expiryHeld().Until) ||
			!strings.Contains(e.Next, "syncd expiry resume erp") {
			b.Fatalf("%+v", e)
		}
		// What is young goes on meanwhile.
		b.admit(b.ev("new", 1, "NEW", "x"))
		is(b, "claimed", len(b.claimWith(false).Jobs), 1)
	}},
	{"few may expire at once, and more over a time", func(b *bench) {
		b.flow.MaxAge = time.Hour
		for range 3 {
			b.orders(0)
			for i := range 20 {
				key := string(rune('a' + i))
				b.admit(b.ev(key, b.at.Unix(), key, b.at.String()))
			}
			b.pass(61 * time.Minute)
			if c := b.claimWith(false); c.Expired != 20 || c.ExpiryHeld.Is() {
				b.Fatalf("%+v", c)
			}
		}
		b.pass(59 * time.Second)
		b.at = b.at.Add(-2 * time.Hour)
		b.admit(b.ev("one", 1, "one", "x"))
		b.at = b.at.Add(2 * time.Hour)
		if c := b.claimWith(false); c.Expired != 0 || !c.ExpiryHeld.Is() {
			b.Fatalf("the twenty-first within a minute: %+v", c)
		}
	}},
	{"of many open jobs one in a hundred may expire at once", func(b *bench) {
		b.flow.MaxAge = time.Hour
		var old []jobs.Item
		for i := range 25 {
			key := "old" + string(rune('a'+i))
			old = append(old, b.ev(key, 1, key, "x"))
		}
		b.admit(old...)
		b.pass(2 * time.Hour)
		b.orders(2600)
		if c := b.claimWith(false); c.Expired != 25 || c.ExpiryHeld.Is() {
			b.Fatalf("expired %d, %+v", c.Expired, c.ExpiryHeld)
		}
	}},
	{"a refresh is no expiry, however many there are", func(b *bench) {
		b.flow.CanRefresh = true
		if c := b.jump(50); c.Refreshed != 50 || c.ExpiryHeld.Is() {
			b.Fatalf("%+v", c)
		}
	}},
	{"a person lets it expire, all of it", func(b *bench) {
		b.jump(50)
		held, err := b.journal.ResumeExpiry(context.Background(), "erp", b.flows)
		if err != nil || held.Code != "mass_expiry" || b.expiryHeld().Is() {
			b.Fatalf("%+v, %v; stands %+v", held, err, b.expiryHeld())
		}
		if c := b.claimWith(false); c.Expired != 50 || c.ExpiryHeld.Is() {
			b.Fatalf("%+v", c)
		}
		if held, err := b.journal.ResumeExpiry(context.Background(), "erp", b.flows); err != nil || held.Is() {
			b.Fatalf("nothing is held: %+v, %v", held, err)
		}
	}},
	{"after an hour it ends by itself, but not while the clock is doubted", func(b *bench) {
		b.jump(50)
		b.pass(61 * time.Minute)
		if c := b.claimWith(true); c.Expired != 0 || c.ExpiryEnded.Is() || !b.expiryHeld().Until.Equal(b.at.Add(time.Hour)) {
			b.Fatalf("doubted: %+v, %+v", c, b.expiryHeld())
		}
		b.pass(61 * time.Minute)
		if c := b.claimWith(false); c.Expired != 50 || c.ExpiryEnded.Code != "mass_expiry" || b.expiryHeld().Is() {
			b.Fatalf("plausible: %+v", c)
		}
	}},
	{"a clock that goes back ends it, and the jobs that are young again are sent", func(b *bench) {
		right := b.at.Add(time.Minute)
		b.jump(50)
		b.at = right
		b.none()
		held := b.expiryHeld()
		if err := b.journal.AfterHold(context.Background(), "erp", held, b.flows); err != nil {
			b.Fatal(err)
		}
		is(b, "claimed", len(b.claimWith(false).Jobs), 50)
	}},
	{"a pause of the client leaves the hold in place", func(b *bench) {
		b.jump(50)
		held := b.expiryHeld()
		if err := b.journal.SavePause(context.Background(), "erp", ratelimit.Pause{Until: b.at.Add(time.Minute), Reason: ratelimit.ReasonThrottled}); err != nil {
			b.Fatal(err)
		}
		is(b, "the hold", b.expiryHeld(), held)
	}},
	{"a claim takes nothing of a client that is paused", func(b *bench) {
		b.admit(b.ev("1", 1, "A", "x"))
		c, err := b.journal.Claim(context.Background(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: b.flows, Paused: b.at.Add(time.Second)})
		if err != nil || len(c.Jobs) != 0 {
			b.Fatalf("%+v, %v", c, err)
		}
		b.settle(b.one(), connectors.Outcome{Class: connectors.Applied, Link: `7`})
	}},
}
