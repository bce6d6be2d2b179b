package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"syncd/bench/internal/lab"
)

// busyPercent is the garbage collector's percentage of a daemon under load.
const busyPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(busyPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
	}
	os.Exit(code)
}

// settings are what the command line asks for.
type settings struct {
	only, journal        string
	jobs, rounds         int
	full, json, check    bool
	profile, server      string
	courses              string
	overPostgres, overSQ float64
}

// experiment is one section: it measures and adds to the report.
type experiment struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

func experiments() []experiment {
	return []experiment{
		{"cycle", cycle}, {"latency", latency}, {"claims", claims}, {"churn", churn},
		{"snapshot", snapshot}, {"idle", idle}, {"backlog", backlog},
	}
}

func parse(args []string, errw io.Writer) (settings, error) {
	var s settings
	var names []string
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	f := flag.NewFlagSet("journal", flag.ContinueOnError)
	f.SetOutput(errw)
	f.StringVar(&s.only, "only", strings.Join(names, ","), "the sections to run")
	f.StringVar(&s.journal, "journal", "both", "sqlite, postgres or both")
	f.IntVar(&s.jobs, "jobs", 20_000, "jobs of each run of cycle")
	f.StringVar(&s.courses, "courses", "", "only those variants of cycle whose name contains this")
	f.StringVar(&s.server, "server", "", "`URL` of a PostgreSQL server on this machine to use, postgres://…; without it one is started")
	f.IntVar(&s.rounds, "rounds", 3, "how often cycle measures everything; medians are told")
	f.BoolVar(&s.full, "full", false, "full sizes and times: millions of rows, ten minutes of churn; some hour")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.BoolVar(&s.check, "check", false, "end with code 1 when a goal is missed")
	f.StringVar(&s.profile, "profile", "", "a `folder` for a processor profile of each variant")
	f.Float64Var(&s.overPostgres, "goal-postgres", 16_500, "jobs/s of cycle wanted of PostgreSQL")
	f.Float64Var(&s.overSQ, "goal-sqlite", 18_900, "jobs/s of cycle wanted of SQLite")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("no arguments are wanted, but there is %q", f.Arg(0))
	case s.jobs < batch || s.rounds < 1:
		return s, fmt.Errorf("--jobs must be %d or more, --rounds 1 or more", batch)
	case len(s.journals()) == 0:
		return s, fmt.Errorf("--journal %s is not sqlite, postgres or both", s.journal)
	}
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o755); err != nil {
			return s, fmt.Errorf("--profile: %w", err)
		}
	}
	for name := range strings.SplitSeq(s.only, ",") {
		if !slices.Contains(names, name) {
			return s, fmt.Errorf("--only %s: there is no such section; there are %s", name, strings.Join(names, ", "))
		}
	}
	return s, nil
}

func (s settings) journals() []string {
	switch s.journal {
	case "both":
		return []string{"postgres", "sqlite"}
	case "sqlite", "postgres":
		return []string{s.journal}
	}
	return nil
}

// bench is what a section works with.
type bench struct {
	settings
	*world
	*report
	progress io.Writer
}

// run measures and reports; its code is 1 when something failed, or a goal was
// missed that is to be checked.
func run(ctx context.Context, args []string, out, errw io.Writer) (code int, err error) {
	s, err := parse(args, errw)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return 2, err
	}
	w, err := newWorld(ctx, s.server)
	if err != nil {
		return 1, err
	}
	defer func() {
		if err = errors.Join(err, w.close()); err != nil {
			code = 1
		}
	}()
	b := &bench{settings: s, world: w, report: &report{}, progress: errw}
	wanted := strings.Split(s.only, ",")
	for _, e := range experiments() {
		if !slices.Contains(wanted, e.name) {
			continue
		}
		fmt.Fprintln(errw, e.name)
		if err := e.run(ctx, b); err != nil {
			return 1, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	write := b.writeText
	if s.json {
		write = b.writeJSON
	}
	if err := write(out); err != nil {
		return 1, fmt.Errorf("write the report: %w", err)
	}
	if s.check && lab.Missed(b.checks) {
		return 1, nil
	}
	return 0, nil
}
