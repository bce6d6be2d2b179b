package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"syncd/bench/internal/lab"
	"syncd/jobs"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// world is the folder and the server in which everything happens.
type world struct {
	dir    string
	server *lab.Server
}

func newWorld(ctx context.Context) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "syncd-pipeline-"); err != nil {
		return w, fmt.Errorf("make a folder: %w", err)
	}
	w.server, err = lab.NewServer(ctx)
	return w, err
}

func (w *world) close() error {
	var err error
	if w.server != nil {
		err = w.server.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// journal is one place for a journal.
type journal struct {
	// setting is what the configuration says.
	setting string
	// look opens it beside the daemon.
	look func(ctx context.Context) (jobs.Engine, error)
}

const (
	erpDatabase     = "erp"
	journalDatabase = "journal"
)

const targetTable = `CREATE TABLE orders (ext_id text PRIMARY KEY, number text, updated timestamptz, customer text, email text, country text,
	zip text, city text, currency text, total numeric(18,2), tax numeric(18,2), status text, discount text, items int, lines jsonb, sync_version bigint)`

// fresh makes an empty target and an empty journal.
func (w *world) fresh(ctx context.Context, kind string) (journal, error) {
	if err := w.server.Fresh(ctx, erpDatabase, journalDatabase); err != nil {
		return journal{}, err
	}
	c, err := pgx.Connect(ctx, w.server.DSN(erpDatabase))
	if err != nil {
		return journal{}, err
	}
	_, err = c.Exec(ctx, targetTable)
	if err = errors.Join(err, c.Close(ctx)); err != nil {
		return journal{}, fmt.Errorf("make the target table: %w", err)
	}
	if kind == "postgres" {
		dsn := w.server.DSN(journalDatabase)
		return journal{dsn, func(ctx context.Context) (jobs.Engine, error) {
			return postgres.Open(ctx, dsn, postgres.Options{ReadOnly: true, MaxConns: 1})
		}}, nil
	}
	dir, err := os.MkdirTemp(w.dir, "journal-")
	if err != nil {
		return journal{}, fmt.Errorf("make a folder: %w", err)
	}
	path := filepath.Join(dir, "syncd.db")
	return journal{"sqlite:" + path, func(ctx context.Context) (jobs.Engine, error) {
		return sqlite.Open(ctx, path, sqlite.Options{ReadOnly: true})
	}}, nil
}

// config writes a configuration; source is the client `shop`, every how often it is read,
// and target the client `erp`.
func (w *world) config(name, journal, flow, source, target, every string) (string, error) {
	path := filepath.Join(w.dir, name+".yaml")
	text := fmt.Sprintf(configText, journal, source, target, flow, every)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return path, nil
}

const configText = `
journal: %q
listen: 127.0.0.1:0
log: {level: warn}
clients:
  shop:
%s
  erp:
%s
flows:
  %s:
    from: {client: shop, stream: orders, start: all, every: %s}
    to: {client: erp, entity: order, strategy: natural_key, on_existing: adopt}
    key: .ext_id
    map: |
      (.shipping_address // .billing_address) as $s
      | {ext_id: .id, number: (.name | ltrimstr("#")), updated: .updated_at,
         customer: (.customer.first_name + " " + .customer.last_name), email: (.email | ascii_downcase),
         country: $s.country_code, zip: $s.zip, city: ($s.city | ascii_upcase), currency,
         total: .total_price, tax: .total_tax,
         status: (if .financial_status == "paid" and .cancelled_at == null then "release" else "hold" end),
         discount: (.discount_codes[0].code // ""), items: ([.line_items[].quantity] | add),
         lines: [.line_items[] | {sku, qty: .quantity, price}]}
`

// tableSetting is a client that writes into the table.
func (w *world) tableSetting() string {
	return fmt.Sprintf(`    connector: postgres
    host: 127.0.0.1
    port: %d
    database: erp
    user: postgres
    sslmode: disable
    entities:
      order: {table: orders, key: [ext_id], version: sync_version}
`, w.server.Port)
}

// fileSource is a client that reads one file of orders.
func fileSource(dir, name string) string {
	return fmt.Sprintf(`    connector: file
    dir: %q
    streams:
      orders: {path: %q, format: jsonl, id: id, version: updated_at}
`, dir, name)
}

// restSource is a client that asks an HTTP server.
func restSource(url string) string {
	return fmt.Sprintf(`    connector: rest
    url: %q
    streams:
      orders:
        list: {path: /orders}
        records: .
        id: [id]
        version: {path: updated_at}
        paging: none
`, url)
}
