package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes, the same for every command; docs/cli.md describes them.
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

// errSaid ends a command with a code after it has said all there is to say.
var errSaid = errors.New("said already")

func exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// usage is an error about how a command was called.
func usage(format string, args ...any) error { return exit(exitUsage, fmt.Errorf(format, args...)) }

// configEnv names the configuration where --config does not.
const configEnv = "SYNCD_CONFIG"

// app is what every command shares.
type app struct {
	config string
	json   bool
	out    io.Writer
	err    io.Writer
	env    []string
	// secrets are cut out of everything that leaves the program.
	secrets *secrets
}

// execute runs a command line in an environment and returns its exit code.
func execute(ctx context.Context, args, env []string, out, errw io.Writer) int {
	o := &output{w: out}
	a := &app{out: o, err: errw, env: env, secrets: &secrets{}}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(o)
	root.SetErr(errw)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case o.err != nil:
		// A command whose output got lost has not done what it was asked for,
		// whatever it found.
		fmt.Fprintln(errw, "syncd: write the output:", o.err)
		return exitFinding
	case err == nil:
		return exitOK
	}
	code := exitFinding
	var ee *exitError
	if errors.As(err, &ee) {
		code = ee.code
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintln(errw, "syncd:", cleanText(a.secrets.cut(err.Error())))
		if code == exitUsage {
			if cmd.Name() == "help" {
				cmd = cmd.Root()
			}
			fmt.Fprintf(errw, "how to call it: %s --help\n", cmd.CommandPath())
		}
	}
	return code
}

// output remembers the first error of a writer, so that commands need not look
// after every line.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	o.err = err
	return n, err
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "syncd",
		Short: "Keep an ERP in step with the shops that feed it",
		Long: `syncd pulls changes from shops, maps each to a record of the ERP, and writes it
so that the effect happens once. It is told what to do by one YAML file.

Exit codes: 0 all is well, 1 a finding or a failure, 2 wrong usage, 3 the
configuration, 4 the journal, 5 something could not be reached.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetVersionTemplate(versionText())
	root.InitDefaultVersionFlag()
	// Groups are runnable only to refuse, so their help shows no way to run them.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasSubCommands)}}", 1))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	file := "./syncd.yaml"
	for _, kv := range a.env {
		if v, ok := strings.CutPrefix(kv, configEnv+"="); ok && v != "" {
			file = v
		}
	}
	root.PersistentFlags().StringVar(&a.config, "config", file, "the configuration `file`; "+configEnv+" in the environment names another default")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON instead of text")
	root.SetHelpCommand(helpCmd())
	for _, g := range []struct {
		title string
		cmds  []*cobra.Command
	}{
		{"Set up and run:", []*cobra.Command{a.checkCmd(), a.runCmd(), a.demoCmd()}},
		{"Look:", []*cobra.Command{a.statusCmd(), a.jobsCmd(), a.explainCmd(), a.runsCmd()}},
		{"Decide:", []*cobra.Command{a.replayCmd(), a.resolveCmd(), a.discardCmd(), a.pauseCmd(), a.resumeCmd(), a.remapCmd(), a.redeliverCmd(), a.sourceResetCmd(), a.restoredCmd(), a.expiryCmd(), a.eraseCmd(), a.journalCmd()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.cmds {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.versionCmd())
	return root
}

// flagError says what is wrong with a flag's value in words, not in Go's.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return exit(exitUsage, err)
	}
	kind := "not understood"
	switch bad.GetFlag().Value.Type() {
	case "duration":
		kind = "not a duration; write for example 90s or 5m"
	case "int", "uint64":
		kind = "not a whole number that fits"
	case "bool":
		kind = "neither true nor false"
	}
	return usage("--%s: %q is %s", bad.GetFlag().Name, bad.GetValue(), kind)
}

// group makes c a command that only holds others. Called without one of them it
// shows what there is; a script that forgot or misspelt one must not go on.
func group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return exit(exitUsage, errSaid)
	}
	return c
}

// helpCmd is cobra's, but that an unknown command is an error.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, left, err := c.Root().Find(args)
			if err != nil {
				return exit(exitUsage, err)
			}
			if len(left) > 0 {
				return unknown(cmd, left[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func unknown(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	s := cmd.SuggestionsFor(name)
	for i := range s {
		s[i] = cmd.CommandPath() + " " + s[i]
	}
	hint := ""
	if len(s) > 0 {
		hint = "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return usage("there is no command %s %s%s", cmd.CommandPath(), name, hint)
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, but was given %q", cmd.Name(), args[0])
	}
	return nil
}

// oneJob wants one FLOW/KEY, someJobs at least one.
func oneJob(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("%s takes one job, but was given %d; quote a key that holds spaces", cmd.Name(), len(args))
	}
	return someJobs(cmd, args)
}

func someJobs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s needs a job as FLOW/KEY, for example orders/SO-1001; syncd jobs list shows them", cmd.Name())
	}
	return nil
}

// clean takes control characters out of what comes from elsewhere, so that a
// terminal shows it and does not obey it, and keeps it in one line.
func clean(s string) string { return strings.Map(harmless, s) }

// cleanText is clean for texts of several lines.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return harmless(r)
	}, s)
}

// harmless replaces control characters and those that turn the direction of a text.
func harmless(r rune) rune {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return ' '
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0x061c, r == 0x200e, r == 0x200f,
		r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return '\uFFFD'
	}
	return r
}
