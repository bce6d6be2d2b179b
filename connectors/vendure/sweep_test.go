package vendure

import (
	"encoding/json"
	"testing"
	"time"
)

// shopWithOrder is a world with an order that a flow has read and swept. There
// is a later one, so that the first is far behind what is read along the stamps.
func shopWithOrder(t *testing.T) (w *world, f *flow, o row) {
	t.Helper()
	w = newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		o = s.newCart(at.Add(-24 * time.Hour))
		s.place(o, at, "PaymentAuthorized")
	})
	w.later()
	f = newFlow(w, "orders")
	f.settled()
	w.wait(2 * time.Hour) // far beyond the overlap
	f.settled()
	return w, f, o
}

// later adds an order and a customer a day later, so that those before are far
// behind what is read along the stamps each time.
func (w *world) later() {
	w.wait(24 * time.Hour)
	w.do(func(s *fakeShop, at time.Time) {
		s.place(s.newCart(at), at, "PaymentSettled")
		s.newCustomer(at)
	})
}

func TestChangesThatMoveNoStampOfTheirOrderAreFoundBySweeping(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(s *fakeShop, o row, at time.Time) // already read when the change comes
		change func(s *fakeShop, o row, at time.Time)
		look   func(m map[string]any) any
		want   any
	}{
		{name: "payment settled", change: func(s *fakeShop, o row, at time.Time) { s.settlePayment(o, at) },
			look: func(m map[string]any) any { return m["state"] }, want: "PaymentSettled"},
		{name: "fulfilment made", change: func(s *fakeShop, o row, at time.Time) { s.fulfil(o, at) },
			look: func(m map[string]any) any { return len(m["fulfillments"].([]any)) }, want: 1},
		{name: "shipped", before: func(s *fakeShop, o row, at time.Time) { s.fulfil(o, at) },
			change: func(s *fakeShop, o row, at time.Time) { s.carry(o, at, "Shipped") },
			look:   func(m map[string]any) any { return m["state"] }, want: "Shipped"},
		{name: "refunded", change: func(s *fakeShop, o row, at time.Time) { s.refund(o, at, "Pending") },
			look: func(m map[string]any) any { return len(m["payments"].([]any)[0].(map[string]any)["refunds"].([]any)) }, want: 1},
		{name: "refund settled", before: func(s *fakeShop, o row, at time.Time) { s.refund(o, at, "Pending") },
			change: func(s *fakeShop, o row, at time.Time) { s.refund(o, at, "Settled") },
			look: func(m map[string]any) any {
				return m["payments"].([]any)[0].(map[string]any)["refunds"].([]any)[0].(map[string]any)["state"]
			}, want: "Settled"},
		{name: "only the state changed", change: func(s *fakeShop, o row, at time.Time) { s.transit(o, at, "Modifying") },
			look: func(m map[string]any) any { return m["state"] }, want: "Modifying"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, f, o := shopWithOrder(t)
			if c.before != nil {
				w.do(func(s *fakeShop, at time.Time) { c.before(s, o, at) })
				w.wait(2 * time.Minute)
				f.settled()
			}
			w.do(func(s *fakeShop, at time.Time) { c.change(s, o, at) })
			w.wait(2 * time.Minute)
			f.settled()
			var m map[string]any
			if err := json.Unmarshal(f.state[o["id"].(string)].Body, &m); err != nil {
				t.Fatal(err)
			}
			if got := c.look(m); got != c.want {
				t.Errorf("read %v, want %v", got, c.want)
			}
			before := f.events
			w.wait(2 * time.Minute)
			f.settled()
			if n := f.events - before; n > 2 { // one record within the overlap of either pass
				t.Errorf("%d events although nothing changed", n)
			}
		})
	}
}

