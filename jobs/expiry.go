package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Where much expires at once, it is rather the clock that is wrong than the jobs
// that are old. Then nothing that is written to the client expires any more, and
// nothing over-aged is sent, until a person says that it may, or an hour is over
// and the clock is plausible.

const (
	// expiryFew is how many jobs of a client may expire in a minute, whatever the number
	// of its open jobs.
	expiryFew = 20
	// expiryShare is the same as a share of its open jobs: one in so many.
	expiryShare = 100
	// expiryWindow is the time in which they are counted.
	expiryWindow = time.Minute
	// expiryHold is how long expiry stays held, and how long it is not held again after
	// that.
	expiryHold = time.Hour
	// expiryLook is how often jobs that would expire are looked at while it is held.
	expiryLook = 10 * time.Minute
	// mostCounted bounds the open jobs that are counted of a flow.
	mostCounted = 1_000_000

	codeMassExpiry = "mass_expiry"
	codeMayExpire  = "may_expire"
)

// holdStands reports whether expiry is held at a moment. A clock that has gone back
// to before the hold was the reason for it.
func holdStands(s Standing, now time.Time) bool {
	return s.Is() && s.Until.After(now) && !s.Since.After(now)
}

// expiries counts what expired lately, by target client.
type expiries struct {
	mu sync.Mutex
	of map[string][]expired
}

type expired struct {
	at time.Time
	n  int
}

// within counts what expired of a client in the window before now.
func (x *expiries) within(client string, now time.Time) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, e := range x.of[client] {
		if !e.at.After(now) && now.Sub(e.at) < expiryWindow {
			n += e.n
		}
	}
	return n
}

// add notes that n jobs expired.
func (x *expiries) add(client string, now time.Time, n int) {
	if n == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[string][]expired{}
	}
	kept := x.of[client][:0]
	for _, e := range x.of[client] {
		if !e.at.After(now) && now.Sub(e.at) < expiryWindow {
			kept = append(kept, e)
		}
	}
	x.of[client] = append(kept, expired{now, n})
}

// expiryHeld implements view. It is read once for a claim, and not before a row is
// too old. A hold whose time is over ends here, unless the clock is doubted.
func (c *claiming) expiryHeld() (Standing, error) {
	if c.client != nil {
		return c.client.ExpiryHeld, nil
	}
	cs, err := c.j.lockHold(c.ctx, c.tx, c.req.Client)
	if err != nil {
		return Standing{}, err
	}
	c.client = &cs
	held := &c.client.ExpiryHeld
	back := held.Since.After(c.now)
	switch {
	case !held.Is() || holdStands(*held, c.now):
		return *held, nil
	case c.req.ClockDoubted && !back:
		held.Until = c.now.Add(expiryHold)
	default:
		c.out.ExpiryEnded = *held
		*held = afterHold(*held, c.now)
	}
	return *held, c.tx.PutExpiryHold(c.ctx, c.req.Client, *held)
}

// afterHold is what stands in the place of a hold that ended: nothing is held again
// for a while, because what was held now expires, all of it. Where the clock has gone
// back, what expires by the right one is counted as ever.
func afterHold(held Standing, now time.Time) Standing {
	if held.Since.After(now) {
		return Standing{}
	}
	return Standing{Code: codeMayExpire, Until: now.Add(expiryHold)}
}

// expire ends the rows of this claim that are too old, or holds all of them.
func (c *claiming) expire() error {
	rows := c.expiring
	c.expiring = nil
	if len(rows) == 0 {
		return nil
	}
	held, err := c.expiryHeld()
	if err != nil {
		return err
	}
	n := c.out.Expired + len(rows) + c.j.expiries.within(c.req.Client, c.now)
	few := n <= expiryFew || held.Code == codeMayExpire && held.Until.After(c.now)
	if !few {
		open, err := c.openJobs()
		if err != nil {
			return err
		}
		few = n <= open/expiryShare
	}
	if few {
		for i := range rows {
			c.expireOne(&rows[i])
		}
		return nil
	}
	c.client.ExpiryHeld = Standing{Since: c.now, Code: codeMassExpiry, Until: c.now.Add(expiryHold),
		Message: fmt.Sprintf("%d jobs were too old to be sent within a minute, as if the clock had jumped to %s", n, stampText(c.now))}
	c.out.ExpiryHeld = c.client.ExpiryHeld
	for i := range rows {
		c.holdBack(&rows[i])
	}
	return c.tx.PutExpiryHold(c.ctx, c.req.Client, c.client.ExpiryHeld)
}

// openJobs counts the open jobs of the client.
func (c *claiming) openJobs() (int, error) {
	open := 0
	for name := range c.req.Flows {
		n, err := c.tx.CountReady(c.ctx, name, mostCounted)
		if err != nil {
			return 0, err
		}
		open += n
	}
	return open, nil
}

// holdBack has a row that would expire looked at again later, so that it stands
// before no other.
func (c *claiming) holdBack(row *Row) {
	row.DueAt = c.now.Add(expiryLook)
	c.patches = append(c.patches, *row)
}

// clientState is what is stored of a client.
func clientState(ctx context.Context, tx Tx, client string) (ClientState, error) {
	cs, err := tx.Clients(ctx)
	for _, c := range cs {
		if c.Client == client {
			return c, err
		}
	}
	return ClientState{Client: client}, err
}

// lockHold is clientState for one who may change ExpiryHeld: whoever else may do so
// waits until the transaction ends, and sees what it left.
func (j *Journal) lockHold(ctx context.Context, tx Tx, client string) (ClientState, error) {
	if err := tx.PutMeta(ctx, "expiry_held_by/"+client, j.owner); err != nil {
		return ClientState{}, err
	}
	return clientState(ctx, tx, client)
}

// ResumeExpiry ends the hold on a client's expiry, and returns it; what is too old
// then expires, and for an hour nothing is held again. The jobs that were put off
// meanwhile are due again.
func (j *Journal) ResumeExpiry(ctx context.Context, client string, flows map[string]*Flow) (held Standing, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		cs, err := j.lockHold(ctx, tx, client)
		if held = cs.ExpiryHeld; err != nil || !held.Is() {
			return err
		}
		return tx.PutExpiryHold(ctx, client, afterHold(held, j.Now()))
	})
	if err == nil && held.Is() {
		err = j.AfterHold(ctx, client, held, flows)
	}
	return held, wrap(err, "let jobs of client %s expire", client)
}

// AfterHold makes the jobs due that were put off while the expiry of a client was
// held. If the clock had jumped, they would else wait until it comes there again.
func (j *Journal) AfterHold(ctx context.Context, client string, held Standing, flows map[string]*Flow) error {
	for name, f := range flows {
		if f.Client != client || f.MaxAge == 0 {
			continue
		}
		_, err := j.hasten(ctx, name, 0, func(r *Row, now time.Time) bool {
			return !r.DueAt.Before(held.Since) && (tooOldToSend(r, f, now) || held.Since.After(now))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
