package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/connectors"
	"syncd/internal/witness"
	"syncd/jobs"
)

// fileOf tells the file of an embedded journal from its copies; "" where there is no
// such file, or nothing that tells.
func fileOf(eng jobs.Engine) string {
	if f, ok := eng.(interface{ Born() string }); ok {
		return f.Born()
	}
	return ""
}

// noticed makes an error of a journal that is not what it was say what is to be done.
func noticed(ctx context.Context, j *jobs.Journal, c *config.Config, err error) error {
	switch {
	case errors.Is(err, jobs.ErrUnfinished), errors.Is(err, jobs.ErrMoved), errors.Is(err, jobs.ErrPartial):
		return fmt.Errorf("the journal %s cannot be worked on: %w", j.Describe(), err)
	case !errors.Is(err, jobs.ErrRestored) && !errors.Is(err, jobs.ErrCopied):
		return err
	}
	as := "TIME"
	e, eerr := j.Epoch(ctx)
	if eerr == nil && !e.At.IsZero() {
		as = e.At.UTC().Format(time.RFC3339)
	}
	if errors.Is(err, jobs.ErrCopied) {
		return fmt.Errorf("the journal %s: %w: it stands in another file than the one in which it was worked on last. If it was put back from a backup, say so with "+
			"syncd restored --as-of %s, with the time of the backup: what was written since is not known to it, and would be written twice. If it was moved as it stood after the last stop, say syncd restored --moved", j.Describe(), err, as)
	}
	return fmt.Errorf("the journal %s: %w. What was written since is not known to it, and would be written twice. Put the newer one back, if it is to be had, "+
		"or say syncd restored --as-of %s, with the time of the backup (noted in %s)", j.Describe(), err, as, witness.Path(c.StateDir, e.Journal))
}

// unrestored fails when the journal is not what a daemon of this state directory has
// left. It changes nothing.
func (a *app) unrestored(ctx context.Context, j *jobs.Journal, eng jobs.Engine, c *config.Config) error {
	err := j.Runnable(ctx)
	if file := fileOf(eng); err == nil && file != "" {
		err = j.SeeFile(ctx, file)
	}
	if err != nil {
		return noticed(ctx, j, c, err)
	}
	e, err := j.Epoch(ctx)
	if err != nil {
		return err
	}
	note, err := witness.Read(c.StateDir, e.Journal)
	if errors.Is(err, os.ErrPermission) {
		return nil // the daemon's own user can read it
	}
	if err == nil {
		err = note.Meet(e)
	}
	return noticed(ctx, j, c, err)
}

// witnessing is a daemon's notice of how far its journal has come.
type witnessing struct {
	journal *jobs.Journal
	config  *config.Config
	log     *slog.Logger
	seen    jobs.Epoch
	failing bool
}

// witness makes sure that the journal is the one that was left, and notes that it is
// worked on from now on.
func (s *service) witness(ctx context.Context, j *jobs.Journal, eng jobs.Engine) (*witnessing, error) {
	c := s.config
	if err := j.Runnable(ctx); err != nil {
		return nil, exit(exitJournal, noticed(ctx, j, c, err))
	}
	if file := fileOf(eng); file != "" {
		if err := j.SameFile(ctx, file); err != nil {
			return nil, exit(exitJournal, noticed(ctx, j, c, err))
		}
	}
	e, err := j.Epoch(ctx)
	if err != nil {
		return nil, exit(exitJournal, err)
	}
	note, err := witness.Read(c.StateDir, e.Journal)
	if err != nil {
		return nil, exit(exitJournal, fmt.Errorf("read in state_dir how far the journal had come: %w", err))
	}
	w := &witnessing{journal: j, config: c, log: s.log, seen: note.Epoch}
	if w.seen, err = j.Mark(ctx, w.seen); err != nil {
		return nil, exit(exitJournal, noticed(ctx, j, c, err))
	}
	switch err := w.write(); {
	case err != nil && c.StateDirGiven:
		return nil, exit(exitConfig, fmt.Errorf("state_dir: %w; let the user that runs syncd own it", err))
	case err != nil:
		w.failing = true
		s.log.Warn("how far the journal has come cannot be kept, so one that is put back from a backup is not noticed; name a folder in state_dir", "error", err)
	}
	return w, nil
}

