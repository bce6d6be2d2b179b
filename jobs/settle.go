package jobs

import (
	"bytes"
	"context"
	"errors"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// Settlement is the outcome of one claimed job.
type Settlement struct {
	Job     *Job
	Flow    *Flow
	Outcome connectors.Outcome
	// SentAt is the last moment at which a byte of the write may have been sent;
	// it matters for outcomes in doubt.
	SentAt time.Time
	// Batch says that the job was sent together with others.
	Batch bool
	// Served is when the client last answered anyone well; zero when it never did
	// since this daemon started.
	Served time.Time
	// Reopen names an optional reference that was left out; the row is written
	// again when that record is there.
	Reopen EntityKey
	// Took is how long the attempt lasted.
	Took time.Duration
}

// Settled says what became of a settlement.
type Settled struct {
	RowID
	// Fenced: the claim was no longer ours; nothing was changed.
	Fenced bool
	State  State
	Reason Reason
	DueAt  time.Time
	Class  connectors.Class
	// Suspended is why the flow is suspended from now on, and Freed the suspension that
	// this outcome ended; zero for most.
	Suspended, Freed Standing
}

// Settle commits outcomes of one lane's jobs together. Each is guarded by its
// claim and by the number of its attempt, so that an outcome that comes after
// the claim was given to another changes nothing.
func (j *Journal) Settle(ctx context.Context, client string, ss []Settlement) ([]Settled, error) {
	if len(ss) == 0 {
		return nil, nil
	}
	out, err := j.settle(ctx, client, ss, closings(client, ss))
	if errors.Is(err, errNotOurs) {
		out, err = j.settle(ctx, client, ss, nil)
	}
	return out, wrap(err, "settle %d jobs of client %s", len(ss), client)
}

// errNotOurs undoes a transaction that has closed rows of a claim which is not ours
// any more.
var errNotOurs = errors.New("the claim is not ours any more")

func (j *Journal) settle(ctx context.Context, client string, ss []Settlement, cs []Closing) (out []Settled, err error) {
	var w *weighing
	err = j.under(ctx, LaneID{client, ss[0].Job.Shard}, func(tx Tx, owner string) (err error) {
		out = make([]Settled, 0, len(ss))
		b := &settlement{ctx: ctx, tx: tx, client: client, now: j.Now()}
		if w, err = j.weigh(ctx, tx, ss); err != nil {
			return err
		}
		if err := b.begin(ss, cs); err != nil {
			return err
		}
		live, err := b.release(owner, ss)
		if err != nil {
			return err
		}
		for i := range ss {
			id, row := ss[i].Job.RowID, b.rows[ss[i].Job.RowID]
			switch {
			case b.closed[id] && !live[ss[i].Job.ClaimID]:
				return errNotOurs
			case b.closed[id]:
				b.follow(&ss[i])
				w.weighed(i, &ss[i], b.now)
				out = append(out, Settled{RowID: id, State: Done, Class: ss[i].Outcome.Class})
				continue
			case !unsettled(row, ss[i].Job) || !live[ss[i].Job.ClaimID]:
				out = append(out, Settled{RowID: id, Fenced: true})
				continue
			}
			if err := b.one(row, ss[i], j.rnd); err != nil {
				return err
			}
			w.weighed(i, &ss[i], b.now)
			out = append(out, Settled{RowID: row.RowID})
		}
		if err := w.end(b); err != nil {
			return err
		}
		for i := range out {
			if row := b.rows[out[i].RowID]; !out[i].Fenced && !b.closed[out[i].RowID] {
				out[i].State, out[i].Reason, out[i].DueAt, out[i].Class = row.State, row.Reason, row.DueAt, row.LastClass
			}
		}
		return b.store()
	})
	if err == nil {
		w.keep(&j.refusals, out)
	}
	return out, err
}

// begin closes what can be closed where it is, and reads the other rows.
func (b *settlement) begin(ss []Settlement, cs []Closing) (err error) {
	var closed []RowID
	var rows []Row
	if cs == nil {
		ids := make([]RowID, len(ss))
		for i, s := range ss {
			ids[i] = s.Job.RowID
		}
		rows, err = b.tx.Rows(b.ctx, ids, false)
	} else {
		closed, rows, err = b.tx.CloseRows(b.ctx, b.client, cs, b.now)
	}
	if err != nil {
		return err
	}
	b.closed = make(map[RowID]bool, len(closed))
	for _, id := range closed {
		b.closed[id] = true
	}
	b.rows = make(map[RowID]*Row, len(rows))
	for i := range rows {
		b.rows[rows[i].RowID] = &rows[i]
	}
	return nil
}

// follow notes what the confirmation of a row that is closed means for others.
func (b *settlement) follow(s *Settlement) {
	k := s.Job.EntityKey()
	if s.Outcome.Link != "" {
		b.links = append(b.links, Link{EntityKey: k, Link: s.Outcome.Link, SeenAt: b.now})
	}
	b.wake = append(b.wake, k)
}

// unsettled reports whether the job's attempt is the row's next one.
func unsettled(row *Row, jb *Job) bool { return row != nil && row.Attempt == jb.Number-1 }

// release takes the jobs that are settled now off their claims. Jobs settled
// before are not counted, so that a settlement repeated after a commit of
// unknown outcome does not take a claim away from jobs still under way.
func (b *settlement) release(owner string, ss []Settlement) (map[string]bool, error) {
	perClaim := map[string]int{}
	seen := make(map[RowID]bool, len(ss)-len(b.closed))
	for _, s := range ss {
		id := s.Job.RowID
		switch {
		case b.closed[id]:
			perClaim[s.Job.ClaimID]++
		case !seen[id] && unsettled(b.rows[id], s.Job):
			perClaim[s.Job.ClaimID]++
			seen[id] = true
		}
	}
	live := make(map[string]bool, len(perClaim))
	for id, n := range perClaim {
		ok, err := b.tx.ReduceClaim(b.ctx, id, owner, n)
		if err != nil {
			return nil, err
		}
		live[id] = ok
	}
	return live, nil
}

// settlement is the working set of one group of outcomes.
type settlement struct {
	ctx     context.Context
	tx      Tx
	client  string
	now     time.Time
	rows    map[RowID]*Row // as they are by now
	closed  map[RowID]bool // rows that are settled already
	patches []Row
	history []Attempt
	links   []Link
	unlink  []EntityKey
	wake    []EntityKey
	// pins are the key epochs that come after what is pinned for the rows; nil before
	// they were asked for. unpin are rows of which nothing is pinned any more.
	pins  map[RowID]int64
	unpin []RowID
	ended ended            // groups of which rows were settled
	flows map[string]*Flow // those of ended, as far as they are configured
}

func (b *settlement) one(row *Row, s Settlement, rnd func() float64) error {
	heir, err := b.heir(row)
	if err != nil {
		return err
	}
	if heir != nil && row.Generation > s.Job.Generation {
		return b.handOver(row, heir, s)
	}
	k := row.EntityKey()
	st := &settling{now: b.now, rnd: rnd, row: row, s: s}
	if k := s.waitsFor(); k != (EntityKey{}) {
		// Looked at again here, in the transaction that puts the job to sleep, so
		// that a record applied meanwhile is not waited for.
		ls, err := b.tx.Links(b.ctx, b.client, []EntityKey{k})
		if err != nil {
			return err
		}
		st.awaited = len(ls) > 0
	}
	from := row.RenamedFrom
	wasQuiet := row.quiet()
	st.settle()
	if err := b.endKeys(row, s.Flow, s.Outcome); err != nil {
		return err
	}
	b.patches = append(b.patches, *row)
	b.settled(row, s.Flow)
	if !wasQuiet || !s.Outcome.Class.Confirmed() {
		b.history = append(b.history, entry(row.RowID, s.Job.Number, s.Job.Generation, b.now, s.Outcome))
	}
	switch {
	case st.unlink:
		b.unlink = append(b.unlink, k)
	case s.Outcome.Link != "":
		b.links = append(b.links, Link{EntityKey: k, Link: s.Outcome.Link, SeenAt: b.now})
	}
	if FollowOf(s.Outcome.Class).Confirms {
		b.wake = append(b.wake, k)
		return b.arrived(row, from)
	}
	return nil
}

// waitsFor is the record that the job waits for after this outcome, if any.
func (s *Settlement) waitsFor() EntityKey {
	if s.Outcome.Class == connectors.Waiting {
		return EntityKey{s.Outcome.WaitEntity, s.Outcome.WaitKey}
	}
	return s.Reopen
}

func (b *settlement) store() error {
	if err := b.tx.PatchRows(b.ctx, b.patches); err != nil {
		return err
	}
	if err := b.moveUp(); err != nil {
		return err
	}
	if len(b.unpin) > 0 {
		if err := b.tx.DeletePins(b.ctx, b.unpin); err != nil {
			return err
		}
	}
	// A key whose record has moved away may have got another one.
	if err := b.tx.DeleteLinks(b.ctx, b.client, b.unlink); err != nil {
		return err
	}
	if err := b.tx.PutLinks(b.ctx, b.client, b.links); err != nil {
		return err
	}
	if len(b.wake) > 0 {
		if _, err := b.tx.Wake(b.ctx, b.client, b.wake, b.now); err != nil {
			return err
		}
	}
	return b.tx.AddAttempts(b.ctx, b.history)
}

// settling applies one outcome to its row. It is the rule of section "what
// follows" in docs/outcomes.md, over the table of FollowOf.
type settling struct {
	now     time.Time
	rnd     func() float64
	row     *Row
	s       Settlement
	awaited bool // the record waited for is there by now
	unlink  bool // the row's link leads nowhere
}

// waitAgain is how long a job sleeps for another record before it looks itself.
const (
	waitAgain = time.Minute
	// waitLong is the same for an optional reference of a record that stands already.
	waitLong = 10 * time.Minute
)

func (x *settling) settle() {
	x.s.Outcome.RetryAfter = min(x.s.Outcome.RetryAfter, MaxWait)
	row, o, f := x.row, x.s.Outcome, x.s.Flow
	before := *row
	fol := FollowOf(o.Class)
	counted := (fol.Counts || o.Class == connectors.Throttled && mutant.On("throttling-counts")) && !x.outage(fol) && !Interim(o)
	if o.Class != connectors.Lost || !mutant.On("failures-alone-count") {
		row.Attempt = x.s.Job.Number
	}
	prior := row.Unresolved()
	ignored := x.s.Job.Gone && f.OnDelete == "ignore" // nothing was sent or looked up
	if fol.Confirms && !ignored || o.Resolved {
		row.UnresolvedAt = time.Time{}
	}
	if fol.Doubts && !mutant.On("unknown-is-failed") || o.Code == CodeCreatedInDoubt {
		row.UnresolvedAt = later(row.UnresolvedAt, micro(x.s.SentAt))
	}
	if fol.Doubts {
		// The second time in a row: one record that takes its batch down each time is
		// found, and a crash or an outage does not leave hundreds to be written singly.
		row.Solo = row.Solo || x.s.Batch && prior
	}
	if !fol.Confirms && o.Class != connectors.Waiting && (!Interim(o) || row.WaitEntity != "") && !mutant.On("skipped-in-doubt") {
		// The attempt may have done a part of its steps, so the target no longer
		// holds for certain what it last confirmed. Nor is that all that was wanted of
		// it where an optional reference was left out, which is noted no longer.
		row.AppliedHash = nil
	}
	row.LastClass, row.LastCode, row.LastMessage, row.LastAt = o.Class, o.Code, clip(o.Message), x.now
	row.WaitEntity, row.WaitKey = "", ""
	newer := row.Generation > x.s.Job.Generation
	if !newer {
		if row.FirstTryAt.IsZero() && fol.Counts {
			row.FirstTryAt = x.now
		}
		if counted {
			row.Tries++
		}
	}
	switch {
	case x.holds(fol):
		// A newer state waits until a person has said what became of this one.
		row.State, row.Reason, row.DueAt = Held, ReasonNone, time.Time{}
	case fol.Confirms:
		x.confirm(newer)
	case fol.Rule == "on_missing":
		x.missing(newer)
	case fol.Rule == "on_frozen":
		x.ended(newer, f.OnFrozen == "ignore")
	case fol.Kills:
		row.Streak = 0
		x.ended(newer, false)
	default:
		x.again(fol, o, counted, newer, prior)
	}
	if (row.State == Ready || row.State == Held) && row.OpenSince.IsZero() {
		row.OpenSince = x.now // it was closed while this attempt was under way
	}
	if newer && before.State == Dead {
		// The state wanted by now was refused meanwhile: what came of an earlier one
		// does not open it.
		row.State, row.Reason, row.OpenSince, row.DueAt = before.State, before.Reason, before.OpenSince, before.DueAt
		row.LastClass, row.LastCode, row.LastMessage = before.LastClass, before.LastCode, before.LastMessage
		row.RenamedFrom = before.RenamedFrom
	}
}

// holds reports whether nobody but a person can find out what became of a write of
// the row.
func (x *settling) holds(fol Follow) bool {
	never := fol.Doubts && x.s.Flow.Strategy == connectors.AtMostOnce
	return x.row.Unresolved() && (never || x.s.Outcome.Code == CodeUnresolvable)
}

// Interim reports whether an outcome only puts the job off, while nothing failed:
// it was too early to write, or to believe what the target says. Such an outcome
// costs no attempt and tells nothing of the target's health.
func Interim(o connectors.Outcome) bool {
	return o.Code == CodeSettling || o.Code == CodeAbsentOnce || o.Code == CodeCreatedInDoubt ||
		o.Code == CodeUnresolvable && o.Class != connectors.Unknown
}

const (
	// CodeSettling is a job whose earlier write may still be at work in the target.
	CodeSettling = "settling"
	// CodeAbsentOnce is a job whose record was looked for once after a write in
	// doubt and not found; one more look is wanted.
	CodeAbsentOnce = "absent_once"
	// CodeCreatedInDoubt is a job whose record was created after an earlier create,
	// whose answer was lost, had not shown; that one may still come to light, so one
	// more look is wanted.
	CodeCreatedInDoubt = "created_in_doubt"
	// CodeKeptError is a server error that the target keeps under the idempotency key
	// of a create, so that sending the same again can have no success.
	CodeKeptError = "kept_error"
	// CodeUnresolvable is a job of whose last write only a person can find out what
	// became of it: the one of this attempt with class Unknown, else an earlier one,
	// and nothing was sent.
	CodeUnresolvable = "unresolvable"
)

// outage reports a failure that says nothing about the record: the client has
// served nobody since this row last failed.
func (x *settling) outage(fol Follow) bool {
	last := x.row.LastAt
	// Not by the row's reason: it may have met a closed gate since it failed.
	failing := x.row.Streak > 0
	return fol.Outage && failing && !last.IsZero() && !x.s.Served.After(last)
}

// confirm notes what the target confirmed, and closes the row if that is still
// what is wanted.
func (x *settling) confirm(newer bool) {
	row, job, f := x.row, x.s.Job, x.s.Flow
	row.Solo, row.Streak, row.Misses, row.MissCode = false, 0, 0, ""
	if !job.Gone || f.OnDelete != "ignore" {
		row.RenamedFrom = ""
	}
	removed := job.Gone && f.OnDelete != "ignore"
	if !job.Gone || removed {
		row.AppliedGeneration, row.AppliedGone, row.AppliedAt = job.Generation, removed, x.now
		row.AppliedHash = job.Hash
		if x.s.Outcome.Class == connectors.Stale {
			row.AppliedHash = nil
		}
		x.unlink = removed && f.OnDelete == string(connectors.Delete)
	}
	same := row.Gone == job.Gone && bytes.Equal(row.Hash, job.Hash)
	switch {
	case !newer, same && x.s.Outcome.Class != connectors.Stale:
		if !job.Gone || removed {
			row.AppliedGeneration = row.Generation
		}
		row.close(ReasonNone)
		switch {
		case row.Gone && !removed:
			row.Reason = ReasonIgnored
		case !row.Gone && x.s.Reopen != (EntityKey{}):
			x.sleepFor(x.s.Reopen)
		}
	case row.Gone && (f.OnDelete == "ignore" || !row.Applied()):
		row.close(ReasonIgnored)
	default:
		row.State, row.Reason, row.DueAt = Ready, ReasonNone, x.now
	}
	if x.s.Reopen != (EntityKey{}) && row.WaitEntity == "" {
		row.AppliedHash = nil // it was not all that was wanted
	}
}

// sleepFor leaves a written row open until an optional reference is there.
func (x *settling) sleepFor(k EntityKey) {
	row := x.row
	row.State, row.Reason, row.OpenSince = Ready, ReasonWaiting, x.now
	row.WaitEntity, row.WaitKey = k.Entity, k.Key
	row.DueAt = x.now
	if !x.awaited {
		row.DueAt = x.now.Add(waitLong)
	}
}

func (x *settling) missing(newer bool) {
	row := x.row
	x.unlink = true
	row.RenamedFrom = ""
	row.AppliedGone = row.AppliedGeneration > 0
	switch {
	case x.s.Flow.OnMissing == "leave" && !newer:
		row.close(ReasonIgnored)
	case x.s.Flow.OnMissing == "dead":
		x.unlink = false
		x.ended(newer, false)
	case x.s.Flow.Retry.Spent(row.Tries, row.FirstTryAt, x.now):
		x.ended(newer, false)
	default:
		row.State, row.Reason, row.DueAt = Ready, ReasonRetry, x.now.Add(x.s.Flow.Retry.Delay(row.Streak, 0, x.rnd))
		row.Streak++
	}
}

// ended makes the row dead, or done when the flow says so; a newer generation
// starts afresh instead.
func (x *settling) ended(newer, ignore bool) {
	row := x.row
	switch {
	case newer:
		row.State, row.Reason, row.DueAt = Ready, ReasonNone, x.dueAfterDoubt(x.now)
		row.Tries, row.FirstTryAt = 0, time.Time{}
	case ignore:
		row.close(ReasonIgnored)
	default:
		row.State, row.Reason, row.DueAt = Dead, ReasonFailed, time.Time{}
	}
}

// dueAfterDoubt puts off what must not start while a write in doubt may be at work.
func (x *settling) dueAfterDoubt(t time.Time) time.Time {
	if !x.row.Unresolved() || mutant.On("no-settle-time") {
		return t
	}
	return later(t, x.row.UnresolvedAt.Add(x.s.Flow.SettleTime))
}

// again puts the row off to its next attempt, or ends it when its attempts are used up.
func (x *settling) again(fol Follow, o connectors.Outcome, counted, newer, prior bool) {
	row, f := x.row, x.s.Flow
	if x.hopeless(o, prior) && !newer {
		row.LastMessage = clip("the target fails on this record in the same way each time: " + o.Message)
		x.ended(false, false)
		return
	}
	if counted && !newer && f.Retry.Spent(row.Tries, row.FirstTryAt, x.now) {
		x.ended(false, false)
		return
	}
	row.State, row.Reason = Ready, fol.Reason
	var d time.Duration
	switch {
	case o.Class == connectors.Waiting:
		row.WaitEntity, row.WaitKey = o.WaitEntity, o.WaitKey
		if !x.awaited {
			d = max(waitAgain, o.RetryAfter)
		}
	case fol.Counts && !Interim(o):
		d = f.Retry.Delay(row.Streak, o.RetryAfter, x.rnd)
		row.Streak++
	default:
		d = max(o.RetryAfter, time.Second)
	}
	if row.Unresolved() && row.Reason != ReasonWaiting {
		row.Reason = ReasonUnresolved
	}
	row.DueAt = x.dueAfterDoubt(x.now.Add(d))
}

// hopeless counts how often a write in doubt proved not to have been applied
// and then failed in the same way again. Such a record always makes the target
// fail; trying on would only hurt it.
func (x *settling) hopeless(o connectors.Outcome, prior bool) bool {
	row := x.row
	if o.Class != connectors.Unknown || !o.Answered || !o.Resolved || !prior {
		return false
	}
	if row.MissCode != o.Code {
		row.Misses, row.MissCode = 0, o.Code
	}
	row.Misses++
	return row.Misses >= 2
}
