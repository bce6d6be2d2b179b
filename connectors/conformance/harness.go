package conformance

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

// Open connects a fresh instance to the model, as a daemon does at its start.
// The suite lends env: its gate, its clock, its timeout. The model's settings
// are the connector's own business.
type Open func(env connectors.Env) (connectors.Instance, error)

// Record is one record that the suite puts into a source.
type Record struct {
	ID string
	// ChangedAt is the record's stamp, in whole seconds; zero for a record that
	// bears none.
	ChangedAt time.Time
	// Value is a short text by which the suite recognises the state.
	Value string
	// NoID asks for a record that lacks its id; ID then only tells records apart
	// in the model.
	NoID bool
}

// SourceModel is a platform under the suite's control, with one stream.
type SourceModel struct {
	// Stream is the name of the stream under test.
	Stream string
	Open   Open
	// Put stores a record in place of the one with the same ID. It becomes visible
	// at once, whatever its stamp.
	Put func(r Record)
	// Value finds Record.Value in the body of an event.
	Value func(body json.RawMessage) string

	// Delete removes a record, at a time by the platform's clock. Tombstones says
	// that this shows as an event; else the record is simply no longer there.
	Delete     func(id string, at time.Time)
	Tombstones bool
	// SetTime sets the platform's clock, where the connector can see one.
	SetTime func(now time.Time)
	// Repeat makes the platform answer every request for a page with the first
	// page from now on, records and pointers to the next page alike.
	Repeat func()
	// Late is how much later than its stamp a record may become visible without
	// being missed; 0 where that cannot happen.
	Late time.Duration
	// NoID and NoTime say that the platform can give records without an id, or
	// without a stamp.
	NoID, NoTime bool
	// CanFetch says that the stream gives one record by its id.
	CanFetch bool
	// NoStart says that the stream tells no times, so that it cannot be read from
	// a date on.
	NoStart bool
	// Hostile is the server in front of an HTTP model.
	Hostile *hostile.Server
	// IsRead tells requests for records from others, such as a login; nil for all.
	// Faults are played at these.
	IsRead func(r *http.Request) bool
	// Refreshes says that the connector gets new credentials after a 401.
	Refreshes bool
}

// SourceHarness starts an empty model; what it starts ends with the test.
type SourceHarness func(t testing.TB) SourceModel

// Held is one record that a target holds.
type Held struct {
	// Link is its id as a JSON scalar, as the connector gives it.
	Link string
	// Value is what Body was given when it was written.
	Value    string
	Archived bool
}

// TargetModel is a platform under the suite's control, with one entity.
type TargetModel struct {
	// Entity is the name of the entity under test.
	Entity string
	Open   Open
	// Key makes the n-th key, n > 0; nil for K-1, K-2 and so on.
	Key func(n int) string
	// Body makes a desired record that holds value, without its key.
	Body func(value string) json.RawMessage
	// Held tells which records the target holds under a key.
	Held func(key string) []Held
	// Put stores a record by somebody else's hand and returns its link.
	Put func(key, value string) (link string)
	// Erase removes the record behind a link by somebody else's hand.
	Erase func(link string)

	// Refused makes a record that the target refuses for its content.
	Refused func() json.RawMessage
	// SecretlyTwice stores a second record under a key; nil where the target keeps
	// keys unique.
	SecretlyTwice func(key, value string) (link string)
	// Other tells the value of a field that Body does not set, of the one record
	// under key, and SetOther sets it: an update must leave it alone.
	Other    func(key string) string
	SetOther func(key, value string)
	// Hostile is the server in front of an HTTP model.
	Hostile *hostile.Server
	// IsWrite tells requests that change something from others; nil for all but
	// GET and HEAD.
	IsWrite func(r *http.Request) bool
	// Refreshes says that the connector gets new credentials after a 401.
	Refreshes bool
}

// TargetHarness starts an empty model; what it starts ends with the test.
type TargetHarness func(t testing.TB) TargetModel

func (m *SourceModel) isRead(r *http.Request) bool { return m.IsRead == nil || m.IsRead(r) }

func (m *TargetModel) key(n int) string {
	if m.Key != nil {
		return m.Key(n)
	}
	return "K-" + strconv.Itoa(n)
}

func (m *TargetModel) isWrite(r *http.Request) bool {
	if m.IsWrite != nil {
		return m.IsWrite(r)
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
