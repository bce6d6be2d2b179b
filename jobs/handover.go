package jobs

import (
	"context"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// A record that changes its key in the target (on_rename: rename) has two rows:
// the old one, closed, names the new one in WaitKey, and the new one names the
// old one in RenamedFrom until the record has its new key. Until then both are
// one record: they are not written at once, what becomes of a write that was
// under way under the old key belongs to the new row, and whoever takes the old
// key over waits.

// movedTo names the row to which the record that had r's key may have moved.
func (r *Row) movedTo() (RowID, bool) {
	return RowID{r.Flow, r.WaitKey}, r.WaitKey != "" && r.WaitEntity == r.Entity
}

// heir is the row to which the record that had r's key is still to move; nil when
// there is none. gaveUp is that row where the move was given up: whatever stands
// under the key is r's from now on, and what writes r or settles it takes note of
// that. load reads a row; nil for none.
func (r *Row) heir(load func(RowID) (*Row, error)) (heir, gaveUp *Row, err error) {
	id, ok := r.movedTo()
	if !ok {
		return nil, nil, nil
	}
	next, err := load(id)
	switch {
	case err != nil || next == nil || next.RenamedFrom != r.Key:
		return nil, nil, err
	case next.State == Done:
		return nil, next, nil
	default:
		return next, nil, nil
	}
}

// giveBack returns to a row what a move of its record that was given up had taken along: the link leads to what
// stands under the row's key, and the key that it was to get has nothing. Else whoever gets that key later writes into
// the row's record.
func giveBack(ctx context.Context, tx Tx, gaveUp, row *Row) error {
	from := gaveUp.RenamedFrom
	gaveUp.RenamedFrom = ""
	if mutant.On("link-kept-by-a-move") || from != row.Key {
		return nil
	}
	gaveUp.AppliedHash, gaveUp.AppliedGone = nil, gaveUp.AppliedGeneration > 0
	ls, err := tx.Links(ctx, row.Client, []EntityKey{gaveUp.EntityKey(), row.EntityKey()})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ls, func(l Link) bool { return l.EntityKey == gaveUp.EntityKey() })
	if i < 0 {
		return nil
	}
	if len(ls) == 1 {
		back := Link{EntityKey: row.EntityKey(), Link: ls[i].Link, SeenAt: ls[i].SeenAt}
		if err := tx.PutLinks(ctx, row.Client, []Link{back}); err != nil {
			return err
		}
	}
	return tx.DeleteLinks(ctx, row.Client, []EntityKey{gaveUp.EntityKey()})
}

// heir is row's, as of this settlement.
func (b *settlement) heir(row *Row) (*Row, error) {
	heir, gaveUp, err := row.heir(b.row)
	if gaveUp != nil {
		if err := giveBack(b.ctx, b.tx, gaveUp, row); err != nil {
			return nil, err
		}
		b.patches = append(b.patches, *gaveUp)
	}
	return heir, err
}

// row returns a row as it is by now; nil when there is none.
func (b *settlement) row(id RowID) (*Row, error) {
	if r := b.rows[id]; r != nil {
		return r, nil
	}
	rows, err := b.tx.Rows(b.ctx, []RowID{id}, false)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	b.rows[id] = &rows[0]
	return &rows[0], nil
}

// handOver tells the new row of a record what came of a write under its old key.
func (b *settlement) handOver(old, heir *Row, s Settlement) error {
	o, fol := s.Outcome, FollowOf(s.Outcome.Class)
	old.Attempt = s.Job.Number
	if fol.Confirms || o.Resolved {
		heir.UnresolvedAt = time.Time{}
	}
	if fol.Doubts && !mutant.On("doubt-stays-behind") {
		heir.UnresolvedAt = later(heir.UnresolvedAt, micro(s.SentAt))
	}
	switch {
	case fol.Confirms && o.Class != connectors.Stale:
		heir.AppliedGeneration, heir.AppliedGone, heir.AppliedAt = s.Job.Generation, s.Job.Gone, b.now
	case fol.Rule == "on_missing":
		heir.AppliedGone = heir.AppliedGeneration > 0
	}
	heir.AppliedHash = nil
	if heir.State == Ready && heir.Reason == ReasonWaiting && heir.WaitEntity == "" {
		heir.Reason, heir.DueAt = ReasonNone, b.now // it waited for this
	}
	if heir.State == Ready && heir.Unresolved() {
		heir.Reason, heir.DueAt = ReasonUnresolved, later(heir.DueAt, heir.UnresolvedAt.Add(s.Flow.SettleTime))
	}
	if err := b.endKeys(old, s.Flow, o); err != nil {
		return err
	}
	b.patches = append(b.patches, *old, *heir)
	b.history = append(b.history, entry(old.RowID, s.Job.Number, s.Job.Generation, b.now, o))
	return b.moveLink(old, heir.EntityKey(), o, fol)
}

