package main

import (
	"fmt"
	"strings"

	"syncd/connectors"
)

// desk writes into the ERP.
type desk struct {
	*trial
	entities map[string]connectors.Entity
	partyID  string
	variant  string
}

func (e *desk) create(entity, key string, fields map[string]any) connectors.Outcome {
	return e.entities[entity].(connectors.Creator).Create(e.ctx, connectors.Write{Key: key, Body: body(fields)})
}

func (e *desk) update(entity, key, link string, fields map[string]any) connectors.Outcome {
	return e.entities[entity].(connectors.Updater).Update(e.ctx, connectors.Write{Key: key, Link: link, Body: body(fields)})
}

func (e *desk) remove(entity, key, link string) connectors.Outcome {
	return e.entities[entity].(connectors.Remover).Remove(e.ctx, connectors.Write{Key: key, Link: link, Removal: connectors.Archive})
}

func (e *desk) find(entity, key string) string {
	l, err := e.entities[entity].(connectors.Finder).Find(e.ctx, connectors.Write{Key: key})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", l)
}

func (e *desk) party() {
	key := e.prefix + "-P"
	fields := map[string]any{"name": "Ada Trial", "lang": "en",
		"addresses":          []any{map[string]any{"street": "1 Road", "city": "Bern", "country": "DE"}, map[string]any{"street": "2 Road", "city": "Bern", "country": "DE"}},
		"contact_mechanisms": []any{map[string]any{"type": "email", "value": "ada@example.com"}}}
	o := e.is(connectors.Applied, e.create("party", key, fields), "create a party with two addresses and an e-mail")
	e.partyID = o.Link
	e.is(connectors.Unchanged, e.update("party", key, o.Link, fields), "write it again")
	fields["addresses"] = []any{map[string]any{"street": "2 Road", "city": "Bern", "country": "DE"}}
	e.is(connectors.Applied, e.update("party", key, o.Link, fields), "leave out its first address")
	e.is(connectors.Unchanged, e.update("party", key, o.Link, fields), "write it again")
	fields["addresses"] = []any{map[string]any{"street": "3 Road", "city": "Bern", "country": "DE"}}
	fields["name"] = "Ada Trial-Byron"
	e.is(connectors.Applied, e.update("party", key, o.Link, fields), "change its name and its address")
	dup := e.create("party", key, fields)
	e.is(connectors.Invalid, dup, "create it twice")
	e.tell(dup.MaybeDuplicate, "which may be a duplicate: %v", dup.MaybeDuplicate)
	e.is(connectors.Applied, e.remove("party", key, o.Link), "archive it")
	e.is(connectors.Unchanged, e.remove("party", key, o.Link), "archive it again")
	e.tell(strings.Contains(e.find("party", key), "Archived:true"), "found %s", e.find("party", key))
	e.is(connectors.Invalid, e.create("party", key, fields), "create it while it is archived")
	e.is(connectors.Applied, e.update("party", key, o.Link, fields), "bring it back")
	e.is(connectors.Applied, e.update("party", key+"-NEW", o.Link, fields), "give it another code")
	e.is(connectors.Missing, e.update("party", key, "999999", fields), "write through a link that leads nowhere")
	e.is(connectors.Unchanged, e.remove("party", key, "999999"), "archive through it")
}

func (e *desk) product() {
	key := e.prefix + "-X"
	fields := map[string]any{"name": "Trial mug", "type": "goods", "default_uom": "Unit", "sale_uom": "Unit", "salable": true, "list_price": "12.50", "account_category": "Goods"}
	o := e.is(connectors.Applied, e.create("product", key, fields), "create a product")
	e.variant = o.Link
	fields["list_price"] = "12.5000"
	e.is(connectors.Unchanged, e.update("product", key, o.Link, fields), "write it again, with a price of more digits")
	fields["list_price"] = "13"
	e.is(connectors.Applied, e.update("product", key, o.Link, fields), "change its price")
	e.is(connectors.Invalid, e.create("product", key, fields), "create it twice")
	e.is(connectors.Applied, e.remove("product", key, o.Link), "archive it")
	e.is(connectors.Unchanged, e.remove("product", key, o.Link), "archive it again")
	e.tell(strings.Contains(e.find("product", key), "Archived:true"), "found %s", e.find("product", key))
	e.is(connectors.Applied, e.update("product", key, o.Link, fields), "bring it back")
	fields["active"] = false
	e.is(connectors.Applied, e.update("product", key, o.Link, fields), "write it as not active")
	delete(fields, "active")
	e.is(connectors.Applied, e.update("product", key, o.Link, fields), "and as active again")
	e.is(connectors.Missing, e.update("product", key, "999999", fields), "write through a link that leads nowhere")
}

