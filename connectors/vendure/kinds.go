package vendure

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
)

// kind is one stream: how its records are listed and what tells that one moved.
type kind struct {
	name, doc string
	// list is the root field of the listing, one that of a single record; options
	// is the type of the listing's argument.
	list, one, options string
	// times are the fields by which changes are read, each a pass of its own.
	times []string
	// fixed is a field that never changes once it is set; the sweep goes along it.
	fixed string
	// where limits the listing to records that are meant to be read.
	where map[string]any
	// light selects what tells that a record moved; full the record itself.
	light, full string
	// slow says that sweeps are rare and go over everything.
	slow bool
}

const (
	address = `{fullName company streetLine1 streetLine2 city province postalCode countryCode phoneNumber}`

	latestEntry = ` history(options:{sort:{createdAt:DESC},take:1}){items{createdAt}}`

	orderLight = `id state createdAt updatedAt orderPlacedAt payments{state updatedAt refunds{state updatedAt}} fulfillments{state updatedAt}`
	orderFull  = `id code state type active createdAt updatedAt orderPlacedAt currencyCode couponCodes
 subTotal subTotalWithTax shipping shippingWithTax total totalWithTax totalQuantity
 customer{id title firstName lastName emailAddress phoneNumber}
 shippingAddress` + address + ` billingAddress` + address + `
 lines{id quantity orderPlacedQuantity unitPrice unitPriceWithTax proratedUnitPriceWithTax linePriceWithTax discountedLinePriceWithTax proratedLinePrice proratedLinePriceWithTax taxRate productVariant{id sku name}}
 shippingLines{id price priceWithTax discountedPriceWithTax shippingMethod{code name}}
 surcharges{id description sku price priceWithTax}
 payments{id state method amount transactionId createdAt updatedAt refunds{id state total reason createdAt updatedAt}}
 fulfillments{id state method trackingCode createdAt updatedAt lines{orderLineId quantity}}
 modifications{id createdAt}` + latestEntry

	customerLight = `id createdAt updatedAt addresses{updatedAt}`
	customerFull  = `id title firstName lastName emailAddress phoneNumber createdAt updatedAt user{id verified}
 addresses{id updatedAt fullName company streetLine1 streetLine2 city province postalCode country{code} phoneNumber defaultShippingAddress defaultBillingAddress}` + latestEntry

	variantLight = `id createdAt updatedAt price priceWithTax product{updatedAt} options{updatedAt} stockLevels{updatedAt stockOnHand stockAllocated}`
	variantFull  = `id sku name enabled currencyCode price priceWithTax createdAt updatedAt trackInventory
 product{id name slug enabled updatedAt} options{code name updatedAt group{code}} stockLevels{stockLocationId stockOnHand stockAllocated updatedAt}`
)

func kinds() []*kind {
	return []*kind{
		{name: "orders", list: "orders", one: "order", options: "OrderListOptions", times: []string{"updatedAt", "orderPlacedAt"}, fixed: "orderPlacedAt",
			where: map[string]any{"orderPlacedAt": map[string]any{"isNull": false}}, light: orderLight, full: orderFull,
			doc: "Placed orders with lines, addresses, payments and fulfilments; carts and drafts are left out. Read by updatedAt and by orderPlacedAt, and swept for what moves neither."},
		{name: "customers", list: "customers", one: "customer", options: "CustomerListOptions", times: []string{"updatedAt"}, fixed: "createdAt",
			light: customerLight, full: customerFull, slow: true,
			doc: "Customers with their addresses, guests included. Read by updatedAt, and swept for edited and deleted addresses."},
		{name: "variants", list: "productVariants", one: "productVariant", options: "ProductVariantListOptions", times: []string{"updatedAt"}, fixed: "createdAt",
			light: variantLight, full: variantFull, slow: true,
			doc: "Product variants with SKU, prices and stock levels. Read by updatedAt, and swept for what moves with the product, the stock or the taxes."},
	}
}

func kindOf(name string) (*kind, bool) {
	for _, k := range kinds() {
		if k.name == name {
			return k, true
		}
	}
	return nil, false
}

