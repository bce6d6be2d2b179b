package main

import (
	"strings"
	"testing"
)

// agreed is a small world in which both sides agree; each test changes one thing.
func agreed() (shopState, erpState, []deadLetter) {
	shop := shopState{
		Customers: []customer{{ID: "1", Name: "Ada L", Email: "ada@example.com"}, {ID: "2", Name: "Bea M", Email: "bea@example.com"}},
		SKUs:      []string{"MUG-S", "MUG-L"},
		Orders: []order{
			{Code: "CART", State: "AddingItems"},
			{Code: "AUTH", State: "PaymentAuthorized", Placed: true, CustomerID: "1", Total: 4386, Shipping: 595, Lines: []line{{"MUG-S", 3, 3791}}},
			{Code: "SENT", State: "Shipped", Placed: true, CustomerID: "2", Total: 2154, Shipping: 595, Lines: []line{{"MUG-L", 1, 1559}}},
			{Code: "GONE", State: "Cancelled", Placed: true, CustomerID: "2", Total: 595, Shipping: 595, Lines: []line{{"MUG-L", 0, 0}}},
		},
	}
	erp := erpState{
		Parties:  []party{{Code: "VC-1", Name: "Ada L", Emails: []string{"ada@example.com"}}, {Code: "VC-2", Name: "Bea M", Emails: []string{"bea@example.com"}}},
		Products: []string{"MUG-S", "MUG-L"},
		Sales: []sale{
			{WebID: "AUTH", State: "quotation", PartyCode: "VC-1", Total: 4386, Lines: []line{{"", 1, 595}, {"MUG-S", 3, 3791}}},
			{WebID: "SENT", State: "processing", PartyCode: "VC-2", Total: 2154, Kept: new(cents(2154)), Lines: []line{{"MUG-L", 1, 1559}, {"", 1, 595}}},
			{WebID: "GONE", State: "cancelled", PartyCode: "VC-2", Total: 2154, Kept: new(cents(2154)), Lines: []line{{"MUG-L", 1, 1559}, {"", 1, 595}}},
		},
	}
	return shop, erp, nil
}

