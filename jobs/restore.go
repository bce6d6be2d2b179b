package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"syncd/connectors"
)

// After a restore of the journal nobody knows what was written between the backup and
// the restore. So every write that may have been done then is taken for one in doubt:
// of rows that are open at once, and of a row that opens later when it does, until
// the stream of its flow has been read to the end once more. Finding out about a write
// in doubt keeps a record from being created twice, and an older state from standing
// for a newer one that was written and forgotten.
//
// Cursors need no rewinding: each stands where it stood when the jobs that it led to
// were stored, because both are stored together.

// RestoreMargin is how far before the time of the backup what was done is written once
// more, because nobody knows that time well; and for how long after a stream was
// read to its end what it gives may have been written before the restore.
const RestoreMargin = 10 * time.Minute

// Restored says that the journal was put back from a backup.
type Restored struct {
	// At is when that was said: all writes that nobody remembers were sent before it.
	At time.Time `json:"at"`
	// AsOf is when the backup was taken: they were sent after it.
	AsOf time.Time `json:"as_of"`
	// Caught is when the stream had been read to its end since; zero before.
	Caught time.Time `json:"caught,omitzero"`
}

// doubt is At as long as a row that opens may have been written unknown to the journal,
// else zero.
func (r Restored) doubt(now time.Time) time.Time {
	if r.Caught.IsZero() || now.Before(r.Caught.Add(RestoreMargin)) {
		return r.At
	}
	return time.Time{}
}

// readToTheEnd notes that the flow's stream was read to its end by a reading that began
// at a time.
func (s *FlowState) readToTheEnd(began, now time.Time) {
	if r := &s.Restored; !r.At.IsZero() && r.Caught.IsZero() && began.After(r.At) {
		r.Caught = now
	}
}

// after is what a flow knows once it was restored again while r stood: as long as what
// was left in doubt by r is not over, the backup that counts is the earlier one. open
// says that a row of the flow is still in doubt since r.
func (next Restored) after(r Restored, open bool) Restored {
	if !r.At.IsZero() && (open || !r.doubt(next.AsOf).IsZero()) && r.AsOf.Before(next.AsOf) {
		next.AsOf = r.AsOf
	}
	return next
}

// forgotten reports whether a write of the row may have been done between the backup
// and the restore that nothing tells of: no outcome of it is known since, and it is
// not in doubt already.
func (r *Row) forgotten(doubt time.Time) bool {
	return !doubt.IsZero() && !r.Unresolved() && !r.Unmapped() && r.AppliedAt.Before(doubt) && r.LastAt.Before(doubt)
}

// restoration are the settings of the errand that marks what is in doubt.
type restoration struct {
	Restored
	// Doubted rows are in doubt from then on, Again ones among them were done and are
	// written once more, Held ones wait for a person.
	Doubted int64 `json:"doubted"`
	Again   int64 `json:"again"`
	Held    int64 `json:"held"`
	// Still are the flows of which rows were in doubt since an earlier restore.
	Still []string `json:"still,omitempty"`
}

// Doubtful is how many rows a restore puts in doubt.
type Doubtful struct {
	// Open rows were open or given to a person, Done ones were done so late that they
	// are written once more; Held, of the open ones, are of flows that write at most once.
	Open, Done, Held int64
	// AsOf is the time of the backup that counts.
	AsOf time.Time
}

// asOf is the time of the backup that counts: the one that a person gives, or the last
// sign of life in the journal, if that is earlier. What comes of one that is too
// early is more work, of one too late a write that is not known to be in doubt.
func asOf(e Epoch, t time.Time) time.Time {
	if !e.At.IsZero() && e.At.Before(t) {
		return e.At
	}
	return micro(t)
}

// CountRestore counts what a restore from a backup of a time is about.
func (j *Journal) CountRestore(ctx context.Context, t time.Time, flows map[string]*Flow) (n Doubtful, err error) {
	e, err := j.Epoch(ctx)
	if err != nil {
		return n, err
	}
	n.AsOf = asOf(e, t)
	var after RowID
	for over := false; !over; {
		err = j.engine.View(ctx, func(tx Tx) error {
			rows, err := tx.List(ctx, Filter{After: after, Limit: countStep})
			for i := range rows {
				r := &rows[i]
				after = r.RowID
				f, err := flowOf(ctx, tx, flows, r.Flow)
				if err != nil {
					return err
				}
				switch {
				case !r.doubtful(f, n.AsOf):
				case r.State == Done:
					n.Done++
				case f.Strategy == connectors.AtMostOnce && r.State == Ready:
					n.Open++
					n.Held++
				default:
					n.Open++
				}
			}
			over = len(rows) < countStep
			return err
		})
		if err != nil {
			return n, wrap(err, "count what is in doubt since %s", stampText(n.AsOf))
		}
	}
	return n, nil
}

