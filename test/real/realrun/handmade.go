package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// tryton writes to the ERP through its JSON-RPC API, to test the checker with hand-made records instead of syncd's.
type tryton struct {
	url     string
	session string // the Authorization header
	http    *http.Client
}

// login begins a session: with a password in each request, the server would hash it each time, which takes longer than the rest.
func (t *tryton) login(ctx context.Context, user, password string) error {
	var id int64
	var key string
	if err := t.request(ctx, &[]any{&id, &key}, "common.db.login", []any{user, vars{"password": password}, "en"}); err != nil {
		return err
	}
	t.session = "Session " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d:%s", user, id, key))
	return nil
}

// call calls a method of a model.
func (t *tryton) call(ctx context.Context, result any, method string, params ...any) error {
	return t.request(ctx, result, method, append(params, vars{"company": 1}))
}

func (t *tryton) request(ctx context.Context, result any, method string, params []any) error {
	body, err := json.Marshal(map[string]any{"id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", t.session)
	resp, err := t.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var envelope struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return fmt.Errorf("%s: %s: %.200q", method, resp.Status, answer)
	}
	if envelope.Error != nil {
		return fmt.Errorf("%s: %s", method, envelope.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(envelope.Result, result)
}

func decimal(c cents, pieces int) vars {
	// Four digits are what the ERP keeps of a price; with them a line of up to some hundred pieces comes out to the cent.
	tenThousandths := (int64(c)*100 + int64(pieces)/2) / int64(pieces)
	return vars{"__class__": "Decimal", "decimal": fmt.Sprintf("%d.%04d", tenThousandths/10000, tenThousandths%10000)}
}

func create(record vars) [][]any { return [][]any{{"create", []vars{record}}} }

// copyByHand brings an empty ERP to the shop's state, once and with no care for failures.
func (t *tryton) copyByHand(ctx context.Context, state shopState, prefix string) error {
	parties, addresses, products := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, c := range state.Customers {
		var ids []int64
		err := t.call(ctx, &ids, "model.party.party.create", []vars{{"name": c.Name, "code": prefix + c.ID,
			"addresses":          create(vars{"street": "1 Harbour Road", "city": "Springfield"}),
			"contact_mechanisms": create(vars{"type": "email", "value": c.Email})}})
		if err != nil {
			return err
		}
		var read []struct{ Addresses []int64 }
		if err := t.call(ctx, &read, "model.party.party.read", ids, []string{"addresses"}); err != nil {
			return err
		}
		parties[c.ID], addresses[c.ID] = ids[0], read[0].Addresses[0]
	}
	for _, sku := range state.SKUs {
		var templates []int64
		err := t.call(ctx, &templates, "model.product.template.create", []vars{{"name": sku, "code": sku, "type": "goods", "default_uom": 1,
			"sale_uom": 1, "salable": true, "account_category": 1, "list_price": decimal(100, 1), "products": create(vars{"suffix_code": ""})}})
		if err != nil {
			return err
		}
		var read []struct{ Products []int64 }
		if err := t.call(ctx, &read, "model.product.template.read", templates, []string{"products"}); err != nil {
			return err
		}
		products[sku] = read[0].Products[0]
	}
	for _, o := range state.Orders {
		if !o.Placed {
			continue
		}
		if err := t.saleByHand(ctx, o, parties[o.CustomerID], addresses[o.CustomerID], products); err != nil {
			return fmt.Errorf("order %s: %w", o.Code, err)
		}
	}
	return nil
}

func (t *tryton) saleByHand(ctx context.Context, o order, party, address int64, products map[string]int64) error {
	var lines []vars
	for _, l := range o.lines() {
		v := vars{"type": "line", "quantity": float64(l.Quantity), "unit_price": decimal(l.Amount, l.Quantity)}
		if l.SKU == "" {
			v["description"] = "Shipping"
		} else {
			v["product"], v["unit"] = products[l.SKU], 1
		}
		lines = append(lines, v)
	}
	today := time.Now().UTC()
	var ids []int64
	err := t.call(ctx, &ids, "model.sale.sale.create", []vars{{"company": 1, "currency": 1, "payment_term": 1, "party": party,
		"invoice_address": address, "shipment_address": address, "web_id": o.Code,
		"sale_date": vars{"__class__": "date", "year": today.Year(), "month": int(today.Month()), "day": today.Day()},
		"lines":     [][]any{{"create", lines}}}})
	if err != nil {
		return err
	}
	steps := map[string][]string{"quotation": {"quote"}, "processing": {"quote", "confirm"}, "cancelled": {"cancel"}}[saleState(o.State)]
	for _, step := range steps {
		if err := t.call(ctx, nil, "model.sale.sale."+step, ids); err != nil {
			return err
		}
	}
	return nil
}

// sabotages are faults made in the ERP's own tables, each inside a transaction that is rolled back. The checker must find each.
var sabotages = [...]struct {
	name, sql string
	found     func(report) int
}{
	{"a sale is deleted", `DELETE FROM sale_sale WHERE id = (SELECT max(id) FROM sale_sale WHERE state = 'quotation')`,
		func(r report) int { return r.Missing }},
	{"a sale exists again, without its key", `INSERT INTO sale_sale (company, currency, party, state, invoice_method, shipment_method, invoice_state, shipment_state)
		SELECT company, currency, party, state, invoice_method, shipment_method, invoice_state, shipment_state FROM sale_sale WHERE id = (SELECT max(id) FROM sale_sale)`,
		func(r report) int { return r.Doubled }},
	{"a line exists again", `INSERT INTO sale_line (sale, type, product, unit, quantity, unit_price)
		SELECT sale, type, product, unit, quantity, unit_price FROM sale_line
		WHERE sale = (SELECT max(id) FROM sale_sale WHERE state = 'quotation') LIMIT 1`,
		func(r report) int { return r.WrongTotal }},
	{"a price is one cent off", `UPDATE sale_line SET unit_price = unit_price + 0.01 WHERE product IS NULL AND sale = (SELECT max(id) FROM sale_sale WHERE state = 'processing')`,
		func(r report) int { return r.WrongTotal }},
	{"a sale is in another state", `UPDATE sale_sale SET state = 'draft' WHERE id = (SELECT max(id) FROM sale_sale WHERE state = 'processing')`,
		func(r report) int { return r.WrongState }},
	{"a line is invoiced again", `INSERT INTO account_invoice_line (company, currency, type, origin) SELECT company, currency, type, origin
		FROM account_invoice_line WHERE origin LIKE 'sale.line,%' LIMIT 1`,
		func(r report) int { return r.Doubled }},
	{"a party has its address twice", `INSERT INTO party_address (party, street, city, active, sequence) SELECT party, street, city, active, sequence
		FROM party_address WHERE id = (SELECT max(id) FROM party_address)`,
		func(r report) int { return r.Doubled }},
	{"a party is renamed", `UPDATE party_party SET name = 'Nobody' WHERE id = (SELECT max(id) FROM party_party)`,
		func(r report) int { return r.WrongContent }},
	{"a party is deleted's twin", `INSERT INTO party_party (name, code, active) SELECT name, code || '-1', active FROM party_party WHERE id = (SELECT max(id) FROM party_party)`,
		func(r report) int { return r.Doubled }},
	{"a product has no code", `UPDATE product_product SET code = NULL WHERE id = (SELECT max(id) FROM product_product)`,
		func(r report) int { return r.Missing }},
}

// proveChecker copies the shop by hand, expects no fault, and then expects each sabotage to be found.
func (r *run) proveChecker(ctx context.Context) error {
	t := &tryton{url: r.trytonURL + "/" + r.trytonDatabase + "/", http: &http.Client{Timeout: time.Minute}}
	if err := t.login(ctx, r.trytonUser, r.trytonPassword); err != nil {
		return err
	}
	state, err := r.shop.state(ctx)
	if err != nil {
		return err
	}
	if err := t.copyByHand(ctx, state, r.checker.PartyPrefix); err != nil {
		return fmt.Errorf("copy the shop by hand: %w", err)
	}
	conn, err := pgx.Connect(ctx, r.erpDSN)
	if err != nil {
		return fmt.Errorf("connect to the ERP's database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	erp, err := r.baseline.read(ctx, conn)
	if err != nil {
		return err
	}
	clean := r.checker.check(state, erp, nil)
	r.table.add("copied by hand", clean, 0)
	if clean.faults() != 0 {
		return fmt.Errorf("a copy made by hand has faults: %q", clean.Findings)
	}
	for _, s := range sabotages {
		if err := r.sabotage(ctx, conn, state, s.name, s.sql, s.found); err != nil {
			return err
		}
	}
	r.say("the checker found all %s faults", strconv.Itoa(len(sabotages)))
	return nil
}

func (r *run) sabotage(ctx context.Context, conn *pgx.Conn, state shopState, name, sql string, found func(report) int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	tag, err := tx.Exec(ctx, sql)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%s: there was no record to do it to", name)
	}
	erp, err := r.baseline.read(ctx, tx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if found(r.checker.check(state, erp, nil)) == 0 {
		return fmt.Errorf("%s: the checker did not find it", name)
	}
	return nil
}
