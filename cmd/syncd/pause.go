package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/internal/field"
	"syncd/jobs"
	"syncd/ratelimit"
)

const (
	// mostReason bounds the reason of a person's pause, in characters.
	mostReason = 200
	// mostPause bounds how long a pause may be that ends by itself.
	mostPause = 366 * 24 * time.Hour
)

// pausedJSON is what pause prints with --json.
type pausedJSON struct {
	Client string       `json:"client"`
	Paused *pauseStatus `json:"paused"`
	// Over is the pause of another kind beneath, Replaced the person's before.
	Over     *pauseStatus `json:"over,omitempty"`
	Replaced *pauseStatus `json:"replaced,omitempty"`
	// Longer says that it lasts longer than was asked for, because Over does.
	Longer bool `json:"longer,omitempty"`
}

// unpausedJSON is what resume prints with --json.
type unpausedJSON struct {
	Client  string `json:"client"`
	Resumed bool   `json:"resumed"`
	// Anew says that it was not paused, and that its limits are found out anew.
	Anew  bool         `json:"anew,omitempty"`
	Ended *pauseStatus `json:"ended,omitempty"`
	Over  *pauseStatus `json:"over,omitempty"`
	// Early is until when the client's server had asked not to be called.
	Early *time.Time `json:"asked_until,omitempty"`
}

// pauseOf is a pause as JSON shows it; nil for none.
func (a *app) pauseOf(p ratelimit.Pause) *pauseStatus {
	if p == (ratelimit.Pause{}) {
		return nil
	}
	return &pauseStatus{Reason: p.Reason, Since: p.Since, Until: p.Until, Evidence: a.secrets.cut(p.Evidence)}
}

// until says when a pause ends.
func (p *pauseStatus) until() string {
	if (ratelimit.Pause{Until: p.Until}).OpenEnded() {
		return "resumed"
	}
	return p.Until.UTC().Format(time.RFC3339)
}

// told is a pause in words.
func (p *pauseStatus) told() string {
	s := fmt.Sprintf("%s, since %s, until %s", p.Reason, p.Since.UTC().Format(time.RFC3339), p.until())
	if p.Evidence != "" {
		s += ": " + p.Evidence
	}
	return clean(s)
}

func (a *app) pauseCmd() *cobra.Command {
	var w jobs.PauseWish
	c := &cobra.Command{
		Use:   "pause CLIENT",
		Short: "Send nothing to a client for a while",
		Long: `pause has nothing be sent to a client, neither written nor read, for a time or until
syncd resume. Daemons that run heed it within a second or two, and requests under way
are let finish. Jobs of the client stay ready and keep their attempts; other clients
go on. It outlives restarts.

A pause that the client's server asked for is not shortened by it: it lies beneath, and
syncd resume tells of it.`,
		Example: `  syncd pause erp --for 2h --reason 'the ERP is upgraded'`,
		Args:    oneClient,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("for") && (w.For < time.Second || w.For > mostPause):
				return usage("--for %s is not between 1s and %s; leave it out to pause until syncd resume %s", w.For, mostPause, args[0])
			case cmd.Flags().Changed("reason") && strings.TrimSpace(w.Why) == "":
				return usage("--reason is empty; say why in a few words, or leave it out")
			case utf8.RuneCountInString(w.Why) > mostReason:
				return usage("--reason has %d characters, and at most %d are kept; say it in fewer", utf8.RuneCountInString(w.Why), mostReason)
			case !printable(w.Why):
				return usage("--reason holds characters that cannot be shown in one line; write it as plain text")
			}
			w.By, w.Why = userName(), strings.TrimSpace(w.Why)
			return a.pause(cmd.Context(), args[0], w)
		},
	}
	c.Flags().DurationVar(&w.For, "for", 0, "how long, such as 30m or 2h; without it until syncd resume")
	c.Flags().StringVar(&w.Why, "reason", "", "why, in a few `words`")
	return c
}

// printable reports whether a text can be shown as it is, in one line.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || harmless(r) != r })
}

func (a *app) resumeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "resume CLIENT",
		Short: "Let a client be called again, whatever paused it",
		Long: `resume ends the pause of a client, whatever it is for: a person's, one that its server
asked for, refused credentials, an open breaker. It says what it ended, and warns when
the server had asked for more time. After refused credentials, and with an open
breaker, one call tries whether all is well, at once.

Where nothing is paused it has the daemon forget what it believes of the server's
limits, told or learned, and find them out anew: for a client that is slower than it
could be.`,
		Args: oneClient,
		RunE: func(cmd *cobra.Command, args []string) error { return a.resume(cmd.Context(), args[0]) },
	}
}

