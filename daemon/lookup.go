package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/upsert"
)

// lookups remembers for a short time what looking a referred record up gave, so
// that a thousand orders of one customer ask once. A found id is not stored as
// the record's link: that would make the record one of ours, and a flow that
// must not touch existing records would write to it.
type lookups struct {
	mu sync.Mutex
	at map[jobs.EntityKey]lookup
}

type lookup struct {
	link string // "" for a record that is not there
	at   time.Time
}

const (
	hitFor      = 10 * time.Minute
	missFor     = 30 * time.Second
	mostLookups = 10_000
)

func newLookups() *lookups { return &lookups{at: map[jobs.EntityKey]lookup{}} }

// recent returns what was found not long ago.
func (m *lookups) recent(k jobs.EntityKey) (link string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.at[k]
	age := time.Since(l.at)
	if !ok || age >= hitFor || l.link == "" && age >= missFor {
		return "", false
	}
	return l.link, true
}

func (m *lookups) add(k jobs.EntityKey, link string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.at) >= mostLookups {
		clear(m.at)
	}
	m.at[k] = lookup{link, time.Now()}
}

// lookUp finds a referred record that no flow of ours has written yet. It
// returns an outcome when the target could not be asked.
func (l *lane) lookUp(ctx context.Context, client string, k jobs.EntityKey) (string, connectors.Outcome) {
	if link, known := l.lookups.recent(k); known {
		return link, connectors.Outcome{}
	}
	e, err := l.client.target.Entity(k.Entity)
	if err != nil {
		return "", connectors.Fail(connectors.Invalid, "reference", "the record refers to an entity %q that client %s does not have", k.Entity, client)
	}
	if connectors.PrimitivesOf(e).Finder == nil {
		return "", connectors.Outcome{} // it can only come by its own flow
	}
	// Under the breaker: a target that fails at look-ups alone is down for us too,
	// and one that answers them is alive, so that failures of a write count.
	var link string
	err = l.client.read(ctx, func(ctx context.Context) (err error) {
		link, _, err = upsert.LookUp(ctx, e, k.Key)
		return err
	}, k.Entity+" "+k.Key)
	var ce *connectors.Error
	switch {
	case errors.Is(err, errClosed):
		return "", connectors.Fail(connectors.Paused, "breaker", "%s", err)
	case errors.As(err, &ce):
		o := ce.Outcome
		if !strings.Contains(o.Message, k.Key) { // else it says itself what was looked up
			o.Message = strings.TrimSuffix(ce.Op+": "+o.Message, ": ")
		}
		return "", o
	case err != nil:
		return "", connectors.Fail(connectors.Transient, "lookup", "looking up %s %s failed", k.Entity, k.Key)
	}
	l.lookups.add(k, link) // "" when it was not found
	return link, connectors.Outcome{}
}
