package connectors

import (
	"context"
	"encoding/json"
	"time"
)

// Event is one change pulled from a stream.
type Event struct {
	// SourceID is the record's id at the source, an opaque text. An event without
	// one, or with one that cannot be one (IDProblem), is kept as a dead letter; it
	// never stops its page.
	SourceID string
	// Version is the source's non-decreasing order of the record's states:
	// microseconds since 1970 for a timestamp, or a sequence. 0 when the source
	// has none; then the order is that of reading, and a record that never had one
	// counts as one of version 0.
	Version int64
	// Versioned says that a Version of 0 is the source's own, and not one that is
	// missing. Any other Version is the source's own without it.
	Versioned bool
	// ChangedAt is when the change happened at the source; zero when unknown.
	ChangedAt time.Time
	// Gone says that the record no longer exists at the source.
	Gone bool
	// Body is the record as JSON, with its digits as the source wrote them.
	// nil for a record that is gone without a last state.
	Body json.RawMessage
	// Problem, when set, says why this one record could not be read. The event
	// becomes a dead letter with this text.
	Problem string
	// ServerTime is the source's own time of a record that Fetch was asked for; zero
	// when it told none, and for the events of a page, which has one for all.
	ServerTime time.Time
}

// HasVersion reports whether the source gave the event a version.
func (e *Event) HasVersion() bool { return e.Versioned || e.Version != 0 }

// Start says where a flow begins to read a stream for which it has no cursor.
type Start struct {
	// All asks for everything the source has.
	All bool
	// From is the earliest change wanted, when All is false. It is never zero then.
	From time.Time
}

// PullRequest asks for the next page of a stream.
type PullRequest struct {
	Stream string
	// Cursor is what the page before returned as Next; nil at the very start.
	Cursor json.RawMessage
	Start  Start
	// Limit is the number of records wanted in a page; a source may give fewer or,
	// where its platform leaves no choice, more.
	Limit int
}

// Page is one answer of a source.
type Page struct {
	Events []Event
	// Next is where to go on. It is stored in the transaction that admits
	// Events, so it must not lead past any record that Events does not hold.
	// It is a JSON value of at most 64 KiB that only the connector reads.
	Next json.RawMessage
	// More says that the next page is there to be had at once.
	More bool
	// Observed is when the request for this page started, by our clock. The daemon
	// puts the time just before its call in its place.
	Observed time.Time
	// ServerTime is the source's own time (the Date header); zero when it told none.
	ServerTime time.Time
	// Notes are remarks for the log, at most one line each, without payload: a
	// total that does not match, a listing that repeats itself.
	Notes []string
}

// Source is the reading side of a client.
type Source interface {
	// Pull returns the page after req.Cursor. Its errors are of type *Error; after
	// one, the same cursor is asked for again.
	Pull(ctx context.Context, req PullRequest) (Page, error)
	// Fetch returns the present state of one record, with Gone set when the source
	// says that it does not exist. Streams whose StreamInfo.CanFetch is false never
	// see a call. The caller notes the time before it calls, as that of the
	// observation.
	Fetch(ctx context.Context, stream, id string) (Event, error)
}

// StreamInfo says what a stream is like.
type StreamInfo struct {
	Name string
	// Doc says in a sentence what its events are and how it is polled.
	Doc string
	// CanFetch says that one record can be read by its id.
	CanFetch bool
	// VersionIsTime says that versions are microseconds since 1970, so that one
	// beyond the server's own clock can be told for a lie.
	VersionIsTime bool
	// Tombstones says that deletions appear as events.
	Tombstones bool
	// Log says that events are entries of a log (an outbox, a file), not readings
	// of the present: reading one later does not make it newer.
	Log bool
	// IDs and Versions say in a few words what a record's id and its version are made
	// of, as the settings have it: the same words for the same settings, now and
	// later. Records are tied to both for ever: under other ids they are other records,
	// and versions of another making are older or newer for no reason. "" says nothing.
	IDs, Versions string
	// Page is the usual number of records per page; 0 means 200.
	Page int
}
