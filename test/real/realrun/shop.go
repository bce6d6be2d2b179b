package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// shop is the Vendure shop: what its customers do, through the shop API, and what its staff do, through the admin API.
type shop struct {
	api   *graphql // for customers
	admin *graphql // for staff
	token string   // the administrator's session
}

const orError = ` ... on ErrorResult { errorCode message } `

// openShop logs in as the shop's administrator.
func openShop(ctx context.Context, url, user, password string) (*shop, error) {
	s := &shop{api: newGraphQL(url + "/shop-api"), admin: newGraphQL(url + "/admin-api")}
	_, token, err := s.admin.mutate(ctx, "", `($u: String!, $p: String!) {
		login(username: $u, password: $p) { ... on CurrentUser { id }`+orError+`} }`, vars{"u": user, "p": password})
	if err != nil {
		return nil, fmt.Errorf("log in to the shop as %s: %w", user, err)
	}
	if token == "" {
		return nil, fmt.Errorf("log in to the shop as %s: no session token in the answer", user)
	}
	s.token = token
	return s, nil
}

// basket is what one visit to the shop wants to buy.
type basket struct {
	Email, First, Last string
	Variants           []string // ids
	Quantities         []int
}

// visit is one customer's session with a cart in it.
type visit struct {
	shop  *shop
	token string
	order result
}

// fill begins a visit and puts the basket into a cart that has a customer.
func (s *shop) fill(ctx context.Context, b basket) (*visit, error) {
	v := &visit{shop: s}
	for i, variant := range b.Variants {
		r, token, err := s.api.mutate(ctx, v.token, `($v: ID!, $q: Int!) {
			addItemToOrder(productVariantId: $v, quantity: $q) { ... on Order { id code state }`+orError+`} }`,
			vars{"v": variant, "q": b.Quantities[i]})
		if err != nil {
			return nil, err
		}
		if v.token == "" {
			v.token = token
		}
		v.order = r
	}
	_, _, err := s.api.mutate(ctx, v.token, `($c: CreateCustomerInput!) {
		setCustomerForOrder(input: $c) { ... on Order { id }`+orError+`} }`,
		vars{"c": vars{"emailAddress": b.Email, "firstName": b.First, "lastName": b.Last}})
	return v, err
}

// checkOut turns the cart into an order: address, shipping, payment. The method "card" settles at once, "invoice" later.
func (v *visit) checkOut(ctx context.Context, b basket, method string) (result, error) {
	api := v.shop.api
	_, _, err := api.mutate(ctx, v.token, `($a: CreateAddressInput!) {
		setOrderShippingAddress(input: $a) { ... on Order { id }`+orError+`} }`,
		vars{"a": vars{"fullName": b.First + " " + b.Last, "streetLine1": "1 Harbour Road", "city": "Springfield", "postalCode": "12345", "countryCode": "US"}})
	if err != nil {
		return result{}, err
	}
	var offered struct {
		EligibleShippingMethods []struct{ ID string }
	}
	if _, err := api.query(ctx, v.token, `{ eligibleShippingMethods { id } }`, nil, &offered); err != nil {
		return result{}, err
	}
	if len(offered.EligibleShippingMethods) == 0 {
		return result{}, fmt.Errorf("the shop offers no way to ship order %s", v.order.Code)
	}
	if _, _, err = api.mutate(ctx, v.token, `($m: [ID!]!) {
		setOrderShippingMethod(shippingMethodId: $m) { ... on Order { id }`+orError+`} }`,
		vars{"m": []string{offered.EligibleShippingMethods[0].ID}}); err != nil {
		return result{}, err
	}
	if _, _, err = api.mutate(ctx, v.token, `{
		transitionOrderToState(state: "ArrangingPayment") { ... on Order { id }`+orError+`} }`, nil); err != nil {
		return result{}, err
	}
	r, _, err := api.mutate(ctx, v.token, `($m: String!) {
		addPaymentToOrder(input: {method: $m, metadata: {}}) { ... on Order { id code state }`+orError+`} }`, vars{"m": method})
	return r, err
}

func (s *shop) staff(ctx context.Context, mutation string, v vars) (result, error) {
	r, _, err := s.admin.mutate(ctx, s.token, mutation, v)
	return r, err
}

// settle receives the money of an order whose payment was only authorized.
func (s *shop) settle(ctx context.Context, o order) error {
	if len(o.PaymentIDs) == 0 {
		return fmt.Errorf("order %s has no payment to settle", o.Code)
	}
	_, err := s.staff(ctx, `($p: ID!) { settlePayment(id: $p) { ... on Payment { id state }`+orError+`} }`, vars{"p": o.PaymentIDs[0]})
	return err
}

// ship sends all of an order, and delivers it if wanted.
func (s *shop) ship(ctx context.Context, o order, deliver bool) error {
	var lines []vars
	for i, l := range o.Lines {
		if l.Quantity > 0 {
			lines = append(lines, vars{"orderLineId": o.LineIDs[i], "quantity": l.Quantity})
		}
	}
	sent, err := s.staff(ctx, `($f: FulfillOrderInput!) { addFulfillmentToOrder(input: $f) { ... on Fulfillment { id state }`+orError+`} }`,
		vars{"f": vars{"lines": lines, "handler": vars{"code": "manual-fulfillment", "arguments": []vars{
			{"name": "method", "value": "Parcel"}, {"name": "trackingCode", "value": "T-" + o.Code}}}}})
	if err != nil {
		return err
	}
	states := []string{"Shipped"}
	if deliver {
		states = append(states, "Delivered")
	}
	for _, state := range states {
		_, err := s.staff(ctx, `($f: ID!, $s: String!) { transitionFulfillmentToState(id: $f, state: $s) { ... on Fulfillment { id state }`+orError+`} }`,
			vars{"f": sent.ID, "s": state})
		if err != nil {
			return err
		}
	}
	return nil
}

