package jobs

import (
	"encoding/json"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/process"
)

// State is where a row stands. "Running" is no stored state: a row is running
// while a claim names it.
type State string

const (
	// Ready means that the row is open: a write is due, now or later.
	Ready State = "ready"
	// Done means that there is nothing to do.
	Done State = "done"
	// Dead means that a person, or a newer version, is needed before it is tried again.
	Dead State = "dead"
	// Held means that a write is in doubt which only a person can resolve. A newer
	// state waits until that is done.
	Held State = "held"
)

// Reason says why a row stands where it stands, beyond its state.
type Reason string

const (
	// ReasonNone is a row that is simply due, or simply done.
	ReasonNone Reason = ""
	// ReasonRetry is a ready row whose last attempt failed.
	ReasonRetry Reason = "retry"
	// ReasonThrottled is a ready row that met a paused client or a refusal for quota.
	ReasonThrottled Reason = "throttled"
	// ReasonAuth is a ready row whose client was refused its credentials.
	ReasonAuth Reason = "auth"
	// ReasonUnresolved is a ready row whose last write is in doubt.
	ReasonUnresolved Reason = "unresolved"
	// ReasonWaiting is a ready row that waits for another record.
	ReasonWaiting Reason = "waiting"
	// ReasonRefresh is a row too old to be sent, whose present state was asked for.
	ReasonRefresh Reason = "refresh"
	// ReasonNoFlow is a ready row that was put off because the daemon that writes to its
	// client did not have its flow.
	ReasonNoFlow Reason = "no_flow"
	// ReasonCollision is a claimant of a key that another source record owns.
	ReasonCollision Reason = "collision"
	// ReasonMapping is a dead row whose event could not be mapped.
	ReasonMapping Reason = "mapping"
	// ReasonRenamed is a row whose source record changed its key.
	ReasonRenamed Reason = "renamed"
	// ReasonSuperseded is a done row whose place another has taken.
	ReasonSuperseded Reason = "superseded"
	// ReasonDiscarded is a done row that a person gave up.
	ReasonDiscarded Reason = "discarded"
	// ReasonIgnored is a done row for which the flow says that nothing is to be done.
	ReasonIgnored Reason = "ignored"
	// ReasonFailed is a dead row whose attempts are used up, or whose record was refused.
	ReasonFailed Reason = "failed"
	// ReasonExpired is a row older than its flow's max_age.
	ReasonExpired Reason = "expired"
	// ReasonBehind is a ready row whose group has one that comes before it.
	ReasonBehind Reason = "behind"
	// ReasonLate is a dead row of a flow with order: every, which came when one that
	// comes after it was being written already.
	ReasonLate Reason = "late"
	// ReasonRefused is a dead row that stands for an event of a flow with order: every
	// that came again with other content.
	ReasonRefused Reason = "refused"
)

// LaneID names one lane: a client, or one shard of it. A client that is not split
// has the one shard 0.
type LaneID struct {
	Client string
	Shard  int
}

func (l LaneID) String() string {
	if l.Shard == 0 {
		return l.Client
	}
	return l.Client + "#" + strconv.Itoa(l.Shard)
}

// RowID names one row of the journal.
type RowID struct{ Flow, Key string }

func (r RowID) String() string { return r.Flow + "/" + r.Key }

// EntityKey names one record of a target, whichever flow writes it.
type EntityKey struct{ Entity, Key string }

// Row is the journal's memory of one destination record. Its zero times mean
// "never". All times are UTC with microseconds.
type Row struct {
	RowID
	Client, Entity string
	// Shard is the shard of Client that writes the row; see ShardOf.
	Shard int
	// SourceID is the source record that owns the key; "" when none does.
	SourceID string
	// Group is what the row is kept in order with, in a flow with order: every; ""
	// in others.
	Group string

	State  State
	Reason Reason

	// Generation grows by one with each new desired state; never reused.
	Generation int64
	// Desired orders the desired state among all states.
	Desired connectors.Stamp
	// ChangedAt is when the change happened at the source; zero when unknown.
	ChangedAt time.Time
	// ReadAt is when the desired state was last read as current.
	ReadAt time.Time
	// Hash identifies the desired body.
	Hash []byte
	// Body is the desired record, or the raw event of a row that could not be mapped.
	Body json.RawMessage
	// Gone says that the desired state is: not there.
	Gone bool

	// Attempt is the number of the last attempt; it only grows.
	Attempt int64
	// Tries counts the attempts that this generation has used.
	Tries int
	// Streak counts failures since the last success; the exponent of the backoff.
	Streak int
	// FirstTryAt is when this generation was first tried.
	FirstTryAt time.Time

	// AppliedGeneration is the newest generation that the target confirmed; 0 when none.
	AppliedGeneration int64
	AppliedHash       []byte
	AppliedGone       bool
	AppliedAt         time.Time

	// UnresolvedAt is the last moment at which a write in doubt may have been
	// sent; zero when none is in doubt.
	UnresolvedAt time.Time
	// Misses counts how often a write in doubt proved not to have been applied,
	// with the same MissCode.
	Misses   int
	MissCode string

	// OpenSince is when the oldest unsatisfied change was admitted.
	OpenSince time.Time
	// DueAt is the earliest next attempt of a ready row.
	DueAt time.Time
	// KeyEpoch is part of the idempotency key of the row's writes: it grows when a
	// key must not be used again.
	KeyEpoch int64
	// Solo asks for a claim of its own: the row was lost, or unknown within a batch.
	Solo bool

	LastClass   connectors.Class
	LastCode    string
	LastMessage string
	LastAt      time.Time

	// WaitEntity and WaitKey name the record waited for.
	WaitEntity, WaitKey string
	// RenamedFrom is the key this record had before, while that still matters.
	RenamedFrom string
}