func TestChangesThatMoveNoStampOfACustomerOrAVariantAreFoundBySweeping(t *testing.T) {
	w := newWorld(t)
	var c, v row
	w.do(func(s *fakeShop, at time.Time) {
		c = s.newCustomer(at)
		s.addAddress(c, at)
		s.addAddress(c, at)
		v = row{"id": "7", "createdAt": at, "updatedAt": at, "sku": "MUG-S", "name": "Mug S", "price": 1000, "priceWithTax": 1200,
			"product":     row{"id": "1", "createdAt": at, "updatedAt": at, "name": "Mug"},
			"options":     []row{{"id": "1", "createdAt": at, "updatedAt": at, "name": "small", "group": row{"id": "1", "code": "size"}}},
			"stockLevels": []row{{"id": "1", "createdAt": at, "updatedAt": at, "stockLocationId": "1", "stockOnHand": 10, "stockAllocated": 0}}}
		s.tables["productVariants"] = append(s.tables["productVariants"], v)
		later := at.Add(time.Hour)
		s.newCustomer(later)
		s.tables["productVariants"] = append(s.tables["productVariants"], row{"id": "8", "createdAt": later, "updatedAt": later,
			"product": row{"id": "2", "createdAt": at, "updatedAt": at}})
	})
	flows := map[string]*flow{"customers": newFlow(w, "customers"), "variants": newFlow(w, "variants")}
	for _, f := range flows {
		f.settled()
	}
	part := func(r row, name string) row {
		if l, ok := r[name].([]row); ok {
			return l[0]
		}
		return r[name].(row)
	}
	for _, ch := range []struct {
		name, stream string
		do           func(s *fakeShop, at time.Time)
	}{
		{"address edited", "customers", func(s *fakeShop, at time.Time) { s.editAddress(c, at) }},
		{"address deleted", "customers", func(s *fakeShop, at time.Time) { s.deleteAddress(c, at) }},
		{"product renamed", "variants", func(s *fakeShop, at time.Time) {
			part(v, "product")["name"], part(v, "product")["updatedAt"] = "Cup", at
		}},
		{"option renamed", "variants", func(s *fakeShop, at time.Time) {
			part(v, "options")["name"], part(v, "options")["updatedAt"] = "tiny", at
		}},
		{"stock allocated", "variants", func(s *fakeShop, at time.Time) { part(v, "stockLevels")["stockAllocated"] = 3 }},
		{"tax rate changed", "variants", func(s *fakeShop, at time.Time) { v["priceWithTax"] = 1190 }},
	} {
		t.Run(ch.name, func(t *testing.T) {
			f := flows[ch.stream]
			w.wait(2 * time.Hour)
			f.settled()
			w.do(ch.do)
			w.wait(2 * time.Hour)
			f.settled()
			for id, e := range f.state {
				want, err := w.src.Fetch(t.Context(), ch.stream, id)
				if err != nil {
					t.Fatal(err)
				}
				if string(e.Body) != string(want.Body) {
					t.Errorf("read\n%s\nand it is\n%s", e.Body, want.Body)
				}
			}
		})
	}
}

func TestAnIdleShopIsAskedLittle(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		for i := range 1200 {
			o := s.newCart(at.Add(-time.Duration(i) * time.Minute))
			s.place(o, at.Add(-time.Duration(i)*time.Minute), "PaymentSettled")
			s.newCustomer(at.Add(-time.Duration(i) * time.Minute))
		}
	})
	orders, customers := newFlow(w, "orders"), newFlow(w, "customers")
	orders.settled()
	customers.settled()
	w.wait(time.Hour)
	orders.settled() // a sweep of all, now known
	customers.settled()
	for _, c := range []struct {
		name     string
		wait     time.Duration
		flow     *flow
		requests int
	}{
		{"orders between two sweeps", 5 * time.Second, orders, 2},
		{"orders again", 5 * time.Second, orders, 2},
		{"orders when a sweep is due", 2 * time.Minute, orders, 2 + 3},
		{"customers between two sweeps", 5 * time.Second, customers, 1},
		{"customers when a sweep is due", time.Hour, customers, 1 + 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.requests()
			w.wait(c.wait)
			before, cursor := c.flow.events, string(c.flow.cursor)
			c.flow.settled()
			if n := len(w.requests()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			// What is within the overlap is delivered again.
			if n := c.flow.events - before; n > 4 {
				t.Errorf("%d events", n)
			}
			if c.requests < 3 && string(c.flow.cursor) != cursor {
				t.Errorf("the cursor moved from %s to %s", cursor, c.flow.cursor)
			}
		})
	}
}

