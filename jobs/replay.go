package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/internal/mutant"
)

// Acted counts what an operator's command did.
type Acted struct {
	// Done rows were changed at once; Asked ones wait for the daemon to read or
	// map their event again.
	Done, Asked int
	// Dropped are the claims that were taken off keys of other source records.
	Dropped []Dropped
	// Skipped rows were left alone, with the reasons.
	Skipped []Skip
}

// Dropped names the source records that no longer claim a row's key.
type Dropped struct {
	RowID
	SourceIDs []string
}

// Skip is a row that a command left alone.
type Skip struct {
	RowID
	Why string
}

// Replay makes dead rows due again with all their attempts. A row whose event
// could not be mapped, or whose key was changed, is mapped again by the daemon;
// one that is too old is read again from its source. A row in doubt stays so. A row
// that is done is written once more as it is wanted, with its references looked
// up anew: the target may have lost the record, or what it refers to. One that was
// given up is due again; an event in a flow with order: every only if nothing that
// comes after it in its group was sent since.
func (j *Journal) Replay(ctx context.Context, ids []RowID, flows map[string]*Flow) (Acted, error) {
	out, err := j.act(ctx, ids, func(tx Tx, rows []Row) (Acted, error) { return j.replay(ctx, tx, rows, flows) })
	return out, wrap(err, "replay %d rows", len(ids))
}

// act does something to rows that are named, held against other writers.
func (j *Journal) act(ctx context.Context, ids []RowID, do func(Tx, []Row) (Acted, error)) (Acted, error) {
	var out Acted
	err := j.engine.Update(ctx, func(tx Tx) error {
		rows, err := tx.Rows(ctx, ids, false)
		if err != nil {
			return err
		}
		if out, err = do(tx, rows); err != nil {
			return err
		}
		out.missing(ids, rows)
		return nil
	})
	return out, err
}

func (j *Journal) replay(ctx context.Context, tx Tx, rows []Row, flows map[string]*Flow) (out Acted, err error) {
	var patches []Row
	var asks []Request
	var done []RowID
	for i := range rows {
		if rows[i].State == Done {
			done = append(done, rows[i].RowID)
		}
	}
	bare, err := bodiless(ctx, tx, done)
	if err != nil {
		return out, err
	}
	passed, err := overtaken(ctx, tx, rows, flows)
	if err != nil {
		return out, err
	}
	for i := range rows {
		row := &rows[i]
		f := flows[row.Flow]
		switch why := replayable(row, f, j.Now()); {
		case why != "":
			out.Skipped = append(out.Skipped, Skip{row.RowID, why})
		case passed[row.RowID] != "":
			out.Skipped = append(out.Skipped, Skip{row.RowID, passed[row.RowID]})
		case row.Unmapped(), row.Reason == ReasonRenamed:
			out.Asked++
			asks = append(asks, ask(row, f, Remap, j.Now()))
			if row.unmappedAgain(j.Now()) {
				patches = append(patches, *row)
			}
		case bare[row.RowID] && f.Every():
			out.Skipped = append(out.Skipped, Skip{row.RowID, "what it was is not kept any more, and an event is not written as it is read later"})
		case bare[row.RowID] && !f.CanRefresh:
			out.Skipped = append(out.Skipped, Skip{row.RowID, notKept})
		case tooOldNow(row, f, j.Now()), bare[row.RowID]:
			out.Asked++
			asks = append(asks, ask(row, f, Refresh, j.Now()))
			if row.State == Done {
				row.OpenSince = j.Now()
			}
			row.State, row.Reason, row.DueAt = Ready, ReasonRefresh, j.Now().Add(refreshEvery)
			patches = append(patches, *row)
		default:
			out.Done++
			if row.State == Done {
				row.AppliedHash = nil
				if row.Reason != ReasonDiscarded { // what was given up is the state that is wanted
					row.Generation++
				}
			}
			row.reopen(f, j.Now())
			patches = append(patches, *row)
		}
	}
	if err := queueUp(ctx, tx, patches); err != nil {
		return out, err
	}
	if err := place(ctx, tx, patches); err != nil {
		return out, err
	}
	if err := tx.PatchRows(ctx, patches); err != nil {
		return out, err
	}
	return out, tx.AddRequests(ctx, asks)
}

func (a *Acted) missing(ids []RowID, rows []Row) {
	have := make(map[RowID]bool, len(rows))
	for i := range rows {
		have[rows[i].RowID] = true
	}
	for _, id := range ids {
		if !have[id] {
			a.Skipped = append(a.Skipped, Skip{id, "there is no such row"})
		}
	}
}

