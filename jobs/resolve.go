package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"syncd/connectors"
)

// Verdict is what a person found out about a write in doubt.
type Verdict struct {
	// Applied: the write was done. Else it was not, and is to be sent again.
	Applied bool
	// Older: what stands in the target is an older state than is wanted now, which is still
	// to be written. Only with Applied. It has to be said after a restore alone: else the
	// journal knows which state the write in doubt had.
	Older bool
	// Link is the target's own id of the record as a JSON scalar; "" when the person
	// did not give it. Only with Applied.
	Link string
	// By is who says so, Why the reason.
	By, Why string
}

// Resolve ends the doubt over a row's last write by what a person found out. That
// can be said of a held row, which waits for nothing else, and of a ready or dead
// one in doubt, since the person may know sooner than a look-up tells, or although
// every look-up fails. It cannot be said of a row that is being written, whose
// outcome is about to come, nor of one that is done, for which nothing is to be
// written whatever the answer, nor of one that is not in doubt. That a write was
// not done can be said only once it has had its time to settle.
//
// A row whose newest state was applied is done. One with a newer state than the
// one in doubt is due: that state waited. A key that was refused stays so. refused says why the row was left alone;
// "" when it was changed.
func (j *Journal) Resolve(ctx context.Context, id RowID, v Verdict, flows map[string]*Flow) (row Row, refused string, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		row, refused = Row{}, ""
		rows, err := tx.Rows(ctx, []RowID{id}, false)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			refused = "there is no such job"
			return nil
		}
		r := &resolving{ctx: ctx, tx: tx, row: &rows[0], f: flows[id.Flow], v: v, now: j.Now()}
		if refused, err = r.refuse(); err != nil || refused != "" {
			return err
		}
		if err := r.resolve(); err != nil {
			return err
		}
		row = *r.row
		return nil
	})
	return row, refused, wrap(err, "resolve %s", id)
}

// codeResolved is a person's word on a write in doubt, in a row's history.
const codeResolved = "resolved"

type resolving struct {
	ctx context.Context
	tx  Tx
	row *Row
	f   *Flow
	v   Verdict
	now time.Time
	// link is what the journal knew before.
	link string
}

// refuse says why the verdict cannot be taken.
func (r *resolving) refuse() (string, error) {
	row := r.row
	running, err := claimed(r.ctx, r.tx, []Row{*row})
	if err != nil {
		return "", err
	}
	ls, err := r.tx.Links(r.ctx, row.Client, []EntityKey{row.EntityKey()})
	if err != nil {
		return "", err
	}
	if len(ls) > 0 {
		r.link = ls[0].Link
	}
	switch settled := r.settledAt(); {
	case r.f == nil:
		return NotConfigured(row.Flow), nil
	case running[row.RowID]:
		return "it is being written; wait for its outcome", nil
	case row.State == Done:
		return "it is done, and nothing is to be written for it", nil
	case !row.Unresolved():
		return fmt.Sprintf("it is %s, and no write of it is in doubt", row.State), nil
	case !r.v.Applied && settled.After(r.now):
		return fmt.Sprintf("its write may still be at work in the target until %s, so nobody can know yet that it was not done", stampText(settled)), nil
	case r.v.Applied && r.v.Link == "" && r.link == "" && !r.f.CanFind && !r.f.CreateOnly && !row.Gone:
		return "the target cannot be asked for a record by its key, so later changes need its id there; give it with --link", nil
	}
	return "", nil
}

func (r *resolving) settledAt() time.Time {
	if r.f == nil {
		return time.Time{}
	}
	return r.row.UnresolvedAt.Add(r.f.SettleTime)
}

func (r *resolving) resolve() error {
	row := r.row
	at, known, err := r.inDoubt()
	if err != nil {
		return err
	}
	row.UnresolvedAt, row.Misses, row.MissCode, row.Solo = time.Time{}, 0, "", false
	if err := dropKeys(r.ctx, r.tx, row, r.f); err != nil {
		return err
	}
	what, class := "not applied, to be sent again", connectors.Transient
	if r.v.Applied {
		what, class = "applied", connectors.AlreadyApplied
		if err := r.applied(at, known); err != nil {
			return err
		}
	} else {
		row.AppliedHash = nil
		r.due()
	}
	row.LastClass, row.LastCode, row.LastAt = class, codeResolved, r.now
	row.LastMessage = clip(fmt.Sprintf("%s says: %s: %s", r.v.By, what, r.v.Why))
	rows := []Row{*row}
	if row.State == Ready {
		if err := queueUp(r.ctx, r.tx, rows); err != nil {
			return err
		}
		if err := place(r.ctx, r.tx, rows); err != nil {
			return err
		}
	}
	if err := r.tx.PatchRows(r.ctx, rows); err != nil {
		return err
	}
	over := ended{}
	over.add(row)
	if err := over.moveUp(r.ctx, r.tx, r.now, evenDead); err != nil {
		return err
	}
	return r.tx.AddAttempts(r.ctx, []Attempt{{RowID: row.RowID, Number: row.Attempt, Generation: row.Generation, At: r.now,
		Class: row.LastClass, Code: row.LastCode, Message: row.LastMessage}})
}

