package ratelimit

import (
	"fmt"
	"time"
)

// Quota is one allowance of a client, as an answer tells it. A server may have several at once, for a minute and for a day.
type Quota struct {
	// Scope tells the quotas of a server apart: the name of a policy, "minute", "day"; "" where there is one.
	Scope string
	// Limit is how much may be spent, in calls or in the server's own unit; 0 when it was not told.
	Limit float64
	// Remaining is what was left of it after this call. It counts with Known alone.
	Remaining float64
	Known     bool
	// Reset is how long after the answer's arrival the whole limit is there again; 0 when it was not told. At most ten years.
	Reset time.Duration
	// Window is the time over which Limit may be spent; 0 when it was not told.
	Window time.Duration
	// Restore is how much comes back in each second, for a quota that fills like a bucket; 0 for one that is whole again at its reset.
	Restore float64
	// Cost is what this call took of it; 0 when it was not told, and 1 may be assumed.
	Cost float64
	// Asked is what the server took of it at first, the most that such a call can cost, before it gave back what exceeds Cost; 0 when it takes
	// Cost at once.
	Asked float64
	// Concurrent means that Limit and Remaining count calls at one time, not over time.
	Concurrent bool
}

// String tells a quota in the words of a log line: "7 of 40 left, whole again in 12s".
func (q Quota) String() string {
	s := ""
	if q.Scope != "" {
		s = q.Scope + ": "
	}
	switch {
	case q.Known && q.Limit > 0:
		s += fmt.Sprintf("%g of %g left", q.Remaining, q.Limit)
	case q.Known:
		s += fmt.Sprintf("%g left", q.Remaining)
	default:
		s += fmt.Sprintf("%g allowed", q.Limit)
	}
	if q.Concurrent {
		s += " at once"
	}
	if q.Window > 0 {
		s += " in " + q.Window.String()
	}
	if q.Reset > 0 {
		s += ", whole again in " + q.Reset.Round(time.Millisecond).String()
	}
	if q.Restore > 0 {
		s += fmt.Sprintf(", %g back each second", q.Restore)
	}
	return s
}

// sensible reports whether a quota says anything that can be kept to, after bounding what is out of any range.
func (q *Quota) sensible() bool {
	q.Limit, q.Remaining = bounded(q.Limit), bounded(q.Remaining)
	q.Restore, q.Cost = bounded(q.Restore), bounded(q.Cost)
	q.Asked = bounded(q.Asked)
	q.Reset, q.Window = min(max(q.Reset, 0), maxRetryAfter), min(max(q.Window, 0), maxRetryAfter)
	if q.Limit > 0 {
		q.Remaining = min(q.Remaining, q.Limit)
	}
	return q.Known || q.Limit > 0
}

// mostQuota is more than any server allows, and small enough that every smaller whole number is exact.
const mostQuota = 1e15

func bounded(n float64) float64 { return min(max(n, 0), mostQuota) }
