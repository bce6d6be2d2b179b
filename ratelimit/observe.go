package ratelimit

import (
	"context"
	"fmt"
	"time"

	"syncd/internal/mutant"
)

// longRefused is after what time of nothing but refusals that is an error.
const longRefused = 15 * time.Minute

// saveTimeout bounds how long an answer is held up by a slow store.
const saveTimeout = 5 * time.Second

// answered takes in an answer to a call that was let through.
func (g *Gate) answered(ctx context.Context, f *flight, sig Signal, now time.Time) (paused bool) {
	reason, pauses := sig.pauses()
	g.mu.Lock()
	if !f.underWay() {
		g.mu.Unlock()
		return false
	}
	g.wonder(sig)
	mono := time.Now()
	first := !g.pause.Active(now)
	if first && sig.served() && !sig.Throttled {
		g.servedShape(f.shape)
	}
	if first && sig.Throttled && !sig.Concurrent && g.refusedShape(f, sig, now) {
		g.pacer.answered(mono, f, sig)
		g.dispatch()
		g.mu.Unlock()
		return false
	}
	if sig.Throttled || sig.Concurrent {
		g.pacer.refused(mono, f, sig, first)
	}
	g.pacer.answered(mono, f, sig)
	if g.pacer.unsure(f, sig) {
		sig.RetryAfter, sig.HasRetryAfter = 0, false
	}
	if !pauses {
		// What the server says during a pause answers older calls and proves nothing.
		if sig.served() && first {
			g.strikes = 0
		}
		g.dispatch()
		g.mu.Unlock()
		return false
	}
	g.strike(ctx, sig, reason, now)
	return true
}

// mostOdd bounds the headers that the log tells of.
const mostOdd = 16

// wonder counts headers that make no sense; of each the log tells once. The caller holds mu.
func (g *Gate) wonder(sig Signal) {
	for _, name := range sig.Nonsense {
		g.unread++
		if g.odd[name] || len(g.odd) >= mostOdd {
			continue
		}
		if g.odd == nil {
			g.odd = map[string]bool{}
		}
		g.odd[name] = true
		g.log.Warn("what the server says of its limits makes no sense, and is passed over; where it means something else than calls, say so by quota_headers of the client", "header", name, "status", sig.Status)
	}
}

// strike pauses the client for what an answer asked for. The caller holds mu, which is released.
func (g *Gate) strike(ctx context.Context, sig Signal, reason string, now time.Time) {
	// Answers to calls made before the pause belong to the same strike.
	if !g.pause.Active(now) {
		g.strikes++
	}
	g.strikes = max(g.strikes, 1)
	d, reason, note := g.length(sig, reason, g.strikes)
	beneath := g.lengthen(reason, fmt.Sprintf("%s at %s%s", sig.Evidence, now.UTC().Format(time.RFC3339), note), now, now.Add(d))
	g.dispatch()
	g.mu.Unlock()
	g.note(ctx, beneath)
	_ = g.save(ctx) // logged there
}

// dropped ends a call without an answer.
func (g *Gate) dropped(f *flight, sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !f.underWay() {
		return
	}
	g.pacer.dropped(time.Now(), f, sent)
	f.ended = time.Now()
	g.dispatch()
}

// Refused notes a refusal for quota that was found out about after its answer had been shown, as with one in a form that only a
// connector understands.
func (g *Gate) Refused(ctx context.Context, sig Signal, now time.Time) {
	g.mu.Lock()
	if !g.pause.Active(now) {
		g.pacer.learned.refuse(time.Now(), &flight{seq: g.pacer.seq}, true)
	}
	g.strike(ctx, sig, ReasonThrottled, now)
}

// length is how long to pause for a signal, for which reason, and a note for its evidence when the server asked for what it does not get. The caller
// holds mu.
func (g *Gate) length(sig Signal, reason string, strikes int) (d time.Duration, why, note string) {
	most := g.settings.MaxPause
	switch {
	case !sig.HasRetryAfter || sig.RetryAfter <= 0:
		return min(max(grown(g.settings.DefaultPause, strikes, g.random()), hinted(minPause, g.random())), most), reason, ""
	case sig.RetryAfter > longestMeant:
		g.log.Warn("the server asks for a pause that cannot be meant", "asked", sig.RetryAfter, "paused_for", most)
		return most, reason, fmt.Sprintf(" (%s cannot be meant; paused for %s)", sig.RetryAfter, most)
	case sig.RetryAfter > most:
		g.log.Error("the server asks for a longer pause than max_pause: the client is suspended until then; if that cannot be right, end it with: syncd resume "+g.client,
			"asked", sig.RetryAfter, "max_pause", most)
		return hinted(sig.RetryAfter, g.random()), ReasonBeyond, fmt.Sprintf(" (more than max_pause, %s)", most)
	}
	return min(max(hinted(sig.RetryAfter, g.random()), minPause), max(most, sig.RetryAfter)), reason, ""
}

