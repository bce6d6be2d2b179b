package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// bulkJSON is what jobs replay and jobs discard print with --json.
type bulkJSON struct {
	Chosen []chosenJSON `json:"chosen"`
	Total  int64        `json:"total"`
	// Confirmed is false when only the preview was given.
	Confirmed bool        `json:"confirmed"`
	Done      int64       `json:"done"`
	Asked     int64       `json:"asked"`
	Dropped   int64       `json:"dropped"`
	Skipped   int64       `json:"skipped"`
	Whys      []skippedBy `json:"skipped_by_why,omitempty"`
	Next      string      `json:"next,omitempty"`
}

// chosenJSON is how many jobs of a selection stand where.
type chosenJSON struct {
	Flow   string `json:"flow"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Class  string `json:"class,omitempty"`
	N      int64  `json:"n"`
}

// skippedBy is how many jobs were left alone for one reason.
type skippedBy struct {
	Why     string `json:"why"`
	N       int64  `json:"n"`
	Example string `json:"example"`
}

// choice is the selection of a command as its options give it.
type choice struct {
	jobs.Selection
	states        string
	since, before string
	after         string
	all, yes      bool
}

func (ch *choice) flags(c *cobra.Command, states string) {
	fs := c.Flags()
	fs.StringVar(&ch.Flow, "flow", "", "only jobs of this `flow`")
	fs.StringVar(&ch.states, "state", "dead", states)
	fs.StringVar(&ch.Class, "class", "", "only jobs whose last outcome had this `class`")
	fs.StringVar((*string)(&ch.Reason), "reason-is", "", "only jobs with this `reason`, such as mapping or expired")
	fs.StringVar(&ch.KeyPrefix, "key-prefix", "", "only jobs whose key begins with this `text`; needs --flow")
	fs.StringVar(&ch.since, "since", "", "only jobs whose last outcome is of this `time` or later: 2026-11-30T08:00:00Z, or 90m for so long ago")
	fs.StringVar(&ch.before, "before", "", "only jobs whose last outcome is from before this `time`")
	fs.StringVar(&ch.after, "after", "", "go on behind `FLOW/KEY`, where an earlier call was interrupted")
	fs.BoolVar(&ch.all, "all", false, "all jobs in that state, of whatever flow; needed when nothing else chooses")
	fs.BoolVar(&ch.yes, "yes", false, "do it; without this it is asked at a terminal, and else only counted")
}

// take reads the options; states are those that the command can be about.
func (ch *choice) take(now time.Time, able ...jobs.State) (states []jobs.State, after jobs.RowID, err error) {
	for s := range strings.SplitSeq(ch.states, ",") {
		st := jobs.State(strings.TrimSpace(s))
		if !slices.Contains(able, st) {
			return nil, after, usage("--state %s: it can be %s", s, words(able))
		}
		if !slices.Contains(states, st) {
			states = append(states, st)
		}
	}
	f := jobs.Filter{Flow: ch.Flow, Class: ch.Class, Reason: ch.Reason, Limit: 1}
	if err := checkFilter(f); err != nil {
		return nil, after, err
	}
	if ch.KeyPrefix != "" && ch.Flow == "" {
		return nil, after, usage("--key-prefix needs --flow")
	}
	if ch.Since, err = pointInTime("since", ch.since, now); err != nil {
		return nil, after, err
	}
	if ch.Before, err = pointInTime("before", ch.before, now); err != nil {
		return nil, after, err
	}
	if ch.after != "" {
		if len(states) > 1 {
			return nil, after, usage("--after goes with one --state")
		}
		if after, err = rowID(ch.after); err != nil {
			return nil, after, err
		}
	}
	none := ch.Selection
	none.State = ""
	if none == (jobs.Selection{}) && !ch.all {
		return nil, after, usage("say which jobs: --flow, --class, --reason-is, --since or --before, or --all for every one that is %s", ch.states)
	}
	return states, after, nil
}

// pointInTime reads a time, or a duration before now.
func pointInTime(option, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usage("--%s: %q is no time; write for example 2026-11-30T08:00:00Z, 2026-11-30 (in UTC), or 90m for so long ago", option, text)
}

func (a *app) jobsReplayCmd() *cobra.Command {
	var ch choice
	var remap bool
	c := &cobra.Command{
		Use:   "replay",
		Short: "Try many dead jobs again, or write many done ones once more",
		Long: `replay does to all jobs that are chosen what syncd replay does to one. It says how
many there are, by flow and class, and asks; then it works in steps of 500 in the
order of flow and key. The jobs become due, and are sent at the pace of the client.
Interrupted, it says how to go on; jobs that are due again are not dead, so calling
it once more does too.`,
		Example: `  syncd jobs replay --flow orders --class invalid --since 2h
  syncd jobs replay --flow orders --state done --key-prefix SO-2026- --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.bulk(cmd.Context(), &ch, func(j *jobs.Journal, s jobs.Selection, after jobs.RowID, fs map[string]*jobs.Flow) (jobs.BulkStep, error) {
				if remap {
					return j.RemapStep(cmd.Context(), s, after, fs)
				}
				return j.ReplayStep(cmd.Context(), s, after, fs)
			}, "due again", jobs.Dead, jobs.Done)
		},
	}
	ch.flags(c, "jobs in this `state`: dead or done")
	c.Flags().BoolVar(&remap, "remap", false, "read each record again at its source and map it as its flow maps now")
	return c
}

