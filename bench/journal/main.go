package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"syncd/bench/internal/lab"
)

// busyPercent is the garbage collector's percentage of a daemon under load.
const busyPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(busyPercent)
	}
	program.Main()
}

var program = lab.Program[settings]{Name: "journal", Declare: declare, Check: (*settings).check, Measure: measure}

// settings are what the command line asks for.
type settings struct {
	only, journal        string
	jobs, rounds         int
	full, goals          bool
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

// sections are the names of the experiments.
func sections() (names []string) {
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	return names
}

func declare(f *flag.FlagSet, s *settings) {
	f.StringVar(&s.only, "only", strings.Join(sections(), ","), "the sections to run")
	f.StringVar(&s.journal, "journal", "both", "sqlite, postgres or both")
	f.IntVar(&s.jobs, "jobs", 20_000, "jobs of each run of cycle")
	f.StringVar(&s.courses, "courses", "", "only those variants of cycle whose name contains this")
	f.StringVar(&s.server, "server", "", "`URL` of a PostgreSQL server on this machine to use, postgres://…; without it one is started")
	f.IntVar(&s.rounds, "rounds", 3, "how often cycle measures everything; medians are told")
	f.BoolVar(&s.full, "full", false, "full sizes and times: millions of rows, ten minutes of churn; some hour")
	f.BoolVar(&s.goals, "check", false, "end with code 1 when a goal is missed")
	f.StringVar(&s.profile, "profile", "", "a `folder` for a processor profile of each variant")
	f.Float64Var(&s.overPostgres, "goal-postgres", 16_500, "jobs/s of cycle wanted of PostgreSQL")
	f.Float64Var(&s.overSQ, "goal-sqlite", 18_900, "jobs/s of cycle wanted of SQLite")
}

func (s *settings) check() error {
	switch {
	case s.jobs < batch || s.rounds < 1:
		return fmt.Errorf("--jobs must be %d or more, --rounds 1 or more", batch)
	case len(s.journals()) == 0:
		return fmt.Errorf("--journal %s is not sqlite, postgres or both", s.journal)
	}
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o755); err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
	}
	for name := range strings.SplitSeq(s.only, ",") {
		if !slices.Contains(sections(), name) {
			return fmt.Errorf("--only %s: there is no such section; there are %s", name, strings.Join(sections(), ", "))
		}
	}
	return nil
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

// Missed reports whether a goal is missed that is to be checked.
func (b *bench) Missed() bool { return b.goals && lab.Missed(b.checks) }

// measure runs the sections that are wanted.
func measure(ctx context.Context, s settings, progress io.Writer) (r lab.Report, err error) {
	w, err := newWorld(ctx, s.server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	b := &bench{settings: s, world: w, report: &report{}, progress: progress}
	wanted := strings.Split(s.only, ",")
	for _, e := range experiments() {
		if !slices.Contains(wanted, e.name) {
			continue
		}
		fmt.Fprintln(progress, e.name)
		if err := e.run(ctx, b); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return b, nil
}
