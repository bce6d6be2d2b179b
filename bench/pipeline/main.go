package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"syncd/bench/internal/lab"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == receive {
		receiveMain()
		return
	}
	program.Main()
}

var program = lab.Program[settings]{Name: "pipeline", Declare: declare, Check: (*settings).check, Measure: measured}

// settings are what the command line asks for.
type settings struct {
	events, size, rounds int
	journal, target      string
	against              string
	profile              string
	service              bool
}

func declare(f *flag.FlagSet, s *settings) {
	f.IntVar(&s.events, "events", 100_000, "orders to move; a fifth of them is moved, too, to compare the memory")
	f.IntVar(&s.size, "size", 4096, "least size of an order, in bytes")
	f.IntVar(&s.rounds, "rounds", 3, "how often everything is measured; medians are told")
	f.StringVar(&s.journal, "journal", "both", "sqlite, postgres or both")
	f.StringVar(&s.target, "target", "both", "table, http or both: a table of PostgreSQL, or an HTTP server that takes each order with a PUT")
	f.StringVar(&s.against, "against", "", "another build of syncd, measured in turn with this one")
	f.StringVar(&s.profile, "profile", "", "a `folder` for processor and heap profiles of each run")
	f.BoolVar(&s.service, "service", true, "measure start, rest and size, too")
}

func (s *settings) check() error {
	if s.events < 5 || s.rounds < 1 || s.size < 1 {
		return errors.New("--events must be 5 or more, --rounds and --size 1 or more")
	}
	if len(s.journals()) == 0 {
		return fmt.Errorf("--journal %s is not sqlite, postgres or both", s.journal)
	}
	if len(s.targets()) == 0 {
		return fmt.Errorf("--target %s is not table, http or both", s.target)
	}
	return nil
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

// measured is what was measured; nothing when something failed.
func measured(ctx context.Context, s settings, progress io.Writer) (lab.Report, error) {
	r, err := measure(ctx, s, progress)
	if err != nil {
		return nil, err
	}
	return r, nil
}
