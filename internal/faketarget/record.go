package faketarget

import (
	"encoding/json"
	"strconv"
	"time"

	"syncd/connectors"
)

// Record is one record of the target.
type Record struct {
	ID       int
	Key      string
	Body     string
	Stamp    connectors.Stamp
	Archived bool
	// State is where Advance brought the document: the text of its body's field "state".
	State string

	stateStamp connectors.Stamp
	deleted    bool
	history    []version
}

// version is how a record looked from a moment on, for an index that lags.
type version struct {
	at time.Time
	r  Record
}

// Link is the record's id as a JSON scalar.
func (r *Record) Link() string { return strconv.Itoa(r.ID) }

// keepVersion notes how the record looks now.
func (r *Record) keepVersion(at time.Time) {
	v := *r
	v.history = nil
	r.history = append(r.history, version{at: at, r: v})
}

// asOf returns how the record looked at a time; ok is false before it was there.
func (r *Record) asOf(t time.Time) (v Record, ok bool) {
	for _, h := range r.history {
		if h.at.After(t) {
			break
		}
		v, ok = h.r, true
	}
	return v, ok && !v.deleted
}

// stateOf is the text of a body's field "state".
func stateOf(body []byte) string {
	var b struct {
		State string `json:"state"`
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	return b.State
}

// pending is a write that takes effect later than it was sent.
type pending struct {
	at time.Time
	op Op
	w  connectors.Write
}

// Effect is one change of the target.
type Effect struct {
	At   time.Time
	Op   Op
	Key  string
	Link string
	Body string
	// Stamp is the write's, Before what the record held.
	Stamp, Before connectors.Stamp
	// Late says that the write took effect after its answer was given up.
	Late bool
	// Back says that an older state was written over a newer one.
	Back bool
}
