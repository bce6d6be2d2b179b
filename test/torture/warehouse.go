package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// warehouse is a database that is target and source: syncd writes the table stock, whose changes a trigger notes, and reads the events of an
// outbox. It remembers both by itself, so that it can be killed without a doubt about what was in it.
type warehouse struct {
	*database
	rnd           *rand.Rand
	stock, prices *ledger
	revs          []int64 // of each price
}

const warehouseSchema = `
CREATE TABLE stock (sku text PRIMARY KEY, rev bigint NOT NULL, sync_version bigint);
CREATE TABLE effects (n bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), op text NOT NULL,
  sku text NOT NULL, rev bigint NOT NULL, version bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
  INSERT INTO effects (op, sku, rev, version) VALUES (TG_OP, NEW.sku, NEW.rev, NEW.sync_version); RETURN NULL; END$$;
CREATE TRIGGER note_insert AFTER INSERT ON stock FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_update AFTER UPDATE ON stock FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION note();
CREATE TABLE outbox (id bigserial NOT NULL, sku text NOT NULL, payload jsonb, created_at timestamptz DEFAULT clock_timestamp(),
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (xid, id));`

func newWarehouse(ctx context.Context, seed uint64, d *database, stock, prices *ledger) (*warehouse, error) {
	w := &warehouse{database: d, rnd: rand.New(rand.NewPCG(seed, 3)), stock: stock, prices: prices}
	if err := w.do(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, warehouseSchema)
		return err
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("make the warehouse: %w", err), d.close())
	}
	return w, nil
}

// trade adds n events to the outbox, each in a transaction of its own. A server that is away just now has no trade; an event whose COMMIT is
// in doubt is in the outbox or not, and read from there in the end.
func (w *warehouse) trade(ctx context.Context, c *pgx.Conn, n int) error {
	for range n {
		if len(w.revs) == 0 || w.rnd.Float64() < 0.5 {
			w.revs = append(w.revs, 0)
		}
		i := w.rnd.IntN(len(w.revs))
		w.revs[i]++
		sku := "P-" + strconv.Itoa(i)
		if _, err := c.Exec(ctx, `INSERT INTO outbox (sku, payload) VALUES ($1, jsonb_build_object('sku', $1::text, 'rev', $2::bigint))`, sku, w.revs[i]); err != nil {
			return err
		}
	}
	return nil
}

// remember brings the ledgers up to what the database holds.
func (w *warehouse) remember(ctx context.Context) error {
	err := w.do(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT at, op = 'INSERT', sku, coalesce(version, 0), rev FROM effects ORDER BY n`)
		if err != nil {
			return err
		}
		effects := map[string][]effect{}
		var key string
		var e effect
		var rev int64
		_, err = pgx.ForEachRow(rows, []any{&e.at, &e.create, &key, &e.version, &rev}, func() error {
			e.id, e.body = key, strconv.FormatInt(rev, 10)
			effects[key] = append(effects[key], e)
			return nil
		})
		if err != nil {
			return err
		}
		w.stock.replace(nil, effects)
		if rows, err = c.Query(ctx, `SELECT sku, id, payload->>'rev', created_at FROM outbox ORDER BY id`); err != nil {
			return err
		}
		states := map[string][]state{}
		var s state
		_, err = pgx.ForEachRow(rows, []any{&key, &s.version, &s.body, &s.at}, func() error {
			states[key] = append(states[key], s)
			return nil
		})
		w.prices.replace(states, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask the warehouse what it holds: %w", err)
	}
	return nil
}
