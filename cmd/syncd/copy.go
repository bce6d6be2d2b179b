package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/jobs"
)

// copyJSON is what journal copy prints with --json.
type copyJSON struct {
	From      string      `json:"from"`
	To        string      `json:"to,omitempty"`
	Copied    []copiedOne `json:"copied,omitempty"`
	Complete  bool        `json:"complete"`
	Cancelled bool        `json:"cancelled,omitempty"`
}

type copiedOne struct {
	What string `json:"what"`
	N    int64  `json:"n"`
}

func (a *app) journalCmd() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "journal",
		Short: "Move the journal to another engine",
		Long:  `The journal is a file (SQLite) or stands in a database (PostgreSQL), and can be moved from the one to the other.`,
	})
	var cancel bool
	cp := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Move the journal from a file into a database, or the other way",
		Long: `copy moves all that a journal holds to another place, which must be empty. Both are
named as the configuration names a journal: sqlite:PATH, postgres://USER@HOST/DATABASE,
or the path of a configuration file whose journal is meant. A password belongs into a
reference, '${env:DATABASE_URL}' or '${file:/path}', or into the configuration file.

No daemon may run on either. FROM is marked, so that syncd run and commands that change
something refuse it from then on. Interrupted, or after a crash, it goes on where it was
when it is called again; --cancel takes the mark off instead, as long as the copy is not
complete. What was copied by then is to be thrown away.`,
		Example: `  syncd journal copy sqlite:/var/lib/syncd/syncd.db '${env:DATABASE_URL}'
  syncd journal copy --cancel sqlite:/var/lib/syncd/syncd.db`,
		Args: func(_ *cobra.Command, args []string) error {
			if cancel && len(args) != 1 {
				return usage("copy --cancel needs the journal of which a copy was begun")
			}
			if !cancel && len(args) != 2 {
				return usage("copy needs two journals: the one to copy from, and the place to copy to")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cancel {
				return a.cancelCopy(cmd.Context(), args[0])
			}
			return a.copyJournal(cmd.Context(), args[0], args[1])
		},
	}
	cp.Flags().BoolVar(&cancel, "cancel", false, "give a copy up that is not complete, and have FROM be the journal again")
	c.AddCommand(cp)
	return c
}

// place reads where a journal is: as the configuration says it, or a configuration.
func (a *app) place(text string) (*config.Config, error) {
	o := config.Options{Path: "syncd.yaml", Connectors: registry(), Lenient: true}
	for _, kv := range a.env {
		if !strings.HasPrefix(kv, "SYNCD_") { // nothing else is to say where the journal is
			o.Env = append(o.Env, kv)
		}
	}
	switch ext := filepath.Ext(text); {
	case ext == ".yaml" || ext == ".yml":
		o.Path = text
		if _, err := os.Stat(text); err != nil {
			return nil, exit(exitConfig, fmt.Errorf("there is no configuration at %s", text))
		}
	default:
		o.Data = []byte("journal: " + strconv.Quote(text) + "\n")
	}
	c, err := config.Load(o)
	var es *config.Errors
	switch {
	case o.Data != nil && errors.As(err, &es):
		return nil, exit(exitConfig, fmt.Errorf("a journal is named sqlite:PATH, postgres://USER@HOST/DATABASE, or by a configuration file: %s", es.Problems[0].Msg))
	case err != nil:
		return nil, exit(exitConfig, err)
	case c.Journal.Unresolved():
		return nil, exit(exitConfig, fmt.Errorf("%s: a reference in it leads nowhere", text))
	}
	a.secrets.add(c)
	return c, nil
}

// held opens a journal for copying. It must be there, as this version knows it, unless
// it is to be made.
func (a *app) held(ctx context.Context, c *config.Config, make bool) (*jobs.Journal, error) {
	if !make {
		// Whoever has it to himself brings an older one up to date; that is the daemon's.
		e, err := engine(ctx, c, acting, quiet())
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			return nil, exit(exitJournal, err)
		}
	}
	how := owning // an embedded one is locked
	if !make && c.Journal.Engine() != "sqlite" {
		how = acting
	}
	e, err := engine(ctx, c, how, quiet())
	if err != nil {
		return nil, exit(exitJournal, err)
	}
	return jobs.New(e, jobs.Options{Owner: rand.Text()}), nil
}

func (a *app) copyJournal(ctx context.Context, fromText, toText string) (err error) {
	fromPlace, err := a.place(fromText)
	if err != nil {
		return err
	}
	toPlace, err := a.place(toText)
	if err != nil {
		return err
	}
	from, err := a.held(ctx, fromPlace, false)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := a.held(ctx, toPlace, true)
	if err != nil {
		return err
	}
	defer to.Close()
	c, err := jobs.BeginCopy(ctx, from, to, 0)
	if err != nil {
		return exit(exitJournal, err)
	}
	// A step under way ends whole.
	soft, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := copyJSON{From: from.Describe(), To: to.Describe()}
	for !out.Complete && soft.Err() == nil {
		if out.Complete, err = c.Step(ctx); err != nil {
			return exit(exitJournal, fmt.Errorf("%w; call it again, it goes on where it was", err))
		}
	}
	for _, n := range c.Copied() {
		out.Copied = append(out.Copied, copiedOne{n.What, n.N})
	}
	if a.json {
		err = printJSON(a.out, out)
	} else {
		for _, n := range out.Copied {
			fmt.Fprintf(a.out, "%d %s\n", n.N, n.What)
		}
		text := "interrupted; call it again, it goes on where it was"
		if out.Complete {
			text = fmt.Sprintf("the journal is %s from now on; name it in the configuration. %s is marked as moved, and kept", out.To, out.From)
		}
		_, err = fmt.Fprintln(a.out, text)
	}
	if err == nil && !out.Complete {
		return exit(exitFinding, errSaid)
	}
	return err
}

func (a *app) cancelCopy(ctx context.Context, text string) error {
	place, err := a.place(text)
	if err != nil {
		return err
	}
	j, err := a.held(ctx, place, false)
	if err != nil {
		return err
	}
	defer j.Close()
	ok, err := j.CancelCopy(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	if !ok {
		return exit(exitFinding, fmt.Errorf("no copy of %s was begun", j.Describe()))
	}
	if a.json {
		return printJSON(a.out, copyJSON{From: j.Describe(), Cancelled: true})
	}
	_, err = fmt.Fprintf(a.out, "%s is the journal again; throw away what was copied\n", j.Describe())
	return err
}

// unmoved refuses a journal that was moved, or is half of a move, for commands that
// change it.
func unmoved(ctx context.Context, j *jobs.Journal) error {
	err := j.Runnable(ctx)
	if slices.ContainsFunc([]error{jobs.ErrMoved, jobs.ErrPartial}, func(e error) bool { return errors.Is(err, e) }) {
		return err
	}
	return nil
}
