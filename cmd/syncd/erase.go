package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// eraseJSON is what erase prints with --json.
type eraseJSON struct {
	Chosen    []traceJSON `json:"chosen"`
	Confirmed bool        `json:"confirmed"`
	Rows      int         `json:"rows"`
	Bodies    int         `json:"bodies"`
	Entries   int         `json:"entries"`
	Claims    int         `json:"claims"`
	Skipped   []skipped   `json:"skipped"`
	// Left says where traces may be left that no command of syncd removes.
	Left string `json:"left,omitempty"`
}

// traceJSON is a job that may hold content of what is erased.
type traceJSON struct {
	Job   string `json:"job"`
	State string `json:"state"`
}

// erasure is how erase was called.
type erasure struct {
	jobs.Erasure
	source, yes    bool
	group, subject string
}

func (a *app) eraseCmd() *cobra.Command {
	var x erasure
	c := &cobra.Command{
		Use:   "erase FLOW/KEY ... --reason TEXT",
		Short: "Remove the content that the journal keeps of records, as of one person",
		Long: `erase removes the content of records from the journal: bodies, texts of errors and of
the history, what is kept of a write in doubt, and claims to their keys. It goes through
all flows that write the record. Keys, ids, versions and hashes stay, so that a late or
repeated event is harmless, and nothing is sent of the records any more unless their
source has something else. It shows which jobs it is about, and asks; who did it, when
and why is kept.

An open job is left alone, because it has to be written yet; --discard gives it up. One
that is being written is always left alone. Records in the sources and the targets are
not touched.`,
		Example: `  syncd erase customers/C-17 --reason 'request of 30 November' --source
  syncd erase --subject ann@example.com --reason 'request of 30 November'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			x.By = userName()
			return a.erase(cmd.Context(), args, x)
		},
	}
	c.Flags().StringVar(&x.Why, "reason", "", "why, in a few `words` that say nothing of the person")
	c.Flags().BoolVar(&x.source, "source", false, "also all other records that the same source record maps to")
	c.Flags().StringVar(&x.group, "group", "", "the events of a group, as `FLOW/GROUP`, of a flow with order: every")
	c.Flags().StringVar(&x.subject, "subject", "", "all jobs in whose content, errors or history a `text` occurs, in whatever case; the whole journal is read")
	c.Flags().BoolVar(&x.Discard, "discard", false, "give open jobs up first")
	c.Flags().BoolVar(&x.yes, "yes", false, "do it; without this it is asked at a terminal, and else only shown")
	return c
}

// eraser opens the journal for erasing: what is removed from a file is overwritten.
func (a *app) eraser(ctx context.Context) (*config.Config, *jobs.Journal, jobs.Engine, error) {
	c, err := a.look()
	if err != nil {
		return nil, nil, nil, err
	}
	if c.Journal.Engine() != "sqlite" {
		j, eng, err := a.journal(ctx, c, acting, quiet())
		return c, j, eng, err
	}
	eng, err := sqlite.Open(ctx, c.Journal.SQLite.Path, sqlite.Options{Overwrite: true, Log: quiet()})
	if err != nil {
		return nil, nil, nil, exit(exitJournal, err)
	}
	j := jobs.New(eng, jobs.Options{Owner: rand.Text()})
	if err := unmoved(ctx, j); err != nil {
		_ = j.Close()
		return nil, nil, nil, exit(exitJournal, err)
	}
	return c, j, eng, nil
}

func (a *app) erase(ctx context.Context, args []string, x erasure) error {
	switch {
	case strings.TrimSpace(x.Why) == "":
		return usage("say why with --reason; it is kept")
	case len(args) == 0 && x.group == "" && x.subject == "":
		return usage("say what to erase: jobs as FLOW/KEY, --group or --subject")
	case x.subject != "" && len(strings.TrimSpace(x.subject)) < 4:
		return usage("--subject: a text of less than four characters occurs everywhere")
	}
	var ids []jobs.RowID
	for _, n := range args {
		id, err := rowID(n)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	_, j, eng, err := a.eraser(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	if x.group != "" {
		g, err := rowID(x.group)
		if err != nil {
			return usage("--group: write FLOW/GROUP")
		}
		more, err := j.GroupRows(ctx, g.Flow, g.Key)
		if err != nil {
			return exit(exitJournal, err)
		}
		ids = append(ids, more...)
	}
	if x.subject != "" {
		more, err := j.Mentions(ctx, x.subject)
		if err != nil {
			return exit(exitJournal, err)
		}
		ids = append(ids, more...)
	}
	out := eraseJSON{Chosen: []traceJSON{}, Skipped: []skipped{}}
	todo, err := a.traces(ctx, j, ids, x.source, &out)
	if err != nil {
		return err
	}
	if !a.json {
		printTraces(a, out)
	}
	out.Confirmed = len(todo) > 0 && (x.yes || !a.json && confirm(a.out, os.Stdin, fmt.Sprintf("erase the content of %d jobs?", len(todo))))
	soft, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for part := range slices.Chunk(todo, jobs.EraseStep) {
		if !out.Confirmed || soft.Err() != nil {
			break
		}
		got, err := j.Erase(ctx, part, x.Erasure)
		if err != nil {
			return exit(exitJournal, err)
		}
		out.add(got)
	}
	if out.Rows > 0 {
		out.Left = left(ctx, eng)
	}
	return a.erased(out, len(todo), soft.Err() != nil)
}

// traces finds what belongs to the jobs that are named, some at a time.
func (a *app) traces(ctx context.Context, j *jobs.Journal, ids []jobs.RowID, source bool, out *eraseJSON) (todo []jobs.RowID, err error) {
	seen := map[jobs.RowID]bool{}
	for part := range slices.Chunk(ids, jobs.EraseStep) {
		rows, missing, err := j.Traces(ctx, part, source)
		if err != nil {
			return nil, exit(exitJournal, err)
		}
		for _, id := range missing {
			out.Skipped = append(out.Skipped, skipped{id.String(), "there is no such job"})
		}
		for i := range rows {
			if r := &rows[i]; !seen[r.RowID] {
				seen[r.RowID] = true
				todo = append(todo, r.RowID)
				out.Chosen = append(out.Chosen, traceJSON{r.RowID.String(), string(r.State)})
			}
		}
	}
	return todo, nil
}

func (o *eraseJSON) add(e jobs.Erased) {
	o.Rows += e.Rows
	o.Bodies += e.Bodies
	o.Entries += e.Entries
	o.Claims += e.Claims
	for _, s := range e.Skipped {
		o.Skipped = append(o.Skipped, skipped{s.RowID.String(), s.Why})
	}
}

// left empties what an engine keeps beside its tables, and says what stays.
func left(ctx context.Context, eng jobs.Engine) string {
	if s, ok := eng.(interface{ Scrub(context.Context) error }); ok {
		if err := s.Scrub(ctx); err != nil {
			return "the write-ahead log could not be emptied (" + err.Error() + "); it is when syncd is stopped"
		}
		return "what was replaced before may be left in free pages of the file until VACUUM is run on it while syncd is stopped, and in backups"
	}
	return "what was removed is left in the database's files until VACUUM FULL is run on the journal's tables, and in its write-ahead log and backups"
}

const mostTraces = 50

func printTraces(a *app, o eraseJSON) {
	if len(o.Chosen) == 0 {
		return
	}
	tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tSTATE")
	for _, c := range o.Chosen[:min(len(o.Chosen), mostTraces)] {
		fmt.Fprintf(tw, "%s\t%s\n", clean(c.Job), c.State)
	}
	_ = tw.Flush() // the output remembers what goes wrong
	if n := len(o.Chosen) - mostTraces; n > 0 {
		fmt.Fprintf(a.out, "and %d more\n", n)
	}
}

func (a *app) erased(o eraseJSON, chosen int, interrupted bool) error {
	var err error
	switch {
	case a.json:
		err = printJSON(a.out, o)
	default:
		for _, s := range o.Skipped {
			fmt.Fprintf(a.out, "%s left alone: %s\n", clean(s.Job), clean(s.Why))
		}
		switch {
		case chosen == 0:
			fmt.Fprintln(a.out, "nothing is there to erase")
		case !o.Confirmed:
			fmt.Fprintf(a.out, "%d jobs are chosen, and nothing was done; say --yes to do it\n", chosen)
		default:
			fmt.Fprintf(a.out, "erased the content of %d jobs: %d bodies, the texts of %d history entries, %d claims\n", o.Rows, o.Bodies, o.Entries, o.Claims)
		}
		if o.Left != "" {
			fmt.Fprintln(a.out, "note:", o.Left)
		}
		if interrupted {
			fmt.Fprintln(a.out, "interrupted; call it again for the rest")
		}
	}
	if err == nil && (chosen == 0 || !o.Confirmed || len(o.Skipped) > 0 || interrupted) {
		return exit(exitFinding, errSaid)
	}
	return err
}
