// Command torture kills a real syncd at named moments of its work and at moments that nobody chose, takes databases, disks and targets
// away from it, and counts in ledgers outside it what was lost, doubled or turned back:
//
//	go run ./test/torture --engine sqlite --kills 20
//	go run ./test/torture --engine postgres --per-point 20
//	go run ./test/torture --engine sqlite --power-cuts 10
//
// It builds syncd with the tag torture, brings its own shop, ERP and PostgreSQL servers, and needs nothing else but root, and that only for
// full disks and power cuts. It ends with 1 unless every row of its table says 0, 0 and 0, or when a moment was never reached: a run that
// did not do what it says proves nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"syncd/internal/crash"
	"syncd/internal/pgtest"
	"syncd/internal/pgtest/pgserver"
)

// options of a run.
type options struct {
	engine    string
	kills     int
	perPoint  int
	commands  int
	faults    int
	powerCuts int
	abreast   int
	json      bool
	seed      uint64
	only      string
	mutant    string
	verbose   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.main(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.StringVar(&o.engine, "engine", "sqlite", "where the journal is kept: sqlite or postgres")
	f.IntVar(&o.kills, "kills", 0, "how many kills there are in all; those that --per-point does not name come at random moments and points")
	f.IntVar(&o.perPoint, "per-point", 0, "how many kills there are at each point, and as many at random moments")
	f.IntVar(&o.commands, "commands", -1, "how many kills there are at each point that a command passes; -1 as many as --per-point")
	f.IntVar(&o.faults, "faults", -1, "how often each other fault happens but the power cut; -1 as often as --per-point")
	f.IntVar(&o.powerCuts, "power-cuts", 0, "how often the power fails; needs root")
	f.IntVar(&o.abreast, "abreast", 2, "how many worlds there are at once; of those with disks or servers of their own there is one")
	f.BoolVar(&o.json, "json", false, "print the table as JSON, and nothing else on standard output")
	f.Uint64Var(&o.seed, "seed", 0, "choose what goes wrong; 0 takes a new one")
	f.StringVar(&o.only, "only", "", "do only faults whose name matches this regular expression")
	f.StringVar(&o.mutant, "mutant", "", "have syncd make a mistake of internal/mutant, to see that it is noticed")
	f.BoolVar(&o.verbose, "verbose", false, "show the daemons' logs on standard error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is not understood", f.Arg(0))
	case o.engine != "sqlite" && o.engine != "postgres":
		return o, fmt.Errorf("--engine %s is neither sqlite nor postgres", o.engine)
	case o.kills < 0 || o.perPoint < 0 || o.powerCuts < 0 || o.abreast < 1:
		return o, errors.New("a number below 0, or no world at all, is not understood")
	case o.kills+o.perPoint+o.powerCuts+max(o.faults, 0) == 0:
		o.kills = 100
	}
	if o.faults < 0 {
		o.faults = o.perPoint
	}
	if o.commands < 0 {
		o.commands = o.perPoint
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1_000_000)
	}
	return o, nil
}

// main does a run and prints its table.
func (o options) main(ctx context.Context) (err error) {
	dir, err := workFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	begun := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	binary, err := build(ctx, dir, o.mutant != "")
	if err != nil {
		return err
	}
	say("built; engine %s, seed %d", o.engine, o.seed)
	rows, err := o.run(ctx, dir, binary, say)
	var ls []line
	for _, r := range rows {
		ls = append(ls, r.line(o.command(r)))
	}
	print := printTable
	if o.json {
		print = printJSON
	}
	return errors.Join(err, print(os.Stdout, ls), verdict(rows))
}