func (e *desk) lines(quantity int) []any {
	return []any{
		map[string]any{"type": "line", "product": e.variant, "quantity": quantity, "unit": "Unit", "unit_price": "12.6367"},
		map[string]any{"type": "line", "description": "Shipping", "quantity": 1, "unit_price": "5.95"},
	}
}

// states brings a sale from every state to every other.
func (e *desk) states() {
	n := 0
	for _, from := range []string{"draft", "quotation", "processing", "cancelled"} {
		for _, to := range []string{"draft", "quotation", "processing", "cancelled"} {
			n++
			key := fmt.Sprintf("%s-S%d", e.prefix, n)
			fields := map[string]any{"party": number(e.partyID), "reference": key, "currency": "USD", "payment_term": "Immediate", "sale_date": "2026-11-29", "lines": e.lines(3), "state": from}
			fields["lines"].([]any)[0].(map[string]any)["product"] = number(e.variant)
			o := e.create("sale", key, fields)
			if o.Class != connectors.Applied {
				e.is(connectors.Applied, o, "create a sale")
				continue
			}
			created := e.gate.n.Swap(0)
			adv := e.advance(key, o.Link, fields)
			if from != "draft" && adv.Class != connectors.Applied {
				e.is(connectors.Applied, adv, "bring a new sale to "+from)
				continue
			}
			advanced := e.gate.n.Swap(0)
			fields["state"] = to
			want := connectors.Applied
			switch {
			case from == to:
				want = connectors.Unchanged
			case from == "processing":
				want = connectors.Frozen
			}
			up := e.update("sale", key, o.Link, fields)
			e.tell(up.Class == connectors.Unchanged, "a sale in %s (create %d, advance %d requests), written again: %s", from, created, advanced, up.Class)
			e.is(want, e.advance(key, o.Link, fields), "  and brought to "+to)
			fields["lines"] = e.lines(4)
			fields["lines"].([]any)[0].(map[string]any)["product"] = number(e.variant)
			want = connectors.Applied
			switch {
			case from == "processing" || to == "processing":
				want = connectors.Frozen
			case to == "cancelled":
				want = connectors.Unchanged
			}
			o2 := e.is(want, e.update("sale", key, o.Link, fields), "  and changed there")
			if o2.Class == connectors.Applied {
				again := map[string]connectors.Class{"draft": connectors.Unchanged, "quotation": connectors.Applied}[to]
				e.is(again, e.advance(key, o.Link, fields), "  and brought to "+to+" again")
			}
		}
	}
}

func (e *desk) advance(key, link string, fields map[string]any) connectors.Outcome {
	return e.entities["sale"].(connectors.Advancer).Advance(e.ctx, connectors.Write{Key: key, Link: link, Body: body(fields)})
}

// refusals writes what the ERP refuses, and looks whether it is told well.
func (e *desk) refusals() {
	key := e.prefix + "-R"
	sale := func(more map[string]any) map[string]any {
		f := map[string]any{"party": number(e.partyID), "currency": "USD"}
		for k, v := range more {
			f[k] = v
		}
		return f
	}
	for _, c := range []struct {
		what   string
		fields map[string]any
	}{
		{"a party that does not exist", sale(map[string]any{"party": 999999})},
		{"a currency that does not exist", sale(map[string]any{"currency": "XYZ"})},
		{"a field that does not exist", sale(map[string]any{"nope": 1})},
		{"a date that is none", sale(map[string]any{"sale_date": "29.11.2026"})},
		{"a price with too many digits", sale(map[string]any{"lines": []any{map[string]any{"type": "line", "quantity": 1, "unit_price": "1.123456"}}})},
		{"a reference on two lines", sale(map[string]any{"reference": "Ada\nLovelace"})},
		{"no party", map[string]any{"currency": "USD"}},
		{"a state that is none", sale(map[string]any{"state": "shipped"})},
	} {
		e.is(connectors.Invalid, e.create("sale", key, c.fields), "a sale with "+c.what)
	}
}

// number is a link as it stands in a record.
func number(link string) any { return rawNumber(link) }

type rawNumber string

func (n rawNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }
