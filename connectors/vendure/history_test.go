package vendure

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
)

// story is a random history of a shop, read by two flows whose pages are not
// always stored.
type story struct {
	*rapid.T
	w       *world
	readers []*flow
	told    []string
	// rnd makes the choices that fall while the shop answers, in a goroutine of its own.
	rnd *rand.Rand
}

func (s *story) pick(rows []row, fit func(row) bool) row {
	var l []row
	for _, r := range rows {
		if fit(r) {
			l = append(l, r)
		}
	}
	if len(l) == 0 {
		return nil
	}
	return l[s.rnd.IntN(len(l))]
}

func state(r row, names ...string) bool {
	st, _ := r["state"].(string)
	return slices.Contains(names, st)
}

// change does one thing in the shop. The caller holds the shop's lock.
func (s *story) change() {
	shop, orders, customers := s.w.shop, s.w.shop.tables["orders"], s.w.shop.tables["customers"]
	s.w.wait(time.Microsecond)
	at := s.w.now
	// A transaction is seen later than its stamp says.
	at = at.Add(-time.Duration(s.rnd.IntN(40_000)) * time.Millisecond)
	stamped := func(r row) time.Time { // rows are locked, so a record's own stamps are in order
		if last, ok := r["lastChange"].(time.Time); ok && !at.After(last) {
			at = last.Add(time.Microsecond)
		}
		r["lastChange"] = at
		delete(r, "idle")
		delete(r, "asBefore")
		return at
	}
	placed := func(r row) bool { return r["orderPlacedAt"] != nil }
	any := func(row) bool { return true }
	kinds := []struct {
		name string
		rows []row
		fit  func(row) bool
		do   func(row)
	}{
		{"cart", nil, nil, func(row) { r := shop.newCart(at); r["lastChange"] = at }},
		{"edit cart", orders, func(r row) bool { return r["active"] == true }, func(r row) { shop.editCart(r, stamped(r)) }},
		{"place", orders, func(r row) bool { return r["active"] == true }, func(r row) { shop.place(r, stamped(r), "PaymentAuthorized") }},
		{"place settled", orders, func(r row) bool { return r["active"] == true }, func(r row) { shop.place(r, stamped(r), "PaymentSettled") }},
		{"settle", orders, func(r row) bool { return state(r, "PaymentAuthorized") }, func(r row) { shop.settlePayment(r, stamped(r)) }},
		{"fulfil", orders, func(r row) bool { return state(r, "PaymentSettled") }, func(r row) { shop.fulfil(r, stamped(r)) }},
		{"ship", orders, func(r row) bool { return state(r, "PaymentSettled") && r["fulfillments"] != nil }, func(r row) { shop.carry(r, stamped(r), "Shipped") }},
		{"deliver", orders, func(r row) bool { return state(r, "Shipped") }, func(r row) { shop.carry(r, stamped(r), "Delivered") }},
		{"refund", orders, placed, func(r row) { shop.refund(r, stamped(r), "Pending") }},
		{"settle refund", orders, func(r row) bool { return placed(r) && r["payments"].([]row)[0]["refunds"] != nil }, func(r row) { shop.refund(r, stamped(r), "Settled") }},
		{"cancel", orders, placed, func(r row) { shop.cancel(r, stamped(r)) }},
		{"begin to modify", orders, func(r row) bool { return state(r, "PaymentSettled") }, func(r row) {
			shop.transit(r, stamped(r), "Modifying")
			r["asBefore"] = true
		}},
		{"modify", orders, func(r row) bool { return state(r, "Modifying") }, func(r row) { shop.modify(r, stamped(r)) }},
		{"end modifying", orders, func(r row) bool { return state(r, "Modifying") }, func(r row) {
			asBefore := r["asBefore"] == true
			shop.transit(r, stamped(r), "PaymentSettled")
			if asBefore { // which leaves no trace but in its history
				r["idle"] = true
			}
		}},
		{"import", nil, nil, func(row) { // one transaction, one stamp
			for range 2 + s.rnd.IntN(6) {
				o := shop.newCart(at)
				shop.place(o, at, "PaymentSettled")
				o["lastChange"] = at
			}
		}},
		{"customer", nil, nil, func(row) { r := shop.newCustomer(at); r["lastChange"] = at }},
		{"edit customer", customers, any, func(r row) { shop.editCustomer(r, stamped(r)) }},
		{"add address", customers, any, func(r row) { shop.addAddress(r, stamped(r)) }},
		{"edit address", customers, func(r row) bool { return len(r["addresses"].([]row)) > 0 }, func(r row) { shop.editAddress(r, stamped(r)) }},
		{"delete address", customers, func(r row) bool { return len(r["addresses"].([]row)) > 0 }, func(r row) { shop.deleteAddress(r, stamped(r)) }},
	}
	k := kinds[s.rnd.IntN(len(kinds))]
	var r row
	if k.rows != nil || k.fit != nil {
		if r = s.pick(k.rows, k.fit); r == nil {
			return
		}
	}
	k.do(r)
	s.told = append(s.told, fmt.Sprintf("%s %s: %s %v", s.w.now.Format("15:04:05"), at.Format("15:04:05.000000"), k.name, r["id"]))
}

