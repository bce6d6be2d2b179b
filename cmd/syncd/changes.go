package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"syncd/config"
	"syncd/internal/field"
	"syncd/jobs"
)

// unchanged refuses a configuration in which a flow is not as its records were
// made: exit code 3, a line for each flow.
func (a *app) unchanged(ctx context.Context, j *jobs.Journal, c *config.Config) error {
	ps, err := changed(ctx, j, c)
	switch {
	case err != nil:
		return exit(exitJournal, err)
	case len(ps) == 0:
		return nil
	}
	es := &config.Errors{}
	for _, p := range ps {
		es.Problems = append(es.Problems, p.Problem)
	}
	head := "a flow is not as its records were made"
	if len(ps) > 1 {
		head = fmt.Sprintf("%d flows are not as their records were made", len(ps))
	}
	return exit(exitConfig, fmt.Errorf("%s; nothing was read or written:\n%w", head, es))
}

// changeProblem is a change that is not accepted, as a mistake of the configuration.
type changeProblem struct {
	jobs.Change
	field.Problem
}

// changed finds the configured flows that are not as their records were made. One
// that cannot be read whole, in a command that does without secrets, is left out.
func changed(ctx context.Context, j *jobs.Journal, c *config.Config) ([]changeProblem, error) {
	fs := flows(c)
	for name := range fs {
		if c.Flows[name].Unresolved() {
			delete(fs, name)
		}
	}
	cs, err := j.Changes(ctx, fs)
	if err != nil {
		return nil, err
	}
	var out []changeProblem
	for _, ch := range cs {
		if !ch.Accepted {
			out = append(out, changeProblem{ch, problem(c.Flows[ch.Flow], ch)})
		}
	}
	slices.SortStableFunc(out, func(x, y changeProblem) int {
		return cmp.Or(cmp.Compare(x.Pos.File, y.Pos.File), cmp.Compare(x.Pos.Line, y.Pos.Line), cmp.Compare(x.Pos.Col, y.Pos.Col))
	})
	return out, nil
}

// problem says what was changed, where, what the journal has of the flow, and what
// can be done about it.
func problem(f *config.Flow, c jobs.Change) field.Problem {
	var b strings.Builder
	for i, d := range c.Differences {
		if i > 0 {
			fmt.Fprintf(&b, ", and %s (%s) ", fieldOf(d), place(f, d))
		}
		says := "is %s and was %s"
		switch d.Field {
		case jobs.FieldOfKey:
			says = "holds the key in %s and held it in %s"
		case jobs.FieldOfIDs:
			says = "takes a record's id from %s and took it from %s"
		case jobs.FieldOfVersions:
			says = "takes a record's version from %s and took it from %s"
		}
		fmt.Fprintf(&b, says, short(d.Is), short(d.Was))
	}
	fmt.Fprintf(&b, " when the records of the flow were made (%d done, %d open, %d dead", c.Done, c.Open, c.Dead)
	if c.Unresolved > 0 {
		fmt.Fprintf(&b, "; %d of them in doubt", c.Unresolved)
	}
	b.WriteString("); put it back, or leave this flow as it was and add one of another name with its own start and on_existing")
	switch {
	case c.Token == "":
	case f.AcceptChange == c.Token:
		b.WriteString(", or wait: accept_change lets it pass")
	default:
		fmt.Fprintf(&b, ", or write accept_change: %s into the flow and start again", c.Token)
		if f.AcceptChange != "" {
			fmt.Fprintf(&b, " (%s stands for another change)", short(f.AcceptChange))
		}
	}
	if !c.Until.IsZero() {
		fmt.Fprintf(&b, " after %s, when no write in doubt can be at work in the target any more", c.Until.UTC().Format(time.RFC3339))
	}
	differs := func(is func(field string) bool) bool {
		return c.Token != "" && slices.ContainsFunc(c.Differences, func(d jobs.Difference) bool { return is(d.Field) })
	}
	if differs(func(field string) bool { return field == "group" }) {
		b.WriteString("; events that are not written yet stay in the groups that they had")
	}
	if differs(func(field string) bool { return field != "group" && field != "to.strategy" }) {
		fmt.Fprintf(&b, "; a record whose key is another then is met by on_rename: %s when it is next read", f.To.OnRename)
	}
	first := c.Differences[0]
	return field.Problem{Pos: place(f, first), Path: field.PathString([]string{"flows", c.Flow}) + "." + fieldOf(first), Msg: b.String()}
}

// fieldOf is the field of the flow that a difference is shown at.
func fieldOf(d jobs.Difference) string {
	switch d.Field {
	case jobs.FieldOfKey:
		return "to.entity"
	case jobs.FieldOfIDs, jobs.FieldOfVersions:
		return "from.stream"
	}
	return d.Field
}

// place is where the configuration says what a difference is about.
func place(f *config.Flow, d jobs.Difference) field.Pos {
	return f.At(strings.Split(fieldOf(d), ".")...)
}

// short quotes a text and cuts a long one.
func short(s string) string {
	const most = 120
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	if strings.Contains(s, `"`) && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}
