package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// orders writes n orders as JSON lines and returns how many pieces were ordered
// in all, by which the result is checked. The same n and size always give the
// same file, and a longer file begins like a shorter one.
func orders(path string, n, size int) (pieces int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("write orders: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	g := generator{rnd: rand.New(rand.NewPCG(1, 2)), size: size}
	for i := range n {
		if _, err := w.Write(g.order(i)); err != nil {
			return 0, fmt.Errorf("write orders: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return 0, fmt.Errorf("write orders: %w", err)
	}
	return g.pieces, f.Close()
}

// firstID is the id of the first order.
const firstID = 5501234567000000

// generator makes orders as shops give them: most of an order is of no interest
// to the record that is made of it.
type generator struct {
	rnd    *rand.Rand
	size   int
	buf    []byte
	pieces int64
}

func (g *generator) printf(format string, args ...any) { g.buf = fmt.Appendf(g.buf, format, args...) }

func (g *generator) pick(of ...string) string { return of[g.rnd.IntN(len(of))] }

func (g *generator) money() string {
	return fmt.Sprintf("%d.%02d", 1+g.rnd.IntN(400), g.rnd.IntN(100))
}

// order returns one order with its line end; it is valid until the next call.
func (g *generator) order(i int) []byte {
	g.buf = g.buf[:0]
	at := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
	first, last := g.pick("Ada", "Grace", "Élodie", "Jürgen", "Łukasz", "Mary"), g.pick("Lovelace", "Hopper", "Dubois", "Müller", "Nowak", "O'Neil")
	g.printf(`{"id":%d,"name":"#%d","created_at":%q,"updated_at":%q,"currency":%q,"email":"%s.%d@Example.com",`,
		firstID+i, 100000+i, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339), g.pick("EUR", "GBP", "CHF"), first, i)
	g.printf(`"financial_status":%q,"fulfillment_status":null,"cancelled_at":null,"total_price":%q,"total_tax":%q,"total_weight":%d,"test":false,`,
		g.pick("paid", "paid", "pending"), g.money(), g.money(), g.rnd.IntN(9000))
	g.printf(`"customer":{"id":%d,"first_name":%q,"last_name":%q,"orders_count":%d,"verified_email":true,"tags":"newsletter, loyal","phone":"+49 30 %07d"},`,
		7700000000+g.rnd.IntN(50000), first, last, g.rnd.IntN(40), g.rnd.IntN(1e7))
	g.address("billing_address", first, last)
	g.address("shipping_address", first, last)
	g.printf(`"discount_codes":[{"code":"WELCOME%d","amount":"5.00","type":"fixed_amount"}],"line_items":[`, g.rnd.IntN(100))
	for n := 0; n < 2 || len(g.buf) < g.size-400; n++ {
		if n > 0 {
			g.buf = append(g.buf, ',')
		}
		g.line(i, n)
	}
	g.printf(`],"shipping_lines":[{"title":"Standard","price":"4.90","code":"STD"}],"note":"`)
	for len(g.buf) < g.size-120 {
		g.buf = append(g.buf, "please ring twice; "...)
	}
	g.printf(`","source_name":"web","landing_site":"/collections/all?utm_source=mail&utm_id=%d"}`, g.rnd.IntN(1e6))
	g.buf = append(g.buf, '\n')
	return g.buf
}

func (g *generator) address(name, first, last string) {
	g.printf(`%q:{"first_name":%q,"last_name":%q,"company":null,"address1":"%s %d","address2":null,"city":%q,"zip":"%05d","province":null,"country":"Germany","country_code":%q,"latitude":%s,"longitude":%s},`,
		name, first, last, g.pick("Hauptstraße", "Rue de la Paix", "High Street", "ul. Długa"), 1+g.rnd.IntN(200), g.pick("Berlin", "Köln", "Lyon", "Leeds", "Gdańsk"),
		g.rnd.IntN(100000), g.pick("DE", "FR", "GB", "PL"), strconv.FormatFloat(48+g.rnd.Float64()*6, 'f', 6, 64), strconv.FormatFloat(6+g.rnd.Float64()*8, 'f', 6, 64))
}

func (g *generator) line(i, n int) {
	quantity := 1 + g.rnd.IntN(4)
	g.pieces += int64(quantity)
	g.printf(`{"id":%d,"sku":"SKU-%05d-%s","title":"%s %s","quantity":%d,"price":%q,"grams":%d,"taxable":true,"requires_shipping":true,"vendor":"House","properties":[],`,
		1000000*(i%9000)+n, g.rnd.IntN(100000), g.pick("S", "M", "L"), g.pick("Blue", "Green", "Plain"), g.pick("cotton shirt", "linen shirt", "wool jumper"),
		quantity, g.money(), 100+g.rnd.IntN(900))
	g.printf(`"tax_lines":[{"title":"VAT","rate":0.19,"price":%q}],"fulfillable_quantity":%d,"variant_title":null}`, g.money(), quantity)
}
