package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	exitOK          = 0
	exitFinding     = 1
	exitUsage       = 2
	exitConfig      = 3
	exitJournal     = 4
	exitUnreachable = 5
)

// exitError is an error with the exit code it leads to.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// silent ends a command with a code after it has said all there is to say.
var errSaid = errors.New("said already")

func exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// app is what every command shares.
type app struct {
	config string
	json   bool
	in     io.Reader
	out    io.Writer
	err    io.Writer
	env    []string
}

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	a := &app{in: in, out: out, err: errw, env: os.Environ()}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	var ee *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ee):
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(errw, "syncd:", err)
		}
		return ee.code
	default:
		// What cobra itself reports is about how the command was called.
		fmt.Fprintln(errw, "syncd:", err)
		fmt.Fprintln(errw, "run syncd help for how to call it")
		return exitUsage
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "syncd",
		Short: "Keep an ERP in step with the shops that feed it",
		Long: `syncd pulls changes from shops, maps each to a record of the ERP, and writes it
so that the effect happens once. It is told what to do by one YAML file.

Exit codes: 0 all is well, 1 a finding, 2 wrong usage, 3 the configuration,
4 the journal, 5 something could not be reached.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.config, "config", "./syncd.yaml", "the configuration `file`")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON instead of text")
	root.AddCommand(a.runCmd(), a.checkCmd(), a.statusCmd(), a.jobsCmd(), a.explainCmd(), a.replayCmd(), a.discardCmd(),
		a.demoCmd(), a.versionCmd())
	return root
}

// clean takes control characters out of what comes from elsewhere, so that a
// terminal shows it and does not obey it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return '\uFFFD'
		}
		return r
	}, s)
}
