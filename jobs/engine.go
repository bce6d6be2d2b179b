package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Engine stores the journal's rows. It knows no rule of a job's life.
type Engine interface {
	// Update runs fn in one durable, serialised transaction and commits it. When it
	// returns nil the changes survive a power cut. fn is run again when the engine
	// had to roll back for reasons of its own (a deadlock, a busy file), so it must
	// have no effect outside tx. An error that leaves open whether the commit was
	// done wraps ErrCommitUnknown.
	Update(ctx context.Context, fn func(tx Tx) error) error
	// View runs fn on one consistent state, without waiting for writers.
	View(ctx context.Context, fn func(tx Tx) error) error
	// Now is the engine's own time, UTC, in microseconds.
	Now() time.Time
	// Describe names the engine and its place for people, without credentials.
	Describe() string
	Close() error
}

// ErrCommitUnknown says that a transaction may or may not have been committed.
var ErrCommitUnknown = errors.New("the outcome of the commit is not known")

// ErrNewer says that the journal was written by a newer syncd.
var ErrNewer = errors.New("written by a newer version of syncd")

// ErrOlder says that the journal is of an older version, and that only a daemon
// brings it up to date.
var ErrOlder = errors.New("it is of an older version of syncd")

// ErrAbsent says that there is no journal yet.
var ErrAbsent = errors.New("there is none yet")

// ErrUnsafe says that the journal's durability settings are not safe.
var ErrUnsafe = errors.New("not durable as configured")

// ErrInUse says that another daemon has the journal.
var ErrInUse = errors.New("in use by another daemon")

// ErrLost says that the journal was taken away from under a daemon.
var ErrLost = errors.New("lost the journal")

// ErrDamaged says that what the journal holds can no longer be relied on.
var ErrDamaged = errors.New("the journal is damaged")

// MaxID is how long a key or an id of a source record may be, in bytes, of which
// one that is not UTF-8, NUL or 0x1a counts as three. An engine refuses a longer
// one; it would not fit into PostgreSQL's indexes.
const MaxID = 1000

// Tx is one transaction. Slices may be empty; results come in no promised order
// unless said. Row slices returned are the caller's to change.
type Tx interface {
	// LockFlow returns a flow's state, creating it, and holds it against other
	// admissions of the flow until the transaction ends. In a View it only reads.
	LockFlow(ctx context.Context, flow string) (FlowState, error)
	SaveFlow(ctx context.Context, s FlowState) error
	Flows(ctx context.Context) ([]FlowState, error)

	Sources(ctx context.Context, flow string, ids []string) ([]SourceRecord, error)
	PutSources(ctx context.Context, flow string, rs []SourceRecord) error

	// Rows returns the rows that exist, held against other writers; with their
	// bodies only when asked.
	Rows(ctx context.Context, ids []RowID, bodies bool) ([]Row, error)
	// PutRows inserts rows or replaces them whole.
	PutRows(ctx context.Context, rows []Row) error
	// PatchRows replaces everything but the body of rows that exist.
	PatchRows(ctx context.Context, rows []Row) error
	// Due returns ready rows of a client with DueAt <= now, with bodies, ordered
	// by DueAt, at most limit. In an Update they are held as those of Rows are;
	// rows that another transaction holds are left out, not waited for.
	Due(ctx context.Context, client string, now time.Time, limit int) ([]Row, error)
	// NextDue returns the earliest DueAt of a client's ready rows; zero when none.
	NextDue(ctx context.Context, client string) (time.Time, error)

	// Contenders returns the contenders for keys of a flow, oldest first.
	Contenders(ctx context.Context, flow string, keys []string) ([]Contender, error)
	PutContender(ctx context.Context, c Contender) error
	DeleteContender(ctx context.Context, id RowID, sourceID string) error
	// CountContenders counts those of each flow.
	CountContenders(ctx context.Context) (map[string]int, error)

	AddClaim(ctx context.Context, c Claim) error
	// Claims returns the open claims of a client; of all when client is "".
	Claims(ctx context.Context, client string) ([]Claim, error)
	// ReduceClaim takes n off the open jobs of a claim, removes the claim at 0, and
	// reports false when there is no such claim of that owner.
	ReduceClaim(ctx context.Context, id, owner string, n int) (bool, error)

	Links(ctx context.Context, client string, keys []EntityKey) ([]Link, error)
	// PutLinks stores links; SeenAt of a link that stays the same is kept.
	PutLinks(ctx context.Context, client string, ls []Link) error
	DeleteLinks(ctx context.Context, client string, keys []EntityKey) error

	AddAttempts(ctx context.Context, as []Attempt) error
	// Attempts returns a row's history, newest first, at most limit.
	Attempts(ctx context.Context, id RowID, limit int) ([]Attempt, error)

	// Wake makes the ready rows of a client due at now that wait for one of keys,
	// and returns how many.
	Wake(ctx context.Context, client string, keys []EntityKey, now time.Time) (int, error)

	// AddRequests stores requests that are not there yet (by flow, source id, kind and key).
	AddRequests(ctx context.Context, rs []Request) error
	// Requests returns due requests to a source client, oldest first.
	Requests(ctx context.Context, client string, now time.Time, limit int) ([]Request, error)
	// PostponeRequest sets when a request is due next.
	PostponeRequest(ctx context.Context, id int64, due time.Time) error
	DeleteRequests(ctx context.Context, ids []int64) error

	Clients(ctx context.Context) ([]ClientState, error)
	PutClient(ctx context.Context, c ClientState) error

	// List returns rows that match f, ordered by flow and key, without bodies.
	List(ctx context.Context, f Filter) ([]Row, error)
	// Destinations returns where the rows of a flow are written, each place once.
	Destinations(ctx context.Context, flow string) ([]Destination, error)
	// Counts counts rows by flow, state, reason and class; done rows without a
	// reason, which are most, by flow alone.
	Counts(ctx context.Context, now time.Time) ([]Count, error)
	// Meta returns the journal's own facts: "epoch", "created_at", "schema", and
	// what PutMeta wrote.
	Meta(ctx context.Context) (map[string]string, error)
	// PutMeta writes one of the journal's own facts; name and value are plain words.
	PutMeta(ctx context.Context, name, value string) error
}

// Destination is where a row is written.
type Destination struct{ Client, Entity string }

// Filter chooses rows. Empty fields match everything.
type Filter struct {
	Flow   string
	State  State
	Class  string // LastClass
	Reason Reason
	Keys   []string
	// After continues a listing behind this row.
	After RowID
	// Limit bounds the answer; 0 means 100.
	Limit int
	// Unresolved, when set, chooses only rows with a write in doubt.
	Unresolved bool
	// Contended, when set, chooses only rows whose key other source records claim too.
	Contended bool
}

// Count is how many rows of a flow stand where.
type Count struct {
	Flow   string
	State  State
	Reason Reason
	Class  string
	N      int64
	// OldestOpen is the earliest OpenSince among them; OldestDue the earliest DueAt.
	OldestOpen, OldestDue time.Time
	// Due is how many of them are due now.
	Due int64
	// Unresolved is how many of them have a write in doubt.
	Unresolved int64
}

// cursorsEqual compares two cursors as text; cursors are written by one hand.
func cursorsEqual(a, b json.RawMessage) bool { return string(a) == string(b) }
