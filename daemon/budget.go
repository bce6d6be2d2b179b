package daemon

import (
	"sync"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
)

// budget bounds how many of a client's writes are retries, so that a target that struggles does not get more of what it
// cannot do: each write that goes well at once pays for a part of one that is tried again. In the long run at most one in
// fourteen is where two in five fail or more; a short trouble is not held up.
type budget struct {
	mu   sync.Mutex
	left int
	full bool      // it has been set
	well int       // writes that went well in a row
	free time.Time // when one last went for which nothing was left
}

const (
	// mostBudget is what there is after a time without failures: for 35 retries.
	mostBudget = 500
	// retryCost is what a retry takes; it is given back when the retry goes well.
	retryCost = 14
	// budgetRest is for how long a job is put off for which nothing is left.
	budgetRest = 15 * time.Second
	// wellAgain is from how many writes in a row on that went well retries pay more than they cost.
	wellAgain = 5
	// freeEvery is how often a retry goes for which nothing is left.
	freeEvery = time.Second
	// codeBudget is a job that was put off so.
	codeBudget = "retry_budget"
)

// retry takes what a retry costs, and reports whether there was enough.
func (b *budget) retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	if b.left >= retryCost {
		b.left -= retryCost
		return true
	}
	// After an outage there may be nothing but retries: one in a while finds out.
	if now := time.Now(); now.Sub(b.free) >= freeEvery {
		b.free = now
		return true
	}
	return false
}

// begin fills the budget of a client that has made no call yet. The caller holds mu.
func (b *budget) begin() {
	if !b.full {
		b.left, b.full = mostBudget, true
	}
}

// came notes what came of a write: one that went well pays, a retry while all goes well for what it cost and half as much again, so that
// after an outage they become more quickly. What was not sent costs nothing.
func (b *budget) came(again bool, o connectors.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	v := verdict(o)
	switch v {
	case breaker.Success:
		b.well++
	case breaker.Failure:
		b.well = 0
	}
	switch {
	case again && v == breaker.Success && b.well >= wellAgain:
		b.left += retryCost * 3 / 2
	case again && v == breaker.Ignore:
		b.left += retryCost
	case v == breaker.Success:
		b.left++
	}
	b.left = min(b.left, mostBudget)
}

// state is what is left, from 0 to 1.
func (b *budget) state() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin()
	return float64(b.left) / mostBudget
}

// retries reports whether a job is tried again after the target, or the way there, failed.
func retries(jb *jobs.Job) bool { return jb.Streak > 0 }
