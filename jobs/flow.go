package jobs

import (
	"time"

	"syncd/connectors"
)

// Flow is what the journal and the lanes need to know of one flow.
type Flow struct {
	Name string
	// SourceClient and Stream are where it reads.
	SourceClient, Stream string
	// SourceIDs and Versions are IDs and Versions of the stream's connectors.StreamInfo.
	SourceIDs, Versions string
	// Client and Entity are where it writes.
	Client, Entity string
	// Shards is into how many lanes Client is split; 0 and 1 mean one.
	Shards   int
	Strategy connectors.Strategy
	// KeyField is where in the target the key stands: StrategyInfo.KeyField.
	KeyField string
	// Key is the expression that gives a record its key, KeyConstants are the flow's
	// constants that it uses.
	Key          string
	KeyConstants map[string]string
	// Mapping stands for how the flow makes records: flows that make the same of an event have the same. It may be "".
	Mapping string
	// Order is "latest" or "every", see Every; "" is "latest".
	Order string
	// Group is the expression that gives an event its group, with Order "every". What
	// constants it uses is among KeyConstants.
	Group string
	// OnDead is "hold" or "skip": what a dead head does to its group. "" is "hold".
	OnDead string
	// AcceptChange is the token of a change that shall pass: Change.Token.
	AcceptChange string
	// SettleTime is how long after its sending a write in doubt may still be at work.
	SettleTime time.Duration
	Retry      Retry
	// MaxAge bounds the age of what is sent; 0 means no bound.
	MaxAge time.Duration
	// FreshWithin bounds how long after it was last read a record is created without
	// another look at its source; 0 means no bound. Only with CanRefresh.
	FreshWithin time.Duration
	// MaxOpen bounds the open jobs beyond which the source is not read; 0 means no bound.
	MaxOpen int
	// CanRename says that the key of a record of the entity can be changed, so that
	// OnRename may be "rename".
	CanRename bool
	// CanRefresh says that the source can be asked for one record.
	CanRefresh bool
	// CanFind says that the target can be asked for a record by its key.
	CanFind bool

	// OnExisting is "adopt" or "refuse".
	OnExisting string
	// OnDelete is "ignore", "archive" or "delete".
	OnDelete string
	// OnVanish is "gone" or "keep".
	OnVanish string
	// OnRename is "rename", "recreate" or "refuse".
	OnRename string
	// OnMissing is "recreate", "leave" or "dead".
	OnMissing string
	// OnFrozen is "dead" or "ignore".
	OnFrozen string
	// OnExpire is "dead" or "drop".
	OnExpire string
	// CreateOnly says that the flow never changes a record that is there.
	CreateOnly bool
}

// Every reports whether each event is a row of its own, written once and in order
// within its group. Otherwise a record is a row, and a newer state of it takes the
// place of one that is not written.
func (f *Flow) Every() bool { return f.Order == "every" }

// Renamings names the settings of on_rename that let a record of the flow change
// its key.
func (f *Flow) Renamings() string {
	if f.CanRename {
		return "rename or recreate"
	}
	return "recreate"
}

// Job is one claimed job: the row as it was when it was claimed.
type Job struct {
	Row
	// ClaimID is the claim that names it.
	ClaimID string
	// Number is this attempt's number.
	Number int64
	// Link is the target's own id, "" when not known.
	Link string
	// Pin is what was sent of the record under an idempotency key, by whichever flow,
	// and is not known to be over; nil for nothing.
	Pin *Pin
	// ClaimedAt is when the claim was made.
	ClaimedAt time.Time
	// Refers says that the record's references were replaced by the target's own ids:
	// what an earlier attempt at the same version has sent may differ.
	Refers bool
	// DoubtSince is set where the write in doubt is one that the journal does not
	// remember, because it was restored from a backup: it was sent no earlier.
	DoubtSince time.Time
}

// Write is the job as the primitives of an entity take it.
func (j *Job) Write(f *Flow) connectors.Write {
	w := connectors.Write{Key: j.Key, Link: j.Link, Body: j.Body, Stamp: j.Desired}
	if j.Gone {
		w.Body = nil
		if f.OnDelete != "ignore" {
			w.Removal = connectors.Removal(f.OnDelete)
		}
	}
	return w
}
