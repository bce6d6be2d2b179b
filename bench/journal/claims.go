package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/bench/internal/lab"
	"syncd/jobs"
)

// claims measures what a claim costs when the tables are large, against small ones.
func claims(ctx context.Context, b *bench) error {
	done, open := 500_000, 100_000
	if b.full {
		done, open = 5_000_000, 1_000_000
	}
	for _, kind := range b.journals() {
		var ms [3]float64
		for i, s := range []stock{{open: 10_000}, {done: done, open: open}, {done: done, open: open, scattered: true}} {
			var err error
			if ms[i], err = b.claimsOver(ctx, kind, s); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		b.goal(lab.AtMost(fmt.Sprintf("claims: %s, over %d rows and over 10000", kind, done+open), ms[1]/ms[0], 1.3, "times"))
	}
	return nil
}

// claimsOver claims and settles 100 jobs at a time and returns the median time of a
// claim in milliseconds.
func (b *bench) claimsOver(ctx context.Context, kind string, s stock) (ms float64, err error) {
	const size, times = 100, 60
	p, err := b.place(ctx, kind)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := p.stock(ctx, "erp", s); err != nil {
		return 0, err
	}
	w := newWork(p, "stock", 350)
	var claimed, settled []float64
	u, err := p.measure(ctx, b.profile, fmt.Sprint("claims ", kind, " ", s), func() (int, error) {
		for range times {
			start := time.Now()
			js, err := w.claim(ctx, size)
			if err != nil {
				return 0, err
			}
			took := time.Since(start)
			if len(js) != size {
				return 0, fmt.Errorf("%d jobs were due, want %d", len(js), size)
			}
			claimed, start = append(claimed, float64(took.Microseconds())/1000), time.Now()
			if err := w.settle(ctx, js); err != nil {
				return 0, err
			}
			settled = append(settled, float64(time.Since(start).Microseconds())/1000)
		}
		return size * times, nil
	})
	if err != nil {
		return 0, err
	}
	ms = lab.Median(claimed)
	b.add("claims", fmt.Sprintf("%s, %s", kind, s), value{"claim of 100 ms", ms}, value{"p90", lab.Quantile(claimed, 0.9)},
		value{"settlement ms", lab.Median(settled)}, value{"client µs/job", u.perJob(u.client)}, value{"database µs/job", u.perJob(u.database)})
	return ms, nil
}

// stock is what a journal is filled with. Jobs that are due one after the other have
// neighbouring keys, as orders have their numbers, unless they are scattered: then each
// job touches pages that no other one has touched.
type stock struct {
	done, open int
	scattered  bool
}

func (s stock) String() string {
	keys := map[bool]string{true: ", scattered keys"}[s.scattered]
	return fmt.Sprintf("%d done, %d open%s", s.done, s.open, keys)
}

// stock fills the journal with done and open rows of flow `stock` to a client.
func (p *place) stock(ctx context.Context, client string, s stock) error {
	w := newWork(p, "stock", 350)
	w.flow.Client = client
	if err := w.admit(ctx, 1); err != nil {
		return err
	}
	if n, err := w.finish(ctx, 1); err != nil || n != 1 {
		return errors.Join(err, fmt.Errorf("%d jobs were done of 1", n))
	}
	if err := w.admit(ctx, 1); err != nil {
		return err
	}
	for i, n := range []int{s.done, s.open} {
		if n == 0 {
			continue
		}
		if err := p.fill(ctx, "stock", fmt.Sprintf("SHOP-%08d", i), n, s.scattered); err != nil {
			return err
		}
	}
	next, err := p.NextDue(ctx, jobs.LaneID{Client: client})
	if err != nil || next.IsZero() {
		return errors.Join(err, errors.New("no row is open after the journal was filled"))
	}
	return nil
}
