package mapping

import (
	"context"
	_ "embed"
	"encoding/json"
	"testing"
)

//go:embed testdata/order.json
var orderJSON []byte

// orderMap is a mapping of usual size: 15 fields, lines among them.
const orderMap = `(.shipping_address // .billing_address) as $s
| {ext_id: .id, number: (.name | ltrimstr("#")), updated: .updated_at,
   customer: (.customer.first_name + " " + .customer.last_name), email: (.email | ascii_downcase),
   country: $s.country_code, zip: $s.zip, city: ($s.city | ascii_upcase), currency,
   total: .total_price, tax: .total_tax,
   status: (if .financial_status == "paid" and .cancelled_at == null then "release" else "hold" end),
   discount: (.discount_codes[0].code // ""), items: ([.line_items[].quantity] | add),
   lines: [.line_items[] | {sku, qty: .quantity, price}]}`

// orderMapFull uses what is added to jq: money, a reference, a date.
const orderMapFull = `(.shipping_address // .billing_address) as $s
| {ext_id: .id, number: (.name | ltrimstr("#")), date: date_in(.created_at; "Europe/Berlin"),
   party: ref("party"; .customer.id), email: (.email | ascii_downcase),
   country: $s.country_code, zip: $s.zip, city: truncate($s.city; 30), currency,
   total: money(.total_price; .currency), tax: money(.total_tax; .currency),
   net: dec_sub(.total_price; .total_tax),
   status: (if .financial_status == "paid" and .cancelled_at == null then "release" else "hold" end),
   items: ([.line_items[].quantity] | add),
   lines: [.line_items[] | {sku: trim_key(.sku), qty: .quantity, price: money(.price; "EUR")}]}`

func benchmarkMap(b *testing.B, program string) {
	p, err := Compile(Source{Map: program, Key: ".ext_id"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Map(context.Background(), orderJSON, Meta{SourceID: "1", Stream: "orders"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMapOrderOf4KBTo15Fields(b *testing.B) { benchmarkMap(b, orderMap) }

func BenchmarkMapOrderWithMoneyAndRefs(b *testing.B) { benchmarkMap(b, orderMapFull) }

func BenchmarkDecodeOrderOf4KB(b *testing.B) {
	b.ReportAllocs()
	var d decoder
	for b.Loop() {
		if _, _, err := d.decode(orderJSON, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeOrderOf4KBInPart(b *testing.B) {
	p, err := Compile(Source{Map: orderMap, Key: ".ext_id"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var d decoder
	for b.Loop() {
		if _, _, err := d.decode(orderJSON, p.wanted); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolveRefs(b *testing.B) {
	p, err := Compile(Source{Map: orderMapFull, Key: ".ext_id"})
	if err != nil {
		b.Fatal(err)
	}
	pairs, err := p.Map(context.Background(), orderJSON, Meta{})
	if err != nil {
		b.Fatal(err)
	}
	lookup := func(Ref) (json.RawMessage, bool) { return json.RawMessage("4711"), true }
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ResolveRefs(pairs[0].Body, lookup); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(Source{Map: orderMapFull, Key: ".ext_id"}); err != nil {
			b.Fatal(err)
		}
	}
}
