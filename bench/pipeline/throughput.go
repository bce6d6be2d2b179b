package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/jobs"
)

// file is a file of orders.
type file struct {
	dir, name string
	events    int
	pieces    int64
	last      string // the key of its last order
}

// sample is one run over a file.
type sample struct {
	events   int
	took     time.Duration // from the start of the process to the last job done
	cpu      time.Duration // of syncd
	database time.Duration // processor time of the server, target and journal together
	peak     int64         // bytes
}

const runPatience = 30 * time.Minute

// move runs syncd until every order of a file stands in the table and every job
// is done; profile is a folder for profiles, or "".
func (w *world) move(ctx context.Context, binary, profile string, j journal, f file) (s sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, fmt.Errorf("not done after %s", runPatience))
	defer cancel()
	config, err := w.config("move", j.setting, "orders", fileSource(f.dir, f.name), "1h")
	if err != nil {
		return s, err
	}
	erp, err := pgx.Connect(ctx, w.server.DSN(erpDatabase))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, erp.Close(context.WithoutCancel(ctx))) }()
	if _, err := w.server.Admin.Exec(ctx, "CHECKPOINT"); err != nil {
		return s, fmt.Errorf("rest the server: %w", err)
	}
	before, err := w.server.CPU(ctx)
	if err != nil {
		return s, err
	}
	c, err := startChild(ctx, binary, config, "BENCH_PROFILE="+profile)
	if err != nil {
		return s, err
	}
	if err := c.until(ctx, 50*time.Millisecond, arrived(ctx, erp, f)); err != nil {
		return s, err
	}
	if err := settled(ctx, c, j); err != nil {
		return s, err
	}
	s = sample{events: f.events, took: time.Since(c.started)}
	after, err := w.server.CPU(ctx)
	if err != nil {
		return s, err
	}
	if profile != "" {
		if err := c.writeProfiles(ctx, profile); err != nil {
			return s, err
		}
	}
	u, err := c.stop()
	if err != nil {
		return s, err
	}
	s.cpu, s.peak, s.database = u.cpu, u.peak, after-before
	return s, verify(ctx, erp, j, f)
}

// arrived looks for the last order, which costs the server nothing, and counts
// them only once that one is there.
func arrived(ctx context.Context, erp *pgx.Conn, f file) func() (bool, error) {
	last := false
	return func() (bool, error) {
		if !last {
			err := erp.QueryRow(ctx, "SELECT EXISTS (SELECT FROM orders WHERE ext_id = $1)", f.last).Scan(&last)
			if err != nil || !last {
				return false, err
			}
		}
		var n int
		err := erp.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&n)
		return n == f.events, err
	}
}

// settled waits until no job is open.
func settled(ctx context.Context, c *child, j journal) error {
	e, err := j.look(ctx)
	if err != nil {
		return c.failed(err)
	}
	look := jobs.New(e, jobs.Options{Owner: "pipeline"})
	err = c.until(ctx, 5*time.Millisecond, func() (bool, error) {
		next, err := look.NextDue(ctx, jobs.LaneID{Client: "erp"})
		return next.IsZero(), err
	})
	return errors.Join(err, look.Close())
}

// verify holds the table against the file, and the journal against the table.
func verify(ctx context.Context, erp *pgx.Conn, j journal, f file) error {
	var n int
	var pieces int64
	if err := erp.QueryRow(ctx, "SELECT count(*), sum(items) FROM orders").Scan(&n, &pieces); err != nil {
		return fmt.Errorf("look at the table: %w", err)
	}
	if n != f.events || pieces != f.pieces {
		return fmt.Errorf("the table holds %d orders of %d pieces, the file %d of %d", n, pieces, f.events, f.pieces)
	}
	e, err := j.look(ctx)
	if err != nil {
		return err
	}
	var counts []jobs.Count
	err = e.View(ctx, func(tx jobs.Tx) (err error) {
		counts, err = tx.Counts(ctx, e.Now())
		return err
	})
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	if len(counts) != 1 || counts[0].State != jobs.Done || counts[0].N != int64(f.events) {
		return fmt.Errorf("the journal holds other than %d jobs done: %+v", f.events, counts)
	}
	return nil
}