// step lets something happen between two polls.
func (s *story) step() {
	switch rapid.IntRange(0, 9).Draw(s.T, "step") {
	case 0, 1, 2, 3, 4:
		s.w.shop.mu.Lock()
		s.change()
		s.w.shop.mu.Unlock()
	case 5:
		d := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 2 * time.Minute, time.Hour}).Draw(s.T, "wait")
		s.w.wait(d)
	case 6:
		s.told = append(s.told, "restart")
		s.w.restart()
	default:
		f := s.readers[rapid.IntRange(0, len(s.readers)-1).Draw(s.T, "reader")]
		complete := f.cycle()
		s.told = append(s.told, fmt.Sprintf("cycle of %s from %v, complete %v, cursor %s", f.stream, f.start, complete, f.cursor))
	}
}

func (s *story) admit() admission {
	return rapid.SampledFrom([]admission{stored, stored, stored, stored, refused, unknownStore}).Draw(s.T, "admission")
}

func TestWhateverHappensEveryNewestStateIsDelivered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		s := &story{T: rt, w: w, rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		begin := w.now.Add(2 * time.Minute)
		for _, stream := range []string{"orders", "customers", "orders", "customers", "orders"} {
			f := newFlow(w, stream)
			f.limit, f.admit = rapid.IntRange(1, 4).Draw(rt, "limit"), s.admit
			if len(s.readers) > 2 {
				f.start = connectors.Start{From: begin}
			}
			s.readers = append(s.readers, f)
		}
		busy := true
		w.shop.before = func(string) { // somebody is at work while the shop is read
			if busy && s.rnd.IntN(4) == 0 {
				s.change()
			}
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			s.step()
		}
		busy = false
		w.wait(time.Hour)
		for _, f := range s.readers {
			f.admit = nil
			for range 2 {
				if !f.cycle() {
					rt.Fatal("a cycle without failures was not complete")
				}
			}
			s.judge(f)
		}
	})
}

// judge compares what a flow has with the shop.
func (s *story) judge(f *flow) {
	for _, r := range s.w.shop.tables[f.stream] {
		if f.stream == "orders" && r["orderPlacedAt"] == nil {
			if _, ok := f.state[r["id"].(string)]; ok {
				s.Fatalf("cart %v was delivered", r["id"])
			}
			continue
		}
		id := r["id"].(string)
		got, ok := f.state[id]
		want, err := s.w.src.Fetch(s.w.t.Context(), f.stream, id)
		if err != nil {
			s.Fatal(err)
		}
		old := !f.start.All && r["lastChange"].(time.Time).UnixMilli() < f.start.From.UnixMilli()
		switch {
		case old && ok:
			s.Fatalf("%s %s changed last at %v, before the start %v, and was delivered\n%s", f.stream, id, r["lastChange"], f.start.From, s)
		case old:
		case r["idle"] == true && (!ok || withoutHistory(got.Body) == withoutHistory(want.Body)):
		case !ok:
			s.Fatalf("%s %s was never delivered\n%s", f.stream, id, s)
		case string(got.Body) != string(want.Body):
			s.Fatalf("%s %s was last delivered as\n%s\nand is\n%s\n%s", f.stream, id, got.Body, want.Body, s)
		}
	}
}

// withoutHistory is a record without the time of its latest entry, which tells of
// nothing that anyone could see in the order.
func withoutHistory(body json.RawMessage) string {
	return regexp.MustCompile(`"history":\{"items":\[[^\]]*\]\}`).ReplaceAllString(string(body), "")
}

func (s *story) String() string {
	out := ""
	for _, l := range s.told {
		out += l + "\n"
	}
	return out
}