func (w *witnessing) write() error {
	return witness.Write(w.config.StateDir, witness.Note{Epoch: w.seen, Place: w.journal.Describe()})
}

// note moves the mark and keeps it. Its error says that the journal was put back while
// the daemon ran.
func (w *witnessing) note(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := w.journal.Mark(ctx, w.seen)
	switch {
	case errors.Is(err, jobs.ErrRestored), errors.Is(err, jobs.ErrMoved), errors.Is(err, jobs.ErrPartial), errors.Is(err, jobs.ErrUnfinished):
		return noticed(ctx, w.journal, w.config, err)
	case err != nil:
		w.log.Debug("marking how far the journal has come failed", "error", err)
		return nil
	}
	w.seen = now
	err = w.write()
	if err != nil && !w.failing {
		w.log.Warn("how far the journal has come could not be kept; tried again", "error", err)
	}
	w.failing = err != nil
	return nil
}

// run notes how far the journal has come until ctx ends.
func (w *witnessing) run(ctx context.Context, lose context.CancelCauseFunc) {
	t := time.NewTicker(jobs.MarkEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := w.note(ctx); err != nil {
			w.log.Error("the journal was taken away; stopping, and nothing more is sent", "error", err)
			lose(fmt.Errorf("%w: %w", jobs.ErrLost, err))
			return
		}
	}
}

// restoredJSON is what restored prints with --json.
type restoredJSON struct {
	Journal   string     `json:"journal"`
	LastSign  *time.Time `json:"last_sign_of_life,omitempty"`
	Before    *time.Time `json:"restored_before,omitempty"`
	AsOf      time.Time  `json:"as_of"`
	Open      int64      `json:"open"`
	Done      int64      `json:"done"`
	Held      int64      `json:"held"`
	Confirmed bool       `json:"confirmed"`
	Fresh     bool       `json:"fresh"`
	Epoch     int64      `json:"epoch,omitempty"`
	Run       *runJSON   `json:"run,omitempty"`
}

func (a *app) restoredCmd() *cobra.Command {
	var yes, moved bool
	var at string
	c := &cobra.Command{
		Use:   "restored --as-of TIME",
		Short: "Say that the journal was put back from a backup",
		Long: `restored begins a new epoch of the journal, after it was put back from a backup. What
was written to the targets since the backup is not known to it. So every record that is
open, or was done within ten minutes before the backup, is taken for one of which a
write is in doubt, and so is every record that is read from then on until its stream
was read to the end: each is found out about before it is written, so that none is
created twice. Records of a flow that writes at most once are held, for a person to
say what became of them. It says how many there are, and asks.

No daemon may run. Interrupted, it goes on where it was when it is called again, and
syncd run refuses the journal until it has ended. Called again after that, it says so
before it asks: it would begin another epoch.

A file that was moved to another place as it stood after the last stop is no backup,
but looks like one; --moved says that it was.`,
		Example: `  syncd restored --as-of 2026-11-30T02:00:00Z`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if moved {
				return a.moved(cmd.Context(), at)
			}
			return a.restored(cmd.Context(), at, yes)
		},
	}
	c.Flags().StringVar(&at, "as-of", "", "the `time` at which the backup was taken, or a little before: 2026-11-30T02:00:00Z, or 6h for so long ago")
	c.Flags().BoolVar(&moved, "moved", false, "nothing is lost: the file was only moved, or copied after syncd had stopped")
	c.Flags().BoolVar(&yes, "yes", false, "do it; without this it is asked at a terminal, and else only counted")
	return c
}

// apart opens the journal for a command that no daemon may run beside.
func (a *app) apart(ctx context.Context) (*config.Config, *jobs.Journal, jobs.Engine, error) {
	c, err := a.look()
	if err != nil {
		return nil, nil, nil, err
	}
	eng, err := engine(ctx, c, acting, quiet())
	if err != nil {
		return nil, nil, nil, exit(exitJournal, err)
	}
	j := jobs.New(eng, jobs.Options{Owner: rand.Text()})
	s, err := j.Survey(ctx)
	if err == nil && len(s.Living(j.Me().Process)) > 0 {
		err = errors.New("a daemon works on the journal; stop syncd first, everywhere")
	}
	if err != nil {
		return nil, nil, nil, errors.Join(exit(exitJournal, err), j.Close())
	}
	return c, j, eng, nil
}