// flowOf is a flow, as far as its records know it where it is not configured.
func flowOf(ctx context.Context, tx Tx, flows map[string]*Flow, name string) (*Flow, error) {
	if f := flows[name]; f != nil {
		return f, nil
	}
	return formerly(ctx, tx, name)
}

// doubtful reports whether a restore puts a row in doubt at once.
func (r *Row) doubtful(f *Flow, asOf time.Time) bool {
	switch {
	case r.Unmapped():
		return false // nothing is ever written of it
	case r.State != Done:
		return true
	case f.Every() || f.Strategy == connectors.AtMostOnce || r.Gone || !r.Applied() || r.Reason != ReasonNone:
		return false // as it was confirmed; what has come after that is read again
	}
	return !r.AppliedAt.Before(asOf.Add(-RestoreMargin))
}

// BeginRestore begins an epoch of a journal that was restored from a backup of a time,
// and the errand that marks what is in doubt; until that has ended no daemon runs. One
// that was begun before is gone on with, and fresh is false. total is what
// CountRestore has counted, file that of an embedded journal, as for SameFile.
func (j *Journal) BeginRestore(ctx context.Context, t time.Time, total int64, file, by string) (run Run, e Epoch, fresh bool, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		if err := j.alone(ctx, tx); err != nil {
			return err
		}
		if err := restorable(ctx, tx); err != nil {
			return err
		}
		if e, err = epochOf(ctx, tx); err != nil {
			return err
		}
		open, err := tx.Runs(ctx, true, mostRuns)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.Kind == RunRestore {
				run, fresh = o, false
				return nil
			}
		}
		s := restoration{Restored: Restored{At: j.Now(), AsOf: asOf(e, t)}}
		if e, err = nextEpoch(ctx, tx, s.At); err != nil {
			return err
		}
		if file != "" {
			if err := tx.PutMeta(ctx, factFile, file); err != nil {
				return err
			}
		}
		run, fresh = Run{Kind: RunRestore, Total: total, At: s.At, By: by}, true
		if run.Settings, err = json.Marshal(s); err != nil {
			return err
		}
		run.ID, err = tx.AddRun(ctx, run)
		return err
	})
	return run, e, fresh, wrap(err, "begin the journal's next epoch")
}

// restoreStep marks what is in doubt among the next rows, and in the end the flows.
func (j *Journal) restoreStep(ctx context.Context, tx Tx, r *Run, flows map[string]*Flow) error {
	var s restoration
	if err := json.Unmarshal(r.Settings, &s); err != nil {
		return fmt.Errorf("read the settings of errand %d: %w", r.ID, err)
	}
	seen, err := tx.List(ctx, Filter{After: r.After, Limit: countStep})
	if err != nil {
		return err
	}
	over := len(seen) < countStep
	var ids []RowID
	of := map[string]*Flow{}
	for i := range seen {
		row := &seen[i]
		if len(ids) == bulkStep {
			over = false
			break
		}
		r.After = row.RowID
		if of[row.Flow] == nil {
			if of[row.Flow], err = flowOf(ctx, tx, flows, row.Flow); err != nil {
				return err
			}
		}
		if row.doubtful(of[row.Flow], s.AsOf) {
			ids = append(ids, row.RowID)
		}
	}
	if err := j.restoreRows(ctx, tx, r, &s, ids, of); err != nil {
		return err
	}
	if over {
		if err := j.restoreFlows(ctx, tx, &s, flows); err != nil {
			return err
		}
		r.end(j.Now(), "%d records are in doubt; %d of them were done and are written once more, %d wait for a person, %d have to be seen to by hand",
			s.Doubted, s.Again, s.Held, r.Failed)
	}
	r.Settings, err = json.Marshal(s)
	return err
}

