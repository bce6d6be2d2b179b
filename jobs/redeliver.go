package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// redelivery are the settings of an errand that redelivers.
type redelivery struct {
	// Since is the time of the backup that the target was restored from.
	Since time.Time `json:"since"`
	// Links is the last link that was looked at, once the rows are done.
	Links *EntityKey `json:"links,omitempty"`
	// Held counts the rows that wait for a person, Asked those that are read again first.
	Held  int64 `json:"held"`
	Asked int64 `json:"asked"`
}

// Affected is how many records of a flow a redelivery is about.
type Affected struct {
	// Rows were written, or may have been, since the time; of them Held are for a person
	// to look at, because a second write could double them: all of a flow that writes at
	// most once, those that were created since, or removed and come again, of one that
	// writes under idempotency keys to a target that cannot be asked for a record.
	Rows, Held int64
	// Links were first seen since then.
	Links int64
}

// CountRedeliver counts what a redelivery of a flow since a time would be about.
func (j *Journal) CountRedeliver(ctx context.Context, f *Flow, since time.Time) (n Affected, err error) {
	var after RowID
	var back int64
	for over := false; !over; {
		err = j.engine.View(ctx, func(tx Tx) error {
			rows, err := tx.List(ctx, Filter{Flow: f.Name, After: after, Limit: countStep})
			if err != nil {
				return err
			}
			linked, err := linkedSince(ctx, tx, f, rows, since)
			for i := range rows {
				after = rows[i].RowID
				if !rows[i].writtenSince(since) && linked[rows[i].EntityKey()].IsZero() {
					continue
				}
				n.Rows++
				if rows[i].AppliedGone && !rows[i].Gone {
					back++
				}
			}
			over = len(rows) < countStep
			return err
		})
		if err != nil {
			return n, wrap(err, "count what was written of flow %s since %s", f.Name, stampText(since))
		}
	}
	if f.Strategy == connectors.AtMostOnce {
		n.Held = n.Rows
	}
	at := EntityKey{Entity: f.Entity}
	for over := false; !over; {
		err = j.engine.View(ctx, func(tx Tx) error {
			ls, err := tx.ListLinks(ctx, f.Client, at, countStep)
			over = len(ls) < countStep
			for _, l := range ls {
				if l.Entity != f.Entity {
					over = true
					break
				}
				at = l.EntityKey
				if !l.SeenAt.Before(since) {
					n.Links++
				}
			}
			return err
		})
		if err != nil {
			return n, wrap(err, "count the links of client %s since %s", f.Client, stampText(since))
		}
	}
	if f.blind() && f.Strategy == connectors.IdempotencyKey {
		n.Held = min(n.Rows, n.Links+back)
	}
	return n, nil
}

// writtenSince reports whether a write of the row was confirmed, or may have been
// done, at a time or later.
func (r *Row) writtenSince(t time.Time) bool {
	return !r.AppliedAt.IsZero() && !r.AppliedAt.Before(t) || r.Unresolved() && !r.UnresolvedAt.Before(t)
}

// linkedSince tells which of a flow's records got their link at a time or later, and when, where none but that tells of their creation: a create may be
// confirmed and its record not yet as it should be. Where records can be looked for, that is done whatever is known of them.
func linkedSince(ctx context.Context, tx Tx, f *Flow, rows []Row, since time.Time) (map[EntityKey]time.Time, error) {
	if !f.blind() || len(rows) == 0 || mutant.On("half-created-forgotten") {
		return nil, nil
	}
	keys := make([]EntityKey, len(rows))
	for i := range rows {
		keys[i] = rows[i].EntityKey()
	}
	ls, err := tx.Links(ctx, f.Client, keys)
	if err != nil {
		return nil, err
	}
	linked := map[EntityKey]time.Time{}
	for _, l := range ls {
		if !l.SeenAt.Before(since) {
			linked[l.EntityKey] = l.SeenAt
		}
	}
	return linked, nil
}

