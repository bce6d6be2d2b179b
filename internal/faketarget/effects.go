package faketarget

import (
	"time"

	"syncd/connectors"
)

// do carries out one write at a time.
func (e *Entity) do(op Op, w connectors.Write, at time.Time, late bool) connectors.Outcome {
	eff := Effect{At: at, Op: op, Key: w.Key, Body: string(w.Body), Stamp: w.Stamp, Late: late}
	switch op {
	case Upsert:
		if r := e.byKey(w.Key); r != nil {
			return e.change(r, w, eff)
		}
		return e.insert(w, eff)
	case Create:
		if w.IdempotencyKey != "" {
			return e.createKeyed(w, at, late)
		}
		if e.o.Unique && e.byKey(w.Key) != nil {
			o := connectors.Fail(connectors.Invalid, "duplicate", "the key %s is taken", w.Key)
			o.MaybeDuplicate = true
			return o
		}
		return e.insert(w, eff)
	case Update:
		r := e.byLink(w.Link)
		if r == nil {
			return connectors.Fail(connectors.Missing, "http_404", "there is no record %s", w.Link)
		}
		if other := e.byKey(w.Key); e.o.Unique && other != nil && other != r {
			return connectors.Fail(connectors.Invalid, "duplicate", "the key %s is taken", w.Key)
		}
		return e.change(r, w, eff)
	case Remove:
		return e.remove(w, eff)
	default:
		return e.advance(w, eff)
	}
}

func (e *Entity) byKey(key string) *Record {
	for _, r := range e.records {
		if !r.deleted && r.Key == key {
			return r
		}
	}
	return nil
}

func (e *Entity) byLink(link string) *Record {
	for _, r := range e.records {
		if !r.deleted && r.Link() == link {
			return r
		}
	}
	return nil
}

// young reports whether a replica may not have heard of a record yet.
func (e *Entity) young(link string, at time.Time) bool {
	r := e.byLink(link)
	return r != nil && at.Sub(r.history[0].at) < e.o.IndexLag
}

func (e *Entity) insert(w connectors.Write, eff Effect) connectors.Outcome {
	r := &Record{ID: e.nextID, Key: w.Key, Body: string(w.Body), Stamp: w.Stamp}
	e.nextID++
	e.records = append(e.records, r)
	e.note(r, eff)
	return connectors.Outcome{Class: connectors.Applied, Link: r.Link()}
}

func (e *Entity) change(r *Record, w connectors.Write, eff Effect) connectors.Outcome {
	older := w.Stamp.Compare(r.Stamp) < 0
	switch {
	case e.o.Guarded && older:
		return connectors.Outcome{Class: connectors.Stale, Link: r.Link()}
	case e.o.Freezes && r.State == "posted" && r.Body != string(w.Body):
		return connectors.Fail(connectors.Frozen, "posted", "record %s is posted", r.Link())
	case r.Body == string(w.Body) && r.Key == w.Key && !r.Archived:
		if !older {
			r.Stamp = w.Stamp
		}
		return connectors.Outcome{Class: connectors.Unchanged, Link: r.Link()}
	}
	eff.Before, eff.Back = r.Stamp, older
	r.Key, r.Body, r.Stamp, r.Archived = w.Key, string(w.Body), w.Stamp, false
	e.note(r, eff)
	return connectors.Outcome{Class: connectors.Applied, Link: r.Link()}
}

func (e *Entity) remove(w connectors.Write, eff Effect) connectors.Outcome {
	r := e.byLink(w.Link)
	if w.Link == "" {
		r = e.byKey(w.Key)
	}
	if r == nil {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	older := w.Stamp.Compare(r.Stamp) < 0
	if e.o.Guarded && older {
		return connectors.Outcome{Class: connectors.Stale, Link: r.Link()}
	}
	eff.Before, eff.Back = r.Stamp, older
	r.Stamp = w.Stamp
	if w.Removal == connectors.Archive {
		r.Archived = true
	} else {
		r.deleted = true
	}
	e.note(r, eff)
	return connectors.Outcome{Class: connectors.Applied, Link: r.Link()}
}

func (e *Entity) advance(w connectors.Write, eff Effect) connectors.Outcome {
	r := e.byLink(w.Link)
	if r == nil {
		return connectors.Fail(connectors.Missing, "http_404", "there is no record %s", w.Link)
	}
	state := stateOf(w.Body)
	if r.State == state {
		r.stateStamp = w.Stamp
		return connectors.Outcome{Class: connectors.Unchanged, Link: r.Link()}
	}
	eff.Before, eff.Back = r.stateStamp, w.Stamp.Compare(r.stateStamp) < 0
	r.State, r.stateStamp = state, w.Stamp
	e.note(r, eff)
	return connectors.Outcome{Class: connectors.Applied, Link: r.Link()}
}

// note keeps what an effect came to.
func (e *Entity) note(r *Record, eff Effect) {
	eff.Link = r.Link()
	e.effects = append(e.effects, eff)
	r.keepVersion(eff.At)
	n := 0
	for _, o := range e.records {
		if !o.deleted && o.Key == r.Key {
			n++
		}
	}
	e.most[r.Key] = max(e.most[r.Key], n)
}
