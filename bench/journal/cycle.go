package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"syncd/bench/internal/lab"
)

// course is one way to have jobs go through the journal.
type course struct {
	name     string
	size     int
	together bool
	changed  bool // records that are there already
	links    bool
}

func courses() []course {
	return []course{
		{name: "350 B, in turn", size: 350},
		{name: "350 B", size: 350, together: true},
		{name: "2 KB", size: 2048, together: true},
		{name: "350 B, changed", size: 350, together: true, changed: true},
		{name: "350 B, with links", size: 350, together: true, links: true},
	}
}

// cycle measures jobs from admission through claim to settlement, in batches of
// 1,000. Variants run in turn within each round, so that what else the machine
// does meets them alike.
func cycle(ctx context.Context, b *bench) error {
	type key struct{ course, journal string }
	got := map[key][]usage{}
	chosen := slices.DeleteFunc(courses(), func(c course) bool { return !strings.Contains(c.name, b.courses) })
	for range b.rounds {
		for _, c := range chosen {
			for _, kind := range b.journals() {
				u, err := b.course(ctx, kind, c)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", kind, c.name, err)
				}
				got[key{c.name, kind}] = append(got[key{c.name, kind}], u)
			}
		}
	}
	for _, kind := range b.journals() {
		for _, c := range chosen {
			us := got[key{c.name, kind}]
			each := func(f func(usage) float64) (xs []float64) {
				for _, u := range us {
					xs = append(xs, f(u))
				}
				return xs
			}
			rates := each(usage.rate)
			rate := lab.Median(rates)
			b.add("cycle", kind+", "+c.name, value{"jobs/s", rate}, value{"min", lab.Quantile(rates, 0)}, value{"max", lab.Quantile(rates, 1)},
				value{"client µs/job", lab.Median(each(func(u usage) float64 { return u.perJob(u.client) }))},
				value{"database µs/job", lab.Median(each(func(u usage) float64 { return u.perJob(u.database) }))})
			if c.name == "350 B" {
				goal := b.overPostgres
				if kind == "sqlite" {
					goal = b.overSQ
				}
				b.goal(lab.AtLeast("cycle: "+kind+", "+c.name, rate, goal, "jobs/s"))
			}
		}
	}
	return nil
}

func (b *bench) course(ctx context.Context, kind string, c course) (u usage, err error) {
	p, err := b.place(ctx, kind)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	w := newWork(p, "orders", c.size)
	w.links = c.links
	if c.changed {
		w.keys = b.jobs
		if _, err := w.inTurn(ctx, b.jobs); err != nil {
			return u, err
		}
	}
	way := w.inTurn
	if c.together {
		way = w.together
	}
	return p.measure(ctx, b.profile, "cycle "+kind+" "+c.name, func() (int, error) { return way(ctx, b.jobs) })
}
