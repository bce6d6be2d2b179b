package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == receive {
		receiveMain()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
	}
	os.Exit(code)
}

// settings are what the command line asks for.
type settings struct {
	events, size, rounds int
	journal, target      string
	json                 bool
	against              string
	profile              string
	service              bool
}

func parse(args []string, errw io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("pipeline", flag.ContinueOnError)
	f.SetOutput(errw)
	f.IntVar(&s.events, "events", 100_000, "orders to move; a fifth of them is moved, too, to compare the memory")
	f.IntVar(&s.size, "size", 4096, "least size of an order, in bytes")
	f.IntVar(&s.rounds, "rounds", 3, "how often everything is measured; medians are told")
	f.StringVar(&s.journal, "journal", "both", "sqlite, postgres or both")
	f.StringVar(&s.target, "target", "both", "table, http or both: a table of PostgreSQL, or an HTTP server that takes each order with a PUT")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.StringVar(&s.against, "against", "", "another build of syncd, measured in turn with this one")
	f.StringVar(&s.profile, "profile", "", "a `folder` for processor and heap profiles of each run")
	f.BoolVar(&s.service, "service", true, "measure start, rest and size, too")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("no arguments are wanted, but there is %q", f.Arg(0))
	case s.events < 5 || s.rounds < 1 || s.size < 1:
		return s, errors.New("--events must be 5 or more, --rounds and --size 1 or more")
	}
	if len(s.journals()) == 0 {
		return s, fmt.Errorf("--journal %s is not sqlite, postgres or both", s.journal)
	}
	if len(s.targets()) == 0 {
		return s, fmt.Errorf("--target %s is not table, http or both", s.target)
	}
	return s, nil
}

func (s settings) journals() []string { return oneOrBoth(s.journal, "sqlite", "postgres") }

func (s settings) targets() []string { return oneOrBoth(s.target, toTable, toHTTP) }

// oneOrBoth is what a setting chooses of two; nothing where it names neither.
func oneOrBoth(chosen string, of ...string) []string {
	switch {
	case chosen == "both":
		return of
	case slices.Contains(of, chosen):
		return []string{chosen}
	}
	return nil
}

// run measures and reports; its code is 1 when a limit is missed or something failed.
func run(ctx context.Context, args []string, out, errw io.Writer) (int, error) {
	s, err := parse(args, errw)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return 2, err
	}
	r, err := measure(ctx, s, errw)
	if err != nil {
		return 1, err
	}
	if s.json {
		err = r.writeJSON(out)
	} else {
		err = r.writeText(out)
	}
	if err != nil {
		return 1, fmt.Errorf("write the report: %w", err)
	}
	if r.missed() {
		return 1, nil
	}
	return 0, nil
}