func (j *Journal) restoreRows(ctx context.Context, tx Tx, r *Run, s *restoration, ids []RowID, of map[string]*Flow) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return err
	}
	var done []RowID
	for i := range rows {
		if rows[i].State == Done {
			done = append(done, rows[i].RowID)
		}
	}
	bare, err := bodiless(ctx, tx, done)
	if err != nil {
		return err
	}
	before, err := restores(ctx, tx)
	if err != nil {
		return err
	}
	var history []Attempt
	var asks []Request
	for i := range rows {
		row, f := &rows[i], of[rows[i].Flow]
		if row.Unresolved() && row.UnresolvedAt.Equal(before[row.Flow].At) && !slices.Contains(s.Still, row.Flow) {
			s.Still = append(s.Still, row.Flow)
		}
		what := "the journal was restored to its state of " + stampText(s.AsOf)
		class := connectors.Unknown
		row.AppliedHash = nil
		switch {
		case row.State == Done && bare[row.RowID] && (!f.CanRefresh || row.SourceID == ""):
			r.Failed++
			class = connectors.Transient
			what += "; what it was is not kept any more, and its source cannot be asked for one record; it stays as it is"
		default:
			row.UnresolvedAt = later(row.UnresolvedAt, s.At)
			s.Doubted++
			what += "; " + j.restoreRow(row, f, s, bare[row.RowID], &asks)
		}
		r.Done++
		history = append(history, Attempt{RowID: row.RowID, Number: row.Attempt, Generation: row.Generation, At: s.At,
			Class: class, Code: codeJournalRestored, Message: clip(what)})
	}
	if err := tx.PatchRows(ctx, rows); err != nil {
		return err
	}
	if err := tx.AddAttempts(ctx, history); err != nil {
		return err
	}
	return tx.AddRequests(ctx, asks)
}

// restores are the restores that the flows know of.
func restores(ctx context.Context, tx Tx) (map[string]Restored, error) {
	fs, err := tx.Flows(ctx)
	out := map[string]Restored{}
	for i := range fs {
		out[fs[i].Flow] = fs[i].Restored
	}
	return out, err
}

// codeJournalRestored is a restore of the journal in a row's history.
const codeJournalRestored = "journal_restored"

// restoreRow has a row that is in doubt be found out about, and says how.
func (j *Journal) restoreRow(row *Row, f *Flow, s *restoration, bare bool, asks *[]Request) string {
	switch {
	case row.State == Held:
		what := "a write of it may have been done since, and whoever was to look at it has to look once more"
		row.LastCode, row.LastMessage, row.LastAt = codeJournalRestored, what, s.At
		return what
	case row.State == Dead:
		return "a write of it may have been done since; it stays dead"
	case row.State == Ready && f.Strategy == connectors.AtMostOnce:
		s.Held++
		what := "a write of it may have been done since, and only a person can find out"
		row.State, row.Reason, row.DueAt = Held, ReasonNone, time.Time{}
		row.LastClass, row.LastCode, row.LastMessage, row.LastAt = connectors.Unknown, codeJournalRestored, what, s.At
		return what
	case row.State == Done && bare:
		s.Again++
		*asks = append(*asks, ask(row, f, Refresh, s.At))
		row.OpenSince = s.At
		row.State, row.Reason, row.DueAt = Ready, ReasonRefresh, s.At.Add(refreshEvery)
		return "it is read again and written once more"
	case row.State == Done:
		s.Again++
		row.Generation++
		row.reopen(f, s.At)
		return "it is written once more"
	case row.Reason == ReasonNone || row.Reason == ReasonRetry || row.Reason == ReasonNoFlow:
		row.Reason = ReasonUnresolved
		row.DueAt = later(row.DueAt, s.At.Add(f.SettleTime))
	}
	return "a write of it may have been done since; that is found out first"
}

// restoreFlows has what the flows read from now on be taken for what may have been
// written before.
func (j *Journal) restoreFlows(ctx context.Context, tx Tx, s *restoration, flows map[string]*Flow) error {
	names := map[string]bool{}
	for name := range flows {
		names[name] = true
	}
	had, err := tx.Flows(ctx)
	if err != nil {
		return err
	}
	for i := range had {
		names[had[i].Flow] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fs, err := tx.LockFlow(ctx, name)
		if err != nil {
			return err
		}
		fs.Restored = s.after(fs.Restored, slices.Contains(s.Still, name))
		fs.PageStarts, fs.Suspect = 0, ""
		if err := tx.SaveFlow(ctx, fs); err != nil {
			return err
		}
	}
	return nil
}

// Restoring returns the errand of a restore that was begun and has not ended.
func (j *Journal) Restoring(ctx context.Context) (run Run, s Restored, err error) {
	rs, err := j.Runs(ctx, true, mostRuns)
	return newestRestore(rs, err)
}

// LastRestore returns the errand of the restore that ended last, as far back as errands
// are kept; its number is 0 when there is none.
func (j *Journal) LastRestore(ctx context.Context) (run Run, s Restored, err error) {
	rs, err := j.Runs(ctx, false, mostRuns)
	rs = slices.DeleteFunc(rs, func(r Run) bool { return r.Open() })
	return newestRestore(rs, err)
}

func newestRestore(rs []Run, err error) (Run, Restored, error) {
	for _, r := range rs {
		if r.Kind == RunRestore {
			var set restoration
			err := json.Unmarshal(r.Settings, &set)
			return r, set.Restored, err
		}
	}
	return Run{}, Restored{}, err
}
