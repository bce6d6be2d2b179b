package tryton

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"syncd/connectors"
)

// sale is the entity of sales. The record's state is where the document is to
// be brought; its other fields are Tryton's own.
type sale struct {
	entity

	mu sync.Mutex
	// drafts are the sales that were left in draft by a write of ours a moment ago.
	drafts map[int64]time.Time
}

// The states of a sale that a record may ask for.
const (
	draft      = "draft"
	quotation  = "quotation"
	processing = "processing"
	cancelled  = "cancelled"
	// confirmed is one that a server may leave a sale in between two of these: when
	// it ended before processing, or when its configuration puts that off.
	confirmed = "confirmed"
)

// way lists the buttons that lead from one state to another. There is none where
// the document is frozen.
// https://docs.tryton.org/projects/modules-sale/en/6.0/design.html
func way(from, want string) (buttons []string, ok bool) {
	if from == want || from == "done" && want == processing {
		return nil, true
	}
	switch {
	case from == cancelled, from == confirmed && want != processing, from == quotation && want == draft:
		rest, _ := way(draft, want)
		return append([]string{"draft"}, rest...), true
	case from == draft && want == quotation:
		return []string{"quote"}, true
	case from == draft && want == processing:
		return []string{"quote", "confirm"}, true
	case from == quotation && want == processing:
		return []string{"confirm"}, true
	case from == confirmed && want == processing:
		return []string{"process"}, true
	case (from == draft || from == quotation) && want == cancelled:
		return []string{"cancel"}, true
	}
	return nil, false
}

// record encodes a record and splits off the wanted state.
func (s *sale) record(ctx context.Context, w connectors.Write) (rec *record, want string, err error) {
	body, err := decode(w.Body)
	if err != nil {
		return nil, "", err
	}
	if want, err = s.wanted(w, body); err != nil {
		return nil, "", err
	}
	delete(body, "state")
	body[s.keyField] = w.Key
	rec, err = s.rpc.encode(ctx, s.model, body)
	return rec, want, err
}

// wanted is the state that a record asks for.
func (s *sale) wanted(w connectors.Write, body map[string]any) (string, error) {
	v, given := body["state"]
	if !given || v == nil {
		return draft, nil
	}
	if want, _ := v.(string); slices.Contains([]string{draft, quotation, processing, cancelled}, want) {
		return want, nil
	}
	return "", fault(s.op("write", w), connectors.Fail(connectors.Invalid, "state",
		"a sale cannot be brought to the state that the record asks for; the flow's map may give draft, quotation, processing or cancelled"))
}

// Create makes a sale in draft. A cancelled one is created as well: that it was
// there and was cancelled is a fact.
func (s *sale) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, _, err := s.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	if err := s.addresses(ctx, w, rec.vals); err != nil {
		return outcome(err)
	}
	o := s.create(ctx, s.model, w, rec)
	if id, err := linkID(o.Link); err == nil && o.Class == connectors.Applied {
		s.leftInDraft(id)
	}
	return o
}

// addresses fills in the party's first address where the record names none: the
// server does so only for people who type the party in.
func (s *sale) addresses(ctx context.Context, w connectors.Write, vals map[string]any) error {
	_, invoice := vals["invoice_address"]
	_, shipment := vals["shipment_address"]
	if invoice && shipment || vals["party"] == nil {
		return nil
	}
	var ids []int64
	err := s.rpc.read(ctx, s.op("find the address of", w), "model.party.address.search", &ids,
		[]any{[]any{"party", "=", vals["party"]}, []any{"active", "=", true}}, 0, 1, []any{[]any{"id", "ASC"}})
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, n := range []string{"invoice_address", "shipment_address"} {
		if _, given := vals[n]; !given {
			vals[n] = ids[0]
		}
	}
	return nil
}