// workFolder is a fresh folder that a database server can pass through, which runs as another user.
func workFolder() (string, error) {
	dir, err := os.MkdirTemp("", "syncd-torture-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// command is how a row is done again alone.
func (o options) command(r *row) string {
	count := "--faults"
	switch {
	case r.kill: // also of those that commands pass
		count = "--per-point"
	case r.fault == powerCut:
		count = "--power-cuts"
	}
	return fmt.Sprintf("go run ./test/torture --engine %s %s %d --seed %d --only '^%s$'", o.engine, count, r.planned, o.seed, regexp.QuoteMeta(r.fault))
}

// verdict is an error unless every row did what it says, and nothing was wrong.
func verdict(rows []*row) error {
	var errs []error
	for _, r := range rows {
		if r.lost+r.doubled+r.stale > 0 {
			errs = append(errs, fmt.Errorf("%s: %d lost, %d doubled, %d stale", r.fault, r.lost, r.doubled, r.stale))
		}
		if r.cycles < r.planned {
			errs = append(errs, fmt.Errorf("%s: %d of %d times it never came to that, so the run does not prove what it says", r.fault, r.planned-r.cycles, r.planned))
		}
	}
	if len(rows) == 0 {
		errs = append(errs, errors.New("no fault was done"))
	}
	return errors.Join(errs...)
}

// batch is how many faults a world sees: then everything has to arrive, so that what is lost is known near to the fault, and a new world takes
// its place, which is small and fast again.
const batch = 150

// part is rows that are done in worlds of one sort.
type part struct {
	rows []*row
	// apart: each world has database servers of its own.
	apart bool
	// disk makes a disk for the journal; nil for none.
	disk func(ctx context.Context, dir string) (disk, error)
	// worlds is how many there are at once, none of them for fewer faults than least if that can be helped.
	worlds, least int
}

// run does everything that is asked for. Its rows are those that were to be done.
func (o options) run(ctx context.Context, dir, binary string, say func(string, ...any)) (rows []*row, err error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	rnd := rand.New(rand.NewPCG(o.seed, 2))
	together, apart, restores := part{worlds: o.abreast, least: batch / 4}, part{apart: true, worlds: 1, least: batch}, part{worlds: o.abreast, least: 4}
	for _, r := range o.common(rnd) {
		p := &together
		switch {
		case r.apart:
			p = &apart
		case r.restores:
			p = &restores
		}
		p.rows = append(p.rows, r)
	}
	shared, done, err := anyServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	// Whatever has few worlds, and waits a lot, goes on beside what has many. Only power cuts stop all who write.
	beside, stop := errgroup.WithContext(ctx)
	do := func(ctx context.Context, i int, p part) error {
		rnd := rand.New(rand.NewPCG(o.seed, 3+uint64(i)))
		return o.part(ctx, p, filepath.Join(dir, fmt.Sprint(i)), binary, shared, rnd, say)
	}
	parts := []part{together, apart, restores, {rows: o.fullDisk(say), disk: newSmallDisk, worlds: 1, least: batch},
		{rows: o.cuts(say), disk: newImage, worlds: 1, least: batch}}
	last := len(parts) - 1
	for i := range parts {
		p := &parts[i]
		p.rows = slices.DeleteFunc(p.rows, func(r *row) bool { return r.planned == 0 || !only.MatchString(r.fault) })
		rows = append(rows, p.rows...)
		if i < last {
			beside.Go(func() error { return do(stop, i, *p) })
		}
	}
	if err := beside.Wait(); err != nil {
		return rows, err
	}
	return rows, do(ctx, last, parts[last])
}

// anyServer is the connection string of a database server for all worlds that do not stop theirs, and what takes it away. It is the one of the
// test run where there is one.
func anyServer(ctx context.Context) (dsn string, done func() error, err error) {
	if dsn := os.Getenv(pgtest.Env); dsn != "" {
		return dsn, func() error { return nil }, nil
	}
	s, err := pgserver.New(ctx)
	if err != nil {
		return "", nil, err
	}
	return s.DSN("postgres"), s.Close, nil
}

// part does the faults of a part in a random order, in one world after the other and in some at once.
func (o options) part(ctx context.Context, p part, dir, binary, shared string, rnd *rand.Rand, say func(string, ...any)) error {
	var order []*row
	for _, r := range p.rows {
		for range r.planned {
			order = append(order, r)
		}
	}
	if len(order) == 0 {
		return nil
	}
	rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if p.apart {
		shared = ""
	}
	// No world gets much less to do than another.
	worlds := (len(order) + batch - 1) / batch
	worlds = max(worlds, min(p.worlds, len(order)/p.least))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	free := make(chan struct{}, p.worlds)
	var over atomic.Int64
	var at sync.WaitGroup
	for i := range worlds {
		n := len(order) / (worlds - i)
		s := &session{order: order[:n], rnd: rand.New(rand.NewPCG(o.seed, rnd.Uint64())), say: say}
		order = order[n:]
		seed := rnd.Uint64()
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		at.Go(func() {
			defer func() { <-free }()
			folder := filepath.Join(dir, fmt.Sprint(i))
			err := os.Mkdir(folder, 0o711)
			if err == nil {
				err = s.within(ctx, folder, binary, place{engine: o.engine, shared: shared, mutant: o.mutant}, p.disk, seed, o.log())
				err = errors.Join(err, os.RemoveAll(folder))
			}
			if err != nil {
				stop(err) // the others end, too
				return
			}
			say("world %d of %d: %s", over.Add(1), worlds, s.told)
		})
	}
	at.Wait()
	return context.Cause(ctx)
}

// log is where the daemons' logs go; nil for nowhere.
func (o options) log() io.Writer {
	if o.verbose {
		return os.Stderr
	}
	return nil
}

// within does a session in a world of its own, whose journal is on a disk of its own where there is to be one.
func (s *session) within(ctx context.Context, dir, binary string, at place, disk func(context.Context, string) (disk, error), seed uint64, log io.Writer) (err error) {
	if disk != nil {
		if s.disk, err = disk(ctx, dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.disk.close()) }()
		at.dir = s.disk.path()
	}
	if s.w, err = newWorld(ctx, dir, binary, at, seed, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.w.close()) }()
	if s.disk != nil {
		if err := s.disk.ready(ctx); err != nil {
			return err
		}
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	told := []string{fmt.Sprintf("%d faults", len(s.order))}
	for _, l := range s.w.ledgers {
		records, effects := l.counts()
		told = append(told, fmt.Sprintf("%s %d records, %d effects", l.flow, records, effects))
	}
	s.told = strings.Join(told, "; ")
	return nil
}

// common are the faults that need no disk of their own: kills at each point as often as asked for, the rest of the kills at random points
// and moments.
func (o options) common(rnd *rand.Rand) []*row {
	at, anywhen := kills(o.engine)
	left := o.kills
	for _, r := range at {
		r.planned = o.perPoint
		if r.point.When == crash.ByCommand {
			r.planned = o.commands
		}
		left -= r.planned
	}
	anywhen.planned = o.perPoint
	left -= o.perPoint
	for ; left > 0; left-- {
		if left%2 == 0 {
			anywhen.planned++
		} else {
			at[rnd.IntN(len(at))].planned++
		}
	}
	rows := append(at, anywhen)
	for _, r := range others(o.engine) {
		r.planned = o.faults
		rows = append(rows, r)
	}
	return rows
}