// client opens the journal for a command about a client that is configured.
func (a *app) client(ctx context.Context, name string) (*config.Config, *jobs.Journal, error) {
	c, err := a.look()
	if err != nil {
		return nil, nil, err
	}
	if err := isClient(c, name); err != nil {
		return nil, nil, err
	}
	j, _, err := a.journal(ctx, c, acting, quiet())
	return c, j, err
}

// isClient refuses a name that no client has.
func isClient(c *config.Config, name string) error {
	if c.Clients[name] != nil {
		return nil
	}
	return usage("there is no client %q; %s", name, field.DidYouMean(name, slices.Sorted(maps.Keys(c.Clients))))
}

func (a *app) pause(ctx context.Context, client string, w jobs.PauseWish) error {
	_, j, err := a.client(ctx, client)
	if err != nil {
		return err
	}
	defer j.Close()
	w.Why = a.secrets.cut(w.Why)
	got, err := j.PauseClient(ctx, client, w)
	if err != nil {
		return exit(exitJournal, err)
	}
	o := pausedJSON{Client: client, Paused: a.pauseOf(got.Is), Over: a.pauseOf(got.Over), Replaced: a.pauseOf(got.Was),
		Longer: w.For > 0 && got.Over.Until.Equal(got.Is.Until)}
	if a.json {
		return printJSON(a.out, o)
	}
	return o.print(a)
}

func (o *pausedJSON) print(a *app) error {
	_, err := fmt.Fprintf(a.out, "client %s is paused until %s\n", clean(o.Client), o.Paused.until())
	if o.Replaced != nil {
		_, err = fmt.Fprintf(a.out, "this takes the place of the pause before (%s)\n", o.Replaced.told())
	}
	if o.Over != nil {
		_, err = fmt.Fprintf(a.out, "it is paused for another reason as well (%s)\n", o.Over.told())
	}
	if o.Longer {
		_, err = fmt.Fprintln(a.out, "it lasts longer than was asked for, because that one does")
	}
	return err
}

func (a *app) resume(ctx context.Context, client string) error {
	c, j, err := a.client(ctx, client)
	if err != nil {
		return err
	}
	defer j.Close()
	got, err := j.ResumeClient(ctx, client, userName(), flows(c))
	if err != nil {
		return exit(exitJournal, err)
	}
	o := unpausedJSON{Client: client, Resumed: got.Ended != (ratelimit.Pause{}), Anew: got.Anew, Ended: a.pauseOf(got.Ended), Over: a.pauseOf(got.Over)}
	if p := got.Asked(); p != (ratelimit.Pause{}) {
		o.Early = at(p.Until)
	}
	if a.json {
		err = printJSON(a.out, o)
	} else {
		err = o.print(a, got)
	}
	if err == nil && !o.Resumed && !o.Anew {
		return exit(exitFinding, errSaid)
	}
	return err
}

func (o *unpausedJSON) print(a *app, got jobs.Resumed) error {
	switch {
	case o.Anew:
		_, err := fmt.Fprintf(a.out, "client %s is not paused; what its server's limits are is found out anew, beginning with one call\n", clean(o.Client))
		return err
	case !o.Resumed:
		_, err := fmt.Fprintf(a.out, "client %s is not paused; its credentials were refused, and one call tries them\n", clean(o.Client))
		return err
	}
	_, err := fmt.Fprintf(a.out, "client %s may be called again; ended is its pause (%s)\n", clean(o.Client), o.Ended.told())
	if o.Over != nil {
		_, err = fmt.Fprintf(a.out, "and what lay beneath it (%s)\n", o.Over.told())
	}
	if got.Has(ratelimit.ReasonSuspended) {
		_, err = fmt.Fprintln(a.out, "its credentials were refused: one call tries them now, and no other is made before that is answered")
	}
	if got.Has(ratelimit.ReasonBreaker) {
		_, err = fmt.Fprintln(a.out, "its calls failed widely: one goes as a probe now, and the others when that succeeds")
	}
	if o.Early != nil {
		_, err = fmt.Fprintf(a.out, "warning: its server had asked not to be called before %s, and is called now; it may refuse again, for longer\n", stamp(o.Early))
	}
	return err
}
