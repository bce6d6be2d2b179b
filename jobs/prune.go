package jobs

import (
	"context"
	"slices"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// Retention is how long what the journal does not need for ever is kept; 0 keeps it
// for good. Marks of writes in doubt, links, and what makes a late or repeated event
// harmless always stay.
type Retention struct {
	// Attempts is for the histories of rows.
	Attempts time.Duration
	// Bodies is for what was written of a record that is done.
	Bodies time.Duration
	// Dead is for dead letters, which are given up then, with their content.
	Dead time.Duration
	// Errands is for errands that have ended.
	Errands time.Duration
}

// Pruned counts what was removed.
type Pruned struct {
	Attempts, Bodies, Dead, Errands int
}

// Any reports whether anything was removed.
func (p Pruned) Any() bool { return p != Pruned{} }

// Add adds o to p.
func (p *Pruned) Add(o Pruned) {
	p.Attempts += o.Attempts
	p.Bodies += o.Bodies
	p.Dead += o.Dead
	p.Errands += o.Errands
}

// Pruning goes through a journal once and removes what is not kept any more, in
// small steps.
type Pruning struct {
	journal *Journal
	lane    LaneID
	keep    Retention
	flows   map[string]*Flow
	now     time.Time
	todo    []func(context.Context) (Pruned, bool, error)
	after   RowID
	entry   int64 // the last entry of a history that was looked at
}

// Prune begins a pass under the lease of a lane; flows are those that are configured.
func (j *Journal) Prune(lane LaneID, keep Retention, flows map[string]*Flow) *Pruning {
	p := &Pruning{journal: j, lane: lane, keep: keep, flows: flows, now: j.Now()}
	for _, t := range []struct {
		keep time.Duration
		do   func(context.Context) (Pruned, bool, error)
	}{{keep.Attempts, p.attempts}, {keep.Dead, p.dead}, {keep.Bodies, p.bodies}, {keep.Errands, p.errands}} {
		if t.keep > 0 {
			p.todo = append(p.todo, t.do)
		}
	}
	return p
}

// Step does a small part of the pass; over says that it was the last one.
func (p *Pruning) Step(ctx context.Context) (n Pruned, over bool, err error) {
	if len(p.todo) == 0 {
		return n, true, nil
	}
	n, done, err := p.todo[0](ctx)
	if err == nil && done {
		p.todo, p.after = p.todo[1:], RowID{}
	}
	return n, len(p.todo) == 0, wrap(err, "remove what is not kept any more")
}

// attempts removes the oldest entries of histories, but for those by which it is
// decided what is written: of a row in doubt they tell which state may stand in the
// target, of one between two keys whether it was tried under the new one, and since an
// errand began what a person has said meanwhile.
func (p *Pruning) attempts(ctx context.Context) (n Pruned, over bool, err error) {
	last := p.entry
	err = p.journal.under(ctx, p.lane, func(tx Tx, _ string) error {
		before := p.now.Add(-p.keep.Attempts)
		open, err := tx.Runs(ctx, true, mostRuns)
		if err != nil {
			return err
		}
		for _, r := range open {
			if r.At.Before(before) && !mutant.On("word-pruned") {
				before = r.At
			}
		}
		n.Attempts, last, err = tx.PruneAttempts(ctx, p.entry, before, bulkStep)
		return err
	})
	if err != nil {
		return Pruned{}, false, err
	}
	over, p.entry = last == p.entry, last
	return n, over, nil
}

// rows finds the next rows of a state that nothing has happened to for long, beside
// the work of others, and has them changed if they still are so.
func (p *Pruning) rows(ctx context.Context, f Filter, do func(Tx, []Row) error) (over bool, err error) {
	f.After, f.Limit = p.after, bulkStep
	var ids []RowID
	err = p.journal.engine.View(ctx, func(tx Tx) error {
		rows, err := tx.List(ctx, f)
		ids = ids[:0]
		for i := range rows {
			ids = append(ids, rows[i].RowID)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		err = p.journal.under(ctx, p.lane, func(tx Tx, _ string) error {
			rows, err := tx.Rows(ctx, ids, false)
			if err != nil {
				return err
			}
			return do(tx, slices.DeleteFunc(rows, func(r Row) bool { return r.State != f.State || !r.LastAt.Before(f.Before) }))
		})
		if err != nil {
			return false, err
		}
		p.after = ids[len(ids)-1]
	}
	return len(ids) < bulkStep, nil
}

// bodies removes what was written of records that are done. One with a write in
// doubt keeps it.
func (p *Pruning) bodies(ctx context.Context) (n Pruned, over bool, err error) {
	f := Filter{State: Done, Before: p.now.Add(-p.keep.Bodies), Bodies: true}
	over, err = p.rows(ctx, f, func(tx Tx, rows []Row) error {
		var ids []RowID
		for i := range rows {
			if !rows[i].Unresolved() {
				ids = append(ids, rows[i].RowID)
			}
		}
		n.Bodies, err = tx.DropBodies(ctx, ids)
		return err
	})
	return n, over, err
}

// codeRetention is a dead letter that nobody has seen to, and that is not kept any more.
const codeRetention = "retention.dead"

// holdsBack reports whether a dead row keeps its group back, or may once its flow is
// configured again.
func (p *Pruning) holdsBack(row *Row) bool {
	f := p.flows[row.Flow]
	return row.Group != "" && (f == nil || len(f.passed()) == 0) && !mutant.On("hold-pruned")
}

// dead gives up dead letters. One with a write in doubt stays, and one that holds its
// group back: what comes after it is written only when a person has said so.
func (p *Pruning) dead(ctx context.Context) (n Pruned, over bool, err error) {
	f := Filter{State: Dead, Before: p.now.Add(-p.keep.Dead)}
	over, err = p.rows(ctx, f, func(tx Tx, rows []Row) error {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Unresolved() || p.holdsBack(&r) })
		got, err := p.journal.discard(ctx, tx, rows, "nobody has seen to it in "+days(p.keep.Dead)+"; retention.dead keeps it no longer")
		if err != nil {
			return err
		}
		n.Dead = got.Done
		ids := make([]RowID, len(rows))
		for i := range rows {
			ids[i] = rows[i].RowID
		}
		if rows, err = tx.Rows(ctx, ids, false); err != nil {
			return err
		}
		for i := range rows {
			rows[i].LastMessage = clip("nobody has seen to it in " + days(p.keep.Dead) + ", and retention.dead keeps it no longer; it had failed with " + failure(&rows[i]))
			rows[i].LastCode, rows[i].LastAt = codeRetention, p.now
		}
		if err := tx.PatchRows(ctx, rows); err != nil {
			return err
		}
		_, err = tx.DropBodies(ctx, ids)
		return err
	})
	return n, over, err
}

func days(d time.Duration) string {
	if n := int(d.Hours() / 24); n > 1 {
		return strconv.Itoa(n) + " days"
	}
	return d.String()
}

func (p *Pruning) errands(ctx context.Context) (n Pruned, over bool, err error) {
	err = p.journal.under(ctx, p.lane, func(tx Tx, _ string) error {
		rs, err := tx.Runs(ctx, false, 10*mostRuns)
		if err != nil {
			return err
		}
		var ids []int64
		for _, r := range rs {
			if !r.Open() && r.EndedAt.Before(p.now.Add(-p.keep.Errands)) {
				ids = append(ids, r.ID)
			}
		}
		n.Errands = len(ids)
		return tx.DeleteRuns(ctx, ids)
	})
	return n, true, err
}

// bodiless returns which of these rows have no body any more.
func bodiless(ctx context.Context, tx Tx, ids []RowID) (map[RowID]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Rows(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	out := map[RowID]bool{}
	for i := range rows {
		if len(rows[i].Body) == 0 && !rows[i].Gone {
			out[rows[i].RowID] = true
		}
	}
	return out, nil
}

// notKept says of a row whose body is needed and not kept why nothing can be done.
const notKept = "what it was is not kept any more, and its source cannot be asked for one record; its next change at the source is written"

// bare handles a due row that has nothing to send: what it is is asked of the source,
// or it is dead. No way leads here that is known of; nothing must be sent, if one does.
func (c *claiming) bare(row *Row, f *Flow, out *Claimed) {
	o := connectors.Fail(connectors.Invalid, "no_body", notKept)
	row.LastClass, row.LastCode, row.LastMessage, row.LastAt = o.Class, o.Code, clip(o.Message), c.now
	if f.CanRefresh && row.SourceID != "" {
		out.Refreshed++
		row.Reason, row.DueAt = ReasonRefresh, c.now.Add(refreshEvery)
		c.requests = append(c.requests, ask(row, f, Refresh, c.now))
	} else {
		row.State, row.Reason = Dead, ReasonFailed
		c.history = append(c.history, entry(row.RowID, row.Attempt, row.Generation, c.now, o))
	}
	c.patches = append(c.patches, *row)
}
