package crash

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"syncd/internal/sandbox"
)

//go:embed crash.yaml
var configuration string

// Options of one run.
type Options struct {
	// Binary is the syncd that is killed, Dir an empty folder for its files.
	Binary, Dir string
	// Postgres is the URL of an empty database for the journal; "" keeps it in SQLite.
	Postgres string
	// Kills is how often the daemon is killed, at least 1.
	Kills int
	// Seed chooses the moments, the trade and what goes wrong.
	Seed uint64
	// Changes is how many changes the shop makes in a second; 0 means 15.
	Changes int
	// Say is told how it goes, a line at a time; nil for nobody.
	Say func(format string, args ...any)
}

// Report is what came of a run.
type Report struct {
	Seed  uint64
	Kills int
	// Doubts is how many kills left writes in doubt, InDoubt how many writes they were.
	Doubts, InDoubt int
	// Open is how many jobs were not done when the run ended.
	Open int64
	// Audit compares the ERP with the shop.
	Audit sandbox.Audit
	// Shop and ERP count what the sandboxes did to their callers.
	Shop, ERP map[string]int
	// Traded is how long shop and daemon worked while it was being killed, Drained
	// how long the daemon needed then to finish.
	Traded, Drained time.Duration
}

// OK reports whether every change is in the ERP once, in its newest state, and
// no older one ever overwrote it.
func (r Report) OK() bool { return r.Audit.OK() && r.Open == 0 && r.Audit.Expected > 0 }

const (
	// workTime bounds how long the ERP works on a request; the settle_time of the
	// configuration is longer by far, so that a slow machine breaks no promise.
	workTime = 1200 * time.Millisecond
	// shortest and longest is how long a daemon lives.
	shortest, longest = 50 * time.Millisecond, 1800 * time.Millisecond
)

// Run kills and audits. Its error says that the run itself could not be made;
// what syncd did wrong is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Changes == 0 {
		o.Changes = 15
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	r := &run{Options: o, rnd: rand.New(rand.NewPCG(o.Seed, 2)), report: Report{Seed: o.Seed, Kills: o.Kills}}
	var err error
	if r.shop, err = sandbox.NewShop(o.Seed); err != nil {
		return r.report, err
	}
	defer r.shop.Close()
	if r.erp, err = sandbox.NewERP(o.Seed + 1); err != nil {
		return r.report, err
	}
	defer r.erp.Close()
	r.shop.Quota(50, 50)
	r.erp.Quota(200, 200)
	r.erp.WorkLate(workTime)
	r.erp.TakeTwice("orders")
	if err := r.configure(); err != nil {
		return r.report, err
	}
	if err := r.kill(ctx); err != nil {
		return r.report, err
	}
	return r.report, r.finish(ctx)
}

type run struct {
	Options
	rnd    *rand.Rand
	shop   *sandbox.Shop
	erp    *sandbox.ERP
	config string
	report Report
}

func (r *run) configure() error {
	journal := "sqlite:" + filepath.Join(r.Dir, "syncd.db")
	if r.Postgres != "" {
		journal = `{postgres: {url: "${env:CRASH_DATABASE}"}}`
	}
	r.config = filepath.Join(r.Dir, "syncd.yaml")
	text := strings.NewReplacer("JOURNAL", journal, "SHOP_URL", r.shop.URL, "ERP_URL", r.erp.URL).Replace(configuration)
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// kill has the shop trade while daemons are started and killed.
func (r *run) kill(ctx context.Context) error {
	begun := time.Now()
	trading, end := context.WithCancel(ctx)
	traded := make(chan struct{})
	go func() {
		defer close(traded)
		r.trade(trading)
	}()
	defer func() {
		end()
		<-traded
		r.report.Traded = time.Since(begun)
	}()
	for n := 1; n <= r.Kills; n++ {
		lives := shortest + time.Duration(r.rnd.Int64N(int64(longest-shortest)))
		d, err := r.start()
		if err != nil {
			return err
		}
		select {
		case <-d.ended:
			return fmt.Errorf("the daemon ended by itself before kill %d: %w; the end of its log:\n%s", n, d.err, d.tail())
		case <-ctx.Done():
			d.kill()
			return ctx.Err()
		case <-time.After(lives):
		}
		d.kill()
		r.count(d)
		if n%10 == 0 || n == r.Kills {
			r.Say("%d of %d kills, %d of them left %d writes in doubt", n, r.Kills, r.report.Doubts, r.report.InDoubt)
		}
	}
	return nil
}

// count adds up what a daemon found at its start.
func (r *run) count(d *daemon) {
	if n := d.foundInDoubt(); n > 0 {
		r.report.Doubts++
		r.report.InDoubt += n
	}
}

// trade makes changes in the shop until ctx ends.
func (r *run) trade(ctx context.Context) {
	const steps = 10 // in a second
	tick := time.NewTicker(time.Second / steps)
	defer tick.Stop()
	owed := 0.0
	for ctx.Err() == nil {
		owed += float64(r.Changes) / steps
		r.shop.Trade(int(owed))
		owed -= float64(int(owed))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

const (
	// stuck is how long nothing may get better before the run is given up.
	stuck = 40 * time.Second
	// watched is how long it is looked on after all is well: longer than any write
	// that was once sent can still be at work.
	watched = workTime + 2*time.Second
)

// finish ends the bad day, lets a last daemon finish, and audits.
func (r *run) finish(ctx context.Context) error {
	r.shop.Calm()
	r.erp.Calm()
	begun := time.Now()
	d, err := r.start()
	if err != nil {
		return err
	}
	defer d.kill()
	if err := r.drain(ctx, d); err != nil {
		return err
	}
	r.report.Drained = time.Since(begun)
	err = d.stop(ctx)
	r.count(d)
	r.report.Audit = sandbox.Compare(r.shop, r.erp)
	r.report.Shop, r.report.ERP = r.shop.Faults(), r.erp.Faults()
	return err
}

// drain waits until every change is in the ERP and nothing is open, and a while
// longer. It returns too when nothing gets better any more.
func (r *run) drain(ctx context.Context, d *daemon) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	best, at := int64(-1), time.Now()
	var well time.Time
	for {
		select {
		case <-tick.C:
		case <-d.ended:
			return fmt.Errorf("the last daemon ended by itself: %w; the end of its log:\n%s", d.err, d.tail())
		case <-ctx.Done():
			return ctx.Err()
		}
		open, err := r.open(ctx)
		if err != nil {
			return err
		}
		r.report.Open = open
		a := sandbox.Compare(r.shop, r.erp)
		missing := open + int64(a.Lost+a.Stale)
		if best < 0 || missing < best {
			best, at = missing, time.Now()
		}
		switch {
		case missing > 0:
			well = time.Time{}
		case well.IsZero():
			well = time.Now()
		case time.Since(well) > watched:
			return nil
		}
		if time.Since(at) > stuck {
			return nil
		}
	}
}
