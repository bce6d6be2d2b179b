package vendure

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"syncd/connectors"
)

// at is the cursor of a flow.
func (f *flow) at() *cursor {
	c := &cursor{}
	if err := json.Unmarshal(f.cursor, c); err != nil {
		f.w.t.Fatal(err)
	}
	return c
}

// beforeSweep reads until a sweep is due, so that only what the passes along
// the stamps find has been read.
func (f *flow) beforeSweep() {
	f.w.t.Helper()
	k, _ := kindOf(f.stream)
	for range 1000 {
		page := f.pull(f.cursor)
		f.take(page)
		if !page.More || f.at().Pass == len(k.times) {
			return
		}
	}
	f.w.t.Fatal("the passes do not come to an end")
}

// settled reads until all is read and swept.
func (f *flow) settled() {
	f.w.t.Helper()
	if !f.cycle() {
		f.w.t.Fatal("the cycle was not complete")
	}
}

func TestACartPlacedLongAfterItsLastEditIsReadByItsPlacement(t *testing.T) {
	w := newWorld(t)
	var cart row
	w.do(func(s *fakeShop, at time.Time) { cart = s.newCart(at) })
	w.wait(3 * 24 * time.Hour)
	w.do(func(s *fakeShop, at time.Time) { s.place(s.newCart(at), at, "PaymentSettled") }) // moves the cursor past the cart
	f := newFlow(w, "orders")
	f.settled()
	if _, ok := f.state[cart["id"].(string)]; ok {
		t.Fatal("a cart was delivered")
	}
	w.wait(10 * time.Second)
	w.do(func(s *fakeShop, at time.Time) { s.place(cart, at, "PaymentAuthorized") })
	w.wait(10 * time.Second) // no sweep is due
	f.settled()
	if got := f.field(cart["id"].(string), "state"); got != "PaymentAuthorized" {
		t.Errorf("the order was read as %v", got)
	}
}

func TestDraftsAreNotOrders(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		d := s.newCart(at)
		d["active"], d["state"] = false, "Draft" // an administrator is about to make an order
	})
	f := newFlow(w, "orders")
	f.settled()
	if f.events > 0 {
		t.Errorf("%d events", f.events)
	}
}

func TestRowsOfOneTransactionAreReadAcrossPages(t *testing.T) {
	for n, requests := range map[int]int{99: 4, 100: 5, 101: 5, 250: 6} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.do(func(s *fakeShop, at time.Time) {
				s.newCustomer(at.Add(-time.Hour))
				for range n {
					s.newCustomer(at)
				}
				s.newCustomer(at.Add(300 * time.Microsecond)) // the same millisecond
				s.newCustomer(at.Add(time.Second))
			})
			f := newFlow(w, "customers")
			f.beforeSweep()
			if len(f.state) != n+3 {
				t.Errorf("%d of %d records were read", len(f.state), n+3)
			}
			if q := len(w.requests()); q != requests {
				t.Errorf("%d requests", q)
			}
		})
	}
}

// Rows of one millisecond are read by an offset. One that is saved meanwhile
// leaves them, and those behind it move up by one place.
func TestNoRowOfOneTransactionIsLostWhenOthersLeaveWhileTheyAreRead(t *testing.T) {
	for _, when := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("at page %d", when), func(t *testing.T) {
			w := newWorld(t)
			w.do(func(s *fakeShop, at time.Time) {
				for range 9 {
					s.newCustomer(at)
				}
			})
			pages := 0
			w.shop.before = func(string) {
				if pages++; pages == when {
					w.wait(time.Second)
					for _, c := range w.shop.tables["customers"][:2] {
						w.shop.editCustomer(c, w.now)
					}
				}
			}
			f := newFlow(w, "customers")
			f.limit = 2
			f.beforeSweep()
			if len(f.state) != 9 {
				t.Errorf("%d of 9 records were read", len(f.state))
			}
			if f.field("1", "lastName") != "Lovelace'" {
				t.Error("the saved record was not read again")
			}
		})
	}
}

