package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
	"syncd/ratelimit"
)

// A person's pause lies over what else stops calls of a client: a server that asked for
// time, refused credentials, an open breaker. It never ends before that, and what lies
// beneath it is kept, so that whoever ends it is told what is called before its time.

// PauseWish is a person's wish that a client is not called.
type PauseWish struct {
	// For is how long, from now; 0 or less means until ResumeClient.
	For time.Duration
	// By is who wishes so; Why is the reason, "" for none.
	By, Why string
}

// Paused is what became of a PauseWish.
type Paused struct {
	// Is is the pause that holds now. It ends later than was wished if Over does.
	Is ratelimit.Pause
	// Over is the pause of another kind that it was put over; zero for none.
	Over ratelimit.Pause
	// Was is the person's pause whose place it took; zero for none.
	Was ratelimit.Pause
}

// Resumed is what ResumeClient ended.
type Resumed struct {
	// Ended is the pause that held; zero when the client was not paused.
	Ended ratelimit.Pause
	// Over is what a person's pause lay over, and what ended with it; zero for none.
	Over ratelimit.Pause
	// Anew says that the client was not paused, and that what is believed of its limits is
	// found out anew.
	Anew bool
}

// Asked is the pause that the client's server had asked for and that was ended before
// its time; zero for none.
func (r Resumed) Asked() ratelimit.Pause {
	for _, p := range []ratelimit.Pause{r.Ended, r.Over} {
		switch p.Reason {
		case ratelimit.ReasonThrottled, ratelimit.ReasonUnavailable, ratelimit.ReasonBeyond:
			return p
		}
	}
	return ratelimit.Pause{}
}

// Has reports whether a pause of this reason was ended.
func (r Resumed) Has(reason string) bool { return r.Ended.Reason == reason || r.Over.Reason == reason }

// pausedOver names the fact that keeps what a person's pause of a client lies over.
func pausedOver(client string) string { return "paused_over/" + client }

// pausing is a client's pause in a transaction that may change it.
type pausing struct {
	was  ClientState
	over ratelimit.Pause
	// now is the journal's time, at another one than any of what was stored before.
	now, at time.Time
}

// lockPause reads what is stored of a client's pause; whoever else stores one waits
// until the transaction ends, and sees what it left.
func (j *Journal) lockPause(ctx context.Context, tx Tx, client string) (p pausing, err error) {
	if err := tx.PutMeta(ctx, pausedBy(client), j.owner); err != nil {
		return p, err
	}
	if p.was, err = clientState(ctx, tx, client); err != nil {
		return p, err
	}
	p.now = j.Now()
	p.at = p.now
	if ahead := p.was.SeenAt.Sub(p.at); ahead >= 0 && ahead < time.Second && !mutant.On("pauses-at-once") {
		p.at = p.was.SeenAt.Add(time.Microsecond)
	}
	if p.operator() {
		p.over, err = readOver(ctx, tx, client)
	}
	return p, err
}

// operator reports whether a person's pause holds.
func (p *pausing) operator() bool {
	return p.was.Reason == ratelimit.ReasonOperator && p.was.PausedUntil.After(p.now)
}

// beneath is what a person's pause is put over: a pause that holds, or refused
// credentials, which stand until a call was answered.
func (p *pausing) beneath() ratelimit.Pause {
	under := p.was.pause()
	if p.operator() {
		under = p.over
	}
	if under.Active(p.now) || under.Reason == ratelimit.ReasonSuspended {
		return under
	}
	return ratelimit.Pause{}
}

func (c ClientState) pause() ratelimit.Pause {
	return ratelimit.Pause{Until: c.PausedUntil, Reason: c.Reason, Evidence: c.Evidence, Since: c.Since, Strikes: c.Strikes}
}

