package ratelimit

import (
	"fmt"
	"maps"
	"slices"
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

// ShapePause says that calls of one shape wait by themselves, since they alone are refused.
type ShapePause struct {
	Shape string
	Pause
}

// waitingShapes are those that wait by themselves at now, by name. The caller holds mu.
func (g *Gate) waitingShapes(now time.Time) (ps []ShapePause) {
	for _, name := range slices.Sorted(maps.Keys(g.shapes)) {
		if p := g.shapes[name].pause(); p.Active(now) {
			ps = append(ps, ShapePause{name, p})
		}
	}
	return ps
}

// RecallShapes takes over which calls wait by themselves from another gate of the same
// client, none of them longer than MaxPause from now. What this gate knows of a shape stays.
func (g *Gate) RecallShapes(ps []ShapePause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, p := range ps {
		if p.Shape == "" || g.shapes[p.Shape] != nil || len(g.shapes) >= mostShaped || !p.Active(now) {
			continue
		}
		if g.shapes == nil {
			g.shapes = map[string]*shaped{}
		}
		until := p.Until
		if latest := now.Add(g.settings.MaxPause); until.After(latest) {
			until = latest
		}
		g.shapes[p.Shape] = &shaped{refused: max(p.Strikes, 1), others: true, until: until, since: p.Since, text: p.Evidence}
	}
}

func (s *shaped) pause() Pause {
	return Pause{Until: s.until.UTC(), Reason: ReasonThrottled, Evidence: s.text, Since: s.since.UTC(), Strikes: s.refused}
}

// shapePaused is the error for a call of a shape that waits by itself; nil when it does not. The caller holds mu.
func (g *Gate) shapePaused(shape string) *PausedError {
	s := g.shapes[shape]
	if s == nil || !g.now().Before(s.until) {
		return nil
	}
	return &PausedError{Client: g.client, Pause: s.pause()}
}