func (a *app) moved(ctx context.Context, at string) error {
	if at != "" {
		return usage("--moved and --as-of do not go together: a journal that was moved as it stood is no backup")
	}
	_, j, eng, err := a.apart(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	file := fileOf(eng)
	if file == "" {
		return exit(exitFinding, fmt.Errorf("the journal %s is in no file that could be told from a copy; nothing has to be said", j.Describe()))
	}
	if err := j.Moved(ctx, file); err != nil {
		return exit(exitJournal, err)
	}
	if a.json {
		return printJSON(a.out, map[string]any{"journal": j.Describe(), "moved": true})
	}
	_, err = fmt.Fprintf(a.out, "the journal %s is taken for the one that was left\n", j.Describe())
	return err
}

func (a *app) restored(ctx context.Context, at string, yes bool) error {
	if at == "" {
		return usage("say with --as-of when the backup was taken")
	}
	c, j, eng, err := a.apart(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	t, err := pointInTime("as-of", at, j.Now())
	if err != nil {
		return err
	}
	if t.After(j.Now()) {
		return usage("--as-of: %s is yet to come", t.Format(time.RFC3339))
	}
	fs := flows(c)
	run, begun, err := j.Restoring(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	before, was, err := j.LastRestore(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	n, err := j.CountRestore(ctx, t, fs)
	if err != nil {
		return exit(exitJournal, err)
	}
	e, err := j.Epoch(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	out := restoredJSON{Journal: j.Describe(), AsOf: n.AsOf, Open: n.Open, Done: n.Done, Held: n.Held}
	if !e.At.IsZero() {
		out.LastSign = &e.At
	}
	switch {
	case run.ID != 0:
		out.AsOf = begun.AsOf
	case before.ID != 0:
		out.Before = &was.At
	}
	if !a.json {
		a.previewRestored(out, run.ID != 0, was.AsOf)
		a.previewUnrepeatable(fs)
	}
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
	run, e, out.Fresh, err = j.BeginRestore(ctx, t, n.Open+n.Done, fileOf(eng), userName())
	if err != nil {
		return exit(exitJournal, err)
	}
	out.Epoch = e.Number
	if run, err = workOff(ctx, j, run, fs); err != nil {
		return err
	}
	got := runOf(run)
	out.Run = &got
	switch {
	case a.json:
		err = printJSON(a.out, out)
	case run.Open():
		_, err = fmt.Fprintln(a.out, "interrupted; call it again, it goes on where it was")
	default:
		_, err = fmt.Fprintf(a.out, "a new epoch of the journal begins: %s\n", run.Message)
	}
	if err == nil && run.Open() {
		return exit(exitFinding, errSaid)
	}
	return err
}

// previewUnrepeatable says of which flows more will wait for a person than what is known of.
func (a *app) previewUnrepeatable(fs map[string]*jobs.Flow) {
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if fs[name].Strategy == connectors.AtMostOnce {
			fmt.Fprintf(a.out, "flow %s writes at most once: what is read of it before its source has been read to its end, and for ten minutes more, waits for a person as well\n", name)
		}
	}
}

// previewRestored says what is about to be done; was is the time of the backup of the
// restore before, where there was one.
func (a *app) previewRestored(o restoredJSON, begun bool, was time.Time) {
	if o.LastSign != nil {
		fmt.Fprintf(a.out, "the journal %s shows its last sign of life at %s\n", o.Journal, o.LastSign.UTC().Format(time.RFC3339))
	}
	if begun {
		fmt.Fprintf(a.out, "a restore as of %s was begun, and goes on where it was\n", o.AsOf.UTC().Format(time.RFC3339))
		return
	}
	if o.Before != nil {
		fmt.Fprintf(a.out, "a restore as of %s was said at %s already, and has ended: nothing is left to be said of that one. Go on only if the journal was put back once more since, or that time was too late: "+
			"all that is open is put in doubt again\n", was.UTC().Format(time.RFC3339), o.Before.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(a.out, "as of %s, %d records are open and may have been written since, and %d were done so late that they are written once more\n",
		o.AsOf.UTC().Format(time.RFC3339), o.Open, o.Done)
	if o.Held > 0 {
		fmt.Fprintf(a.out, "%d of them are of flows that write at most once: a person has to look whether each was written (syncd jobs list --state held, then syncd resolve)\n", o.Held)
	}
}