// NewRedelivery is the errand of redelivering a flow since a time.
func NewRedelivery(f *Flow, since time.Time, total int64) Run {
	s, _ := json.Marshal(redelivery{Since: micro(since)}) // times always have a JSON form
	return Run{Kind: RunRedeliver, Flow: f.Name, Client: f.Client, Settings: s, Total: total}
}

// While a flow is redelivered nothing that is written to its client is claimed, and what
// was claimed of it before is waited for: its outcome may tell of the target as it was
// before the restore. So nobody uses an id that is void, in a reference neither, and
// whatever was written or seen by the time that a row's turn comes is taken back, however
// late that was heard of.

// redeliverWait is how long a row is put off while that goes on, and underWayWait how long
// a step waits for a write that is under way.
const (
	redeliverWait = 5 * time.Second
	underWayWait  = time.Second
)

// redelivered reports whether one of these flows that writes to a client is redelivered.
func redelivered(ctx context.Context, tx Tx, client string, flows map[string]*Flow) (bool, error) {
	names, err := tx.RunFlows(ctx, RunRedeliver)
	return slices.ContainsFunc(names, func(name string) bool { return flows[name] != nil && flows[name].Client == client }), err
}

// redelivered implements view. It is asked while the rows of the claim are held, and an
// errand looks for claims of rows while it holds them: one of the two sees the other.
func (c *claiming) redelivered() (bool, error) {
	if c.redelivering == nil {
		is, err := redelivered(c.ctx, c.tx, c.req.Client, c.req.Flows)
		if err != nil {
			return false, err
		}
		is = is && !mutant.On("written-meanwhile")
		c.redelivering = &is
	}
	return *c.redelivering, nil
}

// redeliverStep voids what was known of the next rows, and then of the next links
// that no row of the flow stands for.
func (j *Journal) redeliverStep(ctx context.Context, tx Tx, r *Run, f *Flow) (wait time.Duration, err error) {
	var s redelivery
	if err := json.Unmarshal(r.Settings, &s); err != nil {
		return 0, fmt.Errorf("read the settings of errand %d: %w", r.ID, err)
	}
	if s.Links == nil {
		wait, err = j.redeliverRows(ctx, tx, r, &s, f)
	} else {
		err = j.redeliverLinks(ctx, tx, r, &s, f)
	}
	if err != nil {
		return 0, err
	}
	r.Settings, err = json.Marshal(s)
	return wait, err
}

// next are the next rows to be looked at, of which not too many were written since then;
// more says that they are not all.
func (s *redelivery) next(seen []Row) (ids []RowID, more bool) {
	written := 0
	for i := range seen {
		if written == bulkStep {
			return ids, true
		}
		ids = append(ids, seen[i].RowID)
		if seen[i].writtenSince(s.Since) {
			written++
		}
	}
	return ids, len(seen) == countStep
}

