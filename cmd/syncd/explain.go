package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// explainJSON is what explain --json prints.
type explainJSON struct {
	Flow    string     `json:"flow"`
	Key     string     `json:"key"`
	State   string     `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Text    string     `json:"text"`
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Next    string     `json:"next"`
	Replay  bool       `json:"replay,omitempty"`
	Resolve bool       `json:"resolve,omitempty"`
	Older   bool       `json:"older,omitempty"`
	AskedAt *time.Time `json:"asked_at,omitempty"`
	Refused string     `json:"refused,omitempty"`
	Source  string     `json:"source_id,omitempty"`
	Claims  []string   `json:"claimed_also_by,omitempty"`
	Collide string     `json:"collision,omitempty"`
	// Pace tells what its client's calls wait for, while it could be written otherwise.
	Pace string `json:"pace,omitempty"`
}

// paceStands is for how long what a daemon showed of a client's pace is told.
const paceStands = time.Hour

func (a *app) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "explain FLOW/KEY",
		Short: "Say where a job stands, why, since when, and what happens next",
		Long:  "explain says where a job stands, why, since when, and what happens next and when. FLOW/KEY is split at the first slash.",
		Args:  oneJob,
		RunE:  func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args[0]) },
	}
}

func (a *app) explain(ctx context.Context, name string) error {
	d, err := a.detail(ctx, name)
	if err != nil {
		return err
	}
	e := jobs.Why(&d.Row, d.Surroundings, d.now)
	o := explainJSON{Flow: d.Row.Flow, Key: d.Row.Key, State: e.State, Reason: e.Reason, Text: a.secrets.cut(e.Text),
		Since: at(e.Since), Until: at(e.Until), Next: e.Next, Replay: e.Replay, Resolve: e.Resolve, Older: e.Older, Refused: d.refused,
		Source: d.Row.SourceID, Claims: d.Claimants, Collide: e.Collision}
	if e.Due && d.pace != nil && d.pace.HeldBy != "" && d.now.Sub(d.pace.At) < paceStands {
		o.Pace = fmt.Sprintf("client %s, at %s: %s", d.Row.Client, d.pace.At.Format(time.RFC3339), a.secrets.cut(paceText(d.pace, false)))
	}
	if d.Asked != nil {
		o.AskedAt = at(d.Asked.At)
	}
	if a.json {
		err = printJSON(a.out, o)
	} else {
		err = o.print(a.out, d.now)
	}
	if err == nil && o.Refused != "" {
		return exit(exitFinding, errSaid)
	}
	return err
}

func (o *explainJSON) print(w io.Writer, now time.Time) error {
	name := o.Flow + "/" + o.Key
	fmt.Fprintf(w, "%s is %s\n", clean(name), o.State)
	fmt.Fprintf(w, "  why    %s\n", clean(o.Text))
	if o.Since != nil {
		fmt.Fprintf(w, "  since  %s (%s ago)\n", stamp(o.Since), ago(now, o.Since))
	}
	if o.Pace != "" {
		fmt.Fprintf(w, "  pace   %s\n", clean(o.Pace))
	}
	next := o.Next
	if o.Until != nil && o.Until.After(now) {
		next += fmt.Sprintf(", at %s (in %s)", stamp(o.Until), o.Until.Sub(now).Round(time.Second))
	}
	_, err := fmt.Fprintf(w, "  next   %s\n", clean(next))
	if o.Refused != "" {
		_, err = fmt.Fprintf(w, "  but    syncd run refuses the configuration: %s\n", clean(o.Refused))
	}
	if o.Replay && clean(name) == name {
		_, err = fmt.Fprintf(w, "         syncd replay %s\n", quote(name))
	}
	if o.Older && clean(name) == name {
		_, err = fmt.Fprintf(w, "         syncd resolve %[1]s --applied --reason TEXT           if it is there as it is wanted now, with --link ID for its id there\n"+
			"         syncd resolve %[1]s --applied --older --reason TEXT   if it is there in another state; the present one is written then\n"+
			"         syncd resolve %[1]s --resend --reason TEXT            if it is not there\n", quote(name))
	} else if o.Resolve && clean(name) == name {
		_, err = fmt.Fprintf(w, "         syncd resolve %s --applied --reason TEXT   if it was, with --link ID for its id there\n"+
			"         syncd resolve %s --resend --reason TEXT    if it was not\n", quote(name), quote(name))
	}
	if o.Collide != "" {
		_, err = fmt.Fprintf(w, "  also   %s\n", clean(o.Collide))
	}
	return err
}
