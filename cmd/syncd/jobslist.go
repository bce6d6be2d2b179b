package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/connectors"
	"syncd/internal/field"
	"syncd/jobs"
)

// listJSON is what jobs list --json prints; docs/cli.md describes it.
type listJSON struct {
	Jobs []rowJSON `json:"jobs"`
	More bool      `json:"more"`
	Next string    `json:"next,omitempty"`
}

// mostListed bounds one listing.
const mostListed = 10_000

func (a *app) jobsListCmd() *cobra.Command {
	var f jobs.Filter
	var state, reason, after string
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs, without their content",
		Long: `list shows jobs in the order of flow and key, without their content. When there
are more than --limit it says how to go on.`,
		Example: `  syncd jobs list --state dead
  syncd jobs list --flow orders --state ready --reason waiting --json`,
		Args: noArgs,
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
	c.Flags().StringVar(&reason, "reason", "", "only jobs with this `reason`, such as waiting or expired")
	c.Flags().BoolVar(&f.Contended, "colliding", false, "only jobs whose key other source records claim too")
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
		return usage("running is not stored: list --state ready, which shows the running ones as such")
	default:
		return usage("there is no state %q; there are ready, done, dead and held", f.State)
	}
	if f.Class != "" && !slices.Contains(connectors.Classes(), connectors.Class(f.Class)) {
		return usage("there is no class %q; there are %s", f.Class, words(connectors.Classes()))
	}
	if f.Reason != "" && !slices.Contains(reasons(), f.Reason) {
		return usage("there is no reason %q; there are %s", f.Reason, words(reasons()))
	}
	if f.Limit < 1 || f.Limit > mostListed {
		return usage("--limit %d is not between 1 and %d", f.Limit, mostListed)
	}
	return nil
}

// reasons are those that a row can show.
func reasons() []jobs.Reason {
	return []jobs.Reason{jobs.ReasonRetry, jobs.ReasonThrottled, jobs.ReasonAuth, jobs.ReasonUnresolved, jobs.ReasonWaiting,
		jobs.ReasonNoFlow, jobs.ReasonRefresh, jobs.ReasonMapping, jobs.ReasonRenamed, jobs.ReasonSuperseded, jobs.ReasonDiscarded,
		jobs.ReasonIgnored, jobs.ReasonFailed, jobs.ReasonExpired, jobs.ReasonBehind, jobs.ReasonLate, jobs.ReasonRefused}
}

func words[T ~string](of []T) string {
	out := make([]string, len(of))
	for i, w := range of {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

func (a *app) jobsList(ctx context.Context, f jobs.Filter) error {
	c, j, err := a.beside(ctx, reading)
	if err != nil {
		return err
	}
	defer j.Close()
	limit := f.Limit
	f.Limit++ // one more tells whether there are more
	rows, running, err := j.List(ctx, f)
	if err != nil {
		return exit(exitJournal, err)
	}
	if len(rows) == 0 {
		if err := knownFlow(ctx, j, c, f.Flow); err != nil {
			return err
		}
	}
	claims, err := j.Claimants(ctx, rows)
	if err != nil {
		return exit(exitJournal, err)
	}
	out := listJSON{Jobs: []rowJSON{}, More: len(rows) > limit}
	for i := range rows[:min(len(rows), limit)] {
		row := a.row(&rows[i], running[rows[i].RowID])
		row.Claims = claims[rows[i].RowID]
		out.Jobs = append(out.Jobs, row)
	}
	if out.More {
		out.Next = out.Jobs[limit-1].name()
	}
	if a.json {
		return printJSON(a.out, out)
	}
	return out.print(a.out)
}

// knownFlow refuses a flow that neither the configuration nor the journal has.
func knownFlow(ctx context.Context, j *jobs.Journal, c *config.Config, flow string) error {
	if _, configured := c.Flows[flow]; configured || flow == "" {
		return nil
	}
	rows, _, err := j.List(ctx, jobs.Filter{Flow: flow, Limit: 1})
	if err != nil {
		return exit(exitJournal, err)
	}
	if len(rows) > 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.Flows))
	return usage("there is no flow %q in the configuration, and no job of one in the journal; %s", flow,
		cmp.Or(field.DidYouMean(flow, names), "syncd status shows the flows"))
}

func (l *listJSON) print(w io.Writer) error {
	if len(l.Jobs) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tSTATE\tREASON\tCLASS\tATTEMPT\tLAST\tDUE\tMESSAGE")
	for _, r := range l.Jobs {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", clean(r.name()), r.State, dash(r.Reason), dash(r.Class), r.Attempt,
			stamp(r.LastAt), stamp(r.DueAt), dash(clean(r.remark())))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if l.More {
		if clean(l.Next) != l.Next {
			fmt.Fprintln(w, "there are more; the last key cannot be typed: take next from --json as --after")
			return nil
		}
		fmt.Fprintf(w, "there are more: --after %s\n", quote(l.Next))
	}
	return nil
}

// remark is the last outcome's message, and who else claims the job's key.
func (r *rowJSON) remark() string {
	if len(r.Claims) == 0 {
		return r.Message
	}
	claim := "collision: source record " + r.SourceID + " has the key, and these wait for it: " + jobs.NamedIDs(r.Claims) +
		"; correct one of them at the source, or drop the claims of those that are gone with syncd discard"
	if r.Message == "" {
		return claim
	}
	return r.Message + "; " + claim
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// quote writes s as one word of a shell.
func quote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_.:@%+=,", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