// Update writes the fields of a sale as far as its state allows. A quotation, or
// a sale confirmed and not yet in processing, is taken back to draft for it;
// Advance brings it forward again.
func (s *sale) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, want, err := s.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	c, missing, err := s.diff(ctx, s.model, byID(id), s.op("read", w), rec, "state")
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return s.gone(id)
	case len(c.vals) == 0:
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	switch state, _ := c.row["state"].(string); {
	case state == draft:
	case state == cancelled && want == cancelled:
		// What is cancelled stays as it was.
		return connectors.Outcome{Class: connectors.Unchanged}
	case state == quotation, state == confirmed, state == cancelled:
		if o := s.press(ctx, w, id, "draft", rec.hide); o.Class != connectors.Applied {
			return o
		}
		if c, missing, err = s.diff(ctx, s.model, byID(id), s.op("read", w), rec, "state"); err != nil {
			return outcome(err)
		}
		if missing {
			return s.gone(id)
		}
		if c.row["state"] != draft {
			return connectors.Fail(connectors.Conflict, "changed", "the sale was changed while it was written")
		}
	default:
		return frozen(id, state, "its fields cannot be changed any more: "+strings.Join(slices.Sorted(maps.Keys(c.vals)), ", "))
	}
	o := s.apply(ctx, s.model, s.op("write", w), c, rec.hide)
	if o.Class == connectors.Applied {
		s.leftInDraft(id)
	}
	return o
}

func frozen(id int64, state, what string) connectors.Outcome {
	return connectors.Fail(connectors.Frozen, "frozen", "sale %d is in state %s; %s", id, state, what)
}

// rounds bounds how often Advance looks where the buttons have led.
const rounds = 3

// Advance presses the buttons that lead from the sale's state to the wanted one.
// Buttons that do not apply change nothing and say nothing, so that a button too
// many does no harm, and the state is read in the end.
func (s *sale) Advance(ctx context.Context, w connectors.Write) connectors.Outcome {
	body, err := decode(w.Body)
	if err != nil {
		return outcome(err)
	}
	want, err := s.wanted(w, body)
	if err != nil {
		return outcome(err)
	}
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	o := connectors.Outcome{Class: connectors.Unchanged}
	state := draft
	if !s.isDraft(id) {
		if state, o = s.state(ctx, w, id); o.Class != connectors.Unchanged {
			return o
		}
	}
	last := ""
	for range rounds {
		buttons, ok := way(state, want)
		switch {
		case !ok:
			return frozen(id, state, "it can no longer become "+want)
		case len(buttons) == 0 && last == "":
			return connectors.Outcome{Class: connectors.Unchanged}
		case len(buttons) == 0:
			return connectors.Outcome{Class: connectors.Applied}
		}
		for _, b := range buttons {
			if o = s.press(ctx, w, id, b, nil); o.Class != connectors.Applied {
				return o
			}
			last = b
		}
		if state, o = s.state(ctx, w, id); o.Class != connectors.Unchanged {
			return o
		}
	}
	return connectors.Fail(connectors.Transient, "step", "button %s left the sale in state %s", last, state)
}

// press presses a button.
func (s *sale) press(ctx context.Context, w connectors.Write, id int64, button string, hide []string) connectors.Outcome {
	err := s.rpc.do(ctx, call{op: s.op(button, w), method: "model.sale.sale." + button, params: []any{[]int64{id}}, write: true, hide: hide})
	if err != nil {
		return s.refused(err)
	}
	return connectors.Outcome{Class: connectors.Applied}
}

// state reads the state of a sale; the outcome is Unchanged when that is known.
func (s *sale) state(ctx context.Context, w connectors.Write, id int64) (string, connectors.Outcome) {
	var rows []struct {
		ID    json.Number `json:"id"`
		State string      `json:"state"`
	}
	err := s.rpc.read(ctx, s.op("read the state of", w), "model.sale.sale.search_read", &rows, []any{byID(id)}, 0, 1, nil, []string{"id", "state"})
	switch {
	case err != nil:
		return "", outcome(err)
	case len(rows) == 0 || rows[0].ID.String() != strconv.FormatInt(id, 10):
		return "", s.gone(id)
	}
	return rows[0].State, connectors.Outcome{Class: connectors.Unchanged}
}

// shortly is how long a sale is taken to be in the state in which we left it.
// Should somebody be quicker, our buttons change nothing and the state is read.
const shortly = 10 * time.Second

func (s *sale) leftInDraft(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.rpc.now()
	maps.DeleteFunc(s.drafts, func(_ int64, at time.Time) bool { return now.Sub(at) > shortly })
	s.drafts[id] = now
}

func (s *sale) isDraft(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.drafts[id]
	delete(s.drafts, id)
	return ok && s.rpc.now().Sub(at) <= shortly
}