func TestAListingThatIsNotAsAskedEndsInAnErrorAndMovesNothing(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		for i := range 6 {
			s.newCustomer(at.Add(time.Duration(i) * time.Second))
		}
	})
	f := newFlow(w, "customers")
	f.limit = 3
	f.take(f.pull(nil))
	for _, c := range []struct {
		name  string
		spoil *bool
		what  string
	}{
		{"the filter is passed over", &w.shop.repeat, "not of the updatedAt that was asked for"},
		{"the order is passed over", &w.shop.unsorted, "not sorted by updatedAt"},
	} {
		*c.spoil = true
		_, err := w.src.Pull(t.Context(), connectors.PullRequest{Stream: "customers", Cursor: f.cursor, Limit: 3})
		*c.spoil = false
		want := "list customers: transient (disorder): the shop answered records that are " + c.what +
			"; if this goes on, see whether the shop and its database have different time zones"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got  %v\nwant %s", c.name, err, want)
		}
	}
	w.shop.generous = true
	_, err := w.src.Pull(t.Context(), connectors.PullRequest{Stream: "customers", Cursor: f.cursor, Limit: 2})
	w.shop.generous = false
	if e := (*connectors.Error)(nil); !errors.As(err, &e) || e.Class != connectors.Invalid || !strings.Contains(e.Error(), "too_many_records") || !strings.Contains(e.Message, "records although at most 2 were asked for") {
		t.Errorf("more than was asked for: %v", err)
	}
	f.settled()
	if len(f.state) != 6 {
		t.Errorf("afterwards %d of 6 records were read", len(f.state))
	}
}

func TestOfAListWithoutEndOnlyAsMuchIsKeptAsCanBeAskedFor(t *testing.T) {
	for _, n := range []int{0, 1, mostItems, mostItems + 1, 100 * mostItems} {
		var l items
		if err := json.Unmarshal([]byte("["+strings.TrimSuffix(strings.Repeat("{},", n), ",")+"]"), &l); err != nil || l.count != n || len(l.first) != min(n, mostItems) || l.first == nil {
			t.Errorf("of %d: %d kept, %d counted, %v", n, len(l.first), l.count, err)
		}
	}
	for _, text := range []string{"null", "{}", "7", `"x"`} {
		if l := (items{}); json.Unmarshal([]byte(text), &l) != nil || l.first != nil {
			t.Errorf("%s was taken for a list", text)
		}
	}
}

// The versions of one record's states must not go back: the journal would drop
// the newer state.
func TestVersionsGrowWithEveryChange(t *testing.T) {
	w := newWorld(t)
	var o, c row
	changes := []struct {
		name   string
		stream string
		do     func(s *fakeShop, at time.Time)
	}{
		{"placed", "orders", func(s *fakeShop, at time.Time) {
			o = s.newCart(at.Add(-time.Hour))
			s.place(o, at, "PaymentAuthorized")
		}},
		{"paid", "orders", func(s *fakeShop, at time.Time) { s.settlePayment(o, at) }},
		{"fulfilment made", "orders", func(s *fakeShop, at time.Time) { s.fulfil(o, at) }},
		{"shipped", "orders", func(s *fakeShop, at time.Time) { s.carry(o, at, "Shipped") }},
		{"delivered", "orders", func(s *fakeShop, at time.Time) { s.carry(o, at, "Delivered") }},
		{"refunded", "orders", func(s *fakeShop, at time.Time) { s.refund(o, at, "Pending") }},
		{"refund settled", "orders", func(s *fakeShop, at time.Time) { s.refund(o, at, "Settled") }},
		{"modifying", "orders", func(s *fakeShop, at time.Time) { s.transit(o, at, "Modifying") }},
		{"modified", "orders", func(s *fakeShop, at time.Time) { s.modify(o, at) }},
		{"paid in addition", "orders", func(s *fakeShop, at time.Time) { s.transit(o, at, "PaymentSettled") }},
		{"cancelled", "orders", func(s *fakeShop, at time.Time) { s.cancel(o, at) }},
		{"registered", "customers", func(s *fakeShop, at time.Time) { c = s.newCustomer(at) }},
		{"address added", "customers", func(s *fakeShop, at time.Time) { s.addAddress(c, at) }},
		{"second address added", "customers", func(s *fakeShop, at time.Time) { s.addAddress(c, at) }},
		{"address edited", "customers", func(s *fakeShop, at time.Time) { s.editAddress(c, at) }},
		{"address deleted", "customers", func(s *fakeShop, at time.Time) { s.deleteAddress(c, at) }},
		{"customer edited", "customers", func(s *fakeShop, at time.Time) { s.editCustomer(c, at) }},
	}
	last := map[string]int64{}
	for _, ch := range changes {
		w.wait(time.Second)
		w.do(ch.do)
		r := o
		if ch.stream == "customers" {
			r = c
		}
		e, err := w.src.Fetch(t.Context(), ch.stream, r["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if e.Version <= last[ch.stream] {
			t.Errorf("%s: version %d is not above %d", ch.name, e.Version, last[ch.stream])
		}
		last[ch.stream] = e.Version
		if want := w.now.Truncate(time.Millisecond); !e.ChangedAt.Equal(want) {
			t.Errorf("%s: changed at %v, want %v", ch.name, e.ChangedAt, want)
		}
	}
}

func TestARecordIsDeliveredWithEverythingThatIsAskedFor(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) { s.place(s.newCart(at), at, "PaymentSettled") })
	f := newFlow(w, "orders")
	f.settled()
	var got map[string]any
	if err := json.Unmarshal(f.state["1"].Body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": "1", "code": "T1", "state": "PaymentSettled", "customer": map[string]any{
		"id": "1", "title": nil, "firstName": "Ada", "lastName": "Lovelace", "emailAddress": "ada@example.com", "phoneNumber": nil}}
	for name, v := range want {
		if diff := cmp.Diff(v, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	line := got["lines"].([]any)[0].(map[string]any)
	if sku := line["productVariant"].(map[string]any)["sku"]; sku != "MUG-S" {
		t.Errorf("the line's SKU is %v", sku)
	}
}

func TestTheFirstCycleReadsEachOrderOnce(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) {
		for i := range 300 {
			placed := at.Add(-time.Duration(i) * time.Hour)
			o := s.newCart(placed.Add(-time.Minute))
			s.place(o, placed, "PaymentSettled")
			s.transit(o, placed.Add(time.Second), "PaymentSettled") // what only the history tells
		}
	})
	f := newFlow(w, "orders")
	f.settled()
	// The last of a page is read again with the next one, and the newest by the second pass.
	if len(f.state) != 300 || f.events > 310 {
		t.Errorf("%d events for %d orders", f.events, len(f.state))
	}
	w.restart()
	f.settled()
	w.wait(time.Hour)
	w.requests()
	f.settled()
	if n := f.events; n > 620 {
		t.Errorf("%d events after a restart, when all is swept once more", n)
	}
	for _, q := range w.requests() {
		if take := intOf(q.options["take"], 0); q.light && take > 100 {
			t.Errorf("%d records are looked at for each hundred that are read", take)
		}
	}
}