// arrived frees the key that a record had before, once it has its new one.
func (b *settlement) arrived(row *Row, from string) error {
	if from == "" {
		return nil
	}
	old, err := b.row(RowID{row.Flow, from})
	if err != nil || old == nil || old.WaitEntity != row.Entity || old.WaitKey != row.Key {
		return err
	}
	old.WaitEntity, old.WaitKey = "", ""
	if old.State == Ready && old.Reason == ReasonWaiting {
		old.Reason, old.DueAt = ReasonNone, b.now
	}
	b.patches = append(b.patches, *old)
	return nil
}

// movedLink is since when the link of a record is known that gets another key: a
// backup of its target from after that has the record, under whichever key.
func movedLink(l Link, now time.Time) time.Time {
	if mutant.On("link-seen-anew") {
		return now
	}
	return l.SeenAt
}

// moveLink passes the link that the write stored, or brought, on to the new key. What
// is known under the old one is another record's where that is to move there.
func (b *settlement) moveLink(old *Row, to EntityKey, o connectors.Outcome, fol Follow) error {
	link, from := o.Link, old.EntityKey()
	taken := old.RenamedFrom != "" && !mutant.On("link-of-another")
	seen := b.now
	if !taken {
		ls, err := b.tx.Links(b.ctx, b.client, []EntityKey{from})
		if err != nil {
			return err
		}
		if len(ls) > 0 && (link == "" || link == ls[0].Link) {
			link, seen = ls[0].Link, movedLink(ls[0], b.now)
		}
	}
	if !taken {
		b.unlink = append(b.unlink, from)
	}
	switch {
	case fol.Rule == "on_missing":
		b.unlink = append(b.unlink, to)
	case link != "":
		b.links = append(b.links, Link{EntityKey: to, Link: link, SeenAt: seen})
	}
	return nil
}

// between reports whether the record may stand under either of two keys: a write
// that was to give it old's key is under way, or has failed.
func (a *admission) between(old *Row) (bool, error) {
	if old.RenamedFrom == "" {
		return false, nil
	}
	running, err := a.underWay(old)
	if err != nil || running {
		return running, err
	}
	err = history(a.ctx, a.tx, old.RowID, func(t Attempt) bool {
		running = running || t.Class != connectors.Expired // one that was too old was not sent
		return running
	})
	return running, err
}

// postponeRename refuses a change of key that comes too early, and asks for the
// record again once the change before it has had its time.
func (a *admission) postponeRename(old, next *Row, it *Item, stamp connectors.Stamp) error {
	key := it.Pairs[0].Key
	if err := a.refuseRename(old, next, it, stamp); err != nil {
		return err
	}
	row := a.rows[key]
	if row == nil || row.Reason != ReasonRenamed || row.State != Dead {
		return nil
	}
	row.LastMessage = clip("the source record has the key " + key + " by now, and is still being given the key " + old.Key +
		"; it gets the new one when that is over")
	a.puts[key] = true
	if !a.flow.CanRefresh {
		row.LastMessage = clip(row.LastMessage + " and a newer version of it comes")
		return nil
	}
	return a.tx.AddRequests(a.ctx, []Request{{Client: a.flow.SourceClient, Flow: a.flow.Name, SourceID: it.SourceID, Kind: Remap, Key: key,
		At: a.now, DueAt: a.now.Add(max(a.flow.SettleTime, waitAgain))}})
}

// heir is row's, as of this admission.
func (a *admission) heir(row *Row) (*Row, error) {
	heir, _, err := row.heir(func(id RowID) (*Row, error) {
		err := a.loadRows([]string{id.Key})
		return a.rows[id.Key], err
	})
	return heir, err
}

// circle reports whether the record that has next's key is to move, over
// however many keys, to old's: such records cannot wait for one another.
func (a *admission) circle(next, old *Row) (bool, error) {
	for seen := []string{}; next != nil && !slices.Contains(seen, next.Key); {
		seen = append(seen, next.Key)
		heir, err := a.heir(next)
		if err != nil || heir == nil || heir == old && len(seen) == 1 {
			return false, err // or the record only goes back
		}
		if heir == old {
			return true, nil
		}
		next = heir
	}
	return false, nil
}
