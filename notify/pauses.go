package notify

import (
	"context"
	"time"
)

// Client is where a client of this daemon stands.
type Client struct {
	Name string
	// Reason is why the client is not called; "" while it is. Of a person's own pause
	// (operator) nobody is told, and of a suspension (suspended) by its own events.
	Reason string
	// Since is when calls stopped, Until when they begin again by themselves; Until is
	// zero when nobody knows.
	Since, Until time.Time
	// Unproved: it may be called, and nothing was served since its server asked for a pause.
	Unproved bool
}

// pauses are the clients whose long pause people were told of. They belong to look.
type pauses map[string]told

// beyond is the reason of a pause that is longer than a server may ask for without anybody looking.
const beyond = "beyond_max_pause"

type told struct {
	reason string
	since  time.Time
}

// look watches the clients for pauses that last long. They are looked at and not told
// by events: a pause ends by the clock alone, is lengthened, and may have begun in
// another daemon or before a restart.
func (n *Notifier) look(ctx context.Context) {
	if n.opts.Clients == nil {
		return
	}
	n.pauses = pauses{}
	for wait(ctx, lookEvery) {
		n.mu.Lock()
		long := n.settings.LongPause
		n.mu.Unlock()
		for _, h := range n.pauses.turn(n.opts.Clients(), long, n.opts.Now()) {
			n.Tell(h)
		}
	}
}

// turn says what is new of the clients at a moment. A client that is split has several
// entries and is paused while one of them is. One that this daemon does not run any
// more is forgotten: whoever runs it tells of it.
func (p pauses) turn(clients []Client, long time.Duration, now time.Time) (hs []Happening) {
	at := map[string]Client{}
	for _, c := range clients {
		was, seen := at[c.Name]
		c.Unproved = c.Unproved || was.Unproved
		if !seen || was.Reason == "" || c.Reason != "" && c.Since.Before(was.Since) {
			at[c.Name] = c
		}
	}
	for name := range p {
		if _, ok := at[name]; !ok {
			delete(p, name)
		}
	}
	for name, c := range at {
		t, known := p[name]
		switch {
		case c.Reason == "" && known && c.Unproved: // the next call may be refused as well
		case c.Reason == "" && known:
			delete(p, name)
			hs = append(hs, Happening{Event: Paused, Over: true, Client: name, Code: t.reason, Since: t.since})
		case known && c.Reason == beyond && t.reason != beyond: // it has become one that somebody is to look at
			p[name] = told{c.Reason, c.Since}
			hs = append(hs, Happening{Event: Paused, Client: name, Code: c.Reason, Since: c.Since, Until: c.Until})
		case c.Reason == "" || known || c.Reason == "operator" || c.Reason == "suspended":
		case now.Sub(c.Since) >= long || c.Until.Sub(c.Since) >= long:
			p[name] = told{c.Reason, c.Since}
			hs = append(hs, Happening{Event: Paused, Client: name, Code: c.Reason, Since: c.Since, Until: c.Until})
		}
	}
	return hs
}
