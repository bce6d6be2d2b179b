package tryton

import (
	"context"
	"encoding/json"
	"fmt"

	"syncd/connectors"
)

// sale is the entity of sales. The record's state is where the document is to
// be brought; its other fields are Tryton's own.
type sale struct{ entity }

// states a record may ask for.
var wanted = []string{"draft", "quotation", "processing", "cancelled"}

// step is a button and the state it leads to from another.
type step struct{ button, to string }

// way says, for a state and the one that is wanted, which button comes next.
// Pairs that are not there cannot be reached: the document is frozen.
func way(from, want string) (step, bool) {
	switch {
	case from == "draft" && want == "cancelled":
		return step{"cancel", "cancelled"}, true
	case from == "draft":
		return step{"quote", "quotation"}, true
	case from == "quotation" && want == "draft":
		return step{"draft", "draft"}, true
	case from == "quotation" && want == "processing":
		return step{"confirm", "processing"}, true
	case from == "quotation" && want == "cancelled":
		return step{"cancel", "cancelled"}, true
	// A server that ended between confirming and processing leaves a sale confirmed.
	case from == "confirmed" && want == "processing":
		return step{"process", "processing"}, true
	case from == "confirmed":
		return step{"draft", "draft"}, true
	case from == "cancelled":
		return step{"draft", "draft"}, true
	}
	return step{}, false
}

// there reports whether a state is the one that is wanted, or one beyond it by
// the document's own life.
func there(state, want string) bool {
	return state == want || want == "processing" && state == "done"
}

// record splits a record into the fields to be written and the wanted state.
func (s *sale) record(ctx context.Context, w connectors.Write) (vals map[string]any, lists map[string][]map[string]any, want string, err error) {
	rec, err := decode(w.Body)
	if err != nil {
		return nil, nil, "", err
	}
	want = "draft"
	if v, ok := rec["state"]; ok {
		want, _ = v.(string)
		delete(rec, "state")
	}
	known := false
	for _, x := range wanted {
		known = known || x == want
	}
	if !known {
		return nil, nil, "", fault(s.op("write", w), connectors.Fail(connectors.Invalid, "state", "a sale cannot be brought to state %q; the flow's map may give draft, quotation, processing or cancelled", want))
	}
	rec[s.keyField] = w.Key
	vals, lists, err = s.rpc.encode(ctx, s.model, rec)
	return vals, lists, want, err
}

// Create makes a sale in draft. A cancelled one is created as well: that it was
// there and was cancelled is a fact.
func (s *sale) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	vals, lists, _, err := s.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	if err := s.addresses(ctx, w, vals); err != nil {
		return outcome(err)
	}
	return s.create(ctx, s.model, w, vals, lists)
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
	vals, lists, want, err := s.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	op := s.op("read", w)
	c, missing, err := s.diff(ctx, s.model, id, op, vals, lists, "state")
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return connectors.Fail(connectors.Missing, "missing", "there is no sale with id %d any more", id)
	case len(c.vals) == 0:
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	switch state, _ := c.record["state"].(string); {
	case state == "draft":
	case state == "cancelled" && want == "cancelled":
		// What is cancelled stays as it was.
		return connectors.Outcome{Class: connectors.Unchanged}
	case state == "quotation", state == "confirmed", state == "cancelled":
		if o := s.press(ctx, w, id, "draft"); o.Class != connectors.Applied {
			return o
		}
		if c, missing, err = s.diff(ctx, s.model, id, op, vals, lists, "state"); err != nil || missing {
			return connectors.Fail(connectors.Conflict, "changed", "the sale changed while it was written")
		}
		if c.record["state"] != "draft" {
			return frozen(id, fmt.Sprint(c.record["state"]), "its fields cannot be changed")
		}
	default:
		return frozen(id, state, "its fields cannot be changed: "+names(c.vals))
	}
	return s.apply(ctx, s.model, id, s.op("write", w), c)
}

func names(vals map[string]any) string {
	out := ""
	for n := range vals {
		if out == "" || n < out {
			out = n
		}
	}
	if len(vals) > 1 {
		out += fmt.Sprintf(" and %d more", len(vals)-1)
	}
	return out
}

func frozen(id int64, state, what string) connectors.Outcome {
	return connectors.Fail(connectors.Frozen, "frozen", "sale %d is in state %s; %s", id, state, what)
}

// Advance presses the buttons that lead from the sale's state to the wanted one.
// Buttons that do not apply change nothing and say nothing, so the state is read
// after each.
func (s *sale) Advance(ctx context.Context, w connectors.Write) connectors.Outcome {
	_, _, want, err := s.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	done := connectors.Outcome{Class: connectors.Unchanged}
	for range 6 {
		state, missing, err := s.state(ctx, w, id)
		switch {
		case err != nil:
			return outcome(err)
		case missing:
			return connectors.Fail(connectors.Missing, "missing", "there is no sale with id %d any more", id)
		case there(state, want):
			return done
		}
		next, ok := way(state, want)
		if !ok {
			return frozen(id, state, "it can no longer become "+want)
		}
		if o := s.press(ctx, w, id, next.button); o.Class != connectors.Applied {
			return o
		}
		now, _, err := s.state(ctx, w, id)
		if err != nil {
			return outcome(err)
		}
		if now == state {
			return connectors.Fail(connectors.Transient, "step", "button %s left the sale in state %s", next.button, state)
		}
		done.Class = connectors.Applied
	}
	return connectors.Fail(connectors.Conflict, "step", "the sale did not come to state %s", want)
}

// press presses a button.
func (s *sale) press(ctx context.Context, w connectors.Write, id int64, button string) connectors.Outcome {
	if err := s.rpc.write(ctx, s.op(button, w), "model.sale.sale."+button, nil, nil, []int64{id}); err != nil {
		return outcome(err)
	}
	return connectors.Outcome{Class: connectors.Applied}
}

func (s *sale) state(ctx context.Context, w connectors.Write, id int64) (state string, missing bool, err error) {
	var rows []struct {
		ID    json.Number `json:"id"`
		State string      `json:"state"`
	}
	err = s.rpc.read(ctx, s.op("read the state of", w), "model.sale.sale.search_read", &rows, []any{[]any{"id", "=", id}}, 0, 1, nil, []string{"id", "state"})
	if err != nil || len(rows) == 0 {
		return "", err == nil, err
	}
	return rows[0].State, false, nil
}