// lengthen moves the end of the pause to until, if that is later. Where a person's pause
// lasts longer, it returns what lies beneath that. The caller holds mu.
func (g *Gate) lengthen(reason, evidence string, now, until time.Time) (beneath Pause) {
	active := g.pause.Active(now)
	if active && !until.After(g.pause.Until) {
		if g.pause.Reason == ReasonOperator {
			beneath = Pause{Until: until.UTC(), Reason: reason, Evidence: evidence, Since: now.UTC(), Strikes: g.strikes}
		}
		return beneath
	}
	since := now.UTC()
	// Refused again and again without a call that is served between, it is one long pause.
	goesOn := g.strikes > 1 && (reason == ReasonThrottled || reason == ReasonUnavailable) && (g.pause.Reason == ReasonThrottled || g.pause.Reason == ReasonUnavailable)
	if active || goesOn {
		since = g.pause.Since
	}
	if goesOn && g.pause.Until.Sub(since) < longRefused && until.Sub(since) >= longRefused {
		g.log.Error("the server refuses call after call; it is asked less and less often, by one call each time", "since", since, "strikes", g.strikes, "evidence", evidence)
	}
	g.set(Pause{Until: until.UTC(), Reason: reason, Evidence: evidence, Since: since, Strikes: g.strikes}, now)
	if active {
		g.log.Debug("pause lengthened", "reason", reason, "until", g.pause.Until, "evidence", evidence)
		return beneath
	}
	g.log.Warn("client paused", "reason", reason, "until", g.pause.Until, "evidence", evidence)
	return beneath
}

// note gives the store what lies beneath a person's pause, if it keeps that: the person
// is told of it when the pause is ended.
func (g *Gate) note(ctx context.Context, beneath Pause) {
	s, ok := g.store.(Noter)
	if !ok || beneath == (Pause{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := s.NotePause(ctx, g.client, beneath); err != nil {
		g.log.Warn("what the server asked for during a person's pause could not be stored", "reason", beneath.Reason, "until", beneath.Until, "error", err)
	}
}

// set puts a pause, or its end, into force. The caller holds mu.
func (g *Gate) set(p Pause, now time.Time) {
	was := g.pause.Active(now)
	g.pause = p
	g.version++
	if g.expiry != nil {
		g.expiry.Stop()
		g.expiry = nil
	}
	is := p.Active(now)
	if is {
		g.resting = true
		if !p.OpenEnded() && !g.closed {
			g.expireAfter(p.Until.Sub(now))
		}
	}
	if was != is {
		g.dispatch()
		g.announce()
	}
}

// expireAfter announces the end of the pause. The caller holds mu.
func (g *Gate) expireAfter(d time.Duration) {
	version := g.version
	g.expiry = time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if version != g.version || g.closed {
			return
		}
		// The clock may have been set back since: the pause ends by the clock.
		if now := g.now(); g.pause.Active(now) {
			g.expireAfter(g.pause.Until.Sub(now))
			return
		}
		g.expiry = nil
		g.log.Info("pause is over", "reason", g.pause.Reason, "since", g.pause.Since)
		g.dispatch()
		g.announce()
	})
}

// Longest is MaxPause: what a server asks for beyond it, for the client or for one
// record alone, is not waited for.
func (g *Gate) Longest() time.Duration { return g.settings.MaxPause }

// PauseFor pauses the client for d, counted from now and at most MaxPause. It
// never shortens a pause. An error means that the pause holds but could not be
// stored.
func (g *Gate) PauseFor(ctx context.Context, reason, evidence string, d time.Duration) error {
	g.mu.Lock()
	now := g.now()
	if most := g.settings.MaxPause; d > most {
		evidence += fmt.Sprintf(" (asked for %s, capped at %s)", d, most)
		d = most
	}
	beneath := g.lengthen(reason, evidence, now, now.Add(d))
	g.mu.Unlock()
	g.note(ctx, beneath)
	return g.save(ctx)
}

// Suspend pauses the client for d however long that is, or with d = 0 until
// Resume. It never shortens a pause. An error means that the pause holds but
// could not be stored.
func (g *Gate) Suspend(ctx context.Context, reason, evidence string, d time.Duration) error {
	g.mu.Lock()
	now := g.now()
	until := now.Add(d)
	if d <= 0 {
		until = Forever()
	}
	beneath := g.lengthen(reason, evidence, now, until)
	g.mu.Unlock()
	g.note(ctx, beneath)
	return g.save(ctx)
}

