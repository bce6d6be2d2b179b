package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// state is one state of a source record.
type state struct {
	version int64
	// body is what a target holds of it, in the world's own words.
	body string
	at   time.Time
}

// effect is a change that a write made in a target. A write that leaves everything as it was has none.
type effect struct {
	at     time.Time
	create bool
	// id is the target's own id of the record.
	id      string
	version int64
	body    string
}

// What can be wrong with a record.
const (
	lost    = "lost"
	doubled = "doubled"
	stale   = "stale"
)

// finding is something that is wrong with one record.
type finding struct {
	what, flow, key string
	// at is when it went wrong; for something lost, when the source changed.
	at  time.Time
	why string
}

func (f finding) String() string {
	return fmt.Sprintf("%s: %s %s, %s: %s", f.what, f.flow, f.key, f.at.Format("15:04:05.000"), f.why)
}

// id tells findings apart over several looks at the same ledger.
func (f finding) id() string { return strings.Join([]string{f.what, f.flow, f.key, f.why}, "\x00") }

// ledger holds, by key, what the source said and what was done in the target. It lives outside the process that is killed.
type ledger struct {
	flow string
	// guarded says that the target itself keeps an older state from being written over a newer one.
	guarded bool
	// ordered says that its records are events, each of which is written once, and in its order within its group, which its body names
	// after " in ".
	ordered bool
	// refuses tells what the target refuses; nil for nothing. A state that is refused need not arrive.
	refuses func(body string) bool

	mu      sync.Mutex
	blames  []finding
	states  map[string][]state
	effects map[string][]effect
}

func newLedger(flow string, guarded bool) *ledger {
	return &ledger{flow: flow, guarded: guarded, states: map[string][]state{}, effects: map[string][]effect{}}
}

func (l *ledger) said(key string, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[key] = append(l.states[key], s)
}

// blame notes something that must not be done to a target, although it has no effect.
func (l *ledger) blame(key, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blames = append(l.blames, finding{doubled, l.flow, key, time.Now(), why})
}

func (l *ledger) did(key string, e effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects[key] = append(l.effects[key], e)
}

// replace takes over what a database remembers better than this process.
func (l *ledger) replace(states map[string][]state, effects map[string][]effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if states != nil {
		l.states = states
	}
	if effects != nil {
		l.effects = effects
	}
}

// counts tells how many records the source has and how many effects there were.
func (l *ledger) counts() (records, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, es := range l.effects {
		effects += len(es)
	}
	return len(l.states), effects
}

// written are the keys on which there was an effect.
func (l *ledger) written() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.effects))
}

// judge finds everything that is wrong. With quiet, nothing is under way any more, so that what has not arrived never will.
func (l *ledger) judge(quiet bool) (out []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add := func(what, key string, at time.Time, why string, args ...any) {
		out = append(out, finding{what, l.flow, key, at, fmt.Sprintf(why, args...)})
	}
	for key, es := range l.effects {
		l.history(key, es, add)
	}
	if quiet {
		for key, ss := range l.states {
			l.end(key, ss, l.effects[key], add)
		}
	}
	if l.ordered {
		l.order(add)
	}
	out = append(out, l.blames...)
	slices.SortFunc(out, func(a, b finding) int { return a.at.Compare(b.at) })
	return out
}

// order looks at the effects within each group.
func (l *ledger) order(add adder) {
	type event struct {
		effect
		key string
	}
	groups := map[string][]event{}
	for key, es := range l.effects {
		for _, e := range es {
			_, group, _ := strings.Cut(e.body, " in ")
			groups[group] = append(groups[group], event{e, key})
		}
	}
	for group, es := range groups {
		slices.SortFunc(es, func(a, b event) int { return a.at.Compare(b.at) })
		for i, e := range es[min(1, len(es)):] {
			if before := es[i]; e.version < before.version {
				add(stale, e.key, e.at, "in group %s it comes after %s, which is newer", group, before.key)
			}
		}
	}
}

type adder func(what, key string, at time.Time, why string, args ...any)

// history looks at the effects on one key in their order.
func (l *ledger) history(key string, es []effect, add adder) {
	said := map[int64]string{}
	for _, s := range l.states[key] {
		said[s.version] = s.body
	}
	held := map[string]effect{}
	for i, e := range es {
		body, known := said[e.version]
		switch {
		case !known:
			add(doubled, key, e.at, "effect %d writes version %d, which the source never had", i, e.version)
		case body != e.body:
			add(lost, key, e.at, "effect %d writes %q as version %d, which was %q", i, e.body, e.version, body)
		}
		before, there := held[e.id]
		switch {
		case e.create && len(held) > 0:
			add(doubled, key, e.at, "effect %d creates record %s beside %d others", i, e.id, len(held))
		case there && e.version == before.version:
			add(doubled, key, e.at, "effect %d is the second of version %d", i, e.version)
		case there && e.version < before.version && l.guarded:
			add(stale, key, e.at, "effect %d writes version %d over %d", i, e.version, before.version)
		}
		held[e.id] = e
	}
}

// end looks whether the newest state of a record stands.
func (l *ledger) end(key string, ss []state, es []effect, add adder) {
	newest := ss[len(ss)-1]
	if l.refuses != nil && l.refuses(newest.body) {
		return // whether one before it was written is a matter of time
	}
	if len(es) == 0 {
		add(lost, key, newest.at, "it never arrived")
		return
	}
	last := es[len(es)-1]
	switch {
	case last.version == newest.version:
	case slices.ContainsFunc(es, func(e effect) bool { return e.version == newest.version }):
		add(stale, key, last.at, "version %d stands where %d stood", last.version, newest.version)
	default:
		add(lost, key, newest.at, "version %d never arrived; %d stands", newest.version, last.version)
	}
}
