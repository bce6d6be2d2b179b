package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/bench/internal/lab"
)

// churned is how many records change all the time.
const churned = 20_000

// stretch is a time of churn.
type stretch struct {
	usage
	from, to float64 // the journal's size before and after, in bytes
}

// churnFor has the records of w change for a time.
func (w *work) churnFor(ctx context.Context, d time.Duration) (s stretch, err error) {
	if s.from, err = w.size(ctx); err != nil {
		return s, err
	}
	s.usage, err = w.measure(ctx, "", "", func() (int, error) {
		n := 0
		for start := time.Now(); time.Since(start) < d; {
			k, err := w.inTurn(ctx, batch)
			if err != nil {
				return n, err
			}
			n += k
		}
		return n, nil
	})
	if err != nil {
		return s, err
	}
	s.to, err = w.size(ctx)
	return s, err
}

const mib = 1 << 20

// churn measures whether rate and size stay as they are while the same records
// change all the time.
func churn(ctx context.Context, b *bench) error {
	lasts := 30 * time.Second
	if b.full {
		lasts = 10 * time.Minute
	}
	const parts = 6 // the first one fills the table and is not compared
	for _, kind := range b.journals() {
		var ss []stretch
		err := b.withChurn(ctx, kind, func(w *work) error {
			for i := range parts {
				s, err := w.churnFor(ctx, lasts/parts)
				if err != nil {
					return err
				}
				ss = append(ss, s)
				b.add("churn", fmt.Sprintf("%s, part %d of %s", kind, i+1, lasts), s.values()...)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		first, last := ss[1], ss[parts-1]
		b.goal(lab.AtLeast("churn: "+kind+", rate at the end over that at the start", last.rate()/first.rate(), 0.9, "times"))
		if !b.full {
			continue // autovacuum comes once a minute: the size has had no time to level off
		}
		b.goal(lab.AtMost("churn: "+kind+", size at the end over that half-way", last.to/ss[parts/2-1].to, 1.1, "times"))
	}
	return nil
}

func (s stretch) values() []value {
	return []value{{"jobs/s", s.rate()}, {"size MiB", s.to / mib}, {"growth B/job", (s.to - s.from) / float64(max(s.jobs, 1))},
		{"client µs/job", s.perJob(s.client)}, {"database µs/job", s.perJob(s.database)}}
}

// withChurn makes a journal with all records in it.
func (b *bench) withChurn(ctx context.Context, kind string, fn func(w *work) error) (err error) {
	p, err := b.place(ctx, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	w := newWork(p, "orders", 350)
	w.keys = churned
	if _, err := w.inTurn(ctx, churned); err != nil {
		return err
	}
	return fn(w)
}

// snapshot measures churn before, while and after another session of PostgreSQL
// holds an old snapshot, so that no dead row can be removed. SQLite has nothing of
// the kind: a reader keeps its write-ahead log alone.
func snapshot(ctx context.Context, b *bench) error {
	for _, kind := range b.journals() {
		if kind != "postgres" {
			continue
		}
		if err := b.withChurn(ctx, kind, func(w *work) error { return b.heldUp(ctx, w) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) heldUp(ctx context.Context, w *work) error {
	held := 15 * time.Second
	if b.full {
		held = time.Minute
	}
	before, err := w.churnFor(ctx, held/3)
	if err != nil {
		return err
	}
	other, err := connect(ctx, w.dsn)
	if err != nil {
		return err
	}
	defer other.Close(context.WithoutCancel(ctx))
	if _, err := other.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM syncd.meta"); err != nil {
		return fmt.Errorf("hold a snapshot: %w", err)
	}
	during, err := w.churnFor(ctx, held)
	if err != nil {
		return err
	}
	warned := 0
	for _, text := range w.warnings(ctx) {
		fmt.Fprintln(b.progress, "  warned:", text)
		warned++
	}
	if _, err := other.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("let the snapshot go: %w", err)
	}
	// What is measured is the last part of the time in which it is to recover.
	if _, err := w.churnFor(ctx, held*2/3); err != nil {
		return err
	}
	after, err := w.churnFor(ctx, held/3)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		stretch
	}{{"before", before}, {fmt.Sprint("held for ", held), during}, {fmt.Sprint(held*2/3, " after"), after}} {
		b.add("snapshot", w.kind+", "+s.name, s.values()...)
	}
	b.goal(lab.AtLeast("snapshot: rate after it over that before", after.rate()/before.rate(), 0.9, "times"))
	if b.full {
		b.goal(lab.AtLeast("snapshot: warnings while it was held", float64(warned), 1, ""))
	}
	return nil
}

// warnings are what status would tell of the journal now.
func (p *place) warnings(ctx context.Context) []string {
	e, ok := p.engine.(interface {
		Warnings(context.Context) []string
	})
	if !ok {
		return nil
	}
	return e.Warnings(ctx)
}
