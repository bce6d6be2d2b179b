package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// actedJSON is what replay and discard print with --json.
type actedJSON struct {
	Done    int       `json:"done"`
	Asked   int       `json:"asked"`
	Skipped []skipped `json:"skipped"`
	Dropped []dropped `json:"dropped,omitempty"`
}

// dropped names the source records whose claims to a job's key were dropped.
type dropped struct {
	Job       string   `json:"job"`
	SourceIDs []string `json:"source_ids"`
}

type skipped struct {
	Job string `json:"job"`
	Why string `json:"why"`
}

func (a *app) replayCmd() *cobra.Command {
	var remap bool
	c := &cobra.Command{
		Use:   "replay FLOW/KEY ...",
		Short: "Try dead jobs again, or write done ones once more",
		Long: `replay makes dead jobs due again with all their attempts. A record that could not
be mapped is mapped again, and one past its flow's max_age is read again from
the source, by the daemon. A write in doubt is found out about first, as always.

A job that is done is written once more as it is wanted, with its references
looked up anew. With --remap the record is read again at its source first, and
mapped as its flow maps now.`,
		Args: someJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.act(cmd.Context(), args, func(j *jobs.Journal, ids []jobs.RowID, fs map[string]*jobs.Flow) (jobs.Acted, error) {
				if remap {
					return j.Remap(cmd.Context(), ids, fs)
				}
				return j.Replay(cmd.Context(), ids, fs)
			}, "due again")
		},
	}
	c.Flags().BoolVar(&remap, "remap", false, "read each record again at its source and map it as its flow maps now")
	return c
}

func (a *app) discardCmd() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "discard FLOW/KEY ... --reason TEXT",
		Short: "Give jobs up",
		Long: `discard ends open or dead jobs without writing them. The record opens its job again
when its content changes. The reason is kept in the job's history.

Where other source records claim the job's key and wait, and the job is not dead,
their claims are dropped instead, and the job stays as it is. That is for records
that are no longer at the source; one that still is claims the key again when it
is read.`,
		Args: someJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage("say why with --reason; it is kept in the job's history")
			}
			return a.act(cmd.Context(), args, func(j *jobs.Journal, ids []jobs.RowID, _ map[string]*jobs.Flow) (jobs.Acted, error) {
				return j.Discard(cmd.Context(), ids, reason)
			}, "discarded")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words`")
	return c
}

// act changes the named jobs; those that could not be changed are a finding.
func (a *app) act(ctx context.Context, names []string, do func(*jobs.Journal, []jobs.RowID, map[string]*jobs.Flow) (jobs.Acted, error), done string) error {
	ids := make([]jobs.RowID, 0, len(names))
	for _, n := range names {
		id, err := rowID(n)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	c, j, err := a.beside(ctx, acting)
	if err != nil {
		return err
	}
	defer j.Close()
	got, err := do(j, ids, flows(c))
	if err != nil {
		return exit(exitJournal, err)
	}
	out := actedJSON{Done: got.Done, Asked: got.Asked, Skipped: []skipped{}}
	for _, s := range got.Skipped {
		out.Skipped = append(out.Skipped, skipped{s.RowID.String(), unrun(c, s.RowID.Flow, s.Why)})
	}
	for _, d := range got.Dropped {
		out.Dropped = append(out.Dropped, dropped{d.RowID.String(), d.SourceIDs})
	}
	slices.SortFunc(out.Dropped, func(x, y dropped) int { return strings.Compare(x.Job, y.Job) })
	slices.SortFunc(out.Skipped, func(x, y skipped) int { return strings.Compare(x.Job, y.Job) })
	if a.json {
		err = printJSON(a.out, out)
	} else {
		fmt.Fprintf(a.out, "%d %s", out.Done, done)
		if out.Asked > 0 {
			fmt.Fprintf(a.out, ", %d asked of their source", out.Asked)
		}
		fmt.Fprintln(a.out)
		for _, d := range out.Dropped {
			fmt.Fprintf(a.out, "%s stays as it is; no longer claimed by source record %s\n", clean(d.Job), clean(strings.Join(d.SourceIDs, ", ")))
		}
		for _, s := range out.Skipped {
			fmt.Fprintf(a.out, "%s left alone: %s\n", clean(s.Job), clean(s.Why))
		}
	}
	if err == nil && len(out.Skipped) > 0 {
		return exit(exitFinding, errSaid)
	}
	return err
}
