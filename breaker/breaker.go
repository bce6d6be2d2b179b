package breaker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"syncd/internal/mutant"
)

// State is what a breaker does with calls.
type State int

// States of a breaker.
const (
	// Closed lets calls through.
	Closed State = iota
	// HalfOpen lets one call at a time through.
	HalfOpen
	// Open lets nothing through.
	Open
)

func (s State) String() string {
	switch s {
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	}
	return "closed"
}

// Rule says what made a breaker change.
type Rule string

// Rules by which a breaker changes.
const (
	ByRow    Rule = "failures in a row" // closed to open
	ByRatio  Rule = "share of failures" // closed to open
	ByTime   Rule = "open long enough"  // open to half-open
	ByProbe  Rule = "probe"             // half-open to closed or open
	ByLoss   Rule = "probe without an end"
	ByMemory Rule = "stored state"
)

// Why explains a change.
type Why struct {
	Rule Rule
	// Failures and Calls are those that the rule looked at, Distinct how many of
	// the failures met wholly different records, Readings how many were about no
	// record, such as those of a listing. All are 0 where it looked at none.
	Failures, Calls, Distinct, Readings int
	// Last is the text of the last failure, as the caller gave it.
	Last string
	// Until is when the next probe may go, with an opened breaker.
	Until time.Time
}

func (w Why) String() string {
	s := string(w.Rule)
	if w.Rule == ByProbe {
		s = "the probe succeeded"
		if !w.Until.IsZero() {
			s = "the probe failed"
		}
	}
	if w.Calls > 0 {
		s = fmt.Sprintf("%s: %d of %d calls failed, %s", s, w.Failures, w.Calls, w.at())
	}
	if w.Last != "" {
		s += "; last failure: " + w.Last
	}
	return s
}

// at says what kinds of calls failed.
func (w Why) at() string {
	switch {
	case w.Readings == 0:
		return "for " + count(w.Distinct, "different record")
	case w.Distinct == 0:
		return "all of them readings"
	default:
		return "for " + count(w.Distinct, "different record") + " and at " + count(w.Readings, "reading")
	}
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// OpenError says that a call was not let through. Nothing was tried.
type OpenError struct {
	Client string
	// Since is when the breaker opened first in this outage.
	Since time.Time
	// Until is when the next probe may go; with Probing, when the present one ends
	// at the latest.
	Until time.Time
	// Last is the text of the last failure, as the caller gave it.
	Last string
	// Probing says that a probe is under way.
	Probing bool
}

func (e *OpenError) Error() string {
	s := fmt.Sprintf("client %q: breaker open since %s, next probe at %s", e.Client, stamp(e.Since), stamp(e.Until))
	if e.Probing {
		s = fmt.Sprintf("client %q: breaker open since %s, a probe is under way", e.Client, stamp(e.Since))
	}
	if e.Last != "" {
		s += "; last failure: " + e.Last
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Breaker is the breaker of one client. It is safe for concurrent use.
type Breaker struct {
	client   string
	settings Settings
	onChange func(from, to State, why Why)

	mu sync.Mutex
	// machine is only used with mu held: it calls us back under its own lock, and
	// must not be called from there.
	machine    *gobreaker.TwoStepCircuitBreaker[struct{}]
	state      State
	generation uint64 // counts changes of state; results of an older one are dropped
	evidence   *evidence
	since      time.Time
	until      time.Time // end of Open, or of the probe under way
	probing    bool      // a probe is under way
	last       string
	why        Why  // what the change that is coming will be put down to
	trip       bool // the next failure opens the breaker whatever the rules say

	news       []news // changes not yet told
	delivering bool
}

type news struct {
	from, to State
	why      Why
}

var (
	errFailed  = errors.New("failed")
	errIgnored = errors.New("ignored")
)

// New makes a closed breaker. onChange, which may be nil, is told of each
// change, in order, without any lock held: it may call the breaker.
func New(client string, s Settings, onChange func(from, to State, why Why)) *Breaker {
	b := &Breaker{client: client, settings: s.withDefaults(), onChange: onChange, since: time.Now()}
	b.evidence = newEvidence(b.settings.Window)
	b.machine = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        client,
		MaxRequests: 1,
		// How long it stays open is ours to say, because a stored state has another
		// rest to wait for: until then the machine is not asked. (0 would mean 60 s.)
		Timeout: 1,
		// Its own counts are not used. By Interval they would leave out calls that
		// began more than a window ago, which are the ones that time out.
		ReadyToTrip:   func(gobreaker.Counts) bool { return b.readyToTrip() },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changed(to) },
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return errors.Is(err, errIgnored) },
	})
	return b
}

