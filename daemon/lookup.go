package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/upsert"
)

// misses remembers for a short time which records a target does not have, so
// that a thousand orders of a missing customer ask once.
type misses struct {
	mu sync.Mutex
	at map[jobs.EntityKey]time.Time
}

const (
	missFor  = 30 * time.Second
	mostMiss = 10_000
)

func newMisses() *misses { return &misses{at: map[jobs.EntityKey]time.Time{}} }

func (m *misses) recent(k jobs.EntityKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at[k]) < missFor
}

func (m *misses) add(k jobs.EntityKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.at) >= mostMiss {
		clear(m.at)
	}
	m.at[k] = time.Now()
}

// lookUp finds a referred record that no flow of ours has written yet. It
// returns an outcome when the target could not be asked.
func (l *lane) lookUp(ctx context.Context, client string, k jobs.EntityKey) (string, connectors.Outcome) {
	if l.misses.recent(k) {
		return "", connectors.Outcome{}
	}
	e, err := l.client.target.Entity(k.Entity)
	if err != nil {
		return "", connectors.Fail(connectors.Invalid, "reference", "the record refers to an entity %q that client %s does not have", k.Entity, client)
	}
	if _, ok := e.(connectors.Finder); !ok {
		return "", connectors.Outcome{} // it can only come by its own flow
	}
	link, found, err := upsert.LookUp(ctx, e, k.Key)
	var ce *connectors.Error
	switch {
	case errors.As(err, &ce):
		return "", ce.Outcome
	case err != nil:
		return "", connectors.Fail(connectors.Transient, "lookup", "looking up %s %s failed", k.Entity, k.Key)
	case !found:
		l.misses.add(k)
		return "", connectors.Outcome{}
	}
	if err := l.d.journal.PutLink(ctx, client, k, link); err != nil {
		return "", connectors.Fail(connectors.Paused, "journal", "storing a link failed")
	}
	return link, connectors.Outcome{}
}
