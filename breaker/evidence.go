package breaker

import (
	"hash/maphash"
	"time"
)

const (
	// maxFailures bounds how many failed calls are remembered with their records,
	// maxRecords how many records of each.
	maxFailures = 32
	maxRecords  = 1000
	// slots is how many parts the window is counted in.
	slots = 10
)

// evidence is what the calls of the closed state came to. It is not safe for
// concurrent use.
type evidence struct {
	window   time.Duration
	seed     maphash.Seed
	counts   [slots]slot
	failures []failure // the newest, oldest first
	row      int       // failures since the last success
}

// slot counts the calls that ended within a part of the window.
type slot struct {
	number         int64 // of the part, since the Unix epoch
	served, failed int
}

type failure struct {
	at      time.Time
	row     int // its place in the row of failures it belongs to, 1 for the first
	records []uint64
}

func newEvidence(window time.Duration) *evidence {
	return &evidence{window: window, seed: maphash.MakeSeed()}
}

func (e *evidence) slot(now time.Time) *slot {
	number := now.UnixNano() / int64(e.window/slots)
	s := &e.counts[number%slots]
	if s.number != number {
		*s = slot{number: number}
	}
	return s
}

func (e *evidence) success(now time.Time) {
	e.slot(now).served++
	e.row = 0
}

func (e *evidence) failure(now time.Time, records []string) {
	e.slot(now).failed++
	e.row++
	f := failure{at: now, row: e.row}
	for _, r := range records[:min(len(records), maxRecords)] {
		f.records = append(f.records, maphash.String(e.seed, r))
	}
	if len(e.failures) == maxFailures {
		e.failures = append(e.failures[:0], e.failures[1:]...)
	}
	e.failures = append(e.failures, f)
}

// recent counts the calls that ended within the window.
func (e *evidence) recent(now time.Time) (calls, failed int) {
	newest := now.UnixNano() / int64(e.window/slots)
	for _, s := range e.counts {
		if s.number > newest-slots && s.number <= newest {
			calls += s.served + s.failed
			failed += s.failed
		}
	}
	return calls, failed
}

// inRow counts, in the present row of failures, those that have no record in common.
func (e *evidence) inRow() causes {
	return distinct(e.failures[len(e.failures)-min(e.row, len(e.failures)):])
}

// inWindow does so among the failures within the window.
func (e *evidence) inWindow(now time.Time) causes {
	for i, f := range e.failures {
		if now.Sub(f.at) < e.window {
			return distinct(e.failures[i:])
		}
	}
	return causes{}
}

// causes counts failures that have nothing in common: writes and look-ups no two
// of which share a record, and readings, which are about no record.
type causes struct{ records, readings int }

func (c causes) all() int { return c.records + c.readings }

// distinct counts failures no two of which share a record: so many causes there
// must be at least, if each were a single bad record.
func distinct(failures []failure) (n causes) {
	seen := map[uint64]bool{}
	for _, f := range failures {
		if met(seen, f.records) {
			continue
		}
		if len(f.records) == 0 {
			n.readings++
			continue
		}
		n.records++
		for _, r := range f.records {
			seen[r] = true
		}
	}
	return n
}

func met(seen map[uint64]bool, records []uint64) bool {
	for _, r := range records {
		if seen[r] {
			return true
		}
	}
	return false
}
