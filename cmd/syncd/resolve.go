package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"syncd/jobs"
)

// resolvedJSON is what resolve prints with --json.
type resolvedJSON struct {
	Job string `json:"job"`
	// State is where the job stands by now; "" when it was left alone.
	State string `json:"state,omitempty"`
	// Refused says why it was left alone.
	Refused string `json:"refused,omitempty"`
}

func (a *app) resolveCmd() *cobra.Command {
	var v jobs.Verdict
	var again bool
	var link string
	c := &cobra.Command{
		Use:   "resolve FLOW/KEY --applied|--resend --reason TEXT",
		Short: "Say what became of a write that syncd cannot find out about",
		Long: `resolve ends the doubt over a job's last write by what you found in the target.
--applied says that the write was done; give the record's id in the target with
--link, where the target cannot be asked for it. --resend says that it was not
done: the record is written as it is wanted now.

After a restore of the target or the journal, syncd cannot know which state of a record
stands in the target. --applied then says that it is the one that is wanted; add --older
when it is another one, and the present one is written too.

It is for held jobs, which wait for nothing else, and for open or dead ones in
doubt, when you know sooner than a look-up tells. Look first: a record that is
sent again although it is there is there twice. Who said it and why are kept in
the job's history.`,
		Args: oneJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case v.Applied == again:
				return usage("say what became of the write: --applied if it was done, --resend if it was not")
			case strings.TrimSpace(v.Why) == "":
				return usage("say why with --reason; it is kept in the job's history")
			case link != "" && !v.Applied:
				return usage("--link goes with --applied: a record that is not in the target has no id there")
			case v.Older && !v.Applied:
				return usage("--older goes with --applied: with --resend the record is written as it is wanted anyway")
			}
			v.Link, v.By = linkOf(link), userName()
			return a.resolve(cmd.Context(), args[0], v)
		},
	}
	c.Flags().BoolVar(&v.Applied, "applied", false, "the write was done")
	c.Flags().BoolVar(&v.Older, "older", false, "with --applied: what stands there is an older state; write the present one too")
	c.Flags().BoolVar(&again, "resend", false, "the write was not done; send the record again")
	c.Flags().StringVar(&v.Why, "reason", "", "why, in a few `words`")
	c.Flags().StringVar(&link, "link", "", "the record's `id` in the target; a number, or a text")
	return c
}

func (a *app) resolve(ctx context.Context, name string, v jobs.Verdict) error {
	id, err := rowID(name)
	if err != nil {
		return err
	}
	c, j, err := a.beside(ctx, acting)
	if err != nil {
		return err
	}
	defer j.Close()
	row, refused, err := j.Resolve(ctx, id, v, allFlows(c))
	if err != nil {
		return exit(exitJournal, err)
	}
	if why := unrun(c, id.Flow, refused); why != refused {
		refused = why + " (enabled: false lets it rest)"
	}
	o := resolvedJSON{Job: name, State: string(row.State), Refused: refused}
	switch {
	case a.json:
		err = printJSON(a.out, o)
	case refused != "":
		_, err = fmt.Fprintf(a.out, "%s left alone: %s\n", clean(name), clean(refused))
	case row.State == jobs.Ready:
		_, err = fmt.Fprintf(a.out, "%s is due again\n", clean(name))
	default:
		_, err = fmt.Fprintf(a.out, "%s is %s\n", clean(name), row.State)
	}
	if err == nil && refused != "" {
		return exit(exitFinding, errSaid)
	}
	return err
}

// linkOf makes a JSON scalar of an id: what is a JSON text or a whole number already
// stays so, everything else is a text.
func linkOf(id string) string {
	if id == "" {
		return ""
	}
	var text string
	if json.Unmarshal([]byte(id), &text) == nil {
		return id
	}
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && strconv.FormatInt(n, 10) == id {
		return id
	}
	b, _ := json.Marshal(id) // a text always has a JSON form
	return string(b)
}

// userName is who calls the program, as the operating system knows it.
func userName() string {
	u, err := user.Current()
	switch {
	case err != nil:
		return "somebody"
	case u.Username == "":
		return "user " + u.Uid
	default:
		return u.Username
	}
}
