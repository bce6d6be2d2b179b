package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/internal/pgtest"
	"syncd/jobs"
)

// Every statement has to touch about as many rows as it is asked for, whatever the
// planner believes of the tables: it plans while they are empty, keeps that plan,
// and the tables grow under it. The server itself reports each plan as it was carried out.
func TestNoStatementReadsMuchMoreThanItIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprint("pooler ", pooler), func(t *testing.T) {
			t.Parallel()
			p := newPlanTest(t, pooler)
			p.run("while the tables are empty")
			p.fill(20_000)
			p.run("after they have grown")
			p.exec("ANALYZE")
			p.run("after they were analysed")
		})
	}
}

type planTest struct {
	*testing.T
	e *Engine
	// setup is a session of the test's own, which reports nothing.
	setup *pgx.Conn

	mu    sync.Mutex
	plans []string
}

const (
	planBatch = 50
	// planMost is what one step of a plan may touch for planBatch rows.
	planMost = 6 * planBatch
)

func newPlanTest(t *testing.T, pooler bool) *planTest {
	t.Helper()
	dsn := pgtest.DSN(t)
	made, err := Open(t.Context(), dsn, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	// A connection of its own, so that one session makes all plans.
	p := &planTest{T: t, e: newEngine(Options{Schema: "syncd", MaxConns: 1, Pooler: pooler, Now: time.Now})}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p.e.configure(config)
	config.MaxConns = 1
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.plans = append(p.plans, n.Message)
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
			SET auto_explain.log_timing = off; SET auto_explain.log_buffers = on; SET auto_explain.log_format = json; SET client_min_messages = log`)
		return err
	}
	if p.e.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.e.pool.Close)
	if p.setup, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.setup.Close(context.Background()) })
	p.exec("ANALYZE")
	return p
}

func (p *planTest) exec(sql string, args ...any) {
	p.Helper()
	if _, err := p.setup.Exec(p.Context(), sql, args...); err != nil {
		p.Fatalf("%s: %v", sql, err)
	}
}

// fill makes n rows of everything, all of one flow and client.
func (p *planTest) fill(n int) {
	p.Helper()
	for _, sql := range []string{
		`INSERT INTO syncd.jobs SELECT 1, 0, 1, 0, 0, to_timestamp(1e9 + i), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, false, false, false,
			'orders', 'K-' || i, 'erp', 'sale', 'S-' || i, CASE WHEN i % 2 = 0 THEN 'ready' ELSE 'done' END, '', NULL, NULL, '', '', '', '',
			'party', 'P-' || i, '', 0, 0, CASE WHEN i % 4 = 0 THEN 'G-' || i / 100 ELSE '' END FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.jobs SELECT 1, 0, 1, 0, 0, '-infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, false, false, false,
			'quiet', 'K-' || i, 'erp', 'sale', 'S-' || i, CASE WHEN i % 1000 = 0 THEN 'ready' ELSE 'done' END, '', NULL, NULL, '', '', '', '',
			'', '', '' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.groups SELECT 0, 0, NULL, 'orders', 'G-' || i, '' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.idempotency_keys SELECT 0, 0, NULL, 'orders', 'K-' || i, 'create', '', NULL, NULL FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.runs (total, done, failed, ended_at, kind, flow, client, after_flow, after_key, asked_by, why, message)
			SELECT 0, 0, 0, CASE WHEN i % 1000 = 0 THEN NULL ELSE to_timestamp(1e9) END, '', '', '', '', '', '', '', '' FROM generate_series(1, $1) i`,
		`INSERT INTO syncd.leases SELECT to_timestamp(1e9), to_timestamp(1e9), i % 50, 'c-' || i / 50, 'd', 't-' || i FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.bodies SELECT 'orders', 'K-' || i, '\x0030' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.sources SELECT 0, 0, NULL, false, 'orders', 'S-' || i, '[]' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.links SELECT NULL, 'erp', 'sale', 'K-' || i, '1' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.contenders SELECT 0, 0, NULL, NULL, NULL, 'orders', 'K-' || i, 'X', NULL, NULL FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.attempts (number, generation, flow, key, class, code, message) SELECT i, 1, 'orders', 'K-' || i, '', '', '' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.requests (at, due_at, client, flow, source_id, kind, key) SELECT to_timestamp(1e9 + i), to_timestamp(1e9), 'shop', 'orders', 'S-' || i, 'refresh', '' FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`,
		`INSERT INTO syncd.claims SELECT 1, NULL, 'C-' || i, 'other', 'me', NULL FROM generate_series(1, $1 / 10) i`,
	} {
		p.exec(sql, n)
	}
}

// run carries out every statement often enough for the server to settle on a plan,
// and looks at each plan.
func (p *planTest) run(when string) {
	p.Helper()
	var rows []jobs.Row
	var ids []jobs.RowID
	var keys []jobs.EntityKey
	var waits []jobs.EntityKey
	var texts, sources []string
	var records []jobs.SourceRecord
	var links []jobs.Link
	for i := range planBatch {
		key := fmt.Sprint("K-", 1000+2*i)
		r := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "sale", State: jobs.Ready, DueAt: time.Unix(1e9, 0), Body: json.RawMessage("0")}
		rows, ids, keys = append(rows, r), append(ids, r.RowID), append(keys, r.EntityKey())
		waits = append(waits, jobs.EntityKey{Entity: "party", Key: fmt.Sprint("P-", 3000+2*i)})
		texts, sources = append(texts, key), append(sources, fmt.Sprint("S-", i))
		records = append(records, jobs.SourceRecord{ID: fmt.Sprint("S-", i)})
		links = append(links, jobs.Link{EntityKey: r.EntityKey(), Link: "2"})
	}
	bare := make([]jobs.Row, len(rows))
	copy(bare, rows)
	for i := range bare {
		bare[i].Body = nil
	}
	var closings []jobs.Closing
	for i := range rows {
		closings = append(closings, jobs.Closing{RowID: rows[i].RowID, Attempt: 1, Class: "applied"})
	}
	var names, tokens []string
	var groups []jobs.Group
	var pins []jobs.Pin
	for i := range planBatch {
		g := fmt.Sprint("G-", 2*i)
		names, tokens = append(names, g), append(tokens, fmt.Sprint("t-", 7*i))
		groups = append(groups, jobs.Group{Flow: "orders", Name: g})
		pins = append(pins, jobs.Pin{RowID: ids[i], Operation: "create", Body: json.RawMessage("0")})
	}
	erpLane, lane := jobs.LaneID{Client: "erp"}, jobs.LaneID{Client: "c-3", Shard: 4}
	took := 0
	ctx, now := p.Context(), time.Unix(2e9, 0)
	claim := jobs.Claim{ID: "mine", Client: "erp", Owner: "me", Open: 2}
	for _, s := range []struct {
		name string
		do   func(jobs.Tx) error
	}{
		{"LockFlow", func(tx jobs.Tx) error { _, err := tx.LockFlow(ctx, "orders"); return err }},
		{"SaveFlow", func(tx jobs.Tx) error { return tx.SaveFlow(ctx, jobs.FlowState{Flow: "orders"}) }},
		{"Sources", func(tx jobs.Tx) error { _, err := tx.Sources(ctx, "orders", sources); return err }},
		{"PutSources", func(tx jobs.Tx) error { return tx.PutSources(ctx, "orders", records) }},
		{"Rows", func(tx jobs.Tx) error { _, err := tx.Rows(ctx, ids, true); return err }},
		{"PutRows", func(tx jobs.Tx) error { return tx.PutRows(ctx, rows) }},
		{"PutRows without bodies", func(tx jobs.Tx) error { return tx.PutRows(ctx, bare) }},
		{"PatchRows", func(tx jobs.Tx) error { return tx.PatchRows(ctx, rows) }},
		{"CloseRows", func(tx jobs.Tx) error {
			_, _, err := tx.CloseRows(ctx, "erp", closings, now)
			return err
		}},
		{"Due", func(tx jobs.Tx) error { _, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, now, planBatch); return err }},
		{"NextDue", func(tx jobs.Tx) error { _, err := tx.NextDue(ctx, []jobs.LaneID{erpLane, lane}); return err }},
		{"Asked", func(tx jobs.Tx) error { _, err := tx.Asked(ctx, []string{"shop", "erp", "c-3"}, now); return err }},
		{"Contenders", func(tx jobs.Tx) error { _, err := tx.Contenders(ctx, "orders", texts); return err }},
		{"AddClaim, Claims, ReduceClaim", func(tx jobs.Tx) error {
			if err := tx.AddClaim(ctx, claim); err != nil {
				return err
			}
			if _, err := tx.Claims(ctx, "erp"); err != nil {
				return err
			}
			_, err := tx.ReduceClaim(ctx, "mine", "me", 2)
			return err
		}},
		{"Links", func(tx jobs.Tx) error { _, err := tx.Links(ctx, "erp", keys); return err }},
		{"PutLinks", func(tx jobs.Tx) error { return tx.PutLinks(ctx, "erp", links) }},
		{"DeleteLinks", func(tx jobs.Tx) error { return tx.DeleteLinks(ctx, "erp", keys) }},
		{"Attempts", func(tx jobs.Tx) error { _, err := tx.Attempts(ctx, ids[0], planBatch); return err }},
		{"Wake", func(tx jobs.Tx) error { _, err := tx.Wake(ctx, "erp", waits, now); return err }},
		{"Requests", func(tx jobs.Tx) error { _, err := tx.Requests(ctx, "shop", now, planBatch); return err }},
		{"DeleteRequests", func(tx jobs.Tx) error { return tx.DeleteRequests(ctx, []int64{1, 2, 3}) }},
		{"List of dead rows", func(tx jobs.Tx) error {
			_, err := tx.List(ctx, jobs.Filter{State: jobs.Dead, Limit: planBatch})
			return err
		}},
		{"List of rows in doubt", func(tx jobs.Tx) error {
			_, err := tx.List(ctx, jobs.Filter{Unresolved: true, Limit: planBatch})
			return err
		}},
		{"List behind a row", func(tx jobs.Tx) error {
			_, err := tx.List(ctx, jobs.Filter{Flow: "orders", After: ids[3], Limit: planBatch})
			return err
		}},
		{"List with bodies", func(tx jobs.Tx) error {
			_, err := tx.List(ctx, jobs.Filter{Flow: "orders", After: ids[3], Limit: planBatch, Bodies: true})
			return err
		}},
		{"CountReady", func(tx jobs.Tx) error { _, err := tx.CountReady(ctx, "quiet", planBatch); return err }},
		{"Heads", func(tx jobs.Tx) error { _, err := tx.Heads(ctx, "orders", names, jobs.Dead); return err }},
		{"Groups", func(tx jobs.Tx) error { _, err := tx.Groups(ctx, "orders", names); return err }},
		{"PutGroups", func(tx jobs.Tx) error { return tx.PutGroups(ctx, groups) }},
		{"Pins", func(tx jobs.Tx) error { _, err := tx.Pins(ctx, ids); return err }},
		{"PutPins", func(tx jobs.Tx) error { return tx.PutPins(ctx, pins) }},
		{"DeletePins", func(tx jobs.Tx) error { return tx.DeletePins(ctx, ids) }},
		{"DropBodies", func(tx jobs.Tx) error { _, err := tx.DropBodies(ctx, ids); return err }},
		{"PruneAttempts", func(tx jobs.Tx) error { _, _, err := tx.PruneAttempts(ctx, 0, now, planBatch); return err }},
		{"DeleteAttempts", func(tx jobs.Tx) error { return tx.DeleteAttempts(ctx, ids) }},
		{"Fence", func(tx jobs.Tx) error {
			if _, err := tx.TakeLease(ctx, jobs.Lease{LaneID: erpLane, Token: "mine"}, "", time.Hour); err != nil {
				return err
			}
			if err := tx.Fence(ctx, jobs.Fence{LaneID: erpLane, Token: "mine"}); err != nil {
				return err
			}
			return tx.PutGroups(ctx, groups)
		}},
		{"TakeLease", func(tx jobs.Tx) error {
			took++
			ok, err := tx.TakeLease(ctx, jobs.Lease{LaneID: lane, Token: fmt.Sprint("mine-", took)}, fmt.Sprint("mine-", took-1), time.Hour)
			if err == nil && !ok && took > 1 {
				_, err = tx.TakeLease(ctx, jobs.Lease{LaneID: lane, Token: fmt.Sprint("mine-", took)}, "", time.Hour)
			}
			return err
		}},
		{"RenewLeases", func(tx jobs.Tx) error { _, err := tx.RenewLeases(ctx, tokens, time.Hour); return err }},
		{"FreeLease", func(tx jobs.Tx) error { return tx.FreeLease(ctx, jobs.Fence{LaneID: lane, Token: "t-154"}) }},
		{"open Runs", func(tx jobs.Tx) error { _, err := tx.Runs(ctx, true, planBatch); return err }},
		{"Runs", func(tx jobs.Tx) error { _, err := tx.Runs(ctx, false, planBatch); return err }},
		{"RunFlows", func(tx jobs.Tx) error { _, err := tx.RunFlows(ctx, "redeliver"); return err }},
		{"PutRun", func(tx jobs.Tx) error { return tx.PutRun(ctx, jobs.Run{ID: 7}) }},
		{"ListSources", func(tx jobs.Tx) error { _, err := tx.ListSources(ctx, "orders", sources[3], planBatch); return err }},
		{"ListContenders", func(tx jobs.Tx) error {
			_, err := tx.ListContenders(ctx, "orders", jobs.Contender{RowID: ids[3]}, planBatch)
			return err
		}},
		{"ListLinks", func(tx jobs.Tx) error { _, err := tx.ListLinks(ctx, "erp", keys[3], planBatch); return err }},
		{"ListGroups", func(tx jobs.Tx) error { _, err := tx.ListGroups(ctx, "orders", "G-2", planBatch); return err }},
		{"ListPins", func(tx jobs.Tx) error { _, err := tx.ListPins(ctx, jobs.Pin{RowID: ids[3]}, planBatch); return err }},
		{"ListAttempts", func(tx jobs.Tx) error { _, _, err := tx.ListAttempts(ctx, 1000, planBatch); return err }},
		{"ListRequests", func(tx jobs.Tx) error { _, err := tx.ListRequests(ctx, 1000, planBatch); return err }},
		{"LinkClients", func(tx jobs.Tx) error { _, err := tx.LinkClients(ctx); return err }},
	} {
		plans := 0
		for range 7 {
			p.plans = nil
			if err := p.e.Update(ctx, s.do); err != nil {
				p.Fatalf("%s, %s: %v", s.name, when, err)
			}
			for _, plan := range p.plans {
				plans++
				if most := worst(p.T, plan); most > planMost {
					p.Errorf("%s, %s: one step touched %d rows for %d\n%s", s.name, when, most, planBatch, plan)
				}
			}
		}
		if plans < 7 {
			p.Errorf("%s, %s: the server reported %d plans of 7 runs", s.name, when, plans)
		}
	}
}

// worst is the largest number of rows that one step of a reported plan touched.
func worst(t *testing.T, report string) int64 {
	t.Helper()
	return planOf(t, report).worst()
}

func planOf(t *testing.T, report string) planNode {
	t.Helper()
	var plan struct{ Plan planNode }
	if _, text, ok := strings.Cut(report, "plan:"); ok {
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			t.Fatalf("read %s: %v", report, err)
		}
	}
	return plan.Plan
}

type planNode struct {
	// Blocks are pages looked at by this step and those below it.
	Blocks   int64   `json:"Shared Hit Blocks"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Plans    []planNode
}

func (n planNode) worst() int64 {
	most := int64((n.Rows + n.Filtered + n.Joined) * max(n.Loops, 1))
	for _, p := range n.Plans {
		most = max(most, p.worst())
	}
	return most
}