// resumable says of what waits for a client that a person has paused what ends that.
func (c ClientState) resumable(e *Explanation) {
	switch {
	case c.Reason != ratelimit.ReasonOperator:
	case c.pause().OpenEnded():
		e.Until = time.Time{}
		e.Next = fmt.Sprintf("nothing before a person says syncd resume %s; then %s", c.Client, e.Next)
	default:
		e.Next = fmt.Sprintf("%s when the pause is over, or a person says syncd resume %s", e.Next, c.Client)
	}
}

func readOver(ctx context.Context, tx Tx, client string) (p ratelimit.Pause, err error) {
	meta, err := tx.Meta(ctx)
	if err != nil || meta[pausedOver(client)] == "" {
		return p, err
	}
	if err := json.Unmarshal([]byte(meta[pausedOver(client)]), &p); err != nil {
		return p, fmt.Errorf("the fact %s is not what was written: %w", pausedOver(client), err)
	}
	return p, nil
}

func putOver(ctx context.Context, tx Tx, client string, p ratelimit.Pause) error {
	if p == (ratelimit.Pause{}) {
		return tx.PutMeta(ctx, pausedOver(client), "")
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return tx.PutMeta(ctx, pausedOver(client), string(text))
}

// PauseClient has a client not be called, for a time or until ResumeClient, by a
// person's wish. It takes the place of another person's pause, also of a longer one. A
// pause of another kind stays beneath it, and is not shortened: the person's ends with
// it at the earliest. Daemons heed it within about a second; requests that are under
// way by then end as they do.
func (j *Journal) PauseClient(ctx context.Context, client string, w PauseWish) (out Paused, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		out = Paused{}
		p, err := j.lockPause(ctx, tx, client)
		if err != nil {
			return err
		}
		out.Over = p.beneath()
		out.Is = ratelimit.Pause{Until: ratelimit.Forever(), Reason: ratelimit.ReasonOperator, Since: micro(p.now), Strikes: p.was.Strikes,
			Evidence: wished(w, p.now, out.Over)}
		if w.For > 0 {
			out.Is.Until = micro(p.now.Add(w.For))
		}
		if out.Over.Until.After(out.Is.Until) {
			out.Is.Until = out.Over.Until
		}
		if p.operator() {
			out.Was = p.was.pause()
		}
		if p.was.PausedUntil.After(p.now) && !p.was.Since.IsZero() {
			out.Is.Since = p.was.Since // calls stopped then
		}
		if err := putOver(ctx, tx, client, out.Over); err != nil {
			return err
		}
		return tx.PutPause(ctx, j.stateOf(client, out.Is, p.at))
	})
	return out, wrap(err, "pause client %s", client)
}

// wished is a person's wish as the evidence of a pause: who, when, why, and what the
// pause lies over.
func wished(w PauseWish, now time.Time, over ratelimit.Pause) string {
	s := w.By + " at " + stampText(now)
	if w.Why != "" {
		s += ": " + w.Why
	}
	if over.Active(now) {
		s += fmt.Sprintf("; over a pause (%s) until %s", over.Reason, stampText(over.Until))
		if over.Evidence != "" {
			s += ": " + over.Evidence
		}
	}
	return clip(s)
}

func (j *Journal) stateOf(client string, p ratelimit.Pause, at time.Time) ClientState {
	return ClientState{Client: client, PausedUntil: micro(p.Until), Reason: p.Reason, Evidence: p.Evidence, Since: micro(p.Since),
		Strikes: p.Strikes, Owner: j.owner, SeenAt: at}
}

