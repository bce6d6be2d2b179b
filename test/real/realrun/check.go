package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// report is what a comparison of the two sides came to. Every finding is counted under one heading.
type report struct {
	Orders, Customers, Products int // expected in the ERP
	Checked                     int // records compared

	Doubled, Missing, WrongTotal, WrongState, WrongContent int

	// Frozen counts orders that the ERP no longer lets anyone change and that syncd lists as such: not a fault.
	Frozen int

	Findings []string
}

func (r *report) faults() int {
	return r.Doubled + r.Missing + r.WrongTotal + r.WrongState + r.WrongContent
}

func (r *report) find(counter *int, format string, args ...any) {
	*counter++
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// checker compares the shop with the ERP.
type checker struct {
	// PartyPrefix stands before the shop's customer id in a party's code.
	PartyPrefix string
	// Seen holds the codes of orders that were once found in the ERP. An order cancelled before that may be absent.
	Seen map[string]bool
}

func (c *checker) check(shop shopState, erp erpState, dead []deadLetter) report {
	var r report
	c.customers(&r, shop, erp)
	products(&r, shop, erp)
	c.orders(&r, shop, erp, dead)
	for _, d := range dead {
		if d.Class != "frozen" {
			r.find(&r.WrongState, "dead letter of class %q: flow %s, key %s", d.Class, d.Flow, d.Key)
		}
	}
	slices.Sort(r.Findings)
	return r
}

func (c *checker) customers(r *report, shop shopState, erp erpState) {
	have := group(erp.Parties, func(p party) string { return p.Code })
	for _, want := range shop.Customers {
		r.Customers++
		code := c.PartyPrefix + want.ID
		found := have[code]
		delete(have, code)
		if len(found) == 0 {
			r.find(&r.Missing, "customer %s is missing (party %s)", want.ID, code)
			continue
		}
		r.Checked += len(found)
		for range found[1:] {
			r.find(&r.Doubled, "party %s exists more than once", code)
		}
		got := found[0]
		if got.Name != want.Name {
			r.find(&r.WrongContent, "party %s is named %q, want %q", code, got.Name, want.Name)
		}
		if !slices.Equal(got.Emails, []string{want.Email}) {
			r.find(&r.WrongContent, "party %s has the e-mail addresses %q, want only %q", code, got.Emails, want.Email)
		}
		for range got.DoubledParts {
			r.find(&r.Doubled, "party %s has an address or contact twice", code)
		}
	}
	for code, extra := range have {
		for range extra {
			r.find(&r.Doubled, "party %q is in the ERP and no customer of the shop", code)
		}
	}
}

func products(r *report, shop shopState, erp erpState) {
	have := group(erp.Products, func(code string) string { return code })
	for _, sku := range shop.SKUs {
		r.Products++
		found := have[sku]
		delete(have, sku)
		if len(found) == 0 {
			r.find(&r.Missing, "product %s is missing", sku)
			continue
		}
		r.Checked += len(found)
		for range found[1:] {
			r.find(&r.Doubled, "product %s exists more than once", sku)
		}
	}
	for code, extra := range have {
		for range extra {
			r.find(&r.Doubled, "product %q is in the ERP and not in the shop", code)
		}
	}
}

func (c *checker) orders(r *report, shop shopState, erp erpState, dead []deadLetter) {
	have := group(erp.Sales, func(s sale) string { return s.WebID })
	for _, want := range shop.Orders {
		found := have[want.Code]
		delete(have, want.Code)
		if !want.Placed {
			for range found {
				r.find(&r.WrongState, "order %s is only a cart (%s) and is in the ERP", want.Code, want.State)
			}
			continue
		}
		r.Orders++
		if len(found) == 0 {
			// Nobody needs an order that was cancelled before the ERP heard of it.
			if want.State != "Cancelled" || c.Seen[want.Code] {
				r.find(&r.Missing, "order %s (%s) is missing", want.Code, want.State)
			}
			continue
		}
		r.Checked += len(found)
		for range found[1:] {
			r.find(&r.Doubled, "order %s exists more than once", want.Code)
		}
		c.order(r, want, found[0], listedFrozen(dead, want.Code))
	}
	for webID, extra := range have {
		for range extra {
			r.find(&r.Doubled, "sale with the web id %q is in the ERP and is no order of the shop", webID)
		}
	}
}

// order compares one order with its sale.
func (c *checker) order(r *report, want order, got sale, frozen bool) {
	for range got.DoubledInvoices {
		r.find(&r.Doubled, "order %s: a line is invoiced twice", want.Code)
	}
	if code := c.PartyPrefix + want.CustomerID; got.PartyCode != code {
		r.find(&r.WrongContent, "order %s belongs to party %q, want %q", want.Code, got.PartyCode, code)
	}
	if got.Taxed {
		r.find(&r.WrongContent, "order %s has taxes; its prices include them", want.Code)
	}
	differs := differences(want, got)
	switch {
	case frozen && got.State != "processing":
		r.find(&r.WrongState, "order %s is listed as frozen, and the ERP's sale is only %s", want.Code, got.State)
	case frozen && len(differs) == 0:
		r.find(&r.WrongState, "order %s is listed as frozen, and nothing about it is left to change", want.Code)
	case frozen:
		r.Frozen++
	default:
		for _, d := range differs {
			r.find(d.counter(r), "order %s (%s): %s", want.Code, want.State, d.text)
		}
	}
}

type difference struct {
	counter func(*report) *int
	text    string
}

// differences tells in what a sale is not what the order wants. A cancelled order only wants to be cancelled: its lines are
// empty in the shop and stay as they were in the ERP.
func differences(want order, got sale) []difference {
	var all []difference
	add := func(counter func(*report) *int, format string, args ...any) {
		all = append(all, difference{counter, fmt.Sprintf(format, args...)})
	}
	state := saleState(want.State)
	if state == "" {
		add((*report).wrongState, "the shop's state %q is not known here", want.State)
	} else if got.State != state {
		add((*report).wrongState, "the sale is %s, want %s", got.State, state)
	}
	if state == "cancelled" {
		return all
	}
	if got.Total != want.Total {
		add((*report).wrongTotal, "the sale's lines come to %v, want %v", got.Total, want.Total)
	} else if got.Kept != nil && *got.Kept != want.Total {
		add((*report).wrongTotal, "the sale keeps a total of %v, want %v", *got.Kept, want.Total)
	}
	if a, b := sorted(want.lines()), sorted(got.Lines); !slices.Equal(a, b) {
		add((*report).wrongContent, "the lines are %v, want %v", b, a)
	}
	return all
}

func (r *report) wrongState() *int   { return &r.WrongState }
func (r *report) wrongTotal() *int   { return &r.WrongTotal }
func (r *report) wrongContent() *int { return &r.WrongContent }

// lines are the lines that the sale must have: what was bought, and the shipping.
func (o order) lines() []line {
	lines := slices.DeleteFunc(slices.Clone(o.Lines), func(l line) bool { return l.Quantity == 0 })
	if o.Shipping != 0 {
		lines = append(lines, line{Quantity: 1, Amount: o.Shipping})
	}
	return lines
}

// saleState is what an order's state means in the ERP, and "" for a state that this program never brings about.
func saleState(state string) string {
	switch state {
	case "PaymentAuthorized":
		return "quotation"
	case "PaymentSettled", "PartiallyShipped", "Shipped", "PartiallyDelivered", "Delivered":
		return "processing"
	case "Cancelled":
		return "cancelled"
	}
	return ""
}

// listedFrozen reports whether a frozen dead letter names the order. Keys may have a prefix; codes are long and random.
func listedFrozen(dead []deadLetter, code string) bool {
	return slices.ContainsFunc(dead, func(d deadLetter) bool {
		return d.Class == "frozen" && strings.HasSuffix(d.Key, code)
	})
}

func sorted(lines []line) []line {
	return slices.SortedFunc(slices.Values(lines), func(a, b line) int {
		return cmp.Or(cmp.Compare(a.SKU, b.SKU), cmp.Compare(a.Quantity, b.Quantity), cmp.Compare(a.Amount, b.Amount))
	})
}

func group[T any](all []T, key func(T) string) map[string][]T {
	m := make(map[string][]T, len(all))
	for _, v := range all {
		m[key(v)] = append(m[key(v)], v)
	}
	return m
}