func TestTwoFlowsOnOneStreamDoNotDisturbEachOther(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		for range 30 {
			s.place(s.newCart(at.Add(-time.Hour)), at, "PaymentSettled")
		}
	})
	w.later()
	a, b := newFlow(w, "orders"), newFlow(w, "orders")
	for range 2 {
		a.settled()
		b.settled()
		w.wait(2 * time.Hour)
	}
	var o row
	w.do(func(s *fakeShop, at time.Time) { o = s.tables["orders"][3]; s.refund(o, at, "Pending") })
	a.settled()
	b.settled()
	for name, f := range map[string]*flow{"the first": a, "the second": b} {
		if got := f.state[o["id"].(string)].ChangedAt; !got.Equal(w.now.Truncate(time.Millisecond)) {
			t.Errorf("%s was not told of the refund", name)
		}
	}
	w.wait(2 * time.Hour)
	before := a.events
	a.settled()
	if n := a.events - before; n > 2 {
		t.Errorf("%d events although nothing changed", n)
	}
}

// A sweep is resumed after a restart at each of its pages, and what changed
// meanwhile is found at the latest by the next one.
func TestASweepIsResumedAfterARestart(t *testing.T) {
	for stop := 1; stop <= 6; stop++ {
		w := newWorld(t)
		w.do(func(s *fakeShop, at time.Time) {
			for i := range 9 {
				placed := at.Add(time.Duration(i) * time.Minute)
				s.place(s.newCart(placed.Add(-24*time.Hour)), placed, "PaymentAuthorized")
			}
		})
		w.wait(time.Hour)
		f := newFlow(w, "orders")
		f.limit = 2
		f.settled()
		w.wait(time.Hour)
		f.beforeSweep()
		pages := 0
		for f.at().Pass == 2 && pages < stop {
			pages++
			f.take(f.pull(f.cursor))
		}
		w.do(func(s *fakeShop, at time.Time) {
			for _, o := range s.tables["orders"] {
				s.settlePayment(o, at)
			}
		})
		w.restart()
		f.settled()
		w.wait(2 * time.Minute)
		f.settled()
		for id := range f.state {
			if got := f.field(id, "state"); got != "PaymentSettled" {
				t.Errorf("restarted after page %d of the sweep: order %s was last read as %v", pages, id, got)
			}
		}
	}
}

// Where more records are swept than are remembered, those beyond are delivered
// each time: work for the journal, and no loss.
func TestAFullMemoryLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.src.memory.most = 5
	w.do(func(s *fakeShop, at time.Time) {
		for range 20 { // of one millisecond, the worst case
			s.place(s.newCart(at.Add(-24*time.Hour)), at, "PaymentAuthorized")
		}
	})
	w.later()
	f := newFlow(w, "orders")
	f.limit = 3
	f.settled()
	w.wait(time.Hour)
	f.settled()
	w.do(func(s *fakeShop, at time.Time) {
		for _, o := range s.tables["orders"] {
			s.settlePayment(o, at)
		}
	})
	w.wait(2 * time.Minute)
	f.settled()
	for id := range f.state {
		if got := f.field(id, "state"); got != "PaymentSettled" {
			t.Errorf("order %s was last read as %v", id, got)
		}
	}
	for _, s := range w.src.memory.slots {
		if len(s.marks) > 5 {
			t.Errorf("%d records are remembered", len(s.marks))
		}
	}
}

// Orders that no sweep will come by take no place in the memory.
func TestOldOrdersAreNotRemembered(t *testing.T) {
	w := newWorld(t)
	w.src.memory.most = 5
	w.do(func(s *fakeShop, at time.Time) {
		for i := range 23 {
			placed := at.Add(-time.Duration(23-i) * time.Hour)
			if i < 20 {
				placed = placed.Add(-100 * 24 * time.Hour)
			}
			s.place(s.newCart(placed), placed, "PaymentSettled")
		}
	})
	f := newFlow(w, "orders")
	f.settled()
	if f.events > 23+1 {
		t.Errorf("%d events for 23 orders", f.events)
	}
}