// A cart that is placed while everything is read for the first time, when the
// first pass is already beyond its stamp.
func TestACartPlacedDuringTheFirstCycleIsRead(t *testing.T) {
	w := newWorld(t)
	var cart row
	w.do(func(s *fakeShop, at time.Time) {
		cart = s.newCart(at.Add(-1000 * time.Hour))
		for i := range 10 {
			placed := at.Add(-time.Duration(i) * time.Hour)
			s.place(s.newCart(placed), placed, "PaymentSettled")
		}
	})
	pages := 0
	w.shop.before = func(string) {
		if pages++; pages == 2 { // the transaction began before the reading did
			w.shop.place(cart, w.now.Add(-90*time.Second), "PaymentAuthorized")
		}
		w.wait(time.Minute)
	}
	f := newFlow(w, "orders")
	f.limit = 2
	f.beforeSweep()
	if _, ok := f.state[cart["id"].(string)]; !ok {
		t.Error("the order was not read")
	}
}

func TestACursorOfAnotherKindIsRefused(t *testing.T) {
	w := newWorld(t)
	f := newFlow(w, "orders")
	f.settled()
	for _, c := range []struct{ name, stream, cursor string }{
		{"of another stream", "customers", string(f.cursor)},
		{"of an older syncd", "orders", strings.Replace(string(f.cursor), `"v":1`, `"v":0`, 1)},
		{"a newer field", "orders", strings.Replace(string(f.cursor), `"v":1`, `"v":1,"x":2`, 1)},
		{"beyond the last pass", "orders", strings.Replace(string(f.cursor), `"v":1`, `"v":1,"pass":3`, 1)},
		{"not JSON", "orders", "{"},
		{"a list", "orders", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.src.Pull(t.Context(), connectors.PullRequest{Stream: c.stream, Cursor: json.RawMessage(c.cursor), Limit: 10})
			want := "read " + c.stream + ": invalid (cursor): the stored cursor is not one of this stream; reset it to begin again"
			if err == nil || err.Error() != want {
				t.Errorf("got %v", err)
			}
		})
	}
}