// cancel cancels a whole order.
func (s *shop) cancel(ctx context.Context, o order) error {
	_, err := s.staff(ctx, `($c: CancelOrderInput!) { cancelOrder(input: $c) { ... on Order { id state }`+orError+`} }`,
		vars{"c": vars{"orderId": o.ID, "reason": "changed my mind", "cancelShipping": false}})
	return err
}

// cancelPiece takes one piece off an order's first line that has more than one.
func (s *shop) cancelPiece(ctx context.Context, o order) error {
	i := slices.IndexFunc(o.Lines, func(l line) bool { return l.Quantity > 1 })
	if i < 0 {
		return fmt.Errorf("order %s has no line with more than one piece", o.Code)
	}
	_, err := s.staff(ctx, `($c: CancelOrderInput!) { cancelOrder(input: $c) { ... on Order { id state }`+orError+`} }`,
		vars{"c": vars{"orderId": o.ID, "reason": "one less", "lines": []vars{{"orderLineId": o.LineIDs[i], "quantity": 1}}}})
	return err
}

// rename gives a customer another name.
func (s *shop) rename(ctx context.Context, customerID, first, last string) error {
	_, err := s.staff(ctx, `($c: UpdateCustomerInput!) { updateCustomer(input: $c) { ... on Customer { id }`+orError+`} }`,
		vars{"c": vars{"id": customerID, "firstName": first, "lastName": last}})
	return err
}

// variants are the ids of all that can be bought.
func (s *shop) variants(ctx context.Context) ([]string, error) {
	var data struct {
		ProductVariants struct{ Items []struct{ ID string } }
	}
	if _, err := s.admin.query(ctx, s.token, `{ productVariants(options: {take: 1000, sort: {id: ASC}}) { items { id } } }`, nil, &data); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(data.ProductVariants.Items))
	for _, v := range data.ProductVariants.Items {
		ids = append(ids, v.ID)
	}
	return ids, nil
}

// state reads all that the shop holds.
func (s *shop) state(ctx context.Context) (shopState, error) {
	var state shopState
	customers, err := pages[struct{ ID, FirstName, LastName, EmailAddress string }](ctx, s, "customers",
		"CustomerListOptions", `id firstName lastName emailAddress`)
	if err != nil {
		return state, err
	}
	for _, c := range customers {
		state.Customers = append(state.Customers, customer{ID: c.ID, Name: strings.TrimSpace(c.FirstName + " " + c.LastName), Email: c.EmailAddress})
	}
	variants, err := pages[struct{ SKU string }](ctx, s, "productVariants", "ProductVariantListOptions", `sku`)
	if err != nil {
		return state, err
	}
	for _, v := range variants {
		state.SKUs = append(state.SKUs, v.SKU)
	}
	orders, err := pages[shopOrder](ctx, s, "orders", "OrderListOptions", shopOrderFields)
	if err != nil {
		return state, err
	}
	for _, o := range orders {
		state.Orders = append(state.Orders, o.order())
	}
	return state, nil
}

const shopOrderFields = `id code state orderPlacedAt totalWithTax shippingWithTax customer { id } payments { id }
	lines { id quantity proratedLinePriceWithTax productVariant { sku } }`

type shopOrder struct {
	ID, Code, State string
	OrderPlacedAt   *string
	TotalWithTax    cents
	ShippingWithTax cents
	Customer        *struct{ ID string }
	Payments        []struct{ ID string }
	Lines           []struct {
		ID                       string
		Quantity                 int
		ProratedLinePriceWithTax cents
		ProductVariant           struct{ SKU string }
	}
}

func (o shopOrder) order() order {
	out := order{ID: o.ID, Code: o.Code, State: o.State, Placed: o.OrderPlacedAt != nil, Total: o.TotalWithTax, Shipping: o.ShippingWithTax}
	if o.Customer != nil {
		out.CustomerID = o.Customer.ID
	}
	for _, p := range o.Payments {
		out.PaymentIDs = append(out.PaymentIDs, p.ID)
	}
	for _, l := range o.Lines {
		out.Lines = append(out.Lines, line{SKU: l.ProductVariant.SKU, Quantity: l.Quantity, Amount: l.ProratedLinePriceWithTax})
		out.LineIDs = append(out.LineIDs, l.ID)
	}
	return out
}

// pages reads a whole list. The order by id is stable while new records come in behind.
func pages[T any](ctx context.Context, s *shop, list, options, fields string) ([]T, error) {
	const page = 200
	var all []T
	for {
		var data map[string]struct {
			TotalItems int
			Items      []T
		}
		_, err := s.admin.query(ctx, s.token, fmt.Sprintf(`query($o: %s) { %s(options: $o) { totalItems items { %s } } }`, options, list, fields),
			vars{"o": vars{"take": page, "skip": len(all), "sort": vars{"id": "ASC"}}}, &data)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", list, err)
		}
		all = append(all, data[list].Items...)
		if len(data[list].Items) < page {
			return all, nil
		}
	}
}

// orderByID reads one order as it is now.
func (s *shop) orderByID(ctx context.Context, id string) (order, error) {
	var data struct{ Order *shopOrder }
	if _, err := s.admin.query(ctx, s.token, `query($i: ID!) { order(id: $i) { `+shopOrderFields+` } }`, vars{"i": id}, &data); err != nil {
		return order{}, err
	}
	if data.Order == nil {
		return order{}, fmt.Errorf("the shop has no order with the id %s", id)
	}
	return data.Order.order(), nil
}