// EntityKey names the row's record in its target.
func (r *Row) EntityKey() EntityKey { return EntityKey{r.Entity, r.Key} }

// Unresolved reports whether a write of this record is in doubt.
func (r *Row) Unresolved() bool { return !r.UnresolvedAt.IsZero() }

// Applied reports whether the target ever confirmed this record as present.
func (r *Row) Applied() bool { return r.AppliedGeneration > 0 && !r.AppliedGone }

// Unmapped reports whether the row stands for an event that could not be mapped.
func (r *Row) Unmapped() bool { return len(r.Key) > 0 && r.Key[0] == '@' }

// Age counts from the later of the change at the source and the last reading as current.
func (r *Row) Age(now time.Time) time.Duration {
	at := r.ReadAt
	if r.ChangedAt.After(at) {
		at = r.ChangedAt
	}
	if at.IsZero() {
		return 0
	}
	return now.Sub(at)
}

// SourceRecord is what the journal remembers of one source record of a flow.
type SourceRecord struct {
	ID string
	// Stamp is the newest state seen.
	Stamp connectors.Stamp
	Gone  bool
	// Keys are the keys that its newest state maps to, those it contends for
	// and its unmapped stand-in included.
	Keys []string
}

// Contender is a source record that maps to a key which another one owns.
type Contender struct {
	RowID
	SourceID  string
	Stamp     connectors.Stamp
	ChangedAt time.Time
	Hash      []byte
	Body      json.RawMessage
	Since     time.Time
}

// FlowState is how far a flow has read its stream.
type FlowState struct {
	Flow string
	// Cursor is nil before the first page.
	Cursor json.RawMessage
	// Epoch is the source epoch that new states belong to.
	Epoch int64
	// PageStarts counts how often the mapping of the page after Cursor was begun.
	PageStarts int
	// Suspect is the source id whose mapping was begun alone; "" when none was.
	Suspect string
	// MovedAt is when reading the stream last brought something new or changed.
	MovedAt time.Time
	// ReadAt is when the source was last read well, with or without anything new;
	// while there is nothing new it may lag by ReadingNoted.
	ReadAt time.Time
	// Failing says since when and why reading fails.
	Failing Failing
	// Suspended says since when and why nothing of the flow is written: its target
	// refused one record after the other in the same way.
	Suspended Standing
	// Full says since when and why the flow is not read: its backlog, or the disk.
	Full Standing
	// Restored says when the journal was put back from a backup last; zero for never.
	Restored Restored
}

// Standing is a state of affairs that a person may have to know of; zero for none.
type Standing struct {
	Since time.Time `json:"since"`
	// Code is a short stable name of the cause.
	Code string `json:"code"`
	// Message tells a person; at most 500 bytes.
	Message string `json:"message"`
	// Until is when the next step is due by itself: a probe, or the end; zero for none.
	Until time.Time `json:"until,omitzero"`
	// Tries counts the probes.
	Tries int `json:"tries,omitempty"`
}

// Is reports whether there is one.
func (s Standing) Is() bool { return !s.Since.IsZero() }

// Failing is trouble with reading a stream. It is zero while reading works.
type Failing struct {
	// Since is when the first reading after the last good one failed.
	Since time.Time
	// Class, Code and Message tell the newest failure; Class is "" for one that no
	// source caused.
	Class         connectors.Class
	Code, Message string
}

