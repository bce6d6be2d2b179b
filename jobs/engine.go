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

// ErrFenced says that a transaction was not made under a lease that is held: another
// daemon runs the lane by now.
var ErrFenced = errors.New("the lane is another daemon's by now")

// ErrBusy says that something is held by another transaction for too long.
var ErrBusy = errors.New("held by another transaction")

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
	// CloseRows ends those rows of a client that fit their closings, as Closing.Close
	// says, and returns their ids. rest are the others that exist, as Rows would return
	// them. All of them are held, in one go. Each closing names another row.
	CloseRows(ctx context.Context, client string, cs []Closing, now time.Time) (closed []RowID, rest []Row, err error)
	// Due returns ready rows of a lane with DueAt <= now, with bodies, ordered
	// by DueAt, at most limit. In an Update they are held as those of Rows are;
	// rows that another transaction holds are left out, not waited for.
	Due(ctx context.Context, lane LaneID, now time.Time, limit int) ([]Row, error)
	// NextDue returns for each of lanes, in their order, the earliest DueAt of its ready
	// rows; zero when none.
	NextDue(ctx context.Context, lanes []LaneID) ([]time.Time, error)
	// Reshard sets the shard of at most limit ready rows of a client that are not of
	// the shard ShardOf(k, shards), and returns how many they were.
	Reshard(ctx context.Context, client string, shards, limit int) (int, error)
	// DropBodies removes the bodies of rows and returns how many had one.
	DropBodies(ctx context.Context, ids []RowID) (int, error)
	// CountReady counts the ready rows of a flow, no further than most.
	CountReady(ctx context.Context, flow string, most int) (int, error)

	// Heads returns, of each of these groups of a flow, the first row in the order of
	// Desired.Compare, then Key, that is ready, dead or held, due or not, without its
	// body. Of a dead one the flow says whether it holds the group back: those in a
	// state of passed are skipped. A row whose Group is "" is in no group.
	Heads(ctx context.Context, flow string, groups []string, passed ...State) ([]Row, error)
	// Groups returns what is remembered of groups of a flow; none for unknown ones.
	Groups(ctx context.Context, flow string, groups []string) ([]Group, error)
	PutGroups(ctx context.Context, gs []Group) error

	// Contenders returns the contenders for keys of a flow, oldest first.
	Contenders(ctx context.Context, flow string, keys []string) ([]Contender, error)
	PutContender(ctx context.Context, c Contender) error
	DeleteContender(ctx context.Context, id RowID, sourceID string) error
	// CountContenders counts those of each flow.
	CountContenders(ctx context.Context) (map[string]int, error)

	// Pins returns what is pinned for rows.
	Pins(ctx context.Context, ids []RowID) ([]Pin, error)
	// PutPins stores pins, of which a row has one per operation: one that is there is
	// replaced whole.
	PutPins(ctx context.Context, ps []Pin) error
	// DeletePins removes all pins of rows.
	DeletePins(ctx context.Context, ids []RowID) error

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
	// PruneAttempts looks at the limit oldest entries of all histories behind one, 0 for
	// none, in the order in which they were added, removes those from before a time, and
	// returns how many. Those of a row of which a write is in doubt, or which has
	// RenamedFrom, stay. last is the newest of that time or before that it has looked at,
	// removed or not; after, for none. It costs no more than what it may remove, however
	// many there are. One with another time among them, as a clock that jumped leaves it,
	// holds up none behind it.
	PruneAttempts(ctx context.Context, after int64, before time.Time, limit int) (n int, last int64, err error)
	// DeleteAttempts removes the histories of rows.
	DeleteAttempts(ctx context.Context, ids []RowID) error

	// Wake makes the ready rows of a client due at now that wait for one of keys,
	// and returns how many.
	Wake(ctx context.Context, client string, keys []EntityKey, now time.Time) (int, error)

	// AddRequests stores requests that are not there yet (by flow, source id, kind and key).
	AddRequests(ctx context.Context, rs []Request) error
	// Requests returns due requests to a source client, oldest first.
	Requests(ctx context.Context, client string, now time.Time, limit int) ([]Request, error)
	// Asked returns those of clients to which a request is due, each once.
	Asked(ctx context.Context, clients []string, now time.Time) ([]string, error)
	// PostponeRequest sets when a request is due next.
	PostponeRequest(ctx context.Context, id int64, due time.Time) error
	DeleteRequests(ctx context.Context, ids []int64) error

	Clients(ctx context.Context) ([]ClientState, error)
	// PutPause stores a client's gate: all that is known of it but ExpiryHeld.
	PutPause(ctx context.Context, c ClientState) error
	// PutExpiryHold stores ExpiryHeld of a client and leaves all else as it is, also
	// where a transaction that is not seen yet has changed it.
	PutExpiryHold(ctx context.Context, client string, s Standing) error

	// Fence makes the transaction one of the holder of a lease: it fails with
	// ErrFenced, at this call, at a later one, or when it is to be committed, unless
	// the lease's token is f's, lapsed or not, and not ""; and from its first write on
	// nobody takes the lease before it has ended. Renewing is not held up.
	Fence(ctx context.Context, f Fence) error
	// Leases returns the leases of all lanes that ever had one. Of one that was given
	// back Owner and Token are "" and the times mean nothing.
	Leases(ctx context.Context) ([]Lease, error)
	// TakeLease gives the lane l.LaneID to l.Owner under l.Token, from now on for d by
	// the engine's own clock, if the lease's token is still was ("" for a lane that
	// nobody has) and, where l.Until is set, if it still lasts until then: it was not
	// renewed since it was seen. It waits for transactions under that lease, if that takes long it
	// fails with an error that wraps ErrBusy.
	TakeLease(ctx context.Context, l Lease, was string, d time.Duration) (bool, error)
	// RenewLeases has leases last for d from now on and returns those tokens among
	// these that no lease has any more, each once; "" is never a lease's.
	RenewLeases(ctx context.Context, tokens []string, d time.Duration) (lost []string, err error)
	// FreeLease gives a lease back if it has this token, else it does nothing.
	FreeLease(ctx context.Context, f Fence) error
	// Daemons returns those that have shown themselves and not said goodbye, lapsed
	// or not.
	Daemons(ctx context.Context) ([]Daemon, error)
	// PutDaemon stores a daemon, which counts as living for d from now on; Until and
	// Lapsed are the engine's to say.
	PutDaemon(ctx context.Context, m Daemon, d time.Duration) error
	DeleteDaemon(ctx context.Context, owner string) error

	// AddRun stores an errand and returns its number, which is higher than that of
	// any before it, removed ones included.
	AddRun(ctx context.Context, r Run) (int64, error)
	// PutRun replaces an errand that is there, by its number; one that is not there
	// stays away.
	PutRun(ctx context.Context, r Run) error
	// Runs returns errands, newest first, at most limit; with open only those that
	// have not ended. In an Update they are held as those of Rows are.
	Runs(ctx context.Context, open bool, limit int) ([]Run, error)
	// RunFlows names the flows for which an errand of a kind goes on, each once. Unlike
	// Runs it holds none of them.
	RunFlows(ctx context.Context, kind string) ([]string, error)
	// DeleteRuns removes errands.
	DeleteRuns(ctx context.Context, ids []int64) error

	// List returns rows that match f, ordered by flow and key, without bodies unless
	// f.Bodies is set.
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

	Lister
}