// readyToTrip looks at the evidence after a failure. It runs inside the
// machine, with mu held.
func (b *Breaker) readyToTrip() bool {
	if b.trip {
		return true
	}
	e, s := b.evidence, b.settings
	if e.row >= s.ConsecutiveFailures {
		if n := e.inRow(); n.all() >= s.MinDistinct || mutant.On("one-record-is-an-outage") {
			b.why = Why{Rule: ByRow, Failures: e.row, Calls: e.row, Distinct: n.records, Readings: n.readings}
			return true
		}
	}
	now := time.Now()
	calls, failed := e.recent(now)
	if calls < s.MinCalls || float64(failed) < s.Ratio*float64(calls) {
		return false
	}
	n := e.inWindow(now)
	b.why = Why{Rule: ByRatio, Failures: failed, Calls: calls, Distinct: n.records, Readings: n.readings}
	return n.all() >= s.MinDistinct
}

// changed follows the machine. It runs inside it, with mu held.
func (b *Breaker) changed(to gobreaker.State) {
	from, now := b.state, time.Now()
	b.generation++
	b.probing = false
	switch to {
	case gobreaker.StateOpen:
		b.state, b.until = Open, now.Add(b.settings.OpenFor)
		if from == Closed {
			b.since = now
		}
	case gobreaker.StateHalfOpen:
		b.state, b.why = HalfOpen, Why{Rule: ByTime}
	case gobreaker.StateClosed:
		b.state, b.since, b.until, b.last = Closed, now, time.Time{}, ""
		b.evidence = newEvidence(b.settings.Window)
	}
	b.why.Last = b.last
	if b.state == Open {
		b.why.Until = b.until
	}
	b.news = append(b.news, news{from, b.state, b.why})
}

// look lets time pass for the machine. The caller holds mu.
func (b *Breaker) look() {
	if b.state == Open && !time.Now().Before(b.until) {
		b.machine.State() // turns half-open
	}
}

// tell delivers the news, without mu held. Only one goroutine does so at a
// time, which keeps them in order.
func (b *Breaker) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.delivering {
		return
	}
	b.delivering = true
	defer func() { b.delivering = false }()
	for len(b.news) > 0 {
		n := b.news[0]
		b.news = b.news[1:]
		if b.onChange == nil {
			continue
		}
		func() {
			b.mu.Unlock()
			defer b.mu.Lock()
			b.onChange(n.from, n.to, n.why)
		}()
	}
}

// Snapshot is a breaker at a moment.
type Snapshot struct {
	State State
	// Since is when the present outage began, or since when there has been none.
	Since time.Time
	// Until is when the next probe may go, while open; with Probing, when the present
	// one ends at the latest.
	Until time.Time
	// Probing says that a probe is under way: nothing else is let through before its end.
	Probing bool
	// LastError is the text of the last failure of the present outage, or of the
	// failures that have not led to one, as the caller gave it.
	LastError string
	// InRow counts the failures since the last success, while closed.
	InRow int
}

// State returns the breaker's state at this moment.
func (b *Breaker) State() Snapshot {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look()
	s := Snapshot{State: b.state, Since: b.since, LastError: b.last, Probing: b.probing}
	switch b.state {
	case Open:
		s.Until = b.until
	case HalfOpen:
		if b.probing {
			s.Until = b.until
		}
	case Closed:
		s.InRow = b.evidence.row
	}
	return s
}

// Restore puts a stored state into force, after a start and before any call:
// open until a time, and then a probe, as if the process had gone on. until is
// at most OpenFor from now. last is the text of the failure that was stored.
// onChange is not told.
func (b *Breaker) Restore(open bool, until time.Time, last string) {
	if !open {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Closed {
		return
	}
	done, err := b.machine.Allow()
	if err != nil { // it is closed, and allows
		return
	}
	b.trip, b.last, b.why = true, last, Why{Rule: ByMemory}
	done(errFailed)
	b.trip, b.news = false, nil
	now := time.Now()
	b.until = now.Add(min(max(until.Sub(now), 0), b.settings.OpenFor))
}

// Probe lets the next call of an open breaker through as a probe, as if its time were
// over. In another state it does nothing.
func (b *Breaker) Probe() {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		b.until = time.Now()
	}
	b.look()
}
