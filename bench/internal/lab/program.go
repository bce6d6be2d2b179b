package lab

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Program is a benchmark as a command; S is what its command line asks for.
type Program[S any] struct {
	// Name is what the command is called in its messages.
	Name string
	// Declare declares the flags beside --json, which every program has.
	Declare func(f *flag.FlagSet, s *S)
	// Check refuses what cannot be meant, and sets what follows from the flags.
	Check func(s *S) error
	// Measure measures, and tells progress what it is at. A report beside an error is written all the same.
	Measure func(ctx context.Context, s S, progress io.Writer) (Report, error)
}

// Report is what was measured.
type Report interface {
	// WriteText writes it for people.
	WriteText(out io.Writer) error
	// JSON is what is written as JSON instead.
	JSON() any
	// Missed reports whether a limit is missed for which the program ends with code 1.
	Missed() bool
}

// Main is the main function of a program. It ends when it is interrupted.
func (p Program[S]) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	}
	os.Exit(code)
}

// Parse reads a command line; what is wrong with it is told to errw, too, when package flag finds it. The error is
// flag.ErrHelp when help was asked for, and has been given.
func (p Program[S]) Parse(args []string, errw io.Writer) (s S, asJSON bool, err error) {
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	p.Declare(f, &s)
	if err := f.Parse(args); err != nil {
		return s, asJSON, err
	}
	if f.NArg() > 0 {
		return s, asJSON, fmt.Errorf("no arguments are wanted, but there is %q", f.Arg(0))
	}
	return s, asJSON, p.Check(&s)
}

// Run measures and reports. Its code is that of the process: 1 when a limit is missed or something failed, and 2 when the command
// line is wrong.
func (p Program[S]) Run(ctx context.Context, args []string, out, errw io.Writer) (code int, err error) {
	s, asJSON, err := p.Parse(args, errw)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return 2, err
	}
	r, failed := p.Measure(ctx, s, errw)
	if r == nil {
		return 1, failed
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(r.JSON())
	} else {
		err = r.WriteText(out)
	}
	if err != nil {
		failed = errors.Join(fmt.Errorf("write the report: %w", err), failed)
	}
	if failed != nil || r.Missed() {
		return 1, failed
	}
	return 0, nil
}
