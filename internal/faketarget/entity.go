package faketarget

import (
	"context"
	"slices"
	"sync"
	"time"

	"syncd/connectors"
)

// Options say what a target is like.
type Options struct {
	// Name of the entity; "" means "thing".
	Name string
	// Unique refuses a second record of one key.
	Unique bool
	// Guarded refuses a stamp older than the one a record holds.
	Guarded bool
	// Versions tells the version that a record holds when it is found.
	Versions bool
	// Blind never says that a record already is as asked.
	Blind bool
	// Freezes refuses to change a document in state "posted".
	Freezes  bool
	MaxBatch int
	// SettleTime is what the entity declares. IndexLag is how far Find is behind.
	SettleTime, IndexLag time.Duration
	// Keys says that creates take idempotency keys, and what becomes of them.
	Keys *Keys
	// Children are passed on in the entity's description.
	Children map[string]connectors.ChildMode
}

// Entity is the target. It can do everything; a test that wants an entity which
// can do less wraps it in a struct that embeds only some of its interfaces.
type Entity struct {
	mu      sync.Mutex
	o       Options
	now     func() time.Time
	fault   func(Call) Fault
	records []*Record
	pending []pending
	nextID  int
	calls   []Call
	effects []Effect
	most    map[string]int
	kept    map[string]*kept

	mismatches int
}

var (
	_ connectors.Upserter = (*Entity)(nil)
	_ connectors.Creator  = (*Entity)(nil)
	_ connectors.Composer = (*Entity)(nil)
	_ connectors.Finder   = (*Entity)(nil)
	_ connectors.Updater  = (*Entity)(nil)
	_ connectors.Remover  = (*Entity)(nil)
	_ connectors.Advancer = (*Entity)(nil)
)

// New returns an empty target on the clock now.
func New(o Options, now func() time.Time) *Entity {
	if o.Name == "" {
		o.Name = "thing"
	}
	return &Entity{o: o, now: now, nextID: 1, most: map[string]int{}, kept: map[string]*kept{}}
}

// Plan sets what happens to each call from now on; nil means nothing. It is
// called once per call, in order, with the target locked.
func (e *Entity) Plan(f func(Call) Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = f
}

// Script plans the faults of the next calls, in order; the calls after them are let be.
func (e *Entity) Script(fs ...Fault) {
	e.Plan(func(Call) Fault {
		if len(fs) == 0 {
			return Fault{}
		}
		f := fs[0]
		fs = fs[1:]
		return f
	})
}

// Info describes the entity.
func (e *Entity) Info() connectors.EntityInfo {
	i := connectors.EntityInfo{
		Name: e.o.Name, Doc: "a record in memory", Finds: true,
		Guarded: e.o.Guarded, MaxBatch: e.o.MaxBatch, SettleTime: e.o.SettleTime, Renames: true,
		Removals: []connectors.Removal{connectors.Archive, connectors.Delete}, Children: e.o.Children,
		Strategies: []connectors.StrategyInfo{{Strategy: connectors.NaturalKey, Field: "key, its primary key", KeyField: "key"}},
	}
	if e.o.Unique {
		i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: connectors.ExternalRef, Field: "ref, which is unique", KeyField: "ref"})
	}
	if e.o.Keys != nil {
		i.Idempotency = &e.o.Keys.Idempotency
		i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: connectors.IdempotencyKey, Field: "ref", KeyField: "ref"})
	}
	for _, s := range []connectors.Strategy{connectors.Lookup, connectors.AtMostOnce} {
		i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: s, Field: "ref", KeyField: "ref"})
	}
	return i
}

// begin notes a call, lets writes that are due take effect first, and returns
// the call with its fault. The target must be locked.
func (e *Entity) begin(op Op, w connectors.Write) Call {
	at := e.now()
	e.land(at)
	c := Call{Op: op, Key: w.Key, Link: w.Link, Stamp: w.Stamp, At: at, N: len(e.calls) + 1}
	if e.fault != nil {
		c.Fault = e.fault(c)
	}
	e.calls = append(e.calls, c)
	return c
}

// land lets the late writes that are due by now take effect, in order.
func (e *Entity) land(now time.Time) {
	slices.SortStableFunc(e.pending, func(a, b pending) int { return a.at.Compare(b.at) })
	for len(e.pending) > 0 && !e.pending[0].at.After(now) {
		p := e.pending[0]
		e.pending = e.pending[1:]
		e.do(p.op, p.w, p.at, true)
	}
}

// Upsert creates or updates each record by its key.
func (e *Entity) Upsert(_ context.Context, ws []connectors.Write) []connectors.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []connectors.Outcome
	for _, w := range ws {
		c := e.begin(Upsert, w)
		o := e.spoil(c, w)
		if c.Fault.Kind != Short {
			out = append(out, o)
		}
	}
	return out
}

// Create makes a new record.
func (e *Entity) Create(_ context.Context, w connectors.Write) connectors.Outcome {
	return e.one(Create, w)
}

// Update changes the record behind w.Link, its key included.
func (e *Entity) Update(_ context.Context, w connectors.Write) connectors.Outcome {
	return e.one(Update, w)
}

// Remove archives or deletes the record behind w.Link, or the one with w.Key.
func (e *Entity) Remove(_ context.Context, w connectors.Write) connectors.Outcome {
	return e.one(Remove, w)
}

// Advance sets the document's state to its body's field "state".
func (e *Entity) Advance(_ context.Context, w connectors.Write) connectors.Outcome {
	return e.one(Advance, w)
}

func (e *Entity) one(op Op, w connectors.Write) connectors.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spoil(e.begin(op, w), w)
}

// Find returns the records that carry w.Key, as the lagging index shows them.
func (e *Entity) Find(_ context.Context, w connectors.Write) ([]connectors.Found, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.begin(Find, w)
	if err := spoilRead(c); err != nil {
		return nil, err
	}
	var out []connectors.Found
	for _, r := range e.records {
		v, ok := r.asOf(c.At.Add(-e.o.IndexLag))
		if !ok || v.Key != w.Key {
			continue
		}
		f := connectors.Found{Link: v.Link(), Archived: v.Archived, Same: !e.o.Blind && w.Body != nil && v.Body == string(w.Body)}
		if e.o.Versions {
			f.Version = v.Stamp.Version
		}
		out = append(out, f)
	}
	return out, nil
}
