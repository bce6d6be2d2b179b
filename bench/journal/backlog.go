package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"syncd/bench/internal/lab"
	"syncd/connectors"
	"syncd/ratelimit"
)

// backlog measures a client while another one is paused with very many jobs behind
// it: whether memory grows, and whether the first one notices.
func backlog(ctx context.Context, b *bench) error {
	open := 100_000
	if b.full {
		open = 1_000_000
	}
	for _, kind := range b.journals() {
		alone, err := b.behind(ctx, kind, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		beside, err := b.behind(ctx, kind, open)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		name := fmt.Sprintf("backlog: %s, %d paused jobs, ", kind, open)
		b.goal(lab.AtMost(name+"memory beside that without them", beside.memory-alone.memory, 8, "MiB"))
		b.goal(lab.AtMost(name+"another client's cost over that without them", beside.cost/alone.cost, 1.2, "times"))
	}
	return nil
}

// beside is how a client does beside a backlog.
type beside struct {
	memory float64 // in use after a collection, in MiB
	cost   float64 // processor time per event, of both sides, in µs
}

func (b *bench) behind(ctx context.Context, kind string, open int) (got beside, err error) {
	const rate = 200
	lasts := 5 * time.Second
	if b.full {
		lasts = 30 * time.Second
	}
	p, err := b.place(ctx, kind)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if open > 0 {
		if err := p.stock(ctx, "stuck", stock{open: open}); err != nil {
			return got, err
		}
	}
	now := p.Now()
	if err := p.SavePause(ctx, "stuck", ratelimit.Pause{Until: now.Add(time.Hour), Reason: ratelimit.ReasonOperator, Since: now}); err != nil {
		return got, err
	}
	r, s := newRig(p), newStream("orders", rate, int(lasts.Seconds())*rate, 350)
	written := 0 // by the paused client's lane
	r.client("shop", &ends{feed: s.feed})
	r.client("depot", &ends{feed: &feed{}})
	r.client("erp", &ends{table: &table{batch: 500, wrote: s.wrote}})
	r.client("stuck", &ends{table: &table{batch: 500, wrote: func(ws []connectors.Write, _ time.Time) { written += len(ws) }}})
	if err := errors.Join(r.flow("orders", "shop", "erp", time.Second), r.flow("stock", "depot", "stuck", time.Second)); err != nil {
		return got, err
	}
	debug.FreeOSMemory()
	u, err := p.measure(ctx, b.profile, fmt.Sprint("backlog ", kind, " ", open), func() (int, error) {
		r.start(ctx, s)
		err := until(ctx, "all written", lasts+time.Minute, s.over)
		if err == nil {
			got.memory = inUse()
		}
		return s.feed.total, errors.Join(err, r.end())
	})
	if err != nil {
		return got, err
	}
	if written > 0 {
		return got, fmt.Errorf("%d jobs of the paused client were written", written)
	}
	rss, err := lab.Memory(os.Getpid(), "VmRSS")
	if err != nil {
		return got, err
	}
	_, admitted := s.waits()
	got.cost = u.perJob(u.client) + u.perJob(u.database)
	b.add("backlog", fmt.Sprintf("%s, %d paused jobs", kind, open), value{"p50 ms", lab.Median(admitted)}, value{"p99 ms", lab.Quantile(admitted, 0.99)},
		value{"client µs/event", u.perJob(u.client)}, value{"database µs/event", u.perJob(u.database)}, value{"heap MiB", got.memory}, value{"RSS MiB", float64(rss) / mib})
	return got, nil
}

// inUse is the memory of Go that is in use, in MiB.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / mib
}
