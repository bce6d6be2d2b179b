package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed torture.yaml
var configuration string

// place is where a world has its databases, and what its daemons are.
type place struct {
	engine string // of the journal: sqlite or postgres
	// dir is the folder for the journal's file or for its server's data; "" for the world's own.
	dir string
	// shared is the connection string of a server on which other worlds have databases too; "" where the world needs servers of its own, to
	// stop them.
	shared string
	// mutant is a mistake that the daemons make; "" for none.
	mutant string
}

// world is everything around the daemon that is killed: sources that change all the time, targets that keep a ledger, and the journal.
type world struct {
	dir, binary, config string
	place               place
	log                 io.Writer // of the daemons; nil for nobody
	rnd                 *rand.Rand
	lease               time.Duration

	shop      *shop
	erp       *erp
	warehouse *warehouse
	journal   *database // nil for SQLite
	ledgers   []*ledger

	// wasPutBack says that the journal was put back from a backup.
	wasPutBack bool

	started int
	shards  int      // of the ERP
	daemon  *process // the one that runs; nil for none

	trading sync.WaitGroup
	halt    context.CancelFunc

	mu     sync.Mutex
	first  time.Time // when the first write after since was confirmed
	since  time.Time
	firstC chan struct{}
}

// groups is how many products the movements are of.
const groups = 12

// leaseTime is what a lease of 30 s is shortened to.
const leaseTime = 3 * time.Second

