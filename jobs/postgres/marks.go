package postgres

import (
	"sync"
	"time"

	"syncd/jobs"
)

// marks remembers for each lane a due time before which it has no ready row,
// so that a search need not begin at the first row ever. Rows that were written
// leave dead entries at the head of the index; while another session holds an old
// snapshot they cannot be removed, and each search would pass all of them.
//
// What this process writes lowers the mark when its transaction has ended. What
// another process writes is found by a search without the mark, which is made
// every now and then.
type marks struct {
	mu    sync.Mutex
	lanes map[jobs.LaneID]*mark
}

type mark struct {
	low time.Time // zero for none
	// changes counts how often the mark was lowered, so that a search does not raise
	// it over rows that it could not see yet.
	changes int
	// look is when the next search goes without the mark.
	look time.Time
}

const (
	// lookAgain is the shortest pause between two searches without the mark.
	lookAgain = 500 * time.Millisecond
	// lookShare bounds what such searches cost: each is followed by a pause this many times as long.
	lookShare = 20
	// lookMost bounds that pause: a search that was slow because the machine was busy, or because it waited for a
	// lock, must not hide for minutes what a command has made due.
	lookMost = 30 * time.Second
)

func newMarks() *marks { return &marks{lanes: map[jobs.LaneID]*mark{}} }

// search is one search for due rows of a lane.
type search struct {
	from    time.Time // where to begin; zero for the very first row
	changes int
	start   time.Time
	whole   bool // it goes without the mark
}

func (m *marks) begin(lane jobs.LaneID) search {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(lane)
	s := search{from: c.low, changes: c.changes, start: time.Now()}
	if !s.start.Before(c.look) {
		s.from, s.whole = time.Time{}, true
	}
	return s
}

// end notes that there is no ready row before low.
func (m *marks) end(lane jobs.LaneID, s search, low time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(lane)
	c.looked(s)
	if c.changes == s.changes {
		c.low = low
	}
}

// found notes that there is a ready row due at a time, or none: all that a look at
// a past state can tell.
func (m *marks) found(lane jobs.LaneID, s search, there bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(lane)
	c.looked(s)
	if there && at.Before(c.low) {
		c.low = at
		c.changes++
	}
}

func (c *mark) looked(s search) {
	if s.whole {
		c.look = time.Now().Add(min(max(lookAgain, lookShare*time.Since(s.start)), lookMost))
	}
}

// lower notes what a transaction that has ended did.
func (m *marks) lower(t touches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for lane, at := range t.lanes {
		m.of(lane).lower(at)
	}
	for client, at := range t.clients {
		// A lane that is not known has no mark.
		for lane, c := range m.lanes {
			if lane.Client == client {
				c.lower(at)
			}
		}
	}
}

// undone notes what a transaction did that may not have been committed.
func (m *marks) undone(t touches) {
	m.lower(t)
	if !t.unread {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.lanes {
		c.lower(time.Time{})
	}
}

func (c *mark) lower(at time.Time) {
	c.changes++
	if at.Before(c.low) {
		c.low = at
	}
}

func (m *marks) of(lane jobs.LaneID) *mark {
	c := m.lanes[lane]
	if c == nil {
		c = &mark{}
		m.lanes[lane] = c
	}
	return c
}

// touches collects, over one transaction, the earliest due time of each lane's
// ready rows that it held or wrote. Those that it held were left out by searches
// of others; whether it changed them or not, they are to be found again.
type touches struct {
	lanes map[jobs.LaneID]time.Time
	// clients are those of which rows in any lane were made due.
	clients map[string]time.Time
	// unread is set once rows were changed that may not have been read before. As they
	// were, in whatever lane, they are to be found again if the transaction is undone:
	// searches of others passed over them, and its own saw what it had made of them.
	unread bool
}

func newTouches() touches {
	return touches{lanes: map[jobs.LaneID]time.Time{}, clients: map[string]time.Time{}}
}

func (t touches) add(r *jobs.Row) {
	if r.State == jobs.Ready {
		earlier(t.lanes, jobs.LaneID{Client: r.Client, Shard: r.Shard}, r.DueAt)
	}
}

// from is where a search of the transaction itself begins that would begin at a time: it
// sees what the transaction has written, of which the marks do not know yet.
func (t touches) from(lane jobs.LaneID, at time.Time) time.Time {
	if low, ok := t.lanes[lane]; ok && low.Before(at) {
		at = low
	}
	if low, ok := t.clients[lane.Client]; ok && low.Before(at) {
		at = low
	}
	return at
}

func (t touches) woke(client string, at time.Time) { earlier(t.clients, client, at) }

func earlier[K comparable](m map[K]time.Time, k K, at time.Time) {
	if old, ok := m[k]; !ok || at.Before(old) {
		m[k] = at
	}
}
