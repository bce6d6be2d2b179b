package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"syncd/connectors"
	"syncd/jobs"
)

// batch is the number of rows in each transaction of EngineBench.
const batch = 500

// EngineBench measures the three transactions of a job's life in batches of 500
// rows with bodies of 2 KB: admit, claim and settle, each as rules of package jobs
// do it. rows/s is the figure to look at. A round settles what it admitted, so
// the number of open rows stays small and the table grows with each round.
func EngineBench(b *testing.B, open func(b *testing.B) jobs.Engine) {
	e := open(b)
	w := &benchWork{e: e, now: e.Now()}
	var admit, claim, settle, cpu time.Duration
	for b.Loop() {
		rows := w.page(b)
		before := cpuTime()
		admit += w.took(func() error { return w.admit(b.Context(), rows) }, b)
		var due []jobs.Row
		claim += w.took(func() (err error) { due, err = w.claim(b.Context()); return err }, b)
		if len(due) != batch {
			b.Fatalf("%d rows are due, want %d", len(due), batch)
		}
		settle += w.took(func() error { return w.settle(b.Context(), due) }, b)
		cpu += cpuTime() - before
	}
	rate := func(d time.Duration) float64 { return float64(b.N) * batch / d.Seconds() }
	b.ReportMetric(rate(admit), "admit-rows/s")
	b.ReportMetric(rate(claim), "claim-rows/s")
	b.ReportMetric(rate(settle), "settle-rows/s")
	b.ReportMetric(rate(admit+claim+settle), "cycle-rows/s")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*batch), "client-cpu-us/row")
	b.ReportMetric(0, "ns/op")
}

type benchWork struct {
	e   jobs.Engine
	now time.Time
	n   int
}

func (w *benchWork) took(fn func() error, b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	if err := fn(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// cpuTime is what this process has used of the processors. It travels better
// than rates do between machines, and between quiet and busy hours.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// page makes the rows of one page: half of them new, half of them changed.
func (w *benchWork) page(b *testing.B) []jobs.Row {
	b.Helper()
	rows := make([]jobs.Row, batch)
	first := w.n * batch / 2
	for i := range rows {
		key := fmt.Sprintf("SHOP-%07d-%05d", (first+i)*7919%10_000_000, first+i)
		body := orderBody(first+i, w.n)
		rows[i] = jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "sale", SourceID: fmt.Sprint("gid://shop/Order/55", first+i),
			State: jobs.Ready, Generation: int64(w.n + 1), Desired: connectors.Stamp{Version: w.now.UnixMicro(), Observed: w.now},
			ChangedAt: w.now, ReadAt: w.now, Hash: jobs.HashBody(body), Body: body, OpenSince: w.now, DueAt: w.now}
	}
	w.n++
	return rows
}

func (w *benchWork) admit(ctx context.Context, page []jobs.Row) error {
	return w.e.Update(ctx, func(tx jobs.Tx) error {
		fs, err := tx.LockFlow(ctx, "orders")
		if err != nil {
			return err
		}
		ids, keys := make([]string, len(page)), make([]jobs.RowID, len(page))
		srcs := make([]jobs.SourceRecord, len(page))
		for i, r := range page {
			ids[i], keys[i] = r.SourceID, r.RowID
			srcs[i] = jobs.SourceRecord{ID: r.SourceID, Stamp: r.Desired, Keys: []string{r.Key}}
		}
		if _, err := tx.Sources(ctx, "orders", ids); err != nil {
			return err
		}
		if _, err := tx.Rows(ctx, keys, false); err != nil {
			return err
		}
		if err := tx.PutSources(ctx, "orders", srcs); err != nil {
			return err
		}
		if err := tx.PutRows(ctx, page); err != nil {
			return err
		}
		fs.Cursor, fs.MovedAt, fs.ReadAt = json.RawMessage(fmt.Sprint(w.n)), w.now, w.now
		return tx.SaveFlow(ctx, fs)
	})
}

func (w *benchWork) claim(ctx context.Context) (due []jobs.Row, err error) {
	err = w.e.Update(ctx, func(tx jobs.Tx) error {
		if due, err = tx.Due(ctx, jobs.LaneID{Client: "erp"}, w.now, batch); err != nil {
			return err
		}
		c := jobs.Claim{ID: fmt.Sprint("claim-", w.n), Client: "erp", Owner: "me", At: w.now, Open: len(due)}
		keys := make([]jobs.EntityKey, len(due))
		for i, r := range due {
			keys[i] = r.EntityKey()
			c.Jobs = append(c.Jobs, jobs.ClaimedJob{RowID: r.RowID, Generation: r.Generation, Attempt: r.Attempt + 1, Hash: r.Hash})
		}
		if _, err := tx.Links(ctx, "erp", keys); err != nil {
			return err
		}
		return tx.AddClaim(ctx, c)
	})
	return due, err
}

func (w *benchWork) settle(ctx context.Context, due []jobs.Row) error {
	return w.e.Update(ctx, func(tx jobs.Tx) error {
		ids := make([]jobs.RowID, len(due))
		keys := make([]jobs.EntityKey, len(due))
		for i, r := range due {
			ids[i], keys[i] = r.RowID, r.EntityKey()
		}
		rows, err := tx.Rows(ctx, ids, false)
		if err != nil {
			return err
		}
		if _, err := tx.ReduceClaim(ctx, fmt.Sprint("claim-", w.n), "me", len(rows)); err != nil {
			return err
		}
		links := make([]jobs.Link, len(rows))
		for i := range rows {
			r := &rows[i]
			r.State, r.Attempt, r.Tries = jobs.Done, r.Attempt+1, r.Tries+1
			r.AppliedGeneration, r.AppliedHash, r.AppliedAt = r.Generation, r.Hash, w.now
			r.LastClass, r.LastAt, r.OpenSince = connectors.Applied, w.now, time.Time{}
			links[i] = jobs.Link{EntityKey: r.EntityKey(), Link: "4711", SeenAt: w.now}
		}
		if err := tx.PatchRows(ctx, rows); err != nil {
			return err
		}
		if err := tx.PutLinks(ctx, "erp", links); err != nil {
			return err
		}
		_, err = tx.Wake(ctx, "erp", keys, w.now)
		return err
	})
}

// orderBody is an order of some 2 KB as JSON, different for each n and version.
func orderBody(n, version int) json.RawMessage {
	type line struct {
		SKU      string      `json:"sku"`
		Title    string      `json:"title"`
		Quantity int         `json:"quantity"`
		Price    json.Number `json:"price"`
		Tax      json.Number `json:"tax"`
	}
	lines := make([]line, 14)
	for i := range lines {
		lines[i] = line{SKU: fmt.Sprintf("SKU-%06d", n*31+i*977), Title: fmt.Sprint("Article number ", n*17+i, " in colour ", i*n%23),
			Quantity: i%4 + 1, Price: json.Number(fmt.Sprintf("%d.%02d", n%900+i, n%100)), Tax: json.Number(fmt.Sprintf("%d.%02d", i, n%100))}
	}
	b, err := json.Marshal(map[string]any{"name": fmt.Sprint("SHOP-", n), "note": fmt.Sprint("version ", version), "currency": "EUR",
		"customer": map[string]any{"email": fmt.Sprint("customer", n*13, "@example.com"), "city": "Lübeck", "zip": fmt.Sprintf("%05d", n%99999)},
		"lines":    lines})
	if err != nil {
		panic(err)
	}
	return b
}