// stamps are the times that belong to a record, in whatever part of it.
type stamps struct {
	ID           json.RawMessage `json:"id"`
	State        string          `json:"state"`
	CreatedAt    *time.Time      `json:"createdAt"`
	UpdatedAt    *time.Time      `json:"updatedAt"`
	PlacedAt     *time.Time      `json:"orderPlacedAt"`
	Payments     []part          `json:"payments"`
	Fulfillments []part          `json:"fulfillments"`
	Addresses    []part          `json:"addresses"`
	StockLevels  []part          `json:"stockLevels"`
	Options      []part          `json:"options"`
	Product      *part           `json:"product"`
	Price        json.RawMessage `json:"price"`
	PriceWithTax json.RawMessage `json:"priceWithTax"`
	Changes      []part          `json:"modifications"`
	History      struct {
		Items []part `json:"items"`
	} `json:"history"`
}

type part struct {
	State     string     `json:"state"`
	CreatedAt *time.Time `json:"createdAt"`
	UpdatedAt *time.Time `json:"updatedAt"`
	Refunds   []part     `json:"refunds"`
	OnHand    int64      `json:"stockOnHand"`
	Allocated int64      `json:"stockAllocated"`
}

// latest is the latest of all times that belong to a record, or, where not the
// whole record counts, of those that the light query tells.
func (s *stamps) latest(whole bool) time.Time {
	var t time.Time
	later := func(c *time.Time) {
		if c != nil && c.After(t) {
			t = *c
		}
	}
	later(s.UpdatedAt)
	later(s.PlacedAt)
	all := [][]part{s.Payments, s.Fulfillments, s.Addresses, s.StockLevels, s.Options}
	if whole {
		all = append(all, s.Changes, s.History.Items)
	}
	if s.Product != nil {
		all = append(all, []part{*s.Product})
	}
	for len(all) > 0 {
		for _, p := range all[0] {
			if whole {
				later(p.CreatedAt)
			}
			later(p.UpdatedAt)
			all = append(all, p.Refunds)
		}
		all = all[1:]
	}
	return t.UTC()
}

// mark tells two states of a record apart as far as the light query can. It is
// the same for a record that was read whole.
func (s *stamps) mark() string {
	var parts []string // in no order of their own, as the shop tells them
	for _, p := range s.Payments {
		parts = append(parts, "p"+p.State)
		for _, r := range p.Refunds {
			parts = append(parts, "r"+r.State)
		}
	}
	for _, f := range s.Fulfillments {
		parts = append(parts, "f"+f.State)
	}
	for _, l := range s.StockLevels {
		parts = append(parts, fmt.Sprintf("s%d,%d", l.OnHand, l.Allocated))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s|%d|%s|%s|a%d|%s", s.State, s.latest(false).UnixMilli(), s.Price, s.PriceWithTax, len(s.Addresses), strings.Join(parts, "|"))
}

// at is the value of a time field.
func (s *stamps) at(name string) time.Time {
	var t *time.Time
	switch name {
	case "orderPlacedAt":
		t = s.PlacedAt
	case "createdAt":
		t = s.CreatedAt
	default:
		t = s.UpdatedAt
	}
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// id is the record's id as text; "" when there is none.
func (s *stamps) id() string {
	var text string
	if json.Unmarshal(s.ID, &text) == nil {
		return text
	}
	if string(s.ID) == "null" {
		return ""
	}
	return string(s.ID)
}

// event makes an event of a record as it was listed in full.
func event(raw json.RawMessage) connectors.Event {
	var s stamps
	if err := json.Unmarshal(raw, &s); err != nil {
		return connectors.Event{Body: raw, Problem: "the record is not as the shop's schema says: " + err.Error()}
	}
	body, err := ordered(raw)
	if err != nil {
		return connectors.Event{Body: raw, Problem: "the record is not JSON: " + err.Error()}
	}
	ev := connectors.Event{SourceID: s.id(), Body: body}
	if t := s.latest(true); !t.IsZero() {
		ev.Version, ev.Versioned, ev.ChangedAt = t.UnixMicro(), true, t
	}
	if ev.SourceID == "" {
		ev.Problem = "the record has no id"
	}
	return ev
}
