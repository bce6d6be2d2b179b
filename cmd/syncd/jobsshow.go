package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// attemptJSON is one entry of a job's history.
type attemptJSON struct {
	Attempt    int64     `json:"attempt"`
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	Class      string    `json:"class"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
}

// showJSON is what jobs show --json prints; docs/cli.md describes it.
type showJSON struct {
	rowJSON
	Link     string        `json:"link,omitempty"`
	AskedAt  *time.Time    `json:"asked_at,omitempty"`
	Attempts []attemptJSON `json:"attempts"`
	Body     any           `json:"body,omitempty"`
	// asks is the client that was asked for the record, and until when it is paused.
	asks string
}

func (a *app) jobsShowCmd() *cobra.Command {
	var body bool
	c := &cobra.Command{
		Use:   "show FLOW/KEY",
		Short: "Show one job with its history",
		Long: `show prints what the journal knows of one job, and its history: attempts that
failed or ended a failure, and what people did. The record itself is customer
data and is printed only with --body.

FLOW/KEY is split at the first slash.`,
		Args: oneJob,
		RunE: func(cmd *cobra.Command, args []string) error { return a.jobsShow(cmd.Context(), args[0], body) },
	}
	c.Flags().BoolVar(&body, "body", false, "print the record too; it is customer data")
	return c
}

func (a *app) jobsShow(ctx context.Context, name string, body bool) error {
	d, err := a.detail(ctx, name)
	if err != nil {
		return err
	}
	s := showJSON{rowJSON: a.row(&d.Row, d.Detail.Running != nil), Link: d.Link, Attempts: []attemptJSON{}}
	for _, t := range d.Attempts {
		s.Attempts = append(s.Attempts, attemptJSON{t.Number, t.Generation, t.At, string(t.Class), t.Code, a.secrets.cut(t.Message)})
	}
	s.Claims = d.Claimants
	if d.Asked != nil {
		s.AskedAt = at(d.Asked.At)
		s.asks = d.Asked.Client
		if gate := d.Surroundings.Source; gate.PausedUntil.After(d.now) {
			s.asks += " until " + (&pauseStatus{Until: gate.PausedUntil}).until() + " (" + gate.Reason + ")"
		}
	}
	if body && len(d.Row.Body) > 0 {
		s.Body = d.Row.Body
	}
	if a.json {
		return printJSON(a.out, s)
	}
	return s.print(a.out, body)
}

func (s *showJSON) print(w io.Writer, body bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, v string) {
		if v != "" && v != "-" {
			fmt.Fprintf(tw, "%s\t%s\n", name, clean(v))
		}
	}
	line("job", s.name())
	line("state", strings.TrimSpace(s.State+" "+s.Reason))
	line("record", s.Entity+" of client "+s.Client)
	line("link", s.Link)
	line("source record", s.SourceID)
	line("group", s.Group)
	line("also claimed by", jobs.NamedIDs(s.Claims))
	line("generation", fmt.Sprintf("%d desired, %d applied", s.Generation, s.Applied))
	line("desired state", s.desired())
	line("changed at", stamp(s.ChangedAt))
	line("applied at", stamp(s.AppliedAt))
	line("open since", stamp(s.OpenSince))
	line("due", stamp(s.DueAt))
	line("in doubt since", stamp(s.Unresolved))
	line("waits for", s.WaitsFor)
	if s.AskedAt != nil {
		line("asked of source", stamp(s.AskedAt)+", waits for client "+s.asks)
	}
	line("last outcome", s.outcome())
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(s.Attempts) > 0 {
		fmt.Fprintln(tw, "\nATTEMPT\tGENERATION\tAT\tCLASS\tCODE\tMESSAGE")
		for _, t := range s.Attempts {
			fmt.Fprintf(tw, "%d\t%d\t%s\t%s\t%s\t%s\n", t.Attempt, t.Generation, t.At.Format(time.RFC3339), t.Class, dash(t.Code), clean(t.Message))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if body && s.Body != nil {
		fmt.Fprintln(w)
		return printJSON(w, s.Body)
	}
	return nil
}

// desired says which state is wanted: the source's version, and when it was read.
func (s *showJSON) desired() string {
	text := fmt.Sprintf("version %d", s.Version)
	if s.Gone {
		text = fmt.Sprintf("not there, as of version %d", s.Version)
	}
	if s.Observed != nil {
		text += ", read " + stamp(s.Observed)
	}
	return text
}

// outcome is the last one, as in: unknown (timeout): no answer within 1s.
func (s *showJSON) outcome() string {
	text := s.Class
	if s.Code != "" {
		text += " (" + s.Code + ")"
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}
