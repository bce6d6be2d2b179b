package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// Pull reads the page after the cursor.
func (s *source) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	page, err := s.pull(ctx, req)
	if err != nil {
		return connectors.Page{}, withOp(err, "list "+req.Stream)
	}
	return page, nil
}

func (s *source) pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	st, err := s.stream(req.Stream)
	if err != nil {
		return connectors.Page{}, err
	}
	pos, err := st.plan.readPosition(req)
	if err != nil {
		return connectors.Page{}, err
	}
	st.plan.begin(&pos, req.Limit)
	l, err := s.list(ctx, st, &pos)
	if err != nil {
		if tokenRefused(err) && st.plan.anew(&pos) {
			return restarted(pos, err)
		}
		return connectors.Page{}, err
	}
	page := connectors.Page{Observed: l.observed, ServerTime: l.date}
	if st.plan.passedOver(pos.Scan, l) {
		if err := s.provePassing(ctx, st, &pos, l); err != nil {
			return connectors.Page{}, err
		}
	}
	page.More, page.Notes, err = st.plan.step(&pos, l, &st.seen)
	if isStuck(err) {
		return s.stuck(ctx, st, pos, l, err)
	}
	if err != nil {
		return connectors.Page{}, err
	}
	page.Events = st.plan.wanted(pos, l.recs)
	if page.Next, err = pos.encode(); err != nil {
		return connectors.Page{}, err
	}
	return page, nil
}

func (s *source) stream(name string) (*stream, error) {
	st, ok := s.streams[name]
	if !ok {
		return nil, connectors.Errorf(connectors.Invalid, "no_stream", "the client has no stream of that name")
	}
	return st, nil
}

// wanted leaves out what is known to be older than the flow's start.
func (p *plan) wanted(pos position, recs []record) []connectors.Event {
	events := make([]connectors.Event, 0, len(recs))
	for _, r := range recs {
		if pos.From > 0 && r.changed > 0 && r.changed < pos.From {
			continue
		}
		events = append(events, r.event)
	}
	return events
}

// tokenRefused tells whether the server may have refused its own page cursor:
// they expire.
func tokenRefused(err error) bool {
	var e *connectors.Error
	return errors.As(err, &e) && e.Class == connectors.Invalid && strings.HasPrefix(e.Code, "http_4")
}

func restarted(pos position, cause error) (connectors.Page, error) {
	next, err := pos.encode()
	if err != nil {
		return connectors.Page{}, err
	}
	return connectors.Page{Next: next, More: true, Notes: []string{"the server refused its own page cursor, which may have expired; the reading begins again: " + causeCode(cause)}}, nil
}

// causeCode names an error without the server's words, which may repeat what a
// record holds.
func causeCode(err error) string {
	var e *connectors.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return "error"
}

// Fetch reads one record.
func (s *source) Fetch(ctx context.Context, name, id string) (connectors.Event, error) {
	ev, err := s.fetch(ctx, name, id)
	if err != nil {
		return connectors.Event{}, withOp(err, "fetch "+name+" "+cut(id, 64))
	}
	return ev, nil
}

func (s *source) fetch(ctx context.Context, name, id string) (connectors.Event, error) {
	st, err := s.stream(name)
	if err != nil {
		return connectors.Event{}, err
	}
	set := st.set.Fetch
	f := fill{"id": id}
	path, err := f.path(set.Path)
	if err != nil {
		return connectors.Event{}, connectors.Errorf(connectors.Invalid, "request", "%v", err)
	}
	resp, body, err := s.api.read(ctx, &httpx.Request{Path: path, Query: f.query(set.Query), Shape: shape("", set.Path)})
	if err != nil {
		if notThere(err) {
			return connectors.Event{SourceID: id, Gone: true}, nil
		}
		return connectors.Event{}, err
	}
	rec, found, err := set.Record.in(body)
	if err != nil || !found || rec.isNull() {
		return connectors.Event{}, connectors.Errorf(connectors.Transient, "answer_shape", "the answer holds no record at %s", set.Record)
	}
	r := st.record(rec)
	if r.event.Problem == "" && r.id != id {
		return connectors.Event{}, connectors.Errorf(connectors.Transient, "foreign_answer", "the answer is another record")
	}
	r.event.ServerTime = resp.ServerTime
	return r.event, nil
}

// notThere tells whether the API itself says that a record does not exist. A
// page of HTML under a 404 says that the request never reached the API.
func notThere(err error) bool {
	var h *httpx.Error
	if !errors.As(err, &h) || h.Response() == nil {
		return false
	}
	var e *connectors.Error
	if errors.As(err, &e) && e.Class == connectors.Missing {
		return true
	}
	return (h.Status == 404 || h.Status == 410) && apiAnswer(h)
}

// apiAnswer tells whether an error's body is the API's own: JSON or empty.
func apiAnswer(e *httpx.Error) bool {
	resp := e.Response()
	if resp == nil || resp.Truncated {
		return false
	}
	_, err := parse(resp.Body)
	return err == nil || errors.Is(err, errEmptyBody)
}

// withOp says in an error what was attempted.
func withOp(err error, op string) *connectors.Error {
	var e *connectors.Error
	if !errors.As(err, &e) {
		e = &connectors.Error{Outcome: connectors.Fail(connectors.Invalid, "internal", "%v", err), Err: err}
	}
	if e.Op == "" {
		e.Op = op
	} else {
		e.Op = fmt.Sprintf("%s: %s", op, e.Op)
	}
	return e
}