// Lister goes through what the journal remembers beside its rows, in an order of
// the ids that never changes, at most limit at a time, beginning behind what after
// names, or at the first when after is zero. Of after only the id counts; it need not
// be there.
type Lister interface {
	ListSources(ctx context.Context, flow, after string, limit int) ([]SourceRecord, error)
	// ListContenders goes by Key, then SourceID.
	ListContenders(ctx context.Context, flow string, after Contender, limit int) ([]Contender, error)
	ListLinks(ctx context.Context, client string, after EntityKey, limit int) ([]Link, error)
	ListGroups(ctx context.Context, flow, after string, limit int) ([]Group, error)
	// ListPins goes by RowID, then Operation, through those of all flows.
	ListPins(ctx context.Context, after Pin, limit int) ([]Pin, error)
	// ListAttempts goes by the order in which they were added, from the first on;
	// after is what the last call returned, 0 at first; last is after when there are
	// no more.
	ListAttempts(ctx context.Context, after int64, limit int) (as []Attempt, last int64, err error)
	// ListRequests returns all, due or not, by ID.
	ListRequests(ctx context.Context, after int64, limit int) ([]Request, error)
	// LinkClients names the clients of which there are links, each once.
	LinkClients(ctx context.Context) ([]string, error)
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
	// SourceID, when set, chooses only rows that this source record owns.
	SourceID string
	// Before, when set, chooses only rows whose LastAt is earlier, or zero.
	Before time.Time
	// Since, when set, chooses only rows whose LastAt is not earlier.
	Since time.Time
	// Bodies asks for the rows' bodies too; with it only rows that have one are chosen.
	Bodies bool
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

type urgent struct{}

// Urgent marks a context for transactions that must not wait for connections which
// others use: those over leases, of which too late a one costs the lane.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

// IsUrgent reports whether ctx comes from Urgent.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgent{}) != nil }