// Resume ends any pause, whoever set it, and forgets the strikes; one that is over
// is taken out of the store, too. by names who wished so, for the log. An error means that the client is open but that the
// store may still say otherwise.
func (g *Gate) Resume(ctx context.Context, by string) error { return g.resume(ctx, by, true) }

// Forget has all that is believed of the server's limits be found out anew: what it told,
// what was learned from refusals, and which calls alone it refused. by names who wished so, for the log. A
// pause stays as it is.
func (g *Gate) Forget(by string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.Info("what was believed of the server's limits is forgotten, and found out anew", "by", by)
	g.strikes, g.shapes, g.resting = 0, nil, true
	g.pacer.begin()
	g.dispatch()
	g.announce()
}

// Mend ends a pause as Resume does, but not a person's: an answer to a call made before
// that one proves nothing about what the person paused the client for.
func (g *Gate) Mend(ctx context.Context, by string) error { return g.resume(ctx, by, false) }

func (g *Gate) resume(ctx context.Context, by string, persons bool) error {
	g.mu.Lock()
	switch now := g.now(); {
	case g.pause.Active(now) && g.pause.Reason == ReasonOperator && !persons:
	case g.pause.Active(now):
		g.log.Info("client resumed", "by", by, "reason", g.pause.Reason, "since", g.pause.Since)
		g.strikes, g.shapes, g.pacer.mirrors = 0, nil, nil
		g.set(Pause{}, now)
	case g.pause != (Pause{}):
		g.set(Pause{}, now)
	}
	g.mu.Unlock()
	return g.save(ctx)
}

// Restore puts a stored pause into force after a start. It takes the place of
// the present one and is not stored again. A pause set by a signal ends within
// MaxPause from now, whatever the clock was when it was stored.
func (g *Gate) Restore(p Pause) {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.strikes = max(p.Strikes, 0)
	if latest := now.Add(g.settings.MaxPause); p.capped() && p.Until.After(latest) {
		p.Until = latest
	}
	g.set(p, now)
	g.saved, g.saveErr = g.version, nil
	if p.Active(now) {
		g.log.Info("client is paused", "reason", p.Reason, "until", p.Until, "evidence", p.Evidence)
	}
}

// Heed takes over what another gate of the same client stored at a moment: a pause
// that lasts longer than this gate's, or the end of one that had begun by then. Where
// this gate's pause lasts longer it is stored once more, since the other has put its
// own in that place. A person's pause is no gate's own, and no store lets a gate put a
// shorter one in its place: where the store holds another, that person has ended it.
func (g *Gate) Heed(ctx context.Context, p Pause, at time.Time) error {
	g.mu.Lock()
	now := g.now()
	ours, active := g.pause, g.pause.Active(now)
	over := p.Until.IsZero() || p.Reason == ReasonSuspended && ours.Reason == ReasonSuspended
	var take bool
	switch {
	case active && ours.Reason == ReasonOperator && !mutant.On("pause-revived"):
		take = true
		if p.Reason == ReasonBreaker {
			p = Pause{}
		}
	case p.Reason == ReasonBreaker: // it is about the other's calls alone
	case !active:
		take = p.Active(now)
	case p.Until.Sub(ours.Until).Abs() < time.Millisecond: // a store rounds times
		active = false // nothing to tell
	default:
		take = p.Until.After(ours.Until) || over && ours.Since.Before(at)
	}
	if active && !take {
		g.version++
	}
	g.mu.Unlock()
	switch {
	case take:
		g.Restore(p)
	case active:
		return g.save(ctx)
	}
	return nil
}

// capped reports whether MaxPause applies to a pause of this reason.
func (p Pause) capped() bool {
	return p.Reason != ReasonOperator && p.Reason != ReasonSuspended && p.Reason != ReasonBeyond
}

// save gives the present pause to the store, unless that has been done. Saves
// are made one after another, each of the newest state, so that the store ends
// with what the gate ends with.
func (g *Gate) save(ctx context.Context) error {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.mu.Lock()
	p, version := g.pause, g.version
	done := version == g.saved && g.saveErr == nil
	g.mu.Unlock()
	if done || g.store == nil {
		return nil
	}
	// A pause learned while shutting down has to outlive the process as well.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	err := g.store.SavePause(ctx, g.client, p)
	if err != nil {
		err = fmt.Errorf("store pause of client %q: %w", g.client, err)
		g.log.Error("pause holds but could not be stored", "error", err)
	}
	g.mu.Lock()
	g.saved, g.saveErr = version, err
	g.mu.Unlock()
	return err
}
