package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"syncd/config"
	"syncd/jobs"
)

// stray is a flow that only the journal has, with jobs that wait for it.
type stray struct {
	flow       string
	open, dead int64
}

// strays are the flows that are neither configured nor retired and have jobs that
// are not done.
func strays(c *config.Config, counts []jobs.Count) []stray {
	by := map[string]*stray{}
	for _, n := range counts {
		if _, configured := c.Flows[n.Flow]; configured || n.State == jobs.Done || slices.Contains(c.Retired, n.Flow) {
			continue
		}
		if by[n.Flow] == nil {
			by[n.Flow] = &stray{flow: n.Flow}
		}
		if n.State == jobs.Ready {
			by[n.Flow].open += n.N
		} else {
			by[n.Flow].dead += n.N
		}
	}
	var out []stray
	for _, s := range by {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(x, y stray) int { return strings.Compare(x.flow, y.flow) })
	return out
}

// String says what is wrong and what can be done about it.
func (s stray) String() string {
	return fmt.Sprintf("flow %[1]s is not in the configuration, and the journal has %[2]d open and %[3]d dead jobs of it; "+
		"put the flow back (enabled: false lets it rest), or give its jobs up with syncd jobs discard --flow %[1]s --state ready,dead,held --reason TEXT, "+
		"or name it in retired: [%[1]s] to leave them as they are", quote(s.flow), s.open, s.dead)
}

// complete refuses a configuration that lacks a flow with jobs which are not done:
// exit code 3. Nothing would ever write them, and nobody have said so.
func (a *app) complete(ctx context.Context, j *jobs.Journal, c *config.Config) error {
	o, err := j.Overview(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	var es []error
	for _, s := range strays(c, o.Counts) {
		es = append(es, errors.New(s.String()))
	}
	if len(es) == 0 {
		return nil
	}
	return exit(exitConfig, fmt.Errorf("a flow was taken out of the configuration and has jobs; nothing was read or written:\n%w", errors.Join(es...)))
}

// unretired is the journal as metrics count it: without the retired flows.
type unretired struct {
	*jobs.Journal
	retired *atomic.Pointer[[]string]
}

// Overview implements the admin package's view of a journal.
func (u unretired) Overview(ctx context.Context) (jobs.Overview, error) {
	o, err := u.Journal.Overview(ctx)
	if names := u.retired.Load(); err == nil && names != nil {
		o.Counts = slices.DeleteFunc(o.Counts, func(n jobs.Count) bool { return slices.Contains(*names, n.Flow) })
		maps.DeleteFunc(o.Contenders, func(flow string, _ int) bool { return slices.Contains(*names, flow) })
	}
	return o, err
}