// Claim is the durable record of intent of one batch: it is written before the
// first byte of any of its jobs is sent.
type Claim struct {
	ID     string
	Client string
	Shard  int
	// Owner is the token of the lease under which the claim was made, or the name of
	// a journal that works without leases.
	Owner string
	At    time.Time
	// Open is the number of jobs not settled yet.
	Open int
	Jobs []ClaimedJob
}

// ClaimedJob names one job of a claim.
type ClaimedJob struct {
	RowID
	Generation int64
	Attempt    int64
	// Hash, Gone: what was to be written.
	Hash []byte
	Gone bool
}

// Attempt is one entry of a row's history.
type Attempt struct {
	RowID
	Number     int64
	Generation int64
	At         time.Time
	Class      connectors.Class
	Code       string
	Message    string
}

// Request is a durable wish that crosses owners: the present state of a source
// record is wanted.
type Request struct {
	ID int64
	// Client is the source client that has to answer.
	Client   string
	Flow     string
	SourceID string
	// Kind is "refresh" or "remap".
	Kind  RequestKind
	Key   string
	DueAt time.Time
	At    time.Time
}

// RequestKind says what is asked for.
type RequestKind string

const (
	// Refresh asks the source for the record's present state.
	Refresh RequestKind = "refresh"
	// Remap asks for a stored event to be mapped again; the source is asked if it can be.
	Remap RequestKind = "remap"
)

// ClientState is what is stored of a client's gate.
type ClientState struct {
	Client string
	// PausedUntil is zero when the client is not paused.
	PausedUntil time.Time
	Reason      string
	Evidence    string
	Since       time.Time
	Strikes     int
	// Owner is the daemon that stored this.
	Owner string
	// SeenAt is when it did.
	SeenAt time.Time
	// ExpiryHeld says since when and why nothing that is written to the client
	// expires: too much did at once.
	ExpiryHeld Standing
}

// Process names the process of a daemon.
type Process = process.ID

// Daemon is one daemon at work on the journal.
type Daemon struct {
	// Owner is its name, random per start.
	Owner string
	// Process tells where it runs, and whether it has ended for certain.
	Process Process
	Since   time.Time
	// Until is when it counts as ended unless it shows itself again.
	Until time.Time
	// Lapsed: that moment has passed by the journal's own clock.
	Lapsed bool
	// Lanes are those that it could run as it is configured.
	Lanes []LaneID
	// Leaving: it is about to end and takes nothing more.
	Leaving bool
}

// Lease says which daemon runs a lane.
type Lease struct {
	LaneID
	// Owner is Daemon.Owner; "" when nobody has the lane.
	Owner string
	// Token is random per taking. It stands in every write that the lane makes.
	Token string
	Since time.Time
	// Until is when it lapses unless it is renewed.
	Until time.Time
	// Lapsed: that moment has passed by the journal's own clock.
	Lapsed bool
}

// Fence names the lease under which a transaction writes.
type Fence struct {
	LaneID
	Token string
}

// Pin keeps what was sent under an idempotency key, for as long as a write under
// it is in doubt: it is sent again in the same bytes or not at all.
type Pin struct {
	RowID
	// Operation is what is done under the key: "create" and the like.
	Operation string
	// Epoch is Row.KeyEpoch as it was.
	Epoch int64
	// Key is the idempotency key.
	Key string
	// Body is what was sent, references already replaced.
	Body json.RawMessage
	// Generation and Hash are those of the row that Body was made of.
	Generation int64
	Hash       []byte
	// FirstSentAt is no later than the first byte that was sent under the key.
	FirstSentAt time.Time
}

// Group is what the journal remembers of one group of a flow with order: every.
type Group struct {
	Flow, Name string
	// Sent is the newest state of which a write was begun, SentKey its row.
	Sent    connectors.Stamp
	SentKey string
}

// Run is one long errand that a person asked for, and how far it has come.
type Run struct {
	ID   int64
	Kind string
	Flow string
	// Client is whose owner has to see to it; "" when no client is called for it.
	Client string
	// Settings are the errand's own.
	Settings json.RawMessage
	// Total is how many rows it is about, Done and Failed how many are behind it.
	Total, Done, Failed int64
	// After is the last row that is behind it.
	After RowID
	At    time.Time
	// EndedAt is zero while it goes on.
	EndedAt time.Time
	// By and Why are who asked for it and for what reason.
	By, Why string
	// Message is how it ended.
	Message string
}

// Link is the target's own id of a record.
type Link struct {
	EntityKey
	// Link is a JSON scalar.
	Link string
	// SeenAt is when the link was first known.
	SeenAt time.Time
}