func replayable(row *Row, f *Flow, now time.Time) string {
	switch {
	case f == nil:
		return NotConfigured(row.Flow)
	case row.Unread() && !f.CanRefresh:
		return "its event could not be read, and its source cannot be asked for one record; correct it at the source"
	case row.Reason == ReasonRefused:
		return "its event was taken before with other content, and is written once"
	case row.State == Done && f.Every() && row.isRefused():
		return "its event was taken before with other content, and is written once"
	case row.State == Done && f.Every() && row.Reason != ReasonDiscarded:
		return "it is done, and an event of this flow is written once"
	case row.State == Done && row.Gone && !row.removable(f):
		return "it is done: its record is gone at the source, and nothing is left to be removed"
	case row.State == Done && row.SourceID == "" && !row.Gone:
		return "it is done, and no record of the source stands behind it any more"
	case row.State == Done && row.Reason == ReasonSuperseded:
		return "it is done: a newer state of its record has taken its place"
	case row.State == Done && !row.Applied() && !row.givenUp():
		return "it is done, and nothing of it has to be written"
	case row.State == Done && !f.CanRefresh && f.MaxAge > 0 && row.Age(now) > f.MaxAge:
		return fmt.Sprintf("it is older than max_age %s, and the source cannot be asked for one record", f.MaxAge)
	case row.State == Held:
		return "nobody knows whether its last write was done; say it with syncd resolve"
	case row.State != Dead && row.State != Done:
		return fmt.Sprintf("it is %s", row.State)
	case row.Reason == ReasonExpired && row.SourceID == "":
		return "the source no longer has the record"
	case row.Reason == ReasonExpired && !f.CanRefresh:
		return fmt.Sprintf("it is older than max_age %s, and the source cannot be asked for one record", f.MaxAge)
	case row.Reason == ReasonRenamed && !f.CanRefresh:
		return "its source cannot be asked for one record; with on_rename: " + f.Renamings() + ", its next version at the source is written under the new key"
	case (row.Reason == ReasonMapping || row.Reason == ReasonRenamed) && row.SourceID == "":
		return "its event has no source id; correct it at the source"
	}
	return ""
}

// NotConfigured is why nothing is done about a job whose flow is not among those that
// were given.
func NotConfigured(flow string) string {
	return fmt.Sprintf("flow %s is not in the configuration", flow)
}

// isRefused reports whether the row of a flow with order: every stands for an event that
// came again with other content, whatever became of it since.
func (r *Row) isRefused() bool { return r.Unmapped() && strings.HasSuffix(r.Key, refusedSuffix) }

// removable reports whether a record that is gone may have to be removed from its
// target still, because its removal was given up.
func (r *Row) removable(f *Flow) bool {
	return r.Reason == ReasonDiscarded && f.OnDelete != "ignore" && (r.Applied() || r.Unresolved())
}

// givenUp reports whether a row is done without what it wanted having been written.
func (r *Row) givenUp() bool {
	return r.State == Done && (r.Reason == ReasonDiscarded || r.Reason == ReasonExpired || r.Reason == ReasonRenamed)
}

// unmappedAgain makes a dead letter again of an event that could not be mapped and was
// given up.
func (r *Row) unmappedAgain(now time.Time) bool {
	if r.State != Done || !r.Unmapped() {
		return false
	}
	r.State, r.Reason, r.OpenSince, r.DueAt = Dead, ReasonMapping, now, now
	return true
}

// overtaken says of events that were given up, and of which one that comes after them in
// their group was sent since, why they are not written any more.
func overtaken(ctx context.Context, tx Tx, rows []Row, flows map[string]*Flow) (map[RowID]string, error) {
	names := map[string][]string{}
	group := func(r *Row) string { return cmp.Or(r.Group, r.WaitKey) } // the latter of one that came late
	for i := range rows {
		if r := &rows[i]; r.givenUp() && flows[r.Flow] != nil && flows[r.Flow].Every() && group(r) != "" {
			names[r.Flow] = append(names[r.Flow], group(r))
		}
	}
	why := map[RowID]string{}
	for flow, of := range names {
		slices.Sort(of)
		gs, err := tx.Groups(ctx, flow, slices.Compact(of))
		if err != nil {
			return nil, err
		}
		for _, g := range gs {
			for i := range rows {
				r := &rows[i]
				if r.Flow == flow && r.givenUp() && group(r) == g.Name && inOrder(r.Desired, r.Key, g.Sent, g.SentKey) < 0 && !mutant.On("undone-late") {
					why[r.RowID] = fmt.Sprintf("%s comes after it in group %s, and was sent since it was given up", g.SentKey, g.Name)
				}
			}
		}
	}
	return why, nil
}

func tooOldNow(row *Row, f *Flow, now time.Time) bool {
	return f.CanRefresh && (row.Reason == ReasonExpired || f.MaxAge > 0 && !row.Gone && row.Age(now) > f.MaxAge)
}

func ask(row *Row, f *Flow, k RequestKind, now time.Time) Request {
	return Request{Client: f.SourceClient, Flow: row.Flow, SourceID: row.SourceID, Kind: k, Key: row.Key, At: now, DueAt: now}
}

// reopen makes a dead row due as if it were new, but for what is in doubt. Its client
// may have been split anew since it was due last, which moves ready rows alone.
func (r *Row) reopen(f *Flow, now time.Time) {
	r.rejoin()
	r.Shard = ShardOf(r.EntityKey(), f.Shards)
	r.State, r.Reason, r.DueAt = Ready, ReasonNone, now
	r.Tries, r.FirstTryAt, r.Streak = 0, time.Time{}, 0
	r.Misses, r.MissCode = 0, ""
	if r.OpenSince.IsZero() {
		r.OpenSince = now
	}
	if r.Unresolved() {
		r.Reason = ReasonUnresolved
		r.DueAt = later(now, r.UnresolvedAt.Add(f.SettleTime))
	}
}

