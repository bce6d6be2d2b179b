package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"syncd/internal/crash"
	"syncd/internal/mutant"
	"syncd/internal/process"
)

// Terms of leases.
type Terms struct {
	// For is how long a lease lasts after it was renewed last, by the journal's clock.
	For time.Duration
	// Renew is how often leases are renewed.
	Renew time.Duration
	// Margin is taken off For to get the time for which a daemon trusts its lease by
	// its own clock: clocks do not run alike, and what was begun takes time to reach
	// the network.
	Margin time.Duration
}

// DefaultTerms are those of every daemon.
func DefaultTerms() Terms {
	return Terms{For: crash.Shorten(30 * time.Second), Renew: crash.Shorten(10 * time.Second), Margin: crash.Shorten(2 * time.Second)}
}

// Hold is a lease that this daemon has: the right to run one lane.
type Hold struct {
	LaneID
	Token string
	// Since is when it was taken, by this process's clock.
	Since time.Time

	mu    sync.Mutex
	until time.Time // with a monotonic reading; zero for no end
	ended bool
	lost  chan struct{}
	// splits are into how many shards clients were seen to be split; see asSplit.
	splits map[string]int
}

// Valid reports whether no other daemon can have the lane at this moment. A request
// must not be begun unless it is so.
func (h *Hold) Valid() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.ended && (h.until.IsZero() || time.Now().Before(h.until) || mutant.On("no-deadline"))
}

// Until is until when the hold is valid unless it is renewed; zero for no end.
func (h *Hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// Lost is closed when the lane was given back or is known to be another daemon's.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Watch calls over once, when the hold is not valid any more, or never if ctx ends
// before.
func (h *Hold) Watch(ctx context.Context, over func()) {
	for h.Valid() {
		var lapsed <-chan time.Time
		var t *time.Timer
		if until := h.Until(); !until.IsZero() {
			t = time.NewTimer(time.Until(until))
			lapsed = t.C
		}
		select {
		case <-h.lost:
		case <-lapsed:
		case <-ctx.Done():
		}
		if t != nil {
			t.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
	over()
}

// trust has the hold be valid for longer. One that was not valid for a moment is
// over: what was under way has ended, and others may have had the lane.
func (h *Hold) trust(until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !time.Now().Before(h.until) && !mutant.On("lease-revived") {
		return false
	}
	h.until = until
	return true
}

func (h *Hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.lost)
	}
}

// Survey is who runs what.
type Survey struct {
	Daemons []Daemon
	Leases  []Lease
	Clients []ClientState
}

// Living are the daemons that are at work, as far as the process me can tell.
func (s *Survey) Living(me process.ID) []Daemon {
	var out []Daemon
	for _, m := range s.Daemons {
		if !m.Lapsed && !m.Process.Ended(me) {
			out = append(out, m)
		}
	}
	return out
}

// Free reports whether a lane may be taken, as far as the daemon me can tell that
// does not hold it, and its lease as it was seen. alone says that no other
// daemon can have the journal.
func (s *Survey) Free(lane LaneID, me Daemon, alone bool) (was Lease, free bool) {
	i := slices.IndexFunc(s.Leases, func(l Lease) bool { return l.LaneID == lane })
	if i < 0 {
		return Lease{LaneID: lane}, true
	}
	l := s.Leases[i]
	if l.Token == "" || l.Lapsed || alone || l.Owner == me.Owner {
		return l, true
	}
	m := slices.IndexFunc(s.Daemons, func(m Daemon) bool { return m.Owner == l.Owner })
	return l, m >= 0 && s.Daemons[m].Process.Ended(me.Process)
}

// holds are the leases of this daemon.
type holds struct {
	mu     sync.Mutex
	joined bool
	me     Daemon
	terms  Terms
	of     map[LaneID]*Hold
	shown  map[LaneID]*shown
}

// alone is an engine that no second daemon can open: its leases need no renewing.
type alone interface{ Alone() bool }

// Alone reports whether no other daemon can have the journal while this one has it.
func (j *Journal) Alone() bool {
	a, ok := j.engine.(alone)
	return ok && a.Alone()
}

// Join shows this daemon to the others, with the lanes that it could run, and has
// every verb of a lane work under its lease from now on. It is called again when
// the lanes change.
func (j *Journal) Join(ctx context.Context, lanes []LaneID, t Terms) error {
	j.holds.mu.Lock()
	since := j.holds.me.Since
	if since.IsZero() {
		since = j.Now()
	}
	j.holds.joined, j.holds.terms = true, t
	j.holds.me = Daemon{Owner: j.owner, Process: process.This(), Since: since, Lanes: lanes}
	me := j.holds.me
	j.holds.mu.Unlock()
	if err := wrap(j.show(ctx, me), "join the daemons of the journal"); err != nil {
		return err
	}
	// After it was shown: whoever needs the journal alone has seen it, or is seen here.
	return j.mayRun(Urgent(ctx))
}

func (j *Journal) show(ctx context.Context, me Daemon) error {
	return j.engine.Update(Urgent(ctx), func(tx Tx) error { return tx.PutDaemon(ctx, me, j.holds.terms.For) })
}

// Leave tells the other daemons that this one takes nothing more and is about to end.
func (j *Journal) Leave(ctx context.Context) error {
	j.holds.mu.Lock()
	j.holds.me.Leaving = true
	me := j.holds.me
	j.holds.mu.Unlock()
	return wrap(j.show(ctx, me), "announce the end of this daemon")
}

// Part takes this daemon off the list, once it holds nothing any more.
func (j *Journal) Part(ctx context.Context) error {
	err := j.engine.Update(Urgent(ctx), func(tx Tx) error { return tx.DeleteDaemon(ctx, j.owner) })
	return wrap(err, "leave the daemons of the journal")
}

// Me is this daemon as the others see it; of a command beside them, only its process
// is known.
func (j *Journal) Me() Daemon {
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	if !j.holds.joined {
		return Daemon{Process: process.This()}
	}
	return j.holds.me
}

// Holds are the leases of this daemon, by lane.
func (j *Journal) Holds() []*Hold {
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	out := slices.Collect(maps.Values(j.holds.of))
	slices.SortFunc(out, func(a, b *Hold) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Shard, b.Shard))
	})
	return out
}

