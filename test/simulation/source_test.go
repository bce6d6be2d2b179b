package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"syncd/jobs"
)

// source has the states of some records, and all that came before them.
type source struct {
	st  *stage
	ids int
	// logged says that it tells each state, else only the newest.
	logged bool
	// lasting says that no record is ever gone.
	lasting bool
	// global says that versions are counted over all records, else for each.
	global bool
	// keys are how many keys its records share in a flow whose keys change hands.
	keys   int
	log    []*state
	newest map[string]*state
	// past are the states that were ever told, those of before the source was put back
	// to a backup too.
	past []*state
	// epoch counts those.
	epoch int64
	// down says that it answers nobody.
	down bool
}

// state is a record as it was at one time.
type state struct {
	id    string
	epoch int64
	// born is the epoch in which it came about.
	born    int64
	version int64
	seq     int
	gone    bool
	n       int
	// key is the record's in a flow whose keys change hands.
	key string
	at  time.Time
}

// change changes a record at the source.
func (s *source) change() { s.changeOne(strconv.Itoa(s.st.r.IntN(s.ids))) }

func (s *source) changeOne(id string) {
	x := &state{id: id, version: 1, n: s.st.r.IntN(4), at: time.Now().UTC()} // a record may become again what it was
	old := s.newest[id]
	switch {
	case s.keys > 0 && (old == nil || s.st.r.IntN(3) == 0):
		x.key = string(rune('A' + s.st.r.IntN(s.keys)))
	case s.keys > 0:
		x.key = old.key
	}
	x.gone = old != nil && !old.gone && !s.lasting && s.st.r.IntN(6) == 0
	s.add(x)
}

// add makes x the newest state of its record.
func (s *source) add(x *state) {
	x.seq, x.epoch, x.born = len(s.log)+1, s.epoch, s.epoch
	if old := s.newest[x.id]; old != nil {
		x.version = old.version + 1
	}
	if s.global {
		x.version = int64(x.seq)
	}
	s.newest[x.id] = x
	s.log = append(s.log, x)
	s.past = append(s.past, x)
}

// swap gives two records each other's key.
func (s *source) swap() {
	a, b := s.newest[strconv.Itoa(s.st.r.IntN(s.ids))], s.newest[strconv.Itoa(s.st.r.IntN(s.ids))]
	if a == nil || b == nil || a.id == b.id || a.gone || b.gone || a.key == b.key {
		return
	}
	s.st.seen("two records swap keys")
	x, y := *a, *b
	x.key, y.key, x.at, y.at = b.key, a.key, time.Now().UTC(), time.Now().UTC()
	s.add(&x)
	s.add(&y)
}

// part ends that two records have one key, as a person at the source would.
func (s *source) part() {
	has := map[string]bool{}
	for n := range s.ids {
		x := s.newest[strconv.Itoa(n)]
		if x == nil || x.gone {
			continue
		}
		if has[x.key] {
			y := *x
			y.gone, y.at = true, time.Now().UTC()
			s.add(&y)
		}
		has[x.key] = true
	}
}

// backup is what the source was.
func (s *source) backup() int { return len(s.log) }

// restore puts the source back to a backup: what came later was never there, and what
// comes next has the versions of that.
func (s *source) restore(n int) {
	s.epoch++
	s.log, s.newest = slices.Clone(s.log[:n]), map[string]*state{}
	for i, x := range s.log {
		y := *x
		y.epoch = s.epoch
		s.log[i], s.newest[y.id] = &y, &y
		s.past = append(s.past, &y)
	}
	if s.st.calm && s.keys > 0 {
		s.part()
	}
}

// pull returns what comes after a cursor; sometimes it begins with old events again,
// or ends with one that comes late.
func (s *source) pull(cursor json.RawMessage, logged bool) (out []*state, next json.RawMessage) {
	at, _ := strconv.Atoi(string(cursor))
	at = min(at, len(s.log))
	from := at
	if s.st.chance(8) {
		from = max(0, at-s.st.r.IntN(6))
		s.st.seen("events come again")
	}
	end := at
	for _, x := range s.log[from:] {
		if x.seq > at+3 {
			break
		}
		if end = max(end, x.seq); logged || s.newest[x.id] == x {
			out = append(out, x)
		}
	}
	if end > 0 && s.st.chance(8) {
		if x := s.log[s.st.r.IntN(end)]; logged || s.newest[x.id] == x {
			out = append(out, x)
			s.st.seen("an event comes late")
		}
	}
	return out, json.RawMessage(strconv.Itoa(end))
}

// kind is what a flow does with what it reads.
type kind string

const (
	// records writes each record under a key that is its own for ever.
	records kind = "records"
	// renaming writes each under a key that changes, and that others take.
	renaming kind = "renaming"
	// events writes each state once, in the order of its record's.
	events kind = "events"
)

// item is what a flow makes of a state. settings counts the changes of its mapping.
func (f *flow) item(x *state, settings int, observed time.Time) jobs.Item {
	it := jobs.Item{SourceID: x.id, Version: x.version, Versioned: true, Log: f.logged, ChangedAt: x.at, Observed: observed, Gone: x.gone}
	if f.kind == events {
		it.SourceID, it.Gone, it.Log = f.key(x), false, true
	}
	if !it.Gone {
		it.Pairs = []jobs.Pair{{Key: f.key(x), Body: f.body(x, settings)}}
		if f.kind == events {
			it.Pairs[0].Group = x.id
		}
	}
	return it
}

func (f *flow) key(x *state) string {
	switch f.kind {
	case renaming:
		return x.key
	case events:
		return fmt.Sprintf("E%d.%d", x.born, x.seq)
	}
	return "K" + x.id
}

// body is the record of a state, in which other records are named.
func (f *flow) body(x *state, settings int) json.RawMessage {
	b := fmt.Appendf(nil, `{"key":%q,"id":%q,"n":%d`, f.key(x), x.id, x.n)
	if settings > 0 && f.kind != events {
		b = fmt.Appendf(b, `,"settings":%d`, settings)
	}
	if f.refers != "" {
		b = append(b, `,"ref":`...)
		b = append(b, f.reference(x)...)
	}
	return append(b, '}')
}

// referred is the key of the record that a record of the flow names.
func (f *flow) referred(x *state) string {
	n, _ := strconv.Atoi(x.id) // it is of digits
	return fmt.Sprint("K", (n+1)%2)
}

func (f *flow) reference(x *state) string {
	optional := ""
	if f.optional {
		optional = `,"optional":true`
	}
	return fmt.Sprintf(`{"$ref":{"entity":%q,"key":%q%s}}`, f.refers, f.referred(x), optional)
}
