package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// In a flow with order: every, each event is a row of its own under its own key. It
// is written once, and in order within its group: by the stamp under which it was
// first admitted, then by its key. A row never changes once it is there.
//
// Only the head of a group is ever claimed: its first row that is ready, dead or
// held. While it is under way it stays ready, and so stays the head, also after a
// crash. Those behind it are ready with ReasonBehind and not due before the head has
// ended, so that no claim reads past them; the transaction that ends it makes the
// next one due. Whoever decides that a row stands behind a head holds that head's
// row, so that it cannot end meanwhile unseen.
//
// The first row in order can come to stand before one that is under way by a person's
// doing alone: one that was skipped, or came too late, is replayed.

// before reports whether r comes before o in the order of their group.
func (r *Row) before(o *Row) bool { return inOrder(r.Desired, r.Key, o.Desired, o.Key) < 0 }

// inOrder compares two places in the order of a group.
func inOrder(a connectors.Stamp, aKey string, b connectors.Stamp, bKey string) int {
	if c := a.Compare(b); c != 0 {
		return c
	}
	switch {
	case aKey < bKey:
		return -1
	case aKey > bKey:
		return +1
	}
	return 0
}

// passed are the states of rows that do not hold their group back. A held one always
// does: what became of it is not known.
func (f *Flow) passed() []State {
	if f.OnDead == "skip" {
		return []State{Dead}
	}
	return nil
}

// stepBack leaves a ready row until the one before it has ended. Nothing else makes it
// due: what it may wait for itself is found out when its turn has come.
func (r *Row) stepBack() {
	if mutant.On("overtaken") {
		return
	}
	r.Reason, r.DueAt = ReasonBehind, endOfTime
	r.WaitEntity, r.WaitKey = "", ""
}

// stepUp makes a row that stood behind another due.
func (r *Row) stepUp(now time.Time) {
	r.Reason, r.DueAt = ReasonNone, now
	if r.Unresolved() {
		r.Reason = ReasonUnresolved
	}
}

// moveUp makes the heads of groups due that stand behind nobody any more. It follows
// whatever may have ended a head, in the same transaction.
func moveUp(ctx context.Context, tx Tx, flow string, groups []string, now time.Time, passed ...State) error {
	heads, err := tx.Heads(ctx, flow, groups, passed...)
	if err != nil {
		return err
	}
	var ids []RowID
	for i := range heads {
		if heads[i].State == Ready && heads[i].Reason == ReasonBehind {
			ids = append(ids, heads[i].RowID)
		}
	}
	rows, err := tx.Rows(ctx, ids, false) // held, and as they are by now
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.State != Ready || r.Reason != ReasonBehind })
	running, err := besides(ctx, tx, flow, rows)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return running[groupID{flow, r.Group}] })
	for i := range rows {
		rows[i].stepUp(now)
	}
	return tx.PatchRows(ctx, rows)
}

// besides finds the groups of which another row than the head is under way. Only a
// head that was replayed, and so comes before what was sent already, can meet one.
func besides(ctx context.Context, tx Tx, flow string, heads []Row) (map[groupID]bool, error) {
	if len(heads) == 0 {
		return nil, nil
	}
	at := make(map[string]*Row, len(heads))
	for i := range heads {
		at[heads[i].Group] = &heads[i]
	}
	gs, err := tx.Groups(ctx, flow, slices.Collect(maps.Keys(at)))
	if err != nil {
		return nil, err
	}
	again := map[string][]string{}
	for _, g := range gs {
		if h := at[g.Name]; inOrder(h.Desired, h.Key, g.Sent, g.SentKey) < 0 {
			again[flow] = append(again[flow], g.Name)
		}
	}
	return underWay(ctx, tx, again)
}

// ended notes groups of one flow of which rows have ended.
type ended map[string][]string

func (e ended) add(row *Row) {
	if row.Group != "" {
		e[row.Flow] = append(e[row.Flow], row.Group)
	}
}

// moveUp lets the next of each of the groups be written.
func (e ended) moveUp(ctx context.Context, tx Tx, now time.Time, passed func(flow string) []State) error {
	for _, flow := range slices.Sorted(maps.Keys(e)) {
		groups := e[flow]
		slices.Sort(groups)
		if err := moveUp(ctx, tx, flow, slices.Compact(groups), now, passed(flow)...); err != nil {
			return err
		}
	}
	return nil
}

// evenDead passes dead rows where the flow is not at hand. Whoever is made due by that
// although a dead head holds the group steps back when it is to be claimed.
func evenDead(string) []State { return []State{Dead} }

// moveUp is that of the groups whose rows were settled.
func (b *settlement) moveUp() error {
	return b.ended.moveUp(b.ctx, b.tx, b.now, func(flow string) []State {
		if f := b.flows[flow]; f != nil {
			return f.passed()
		}
		return evenDead(flow)
	})
}

// settled notes that a row of a group was settled. Whatever came of it, it may no
// longer be the head.
func (b *settlement) settled(row *Row, f *Flow) {
	if row.Group == "" {
		return
	}
	if b.ended == nil {
		b.ended, b.flows = ended{}, map[string]*Flow{}
	}
	b.ended.add(row)
	if f.Every() { // one that is not configured any more tells nothing
		b.flows[row.Flow] = f
	}
}

