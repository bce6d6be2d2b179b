package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/bench/internal/lab"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
)

// idle measures a daemon of many flows that have nothing to do: 100 clients, each
// read by ten flows and written to by ten.
func idle(ctx context.Context, b *bench) error {
	every := 15 * time.Second
	if b.full {
		every = time.Minute
	}
	for _, kind := range b.journals() {
		if err := b.idleOver(ctx, kind, every); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) idleOver(ctx context.Context, kind string, every time.Duration) (err error) {
	const clients, flows = 100, 1000
	p, err := b.place(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	r := newRig(p)
	var feeds []*feed
	for i := range clients {
		f := &feed{}
		feeds = append(feeds, f)
		r.client(fmt.Sprint("client-", i), &ends{feed: f, table: &table{batch: 500, wrote: func([]connectors.Write, time.Time) {}}})
	}
	for i := range flows {
		if err := r.flow(fmt.Sprint("flow-", i), fmt.Sprint("client-", i%clients), fmt.Sprint("client-", (i+1)%clients), every); err != nil {
			return err
		}
	}
	polls := func() (n int) {
		for _, f := range feeds {
			n += f.pulled()
		}
		return n
	}
	defer func() { err = errors.Join(err, r.end()) }()
	r.start(ctx, daemon.Silent{})
	// The first poll of each flow moves its cursor, which is work.
	if err := until(ctx, "all polled", time.Minute, func() bool { return polls() >= flows && p.begun(ctx) == flows }); err != nil {
		return err
	}
	before := polls()
	u, err := p.measure(ctx, b.profile, "idle "+kind, func() (int, error) {
		err := pause(ctx, every)
		return polls() - before, err
	})
	if err != nil {
		return err
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / u.took.Seconds() }
	b.add("idle", fmt.Sprintf("%s, %d flows, %d clients, every %s", kind, flows, clients, every), value{"polls/s", u.rate()},
		value{"client % of a core", percent(u.client)}, value{"database %", percent(u.database)})
	b.goal(lab.AtMost(fmt.Sprintf("idle: %s, polled every %s", kind, every), percent(u.client), 5, "% of a core"))
	return nil
}

// begun counts the flows that have a cursor; -1 when they cannot be read.
func (p *place) begun(ctx context.Context) (n int) {
	err := p.engine.View(ctx, func(tx jobs.Tx) error {
		states, err := tx.Flows(ctx)
		for _, s := range states {
			if s.Cursor != nil {
				n++
			}
		}
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
