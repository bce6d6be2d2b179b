package faketarget

import (
	"encoding/json"
	"time"

	"syncd/connectors"
)

// Keys says what a target does with the idempotency keys of creates.
type Keys struct {
	connectors.Idempotency
	// Forgets is how long a key is really remembered; 0 for ever.
	Forgets time.Duration
	// KeepsRefusals says that a refusal of the record is remembered and answered
	// again, as a success is.
	KeepsRefusals bool
	// Busy refuses a key with 409 while its first request is still at work. Without
	// it the request that comes to its end first is the one that is kept.
	Busy bool
}

// Zoo is what vendors do, each differently, by a name for each.
func Zoo() map[string]Keys {
	uuid := func(r time.Duration, m connectors.Mismatch, keepsErrors bool) connectors.Idempotency {
		return connectors.Idempotency{Retention: r, Mismatch: m, KeepsErrors: keepsErrors, Form: connectors.KeyUUID}
	}
	return map[string]Keys{
		// The first answer is kept, server errors too; another body is an error;
		// pruned after a day (Stripe v1).
		"keeps all": {Idempotency: uuid(24*time.Hour, connectors.MismatchRefused, true), Forgets: 24 * time.Hour, KeepsRefusals: true, Busy: true},
		// The kept answer is given although the body is another one, for half an hour (Qonto).
		"ignores the body": {Idempotency: uuid(30*time.Minute, connectors.MismatchIgnored, false), Forgets: 30 * time.Minute},
		// Another body makes the key count for nothing (Checkbook).
		"heeds the body": {Idempotency: uuid(24*time.Hour, connectors.MismatchCreates, false), Forgets: 24 * time.Hour},
		// Nothing but success is kept (Checkout.com, Telnyx).
		"keeps success": {Idempotency: uuid(24*time.Hour, connectors.MismatchRefused, false), Forgets: 24 * time.Hour, Busy: true},
		// Nobody says how long a key is kept, and it is not for long (Square, Xero).
		"says nothing": {Idempotency: connectors.Idempotency{Mismatch: connectors.MismatchRefused, Form: connectors.KeyHex, MaxLength: 40}, Forgets: 3 * time.Minute},
	}
}

// kept is what a target remembers of a key.
type kept struct {
	at    time.Time
	sent  string
	busy  bool // its request is still at work
	reply connectors.Outcome
}

// parcel is what a create under a key sends.
type parcel struct {
	Key   string           `json:"key"`
	Stamp connectors.Stamp `json:"stamp"`
	Body  string           `json:"body"`
}

// Compose says what Create sends.
func (e *Entity) Compose(w connectors.Write) ([]byte, error) {
	return json.Marshal(parcel{w.Key, w.Stamp, string(w.Body)})
}

// unpack is a create as it was sent.
func unpack(w connectors.Write) connectors.Write {
	var p parcel
	if json.Unmarshal(w.Sent, &p) != nil || len(w.Body) > 0 {
		panic("faketarget: a create under a key without what was composed")
	}
	w.Key, w.Stamp, w.Body = p.Key, p.Stamp, json.RawMessage(p.Body)
	return w
}

// known looks a key up; ok is false when the create is to be done.
func (e *Entity) known(w connectors.Write, at time.Time) (o connectors.Outcome, ok bool) {
	k := e.kept[w.IdempotencyKey]
	if e.o.Keys == nil || k == nil {
		return o, false
	}
	same := k.sent == string(w.Sent)
	switch forgets := e.o.Keys.Forgets; {
	case !k.busy && forgets > 0 && !at.Before(k.at.Add(forgets)):
		delete(e.kept, w.IdempotencyKey)
		return o, false
	case k.busy && e.o.Keys.Busy:
		return connectors.Fail(connectors.Conflict, "http_409", "a request under this key is in progress"), true
	case k.busy:
		return o, false
	case same, e.o.Keys.Mismatch == connectors.MismatchIgnored:
		return k.reply, true
	case e.o.Keys.Mismatch == connectors.MismatchRefused:
		e.mismatches++
		return connectors.Fail(connectors.Invalid, "http_422", "this key was used with another body"), true
	}
	e.mismatches++
	return o, false
}

// keep remembers what a key was answered.
func (e *Entity) keep(w connectors.Write, at time.Time, o connectors.Outcome) {
	if e.o.Keys != nil && w.IdempotencyKey != "" {
		e.kept[w.IdempotencyKey] = &kept{at: at, sent: string(w.Sent), reply: o}
	}
}

// createKeyed carries out a create under a key, unless the key is known.
func (e *Entity) createKeyed(w connectors.Write, at time.Time, late bool) connectors.Outcome {
	if k := e.kept[w.IdempotencyKey]; late && k != nil && k.busy && k.sent == string(w.Sent) {
		delete(e.kept, w.IdempotencyKey) // it is this one that was at work
	}
	if o, ok := e.known(w, at); ok {
		return o
	}
	plain := unpack(w)
	plain.IdempotencyKey = ""
	o := e.do(Create, plain, at, late)
	e.keep(w, at, o)
	return o
}

// Mismatches is how often a known key came with another body.
func (e *Entity) Mismatches() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mismatches
}

// spoilKeyed carries out a create under a key where its fault is one that is
// remembered, or in whose way a key stands; ok is false for all others.
func (e *Entity) spoilKeyed(c Call, w connectors.Write) (o connectors.Outcome, ok bool) {
	if w.IdempotencyKey == "" {
		return o, false
	}
	_, known := e.known(w, c.At)
	switch c.Fault.Kind {
	case Late:
		if !known && e.o.Keys != nil {
			e.kept[w.IdempotencyKey] = &kept{at: c.At, sent: string(w.Sent), busy: true}
		}
		return o, false
	case Refuse:
		o = connectors.Fail(connectors.Invalid, "http_422", "refused")
		if !known && e.o.Keys != nil && e.o.Keys.KeepsRefusals {
			e.keep(w, c.At, o)
		}
		return o, true
	case FailUndone, FailDone:
		o = connectors.Fail(connectors.Unknown, c.Fault.code(), "%s %s", c.Op, c.Fault.Kind)
		o.Answered = true
		if known {
			return o, true
		}
		if c.Fault.Kind == FailDone {
			plain := unpack(w)
			plain.IdempotencyKey = ""
			e.do(Create, plain, c.At, false)
		}
		if e.o.Keys != nil && e.o.Keys.KeepsErrors {
			e.keep(w, c.At, o)
		}
		return o, true
	}
	return o, false
}
