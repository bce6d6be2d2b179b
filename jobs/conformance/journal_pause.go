package conformance

import (
	"context"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// person is the journal as a command beside the daemon has it.
func (b *bench) person() *jobs.Journal { return jobs.New(b.engine, jobs.Options{Owner: "a command"}) }

// pauses has a person pause the ERP.
func (b *bench) pauses(d time.Duration, why string) jobs.Paused {
	b.Helper()
	p, err := b.person().PauseClient(context.Background(), "erp", jobs.PauseWish{For: d, By: "ada", Why: why})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// resumes has a person end the pause of the ERP.
func (b *bench) resumes() jobs.Resumed {
	b.Helper()
	r, err := b.person().ResumeClient(context.Background(), "erp", "ada", b.flows)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// asks has the daemon store a pause that the ERP's server asked for, or another.
func (b *bench) asks(reason string, d time.Duration) ratelimit.Pause {
	b.Helper()
	p := ratelimit.Pause{Reason: reason, Until: b.at.Add(d), Evidence: "429 Retry-After", Since: b.at, Strikes: 2}
	if err := b.journal.SavePause(context.Background(), "erp", p); err != nil {
		b.Fatal(err)
	}
	return p
}

// gate is what is stored of the ERP's.
func (b *bench) gate() jobs.ClientState {
	b.Helper()
	cs, err := b.journal.Clients(context.Background())
	if err != nil || len(cs) != 1 {
		b.Fatalf("stored %+v, %v", cs, err)
	}
	return cs[0]
}

// beneath is what a person's pause lies over.
func (b *bench) beneath() ratelimit.Pause {
	b.Helper()
	p, err := b.journal.PausedOver(context.Background(), "erp")
	if err != nil {
		b.Fatal(err)
	}
	return p
}

var none ratelimit.Pause

var pauseRules = []rule{
	{"a person pauses a client until it is resumed", func(b *bench) {
		got := b.pauses(0, "upgrade")
		want := ratelimit.Pause{Until: ratelimit.Forever(), Reason: ratelimit.ReasonOperator, Since: b.at, Evidence: "ada at 2026-11-29T10:00:00Z: upgrade"}
		is(b, "the pause", got, jobs.Paused{Is: want})
		s := b.gate()
		is(b, "stored until", s.PausedUntil, want.Until)
		is(b, "stored evidence", s.Evidence, want.Evidence)
		b.pass(time.Hour)
		is(b, "ended", b.resumes(), jobs.Resumed{Ended: want})
		is(b, "stored until", b.gate().PausedUntil, time.Time{})
	}},
	{"a person's pause takes the place of one before, also of a longer one", func(b *bench) {
		first := b.pauses(0, "").Is
		b.pass(time.Minute)
		got := b.pauses(time.Hour, "")
		is(b, "the one before", got.Was, first)
		is(b, "until", got.Is.Until, b.at.Add(time.Hour))
		is(b, "since", got.Is.Since, first.Since)
		is(b, "over", got.Over, none)
	}},
	{"a person's pause ends no earlier than the server's beneath it", func(b *bench) {
		asked := b.asks(ratelimit.ReasonThrottled, time.Hour)
		for range 2 { // also when it takes the place of itself
			got := b.pauses(time.Minute, "")
			is(b, "until", got.Is.Until, asked.Until)
			is(b, "over", got.Over, asked)
			if !strings.Contains(got.Is.Evidence, "over a pause (throttled) until 2026-11-29T11:00:00Z: 429 Retry-After") {
				b.Errorf("the evidence is %q", got.Is.Evidence)
			}
		}
		r := b.resumes()
		is(b, "ended with it", r.Over, asked)
		is(b, "asked for", r.Asked(), asked)
		is(b, "kept", b.beneath(), none)
	}},
	{"what the server asked for is not told of when its time is over", func(b *bench) {
		b.asks(ratelimit.ReasonThrottled, time.Minute)
		b.pauses(0, "")
		b.pass(time.Hour)
		r := b.resumes()
		is(b, "ended with it", r.Over, none)
		is(b, "asked for", r.Asked(), none)
	}},
	{"what a gate asks for that has not heard of a person's pause is kept beneath it", func(b *bench) {
		b.daemon("d", 1)
		b.pauses(2*time.Hour, "")
		asked := b.asks(ratelimit.ReasonThrottled, time.Hour)
		is(b, "stored", b.gate().Reason, ratelimit.ReasonOperator)
		is(b, "over", b.beneath(), asked)
		b.asks(ratelimit.ReasonThrottled, time.Minute) // which is shorter
		is(b, "over", b.beneath(), asked)
		is(b, "asked for", b.resumes().Asked(), asked)
	}},
	{"what a gate learns during a person's pause is kept beneath it, and nowhere else", func(b *bench) {
		learned := ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Until: b.at.Add(time.Hour), Since: b.at}
		note := func() {
			b.Helper()
			if err := b.journal.NotePause(context.Background(), "erp", learned); err != nil {
				b.Fatal(err)
			}
		}
		note()
		is(b, "over", b.beneath(), none)
		b.pauses(2*time.Hour, "")
		note()
		is(b, "over", b.beneath(), learned)
		is(b, "stored", b.gate().Reason, ratelimit.ReasonOperator)
		// It belongs to that pause alone.
		b.pass(3 * time.Hour)
		is(b, "over", b.pauses(time.Hour, "").Over, none)
		is(b, "over", b.resumes().Over, none)
	}},
	{"what a gate learns does not take the place of refused credentials beneath a person's pause", func(b *bench) {
		refused := b.asks(ratelimit.ReasonSuspended, 5*time.Minute)
		b.pauses(2*time.Hour, "")
		if err := b.journal.NotePause(context.Background(), "erp", ratelimit.Pause{Reason: ratelimit.ReasonThrottled, Until: b.at.Add(time.Hour)}); err != nil {
			b.Fatal(err)
		}
		is(b, "over", b.beneath(), refused)
	}},
	{"a resume ends what no person has paused, and warns of the server's", func(b *bench) {
		for _, reason := range []string{ratelimit.ReasonThrottled, ratelimit.ReasonUnavailable, ratelimit.ReasonBreaker} {
			p := b.asks(reason, 24*time.Hour)
			r := b.resumes()
			is(b, "ended", r.Ended, p)
			is(b, "the server asked for it", r.Asked() != none, reason != ratelimit.ReasonBreaker)
			s := b.gate()
			is(b, "paused", s.PausedUntil.After(b.at), false)
			is(b, "by a person", s.Reason, ratelimit.ReasonOperator)
			is(b, "strikes", s.Strikes, 0)
		}
	}},
	{"of refused credentials it stays known after a resume that one call has to try them", func(b *bench) {
		for _, over := range []bool{false, true} {
			p := b.asks(ratelimit.ReasonSuspended, 5*time.Minute)
			if over {
				b.pass(time.Hour) // also after its time
				is(b, "over", b.pauses(time.Minute, "").Over, p)
			}
			r := b.resumes()
			is(b, "ended", r.Has(ratelimit.ReasonSuspended), true)
			s := b.gate()
			is(b, "stored", s.Reason, ratelimit.ReasonSuspended)
			is(b, "paused", s.PausedUntil.After(b.at), false)
		}
	}},
	{"a resume makes the jobs due that waited for the time the server had asked for, and no others", func(b *bench) {
		b.admit(b.ev("1", 1, "A", "x"), b.ev("2", 1, "B", "x"), b.ev("3", 1, "C", "x"))
		for _, jb := range b.claim() {
			o := connectors.Outcome{Class: connectors.Throttled, RetryAfter: 24 * time.Hour}
			switch jb.Key {
			case "B":
				o = connectors.Outcome{Class: connectors.Auth}
			case "C":
				o = connectors.Outcome{Class: connectors.Transient, RetryAfter: time.Hour}
			}
			b.settle(jb, o)
		}
		b.pauses(time.Minute, "")
		b.resumes()
		for key, due := range map[string]bool{"A": true, "B": true, "C": false} {
			is(b, key+" is due", !b.row(key).DueAt.After(b.at), due)
		}
	}},
	{"what a breaker says takes the place of no other pause", func(b *bench) {
		b.asks(ratelimit.ReasonThrottled, time.Hour)
		before := b.gate()
		b.asks(ratelimit.ReasonBreaker, time.Minute)
		b.asks(ratelimit.ReasonBreaker, -time.Minute) // it has closed
		is(b, "stored", b.gate(), before)
		b.pass(2 * time.Hour)
		b.asks(ratelimit.ReasonBreaker, time.Minute)
		is(b, "stored when that is over", b.gate().Reason, ratelimit.ReasonBreaker)
		b.asks(ratelimit.ReasonBreaker, 2*time.Minute)
		is(b, "opened anew", b.gate().PausedUntil, b.at.Add(2*time.Minute))
		b.asks(ratelimit.ReasonThrottled, time.Minute)
		is(b, "a pause after it", b.gate().Reason, ratelimit.ReasonThrottled)
	}},
	{"a resume of a client that is not paused has its limits be found out anew", func(b *bench) {
		b.asks(ratelimit.ReasonThrottled, time.Minute)
		b.pass(time.Hour)
		is(b, "ended", b.resumes(), jobs.Resumed{Anew: true})
		s := b.gate()
		is(b, "stored", s.Reason, ratelimit.ReasonAnew)
		is(b, "by", s.Evidence, "wished by ada at 2026-11-29T11:00:00Z")
		is(b, "pause", s.PausedUntil, time.Time{})
		b.asks(ratelimit.ReasonThrottled, time.Minute)
		is(b, "stored of a pause after it", b.gate().Reason, ratelimit.ReasonThrottled)
	}},
	{"a resume of a client whose credentials are being tried changes nothing", func(b *bench) {
		b.asks(ratelimit.ReasonSuspended, time.Minute)
		b.pass(time.Hour)
		before := b.gate()
		is(b, "ended", b.resumes(), jobs.Resumed{})
		is(b, "stored", b.gate(), before)
	}},
	{"what persons do at one moment is told apart", func(b *bench) {
		seen := map[time.Time]bool{}
		for range 2 {
			b.pauses(0, "")
			seen[b.gate().SeenAt] = true
			b.resumes()
			seen[b.gate().SeenAt] = true
		}
		is(b, "moments", len(seen), 4)
	}},
}
