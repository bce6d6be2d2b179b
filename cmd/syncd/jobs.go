package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"syncd/connectors"
	"syncd/jobs"
)

// rowJSON is one row as jobs list and jobs show print it; docs/cli.md describes it.
type rowJSON struct {
	Flow       string     `json:"flow"`
	Key        string     `json:"key"`
	Client     string     `json:"client"`
	Entity     string     `json:"entity"`
	SourceID   string     `json:"source_id,omitempty"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Class      string     `json:"class,omitempty"`
	Code       string     `json:"code,omitempty"`
	Message    string     `json:"message,omitempty"`
	Generation int64      `json:"generation"`
	Applied    int64      `json:"applied_generation"`
	Attempt    int64      `json:"attempt"`
	Tries      int        `json:"tries"`
	Gone       bool       `json:"gone,omitempty"`
	Version    int64      `json:"version"`
	Observed   *time.Time `json:"observed,omitempty"`
	ChangedAt  *time.Time `json:"changed_at,omitempty"`
	OpenSince  *time.Time `json:"open_since,omitempty"`
	DueAt      *time.Time `json:"due_at,omitempty"`
	LastAt     *time.Time `json:"last_at,omitempty"`
	AppliedAt  *time.Time `json:"applied_at,omitempty"`
	Unresolved *time.Time `json:"unresolved_since,omitempty"`
	WaitsFor   string     `json:"waits_for,omitempty"`
}

func rowOf(r *jobs.Row, running bool) rowJSON {
	o := rowJSON{Flow: r.Flow, Key: r.Key, Client: r.Client, Entity: r.Entity, SourceID: r.SourceID,
		State: string(r.State), Reason: string(r.Reason), Class: string(r.LastClass), Code: r.LastCode, Message: r.LastMessage,
		Generation: r.Generation, Applied: r.AppliedGeneration, Attempt: r.Attempt, Tries: r.Tries, Gone: r.Gone,
		Version: r.Desired.Version, Observed: at(r.Desired.Observed), ChangedAt: at(r.ChangedAt), OpenSince: at(r.OpenSince),
		DueAt: at(r.DueAt), LastAt: at(r.LastAt), AppliedAt: at(r.AppliedAt), Unresolved: at(r.UnresolvedAt)}
	if r.State != jobs.Ready {
		o.DueAt = nil
	}
	if r.WaitEntity != "" {
		o.WaitsFor = r.WaitEntity + " " + r.WaitKey
	}
	if running {
		o.State, o.Reason = "running", ""
	}
	return o
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *app) jobsCmd() *cobra.Command {
	c := &cobra.Command{Use: "jobs", Short: "List and show jobs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return errors.New("say what about jobs: list or show") }}
	c.AddCommand(a.jobsListCmd(), a.jobsShowCmd())
	return c
}

func (a *app) jobsListCmd() *cobra.Command {
	var f jobs.Filter
	var state, reason, after string
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs, without their content",
		Example: `  syncd jobs list --state dead
  syncd jobs list --flow orders --state ready --reason waiting --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.State, f.Reason = jobs.State(state), jobs.Reason(reason)
			if err := checkFilter(f); err != nil {
				return err
			}
			if after != "" {
				id, err := rowID(after)
				if err != nil {
					return err
				}
				f.After = id
			}
			return a.jobsList(cmd.Context(), f)
		},
	}
	c.Flags().StringVar(&f.Flow, "flow", "", "only jobs of this `flow`")
	c.Flags().StringVar(&state, "state", "", "only jobs in this `state`: ready, done, dead or held")
	c.Flags().StringVar(&f.Class, "class", "", "only jobs whose last outcome had this `class`")
	c.Flags().StringVar(&reason, "reason", "", "only jobs with this `reason`")
	c.Flags().BoolVar(&f.Unresolved, "in-doubt", false, "only jobs with a write in doubt")
	c.Flags().IntVar(&f.Limit, "limit", 100, "at most this many, up to 10000")
	c.Flags().StringVar(&after, "after", "", "go on behind `FLOW/KEY`, the last one of the listing before")
	return c
}

// checkFilter refuses words that no job can have.
func checkFilter(f jobs.Filter) error {
	switch f.State {
	case "", jobs.Ready, jobs.Done, jobs.Dead, jobs.Held:
	case "running":
		return errors.New("running is not stored: list --state ready, which shows the running ones as such")
	default:
		return fmt.Errorf("there is no state %q; there are ready, done, dead and held", f.State)
	}
	if f.Class != "" {
		known := false
		var names []string
		for _, c := range connectors.Classes() {
			known = known || string(c) == f.Class
			names = append(names, string(c))
		}
		if !known {
			return fmt.Errorf("there is no class %q; there are %s", f.Class, strings.Join(names, ", "))
		}
	}
	if f.Limit < 1 || f.Limit > 10000 {
		return fmt.Errorf("--limit %d is not between 1 and 10000", f.Limit)
	}
	return nil
}

