package ratelimit

import (
	"fmt"
	"time"
)

// shaped is what refusals tell of calls of one shape: where they alone are refused again and again, they alone wait.
type shaped struct {
	refused int       // since one of them was served
	others  bool      // calls of other shapes were served meanwhile
	until   time.Time // before which they are not made
	since   time.Time
	text    string // the evidence
}

// mostShaped bounds the shapes of which refusals are kept.
const mostShaped = 64

// servedShape notes that a call of a shape was served. The caller holds mu.
func (g *Gate) servedShape(shape string) {
	delete(g.shapes, shape)
	for _, s := range g.shapes {
		s.others = true
	}
}

// refusedShape notes that a call was refused for quota, and reports whether that concerns calls of its shape alone: it is not the first time since
// one of them was served, and others were served meanwhile. The caller holds mu.
func (g *Gate) refusedShape(f *flight, sig Signal, now time.Time) bool {
	s := g.shapes[f.shape]
	if s == nil {
		if f.shape == "" || len(g.shapes) >= mostShaped {
			return false
		}
		if g.shapes == nil {
			g.shapes = map[string]*shaped{}
		}
		s = &shaped{}
		g.shapes[f.shape] = s
	}
	if now.Before(s.until) {
		return true // it left before that was known
	}
	if s.refused++; s.refused < 2 || !s.others {
		return false
	}
	if sig.RetryAfter > g.settings.MaxPause {
		return false // somebody has to look, and the client as a whole is shown
	}
	d, _, note := g.length(sig, ReasonThrottled, s.refused)
	s.until, s.since = now.Add(d), now
	s.text = fmt.Sprintf("%s at %s%s; only calls of %q are refused", sig.Evidence, now.UTC().Format(time.RFC3339), note, f.shape)
	g.log.Warn("calls of one kind are refused, and wait by themselves", "shape", f.shape, "until", s.until, "evidence", sig.Evidence)
	return true
}

// shapePaused is the error for a call of a shape that waits by itself; nil when it does not. The caller holds mu.
func (g *Gate) shapePaused(shape string) *PausedError {
	s := g.shapes[shape]
	if s == nil || !g.now().Before(s.until) {
		return nil
	}
	return &PausedError{Client: g.client, Pause: Pause{Until: s.until.UTC(), Reason: ReasonThrottled, Evidence: s.text, Since: s.since.UTC(), Strikes: s.refused}}
}
