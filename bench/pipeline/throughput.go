package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/bench/internal/lab"
	"syncd/jobs"
)

// file is a file of orders.
type file struct {
	dir, name string
	events    int
	pieces    int64
	last      string   // the key of its last order
	sums      []uint64 // of the records that its orders become, in their order; only for a target over HTTP
}

// sample is one run over a file.
type sample struct {
	events   int
	took     time.Duration // from the start of the process to the last job done
	cpu      time.Duration // of syncd
	database time.Duration // processor time of PostgreSQL, for target and journal together
	server   time.Duration // processor time of the HTTP server
	peak     int64         // bytes
}

const runPatience = 30 * time.Minute

// The kinds of targets.
const (
	toTable = "table"
	toHTTP  = "http"
)

// target is where the orders go.
type target interface {
	// setting is its client in the configuration.
	setting() string
	// arrived reports whether every order of a file is there.
	arrived(ctx context.Context, f file) (bool, error)
	// cpu is the processor time that it has taken, unless that is PostgreSQL's.
	cpu() (time.Duration, error)
	// verify holds it against the file.
	verify(ctx context.Context, f file) error
	close() error
}

func (w *world) target(ctx context.Context, kind string) (target, error) {
	if kind == toHTTP {
		return newReceiver(ctx)
	}
	erp, err := pgx.Connect(ctx, w.server.DSN(erpDatabase))
	if err != nil {
		return nil, err
	}
	return &table{conn: erp, client: w.tableSetting()}, nil
}

// move runs syncd until every order of a file stands in the target and every job
// is done; profile is a folder for profiles, or "".
func (w *world) move(ctx context.Context, binary, to, profile string, j journal, f file) (s sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, fmt.Errorf("not done after %s", runPatience))
	defer cancel()
	erp, err := w.target(ctx, to)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, erp.close()) }()
	config, err := w.config("move", j.setting, "orders", fileSource(f.dir, f.name), erp.setting(), "1h")
	if err != nil {
		return s, err
	}
	if _, err := w.server.Admin.Exec(ctx, "CHECKPOINT"); err != nil {
		return s, fmt.Errorf("rest the server: %w", err)
	}
	before, err := w.server.CPU(ctx)
	if err != nil {
		return s, err
	}
	serverBefore, err := erp.cpu()
	if err != nil {
		return s, err
	}
	c, err := lab.StartDaemon(ctx, binary, config, "BENCH_PROFILE="+profile)
	if err != nil {
		return s, err
	}
	if err := c.Until(ctx, 50*time.Millisecond, func() (bool, error) { return erp.arrived(ctx, f) }); err != nil {
		return s, err
	}
	if err := settled(ctx, c, j); err != nil {
		return s, err
	}
	s = sample{events: f.events, took: time.Since(c.Started)}
	after, err := w.server.CPU(ctx)
	if err != nil {
		return s, err
	}
	serverAfter, err := erp.cpu()
	if err != nil {
		return s, err
	}
	if profile != "" {
		if err := writeProfiles(ctx, c, profile); err != nil {
			return s, err
		}
	}
	u, err := c.Stop()
	if err != nil {
		return s, err
	}
	s.cpu, s.peak, s.database, s.server = u.CPU, u.Peak, after-before, serverAfter-serverBefore
	if err := erp.verify(ctx, f); err != nil {
		return s, err
	}
	return s, verifyJournal(ctx, j, f)
}

// settled waits until no job is open.
func settled(ctx context.Context, c *lab.Daemon, j journal) error {
	e, err := j.look(ctx)
	if err != nil {
		return c.Failed(err)
	}
	look := jobs.New(e, jobs.Options{Owner: "pipeline"})
	err = c.Until(ctx, 5*time.Millisecond, func() (bool, error) {
		next, err := look.NextDue(ctx, jobs.LaneID{Client: "erp"})
		return next.IsZero(), err
	})
	return errors.Join(err, look.Close())
}

// verifyJournal holds the journal against the file.
func verifyJournal(ctx context.Context, j journal, f file) error {
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