func (a *app) jobsList(ctx context.Context, f jobs.Filter) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	j, _, err := a.journal(ctx, c, reading)
	if err != nil {
		return err
	}
	defer j.Close()
	rows, running, err := j.List(ctx, f)
	if err != nil {
		return exit(exitJournal, redacted(c, err))
	}
	out := make([]rowJSON, len(rows))
	for i := range rows {
		out[i] = rowOf(&rows[i], running[rows[i].RowID])
	}
	if a.json {
		return printJSON(a.out, struct {
			Jobs []rowJSON `json:"jobs"`
			More bool      `json:"more"`
		}{out, len(out) == f.Limit})
	}
	tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tSTATE\tREASON\tCLASS\tATTEMPT\tLAST\tDUE\tMESSAGE")
	for _, r := range out {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", clean(r.Flow+"/"+r.Key), r.State, r.Reason, r.Class, r.Attempt,
			stamp(r.LastAt), stamp(r.DueAt), clean(r.Message))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(out) == f.Limit {
		last := out[len(out)-1]
		fmt.Fprintf(a.out, "there may be more: --after %q\n", clean(last.Flow+"/"+last.Key))
	}
	return nil
}

func stamp(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// rowID splits FLOW/KEY at the first slash: a flow's name has none, a key may.
func rowID(s string) (jobs.RowID, error) {
	flow, key, ok := strings.Cut(s, "/")
	if !ok || flow == "" || key == "" {
		return jobs.RowID{}, fmt.Errorf("%q does not name a job; write FLOW/KEY, for example orders/SO-1001", s)
	}
	return jobs.RowID{Flow: flow, Key: key}, nil
}

// attemptJSON is one entry of a job's history.
type attemptJSON struct {
	Attempt    int64     `json:"attempt"`
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	Class      string    `json:"class"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
}

// showJSON is what jobs show --json prints.
type showJSON struct {
	rowJSON
	Link     string        `json:"link,omitempty"`
	Claims   []string      `json:"claimed_also_by,omitempty"`
	Attempts []attemptJSON `json:"attempts"`
	Body     any           `json:"body,omitempty"`
}

func (a *app) jobsShowCmd() *cobra.Command {
	var body bool
	c := &cobra.Command{
		Use:   "show FLOW/KEY",
		Short: "Show one job with its history",
		Long: `show prints what the journal knows of one job and its history. The record itself
is customer data and is printed only with --body.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.jobsShow(cmd.Context(), args[0], body) },
	}
	c.Flags().BoolVar(&body, "body", false, "print the record too; it is customer data")
	return c
}

// detail reads one job; one that does not exist is a finding.
func (a *app) detail(ctx context.Context, name string) (jobs.Detail, jobs.Surroundings, time.Time, error) {
	var none jobs.Detail
	var sur jobs.Surroundings
	id, err := rowID(name)
	if err != nil {
		return none, sur, time.Time{}, err
	}
	c, err := a.load()
	if err != nil {
		return none, sur, time.Time{}, err
	}
	j, _, err := a.journal(ctx, c, reading)
	if err != nil {
		return none, sur, time.Time{}, err
	}
	defer j.Close()
	d, ok, err := j.Get(ctx, id)
	if err != nil {
		return none, sur, time.Time{}, exit(exitJournal, redacted(c, err))
	}
	if !ok {
		hint := ""
		if _, known := c.Flows[id.Flow]; !known {
			hint = fmt.Sprintf("; there is no flow %q either", id.Flow)
		}
		return none, sur, time.Time{}, exit(exitFinding, fmt.Errorf("the journal has no job %s%s", name, hint))
	}
	clients, err := j.Clients(ctx)
	if err != nil {
		return none, sur, time.Time{}, exit(exitJournal, redacted(c, err))
	}
	sur = jobs.Surroundings{Running: d.Running, RunningSince: d.RunningSince, Flow: flows(c)[id.Flow]}
	for _, cs := range clients {
		if cs.Client == d.Row.Client {
			sur.Target = cs
		}
		if sur.Flow != nil && cs.Client == sur.Flow.SourceClient {
			sur.Source = cs
		}
	}
	return d, sur, j.Now(), nil
}

func (a *app) jobsShow(ctx context.Context, name string, body bool) error {
	d, _, _, err := a.detail(ctx, name)
	if err != nil {
		return err
	}
	s := showJSON{rowJSON: rowOf(&d.Row, d.Running != nil), Link: d.Link, Attempts: []attemptJSON{}}
	for _, t := range d.Attempts {
		s.Attempts = append(s.Attempts, attemptJSON{t.Number, t.Generation, t.At, string(t.Class), t.Code, t.Message})
	}
	for _, n := range d.Contenders {
		s.Claims = append(s.Claims, n.SourceID)
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
	line("job", s.Flow+"/"+s.Key)
	line("state", strings.TrimSpace(s.State+" "+s.Reason))
	line("record", s.Entity+" of client "+s.Client)
	line("link", s.Link)
	line("source record", s.SourceID)
	line("also claimed by", strings.Join(s.Claims, ", "))
	line("generation", fmt.Sprintf("%d desired, %d applied", s.Generation, s.Applied))
	line("version", fmt.Sprintf("%d, read %s", s.Version, stamp(s.Observed)))
	line("changed at", stamp(s.ChangedAt))
	line("open since", stamp(s.OpenSince))
	line("due", stamp(s.DueAt))
	line("in doubt since", stamp(s.Unresolved))
	line("waits for", s.WaitsFor)
	line("last outcome", strings.TrimSpace(s.Class+" "+s.Code+" "+s.Message))
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(s.Attempts) > 0 {
		fmt.Fprintln(tw, "\nATTEMPT\tGENERATION\tAT\tCLASS\tCODE\tMESSAGE")
		for _, t := range s.Attempts {
			fmt.Fprintf(tw, "%d\t%d\t%s\t%s\t%s\t%s\n", t.Attempt, t.Generation, t.At.Format(time.RFC3339), t.Class, t.Code, clean(t.Message))
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