// Discard gives dead, held or ready rows up. Other content opens them again. A
// row in doubt stays marked so. Of a row that is not dead or held and whose key
// other source records claim, their claims are dropped instead, and the row stays
// as it is: one of them that still maps to the key claims it again when it is read.
func (j *Journal) Discard(ctx context.Context, ids []RowID, reason string) (Acted, error) {
	out, err := j.act(ctx, ids, func(tx Tx, rows []Row) (Acted, error) { return j.discard(ctx, tx, rows, reason) })
	return out, wrap(err, "discard %d rows", len(ids))
}

func (j *Journal) discard(ctx context.Context, tx Tx, rows []Row, reason string) (out Acted, err error) {
	running, err := claimed(ctx, tx, rows)
	if err != nil {
		return out, err
	}
	var patches []Row
	var history []Attempt
	over := ended{}
	for i := range rows {
		row := &rows[i]
		if row.State != Dead && row.State != Held {
			ids, err := dropClaims(ctx, tx, row.RowID)
			if err != nil {
				return out, err
			}
			if len(ids) > 0 {
				out.Dropped = append(out.Dropped, Dropped{row.RowID, ids})
				history = append(history, discarded(row, j.Now(), claimsOf(ids)+" dropped: "+reason))
				continue
			}
		}
		switch {
		case row.State == Done:
			out.Skipped = append(out.Skipped, Skip{row.RowID, "it is done"})
			continue
		case running[row.RowID]:
			out.Skipped = append(out.Skipped, Skip{row.RowID, "it is being written; wait for its outcome"})
			continue
		}
		why := ReasonDiscarded
		if row.State == Dead && row.Reason == ReasonRenamed {
			why = ReasonRenamed // it stays a key that was refused, and owns nothing
		}
		row.close(why)
		over.add(row)
		out.Done++
		patches = append(patches, *row)
		history = append(history, discarded(row, j.Now(), "discarded: "+reason))
	}
	if err := tx.PatchRows(ctx, patches); err != nil {
		return out, err
	}
	if err := over.moveUp(ctx, tx, j.Now(), evenDead); err != nil {
		return out, err
	}
	return out, tx.AddAttempts(ctx, history)
}

// discarded is a person's doing as it stands in a row's history.
func discarded(row *Row, now time.Time, message string) Attempt {
	return Attempt{RowID: row.RowID, Number: row.Attempt, Generation: row.Generation, At: now,
		Class: row.LastClass, Code: "discarded", Message: clip(message)}
}

// dropClaims removes the contenders for a key and returns their source ids.
func dropClaims(ctx context.Context, tx Tx, id RowID) (ids []string, err error) {
	cs, err := tx.Contenders(ctx, id.Flow, []string{id.Key})
	if err != nil {
		return nil, err
	}
	for _, c := range cs {
		if err := tx.DeleteContender(ctx, id, c.SourceID); err != nil {
			return nil, err
		}
		ids = append(ids, c.SourceID)
	}
	return ids, nil
}

// claimsOf names the claims of source records, as in: claims of source records 2, 3.
func claimsOf(ids []string) string {
	if len(ids) == 1 {
		return "claim of source record " + ids[0]
	}
	return "claims of source records " + NamedIDs(ids)
}

// claimed tells which rows an open claim names.
func claimed(ctx context.Context, tx Tx, rows []Row) (map[RowID]bool, error) {
	cs, err := tx.Claims(ctx, "")
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	at := make(map[RowID]int64, len(rows))
	for i := range rows {
		at[rows[i].RowID] = rows[i].Attempt
	}
	out := map[RowID]bool{}
	for _, c := range cs {
		for _, cj := range c.Jobs {
			if a, ok := at[cj.RowID]; ok && cj.Attempt > a {
				out[cj.RowID] = true
			}
		}
	}
	return out, nil
}

// Requests returns what is asked of a source client and due.
func (j *Journal) Requests(ctx context.Context, client string, limit int) (rs []Request, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		rs, err = tx.Requests(ctx, client, j.Now(), limit)
		return err
	})
	return rs, wrap(err, "read the requests to client %s", client)
}

// PostponeRequest sets when a request that could not be answered is due again.
func (j *Journal) PostponeRequest(ctx context.Context, id int64, d time.Duration) error {
	err := j.engine.Update(ctx, func(tx Tx) error { return tx.PostponeRequest(ctx, id, j.Now().Add(d)) })
	return wrap(err, "put off request %d", id)
}

// DropRequest removes a request that has become pointless.
func (j *Journal) DropRequest(ctx context.Context, id int64) error {
	err := j.engine.Update(ctx, func(tx Tx) error { return tx.DeleteRequests(ctx, []int64{id}) })
	return wrap(err, "remove request %d", id)
}