// Survey reads who runs what.
func (j *Journal) Survey(ctx context.Context) (s Survey, err error) {
	err = j.engine.View(Urgent(ctx), func(tx Tx) error {
		s = Survey{}
		if s.Daemons, err = tx.Daemons(ctx); err != nil {
			return err
		}
		if s.Leases, err = tx.Leases(ctx); err != nil {
			return err
		}
		s.Clients, err = tx.Clients(ctx)
		return err
	})
	return s, wrap(err, "read which daemon runs what")
}

// Take takes a lane whose lease was seen to be free; nil when somebody else was
// faster, or when its owner has renewed it since.
func (j *Journal) Take(ctx context.Context, was Lease) (*Hold, error) {
	lane := was.LaneID
	l := Lease{LaneID: lane, Owner: j.owner}
	if was.Token != "" {
		l.Until = was.Until
	}
	h := &Hold{LaneID: lane, Token: rand.Text(), lost: make(chan struct{})}
	l.Token = h.Token
	took := false
	var begun time.Time
	err := j.engine.Update(Urgent(ctx), func(tx Tx) (err error) {
		begun = time.Now()
		took, err = tx.TakeLease(ctx, l, was.Token, j.holds.terms.For)
		return err
	})
	switch {
	case errors.Is(err, ErrBusy):
		return nil, nil // a transaction under the old lease has not ended; it is tried again
	case err != nil:
		return nil, wrap(err, "take the lane of client %s", lane)
	case !took:
		return nil, nil
	}
	h.Since = begun
	if !j.Alone() {
		// Counted from before the statement by this process's own clock: the journal's
		// begins later, so that it ends later too.
		h.until = begun.Add(j.holds.terms.For - j.holds.terms.Margin)
	}
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	if j.holds.of == nil {
		j.holds.of = map[LaneID]*Hold{}
	}
	j.holds.of[lane] = h
	return h, nil
}

// Renew shows this daemon and renews all its leases. Those that are another
// daemon's by now end.
func (j *Journal) Renew(ctx context.Context) error {
	j.holds.mu.Lock()
	me := j.holds.me
	byToken := map[string]*Hold{}
	var tokens []string
	for _, h := range j.holds.of {
		byToken[h.Token] = h
		tokens = append(tokens, h.Token)
	}
	j.holds.mu.Unlock()
	slices.Sort(tokens)
	owner := map[LaneID]string{}
	for token, h := range byToken {
		owner[h.LaneID] = token
	}
	news := j.news(func(l LaneID) bool { return owner[l] != "" })
	var lost []string
	var begun time.Time
	err := j.engine.Update(Urgent(ctx), func(tx Tx) (err error) {
		begun = time.Now()
		if err := tx.PutDaemon(ctx, me, j.holds.terms.For); err != nil {
			return err
		}
		if lost, err = tx.RenewLeases(ctx, tokens, j.holds.terms.For); err != nil {
			return err
		}
		maps.DeleteFunc(news, func(l LaneID, _ string) bool { return slices.Contains(lost, owner[l]) })
		return putShown(ctx, tx, news)
	})
	if err != nil {
		return wrap(err, "renew %d leases", len(tokens))
	}
	j.stored(news, false)
	for _, t := range tokens {
		h := byToken[t]
		switch {
		case slices.Contains(lost, t):
			j.drop(h)
		case !j.Alone() && !h.trust(begun.Add(j.holds.terms.For-j.holds.terms.Margin)):
			j.drop(h)
		}
	}
	return nil
}