// newWorld makes a world in an empty folder.
func newWorld(ctx context.Context, dir, binary string, at place, seed uint64, log io.Writer) (w *world, err error) {
	w = &world{dir: dir, binary: binary, place: at, log: log, rnd: rand.New(rand.NewPCG(seed, 1)), lease: leaseTime, shards: 1,
		config: filepath.Join(dir, "syncd.yaml"), halt: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	customers, orders := newLedger("customers", false), newLedger("orders", false)
	prices, stock := newLedger("prices", false), newLedger("stock", true)
	payments, notices, movements := newLedger("payments", false), newLedger("notices", false), newLedger("movements", false)
	movements.ordered = true
	refunds := newLedger("refunds", false)
	refunds.refuses = func(body string) bool { n, _ := strconv.Atoi(body); return n%3 == 0 }
	labels := newLedger("labels", false)
	w.ledgers = []*ledger{customers, orders, prices, stock, payments, notices, movements, refunds, labels}
	if w.shop, err = newShop(seed); err != nil {
		return w, err
	}
	w.shop.offer("customers", "C-", "", 2, customers)
	w.shop.offer("orders", "O-", "customers", 2, orders)
	w.shop.offer("stock", "S-", "", 2, stock)
	w.shop.offer("payments", "Y-", "", 2, payments)
	w.shop.offer("notices", "N-", "", 1, notices) // a command ends each doubt
	w.shop.offerEvents("movements", "M-", groups, movements)
	w.shop.offer("refunds", "R-", "", 1, refunds)
	w.shop.offer("labels", "L-", "", 2, labels)
	if w.erp, err = newERP(seed + 1); err != nil {
		return w, err
	}
	w.erp.confirmed = w.wrote
	w.erp.keep("customers", true, customers)
	w.erp.keep("orders", false, orders)
	w.erp.keep("prices", true, prices)
	w.erp.keepKeyed("payments", payments)
	w.erp.keep("notices", false, notices)
	w.erp.keep("movements", true, movements)
	w.erp.keep("refunds", true, refunds)
	w.erp.keep("labels", true, labels)
	d, err := newDatabase(ctx, "", at.shared)
	if err != nil {
		return w, err
	}
	if w.warehouse, err = newWarehouse(ctx, seed, d, stock, prices); err != nil {
		return w, err
	}
	if w.place.dir == "" {
		w.place.dir = dir
	}
	if at.engine == "postgres" {
		if at.dir != "" {
			at.shared = "" // the server's data is to be there
		}
		if w.journal, err = newDatabase(ctx, at.dir, at.shared); err != nil {
			return w, err
		}
	}
	return w, nil
}

// configure writes the configuration anew.
func (w *world) configure() error {
	journal := "sqlite:" + w.journalFile()
	if w.journal != nil {
		journal = `{postgres: {url: "${env:TORTURE_JOURNAL}", connections: 3}}` // each costs its server some 0.2 s of a processor before it is worth it
	}
	text := strings.NewReplacer("JOURNAL", journal, "STATE_DIR", w.dir, "SHOP_URL", w.shop.url, "ERP_URL", w.erp.url, "SHARDS", strconv.Itoa(w.shards)).Replace(configuration)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

func (w *world) env() []string {
	env := append(os.Environ(), "TORTURE_WAREHOUSE="+w.warehouse.dsn, "TORTURE_LEASE="+w.lease.String(), "MUTANT_ALIVE="+w.place.mutant)
	if w.journal != nil {
		env = append(env, "TORTURE_JOURNAL="+w.journal.dsn)
	}
	return env
}

// close takes the world away.
func (w *world) close() error {
	w.rest()
	var errs []error
	if w.daemon != nil {
		w.daemon.kill()
	}
	if w.shop != nil {
		errs = append(errs, w.shop.close())
	}
	if w.erp != nil {
		errs = append(errs, w.erp.close())
	}
	if w.warehouse != nil {
		errs = append(errs, w.warehouse.close())
	}
	if w.journal != nil {
		errs = append(errs, w.journal.close())
	}
	return errors.Join(errs...)
}

const (
	// changes is how many there are in a second in the shop.
	changes = 20
	// events is how many there are in a second in the warehouse, whose outbox is read without an overlap: what was skipped there is lost.
	events = 10
)

// trade begins to change things, and a bad day.
func (w *world) trade(ctx context.Context) {
	ctx, w.halt = context.WithCancel(ctx)
	w.shop.beCalm(false)
	w.erp.beCalm(false)
	const each = 50 * time.Millisecond
	every := func(f func()) {
		w.trading.Go(func() {
			tick := time.NewTicker(each)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					f()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	const share = changes * int(each/time.Millisecond) / 1000
	every(func() { w.shop.trade(share) })
	w.trading.Go(func() {
		tick := time.NewTicker(time.Second / events)
		defer tick.Stop()
		var c *pgx.Conn
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				if c != nil {
					_ = c.Close(context.WithoutCancel(ctx))
				}
				return
			}
			if c == nil {
				c, _ = pgx.Connect(ctx, w.warehouse.dsn) // it may be away just now
			}
			if c != nil && w.warehouse.trade(ctx, c, 1) != nil {
				_ = c.Close(context.WithoutCancel(ctx))
				c = nil
			}
		}
	})
}

// rest ends all changes and the bad day.
func (w *world) rest() {
	w.halt()
	w.trading.Wait()
	if w.shop != nil {
		w.shop.fail(false)
		w.shop.beCalm(true)
	}
	if w.erp != nil {
		w.erp.be(asUsual)
		w.erp.beCalm(true)
	}
}

// wrote notes that a write which came at a time was confirmed.
func (w *world) wrote(came time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.firstC != nil && w.first.IsZero() && came.After(w.since) {
		w.first = time.Now()
		close(w.firstC)
	}
}

// watch begins to look for the first write that comes from now on and is confirmed.
func (w *world) watch() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.first, w.firstC = time.Now(), time.Time{}, make(chan struct{})
	return w.firstC
}

// recoverTime is how long a daemon may take to its first confirmed write before the run is given up.
const recoverTime = 90 * time.Second

// serves waits until a write of the running daemon is confirmed, and returns how long that took.
func (w *world) serves(ctx context.Context, first <-chan struct{}) (time.Duration, error) {
	t := time.NewTimer(recoverTime)
	defer t.Stop()
	select {
	case <-first:
	case <-w.daemon.ended:
		return 0, w.daemon.strange("ended by itself")
	case <-t.C:
		return 0, fmt.Errorf("syncd confirmed no write for %s; the end of its log:\n%s", recoverTime, w.daemon.tail())
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first.Sub(w.since), nil
}

// revive starts a daemon that is to die at a point once it is armed, and waits until it works.
func (w *world) revive(ctx context.Context, point string) (time.Duration, error) {
	var err error
	if w.daemon, err = w.start(point, false); err != nil {
		return 0, err
	}
	// Until it has said something, a busy machine may still hand on what the daemon before it has sent.
	if err := w.daemon.speaks(ctx); err != nil {
		return 0, err
	}
	first, spoke := w.watch(), time.Since(w.daemon.begun)
	took, err := w.serves(ctx, first)
	return spoke + took, err
}

// findings are all that the ledgers find wrong.
func (w *world) findings(ctx context.Context, quiet bool) (out []finding, err error) {
	if err := w.warehouse.remember(ctx); err != nil {
		return nil, err
	}
	for _, l := range w.ledgers {
		out = append(out, l.judge(quiet)...)
	}
	return out, nil
}

const (
	// stuck is how long nothing may get better before what has not arrived counts as lost.
	stuck = time.Minute
	// longest is how long it may take altogether for everything to arrive.
	longest = 10 * time.Minute
	// watched is how long it is looked on after all is well: longer than the ERP works on a write.
	watched = workTime + 500*time.Millisecond
	// ask is how often syncd is asked, which costs a process.
	ask = time.Second
)

// quiesce ends all changes, has the daemon finish, and returns what is wrong then.
func (w *world) quiesce(ctx context.Context, say func(string, ...any)) ([]finding, error) {
	w.rest()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	begun := time.Now()
	best, at := -1, begun
	var well, asked time.Time
	open := 0
	for {
		select {
		case <-tick.C:
		case <-w.daemon.ended:
			return nil, w.daemon.strange("ended by itself")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		fs, err := w.findings(ctx, true)
		if err != nil {
			return nil, err
		}
		missing := 0
		for _, f := range fs {
			if f.what != doubled {
				missing++
			}
		}
		// What is held waits for a word of somebody who has looked, when nothing can be at work any more.
		if (missing == 0 || time.Since(begun) > 4*workTime) && time.Since(asked) > ask {
			resolved := false
			if open, resolved, err = w.open(ctx); err != nil {
				return nil, err
			}
			asked = time.Now()
			if resolved {
				at = asked // it took its time, and is not over with that
				continue
			}
		}
		if missing == 0 {
			missing = open
		}
		if best < 0 || missing < best {
			best, at = missing, time.Now()
		}
		if w.log != nil {
			fmt.Fprintf(w.log, "%d records or jobs are missing, %d at best\n", missing, best)
		}
		switch {
		case missing > 0:
			well = time.Time{}
		case well.IsZero():
			well = time.Now()
		case asked.Sub(well) > watched:
			return fs, nil
		}
		if time.Since(at) < stuck && time.Since(begun) < longest {
			continue
		}
		say("%d records or jobs are missing:\n%s", missing, w.explain(ctx, fs))
		if len(fs) == 0 {
			return nil, fmt.Errorf("everything has arrived, and %d jobs are not done", missing)
		}
		return fs, nil
	}
}

// known is what the journal knows as the ERP's id of a job's record, "" for nothing, and the version that is wanted.
func (w *world) known(ctx context.Context, j job) (link string, version int64, err error) {
	out, err := w.syncd(ctx, nil, "jobs", "show", "--json", j.Flow+"/"+j.Key)
	if err != nil {
		return "", 0, err
	}
	var known struct {
		Link    string
		Version int64
	}
	if err := json.Unmarshal(out, &known); err != nil {
		return "", 0, fmt.Errorf("syncd jobs show: %w: %s", err, out)
	}
	return known.Link, known.Version, nil
}

// command is a command beside the daemon.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.binary, append(args, "--config", w.config)...)
	cmd.Dir, cmd.Env = w.dir, w.env()
	return cmd
}

// syncd runs a command beside the daemon, and returns what it prints. It may end with any of the given exit codes.
func (w *world) syncd(ctx context.Context, codes []int, args ...string) ([]byte, error) {
	out, err := w.command(ctx, args...).Output()
	var ee *exec.ExitError
	if errors.As(err, &ee) && slices.Contains(codes, ee.ExitCode()) {
		return out, nil
	}
	if err != nil {
		var said []byte
		if ee != nil {
			said = ee.Stderr
		}
		return nil, fmt.Errorf("syncd %s: %w: %s%s", strings.Join(args, " "), err, out, said)
	}
	return out, nil
}

// job is a line of a listing.
type job struct{ Flow, Key string }

// list lists jobs.
func (w *world) list(ctx context.Context, how ...string) ([]job, error) {
	// 4: there is no journal, which a power cut may have taken.
	out, err := w.syncd(ctx, []int{4}, append([]string{"jobs", "list", "--json", "--limit", strconv.Itoa(mostListed)}, how...)...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	var l struct{ Jobs []job }
	if err := json.Unmarshal(out, &l); err != nil {
		return nil, fmt.Errorf("syncd jobs list: %w: %s", err, out)
	}
	return l.Jobs, nil
}

// mostListed is how many jobs a listing has at most.
const mostListed = 10000

// explain is what syncd says of some jobs that are not done, and of some records with which something is wrong.
func (w *world) explain(ctx context.Context, fs []finding) string {
	const most = 5
	var b strings.Builder
	var js []job
	for _, which := range [][]string{{"--state", "ready"}, {"--state", "held"}, {"--state", "dead"}, {"--in-doubt"}} {
		some, err := w.list(ctx, which...)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
		js = append(js, some[:min(len(some), most)]...)
	}
	for _, f := range fs[:min(len(fs), most)] {
		js = append(js, job{f.flow, f.key})
	}
	for _, j := range js {
		for _, how := range [][]string{{"explain"}, {"jobs", "show"}} {
			out, err := w.syncd(ctx, nil, append(how, j.Flow+"/"+j.Key)...)
			fmt.Fprintf(&b, "%s%v\n", out, err)
		}
	}
	return b.String() + "the end of the log:\n" + w.daemon.tail()
}

// open is how many jobs are not done, as syncd status says. It resolves those that are held, and gives up what the ERP refuses.
func (w *world) open(ctx context.Context) (n int, resolved bool, err error) {
	out, err := w.syncd(ctx, []int{1}, "status", "--json")
	if err != nil {
		return 0, false, err
	}
	var s struct {
		Totals struct{ Open, Dead, Held, Unresolved int }
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return 0, false, fmt.Errorf("syncd status: %w: %s", err, out)
	}
	if s.Totals.Held > 0 {
		if err := w.resolve(ctx); err != nil {
			return 0, false, err
		}
	}
	if s.Totals.Dead > 0 {
		if _, err := w.syncd(ctx, inVain, refused...); err != nil {
			return 0, false, err
		}
	}
	if s.Totals.Unresolved > 0 {
		// That an update is refused does not tell what became of the one before it: the next one that is accepted does.
		js, err := w.list(ctx, "--in-doubt")
		if err != nil {
			return 0, false, err
		}
		s.Totals.Unresolved = len(slices.DeleteFunc(js, func(j job) bool { return j.Flow == "refunds" }))
	}
	return s.Totals.Open + s.Totals.Dead + s.Totals.Unresolved, s.Totals.Held+s.Totals.Dead > 0, nil
}
