package vendure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"syncd/connectors"
)

// cursor is how far a stream was read. Times are the shop's, in milliseconds,
// the resolution of its API.
type cursor struct {
	// Start is the earliest change wanted, in ms; 0 for everything.
	Start int64 `json:"start"`
	// Pass is which way of reading comes next: an index into times, or len(times) for the sweep.
	Pass int `json:"pass"`
	// Time is, for each of times, the stamp from which a pass begins.
	Time []int64 `json:"time"`
	// At is the stamp from which the present pass goes on; 0 at its beginning.
	At int64 `json:"at,omitempty"`
	// Skip is how many records of the present stamp were read already.
	Skip int `json:"skip,omitempty"`
	// Part counts the parts in which one page of a sweep is given, so that no two
	// pages have the same cursor.
	Part int `json:"part,omitempty"`
	// High is the latest stamp seen in this pass.
	High int64 `json:"high,omitempty"`
	// Sweep is where the present sweep is; Swept when the last one began.
	Sweep int64 `json:"sweep,omitempty"`
	Swept int64 `json:"swept,omitempty"`
}

// seen is what sweeps of a stream have found, in memory only: after a restart
// the first sweep gives everything again, and the journal drops what it knows.
type seen struct {
	// next is the cursor returned last. When another one comes, a page was not
	// stored, and nothing that was found counts.
	next  string
	marks map[string]string
}

// mostMarks bounds the memory of sweeps.
const mostMarks = 200_000

// Pull reads the next page of whichever way of reading comes next.
func (s *source) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	k, ok := kindOf(req.Stream)
	if !ok {
		return connectors.Page{}, failed("read "+req.Stream, connectors.Invalid, "stream", "there is no such stream")
	}
	c, err := s.cursor(k, req)
	if err != nil {
		return connectors.Page{}, err
	}
	mem := s.memory(k, req.Cursor)
	limit := min(max(req.Limit, 1), 100)
	var p connectors.Page
	if c.Pass < len(k.times) {
		p, err = s.changes(ctx, k, c, limit)
	} else {
		p, err = s.sweep(ctx, k, c, mem, limit)
	}
	if err != nil {
		return connectors.Page{}, err
	}
	if p.Next, err = json.Marshal(c); err != nil {
		return connectors.Page{}, err
	}
	s.mu.Lock()
	mem.next = string(p.Next)
	s.mu.Unlock()
	return p, nil
}

func (s *source) cursor(k *kind, req connectors.PullRequest) (*cursor, error) {
	c := &cursor{Time: make([]int64, len(k.times))}
	if req.Cursor == nil {
		if !req.Start.All {
			c.Start = req.Start.From.UnixMilli()
		}
		for i := range c.Time {
			c.Time[i] = c.Start
		}
		return c, nil
	}
	if err := json.Unmarshal(req.Cursor, c); err != nil || len(c.Time) != len(k.times) || c.Pass < 0 || c.Pass > len(k.times) {
		return nil, failed("read "+k.name, connectors.Invalid, "cursor", "the stored cursor is not one of this stream")
	}
	return c, nil
}

// memory is what sweeps know of a stream, or a new memory if the chain of cursors is broken.
func (s *source) memory(k *kind, at json.RawMessage) *seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.seen[k.name]
	if m == nil || m.next != string(at) || len(m.marks) > mostMarks {
		m = &seen{marks: map[string]string{}}
		s.seen[k.name] = m
	}
	return m
}

// changes reads one page along a time field.
//
// The next page is asked for from the last stamp seen, not by an offset: rows
// move to the end of the listing when they are saved while it is read. `after`
// is exclusive, but the API cuts stamps to milliseconds and compares the whole,
// so asking for after a stamp that was just read gives its rows again. An offset
// is needed only where one stamp fills a page.
func (s *source) changes(ctx context.Context, k *kind, c *cursor, limit int) (connectors.Page, error) {
	name, from := k.times[c.Pass], max(c.Time[c.Pass], c.At)
	filter := map[string]any{}
	if from > 0 {
		filter[name] = map[string]any{"after": stampText(from - 1)}
	} else if name != "updatedAt" {
		filter[name] = map[string]any{"isNull": false}
	}
	l, err := s.list(ctx, k, k.full, map[string]any{"take": limit, "skip": c.Skip, "filter": merge(k.where, filter),
		"sort": map[string]any{name: "ASC", "id": "ASC"}})
	if err != nil {
		return connectors.Page{}, err
	}
	p := connectors.Page{ServerTime: l.server}
	last := from
	for _, raw := range l.items {
		ev := event(raw)
		p.Events = append(p.Events, ev)
		if t := timeOf(raw, name); t > last {
			last = t
		}
	}
	c.High = max(c.High, last)
	switch {
	case len(l.items) == 0 || c.Skip+len(l.items) >= l.total:
		// All read. The next cycle goes back by the overlap behind the latest stamp,
		// or behind the shop's own clock where a stamp lies beyond that.
		high := c.High
		if !l.server.IsZero() {
			high = min(high, l.server.UnixMilli())
		}
		c.Time[c.Pass] = max(c.Time[c.Pass], high-s.set.Overlap.Milliseconds())
		c.Pass, c.At, c.Skip, c.High = c.Pass+1, 0, 0, 0
	case last > from:
		c.At, c.Skip = last, 0
	default:
		c.Skip += len(l.items)
	}
	p.More = true
	return p, nil
}

