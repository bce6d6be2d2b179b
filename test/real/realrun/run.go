package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// run is one run against the real systems.
type run struct {
	options options
	shop    *shop
	shopper *shopper
	daemon  *daemon

	erpDSN                     string
	trytonURL, trytonDatabase  string
	trytonUser, trytonPassword string

	baseline baseline
	checker  checker
	table    table
	started  time.Time
	// visits numbers the visits to the shop, over all phases.
	visits int
}

type phase struct {
	name string
	do   func(context.Context) error
}

// prepare gives the systems fresh databases and connects to them.
func prepare(ctx context.Context, o options) (*run, error) {
	r := &run{options: o, started: time.Now()}
	shopURL, shopUser, shopPassword := "", "", ""
	for _, v := range []struct {
		name  string
		value *string
	}{
		{"REAL_TRYTON_DSN", &r.erpDSN}, {"REAL_TRYTON_URL", &r.trytonURL}, {"REAL_TRYTON_DATABASE", &r.trytonDatabase},
		{"REAL_TRYTON_USER", &r.trytonUser}, {"REAL_TRYTON_PASSWORD", &r.trytonPassword},
		{"REAL_SHOP_URL", &shopURL}, {"REAL_SHOP_ADMIN_USER", &shopUser}, {"REAL_SHOP_ADMIN_PASSWORD", &shopPassword},
	} {
		if *v.value = os.Getenv(v.name); *v.value == "" {
			return nil, fmt.Errorf("%s is not set; source the file that test/real/up names", v.name)
		}
	}
	if err := r.systems(ctx, "reset"); err != nil {
		return nil, err
	}
	var err error
	if r.shop, err = openShop(ctx, shopURL, shopUser, shopPassword); err != nil {
		return nil, err
	}
	variants, err := r.shop.variants(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.erp(ctx, func(q querier) (err error) {
		r.baseline, err = readBaseline(ctx, q)
		return err
	}); err != nil {
		return nil, err
	}
	r.shopper = newShopper(r.shop, variants, o.customers, o.seed, r.saleExists)
	r.checker = checker{PartyPrefix: o.prefix, Seen: r.shopper.seen}
	if o.handmade {
		return r, nil
	}
	return r, r.prepareDaemon()
}

func (r *run) prepareDaemon() error {
	dir, err := stateFolder(r.options.state)
	if err != nil {
		return err
	}
	r.daemon = &daemon{dir: dir}
	for _, p := range []struct {
		flag, path string
		to         *string
	}{{"--syncd", r.options.syncd, &r.daemon.binary}, {"--config", r.options.config, &r.daemon.config}} {
		if _, err := os.Stat(p.path); err != nil {
			return fmt.Errorf("%s: %w", p.flag, err)
		}
		if *p.to, err = filepath.Abs(p.path); err != nil {
			return fmt.Errorf("%s: %w", p.flag, err)
		}
	}
	r.say("the daemon's state and log are in %s", dir)
	return nil
}

// systems calls one of the scripts beside test/real/run.
func (r *run) systems(ctx context.Context, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(r.options.systems, script), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", script, args, err, out)
	}
	return nil
}

// erp gives a connection to the ERP's database for a moment. One that is kept would not survive the outages.
func (r *run) erp(ctx context.Context, use func(querier) error) error {
	conn, err := pgx.Connect(ctx, r.erpDSN)
	if err != nil {
		return fmt.Errorf("connect to the ERP's database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return use(conn)
}

func (r *run) saleExists(ctx context.Context, code string) (found bool, err error) {
	err = r.erp(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sale_sale WHERE web_id = $1)`, code).Scan(&found)
	})
	return found, err
}

// progress is a mark that changes whenever the ERP is written to.
func (r *run) progress(ctx context.Context) (mark string, err error) {
	err = r.erp(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT concat_ws(' ', (SELECT max(id) FROM party_party), (SELECT max(write_date) FROM party_party),
			(SELECT max(id) FROM sale_sale), (SELECT max(write_date) FROM sale_sale))`).Scan(&mark)
	})
	return mark, err
}

// compare reads both sides and compares them.
func (r *run) compare(ctx context.Context) (report, error) {
	want, err := r.shop.state(ctx)
	if err != nil {
		return report{}, err
	}
	dead, err := r.daemon.deadLetters(ctx)
	if err != nil {
		return report{}, err
	}
	var got erpState
	if err := r.erp(ctx, func(q querier) (err error) {
		got, err = r.baseline.read(ctx, q)
		return err
	}); err != nil {
		return report{}, err
	}
	return r.checker.check(want, got, dead), nil
}

const (
	pauseBetween = 200 * time.Millisecond // between two things that happen in the shop
	checkEvery   = 2 * time.Second
	// A duplicate may come late: after all is right, nothing may move for so long.
	quiet = 10 * time.Second
)

// settle waits until both sides agree and stay so, or patience ends, and enters the result in the table. Nothing may change
// in the shop meanwhile.
func (r *run) settle(ctx context.Context, phase string) error {
	begun := time.Now()
	for {
		if err := r.daemon.alive(); err != nil {
			return err
		}
		report, err := r.compare(ctx)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		if report.faults() == 0 {
			wait(ctx, quiet)
			if report, err = r.compare(ctx); err != nil {
				return err
			}
		}
		if report.faults() == 0 || took > r.options.patience || ctx.Err() != nil {
			r.table.add(phase, report, took)
			r.tell(report)
			return ctx.Err()
		}
		wait(ctx, checkEvery)
	}
}

// tell prints the first findings.
func (r *run) tell(report report) {
	const most = 20
	for i, f := range report.Findings {
		if i == most {
			r.say("… and %d more", len(report.Findings)-most)
			break
		}
		r.say("  %s", f)
	}
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
}

// wait pauses, unless the context ends first.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
