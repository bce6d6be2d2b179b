package breaker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"syncd/internal/mutant"
)

// Verdict says what a call tells of the client's health; see the package's doc.
type Verdict int

// Verdicts on a call. None at all counts as Failure.
const (
	Failure Verdict = iota
	Success
	Ignore
)

func (v Verdict) String() string {
	switch v {
	case Success:
		return "success"
	case Ignore:
		return "ignore"
	}
	return "failure"
}

// maxText bounds the text of a failure that is kept, in bytes.
const maxText = 500

// Result is what a call came to.
type Result struct {
	Verdict Verdict
	// Took is how long the slowest of the requests took that the call was made of.
	Took time.Duration
	// Records names the records that the call failed, or was slow, for, in any form that is
	// equal for the same record; only hashes of the first 1,000 are kept. None for a
	// call that is about no record, such as a listing.
	Records []string
	// Err is the failure in words, without credentials and customer data.
	Err string
}

// Call is one call that was let through.
type Call struct {
	b          *Breaker
	done       func(error)
	generation uint64
	probe      *time.Timer // nil but for a probe
	ended      atomic.Bool
}

// Allow asks to make a call. A call that is let through must be ended by Done.
// Else the error is an *OpenError.
func (b *Breaker) Allow() (*Call, error) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look()
	if b.state == Open {
		return nil, b.openError()
	}
	done, err := b.machine.Allow()
	if err != nil {
		return nil, b.openError()
	}
	c := &Call{b: b, done: done, generation: b.generation}
	b.probing = b.state == HalfOpen
	if b.probing && !mutant.On("probe-never-ends") {
		// A probe that is never ended would keep the machine half-open for ever.
		limit := b.settings.ProbeTimeout
		b.until = time.Now().Add(limit)
		c.probe = time.AfterFunc(limit, func() {
			c.end(Result{Err: fmt.Sprintf("the probe had no end within %s", limit)}, ByLoss)
		})
	}
	return c, nil
}

func (b *Breaker) openError() *OpenError {
	return &OpenError{Client: b.client, Since: b.since, Until: b.until, Last: b.last, Probing: b.state == HalfOpen}
}

// Done ends the call. Only the first Done counts, so one may be deferred for
// the case of a panic. A result that comes after the breaker has changed its
// state, or after the time for a probe, is dropped.
func (c *Call) Done(r Result) { c.end(r, ByProbe) }

func (c *Call) end(r Result, by Rule) {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	b := c.b
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.probe != nil {
		c.probe.Stop()
	}
	if c.generation != b.generation {
		return // and not a word to the machine: any call would let time pass for it
	}
	b.why, b.probing = Why{Rule: by}, false
	if slow := b.settings.SlowCall; slow > 0 && r.Took >= slow && r.Verdict == Success {
		r.Verdict, r.Err = Failure, fmt.Sprintf("served, but it took %s (slow_call is %s)", r.Took.Round(10*time.Millisecond), slow)
	}
	switch r.Verdict {
	case Success:
		b.evidence.success(time.Now())
		b.last = ""
		c.done(nil)
	case Ignore:
		c.done(errIgnored)
	default:
		b.evidence.failure(time.Now(), r.Records)
		b.last = short(r.Err)
		c.done(errFailed)
	}
}

func short(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
