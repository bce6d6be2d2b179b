package jobs

import (
	"context"
	"fmt"
	"time"
)

// Ahead returns the row that a ready one stands behind in its group; nil when it is
// its group's head, or in none.
func (j *Journal) Ahead(ctx context.Context, row *Row, f *Flow) (head *Row, err error) {
	if row.Group == "" || row.State != Ready || f == nil {
		return nil, nil
	}
	err = j.engine.View(ctx, func(tx Tx) error {
		head = nil
		heads, err := tx.Heads(ctx, row.Flow, []string{row.Group}, f.passed()...)
		if err == nil && len(heads) > 0 && heads[0].Key != row.Key {
			head = &heads[0]
		}
		return err
	})
	return head, wrap(err, "find what %s stands behind", row.RowID)
}

// HeldUp is a group in which nothing is written before a person acts.
type HeldUp struct {
	Group string
	// Head is the dead or held row that holds the group, Next the first behind it.
	Head, Next Row
}

// mostStuck bounds the dead and held rows of a flow among which those are looked for
// that hold their groups.
const mostStuck = 10_000

// HeldUp finds the groups of a flow that a dead or held head holds up while others
// wait behind it, in the order of the heads' keys; among its first 10,000 dead and
// 10,000 held rows.
func (j *Journal) HeldUp(ctx context.Context, f *Flow) (out []HeldUp, err error) {
	if !f.Every() {
		return nil, nil
	}
	states := []State{Held}
	if len(f.passed()) == 0 {
		states = []State{Dead, Held}
	}
	err = j.engine.View(ctx, func(tx Tx) error {
		out = nil
		for _, state := range states {
			rows, err := tx.List(ctx, Filter{Flow: f.Name, State: state, Limit: mostStuck})
			if err != nil {
				return err
			}
			groups := groupsOf(rows, func(r *Row) *Row { return r })[f.Name]
			heads, err := tx.Heads(ctx, f.Name, groups, f.passed()...)
			if err != nil {
				return err
			}
			next, err := tx.Heads(ctx, f.Name, groups, Dead, Held)
			if err != nil {
				return err
			}
			behind := make(map[string]Row, len(next))
			for _, n := range next {
				behind[n.Group] = n
			}
			at := make(map[RowID]bool, len(heads))
			for i := range heads {
				at[heads[i].RowID] = true
			}
			for _, r := range rows {
				if n, ok := behind[r.Group]; ok && at[r.RowID] {
					out = append(out, HeldUp{Group: r.Group, Head: r, Next: n})
				}
			}
		}
		return nil
	})
	return out, wrap(err, "look for groups of flow %s that are held up", f.Name)
}

// whyBehind explains a row that stands behind another of its group.
func (s Surroundings) whyBehind(row *Row, e *Explanation) {
	e.Until = time.Time{}
	if s.Ahead == nil {
		e.Text = "stood behind another of group " + row.Group + ", which has ended"
		return
	}
	a := s.Ahead
	e.Reason = string(ReasonBehind)
	e.Text = fmt.Sprintf("behind %s in group %s, which is %s", a.RowID, row.Group, a.standing())
	switch a.State {
	case Dead:
		e.Next = fmt.Sprintf("nothing before that one is written or given up: replay or discard it, see syncd explain %s", a.RowID)
	case Held:
		e.Next = fmt.Sprintf("nothing before a person has found out what became of that one: see syncd explain %s", a.RowID)
	default:
		e.Next = "written when its turn has come; see syncd explain " + a.RowID.String()
	}
}

// standing says where a head stands, as in: dead since T (invalid, http_422: no).
func (r *Row) standing() string {
	switch r.State {
	case Dead, Held:
		return fmt.Sprintf("%s since %s (%s)", r.State, stampText(r.LastAt), failure(r))
	}
	if r.Reason == ReasonNone || r.Reason == ReasonBehind {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, r.Reason)
}

// whyDeadEvent explains a dead row of a flow with order: every, which no newer
// version heals.
func (s Surroundings) whyDeadEvent(row *Row, now time.Time, e *Explanation) {
	goesOn := ""
	switch {
	case row.Group == "":
	case s.Flow.OnDead == "skip":
		goesOn = "; its group " + row.Group + " goes on without it"
	default:
		goesOn = "; its group " + row.Group + " waits until then"
	}
	discard := "syncd discard " + row.RowID.String()
	no := replayable(row, s.Flow, now)
	e.Replay = no == ""
	switch {
	case row.Reason == ReasonLate:
		e.Text = row.LastMessage
		e.Next = "a replay writes it after all, out of order; " + discard + " leaves it out; its group " + row.WaitKey + " goes on"
	case row.Reason == ReasonRefused:
		e.Text = row.LastMessage
		e.Next = "nothing happens by itself: correct it by an event of its own at the source, then " + discard
	case e.Replay:
		e.Next = "mend the cause and replay it, or give it up with " + discard + goesOn
	default:
		e.Next = "it cannot be replayed: " + no + "; " + discard + " gives it up" + goesOn
	}
}