// ResumeClient ends a client's pause by a person's wish, whatever it is for, with all
// that lies beneath it, and returns what it ended: Ended is zero when the client is not
// paused. Then who calls it is told to find out anew what its server's limits are, unless
// its credentials are being tried. by is who wishes so. Jobs of the flows that wait
// for the time that the server had asked for are due at once. Daemons heed it within
// about a second. Of refused credentials it stays known that one call has to try them.
func (j *Journal) ResumeClient(ctx context.Context, client, by string, flows map[string]*Flow) (out Resumed, err error) {
	// Before the pause ends: who is interrupted can say it once more.
	if err := j.hastenRefused(ctx, client, flows); err != nil {
		return out, wrap(err, "resume client %s", client)
	}
	err = j.engine.Update(ctx, func(tx Tx) error {
		out = Resumed{}
		p, err := j.lockPause(ctx, tx, client)
		switch {
		case err != nil:
			return err
		case p.was.PausedUntil.After(p.now):
		case p.was.Reason == ratelimit.ReasonSuspended:
			return nil
		default:
			out.Anew = true
			return tx.PutPause(ctx, j.stateOf(client, ratelimit.Pause{Reason: ratelimit.ReasonAnew, Evidence: clip("wished by " + by + " at " + stampText(p.now))}, p.at))
		}
		out.Ended = p.was.pause()
		open := ratelimit.Pause{Reason: ratelimit.ReasonOperator, Evidence: clip("resumed by " + by + " at " + stampText(p.now))}
		if p.operator() {
			out.Over = p.beneath()
		}
		for _, s := range []ratelimit.Pause{out.Ended, out.Over} {
			if s.Reason == ratelimit.ReasonSuspended {
				open = ratelimit.Pause{Until: p.now, Reason: s.Reason, Evidence: s.Evidence, Since: s.Since}
			}
		}
		if err := putOver(ctx, tx, client, ratelimit.Pause{}); err != nil {
			return err
		}
		return tx.PutPause(ctx, j.stateOf(client, open, p.at))
	})
	return out, wrap(err, "resume client %s", client)
}

// hastenRefused makes the jobs of a client due that were refused for what pauses it: each
// waits as long as the pause was to last, too.
func (j *Journal) hastenRefused(ctx context.Context, client string, flows map[string]*Flow) error {
	var s ClientState
	err := j.engine.View(ctx, func(tx Tx) (err error) {
		s, err = clientState(ctx, tx, client)
		return err
	})
	if err != nil || !s.PausedUntil.After(j.Now()) {
		return err
	}
	for name, f := range flows {
		if f.Client != client {
			continue
		}
		_, err := j.hasten(ctx, name, 0, func(r *Row, now time.Time) bool {
			if r.Unresolved() && r.UnresolvedAt.Add(f.SettleTime).After(now) {
				return false // it may still be at work in the target
			}
			return r.LastClass == connectors.Throttled || r.LastClass == connectors.Paused || r.LastClass == connectors.Auth
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// NotePause keeps what a gate has learned of its client during a person's pause that
// lasts longer, beneath that; without such a pause it does nothing. Of two pauses the
// one that ends later is kept, but none in the place of refused credentials.
func (j *Journal) NotePause(ctx context.Context, client string, learned ratelimit.Pause) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		if err := j.fenceAny(ctx, tx, client); err != nil {
			return err
		}
		p, err := j.lockPause(ctx, tx, client)
		if err != nil {
			return err
		}
		return p.note(ctx, tx, client, learned)
	})
	return wrap(err, "note a pause of client %s", client)
}

func (p *pausing) note(ctx context.Context, tx Tx, client string, learned ratelimit.Pause) error {
	under := p.beneath()
	if !p.operator() || !learned.Active(p.now) || under.Reason == ratelimit.ReasonSuspended || !learned.Until.After(under.Until) {
		return nil
	}
	learned.Until, learned.Since = micro(learned.Until), micro(learned.Since)
	return putOver(ctx, tx, client, learned)
}

// PausedOver is what the person's pause of a client that holds now lies over; zero for
// none.
func (j *Journal) PausedOver(ctx context.Context, client string) (over ratelimit.Pause, err error) {
	err = j.engine.View(ctx, func(tx Tx) (err error) {
		over, err = readOver(ctx, tx, client)
		return err
	})
	return over, wrap(err, "read what the pause of client %s lies over", client)
}