func (j *Journal) redeliverRows(ctx context.Context, tx Tx, r *Run, s *redelivery, f *Flow) (wait time.Duration, err error) {
	seen, err := tx.List(ctx, Filter{Flow: f.Name, After: r.After, Limit: countStep})
	if err != nil {
		return 0, err
	}
	ids, more := s.next(seen)
	held, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return 0, err
	}
	running, err := claimed(ctx, tx, held)
	if err != nil {
		return 0, err
	}
	if len(running) > 0 && !mutant.On("under-way-passed") {
		return underWayWait, nil
	}
	if len(ids) > 0 {
		r.After = ids[len(ids)-1]
	}
	if !more {
		s.Links = &EntityKey{Entity: f.Entity}
	}
	linked, err := linkedSince(ctx, tx, f, held, s.Since)
	if err != nil {
		return 0, err
	}
	ids = nil
	for i := range held {
		if held[i].writtenSince(s.Since) || !linked[held[i].EntityKey()].IsZero() {
			ids = append(ids, held[i].RowID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	rows, err := tx.Rows(ctx, ids, true)
	if err != nil {
		return 0, err
	}
	return 0, j.voidRows(ctx, tx, r, s, f, rows)
}

// voidRows takes back what is known of rows, and their links.
func (j *Journal) voidRows(ctx context.Context, tx Tx, r *Run, s *redelivery, f *Flow, rows []Row) error {
	keys := make([]EntityKey, len(rows))
	for i := range rows {
		keys[i] = rows[i].EntityKey()
	}
	ls, err := tx.Links(ctx, f.Client, keys)
	if err != nil {
		return err
	}
	v := &voiding{now: j.Now(), since: s.Since, f: f, void: map[EntityKey]time.Time{}}
	var unlink []EntityKey
	for _, l := range ls {
		if !l.SeenAt.Before(s.Since) && !mutant.On("void-link-kept") {
			v.void[l.EntityKey] = l.SeenAt
			unlink = append(unlink, l.EntityKey)
		}
	}
	for i := range rows {
		r.Done++
		if f.Strategy == connectors.IdempotencyKey {
			if err := dropKeys(ctx, tx, &rows[i], f); err != nil {
				return err
			}
		}
		v.row(&rows[i])
	}
	s.Held += v.held
	s.Asked += int64(len(v.asks))
	r.Failed += v.failed
	if err := tx.DeleteLinks(ctx, f.Client, unlink); err != nil {
		return err
	}
	if err := queueUp(ctx, tx, v.patches); err != nil {
		return err
	}
	if err := place(ctx, tx, v.patches); err != nil {
		return err
	}
	if err := tx.PatchRows(ctx, v.patches); err != nil {
		return err
	}
	if err := tx.AddAttempts(ctx, v.history); err != nil {
		return err
	}
	return tx.AddRequests(ctx, v.asks)
}

// saidSince tells which records a person has looked for since a time, when the target was
// restored, and found: their ids are those in the restored target.
func saidSince(ctx context.Context, tx Tx, f *Flow, ks []EntityKey, at time.Time) (map[EntityKey]bool, error) {
	if len(ks) == 0 {
		return nil, nil
	}
	ids := make([]RowID, len(ks))
	for i, k := range ks {
		ids[i] = RowID{Flow: f.Name, Key: k.Key}
	}
	rows, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return nil, err
	}
	said := map[EntityKey]bool{}
	for i := range rows {
		r := &rows[i]
		word, err := wordSince(ctx, tx, r.RowID, at)
		if err != nil {
			return nil, err
		}
		said[r.EntityKey()] = word.Class == connectors.AlreadyApplied
	}
	return said, err
}

// wordSince is what a person has last said of a row since a time, and since it was
// redelivered; zero for nothing.
func wordSince(ctx context.Context, tx Tx, id RowID, at time.Time) (word Attempt, err error) {
	err = history(ctx, tx, id, func(a Attempt) bool {
		over := a.At.Before(at) || a.Code == codeRestored
		if !over && a.Code == codeResolved {
			word, over = a, true
		}
		return over
	})
	return word, err
}

// redeliverLinks voids the links that were found without a row of the flow.
func (j *Journal) redeliverLinks(ctx context.Context, tx Tx, r *Run, s *redelivery, f *Flow) error {
	ls, err := tx.ListLinks(ctx, f.Client, *s.Links, bulkStep)
	if err != nil {
		return err
	}
	over := len(ls) < bulkStep
	var unlink, fresh []EntityKey
	for _, l := range ls {
		if l.Entity != f.Entity {
			over = true
			break
		}
		s.Links = &l.EntityKey
		if !l.SeenAt.Before(s.Since) {
			unlink = append(unlink, l.EntityKey)
		}
		if !l.SeenAt.Before(r.At) {
			fresh = append(fresh, l.EntityKey)
		}
	}
	said, err := saidSince(ctx, tx, f, fresh, r.At)
	if err != nil {
		return err
	}
	unlink = slices.DeleteFunc(unlink, func(k EntityKey) bool { return said[k] && !mutant.On("word-void") })
	if err := tx.DeleteLinks(ctx, f.Client, unlink); err != nil {
		return err
	}
	if over {
		r.end(j.Now(), "%d records were seen to; %d of them are read again before they are written, %d wait for a person, %d have to be seen to by hand",
			r.Done, s.Asked, s.Held, r.Failed)
	}
	return nil
}
