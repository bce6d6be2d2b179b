package faketarget

import (
	"slices"

	"syncd/connectors"
)

// Land lets late writes that are due by now take effect.
func (e *Entity) Land() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(e.now())
}

// Records returns the records that carry a key now, archived ones included.
func (e *Entity) Records(key string) []Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(e.now())
	var out []Record
	for _, r := range e.records {
		if !r.deleted && r.Key == key {
			c := *r
			c.history = nil
			out = append(out, c)
		}
	}
	return out
}

// Len is the number of records, archived ones included.
func (e *Entity) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, r := range e.records {
		if !r.deleted {
			n++
		}
	}
	return n
}

// MostAtOnce is the largest number of records that ever carried a key at the same time.
func (e *Entity) MostAtOnce(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most[key]
}

// Calls returns every call so far; with ops given, only those.
func (e *Entity) Calls(ops ...Op) []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Call
	for _, c := range e.calls {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			out = append(out, c)
		}
	}
	return out
}

// Effects returns every change so far.
func (e *Entity) Effects() []Effect {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.effects)
}

// Seed puts a record there as another hand would, and returns its link.
func (e *Entity) Seed(key, body string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &Record{ID: e.nextID, Key: key, Body: body}
	e.nextID++
	e.records = append(e.records, r)
	e.note(r, Effect{At: e.now().Add(-e.o.IndexLag), Op: "seed", Key: key})
	return r.Link()
}

// Drop deletes the records of a key as another hand would.
func (e *Entity) Drop(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.now()
	e.land(at)
	for _, r := range e.records {
		if !r.deleted && r.Key == key {
			r.deleted = true
			r.keepVersion(at)
		}
	}
}

// Edit changes a record as another hand would.
func (e *Entity) Edit(link string, change func(*Record)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.byLink(link); r != nil {
		change(r)
		r.keepVersion(e.now())
	}
}

// Snapshot is a backup of the target.
type Snapshot struct {
	records []Record
	nextID  int
	kept    map[string]kept
}

// Snapshot takes a backup.
func (e *Entity) Snapshot() Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(e.now())
	s := Snapshot{nextID: e.nextID, kept: map[string]kept{}}
	for key, k := range e.kept {
		if !k.busy {
			s.kept[key] = *k
		}
	}
	for _, r := range e.records {
		c := *r
		c.history = slices.Clone(r.history)
		s.records = append(s.records, c)
	}
	return s
}

// Restore puts the backup back: records written and keys used since are gone, ids are
// given out again from where they were, and what was still at work is lost.
func (e *Entity) Restore(s Snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records, e.pending, e.nextID = nil, nil, s.nextID
	e.kept = map[string]*kept{}
	for key, k := range s.kept {
		e.kept[key] = &k
	}
	for _, r := range s.records {
		c := r
		c.history = slices.Clone(r.history)
		e.records = append(e.records, &c)
	}
}

var _ connectors.Entity = (*Entity)(nil)

// Pending returns the keys of writes that are still to take effect.
func (e *Entity) Pending() (keys []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.land(e.now())
	for _, p := range e.pending {
		keys = append(keys, p.w.Key)
	}
	return keys
}
