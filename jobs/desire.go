package jobs

import (
	"bytes"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// desire makes a pair the desired state of its row, if the key is its source's to
// take. A record lets go of the key that it had in the same transaction, so a key
// that was refused to it before, or was not its own, is opened whatever the content
// and the version, and also when a person had given the row up.
func (a *admission) desire(p Pair, it *Item, stamp connectors.Stamp) error {
	hash := HashBody(p.Body)
	row := a.rows[p.Key]
	if row == nil {
		row = &Row{RowID: RowID{a.flow.Name, p.Key}, Client: a.flow.Client, Entity: a.flow.Entity,
			SourceID: it.SourceID, State: Done}
		a.rows[p.Key] = row
		a.sum.New++
		row.take(stamp, it)
		a.generation(row, p, hash, it.Refresh)
		return nil
	}
	if row.SourceID != "" && row.SourceID != it.SourceID {
		a.sum.Collided++
		delete(a.waiting, p.Key)
		return a.tx.PutContender(a.ctx, Contender{RowID: row.RowID, SourceID: it.SourceID, Stamp: stamp,
			ChangedAt: micro(it.ChangedAt), Hash: hash, Body: p.Body, Since: a.now})
	}
	before, owner, read := row.Desired, row.SourceID, row.ReadAt
	row.SourceID = it.SourceID
	same := !row.Gone && bytes.Equal(row.Hash, hash) && row.Reason != ReasonRenamed && owner == it.SourceID
	row.take(stamp, it)
	if it.Log && stamp.Version == 0 && !it.hasVersion() && !same {
		row.ReadAt = stamp.Observed // what is new in a log without versions shows by its content alone
	}
	// What its source is asked for may come by itself. The answer is dropped as older
	// then, if it was read before, and nothing else would open the row.
	answered := row.State == Ready && row.Reason == ReasonRefresh && row.ReadAt.After(read) && !mutant.On("answer-awaited")
	if same && !it.Refresh && !answered && !row.heals(before, a.now) && !a.movedUnknown(row, before, it) {
		a.sum.Unchanged++
		if before.Version != row.Desired.Version || a.flow.MaxAge > 0 || a.flow.FreshWithin > 0 {
			a.patches[p.Key] = true
		}
		return nil
	}
	a.sum.Changed++
	a.generation(row, p, hash, it.Refresh || answered)
	return nil
}

// take stores the order and the times of a newer reading. The order of a row's states
// never falls back, also when the key passes to another source record that was read
// earlier or has lower versions, because a target that guards by it would refuse the
// new owner's state as stale.
func (r *Row) take(stamp connectors.Stamp, it *Item) {
	read := stamp.Observed
	if r.Generation > 0 && stamp.Epoch == r.Desired.Epoch { // a new row's own is none to stay above: versions may be negative
		stamp.Version = max(stamp.Version, r.Desired.Version)
	}
	newer := stamp.Epoch > r.Desired.Epoch || stamp.Version > r.Desired.Version
	if r.Generation == 0 || stamp.Compare(r.Desired) > 0 || mutant.On("order-falls") {
		r.Desired = stamp
	}
	r.ChangedAt = micro(it.ChangedAt)
	// An old entry of a log does not become young by being read again.
	if !it.Log || newer || r.ReadAt.IsZero() {
		r.ReadAt = read
	}
}

// movedUnknown reports whether the target may hold another state than the row's,
// although that is what was read: one that came between the backup from which the
// journal was restored and the restore, and is not wanted any more.
func (a *admission) movedUnknown(row *Row, before connectors.Stamp, it *Item) bool {
	newer := !it.hasVersion() || row.Desired.Version > before.Version || row.Desired.Epoch > before.Epoch
	return newer && row.State == Done && row.Applied() && row.forgotten(a.doubt)
}

// heals reports whether a newer reading reopens a dead row although its content
// is the same: a refused record gets another chance with a newer version, an
// expired one by being read as current.
func (r *Row) heals(before connectors.Stamp, now time.Time) bool {
	if r.State != Dead {
		return false
	}
	switch r.Reason {
	case ReasonExpired:
		return r.Desired.Observed.After(before.Observed)
	default:
		return r.Desired.Version > before.Version || r.Desired.Epoch > before.Epoch
	}
}

// generation gives a row its next desired state.
func (a *admission) generation(row *Row, p Pair, hash []byte, refresh bool) {
	a.puts[row.Key] = true
	if !bytes.Equal(row.Hash, hash) {
		row.Misses, row.MissCode = 0, ""
	}
	row.Generation++
	row.Hash, row.Body, row.Gone = hash, p.Body, false
	row.Tries, row.FirstTryAt = 0, time.Time{}
	// What was written without an optional reference is not all that is wanted.
	if !refresh && !row.forgotten(a.doubt) && (row.WaitEntity == "" || mutant.On("half-is-all")) && (!row.Unresolved() || mutant.On("skipped-in-doubt")) && row.Applied() && bytes.Equal(row.AppliedHash, hash) {
		row.AppliedGeneration = row.Generation
		row.close(ReasonNone)
		return
	}
	a.open(row)
}

// open makes a row ready, but for one that is held. A row that was failing for reasons that may pass
// keeps its due time and its age, so that a record which changes all the time
// neither beats on a struggling target nor is put off for ever.
func (a *admission) open(row *Row) {
	if row.forgotten(a.doubt) {
		row.UnresolvedAt, row.AppliedHash = a.doubt, nil
	}
	// So does one that was put off for want of its flow.
	failing := row.Reason == ReasonRetry || row.Reason == ReasonUnresolved || row.Reason == ReasonNoFlow
	if row.State == Held {
		return // until a person has said what became of its last write
	}
	wasReady := row.State == Ready
	row.State = Ready
	// What the row waits for stays noted: it may be the record that has its key still.
	if wasReady {
		if !failing {
			due := a.now
			if row.Reason == ReasonRefresh && row.OpenSince.Before(due) && !row.OpenSince.IsZero() {
				// It goes on where it was among the due rows: behind a backlog it would be
				// too old again before it is its turn.
				due = row.OpenSince
			}
			row.DueAt, row.Reason = due, ReasonNone
		}
		return
	}
	row.OpenSince, row.DueAt, row.Reason, row.Streak = a.now, a.now, ReasonNone, 0
	if row.Unresolved() && !mutant.On("no-settle-time") {
		row.Reason = ReasonUnresolved
		row.DueAt = later(a.now, row.UnresolvedAt.Add(a.flow.SettleTime))
	}
}

// close makes a row done. It keeps RenamedFrom: until a write has given the record
// its key, it stands under the old one, and the row may be opened again.
func (r *Row) close(why Reason) {
	r.State, r.Reason = Done, why
	r.OpenSince, r.DueAt = time.Time{}, time.Time{}
	r.Streak = 0
}

// vanish lets go of a key that a source record no longer maps to.
func (a *admission) vanish(key string, it *Item, stamp connectors.Stamp) error {
	row := a.rows[key]
	if row == nil {
		return nil
	}
	if row.Unmapped() {
		row.close(ReasonSuperseded)
		a.patches[key] = true
		return nil
	}
	if row.SourceID != it.SourceID {
		if w := a.waiting[key]; w != nil {
			w.left[it.SourceID] = true
		}
		return a.tx.DeleteContender(a.ctx, row.RowID, it.SourceID)
	}
	row.SourceID = ""
	a.patches[key] = true
	promoted, err := a.promote(row)
	if err != nil || promoted {
		return err
	}
	refused := row.Reason == ReasonRenamed // nothing was ever written here for this record
	if !it.Gone && a.flow.OnVanish == "keep" {
		if refused {
			row.close(ReasonSuperseded)
		}
		return nil
	}
	if it.Gone && it.Refresh && !refused {
		there, err := a.mayStand(row)
		if err != nil {
			return err
		}
		if !there && (a.flow.FreshWithin == 0 || tooOldToSend(row, a.flow, a.now)) {
			// Asked for afresh because it was too old, and the source no longer has it.
			a.expire(row, "gone", "the source no longer has the record")
			return nil
		}
	}
	row.take(stamp, it)
	return a.gone(row)
}

// gone makes "not there" the desired state of a row.
func (a *admission) gone(row *Row) error {
	if row.Gone {
		return nil
	}
	half, err := a.half(row)
	if err != nil {
		return err
	}
	a.sum.Gone++
	row.Generation++
	row.Gone, row.Hash = true, goneHash
	row.Tries, row.FirstTryAt = 0, time.Time{}
	switch {
	case a.flow.OnDelete == "ignore" && row.State != Held:
		// Nothing is sent and nothing looked up, so what is in doubt stays so.
		row.close(ReasonIgnored)
	case row.Unresolved(), row.Applied(), half, row.forgotten(a.doubt):
		a.open(row)
	default:
		row.close(ReasonIgnored)
	}
	return nil
}

// half reports whether the record stands in the target although no attempt was
// confirmed: it was created, and a later step failed.
func (a *admission) half(row *Row) (bool, error) {
	if row.Attempt == 0 || row.Applied() || a.flow.OnDelete == "ignore" {
		return false, nil
	}
	ls, err := a.tx.Links(a.ctx, row.Client, []EntityKey{row.EntityKey()})
	return len(ls) > 0, err
}

// promote gives a released key to the contender that has waited longest.
func (a *admission) promote(row *Row) (bool, error) {
	w := a.waiting[row.Key]
	if w == nil {
		cs, err := a.tx.Contenders(a.ctx, row.Flow, []string{row.Key})
		if err != nil {
			return false, err
		}
		w = &claimants{cs, map[string]bool{}}
		a.waiting[row.Key] = w
	}
	c, ok := w.next()
	if !ok {
		return false, nil
	}
	if err := a.tx.DeleteContender(a.ctx, row.RowID, c.SourceID); err != nil {
		return false, err
	}
	row.SourceID = c.SourceID
	row.take(c.Stamp, &Item{ChangedAt: c.ChangedAt})
	a.generation(row, Pair{Key: c.Key, Body: c.Body}, c.Hash, false)
	a.sum.Changed++
	return true, nil
}

// claimants are those who claim a key, but for those who have let go of it since they were read.
type claimants struct {
	all  []Contender
	left map[string]bool
}

// next takes the one who gets the key next.
func (w *claimants) next() (c Contender, ok bool) {
	for len(w.all) > 0 {
		c, w.all = w.all[0], w.all[1:]
		if !w.left[c.SourceID] {
			return c, true
		}
	}
	return Contender{}, false
}

// expire ends a row that is too old to be sent, as the flow says.
func (a *admission) expire(row *Row, code, message string) {
	expireRow(row, a.flow, a.now, code, message)
}

func expireRow(row *Row, f *Flow, now time.Time, code, message string) {
	row.LastClass, row.LastCode, row.LastMessage, row.LastAt = connectors.Expired, code, message, now
	if f.OnExpire == "drop" && !row.Unresolved() {
		row.close(ReasonExpired)
		return
	}
	row.State, row.Reason = Dead, ReasonExpired
}

type renaming int

const (
	renameNone renaming = iota
	renameDone
	renameRefused
)

// realKeys are those of keys whose rows the source record owns.
func (a *admission) realKeys(keys []string, sourceID string) []string {
	var out []string
	for _, k := range keys {
		if r := a.rows[k]; r != nil && !r.Unmapped() && r.SourceID == sourceID && r.Reason != ReasonRenamed {
			out = append(out, k)
		}
	}
	return out
}

// rename finds that a source record changed its one key, and does what the flow
// says about it. A key that leads to a record which another row already stands
// for is no renaming: its content passes over instead.
func (a *admission) rename(it *Item, src *SourceRecord, stamp connectors.Stamp, keys []string) (renaming, error) {
	own := a.realKeys(src.Keys, src.ID)
	if it.Gone || len(keys) != 1 || len(own) != 1 || own[0] == keys[0] {
		return renameNone, nil
	}
	old, next := a.rows[own[0]], a.rows[keys[0]]
	there, err := a.mayStand(old)
	if err != nil || !there || a.flow.OnRename == "recreate" {
		return renameNone, err
	}
	if a.flow.OnRename == "rename" {
		if next != nil {
			there, err := a.mayStand(next)
			if err != nil || there || next.Applied() || next.Unresolved() || (next.SourceID != "" && next.SourceID != src.ID) {
				return renameNone, err
			}
		}
		circle, err := a.circle(next, old)
		if err != nil || circle {
			return renameNone, err
		}
		between, err := a.between(old)
		if err != nil {
			return renameNone, err
		}
		if between {
			return renameRefused, a.postponeRename(old, next, it, stamp)
		}
		return renameDone, a.moveKey(old, it)
	}
	return renameRefused, a.refuseRename(old, next, it, stamp)
}

// mayStand reports whether the target holds, or may come to hold, the row's record.
func (a *admission) mayStand(row *Row) (bool, error) {
	// What stands under a key that a record is still to leave is that record.
	heir, err := a.heir(row)
	if err != nil || heir != nil {
		return false, err
	}
	if row.Applied() || row.Unresolved() {
		return true, nil
	}
	ls, err := a.tx.Links(a.ctx, row.Client, []EntityKey{row.EntityKey()})
	if err != nil || len(ls) > 0 {
		return len(ls) > 0, err
	}
	return a.underWay(row)
}

// underWay reports whether a claim names the row's next attempt.
func (a *admission) underWay(row *Row) (bool, error) {
	if a.claims == nil {
		cs, err := a.tx.Claims(a.ctx, row.Client)
		if err != nil {
			return false, err
		}
		a.claims = map[RowID]int64{}
		for _, c := range cs {
			for _, cj := range c.Jobs {
				a.claims[cj.RowID] = max(a.claims[cj.RowID], cj.Attempt)
			}
		}
	}
	return a.claims[row.RowID] > row.Attempt, nil
}

// moveKey passes what is known of a record in the target from its old key to its
// new one. The old row notes which key has the record now: what a write that is
// under way comes to is told to that one, and nobody else gets the old key before
// the record has its new one.
func (a *admission) moveKey(old *Row, it *Item) error {
	key := it.Pairs[0].Key
	next := a.rows[key]
	if next == nil {
		next = &Row{RowID: RowID{a.flow.Name, key}, Client: a.flow.Client, Entity: a.flow.Entity, State: Done}
		a.rows[key] = next
	}
	stands := old
	// A key that was never tried is none under which the record could stand.
	if old.RenamedFrom != "" {
		if err := a.loadRows([]string{old.RenamedFrom}); err != nil {
			return err
		}
		if r := a.rows[old.RenamedFrom]; r != nil {
			stands = r
		}
	}
	next.SourceID, next.RenamedFrom = it.SourceID, stands.Key
	next.Reason, next.Hash = ReasonNone, nil // whatever the row was before, desire opens it
	next.AppliedGeneration, next.AppliedHash, next.AppliedAt = old.AppliedGeneration, nil, old.AppliedAt
	next.AppliedGone = old.AppliedGone
	next.UnresolvedAt = old.UnresolvedAt
	next.Desired = old.Desired
	next.Generation = max(next.Generation, old.Generation)
	ls, err := a.tx.Links(a.ctx, old.Client, []EntityKey{old.EntityKey()})
	if err != nil {
		return err
	}
	if len(ls) > 0 {
		if err := a.tx.PutLinks(a.ctx, old.Client, []Link{{EntityKey: next.EntityKey(), Link: ls[0].Link, SeenAt: movedLink(ls[0], a.now)}}); err != nil {
			return err
		}
		if err := a.tx.DeleteLinks(a.ctx, old.Client, []EntityKey{old.EntityKey()}); err != nil {
			return err
		}
	}
	old.SourceID, old.Gone, old.AppliedGone, old.Hash = "", true, true, goneHash
	old.UnresolvedAt, old.RenamedFrom = time.Time{}, ""
	if err := dropKeys(a.ctx, a.tx, old, a.flow); err != nil {
		return err
	}
	old.Generation++
	old.close(ReasonRenamed)
	a.patches[old.Key] = true
	stands.WaitEntity, stands.WaitKey = next.Entity, next.Key
	if stands == next {
		stands.RenamedFrom, stands.WaitEntity, stands.WaitKey = "", "", ""
	} else {
		a.patches[stands.Key] = true
	}
	// desire, called next for the pair, opens the new row.
	_, err = a.promote(old)
	return err
}

// refuseRename keeps the record under its new key as a dead row.
func (a *admission) refuseRename(old, next *Row, it *Item, stamp connectors.Stamp) error {
	p := it.Pairs[0]
	hash := HashBody(p.Body)
	if next == nil {
		next = &Row{RowID: RowID{a.flow.Name, p.Key}, Client: a.flow.Client, Entity: a.flow.Entity}
		a.rows[p.Key] = next
	} else if next.SourceID != "" && next.SourceID != it.SourceID {
		return a.desire(p, it, stamp) // a collision is told first
	} else if next.Reason == ReasonRenamed && bytes.Equal(next.Hash, hash) && !it.Refresh {
		a.sum.Unchanged++
		return nil
	}
	if err := a.giveUpMove(next); err != nil {
		return err
	}
	next.SourceID, next.RenamedFrom = it.SourceID, ""
	next.take(stamp, it)
	next.Generation++
	next.Hash, next.Body, next.Gone = hash, p.Body, false
	next.State, next.Reason = Dead, ReasonRenamed
	next.OpenSince, next.DueAt = a.now, a.now
	next.LastClass, next.LastCode, next.LastAt = connectors.Invalid, "renamed", a.now
	how := "then replay this row"
	if !a.flow.CanRefresh {
		how = "then its next version at the source is written so"
	}
	next.LastMessage = clip("the source record had the key " + old.Key + " and now has " + p.Key +
		"; say on_rename: " + a.flow.Renamings() + " in flow " + a.flow.Name + ", " + how)
	a.puts[p.Key] = true
	a.sum.Changed++
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// giveUpMove gives up the move of a record to a row, which is to be another's or stays as it is, before it has come about.
func (a *admission) giveUpMove(next *Row) error {
	from := next.RenamedFrom
	if from == "" {
		return nil
	}
	if err := a.loadRows([]string{from}); err != nil {
		return err
	}
	old := a.rows[from]
	if old == nil || old.WaitEntity != next.Entity || old.WaitKey != next.Key {
		return nil
	}
	return giveBack(a.ctx, a.tx, next, old)
}