// A record that was listed and is not there when it is read whole comes back
// later, as it was.
func TestARecordThatWasAwayForAMomentIsDeliveredWhenItIsBack(t *testing.T) {
	w := newWorld(t)
	var v row
	w.do(func(s *fakeShop, at time.Time) { v = s.newCustomer(at); s.addAddress(v, at) })
	w.later()
	f := newFlow(w, "customers")
	f.settled()
	w.wait(2 * time.Hour)
	w.do(func(s *fakeShop, at time.Time) { s.editAddress(v, at) })
	f.beforeSweep()
	reads := 0
	all := w.shop.tables["customers"]
	w.shop.before = func(string) {
		if reads++; reads == 2 { // between the light query and the whole one
			w.shop.tables["customers"] = nil
		}
	}
	f.settled()
	w.shop.before = nil
	w.shop.tables["customers"] = all
	w.wait(2 * time.Hour)
	f.settled()
	if got := f.state["1"].ChangedAt; !got.Equal(v["addresses"].([]row)[0]["updatedAt"].(time.Time).Truncate(time.Millisecond)) {
		t.Errorf("the edited address was not delivered; the state is of %v", got)
	}
}

func TestManyChangesBetweenTwoSweepsAreAllFoundByTheNext(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		for i := range 40 {
			placed := at.Add(time.Duration(i) * time.Minute)
			s.place(s.newCart(placed), placed, "PaymentAuthorized")
		}
	})
	w.later()
	f := newFlow(w, "orders")
	f.limit = 3
	f.settled()
	w.wait(time.Hour)
	f.settled()
	w.do(func(s *fakeShop, at time.Time) {
		for _, o := range s.tables["orders"] {
			if state(o, "PaymentAuthorized") {
				s.settlePayment(o, at)
			}
		}
	})
	w.wait(time.Hour)
	f.settled()
	for id := range f.state {
		if got := f.field(id, "state"); got != "PaymentSettled" {
			t.Errorf("order %s was last read as %v", id, got)
		}
	}
}

func TestASweepRestsForAsLongAsItTook(t *testing.T) {
	k, _ := kindOf("orders")
	w := newWorld(t)
	swept := w.now.UnixMilli()
	for _, c := range []struct {
		name string
		took time.Duration
		gone time.Duration
		due  bool
	}{
		{"never swept", 0, time.Duration(swept) * time.Millisecond, true},
		{"just swept", 0, 59 * time.Second, false},
		{"a minute later", 0, time.Minute, true},
		{"after a long sweep", 3 * time.Minute, 5 * time.Minute, false},
		{"rested", 3 * time.Minute, 6 * time.Minute, true},
		{"after a sweep that was interrupted", 9 * time.Hour, 8 * time.Minute, true},
		{"the clock was set back", 0, -time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cur := &cursor{Swept: w.now.Add(-c.gone).UnixMilli(), Took: c.took.Milliseconds()}
			if got := w.src.sweepDue(k, cur); got != c.due {
				t.Errorf("due: %v", got)
			}
		})
	}
}

func TestOrdersOlderThanTheWindowAreNotSwept(t *testing.T) {
	w, f, _ := shopWithOrder(t)
	w.wait(91 * 24 * time.Hour)
	w.requests()
	f.settled()
	sweeps := 0
	for _, q := range w.requests() {
		if q.light {
			sweeps++
			filter := q.options["filter"].(map[string]any)["orderPlacedAt"].(map[string]any)["after"]
			if want := stampText(w.now.Add(-90*24*time.Hour).UnixMilli() - 1); filter != want {
				t.Errorf("swept after %v, want %s", filter, want)
			}
		}
	}
	if sweeps != 1 {
		t.Errorf("%d sweeps", sweeps)
	}
}