func TestTheCheckerCountsEachFaultUnderItsHeading(t *testing.T) {
	type counts struct{ doubled, missing, total, state, content, frozen int }
	for _, c := range []struct {
		name    string
		change  func(*shopState, *erpState, *[]deadLetter)
		want    counts
		finding string
	}{
		{"nothing is wrong", func(*shopState, *erpState, *[]deadLetter) {}, counts{}, ""},
		{"a party is missing", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Parties = e.Parties[:1] },
			counts{missing: 1}, "customer 2 is missing (party VC-2)"},
		{"a party is named by its former name", func(s *shopState, _ *erpState, _ *[]deadLetter) { s.Customers[0].Name = "Ada King" },
			counts{content: 1}, `party VC-1 is named "Ada L", want "Ada King"`},
		{"a party got its contacts again", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			e.Parties[0].Emails = append(e.Parties[0].Emails, "ada@example.com")
			e.Parties[0].DoubledParts = 1
		}, counts{doubled: 1, content: 1}, "party VC-1 has an address or contact twice"},
		{"a party came twice under another code", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			e.Parties = append(e.Parties, party{Code: "17", Name: "Ada L"})
		}, counts{doubled: 1}, `party "17" is in the ERP and no customer of the shop`},
		{"a product is missing", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Products = e.Products[1:] },
			counts{missing: 1}, "product MUG-S is missing"},
		{"a product came twice", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Products = append(e.Products, "MUG-S") },
			counts{doubled: 1}, "product MUG-S exists more than once"},
		{"an order is missing", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales = e.Sales[1:] },
			counts{missing: 1}, "order AUTH (PaymentAuthorized) is missing"},
		{"an order came twice, once without its key", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			again := e.Sales[0]
			again.WebID = ""
			e.Sales = append(e.Sales, again)
		}, counts{doubled: 1}, `sale with the web id "" is in the ERP`},
		{"a cart was sold", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			e.Sales = append(e.Sales, sale{WebID: "CART", State: "draft"})
		}, counts{state: 1}, "order CART is only a cart (AddingItems) and is in the ERP"},
		{"a line came twice", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			e.Sales[0].Lines = append(e.Sales[0].Lines, line{"MUG-S", 3, 3791})
			e.Sales[0].Total += 3791
		}, counts{total: 1, content: 1}, "the sale's lines come to 81.77, want 43.86"},
		{"one cent is lost", func(_ *shopState, e *erpState, _ *[]deadLetter) {
			e.Sales[1].Lines[0].Amount--
			e.Sales[1].Total--
		}, counts{total: 1, content: 1}, "the sale's lines come to 21.53, want 21.54"},
		{"the ERP keeps another total than its lines'", func(_ *shopState, e *erpState, _ *[]deadLetter) { *e.Sales[1].Kept = 1 },
			counts{total: 1}, "the sale keeps a total of 0.01, want 21.54"},
		{"prices with tax were taxed again", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[1].Taxed = true },
			counts{content: 1}, "order SENT has taxes"},
		{"an order is another customer's", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[1].PartyCode = "VC-1" },
			counts{content: 1}, `order SENT belongs to party "VC-1", want "VC-2"`},
		{"a line is invoiced twice", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[1].DoubledInvoices = 1 },
			counts{doubled: 1}, "order SENT: a line is invoiced twice"},
		{"a payment did not arrive", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[1].State = "quotation" },
			counts{state: 1}, "order SENT (Shipped): the sale is quotation, want processing"},
		{"a sale stopped half-way", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[0].State = "draft" },
			counts{state: 1}, "the sale is draft, want quotation"},
		{"an unpaid order was confirmed", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[0].State = "processing" },
			counts{state: 1}, "the sale is processing, want quotation"},
		{"a cancelled order goes on", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[2].State = "quotation" },
			counts{state: 1}, "the sale is quotation, want cancelled"},
		{"a cancelled order was too far and is told", func(_ *shopState, e *erpState, d *[]deadLetter) {
			e.Sales[2].State = "processing"
			*d = append(*d, deadLetter{Flow: "orders", Key: "GONE", Class: "frozen"})
		}, counts{frozen: 1}, ""},
		{"a cancelled order was too far and is not told", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales[2].State = "processing" },
			counts{state: 1}, "the sale is processing, want cancelled"},
		{"a cancelled order never came", func(_ *shopState, e *erpState, _ *[]deadLetter) { e.Sales = e.Sales[:2] }, counts{}, ""},
		{"a changed order was too far and is told", func(s *shopState, _ *erpState, d *[]deadLetter) {
			s.Orders[2].Lines[0].Quantity, s.Orders[2].Lines[0].Amount, s.Orders[2].Total = 2, 3118, 3713
			*d = append(*d, deadLetter{Flow: "orders", Key: "SENT", Class: "frozen"})
		}, counts{frozen: 1}, ""},
		{"an order is called frozen that the ERP lets us change", func(_ *shopState, e *erpState, d *[]deadLetter) {
			e.Sales[2].State = "quotation"
			*d = append(*d, deadLetter{Flow: "orders", Key: "GONE", Class: "frozen"})
		}, counts{state: 1}, "order GONE is listed as frozen, and the ERP's sale is only quotation"},
		{"an order is called frozen that is as it should be", func(_ *shopState, _ *erpState, d *[]deadLetter) {
			*d = append(*d, deadLetter{Flow: "orders", Key: "SENT", Class: "frozen"})
		}, counts{state: 1}, "nothing about it is left to change"},
		{"another job is dead", func(_ *shopState, _ *erpState, d *[]deadLetter) {
			*d = append(*d, deadLetter{Flow: "customers", Key: "VC-1", Class: "invalid"})
		}, counts{state: 1}, `dead letter of class "invalid": flow customers, key VC-1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop, erp, dead := agreed()
			c.change(&shop, &erp, &dead)
			r := (&checker{PartyPrefix: "VC-"}).check(shop, erp, dead)
			got := counts{r.Doubled, r.Missing, r.WrongTotal, r.WrongState, r.WrongContent, r.Frozen}
			if got != c.want {
				t.Errorf("counted %+v, want %+v; findings %q", got, c.want, r.Findings)
			}
			if !strings.Contains(strings.Join(r.Findings, "\n"), c.finding) {
				t.Errorf("findings %q do not have %q", r.Findings, c.finding)
			}
		})
	}
}

func TestACancelledOrderThatTheERPHadMayNotVanish(t *testing.T) {
	shop, erp, dead := agreed()
	erp.Sales = erp.Sales[:2]
	r := (&checker{PartyPrefix: "VC-", Seen: map[string]bool{"GONE": true}}).check(shop, erp, dead)
	if r.Missing != 1 {
		t.Errorf("missing %d, want 1; findings %q", r.Missing, r.Findings)
	}
}

func TestWhatIsComparedIsCounted(t *testing.T) {
	r := (&checker{PartyPrefix: "VC-"}).check(agreed())
	if r.Orders != 3 || r.Customers != 2 || r.Products != 2 || r.Checked != 7 {
		t.Errorf("counted %d orders, %d customers, %d products, %d records; want 3, 2, 2, 7", r.Orders, r.Customers, r.Products, r.Checked)
	}
}

func TestMoneyIsWrittenWithTwoDigits(t *testing.T) {
	for amount, want := range map[cents]string{0: "0.00", 5: "0.05", 4386: "43.86", -595: "-5.95"} {
		if got := amount.String(); got != want {
			t.Errorf("%d cents are written %s, want %s", int64(amount), got, want)
		}
	}
}
