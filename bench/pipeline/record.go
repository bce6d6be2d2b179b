package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// sumOf stands for a record; never 0.
func sumOf(record []byte) uint64 {
	sum := sha256.Sum256(record)
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}

// expected are the sums of the records that the orders of a file become. It knows
// nothing of jq and reads with the standard library, so that it does not share a
// mistake with what it judges.
func expected(path string) (sums []uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return sums, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the orders: %w", err)
		}
		record, err := recordOf(line)
		if err != nil {
			return nil, fmt.Errorf("read order %d: %w", firstID+len(sums), err)
		}
		sums = append(sums, sumOf(record))
	}
}

// recordOf makes of an order what the program in the configuration makes of it.
func recordOf(order []byte) ([]byte, error) {
	var o struct {
		ID        json.Number
		Name      string
		Updated   string `json:"updated_at"`
		Currency  string
		Email     string
		Status    string  `json:"financial_status"`
		Cancelled *string `json:"cancelled_at"`
		Total     string  `json:"total_price"`
		Tax       string  `json:"total_tax"`
		Customer  struct {
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		}
		Shipping struct {
			City    string
			Zip     string
			Country string `json:"country_code"`
		} `json:"shipping_address"`
		Discounts []struct{ Code string } `json:"discount_codes"`
		Lines     []struct {
			SKU      string
			Quantity int
			Price    string
		} `json:"line_items"`
	}
	if err := json.Unmarshal(order, &o); err != nil {
		return nil, err
	}
	status, items := "hold", 0
	if o.Status == "paid" && o.Cancelled == nil {
		status = "release"
	}
	lines := []map[string]any{}
	for _, l := range o.Lines {
		items += l.Quantity
		lines = append(lines, map[string]any{"sku": l.SKU, "qty": l.Quantity, "price": l.Price})
	}
	upper := func(r rune) rune { // jq's ascii_upcase
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}
	lower := func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(map[string]any{"ext_id": o.ID, "number": strings.TrimPrefix(o.Name, "#"), "updated": o.Updated,
		"customer": o.Customer.First + " " + o.Customer.Last, "email": strings.Map(lower, o.Email), "country": o.Shipping.Country,
		"zip": o.Shipping.Zip, "city": strings.Map(upper, o.Shipping.City), "currency": o.Currency, "total": o.Total, "tax": o.Tax,
		"status": status, "discount": o.Discounts[0].Code, "items": items, "lines": lines})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
