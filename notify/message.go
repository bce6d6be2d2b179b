package notify

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Happening is something that people may be told of.
type Happening struct {
	Event Event
	// Over: it has ended; for Suspended and Paused.
	Over bool
	// Client and Flow say of what; each may be "".
	Client, Flow string
	// Class is the class of the outcome, Code a short name of the cause.
	Class, Code string
	// Count is how many jobs it concerns; 1 for clients and flows.
	Count int
	// Since and Until are when what is told of began, and is going to end by itself;
	// zero when there is no such time.
	Since, Until time.Time
}

// kind is what happenings are counted by.
type kind struct {
	event        Event
	over         bool
	client, flow string
	class, code  string
}

// Type is the type of every message.
const Type = "syncd.notice"

// Message is what a receiver gets, as JSON.
type Message struct {
	Type string `json:"type"`
	// Timestamp is when the message was made, UTC.
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data sums up what happened.
type Data struct {
	// Daemon is the name of the machine, Version that of syncd.
	Daemon  string `json:"daemon"`
	Version string `json:"version"`
	// Summary tells it in a line, at most 500 bytes.
	Summary string `json:"summary"`
	// Happened has an entry for each kind of thing, at most 100, in the order of its beginning.
	Happened []Entry `json:"happened"`
	// LeftOut counts what has no entry any more, because there were too many kinds.
	LeftOut int `json:"left_out"`
}

// Entry is what happened of one kind.
type Entry struct {
	Event  Event     `json:"event"`
	Over   bool      `json:"over"`
	Client string    `json:"client,omitempty"`
	Flow   string    `json:"flow,omitempty"`
	Class  string    `json:"class,omitempty"`
	Code   string    `json:"code,omitempty"`
	Count  int       `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

const (
	// mostKinds bounds the entries of a message, and so what is kept between two.
	mostKinds = 100
	// mostSummary bounds the line, in bytes.
	mostSummary = 500
)

// gathered is what happened since the last message.
type gathered struct {
	entries []*Entry
	byKind  map[kind]*Entry
	leftOut int
}

// codeShape is what a code looks like. One that looks otherwise may be a server's own
// word, and so hold anything.
var codeShape = regexp.MustCompile(`\A[A-Za-z0-9_.:-]{1,64}\z`)

// add counts a happening in.
func (g *gathered) add(h Happening, now time.Time) {
	if h.Code != "" && !codeShape.MatchString(h.Code) {
		h.Code = "other"
	}
	now = now.UTC().Truncate(time.Millisecond)
	k := kind{h.Event, h.Over, h.Client, h.Flow, h.Class, h.Code}
	e := g.byKind[k]
	if e == nil {
		if len(g.entries) >= mostKinds {
			g.leftOut += max(h.Count, 1)
			return
		}
		e = &Entry{Event: h.Event, Over: h.Over, Client: h.Client, Flow: h.Flow, Class: h.Class, Code: h.Code, First: now}
		if g.byKind == nil {
			g.byKind = map[kind]*Entry{}
		}
		g.byKind[k] = e
		g.entries = append(g.entries, e)
	}
	e.Count += max(h.Count, 1)
	e.Last = now
	if !h.Since.IsZero() {
		e.Since = h.Since.UTC().Truncate(time.Millisecond)
	}
	if !h.Until.IsZero() {
		e.Until = h.Until.UTC().Truncate(time.Millisecond)
	}
}

func (g *gathered) empty() bool { return len(g.entries) == 0 }

// message makes the message that tells of it, with an id of its own.
func (g *gathered) message(daemon, version string, now time.Time) (id string, m Message) {
	m = Message{Type: Type, Timestamp: now.UTC().Truncate(time.Millisecond), Data: Data{Daemon: daemon, Version: version, LeftOut: g.leftOut}}
	for _, e := range g.entries {
		m.Data.Happened = append(m.Data.Happened, *e)
	}
	m.Data.Summary = summary(m.Data)
	return "msg_" + rand.Text(), m
}

// bytes are the message as it is sent.
func (m Message) bytes() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // nothing in it is a value that JSON cannot hold
	}
	return b
}

// summary tells what happened in a line: what needs a person first.
func summary(d Data) string {
	es := slices.Clone(d.Happened)
	slices.SortStableFunc(es, func(a, b Entry) int { return cmp.Compare(urgency(a), urgency(b)) })
	var parts []string
	for _, e := range es {
		parts = append(parts, e.String())
	}
	s := "syncd on " + d.Daemon + ": " + strings.Join(parts, "; ")
	if d.LeftOut > 0 {
		s += fmt.Sprintf("; and %d more", d.LeftOut)
	}
	if len(s) > mostSummary {
		s = strings.ToValidUTF8(s[:mostSummary-len("…")], "") + "…"
	}
	return s
}

func urgency(e Entry) int {
	n := slices.Index(Events(), e.Event)
	if e.Over {
		n += len(Events())
	}
	return n
}

// String tells an entry in words.
func (e Entry) String() string {
	why := ""
	if e.Code != "" {
		why = " (" + e.Code + ")"
	}
	what := "client " + e.Client
	if e.Flow != "" {
		what = "flow " + e.Flow
	}
	jobs := fmt.Sprintf("%d jobs", e.Count)
	if e.Count == 1 {
		jobs = "1 job"
	}
	switch {
	case e.Event == Suspended && e.Over:
		return what + " is no longer suspended"
	case e.Event == Suspended:
		return what + " is suspended" + why
	case e.Event == Paused && e.Over:
		return what + " is called again"
	case e.Event == Paused && !e.Until.IsZero():
		return what + " is paused until " + e.Until.Format(time.RFC3339) + why
	case e.Event == Paused:
		return what + " is paused" + why
	case e.Event == Held:
		return jobs + " of " + what + " held" + why
	default:
		return jobs + " of " + what + " dead" + why
	}
}