// inDoubt is the generation whose write is in doubt; known is false when the
// history does not tell any more. What is pinned is sent again whatever is wanted by
// then, so that it, and not the attempt, says what was written.
//
// After a restore of the journal nobody knows which state stands in the target. Where a
// second write does no harm, the record is written as it is wanted now; of what is
// written at most once the person says whether it is as it was wanted when it was held.
func (r *resolving) inDoubt() (generation int64, known bool, err error) {
	if known, err := r.remembered(); err != nil || !known {
		return 0, false, err
	}
	ps, err := r.tx.Pins(r.ctx, []RowID{r.row.RowID})
	if err != nil || len(ps) > 0 {
		for _, p := range ps {
			generation = max(generation, p.Generation)
		}
		return generation, true, err
	}
	err = history(r.ctx, r.tx, r.row.RowID, func(a Attempt) bool {
		held := a.Code == CodeUnresolvable && r.f.Strategy == connectors.AtMostOnce
		if known = FollowOf(a.Class).Doubts || a.Code == CodeCreatedInDoubt || held; known {
			generation = a.Generation
		}
		return known
	})
	if !known && (r.f.Strategy == connectors.AtMostOnce || r.f.Every()) && !r.row.FirstTryAt.IsZero() {
		// The history is not there, as a syncd that kept less has left it. The row is
		// held since it was tried, and a newer state would not have been yet.
		generation, known = r.row.Generation, true
	}
	return generation, known, err
}

// history goes through a row's history, the newest entry first, until one is found.
func history(ctx context.Context, tx Tx, id RowID, found func(Attempt) bool) error {
	for seen, limit := 0, 100; ; limit *= 10 {
		as, err := tx.Attempts(ctx, id, limit)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(as[min(seen, len(as)):], found) || len(as) < limit {
			return nil
		}
		seen = len(as)
	}
}

// remembered reports whether the journal can tell which state the write in doubt had:
// not, where a restore has left the doubt, or what was sent since may have come upon a
// write that it does not know.
func (r *resolving) remembered() (bool, error) {
	if r.f.Strategy == connectors.AtMostOnce || r.f.Every() {
		return true, nil
	}
	restored, err := restores(r.ctx, r.tx)
	at := restored[r.row.Flow].At
	return at.IsZero() || r.row.AppliedAt.After(at), err
}

// applied notes that the write in doubt was done.
func (r *resolving) applied(generation int64, known bool) error {
	row := r.row
	k := row.EntityKey()
	newest := known && generation == row.Generation && row.RenamedFrom == "" && !r.v.Older && !r.refusedKey()
	removed := newest && row.Gone && r.f.OnDelete != "ignore"
	row.AppliedGeneration, row.AppliedAt, row.AppliedHash = max(row.AppliedGeneration, generation, 1), r.now, nil
	row.AppliedGone = removed
	if newest {
		row.AppliedHash = row.Hash
	}
	switch {
	case removed && r.f.OnDelete == string(connectors.Delete):
		if err := r.tx.DeleteLinks(r.ctx, row.Client, []EntityKey{k}); err != nil {
			return err
		}
	case r.v.Link != "":
		if err := r.tx.PutLinks(r.ctx, row.Client, []Link{{EntityKey: k, Link: r.v.Link, SeenAt: r.now}}); err != nil {
			return err
		}
	}
	switch {
	case newest:
		row.close(ReasonNone)
	default:
		r.due()
	}
	_, err := r.tx.Wake(r.ctx, row.Client, []EntityKey{k}, r.now)
	return err
}

// refusedKey reports whether the key was refused to the record that claims it now: the write
// in doubt was another record's, and this one stands in the target under the key that it had.
func (r *resolving) refusedKey() bool { return r.row.State == Dead && r.row.Reason == ReasonRenamed }

// due has the row written as it is wanted now.
func (r *resolving) due() {
	if r.refusedKey() {
		return
	}
	if r.row.Gone && r.f.OnDelete == "ignore" {
		r.row.close(ReasonIgnored)
		return
	}
	r.row.reopen(r.f, r.now)
}
