package jobs

import (
	"bytes"
	"fmt"
	"slices"

	"syncd/connectors"
)

// line is one group as an admission finds it.
type line struct {
	// sent is how far it has been sent; SentKey is "" when it never was.
	sent Group
	// head is its first row that holds it back; nil for none.
	head *Row
}

// lineUp reads the groups of the page's events and holds their heads, so that none
// of them is claimed or ends before it is stored what stands behind it.
func (a *admission) lineUp(items []Item) error {
	if !a.flow.Every() {
		return nil
	}
	var names []string
	for i := range items {
		for _, p := range items[i].Pairs {
			if p.Group != "" {
				names = append(names, p.Group)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	a.lines = make(map[string]*line, len(names))
	for _, n := range names {
		a.lines[n] = &line{}
	}
	heads, err := a.holdHeads(names)
	if err != nil {
		return err
	}
	for i := range heads {
		a.lines[heads[i].Group].head = &heads[i]
	}
	// Only now, when no claim can be under way that says more than this.
	gs, err := a.tx.Groups(a.ctx, a.flow.Name, names)
	for _, g := range gs {
		a.lines[g.Name].sent = g
	}
	return err
}

// holdHeads returns the heads of groups, held against other writers.
func (a *admission) holdHeads(names []string) ([]Row, error) {
	for {
		heads, err := a.tx.Heads(a.ctx, a.flow.Name, names, a.flow.passed()...)
		if err != nil {
			return nil, err
		}
		ids := make([]RowID, len(heads))
		was := make(map[RowID]State, len(heads))
		for i := range heads {
			ids[i] = heads[i].RowID
			was[heads[i].RowID] = heads[i].State
		}
		held, err := a.tx.Rows(a.ctx, ids, false)
		if err != nil {
			return nil, err
		}
		// One that had to be waited for may have ended meanwhile.
		if !slices.ContainsFunc(held, func(r Row) bool { return r.State != was[r.RowID] }) {
			return held, nil
		}
	}
}

// event admits one event of a flow with order: every. What is known of it already
// stays as it is, for ever.
func (a *admission) event(it *Item, src *SourceRecord, known bool) error {
	it.DeadLetters = nil
	stamp := connectors.Stamp{Epoch: a.epoch, Version: it.Version, Observed: micro(it.Observed)}
	for i := range it.Pairs {
		if it.Pairs[i].Group == "" && it.Problem == "" {
			it.Problem, it.Raw = "the record has no group", it.Pairs[i].Body
		}
	}
	if it.Problem != "" {
		key := a.reject(it, stamp)
		// Remembered only so that the dead letter ends when the event can be mapped.
		a.remember(src, stamp, false, []string{key})
		return nil
	}
	if known {
		for _, k := range src.Keys {
			if row := a.rows[k]; row != nil && row.Unmapped() && row.Reason == ReasonMapping && row.State != Done {
				row.close(ReasonSuperseded)
				a.patches[k] = true
			}
		}
	}
	if it.Gone {
		a.sum.Unchanged++ // what has happened has happened
		return nil
	}
	for i := range it.Pairs {
		if err := a.entry(&it.Pairs[i], it, stamp); err != nil {
			return err
		}
	}
	return nil
}

// entry admits one record that an event maps to.
func (a *admission) entry(p *Pair, it *Item, stamp connectors.Stamp) error {
	hash := HashBody(p.Body)
	switch row := a.rows[p.Key]; {
	case row == nil:
	case bytes.Equal(row.Hash, hash):
		a.sum.Unchanged++
		return nil
	default:
		return a.refuse(p, it, stamp, hash)
	}
	row := &Row{RowID: RowID{a.flow.Name, p.Key}, Client: a.flow.Client, Entity: a.flow.Entity, SourceID: it.SourceID,
		Group: p.Group, State: Ready, Generation: 1, Desired: stamp, ChangedAt: micro(it.ChangedAt), ReadAt: stamp.Observed,
		Hash: hash, Body: p.Body, OpenSince: a.now, DueAt: a.now}
	if row.forgotten(a.doubt) {
		row.UnresolvedAt, row.Reason = a.doubt, ReasonUnresolved
		row.DueAt = later(a.now, a.doubt.Add(a.flow.SettleTime))
	}
	a.rows[p.Key], a.puts[p.Key] = row, true
	l := a.lines[p.Group]
	if l.sent.SentKey != "" && inOrder(stamp, p.Key, l.sent.Sent, l.sent.SentKey) < 0 {
		a.late(row, l.sent)
		it.died(row)
		return nil
	}
	a.sum.New++
	switch {
	case l.head == nil:
	case l.head.before(row):
		row.stepBack()
		return nil
	case a.puts[l.head.Key]:
		l.head.stepBack() // it came with this page
	}
	l.head = row // an older one than it was steps back when it is to be claimed
	return nil
}

// late keeps an event whose place in the order has passed. It stands outside its
// group, which goes on, until a person has it written after all.
func (a *admission) late(row *Row, sent Group) {
	row.Group, row.WaitKey = "", row.Group
	row.State, row.Reason = Dead, ReasonLate
	row.LastClass, row.LastCode, row.LastAt = connectors.Invalid, "late", a.now
	row.LastMessage = clip(fmt.Sprintf("it comes before %s in group %s, and that one was sent already when it was read", sent.SentKey, sent.Name))
	a.sum.Rejected++
}

// rejoin brings a late row back into its group, for a person's sake.
func (r *Row) rejoin() {
	if r.Reason == ReasonLate && r.Group == "" {
		r.Group, r.WaitKey = r.WaitKey, ""
	}
}

// refusedSuffix ends the key of a row for an event that came again with other content.
const refusedSuffix = ":changed"

// refuse keeps an event that came again with other content as a dead row of its own.
func (a *admission) refuse(p *Pair, it *Item, stamp connectors.Stamp, hash []byte) error {
	key := "@" + p.Key + refusedSuffix
	if err := a.loadRows([]string{key}); err != nil {
		return err
	}
	row := a.rows[key]
	if row != nil && bytes.Equal(row.Hash, hash) {
		a.sum.Unchanged++ // also when a person has given it up
		return nil
	}
	if row == nil {
		row = &Row{RowID: RowID{a.flow.Name, key}, Client: a.flow.Client, Entity: a.flow.Entity}
		a.rows[key] = row
	}
	row.SourceID = it.SourceID
	row.Generation++
	row.Desired, row.ChangedAt, row.ReadAt = stamp, micro(it.ChangedAt), stamp.Observed
	row.Hash, row.Body = hash, p.Body
	row.State, row.Reason = Dead, ReasonRefused
	row.LastClass, row.LastCode, row.LastAt = connectors.Invalid, "changed", a.now
	row.LastMessage = clip("event " + p.Key + " was taken before with other content, and an event is written once; it stays as it was")
	row.OpenSince, row.DueAt = a.now, a.now
	a.puts[key] = true
	a.sum.Rejected++
	it.died(row)
	return nil
}

func (it *Item) died(row *Row) {
	it.DeadLetters = append(it.DeadLetters, DeadLetter{row.Key, row.LastCode, row.LastMessage})
}
