package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"syncd/connectors"
	"syncd/jobs"
)

// runJSON is an errand as runs, remap and redeliver print it; docs/cli.md describes it.
type runJSON struct {
	ID      int64      `json:"id"`
	Kind    string     `json:"kind"`
	Flow    string     `json:"flow"`
	At      time.Time  `json:"at"`
	EndedAt *time.Time `json:"ended_at,omitempty"`
	Total   int64      `json:"total"`
	Done    int64      `json:"done"`
	Failed  int64      `json:"failed"`
	By      string     `json:"by,omitempty"`
	Why     string     `json:"why,omitempty"`
	Message string     `json:"message,omitempty"`
}

func runOf(r jobs.Run) runJSON {
	out := runJSON{ID: r.ID, Kind: r.Kind, Flow: r.Flow, At: r.At, Total: r.Total, Done: r.Done, Failed: r.Failed, By: r.By, Why: r.Why, Message: r.Message}
	if !r.Open() {
		out.EndedAt = &r.EndedAt
	}
	return out
}

// runsJSON is what runs prints with --json.
type runsJSON struct {
	Runs []runJSON `json:"runs"`
}

// errandJSON is what remap and redeliver print with --json.
type errandJSON struct {
	// Records is how many records it is about, Links how many ids of the target are void.
	Records   int64 `json:"records"`
	Links     int64 `json:"links"`
	Held      int64 `json:"held"`
	Confirmed bool  `json:"confirmed"`
	// Fresh is false for an errand that went on already.
	Fresh bool     `json:"fresh"`
	Run   *runJSON `json:"run,omitempty"`
}