// sweep reads one page of the light query and, in whole, what moved of it.
func (s *source) sweep(ctx context.Context, k *kind, c *cursor, mem *seen, limit int) (connectors.Page, error) {
	every := s.set.SweepEvery
	if k.slow {
		every = s.set.SlowSweepEvery
	}
	now := s.now().UTC()
	if c.Sweep == 0 && now.Sub(time.UnixMilli(c.Swept)) < every && c.Swept <= now.UnixMilli() {
		c.Pass, c.Skip = 0, 0
		return connectors.Page{}, nil
	}
	if c.Sweep == 0 {
		c.Swept, c.Sweep = now.UnixMilli(), 1
		if !k.slow {
			c.Sweep = max(now.Add(-s.set.Window).UnixMilli(), 1)
		}
	}
	const page = 500 // light records
	l, err := s.list(ctx, k, k.light+" createdAt", map[string]any{"take": page, "skip": c.Skip,
		"filter": merge(k.where, map[string]any{k.fixed: map[string]any{"after": stampText(c.Sweep - 1)}}),
		"sort":   map[string]any{k.fixed: "ASC", "id": "ASC"}})
	if err != nil {
		return connectors.Page{}, err
	}
	moved, marks, last, rest := s.moved(k, c, l.items, mem, limit)
	p := connectors.Page{ServerTime: l.server}
	if len(moved) > 0 {
		full, err := s.list(ctx, k, k.full, map[string]any{"take": len(moved), "filter": map[string]any{"id": map[string]any{"in": moved}}})
		if err != nil {
			return connectors.Page{}, err
		}
		for _, raw := range full.items {
			p.Events = append(p.Events, event(raw))
		}
	}
	s.mu.Lock()
	maps.Copy(mem.marks, marks)
	s.mu.Unlock()
	switch {
	case rest: // more of this page moved than fit; it is read again, and shorter by those
		c.Part, p.More = c.Part+1, true
	case len(l.items) == 0 || c.Skip+len(l.items) >= l.total:
		c.Pass, c.Skip, c.Sweep, c.Part = 0, 0, 0, 0
	case last > c.Sweep:
		c.Sweep, c.Skip, c.Part, p.More = last, 0, 0, true
	default:
		c.Skip, c.Part, p.More = c.Skip+len(l.items), 0, true
	}
	return p, nil
}

// moved finds which records of a light page moved since they were last seen,
// at most limit of them; rest says that there are more.
func (s *source) moved(k *kind, c *cursor, items []json.RawMessage, mem *seen, limit int) (ids []string, marks map[string]string, last int64, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks = map[string]string{}
	for _, raw := range items {
		var st stamps
		if json.Unmarshal(raw, &st) != nil || st.id() == "" {
			continue
		}
		last = max(last, st.at(k.fixed).UnixMilli())
		mark := st.mark()
		if mem.marks[st.id()] == mark || c.Start > 0 && st.latest().UnixMilli() < c.Start {
			continue
		}
		if len(ids) == limit {
			return ids, marks, last, true
		}
		ids = append(ids, st.id())
		marks[st.id()] = mark
	}
	return ids, marks, last, false
}

// listing is one answer of a list query.
type listing struct {
	items  []json.RawMessage
	total  int
	server time.Time
}

func (s *source) list(ctx context.Context, k *kind, selection string, options map[string]any) (listing, error) {
	doc := fmt.Sprintf("query($o:%s){list:%s(options:$o){totalItems items{%s}}}", k.options, k.list, selection)
	op := "list " + k.name
	r, err := s.query(ctx, op, doc, map[string]any{"o": options})
	if err != nil {
		return listing{}, err
	}
	var d struct {
		List *struct {
			Total int               `json:"totalItems"`
			Items []json.RawMessage `json:"items"`
		} `json:"list"`
	}
	if err := json.Unmarshal(r.data, &d); err != nil || d.List == nil || d.List.Items == nil {
		return listing{}, failed(op, connectors.Transient, "no_list", "the answer holds no list")
	}
	return listing{d.List.Items, d.List.Total, r.server}, nil
}

// Fetch reads one record.
func (s *source) Fetch(ctx context.Context, stream, id string) (connectors.Event, error) {
	k, ok := kindOf(stream)
	op := "read " + stream + " " + id
	if !ok {
		return connectors.Event{}, failed(op, connectors.Invalid, "stream", "there is no such stream")
	}
	r, err := s.query(ctx, op, fmt.Sprintf("query($id:ID!){one:%s(id:$id){%s}}", k.one, k.full), map[string]any{"id": id})
	if err != nil {
		return connectors.Event{}, err
	}
	var d struct {
		One json.RawMessage `json:"one"`
	}
	if err := json.Unmarshal(r.data, &d); err != nil {
		return connectors.Event{}, failed(op, connectors.Transient, "no_record", "the answer holds no record")
	}
	if len(d.One) == 0 || string(d.One) == "null" {
		return connectors.Event{SourceID: id, Gone: true}, nil
	}
	ev := event(d.One)
	if ev.SourceID != id {
		return connectors.Event{}, failed(op, connectors.Transient, "foreign_record", "the answer holds another record than was asked for")
	}
	return ev, nil
}

func merge(ms ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range ms {
		maps.Copy(out, m)
	}
	return out
}

// timeOf is the value of a record's time field, in ms; 0 without one.
func timeOf(raw json.RawMessage, name string) int64 {
	var s stamps
	if json.Unmarshal(raw, &s) != nil || s.at(name).IsZero() {
		return 0
	}
	return s.at(name).UnixMilli()
}

func stampText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
