package vendure

import (
	"strconv"
	"time"
)

// The changes that can happen in a shop, and which stamps each of them moves.
// Seen with Vendure 3.7.3 on PostgreSQL. All take the moment that the database
// gives the change, which is when its transaction began, and need s.mu.

func (s *fakeShop) nextID() string {
	s.ids++
	return strconv.Itoa(s.ids)
}

func (s *fakeShop) newCart(at time.Time) row {
	o := row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "active": true, "state": "AddingItems", "code": "T" + strconv.Itoa(s.ids),
		"currencyCode": "USD", "customer": row{"id": "1", "firstName": "Ada", "lastName": "Lovelace", "emailAddress": "ada@example.com"},
		"lines": []row{{"id": "1", "quantity": 1, "productVariant": row{"id": "1", "sku": "MUG-S", "name": "Mug"}}}}
	s.tables["orders"] = append(s.tables["orders"], o)
	return o
}

// editCart moves the order's own stamp.
func (s *fakeShop) editCart(o row, at time.Time) {
	o["updatedAt"] = at
	o["totalQuantity"] = intOf(o["totalQuantity"], 1) + 1
}

// place makes an order of a cart. Its updatedAt stays where it was.
func (s *fakeShop) place(o row, at time.Time, state string) {
	o["active"], o["state"], o["orderPlacedAt"] = false, state, at
	s.enter(o, at)
	o["payments"] = []row{{"id": s.nextID(), "createdAt": at, "updatedAt": at, "method": "card", "amount": 1234, "state": state[len("Payment"):]}}
}

// enter writes into the history of an order or a customer.
func (s *fakeShop) enter(r row, at time.Time) {
	entries, _ := r["history"].([]row)
	r["history"] = append(entries, row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "type": "ORDER_STATE_TRANSITION"})
}

func (s *fakeShop) settlePayment(o row, at time.Time) {
	p := o["payments"].([]row)[0]
	p["state"], p["updatedAt"] = "Settled", at
	o["state"] = "PaymentSettled"
	s.enter(o, at)
}

func (s *fakeShop) fulfil(o row, at time.Time) {
	all, _ := o["fulfillments"].([]row)
	o["fulfillments"] = append(all, row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "state": "Pending", "method": "parcel"})
	s.enter(o, at)
}

// carry brings a fulfilment, and with it the order, to a state.
func (s *fakeShop) carry(o row, at time.Time, state string) {
	for _, f := range o["fulfillments"].([]row) {
		f["state"], f["updatedAt"] = state, at
	}
	o["state"] = state
	s.enter(o, at)
}

func (s *fakeShop) refund(o row, at time.Time, state string) {
	p := o["payments"].([]row)[0]
	all, _ := p["refunds"].([]row)
	if len(all) > 0 && state != "Pending" {
		all[len(all)-1]["state"], all[len(all)-1]["updatedAt"] = state, at // not even the history tells
		return
	}
	p["refunds"] = append(all, row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "total": 100, "state": state})
	s.enter(o, at)
}

// cancel moves the order's own stamp.
func (s *fakeShop) cancel(o row, at time.Time) {
	o["state"], o["updatedAt"] = "Cancelled", at
	o["lines"].([]row)[0]["quantity"] = 0
	s.enter(o, at)
}

// transit changes the state alone: only the history tells.
func (s *fakeShop) transit(o row, at time.Time, state string) {
	o["state"] = state
	s.enter(o, at)
}

// modify moves the order's own stamp.
func (s *fakeShop) modify(o row, at time.Time) {
	l := o["lines"].([]row)[0]
	l["quantity"] = intOf(l["quantity"], 0) + 1
	o["updatedAt"] = at
	all, _ := o["modifications"].([]row)
	o["modifications"] = append(all, row{"id": s.nextID(), "createdAt": at, "updatedAt": at})
	s.enter(o, at)
}

func (s *fakeShop) newCustomer(at time.Time) row {
	c := row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "firstName": "Ada", "lastName": "Lovelace", "emailAddress": "ada@example.com", "addresses": []row{}}
	s.tables["customers"] = append(s.tables["customers"], c)
	s.enter(c, at)
	return c
}

func (s *fakeShop) editCustomer(c row, at time.Time) {
	c["lastName"], c["updatedAt"] = c["lastName"].(string)+"'", at
	s.enter(c, at)
}

// addAddress moves the customer's own stamp; editing and deleting one does not.
func (s *fakeShop) addAddress(c row, at time.Time) {
	c["addresses"] = append(c["addresses"].([]row), row{"id": s.nextID(), "createdAt": at, "updatedAt": at, "streetLine1": "1 Road", "country": row{"code": "US"}})
	c["updatedAt"] = at
	s.enter(c, at)
}

func (s *fakeShop) editAddress(c row, at time.Time) {
	a := c["addresses"].([]row)[0]
	a["streetLine1"], a["updatedAt"] = a["streetLine1"].(string)+"1", at
	s.enter(c, at)
}

func (s *fakeShop) deleteAddress(c row, at time.Time) {
	all := c["addresses"].([]row)
	c["addresses"] = all[:len(all)-1]
	s.enter(c, at)
}
