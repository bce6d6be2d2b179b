package postgres

import (
	"sync"
	"time"

	"syncd/jobs"
)

// marks remembers for each client a due time before which it has no ready row,
// so that a search need not begin at the first row ever. Rows that were written
// leave dead entries at the head of the index; while another session holds an old
// snapshot they cannot be removed, and each search would pass all of them.
//
// What this process writes lowers the mark when its transaction has ended. What
// another process writes is found by a search without the mark, which is made
// every now and then.
type marks struct {
	mu      sync.Mutex
	clients map[string]*mark
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
	lookAgain = 2 * time.Second
	// lookShare bounds what such searches cost: each is followed by a pause this many times as long.
	lookShare = 20
)

func newMarks() *marks { return &marks{clients: map[string]*mark{}} }

// search is one search for due rows of a client.
type search struct {
	from    time.Time // where to begin; zero for the very first row
	changes int
	start   time.Time
	whole   bool // it goes without the mark
}

func (m *marks) begin(client string) search {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(client)
	s := search{from: c.low, changes: c.changes, start: time.Now()}
	if !s.start.Before(c.look) {
		s.from, s.whole = time.Time{}, true
	}
	return s
}

// end notes that there is no ready row before low.
func (m *marks) end(client string, s search, low time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(client)
	c.looked(s)
	if c.changes == s.changes {
		c.low = low
	}
}

// found notes that there is a ready row due at a time, or none: all that a look at
// a past state can tell.
func (m *marks) found(client string, s search, there bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(client)
	c.looked(s)
	if there && at.Before(c.low) {
		c.low = at
		c.changes++
	}
}

func (c *mark) looked(s search) {
	if s.whole {
		c.look = time.Now().Add(max(lookAgain, lookShare*time.Since(s.start)))
	}
}

// lower notes that rows of clients may be due from these times on.
func (m *marks) lower(touched map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for client, at := range touched {
		c := m.of(client)
		c.changes++
		if at.Before(c.low) {
			c.low = at
		}
	}
}

func (m *marks) of(client string) *mark {
	c := m.clients[client]
	if c == nil {
		c = &mark{}
		m.clients[client] = c
	}
	return c
}

// touches collects, over one transaction, the earliest due time of each client's
// ready rows that it held or wrote. Those that it held were left out by searches
// of others; whether it changed them or not, they are to be found again.
type touches map[string]time.Time

func (t touches) add(r *jobs.Row) {
	if r.State == jobs.Ready {
		t.at(r.Client, r.DueAt)
	}
}

func (t touches) at(client string, at time.Time) {
	if old, ok := t[client]; !ok || at.Before(old) {
		t[client] = at
	}
}