type groupID struct{ flow, group string }

// groupsOf returns the groups of rows, by flow, each once.
func groupsOf[R any](rows []R, row func(*R) *Row) map[string][]string {
	out := map[string][]string{}
	for i := range rows {
		if r := row(&rows[i]); r.Group != "" {
			out[r.Flow] = append(out[r.Flow], r.Group)
		}
	}
	for flow, names := range out {
		slices.Sort(names)
		out[flow] = slices.Compact(names)
	}
	return out
}

// findHeads finds the heads of the groups of due rows.
func (c *claiming) findHeads(rows []Row) error {
	for flow, groups := range groupsOf(rows, func(r *Row) *Row { return r }) {
		f := c.req.Flows[flow]
		if f == nil {
			continue
		}
		heads, err := c.tx.Heads(c.ctx, flow, groups, f.passed()...)
		if err != nil {
			return err
		}
		if c.heads == nil {
			c.heads = map[groupID]string{}
		}
		for i := range heads {
			c.heads[groupID{flow, heads[i].Group}] = heads[i].Key
		}
	}
	return nil
}

// behind reports whether a due row is not the head of its group.
func (c *claiming) behind(row *Row) bool {
	return row.Group != "" && !mutant.On("overtaken") && c.heads[groupID{row.Flow, row.Group}] != row.Key
}

// noteSent remembers how far each group has been sent, before anything of the jobs is.
func (c *claiming) noteSent(js []*Job) error {
	var puts []Group
	for flow, groups := range groupsOf(js, func(j **Job) *Row { return &(*j).Row }) {
		known, err := c.tx.Groups(c.ctx, flow, groups)
		if err != nil {
			return err
		}
		sent := make(map[string]Group, len(groups))
		for _, g := range known {
			sent[g.Name] = g
		}
		for _, jb := range js {
			if jb.Flow != flow || jb.Group == "" {
				continue
			}
			g, ok := sent[jb.Group]
			if !ok || inOrder(g.Sent, g.SentKey, jb.Desired, jb.Key) < 0 {
				puts = append(puts, Group{Flow: flow, Name: jb.Group, Sent: jb.Desired, SentKey: jb.Key})
			}
		}
	}
	return c.tx.PutGroups(c.ctx, puts)
}

// passOver makes due what no longer stands behind a dead head, since its flow says
// on_dead: skip by now.
func (j *Journal) passOver(ctx context.Context, lane LaneID, flows map[string]*Flow) error {
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		if f := flows[name]; !f.Every() || f.OnDead != "skip" {
			continue
		}
		find := Filter{Flow: name, State: Dead, Limit: 1000}
		for more := true; more; {
			var rows []Row
			err := j.under(ctx, lane, func(tx Tx, _ string) (err error) {
				if rows, err = tx.List(ctx, find); err != nil {
					return err
				}
				return moveUp(ctx, tx, name, groupsOf(rows, func(r *Row) *Row { return r })[name], j.Now(), Dead)
			})
			if err != nil {
				return fmt.Errorf("pass over the dead heads of flow %s: %w", name, err)
			}
			if more = len(rows) == find.Limit; more {
				find.After = rows[len(rows)-1].RowID
			}
		}
	}
	return nil
}

// queueUp has rows that a person has replayed wait for what is under way of their
// groups. Everything else of a group steps back by itself.
func queueUp(ctx context.Context, tx Tx, replayed []Row) error {
	groups := groupsOf(replayed, func(r *Row) *Row { return r })
	if len(groups) == 0 {
		return nil
	}
	var held []RowID
	for flow, names := range groups {
		heads, err := tx.Heads(ctx, flow, names, Dead)
		if err != nil {
			return err
		}
		for i := range heads {
			held = append(held, heads[i].RowID)
		}
	}
	// Held, so that none is claimed before this is stored; then those that are claimed.
	if _, err := tx.Rows(ctx, held, false); err != nil {
		return err
	}
	running, err := underWay(ctx, tx, groups)
	if err != nil {
		return err
	}
	for i := range replayed {
		if r := &replayed[i]; r.Group != "" && running[groupID{r.Flow, r.Group}] {
			r.stepBack()
		}
	}
	return nil
}

// underWay tells of which of these groups, by flow, a row is under way.
func underWay(ctx context.Context, tx Tx, groups map[string][]string) (map[groupID]bool, error) {
	running := map[groupID]bool{}
	if len(groups) == 0 {
		return running, nil
	}
	cs, err := tx.Claims(ctx, "")
	if err != nil {
		return nil, err
	}
	var ids []RowID
	for _, c := range cs {
		for _, cj := range c.Jobs {
			if groups[cj.Flow] != nil {
				ids = append(ids, cj.RowID)
			}
		}
	}
	rows, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return nil, err
	}
	under, err := claimed(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		running[groupID{rows[i].Flow, rows[i].Group}] = running[groupID{rows[i].Flow, rows[i].Group}] || under[rows[i].RowID]
	}
	return running, nil
}
