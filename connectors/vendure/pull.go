package vendure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"syncd/connectors"
	"syncd/internal/jsonscan"
)

// mostPage is the largest page of whole records.
const mostPage = 100

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
	limit := min(max(req.Limit, 1), mostPage)
	marks := s.memory.take(c.Reader, string(req.Cursor))
	var p connectors.Page
	if c.Pass < len(k.times) {
		p, err = s.changes(ctx, k, c, marks, limit)
	} else {
		p, err = s.sweep(ctx, k, c, marks, limit)
	}
	if err == nil && c.Pass == len(k.times) && !c.Walking && !s.sweepDue(k, c) {
		c.Pass, p.More = 0, false
	}
	if err == nil {
		p.Next, err = json.Marshal(c)
	}
	if err != nil {
		marks.give(string(req.Cursor)) // nothing was marked
		return connectors.Page{}, err
	}
	marks.give(string(p.Next))
	return p, nil
}

// listing is one answer of a list query.
type listing struct {
	items   []json.RawMessage
	total   int
	started time.Time
	server  time.Time
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
			Total int   `json:"totalItems"`
			Items items `json:"items"`
		} `json:"list"`
	}
	if err := json.Unmarshal(r.data, &d); err != nil || d.List == nil || d.List.Items.first == nil {
		return listing{}, failed(op, connectors.Transient, "no_list", "the answer holds no list")
	}
	if take, _ := options["take"].(int); d.List.Items.count > take {
		return listing{}, failed(op, connectors.Invalid, "too_many_records",
			fmt.Sprintf("the answer holds %d records although at most %d were asked for; does something between syncd and the shop, or a plugin of it, answer in its place?", d.List.Items.count, take))
	}
	return listing{d.List.Items.first, d.List.Total, r.started, r.server}, nil
}

// mostItems bounds what is kept of a list, whatever a shop sends: no page that is
// asked for is larger.
const mostItems = max(mostPage, mostLight)

// items are the elements of a list, of which the first are kept and all counted.
type items struct {
	first []json.RawMessage
	count int
}

// UnmarshalJSON reads a list.
func (l *items) UnmarshalJSON(b []byte) error {
	if jsonscan.Kind(b) != '[' {
		return nil // no list
	}
	l.first = []json.RawMessage{}
	return jsonscan.Array(b, func(v []byte) error {
		if l.count++; l.count <= mostItems {
			l.first = append(l.first, bytes.Clone(v))
		}
		return nil
	})
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
	if err := json.Unmarshal(r.data, &d); err != nil || len(d.One) == 0 {
		return connectors.Event{}, failed(op, connectors.Transient, "no_record", "the answer holds no record")
	}
	if string(d.One) == "null" {
		return connectors.Event{SourceID: id, Gone: true}, nil
	}
	ev := event(d.One)
	if ev.SourceID != id {
		return connectors.Event{}, failed(op, connectors.Transient, "foreign_record", "the answer holds another record than was asked for")
	}
	ev.ServerTime = r.server
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
