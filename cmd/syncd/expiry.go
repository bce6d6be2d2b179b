package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// resumedJSON is what expiry resume prints with --json.
type resumedJSON struct {
	Client    string     `json:"client"`
	Resumed   bool       `json:"resumed"`
	HeldSince *time.Time `json:"held_since,omitempty"`
}

func (a *app) expiryCmd() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "expiry",
		Short: "Let jobs expire again",
		Long: `Where many jobs of a client are found too old at once, it is rather the clock that
is wrong: nothing of the client expires then, and nothing over-aged is sent.`,
	})
	c.AddCommand(&cobra.Command{
		Use:   "resume CLIENT",
		Short: "Let what is written to a client expire again",
		Long: `resume ends the hold on a client's expiry: jobs past their flow's max_age expire as
the flow says, all of them, and for an hour nothing is held again. Look at the
clock first. Without it, the hold ends by itself after an hour, unless the servers
that are read tell another time.`,
		Args: oneClient,
		RunE: func(cmd *cobra.Command, args []string) error { return a.resumeExpiry(cmd.Context(), args[0]) },
	})
	return c
}

func oneClient(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("%s takes the name of one client, but was given %d", cmd.Name(), len(args))
	}
	return nil
}

func (a *app) resumeExpiry(ctx context.Context, client string) error {
	c, err := a.look()
	if err != nil {
		return err
	}
	if err := isClient(c, client); err != nil {
		return err
	}
	j, _, err := a.journal(ctx, c, acting, quiet())
	if err != nil {
		return err
	}
	defer j.Close()
	held, err := j.ResumeExpiry(ctx, client, flows(c))
	if err != nil {
		return exit(exitJournal, err)
	}
	return a.printResumed(client, held)
}

func (a *app) printResumed(client string, held jobs.Standing) error {
	o := resumedJSON{Client: client, Resumed: held.Is(), HeldSince: at(held.Since)}
	switch {
	case a.json:
		if err := printJSON(a.out, o); err != nil {
			return err
		}
	case o.Resumed:
		fmt.Fprintf(a.out, "jobs of client %s expire again; that was held since %s\n", clean(client), stamp(o.HeldSince))
	default:
		fmt.Fprintf(a.out, "expiry of client %s is not held\n", clean(client))
	}
	if !o.Resumed {
		return exit(exitFinding, errSaid)
	}
	return nil
}