func (a *app) jobsDiscardCmd() *cobra.Command {
	var ch choice
	var reason string
	c := &cobra.Command{
		Use:   "discard",
		Short: "Give many jobs up",
		Long: `discard does to all jobs that are chosen what syncd discard does to one. It says how
many there are, by flow and class, and asks; then it works in steps of 500 in the
order of flow and key. The flow need not be in the configuration.`,
		Example: `  syncd jobs discard --flow orders --reason-is mapping --reason 'corrected by hand'
  syncd jobs discard --flow of-yore --state ready,dead,held --reason 'the shop is closed' --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage("say why with --reason; it is kept in each job's history")
			}
			return a.bulk(cmd.Context(), &ch, func(j *jobs.Journal, s jobs.Selection, after jobs.RowID, _ map[string]*jobs.Flow) (jobs.BulkStep, error) {
				return j.DiscardStep(cmd.Context(), s, after, reason)
			}, "discarded", jobs.Dead, jobs.Held, jobs.Ready)
		},
	}
	ch.flags(c, "jobs in one of these `states`: dead, held, ready, with commas between them")
	c.Flags().StringVar(&reason, "reason", "", "why, in a few `words`")
	return c
}

type bulkDo func(*jobs.Journal, jobs.Selection, jobs.RowID, map[string]*jobs.Flow) (jobs.BulkStep, error)

func (a *app) bulk(ctx context.Context, ch *choice, do bulkDo, done string, able ...jobs.State) error {
	c, j, err := a.beside(ctx, acting)
	if err != nil {
		return err
	}
	defer j.Close()
	states, after, err := ch.take(j.Now(), able...)
	if err != nil {
		return err
	}
	if err := knownFlow(ctx, j, c, ch.Flow); err != nil {
		return err
	}
	out := bulkJSON{Chosen: []chosenJSON{}}
	for _, st := range states {
		s := ch.Selection
		s.State = st
		cs, err := j.Choose(ctx, s)
		if err != nil {
			return exit(exitJournal, err)
		}
		for _, n := range cs {
			out.Chosen = append(out.Chosen, chosenJSON{n.Flow, string(n.State), string(n.Reason), n.Class, n.N})
			out.Total += n.N
		}
	}
	out.Confirmed = out.Total > 0
	if !a.json {
		out.preview(a.out)
	}
	if out.Total > 0 && !ch.yes {
		out.Confirmed = !a.json && confirm(a.out, os.Stdin, fmt.Sprintf("go on with %d jobs?", out.Total))
	}
	if out.Confirmed {
		// A step under way ends whole.
		soft, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		w := &bulkWork{out: &out, whys: map[string]*skippedBy{}}
		for _, st := range states {
			s := ch.Selection
			s.State = st
			if err = w.run(soft, j, s, after, flows(c), do); err != nil {
				break
			}
		}
		w.end()
	}
	if a.json {
		err = errors.Join(err, printJSON(a.out, out))
	} else {
		out.result(a.out, done)
	}
	switch {
	case errors.Is(err, errInterrupted):
		return exit(exitFinding, errSaid)
	case err != nil:
		return exit(exitJournal, err)
	case out.Skipped > 0 || out.Total > 0 && !out.Confirmed:
		return exit(exitFinding, errSaid)
	}
	return nil
}

// errInterrupted says that a person has ended a command between two steps.
var errInterrupted = errors.New("interrupted")

// bulkWork works a selection off.
type bulkWork struct {
	out  *bulkJSON
	whys map[string]*skippedBy
}

func (w *bulkWork) run(ctx context.Context, j *jobs.Journal, s jobs.Selection, after jobs.RowID, fs map[string]*jobs.Flow, do bulkDo) error {
	for over := false; !over; {
		if after != (jobs.RowID{}) {
			w.out.Next = after.String()
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		st, err := do(j, s, after, fs)
		if err != nil {
			return err
		}
		after, over = st.After, st.Over
		w.out.Done += int64(st.Done)
		w.out.Asked += int64(st.Asked)
		w.out.Dropped += int64(len(st.Dropped))
		w.out.Skipped += int64(len(st.Skipped))
		for _, sk := range st.Skipped {
			if w.whys[sk.Why] == nil {
				w.whys[sk.Why] = &skippedBy{Why: sk.Why, Example: sk.RowID.String()}
			}
			w.whys[sk.Why].N++
		}
	}
	w.out.Next = ""
	return nil
}

func (w *bulkWork) end() {
	for _, s := range w.whys {
		w.out.Whys = append(w.out.Whys, *s)
	}
	slices.SortFunc(w.out.Whys, func(x, y skippedBy) int { return cmp.Or(cmp.Compare(y.N, x.N), strings.Compare(x.Why, y.Why)) })
}

func (b *bulkJSON) preview(w io.Writer) {
	if b.Total == 0 {
		fmt.Fprintln(w, "no jobs are chosen")
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FLOW\tSTATE\tREASON\tCLASS\tJOBS")
	for _, c := range b.Chosen {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\n", clean(c.Flow), c.State, dash(c.Reason), dash(c.Class), c.N)
	}
	_ = tw.Flush() // the output remembers what goes wrong
}

func (b *bulkJSON) result(w io.Writer, done string) {
	switch {
	case b.Total == 0:
		return
	case !b.Confirmed:
		fmt.Fprintf(w, "%d jobs are chosen, and nothing was done; say --yes to do it\n", b.Total)
		return
	}
	fmt.Fprintf(w, "%d %s", b.Done, done)
	if b.Asked > 0 {
		fmt.Fprintf(w, ", %d asked of their source", b.Asked)
	}
	fmt.Fprintln(w)
	if b.Dropped > 0 {
		fmt.Fprintf(w, "%d stay as they are; the claims of other source records to their keys were dropped\n", b.Dropped)
	}
	for _, s := range b.Whys {
		fmt.Fprintf(w, "%d left alone, such as %s: %s\n", s.N, clean(s.Example), clean(s.Why))
	}
	if b.Next != "" && clean(b.Next) == b.Next {
		fmt.Fprintf(w, "interrupted; go on with --after %s\n", quote(b.Next))
	}
}

// confirm asks at a terminal; without one the answer is no.
func confirm(w io.Writer, in *os.File, question string) bool {
	st, err := in.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(st, null) {
		return false
	}
	fmt.Fprintf(w, "%s (yes/no) ", question)
	line, _ := bufio.NewReader(in).ReadString('\n') // what was not answered is a no
	fmt.Fprintln(w)
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
