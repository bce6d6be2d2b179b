package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"syncd/bench/internal/lab"
	"syncd/internal/quota"
	"syncd/jobs"
	"syncd/jobs/postgres"
)

// world is the folder, the binary and the PostgreSQL server that daemons are run with.
type world struct {
	dir, binary string
	server      *lab.Server
	fleets      int // that there were
}

func newWorld(ctx context.Context) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "syncd-quota-"); err != nil {
		return w, fmt.Errorf("make a folder: %w", err)
	}
	w.binary = filepath.Join(w.dir, "syncd")
	if err = lab.Build(ctx, w.binary); err != nil {
		return w, err
	}
	w.server, err = lab.NewServer(ctx)
	return w, err
}

func (w *world) close() error {
	var err error
	if w.server != nil {
		err = w.server.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// play plays scenarios of one cast side by side, each with a journal and daemons of its own; where two daemons share their
// clients all of them are clients of the same two.
func (w *world) play(ctx context.Context, t timing, some []scenario) ([]sample, error) {
	var fleets []*fleet
	if some[0].cast == pair {
		fleets = append(fleets, &fleet{scenarios: some})
	} else {
		for _, sc := range some {
			fleets = append(fleets, &fleet{scenarios: []scenario{sc}})
		}
	}
	for _, f := range fleets {
		w.fleets++
		f.world, f.timing, f.number = w, t, w.fleets
		name := fmt.Sprintf("fleet%d", f.number)
		f.dir, f.journal = filepath.Join(w.dir, name), w.server.DSN(name)
		if err := w.server.Fresh(ctx, name); err != nil {
			return nil, err
		}
	}
	outs, errs := make([][]sample, len(fleets)), make([]error, len(fleets))
	var wg sync.WaitGroup
	for i, f := range fleets {
		wg.Go(func() {
			if outs[i], errs[i] = f.play(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", f.scenarios[0], errs[i])
			}
		})
	}
	wg.Wait()
	return slices.Concat(outs...), errors.Join(errs...)
}

// fleet is one daemon, or two, between a file of orders and servers with a quota, one for each scenario.
type fleet struct {
	*world
	timing
	number       int
	scenarios    []scenario
	dir, journal string
	shops        []*shop
	members      []*member // that work
	frozen       []*member
}

// member is a daemon, known to the servers by its name.
type member struct {
	*lab.Daemon
	name string
}

const (
	// leaseAndASecond is how long the clients of a daemon that died may be without one.
	leaseAndASecond = 31 * time.Second
	// nextWithin is how long another daemon is waited for at most.
	nextWithin = 2 * time.Minute
)

// play has the daemons work and measures at the servers.
func (f *fleet) play(ctx context.Context) (out []sample, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	many, err := f.orders()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	defer func() {
		for _, p := range f.shops {
			err = errors.Join(err, p.server.Close())
		}
	}()
	for _, sc := range f.scenarios {
		p, err := open(sc, f.timing, begin)
		if err != nil {
			return nil, err
		}
		f.shops = append(f.shops, p)
		if sc.foreign > 0 {
			others.Go(func() { p.share(ctx, f.timing) })
		}
	}
	defer func() {
		for _, m := range slices.Concat(f.members, f.frozen) {
			m.Kill()
		}
	}()
	cast := f.scenarios[0].cast
	for i := range cast.daemons() {
		if err := f.enter(ctx, fmt.Sprint("daemon", i+1)); err != nil {
			return nil, err
		}
	}
	if cast.event() {
		out, err = f.replaced(ctx, begin.Add(f.warm))
	} else {
		out, err = f.steady(ctx, begin.Add(f.warm))
	}
	if err != nil {
		return nil, err
	}
	for _, p := range f.shops {
		if done := p.quota.Counts(time.Now()).Ours; done > 0.99*float64(many) {
			return nil, fmt.Errorf("%d orders do not last: %.0f were written", many, done)
		}
	}
	for _, m := range f.members {
		if _, err := m.Stop(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return out, nil
}

// enter starts one more daemon.
func (f *fleet) enter(ctx context.Context, name string) error {
	var clients, flows strings.Builder
	for i, p := range f.shops {
		fmt.Fprintf(&clients, clientText, i, p.url, name, workers)
		fmt.Fprintf(&flows, flowText, i, i)
	}
	config := filepath.Join(f.dir, name+".yaml")
	text := fmt.Sprintf(configText, f.journal, f.dir, &clients, &flows)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	d, err := lab.StartDaemon(ctx, f.binary, config)
	if err == nil {
		f.members = append(f.members, &member{d, name})
	}
	return err
}

const (
	configText = `
journal: %q
listen: 127.0.0.1:0
log: {level: warn}
clients:
  file:
    connector: file
    dir: %q
    streams:
      orders: {path: orders.jsonl, format: jsonl, id: id, version: updated_at}
%sflows:
%s`
	// Each daemon tells its name, so that the server knows who calls.
	clientText = `  shop%d:
    connector: rest
    url: %q
    headers: {X-Daemon: %s}
    concurrency: %d
    entities:
      order: {put: {path: "/orders/{key}", answer: none}}
`
	flowText = `  orders%d:
    from: {client: file, stream: orders, start: all, every: 1h}
    to: {client: shop%d, entity: order, strategy: natural_key, on_existing: adopt}
    key: .number
    map: |
      {number: .id, total: .total, updated: .updated_at}
`
)

// orders writes as many orders as can be written in the time, and some more.
func (f *fleet) orders() (many int, err error) {
	lasts := f.warm + f.lasts + 10*time.Second
	if f.scenarios[0].cast.event() {
		lasts += leaseAndASecond
	}
	limit, rate := f.scenarios[0].size(f.timing)
	many = int(2*limit + rate*lasts.Seconds())
	var text strings.Builder
	at := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	for i := range many {
		fmt.Fprintf(&text, `{"id":"%06d","updated_at":%q,"total":"%d.50"}`+"\n", i, at.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i%400)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "orders.jsonl"), []byte(text.String()), 0o600); err != nil {
		return 0, fmt.Errorf("write orders: %w", err)
	}
	return many, nil
}

// steady measures from a moment on in which nothing happens.
func (f *fleet) steady(ctx context.Context, from time.Time) ([]sample, error) {
	first, last := make([]quota.Mark, len(f.shops)), make([]quota.Mark, len(f.shops))
	for i, p := range f.shops {
		first[i].At, last[i].At = from, from.Add(f.lasts)
		p.quota.Mark(&first[i], &last[i])
	}
	if !until(ctx, from) {
		return nil, ctx.Err()
	}
	for _, p := range f.shops {
		p.look()
	}
	if !until(ctx, from.Add(f.lasts+10*time.Millisecond)) {
		return nil, ctx.Err()
	}
	working := map[string]bool{}
	out := make([]sample, len(f.shops))
	for i, p := range f.shops {
		names := p.look()
		if len(names) != 1 {
			return nil, fmt.Errorf("%s: its client changed hands in the steady state: %q called", p, names)
		}
		working[names[0]] = true
		p.quota.Counts(time.Now())
		out[i] = p.sampled(first[i].Counts, &first[i], &last[i])
	}
	if len(working) != len(f.members) {
		return nil, fmt.Errorf("of %d daemons only %d called a server", len(f.members), len(working))
	}
	return out, nil
}

// replaced has the daemon that runs the one client end, at a moment in the middle of a window, and measures from when another one calls.
func (f *fleet) replaced(ctx context.Context, at time.Time) ([]sample, error) {
	p := f.shops[0]
	event, first, last := &quota.Mark{}, &quota.Mark{}, &quota.Mark{}
	event.At = at.Add(time.Duration(phases[f.number%len(phases)] * float64(f.length)))
	p.quota.Mark(event)
	if !until(ctx, event.At) {
		return nil, ctx.Err()
	}
	owner, err := f.owner(ctx)
	if err != nil {
		return nil, err
	}
	next := p.next(owner.name, func(now time.Time) {
		first.At = now
		if p.sort == quota.Window {
			// What is left of the window may be more than can be spent until its end.
			first.At = now.Add(f.length - now.Sub(at)%f.length)
		}
		last.At = first.At.Add(f.lasts)
		p.quota.Mark(first, last)
	})
	if err := f.end(ctx, owner); err != nil {
		return nil, err
	}
	heir := f.members[0]
	select {
	case <-next.came:
	case <-heir.Ended():
		return nil, heir.Failed(errors.New("ended before it called the server"))
	case <-time.After(nextWithin):
		return nil, heir.Failed(fmt.Errorf("%s has not called the server within %s of the end of %s", heir.name, nextWithin, owner.name))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !until(ctx, last.At.Add(10*time.Millisecond)) {
		return nil, ctx.Err()
	}
	p.quota.Counts(time.Now())
	s := p.sampled(event.Counts, first, last)
	// Refusals are those since the daemon was about to end.
	since := last.Counts.Sub(event.Counts)
	s.steady.Calls, s.steady.Refused, s.steady.Denied = since.Calls, since.Refused, since.Denied
	s.silent = next.first.Sub(next.last)
	return []sample{s}, nil
}

// end has a daemon end as the scenario wants it.
func (f *fleet) end(ctx context.Context, m *member) error {
	f.members = slices.DeleteFunc(f.members, func(o *member) bool { return o == m })
	switch f.scenarios[0].cast {
	case restarted:
		m.Kill()
		return f.enter(ctx, "next")
	case taken:
		m.Kill()
	case lapsed:
		// Nobody can tell that it will never go on.
		if err := m.Signal(syscall.SIGSTOP); err != nil {
			return m.Failed(err)
		}
		f.frozen = append(f.frozen, m)
	case handed:
		if _, err := m.Stop(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// owner is the daemon that has the lease of the first client.
func (f *fleet) owner(ctx context.Context) (*member, error) {
	e, err := postgres.Open(ctx, f.journal, postgres.Options{ReadOnly: true, MaxConns: 1})
	if err != nil {
		return nil, err
	}
	var ds []jobs.Daemon
	var ls []jobs.Lease
	err = e.View(ctx, func(tx jobs.Tx) (err error) {
		if ds, err = tx.Daemons(ctx); err == nil {
			ls, err = tx.Leases(ctx)
		}
		return err
	})
	if err = errors.Join(err, e.Close()); err != nil {
		return nil, fmt.Errorf("look who has the lease: %w", err)
	}
	for _, l := range ls {
		if l.Client != "shop0" {
			continue
		}
		for _, d := range ds {
			for _, m := range f.members {
				if d.Owner == l.Owner && d.Process.PID == int64(m.PID()) {
					return m, nil
				}
			}
		}
	}
	return nil, errors.New("no daemon has the lease of the client")
}
