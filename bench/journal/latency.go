package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/bench/internal/lab"
)

// latency measures how soon a change is written: one daemon between a source that
// hands events over at a fixed rate and a target that answers at once.
func latency(ctx context.Context, b *bench) error {
	lasts := 6 * time.Second
	if b.full {
		lasts = time.Minute
	}
	for _, kind := range b.journals() {
		for _, rate := range []int{200, 1000} {
			if err := b.latencyAt(ctx, kind, rate, lasts); err != nil {
				return fmt.Errorf("%s, %d/s: %w", kind, rate, err)
			}
		}
	}
	return nil
}

func (b *bench) latencyAt(ctx context.Context, kind string, rate int, lasts time.Duration) (err error) {
	p, err := b.place(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	r, s := newRig(p), newStream("orders", rate, int(lasts.Seconds())*rate, 350)
	r.client("shop", &ends{feed: s.feed})
	r.client("erp", &ends{table: &table{batch: 500, wrote: s.wrote}})
	if err := r.flow("orders", "shop", "erp", time.Second); err != nil {
		return err
	}
	u, err := p.measure(ctx, b.profile, fmt.Sprint("latency ", kind, " ", rate), func() (int, error) {
		r.start(ctx, s)
		err := until(ctx, "all written", lasts+time.Minute, s.over)
		return s.feed.total, errors.Join(err, r.end())
	})
	if err != nil {
		return err
	}
	there, admitted := s.waits()
	variant := fmt.Sprintf("%s, %d/s", kind, rate)
	p50, p99 := lab.Median(admitted), lab.Quantile(admitted, 0.99)
	b.add("latency", variant, value{"p50 ms", p50}, value{"p99 ms", p99},
		value{"from the source p50 ms", lab.Median(there)}, value{"p99", lab.Quantile(there, 0.99)},
		value{"client µs/event", u.perJob(u.client)}, value{"database µs/event", u.perJob(u.database)})
	b.goal(lab.AtMost("latency: "+variant+", half", p50, 3, "ms"))
	b.goal(lab.AtMost("latency: "+variant+", 99 %", p99, 15, "ms"))
	return nil
}