func (a *app) runsCmd() *cobra.Command {
	var open bool
	var stop int64
	var limit int
	c := &cobra.Command{
		Use:   "runs",
		Short: "Show errands that were asked for, and how far they have come",
		Long: `runs shows what remap and redeliver have begun, the newest first. --stop ends one
before its time; what it has done stays done.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > mostListed {
				return usage("--limit %d is not between 1 and %d", limit, mostListed)
			}
			if cmd.Flags().Changed("stop") {
				return a.stopRun(cmd.Context(), stop)
			}
			return a.runs(cmd.Context(), open, limit)
		},
	}
	c.Flags().BoolVar(&open, "open", false, "only those that go on")
	c.Flags().IntVar(&limit, "limit", 20, "at most this many")
	c.Flags().Int64Var(&stop, "stop", 0, "end the errand of this `number`")
	return c
}

func (a *app) runs(ctx context.Context, open bool, limit int) error {
	_, j, err := a.beside(ctx, reading)
	if err != nil {
		return err
	}
	defer j.Close()
	rs, err := j.Runs(ctx, open, limit)
	if err != nil {
		return exit(exitJournal, err)
	}
	out := runsJSON{Runs: []runJSON{}}
	for _, r := range rs {
		out.Runs = append(out.Runs, runOf(r))
	}
	if a.json {
		return printJSON(a.out, out)
	}
	if len(out.Runs) == 0 {
		_, err := fmt.Fprintln(a.out, "no errands")
		return err
	}
	return printRuns(a.out, out.Runs)
}

// errands adds the errands that go on.
func (s *statusJSON) errands(ctx context.Context, j *jobs.Journal) error {
	rs, err := j.Runs(ctx, true, 20)
	for _, r := range rs {
		s.Runs = append(s.Runs, runOf(r))
	}
	return err
}

// printRuns shows errands as a table.
func printRuns(w io.Writer, rs []runJSON) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ERRAND\tKIND\tFLOW\tSINCE\tDONE\tOF\tFAILED\tSTATE")
	for _, r := range rs {
		state := "goes on"
		if r.EndedAt != nil {
			state = "ended " + r.EndedAt.Format(time.RFC3339) + ": " + r.Message
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.ID, r.Kind, dash(clean(r.Flow)), r.At.Format(time.RFC3339), r.Done, r.Total, r.Failed, clean(state))
	}
	return tw.Flush()
}

func (a *app) stopRun(ctx context.Context, id int64) error {
	_, j, err := a.beside(ctx, acting)
	if err != nil {
		return err
	}
	defer j.Close()
	r, ok, err := j.StopRun(ctx, id, "stopped by "+userName())
	if err != nil {
		return exit(exitJournal, err)
	}
	if !ok {
		return exit(exitFinding, fmt.Errorf("there is no errand %d that goes on; syncd runs shows them", id))
	}
	if a.json {
		return printJSON(a.out, runsJSON{Runs: []runJSON{runOf(r)}})
	}
	_, err = fmt.Fprintf(a.out, "errand %d is stopped, with %d of %d done\n", r.ID, r.Done, r.Total)
	return err
}

// oneFlow wants the name of a flow.
func oneFlow(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s needs the name of one flow; syncd status shows them", cmd.Name())
	}
	return nil
}

// errand is what a command over a whole flow needs.
type errand struct {
	j    *jobs.Journal
	flow *jobs.Flow
	all  map[string]*jobs.Flow
}

// errand opens the journal for a command over a flow that is configured.
func (a *app) errand(ctx context.Context, flow string) (*errand, error) {
	c, err := a.look()
	if err != nil {
		return nil, err
	}
	fs := flows(c)
	if fs[flow] == nil {
		if f := c.Flows[flow]; f != nil {
			return nil, usage("flow %s is not enabled", flow)
		}
		return nil, usage("there is no flow %q in the configuration; syncd status shows the flows", flow)
	}
	j, _, err := a.journal(ctx, c, acting, quiet())
	if err != nil {
		return nil, err
	}
	return &errand{j, fs[flow], fs}, nil
}

// living reports whether a daemon works on the journal.
func (e *errand) living(ctx context.Context) (bool, error) {
	s, err := e.j.Survey(ctx)
	if err != nil {
		return false, exit(exitJournal, err)
	}
	return len(s.Living(e.j.Me().Process)) > 0, nil
}

func (a *app) remapCmd() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "remap FLOW",
		Short: "Map all records of a flow again, after its mapping was edited",
		Long: `remap has every record of a flow that is known read again at its source, a few at a
time beside the polls, and mapped as the flow maps now. What comes out as it was is
not written. It says how many records there are, and asks. The daemon works it off
by the configuration that it runs: reload it first.`,
		Args: oneFlow,
		RunE: func(cmd *cobra.Command, args []string) error { return a.remap(cmd.Context(), args[0], yes) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it; without this it is asked at a terminal, and else only counted")
	return c
}

func (a *app) remap(ctx context.Context, flow string, yes bool) error {
	e, err := a.errand(ctx, flow)
	if err != nil {
		return err
	}
	defer e.j.Close()
	if e.flow.Every() {
		return exit(exitFinding, fmt.Errorf("flow %s writes every event once, so its events are not mapped again", flow))
	}
	if !e.flow.CanRefresh {
		return exit(exitFinding, fmt.Errorf("flow %s cannot be mapped again record by record: %s", flow, jobs.NoRemap(e.flow)))
	}
	n, err := e.j.CountSources(ctx, flow)
	if err != nil {
		return exit(exitJournal, err)
	}
	out := errandJSON{Records: n}
	if !a.json {
		fmt.Fprintf(a.out, "%d source records of flow %s are read again at client %s\n", n, flow, e.flow.SourceClient)
	}
	run := jobs.Run{Kind: jobs.RunRemap, Flow: flow, Client: e.flow.SourceClient, Total: n}
	return a.begin(ctx, e, out, run, yes, false)
}

func (a *app) redeliverCmd() *cobra.Command {
	var yes bool
	var since string
	c := &cobra.Command{
		Use:   "redeliver FLOW --since TIME",
		Short: "Write again what was written since a backup that the target was restored from",
		Long: `redeliver takes back what is known of the records that were written at a time or
later: their ids in the target, if first seen since then, are found again by key, and
they are written once more whatever was written before. Of a flow that writes at most
once they are held, for a person to look whether the backup has them. It says how
many records there are, and asks. Before it has ended nothing is written to the client.

Stop syncd before the target is restored, call this for every flow that writes to it,
and start syncd again.`,
		Example: `  syncd redeliver orders --since 2026-11-30T02:00:00Z`,
		Args:    oneFlow,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.redeliver(cmd.Context(), args[0], since, yes) },
	}
	c.Flags().StringVar(&since, "since", "", "the `time` of the backup, or a little before: 2026-11-30T02:00:00Z, or 6h for so long ago")
	c.Flags().BoolVar(&yes, "yes", false, "do it; without this it is asked at a terminal, and else only counted")
	return c
}

func (a *app) redeliver(ctx context.Context, flow, since string, yes bool) error {
	if since == "" {
		return usage("say with --since of when the backup is")
	}
	e, err := a.errand(ctx, flow)
	if err != nil {
		return err
	}
	defer e.j.Close()
	if living, err := e.living(ctx); err != nil {
		return err
	} else if living && e.flow.Every() {
		return exit(exitFinding, fmt.Errorf("flow %s writes events in order, and those that are written again must not be overtaken: stop syncd first", flow))
	}
	at, err := pointInTime("since", since, e.j.Now())
	if err != nil {
		return err
	}
	if at.After(e.j.Now()) {
		return usage("--since: %s is yet to come", at.Format(time.RFC3339))
	}
	n, err := e.j.CountRedeliver(ctx, e.flow, at)
	if err != nil {
		return exit(exitJournal, err)
	}
	out := errandJSON{Records: n.Rows, Links: n.Links, Held: n.Held}
	if !a.json {
		fmt.Fprintf(a.out, "%d records of flow %s were written since %s, and %d ids of client %s were first seen since then\n",
			n.Rows, flow, at.Format(time.RFC3339), n.Links, e.flow.Client)
		if e.flow.Strategy == connectors.AtMostOnce && n.Held > 0 {
			fmt.Fprintln(a.out, "the flow writes at most once: a person has to look whether each of them is there (syncd jobs list --state held, then syncd resolve)")
		}
		if e.flow.Strategy == connectors.IdempotencyKey && n.Held > 0 {
			fmt.Fprintf(a.out, "the target cannot be asked for a record: a person has to look whether those that were created since, or removed and have come again, are there, up to %d (syncd jobs list --state held, then syncd resolve)\n", n.Held)
		}
		if e.flow.OnRename == "rename" && n.Rows > 0 {
			fmt.Fprintln(a.out, "the flow changes keys: what has got another key since then may stand in the target under both; compare the keys of before (syncd jobs list --reason renamed) with it")
		}
	}
	return a.begin(ctx, e, out, jobs.NewRedelivery(e.flow, at, n.Rows), yes, true)
}

// workOff takes the steps of an errand until it has ended or a signal comes, and returns
// how far it is.
func workOff(ctx context.Context, j *jobs.Journal, run jobs.Run, flows map[string]*jobs.Flow) (jobs.Run, error) {
	soft, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for run.Open() && soft.Err() == nil {
		st, err := j.StepRun(ctx, run.ID, flows)
		if err != nil {
			return run, exit(exitJournal, err)
		}
		if st.Run.ID == 0 {
			break // somebody else has done the last step
		}
		run = st.Run
		if st.Wait > 0 {
			break // a daemon has to end something first, and goes on with it
		}
	}
	return run, nil
}

// begin begins an errand, and works it off if no client has to be called for it.
func (a *app) begin(ctx context.Context, e *errand, out errandJSON, run jobs.Run, yes, here bool) error {
	out.Confirmed = yes || !a.json && confirm(a.out, os.Stdin, "go on?")
	if !out.Confirmed {
		if a.json {
			if err := printJSON(a.out, out); err != nil {
				return err
			}
		} else {
			fmt.Fprintln(a.out, "nothing was done; say --yes to do it")
		}
		return exit(exitFinding, errSaid)
	}
	run.By = userName()
	run, fresh, err := e.j.StartRun(ctx, run)
	if errors.Is(err, jobs.ErrNotCovered) {
		return exit(exitFinding, err)
	}
	if err != nil {
		return exit(exitJournal, err)
	}
	out.Fresh = fresh
	if here {
		if run, err = workOff(ctx, e.j, run, e.all); err != nil {
			return err
		}
	}
	living, err := e.living(ctx)
	if err != nil {
		return err
	}
	got := runOf(run)
	out.Run = &got
	if a.json {
		return printJSON(a.out, out)
	}
	text := []string{}
	if !fresh {
		text = append(text, fmt.Sprintf("errand %d of the same kind went on already", run.ID))
	}
	switch {
	case !run.Open():
		text = append(text, fmt.Sprintf("errand %d is done: %s", run.ID, run.Message))
	case living:
		text = append(text, fmt.Sprintf("errand %d goes on in the daemon; syncd runs shows how far it has come", run.ID))
	default:
		text = append(text, fmt.Sprintf("errand %d goes on when the daemon runs; syncd runs shows how far it has come", run.ID))
	}
	_, err = fmt.Fprintln(a.out, strings.Join(text, "\n"))
	return err
}

// resetJSON is what source-reset prints with --json.
type resetJSON struct {
	Flow      string `json:"flow"`
	Epoch     int64  `json:"epoch"`
	Start     string `json:"start"`
	Confirmed bool   `json:"confirmed"`
}

func (a *app) sourceResetCmd() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "source-reset FLOW",
		Short: "Read a flow's stream anew, after its source was restored or begun anew",
		Long: `source-reset begins a new epoch of the flow's source: what is read from now on is
newer than everything read before, whatever versions the source gives, and the
stream is read again from where the flow starts. Records that come as they were are
not written. It is for a shop that was restored from a backup, and for having all
records mapped again where the source cannot be asked for one.`,
		Args: oneFlow,
		RunE: func(cmd *cobra.Command, args []string) error { return a.sourceReset(cmd.Context(), args[0], yes) },
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it; without this it is asked at a terminal")
	return c
}

func (a *app) sourceReset(ctx context.Context, flow string, yes bool) error {
	e, err := a.errand(ctx, flow)
	if err != nil {
		return err
	}
	defer e.j.Close()
	c, err := a.look()
	if err != nil {
		return err
	}
	st := c.Flows[flow].From.Start
	out := resetJSON{Flow: flow, Start: st.String()}
	if !a.json {
		fmt.Fprintf(a.out, "the stream of flow %s is read anew from its start (%s)\n", flow, out.Start)
		if st.Now {
			fmt.Fprintln(a.out, "start: now means that only changes from the next start of syncd on are read; to read older ones, set start: all or a date first")
		}
	}
	out.Confirmed = yes || !a.json && confirm(a.out, os.Stdin, "go on?")
	if out.Confirmed {
		s, err := e.j.SourceReset(ctx, flow)
		if err != nil {
			return exit(exitJournal, err)
		}
		out.Epoch = s.Epoch
	}
	switch {
	case a.json:
		err = printJSON(a.out, out)
	case out.Confirmed:
		_, err = fmt.Fprintf(a.out, "source epoch %d begins\n", out.Epoch)
	default:
		_, err = fmt.Fprintln(a.out, "nothing was done; say --yes to do it")
	}
	if err == nil && !out.Confirmed {
		return exit(exitFinding, errSaid)
	}
	return err
}
