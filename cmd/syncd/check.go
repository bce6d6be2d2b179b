package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
)

// checkJSON is what check --json prints.
type checkJSON struct {
	Config   string        `json:"config"`
	Clients  int           `json:"clients"`
	Flows    int           `json:"flows"`
	Problems []string      `json:"problems"`
	Remarks  []string      `json:"remarks"`
	Live     []liveFinding `json:"live,omitzero"`
}

type liveFinding struct {
	Client      string `json:"client"`
	Subject     string `json:"subject,omitempty"`
	OK          bool   `json:"ok"`
	Unreachable bool   `json:"unreachable,omitempty"`
	Paused      bool   `json:"paused,omitempty"`
	PausedUntil string `json:"paused_until,omitempty"`
	Text        string `json:"text,omitempty"`
}

func (a *app) checkCmd() *cobra.Command {
	var live bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, and with --live the clients too",
		Long: `check reads the configuration and reports every mistake in it with its place.
With --live it also asks every client whether it can be reached and whether each
stream and entity is there as configured, and whether the flows are as the records
in the journal were made. It changes nothing anywhere.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), live) },
	}
	c.Flags().BoolVar(&live, "live", false, "ask the clients too")
	return c
}

func (a *app) check(ctx context.Context, live bool) error {
	out := checkJSON{Config: a.config, Problems: []string{}, Remarks: []string{}}
	c, err := a.load()
	if err != nil {
		var es *config.Errors
		if errors.As(err, &es) {
			for _, p := range es.Problems {
				out.Problems = append(out.Problems, p.String())
			}
		} else {
			out.Problems = append(out.Problems, err.Error())
		}
		if a.json {
			if err := printJSON(a.out, out); err != nil {
				return err
			}
			return exit(exitConfig, errSaid)
		}
		return err
	}
	out.Clients, out.Flows = len(c.Clients), len(c.Flows)
	out.Remarks = append(out.Remarks, remarks(c)...)
	if live {
		out.Live = append(a.live(ctx, c), a.liveJournal(ctx, c)...)
	}
	if a.json {
		err = printJSON(a.out, out)
	} else {
		a.printCheck(out)
	}
	if err != nil {
		return err
	}
	return verdictOf(out.Live)
}

func verdictOf(fs []liveFinding) error {
	code := exitOK
	for _, f := range fs {
		switch {
		case f.Unreachable:
			code = exitUnreachable
		case !f.OK && code == exitOK:
			code = exitFinding
		}
	}
	if code == exitOK {
		return nil
	}
	return exit(code, errSaid)
}

// remarks are what a person should know of a configuration that is right.
func remarks(c *config.Config) []string {
	var out []string
	enabled := 0
	for name, f := range c.Flows {
		if f.Enabled {
			enabled++
		}
		if f.To.Strategy == connectors.Lookup {
			out = append(out, fmt.Sprintf("flow %s: strategy lookup creates a record once, unless someone else creates the same one between the search and the create", name))
		}
		out = append(out, keyRemarks(name, f)...)
		if f.To.Strategy == connectors.AtMostOnce {
			out = append(out, fmt.Sprintf("flow %s: strategy at_most_once sends a record once; one whose answer is lost is held, and newer versions of it with it, until a person says what became of it (syncd resolve)", name))
		}
		if (f.To.Strategy == connectors.IdempotencyKey || f.To.Strategy == connectors.AtMostOnce) && !f.To.Info.Finds {
			out = append(out, fmt.Sprintf("flow %s: the target cannot be asked for a record by its key, so one that is there already is not seen, and is created a second time", name))
		}
		if f.To.Strategy == connectors.NaturalKey && !f.To.Info.Guarded {
			out = append(out, fmt.Sprintf("flow %s: the target cannot refuse an older state by itself; after a write in doubt syncd waits %s and then writes the newest", name, f.To.SettleTime))
		}
		if !f.Enabled {
			out = append(out, fmt.Sprintf("flow %s: not enabled; --live tries nothing of it", name))
		}
	}
	if r := folderRemark(c); r != "" {
		out = append(out, r)
	}
	if enabled == 0 {
		out = append(out, "no flow is enabled; syncd run has nothing to do")
	}
	slices.Sort(out)
	return out
}

// keyRemarks says how far the idempotency keys of a flow's target reach.
func keyRemarks(name string, f *config.Flow) (out []string) {
	i := f.To.Info.Idempotency
	if f.To.Strategy != connectors.IdempotencyKey || i == nil {
		return nil
	}
	then := "it is looked up instead"
	if !f.To.Info.Finds {
		then = "it is held until a person says what became of it (syncd resolve)"
	}
	if window := i.Retention - f.To.SettleTime; window <= f.To.SettleTime {
		out = append(out, fmt.Sprintf("flow %s: a create whose answer is lost is not sent again under its key, because the target is not known to remember it long enough (retention %s, settle_time %s); %s",
			name, i.Retention, f.To.SettleTime, then))
	} else {
		out = append(out, fmt.Sprintf("flow %s: a create whose answer is lost is sent again under its key for %s; after that %s", name, window, then))
	}
	if i.Mismatch == connectors.MismatchCreates && !f.To.Info.Finds {
		out = append(out, fmt.Sprintf("flow %s: after a restore of the journal the target would create records anew that it has, and cannot be asked for them", name))
	}
	return out
}

// folderRemark says that the folder of an embedded journal is not there.
func folderRemark(c *config.Config) string {
	if c.Journal.Engine() != "sqlite" {
		return ""
	}
	dir := filepath.Dir(c.Journal.SQLite.Path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("journal: the folder %s does not exist here; syncd run needs it, writable for its user", dir)
	case err == nil && !info.IsDir():
		return fmt.Sprintf("journal: %s is no folder; syncd run needs one for the journal", dir)
	}
	return ""
}

// liveJournal compares the flows with what their records were made with, where there
// is a journal to compare them with.
func (a *app) liveJournal(ctx context.Context, c *config.Config) []liveFinding {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	j, eng, err := a.journal(ctx, c, reading, quiet())
	switch {
	case errors.Is(err, jobs.ErrAbsent):
		return nil
	case errors.Is(err, jobs.ErrOlder):
		return []liveFinding{{Subject: "journal", OK: true, Text: "not compared with the flows: " + err.Error()}}
	case err != nil:
		return []liveFinding{{Subject: "journal", Text: err.Error()}}
	}
	defer j.Close()
	if err := verified(ctx, eng); err != nil {
		return []liveFinding{{Subject: "journal", Text: err.Error()}}
	}
	if err := a.unrestored(ctx, j, eng, c); err != nil {
		return []liveFinding{{Subject: "journal", Text: err.Error()}}
	}
	ps, err := changed(ctx, j, c)
	if err != nil {
		return []liveFinding{{Subject: "journal", Text: err.Error()}}
	}
	var out []liveFinding
	for _, p := range ps {
		out = append(out, liveFinding{Client: c.Flows[p.Change.Flow].To.Client, Subject: "flow " + p.Change.Flow, Text: p.Problem.String()})
	}
	if err := a.complete(ctx, j, c); err != nil {
		out = append(out, liveFinding{Subject: "journal", Text: err.Error()})
	}
	return out
}

// used are the streams and entities of a client that flows name.
func used(plan *daemon.Plan, client string) (streams, entities []string) {
	for _, f := range plan.Flows {
		if f.SourceClient == client && !slices.Contains(streams, f.Stream) {
			streams = append(streams, f.Stream)
		}
		if f.Client == client && !slices.Contains(entities, f.Entity) {
			entities = append(entities, f.Entity)
		}
	}
	slices.Sort(streams)
	slices.Sort(entities)
	return streams, entities
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func (a *app) printCheck(o checkJSON) {
	fmt.Fprintf(a.out, "%s: %s and %s, no mistakes\n", o.Config, count(o.Clients, "client"), count(o.Flows, "flow"))
	if o.Live == nil {
		fmt.Fprintln(a.out, "the clients were not asked, and the flows not compared with the journal; check --live does both")
	}
	for _, r := range o.Remarks {
		fmt.Fprintln(a.out, "note:", clean(r))
	}
	for _, f := range o.Live {
		mark, text := "ok", f.Text
		switch {
		case f.Paused:
			mark = "PAUSED"
		case f.Unreachable:
			mark = "UNREACHABLE"
		case !f.OK:
			mark = "PROBLEM"
		}
		name := strings.TrimSpace(f.Client + " " + f.Subject)
		if text != "" {
			text = ": " + text
		}
		fmt.Fprintf(a.out, "%-11s %s%s\n", mark, clean(name), clean(text))
	}
}
