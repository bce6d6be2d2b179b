package daemon

import (
	"context"
	"sync/atomic"
	"time"
)

// longestIdle is how long one rests at most when there is nothing to do. What others make
// due meanwhile is found by run.look, for all at once.
const longestIdle = time.Minute

// rester is one who rests while there is nothing to do, and is woken when there is.
type rester struct {
	woken chan struct{}
	// idling: it rests because it found nothing to do.
	idling atomic.Bool
}

func newRester() *rester { return &rester{woken: make(chan struct{}, 1)} }

// wake ends a rest, or the next one when there is none now.
func (r *rester) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// rest waits to be woken, for d at most; it returns false when ctx is over.
func (r *rester) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.woken:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// idle is rest for one who found nothing to do, and may be woken for what others make due.
func (r *rester) idle(ctx context.Context, d time.Duration) bool {
	r.idling.Store(true)
	defer r.idling.Store(false)
	return r.rest(ctx, d)
}

func (r *rester) idles() bool { return r.idling.Load() }
