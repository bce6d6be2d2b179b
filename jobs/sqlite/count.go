package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// Counts implements jobs.Tx. Of most rows there is nothing to tell but that they
// are done, so these are not read: they are what is left of all rows when the
// others, which indexes lead to, are taken off. SQLite's own GROUP BY would sort
// the whole table, for ten seconds in a million rows.
func (t *tx) Counts(ctx context.Context, now time.Time) ([]jobs.Count, error) {
	c := &counting{now: now, groups: map[group]*jobs.Count{}, told: map[string]int64{}}
	// Each row comes through one of these.
	for _, part := range []string{
		`jobs INDEXED BY jobs_due WHERE state = 'ready'`,
		`jobs INDEXED BY jobs_stuck WHERE state IN ('dead', 'held')`,
		`jobs INDEXED BY jobs_unresolved WHERE unresolved_at IS NOT NULL AND state = 'done'`,
	} {
		if err := t.query(ctx, `SELECT flow, state, reason, last_class, open_since, due_at, unresolved_at FROM `+part, nil, c.row); err != nil {
			return nil, fmt.Errorf("count rows: %w", err)
		}
	}
	if err := t.query(ctx, `SELECT flow, reason, last_class, count(*), count(unresolved_at) FROM jobs INDEXED BY jobs_closed
		WHERE state = 'done' AND reason <> '' GROUP BY flow, reason, last_class`, nil, c.closed); err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	all, err := t.rowsOfFlows(ctx)
	if err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	return c.counts(all)
}

type group struct{ flow, state, reason, class string }

type counting struct {
	now    time.Time
	groups map[group]*jobs.Count
	// told counts, per flow, the rows that are in groups.
	told map[string]int64
}

func (c *counting) of(g group) *jobs.Count {
	n := c.groups[g]
	if n == nil {
		n = &jobs.Count{State: jobs.State(g.state), Reason: jobs.Reason(g.reason), Class: g.class}
		c.groups[g] = n
	}
	return n
}

func (c *counting) row(v row) error {
	g := group{v.text(0), v.text(1), v.text(2), v.text(3)}
	if g.state == string(jobs.Done) && g.reason != "" {
		// One of those that are counted by the index over them.
		return nil
	}
	done := g.state == string(jobs.Done)
	if done {
		g.class = ""
	}
	n := c.of(g)
	n.N++
	c.told[g.flow]++
	if v[6] != nil {
		n.Unresolved++
	}
	if done {
		return nil
	}
	n.OldestOpen = earlier(n.OldestOpen, v.time(4))
	due := v.due(5)
	n.OldestDue = earlier(n.OldestDue, due)
	if n.State == jobs.Ready && !due.After(c.now) {
		n.Due++
	}
	return nil
}

func (c *counting) closed(v row) error {
	n := c.of(group{v.text(0), string(jobs.Done), v.text(1), v.text(2)})
	n.N, n.Unresolved = v.int(3), v.int(4)
	c.told[v.text(0)] += n.N
	return nil
}

// counts returns the groups, with what is left of all rows as done.
func (c *counting) counts(all map[string]int64) ([]jobs.Count, error) {
	for flow, n := range all {
		if left := n - c.told[flow]; left > 0 {
			c.of(group{flow: flow, state: string(jobs.Done)}).N += left
		}
	}
	out := make([]jobs.Count, 0, len(c.groups))
	for g, n := range c.groups {
		flow, err := stored.ParseID(g.flow)
		if err != nil {
			return nil, err
		}
		n.Flow = flow
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b jobs.Count) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Class, b.Class))
	})
	return out, nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// totals remembers how many rows each flow had up to a row. Rows are never
// removed, and each new one has a greater id, so only those are to be counted.
type totals struct {
	mu   sync.Mutex
	upTo int64
	rows map[string]int64
}

// rowsOfFlows counts the rows of each flow.
func (t *tx) rowsOfFlows(ctx context.Context) (map[string]int64, error) {
	newest := int64(0)
	err := t.query(ctx, `SELECT coalesce(max(id), 0) FROM jobs`, nil, func(v row) error {
		newest = v.int(0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.totals.mu.Lock()
	defer t.totals.mu.Unlock()
	rows, since := map[string]int64{}, int64(0)
	// A state that is older than what is remembered is counted for itself.
	if newest >= t.totals.upTo {
		since = t.totals.upTo
		for flow, n := range t.totals.rows {
			rows[flow] = n
		}
	}
	sql, args := `SELECT flow, count(*) FROM jobs GROUP BY flow`, []any(nil)
	if since > 0 {
		sql, args = `SELECT flow, count(*) FROM jobs NOT INDEXED WHERE id > ? GROUP BY flow`, []any{since}
	}
	err = t.query(ctx, sql, args, func(v row) error {
		rows[v.text(0)] += v.int(1)
		return nil
	})
	// What an Update has written may yet be undone.
	if err == nil && !t.write && newest >= t.totals.upTo {
		t.totals.upTo, t.totals.rows = newest, rows
	}
	return rows, err
}
