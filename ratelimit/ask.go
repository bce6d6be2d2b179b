package ratelimit

import (
	"context"
	"slices"
	"time"
)

// Kind tells the calls apart that share a client's quota fairly.
type Kind int

// Kinds of calls.
const (
	// Reading is a poll, or a look at one record.
	Reading Kind = iota
	// Writing is what changes something.
	Writing
	kinds
)

func (k Kind) String() string {
	if k == Writing {
		return "writing"
	}
	return "reading"
}

// Ask is a call that somebody wants to make.
type Ask struct {
	Kind Kind
	// Shape names calls that cost the same and are counted by the server in the same way, such as the path of a
	// listing or the name of a query, without anything about a record; "" for one that is like all others of its kind.
	Shape string
	// Cost is what the call is predicted to take of the quota, in the server's unit; 0 for what calls of its shape
	// took so far, or 1.
	Cost float64
}

// Pass is the leave to make one call, now. It is ended once, by Answer or by Drop; what comes after that does nothing.
type Pass interface {
	// Answer shows the gate the answer that arrived at now. It reports whether the answer asked for a pause; the pause
	// is then in force and was given to the store. If the store fails, that is logged and kept for State, and the
	// pause holds in memory.
	Answer(ctx context.Context, sig Signal, now time.Time) (paused bool)
	// Drop says that no answer will come. sent tells whether the server may have counted the call.
	Drop(sent bool)
}

// pass is a call under way.
type pass struct {
	g      *Gate
	flight *flight
}

// Answer implements Pass.
func (p *pass) Answer(ctx context.Context, sig Signal, now time.Time) bool {
	return p.g.answered(ctx, p.flight, sig, now)
}

// Drop implements Pass.
func (p *pass) Drop(sent bool) { p.g.dropped(p.flight, sent) }

// flight is a call from its leave to its end.
type flight struct {
	seq   uint64 // in the order of leaving
	kind  Kind
	shape string
	cost  float64
	sent  time.Time
	ended time.Time // zero while it is under way
	heard []*mirror // quotas that its answer told of
}

func (f *flight) underWay() bool { return f.ended.IsZero() }

// counted reports whether a call had certainly been counted in what was the lowest that was left in a window. Nothing comes back within it: whoever
// was told of more came before.
func (f *flight) counted(m *mirror) bool {
	return f.before(&m.low.of) || !f.underWay() && slices.Contains(f.heard, m)
}

// before reports whether a call had certainly been counted by the server when it counted another one.
func (f *flight) before(other *flight) bool { return !f.underWay() && !f.ended.After(other.sent) }
