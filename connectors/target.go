package connectors

import (
	"context"
	"encoding/json"
	"time"
)

// Stamp orders the states of one record: by source epoch, then version, then
// the time at which it was read.
type Stamp struct {
	// Epoch grows when a source begins anew (a shop restored from a backup).
	Epoch int64
	// Version is Event.Version.
	Version int64
	// Observed is when the request that read this state started.
	Observed time.Time
}

// Compare returns -1, 0 or +1 as s is older than, equal to or newer than o.
func (s Stamp) Compare(o Stamp) int {
	switch {
	case s.Epoch != o.Epoch:
		return cmp(s.Epoch, o.Epoch)
	case s.Version != o.Version:
		return cmp(s.Version, o.Version)
	default:
		return s.Observed.Compare(o.Observed)
	}
}

func cmp(a, b int64) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// Removal says what a record that is gone at the source becomes in the target.
type Removal string

const (
	// Archive hides the record and keeps it.
	Archive Removal = "archive"
	// Delete removes the record.
	Delete Removal = "delete"
)

// Write is one record on its way into a target.
type Write struct {
	// Key is the record's natural key or external reference in the target.
	Key string
	// Link is the target's own id as a JSON scalar, "" when it is not known.
	Link string
	// Body is the desired record as a JSON object, references already replaced
	// by the target's own ids. nil with Removal.
	Body json.RawMessage
	// Removal, when set, asks for the record to be removed instead.
	Removal Removal
	// Stamp orders this state among the record's states.
	Stamp Stamp
	// IdempotencyKey, when set, is sent with a create as the entity's Idempotency
	// says, and Sent is what Compose made of the record, to be sent byte for byte.
	// Body is nil then.
	IdempotencyKey string
	Sent           []byte
}

// Found is a record that the target holds.
type Found struct {
	// Link is the target's own id as a JSON scalar.
	Link string
	// Version is the version that our earlier write left in the target, where the
	// target has a place for it; 0 when it has none.
	Version int64
	// Same says that the target's record already is as the write asks.
	Same bool
	// Archived says that the record is hidden in the target.
	Archived bool
}

// Target is the writing side of a client.
type Target interface {
	// Entity returns the entity of that name. It fails for a name that is not
	// among the settings' Entities.
	Entity(name string) (Entity, error)
}

// Entity is one kind of record in a target. What it can do beyond naming
// itself it shows by implementing Upserter, Creator, Finder, Updater, Remover,
// Advancer, or says it, as a Configured one: see PrimitivesOf. Every method sends its requests through the client's gate, repeats
// no write by itself and never follows a redirect.
type Entity interface {
	Info() EntityInfo
}

// Upserter creates or updates by key in one step.
type Upserter interface {
	// Upsert writes all of ws and returns one outcome each, in order. The keys in
	// ws are distinct. One refused record does not refuse the others.
	Upsert(ctx context.Context, ws []Write) []Outcome
}

// Creator creates a record that does not exist yet.
type Creator interface {
	// Create writes w.Body as a new record that carries w.Key and returns its
	// link. A refusal that may mean that the key is taken has MaybeDuplicate set.
	Create(ctx context.Context, w Write) Outcome
}

// Composer says beforehand what a create sends, so that it can be kept and sent
// again in the same bytes, also by a later syncd with other settings.
type Composer interface {
	// Compose returns what Create sends of w.Body. It asks nobody and sends nothing.
	Compose(w Write) ([]byte, error)
}

// Finder looks a record up by its key.
type Finder interface {
	// Find returns every record that carries w.Key, archived ones included; none
	// is no error. Its errors are of type *Error. w.Body may be used to tell
	// whether the record already is as desired; it is nil in a plain look-up.
	Find(ctx context.Context, w Write) ([]Found, error)
}

// Updater changes the record behind w.Link.
type Updater interface {
	// Update brings the record's fields to w.Body. Only fields in w.Body are
	// touched. Missing means that the link leads nowhere.
	Update(ctx context.Context, w Write) Outcome
}

// Remover archives or deletes the record behind w.Link, or, where the entity
// works by key alone, the one with w.Key. A record that is not there is Unchanged.
type Remover interface {
	Remove(ctx context.Context, w Write) Outcome
}

// Advancer brings a document to the state that its record asks for (an order
// confirmed, an invoice posted) by steps that can be repeated. It is called
// after the fields are written and the link is committed.
type Advancer interface {
	Advance(ctx context.Context, w Write) Outcome
}

// Strategy names how a write is made safe to repeat.
type Strategy string

const (
	// NaturalKey is one call that creates or updates by key.
	NaturalKey Strategy = "natural_key"
	// ExternalRef is a create under a reference that the target keeps unique.
	ExternalRef Strategy = "external_ref"
	// Lookup is a search followed by a create, where nothing is unique.
	Lookup Strategy = "lookup"
	// IdempotencyKey is a create under a key by which the target recognises that it
	// is sent again.
	IdempotencyKey Strategy = "idempotency_key"
	// AtMostOnce sends once, where nothing makes a repeat harmless. What became of a
	// write whose answer was lost is for a person to find out.
	AtMostOnce Strategy = "at_most_once"
)

// Strategies lists every strategy, the best first.
func Strategies() []Strategy {
	return []Strategy{NaturalKey, ExternalRef, IdempotencyKey, Lookup, AtMostOnce}
}

// ChildMode says what a repeated write does to a collection inside a record.
type ChildMode string

const (
	// Replaces means that the collection is as the last write said.
	Replaces ChildMode = "replaces"
	// Keyed means that each child is matched by a key of its own.
	Keyed ChildMode = "keys"
	// Appends means that each write adds children; only AtMostOnce can carry it.
	Appends ChildMode = "appends"
)

// EntityInfo says what an entity is like and what it can carry.
type EntityInfo struct {
	Name string
	// Doc says in a sentence what the entity is.
	Doc string
	// Strategies it can carry, the best first, and by which field of the target.
	Strategies []StrategyInfo
	// Finds says that its records can be looked up by their key.
	Finds bool
	// Guarded says that the target itself refuses an older stamp than the one it holds.
	Guarded bool
	// MaxBatch is the largest number of records in one Upsert; 0 and 1 mean one at a time.
	MaxBatch int
	// SettleTime is the longest that the server can go on working on a request
	// whose answer we no longer wait for, plus the lag of its index.
	SettleTime time.Duration
	// Removals it can do.
	Removals []Removal
	// Idempotency says what the target does with idempotency keys; nil where it takes none.
	Idempotency *Idempotency
	// Children are the collections inside a record and what a repeated write does to them.
	Children map[string]ChildMode
	// Renames says that Update can change the key itself.
	Renames bool
	// Refs names the entities that a record of this one may point at; documentation only.
	Refs []string
}

// StrategyInfo is one strategy that an entity can carry.
type StrategyInfo struct {
	Strategy Strategy
	// Field is where the key stands in the target, and what makes it unique, in words.
	Field string
	// KeyField is the place alone. It stays the same for ever as long as the key
	// stands there: records written under another one are not found again.
	KeyField string
}

// Carries reports whether the entity can carry s.
func (e EntityInfo) Carries(s Strategy) bool {
	for _, i := range e.Strategies {
		if i.Strategy == s {
			return true
		}
	}
	return false
}
