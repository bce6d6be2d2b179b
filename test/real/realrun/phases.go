package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// phases are what a run goes through, in order.
func (r *run) phases() []phase {
	return []phase{
		{"seeding the shop", r.seed},
		{"first synchronisation", r.first},
		{"changes", r.changes},
		{fmt.Sprintf("%d × kill -9 under load", r.options.kills), r.kills},
		{fmt.Sprintf("ERP away for %v under load", r.options.outage), func(ctx context.Context) error { return r.outage(ctx, "tryton", "ERP away") }},
		{fmt.Sprintf("database away for %v under load", r.options.outage), func(ctx context.Context) error { return r.outage(ctx, "postgres", "database away") }},
		{"stopping the daemon", func(context.Context) error { return r.daemon.stop() }},
	}
}

func (r *run) seed(ctx context.Context) error {
	begun := time.Now()
	if err := r.shopper.seed(ctx, r.options.orders); err != nil {
		return err
	}
	r.visits = r.options.orders
	r.say("%d orders in %.0f s", r.options.orders, time.Since(begun).Seconds())
	return nil
}

func (r *run) first(ctx context.Context) error {
	if err := r.daemon.start(); err != nil {
		return err
	}
	return r.settle(ctx, "first synchronisation")
}

// changes does something to every order that can still change, and to some customers.
func (r *run) changes(ctx context.Context) error {
	state, err := r.shop.state(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	done := map[string]int{}
	err = inParallel(4, r.options.orders/2, func(int) error {
		what, err := r.shopper.change(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done[what]++
		return nil
	})
	if err != nil {
		return err
	}
	for range r.options.customers / 4 {
		if err := r.shopper.renameSomebody(ctx, state.Customers); err != nil {
			return err
		}
		done["renamed"]++
	}
	delete(done, "")
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(done)) {
		parts = append(parts, fmt.Sprintf("%d %s", done[what], what))
	}
	r.say("%s", strings.Join(parts, "; "))
	return r.settle(ctx, "changes")
}

// underLoad does something while the shop is busy, and returns when both are over.
func (r *run) underLoad(ctx context.Context, do func(context.Context) error) error {
	state, err := r.shop.state(ctx)
	if err != nil {
		return err
	}
	busy, enough := context.WithCancel(ctx)
	defer enough()
	over := make(chan load)
	go func() { over <- r.shopper.load(busy, state.Customers, r.visits) }()
	err = do(ctx)
	enough()
	l := <-over
	r.visits += l.Bought + l.Failed
	r.say("meanwhile %d new orders, %d changes, %d refused by a shop that was away", l.Bought, l.Changed, l.Failed)
	if l.LastError != nil {
		r.say("  the last refusal: %v", l.LastError)
	}
	return err
}

// kills kills the daemon again and again, mostly in the middle of its work, and starts it again at once.
func (r *run) kills(ctx context.Context) error {
	err := r.underLoad(ctx, func(ctx context.Context) error {
		working := 0
		for i := range r.options.kills {
			atWork, err := r.killOnce(ctx)
			if err != nil {
				return fmt.Errorf("kill %d: %w", i+1, err)
			}
			if atWork {
				working++
			}
		}
		r.say("%d of %d kills met a daemon that had just written", working, r.options.kills)
		return nil
	})
	if err != nil {
		return err
	}
	return r.settle(ctx, fmt.Sprintf("%d × kill -9", r.options.kills))
}

// killOnce waits until the daemon has written something (at most as long as a lease of its predecessor may last, and some), then a random moment,
// and kills it. It reports whether the daemon was seen to work.
func (r *run) killOnce(ctx context.Context) (atWork bool, err error) {
	const leaseAndSome = 45 * time.Second
	before, err := r.progress(ctx)
	if err != nil {
		return false, err
	}
	for deadline := time.Now().Add(leaseAndSome); !atWork && time.Now().Before(deadline) && ctx.Err() == nil; {
		wait(ctx, 50*time.Millisecond)
		now, err := r.progress(ctx)
		if err != nil {
			return false, err
		}
		atWork = now != before
	}
	wait(ctx, time.Duration(r.shopper.roll(2000))*time.Millisecond)
	if err := r.daemon.kill(); err != nil {
		return atWork, err
	}
	return atWork, errors.Join(r.daemon.start(), ctx.Err())
}

// outage stops one of the systems for a while.
func (r *run) outage(ctx context.Context, system, phase string) error {
	err := r.underLoad(ctx, func(ctx context.Context) error {
		wait(ctx, 5*time.Second)
		if err := r.systems(ctx, "service", "stop", system); err != nil {
			return err
		}
		wait(ctx, r.options.outage)
		// Also when this program was told to end: the systems are left as they were found.
		if err := r.systems(context.WithoutCancel(ctx), "service", "start", system); err != nil {
			return err
		}
		wait(ctx, 5*time.Second)
		return errors.Join(r.daemon.alive(), ctx.Err())
	})
	if err != nil {
		return err
	}
	return r.settle(ctx, fmt.Sprintf("%s for %v", phase, r.options.outage))
}
