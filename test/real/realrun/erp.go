package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// baseline tells the records that the ERP's template database came with from those that were synced.
type baseline struct {
	party, product, sale int64
}

func readBaseline(ctx context.Context, q querier) (baseline, error) {
	var b baseline
	err := q.QueryRow(ctx, `SELECT (SELECT coalesce(max(id), 0) FROM party_party),
		(SELECT coalesce(max(id), 0) FROM product_template), (SELECT coalesce(max(id), 0) FROM sale_sale)`).
		Scan(&b.party, &b.product, &b.sale)
	if err != nil {
		return b, fmt.Errorf("read what the ERP came with: %w", err)
	}
	return b, nil
}

// read reads the ERP's own tables: what its API would say is not asked, since that is what syncd goes by.
func (b baseline) read(ctx context.Context, q querier) (erpState, error) {
	var state erpState
	var err error
	if state.Parties, err = b.parties(ctx, q); err != nil {
		return state, fmt.Errorf("read the ERP's parties: %w", err)
	}
	if state.Products, err = b.products(ctx, q); err != nil {
		return state, fmt.Errorf("read the ERP's products: %w", err)
	}
	if state.Sales, err = b.sales(ctx, q); err != nil {
		return state, fmt.Errorf("read the ERP's sales: %w", err)
	}
	return state, nil
}

func (b baseline) parties(ctx context.Context, q querier) ([]party, error) {
	rows, err := q.Query(ctx, `
		SELECT coalesce(p.code, ''), coalesce(p.name, ''),
			coalesce((SELECT array_agg(c.value ORDER BY c.value) FROM party_contact_mechanism c
				WHERE c.party = p.id AND c.type = 'email' AND c.active), '{}'),
			(SELECT count(*) FROM (SELECT 1 FROM party_contact_mechanism c WHERE c.party = p.id AND c.active
				GROUP BY c.type, c.value HAVING count(*) > 1) contacts) +
			(SELECT count(*) FROM (SELECT 1 FROM party_address a WHERE a.party = p.id AND a.active
				GROUP BY a.name, a.party_name, a.street, a.postal_code, a.city, a.country HAVING count(*) > 1) addresses)
		FROM party_party p WHERE p.id > $1 ORDER BY p.id`, b.party)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p party, err error) {
		err = row.Scan(&p.Code, &p.Name, &p.Emails, &p.DoubledParts)
		return p, err
	})
}

// products counts a template without a product, as a creation that stopped half-way would leave it, as a product without a code.
func (b baseline) products(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT coalesce(p.code, '') FROM product_template t
		LEFT JOIN product_product p ON p.template = t.id WHERE t.id > $1 ORDER BY p.id`, b.product)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (b baseline) sales(ctx context.Context, q querier) ([]sale, error) {
	rows, err := q.Query(ctx, `
		SELECT s.id, coalesce(s.web_id, ''), s.state, coalesce(p.code, ''), round(s.total_amount_cache * 100)::bigint
		FROM sale_sale s LEFT JOIN party_party p ON p.id = s.party WHERE s.id > $1 ORDER BY s.id`, b.sale)
	if err != nil {
		return nil, err
	}
	ids := []int64{}
	sales, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s sale, err error) {
		var id int64
		err = row.Scan(&id, &s.WebID, &s.State, &s.PartyCode, &s.Kept)
		ids = append(ids, id)
		return s, err
	})
	if err != nil {
		return nil, err
	}
	if err := addLines(ctx, q, ids, sales); err != nil {
		return nil, fmt.Errorf("their lines: %w", err)
	}
	return sales, nil
}

// addLines reads the lines of all sales; ids are the sales' ids, in the same order and ascending.
func addLines(ctx context.Context, q querier, ids []int64, sales []sale) error {
	rows, err := q.Query(ctx, `
		SELECT l.sale, coalesce(p.code, ''), l.quantity::int, round(round(l.quantity::numeric * l.unit_price, 2) * 100)::bigint,
			EXISTS (SELECT 1 FROM sale_line_account_tax t WHERE t.line = l.id),
			greatest((SELECT count(*) FROM account_invoice_line i WHERE i.origin = 'sale.line,' || l.id) - 1, 0)
		FROM sale_line l LEFT JOIN product_product p ON p.id = l.product
		WHERE l.type = 'line' AND l.sale = ANY ($1) ORDER BY l.id`, ids)
	if err != nil {
		return err
	}
	var id int64
	var l line
	var taxed bool
	var invoicedAgain int
	_, err = pgx.ForEachRow(rows, []any{&id, &l.SKU, &l.Quantity, &l.Amount, &taxed, &invoicedAgain}, func() error {
		i, found := slices.BinarySearch(ids, id)
		if !found {
			return fmt.Errorf("a line belongs to the unknown sale %d", id)
		}
		s := &sales[i]
		s.Lines = append(s.Lines, l)
		s.Total += l.Amount
		s.Taxed = s.Taxed || taxed
		s.DoubledInvoices += invoicedAgain
		return nil
	})
	return err
}
