package jobs

import "syncd/connectors"

// Follow is what an outcome class leads to. The table below is the only place
// that says so: the journal's settlement, the documentation and the tests read it.
type Follow struct {
	// Confirms: the record stands as desired; a write in doubt is resolved.
	Confirms bool
	// Retries: the row stays ready and is tried again.
	Retries bool
	// Counts: the attempt is counted against the flow's max_attempts.
	Counts bool
	// Doubts: a write may have been done; the row is unresolved from now on.
	Doubts bool
	// Kills: the row is dead at once.
	Kills bool
	// Rule names the flow setting that decides, for classes that have one.
	Rule string
	// Reason is what a row that stays ready shows.
	Reason Reason
	// Outage: the failure may be the client's and not the record's, so it is not
	// counted again while the client has served nobody since the last one.
	Outage bool
	// Means says in a sentence what happens.
	Means string
}

// FollowOf returns what class c leads to; an unlisted class is treated as Unknown.
func FollowOf(c connectors.Class) Follow {
	switch c {
	case connectors.Applied:
		return Follow{Confirms: true, Means: "done"}
	case connectors.Unchanged:
		return Follow{Confirms: true, Means: "done; there was nothing to change"}
	case connectors.AlreadyApplied:
		return Follow{Confirms: true, Means: "done; an earlier write of ours had arrived"}
	case connectors.Stale:
		return Follow{Confirms: true, Means: "done; the target holds a newer version"}
	case connectors.Throttled:
		return Follow{Retries: true, Reason: ReasonThrottled, Means: "the client is paused; no attempt is used up"}
	case connectors.Paused:
		return Follow{Retries: true, Reason: ReasonThrottled, Means: "nothing was sent; no attempt is used up"}
	case connectors.Transient:
		return Follow{Retries: true, Counts: true, Outage: true, Reason: ReasonRetry, Means: "tried again with backoff"}
	case connectors.Invalid:
		return Follow{Counts: true, Kills: true, Means: "dead letter at once"}
	case connectors.Auth:
		return Follow{Retries: true, Reason: ReasonAuth, Means: "the client is suspended; no attempt is used up"}
	case connectors.Conflict:
		return Follow{Retries: true, Counts: true, Reason: ReasonRetry, Means: "read again and tried again"}
	case connectors.Missing:
		return Follow{Counts: true, Rule: "on_missing", Means: "as on_missing says: created anew, left, or a dead letter"}
	case connectors.Frozen:
		return Follow{Counts: true, Rule: "on_frozen", Means: "as on_frozen says: a dead letter, or left as it is"}
	case connectors.Waiting:
		return Follow{Retries: true, Reason: ReasonWaiting, Means: "waits for another record; no attempt is used up"}
	case connectors.Lost:
		return Follow{Retries: true, Counts: true, Doubts: true, Reason: ReasonUnresolved, Means: "the daemon ended while the write was under way; found out before anything is sent again"}
	case connectors.Expired:
		return Follow{Rule: "on_expire", Means: "too old to be sent: a dead letter, or dropped"}
	default: // connectors.Unknown
		return Follow{Retries: true, Counts: true, Doubts: true, Outage: true, Reason: ReasonUnresolved, Means: "the write may have been done; found out before anything is sent again"}
	}
}