// Release gives a lane back. Nothing may be under way in it any more.
func (j *Journal) Release(ctx context.Context, h *Hold) error {
	j.drop(h)
	news := j.news(func(l LaneID) bool { return l == h.LaneID })
	err := j.engine.Update(Urgent(ctx), func(tx Tx) error {
		switch err := tx.Fence(ctx, Fence{h.LaneID, h.Token}); {
		case errors.Is(err, ErrFenced): // it is another daemon's to show something of
		case err != nil:
			return err
		default:
			if err := putShown(ctx, tx, news); err != nil {
				return err
			}
		}
		return tx.FreeLease(ctx, Fence{h.LaneID, h.Token})
	})
	if err == nil {
		j.stored(news, true)
	}
	return wrap(err, "give the lane of client %s back (it lapses by itself)", h.LaneID)
}

// daemonKept is how long a daemon that went silent stays on the list, for people to
// see, if nothing tells that it has ended.
const daemonKept = time.Hour

// Bury takes daemons off the list that have ended, or were silent for an hour, and
// whose lanes all have other owners by now.
func (j *Journal) Bury(ctx context.Context, s *Survey) error {
	me := j.Me()
	var over []string
	for _, m := range s.Daemons {
		ended := m.Process.Ended(me.Process) || m.Lapsed && m.Until.Before(j.Now().Add(-daemonKept))
		owns := slices.ContainsFunc(s.Leases, func(l Lease) bool { return l.Owner == m.Owner && l.Token != "" })
		if m.Owner != me.Owner && ended && !owns {
			over = append(over, m.Owner)
		}
	}
	if len(over) == 0 {
		return nil
	}
	err := j.engine.Update(Urgent(ctx), func(tx Tx) error {
		for _, owner := range over {
			if err := tx.DeleteDaemon(ctx, owner); err != nil {
				return err
			}
		}
		return nil
	})
	return wrap(err, "take %d ended daemons off the list", len(over))
}

// drop forgets a hold.
func (j *Journal) drop(h *Hold) {
	h.end()
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	if j.holds.of[h.LaneID] == h {
		delete(j.holds.of, h.LaneID)
	}
}

// fence has a transaction write under the lease of a lane, and returns the name
// under which claims are made. A journal that never joined has no leases to look at.
func (j *Journal) fence(ctx context.Context, tx Tx, lane LaneID) (owner string, err error) {
	j.holds.mu.Lock()
	joined, h := j.holds.joined, j.holds.of[lane]
	j.holds.mu.Unlock()
	switch {
	case !joined:
		return j.owner, nil
	case h == nil:
		return "", fmt.Errorf("%w: client %s", ErrFenced, lane)
	}
	if mutant.On("done-without-lease") {
		return h.Token, nil
	}
	return h.Token, tx.Fence(ctx, Fence{lane, h.Token})
}

// joined reports whether this is the journal of a daemon, not that of a command.
func (j *Journal) joined() bool {
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	return j.holds.joined
}

// under runs fn in a transaction that writes under the lease of a lane. One that is
// not this daemon's any more ends.
func (j *Journal) under(ctx context.Context, lane LaneID, fn func(tx Tx, owner string) error) error {
	var token string
	err := j.engine.Update(ctx, func(tx Tx) (err error) {
		if token, err = j.fence(ctx, tx, lane); err != nil {
			return err
		}
		return fn(tx, token)
	})
	if errors.Is(err, ErrFenced) {
		j.holds.mu.Lock()
		h := j.holds.of[lane]
		j.holds.mu.Unlock()
		if h != nil && h.Token == token {
			j.drop(h)
		}
	}
	return err
}

// fenceAny has a transaction write under the lease of one of a client's lanes.
func (j *Journal) fenceAny(ctx context.Context, tx Tx, client string) error {
	j.holds.mu.Lock()
	joined := j.holds.joined
	lane, found := LaneID{Client: client}, false
	for l := range j.holds.of {
		if l.Client == client && (!found || l.Shard < lane.Shard) {
			lane, found = l, true
		}
	}
	j.holds.mu.Unlock()
	if !joined {
		return nil
	}
	_, err := j.fence(ctx, tx, lane)
	return err
}
