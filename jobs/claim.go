package jobs

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// ClaimRequest asks for due jobs of a target client.
type ClaimRequest struct {
	Client string
	// Shard is the client's shard whose jobs are wanted.
	Shard int
	// Limit is the largest number of jobs wanted.
	Limit int
	// Flows are those that write to the client now. Rows of others are put off.
	Flows map[string]*Flow
	// Busy reports whether a record is being written already. It is called with
	// nothing locked but the journal's transaction.
	Busy func(RowID, EntityKey) bool
	// InFlight is how many jobs of the client are claimed and not settled yet.
	InFlight int
	// Paused is until when the client may not be called, if it may not: nothing is
	// taken then.
	Paused time.Time
	// ClockDoubted says that others tell another time than the journal. Expiry that is
	// held stays so then.
	ClockDoubted bool
}

// Claimed is what a claim brought.
type Claimed struct {
	// ID names the claim, also when it is not known whether it was stored.
	ID string
	// Jobs in order of their due time.
	Jobs []*Job
	// Refreshed and Expired count jobs that were too old to be sent.
	Refreshed, Expired int
	// ExpiryHeld is why nothing of the client expires from now on, ExpiryEnded what
	// ended here of that; zero for nothing new.
	ExpiryHeld, ExpiryEnded Standing
	// NoFlow counts, by flow, the jobs that were put off because their flow is not among
	// the request's.
	NoFlow map[string]int
	// Ended counts those of Expired that are dead now; the others were dropped.
	Ended Ended
	// Full says that more may be due.
	Full bool
}

// Ended counts jobs that became dead or held otherwise than by an outcome that was
// settled: they were too old, or were found after a crash.
type Ended map[EndedAs]int

// EndedAs is of which flow a job is, what became of it, and by what.
type EndedAs struct {
	Flow  string
	State State // Dead or Held
	Class connectors.Class
	Code  string
}

// count adds a row if it is one that needs a person.
func (e *Ended) count(row *Row, o connectors.Outcome) {
	if row.State != Dead && row.State != Held {
		return
	}
	if *e == nil {
		*e = Ended{}
	}
	(*e)[EndedAs{row.Flow, row.State, o.Class, o.Code}]++
}

// Claim takes due jobs of a client and records them in one durable claim,
// before anything of them is sent. Jobs past their flow's max_age are never
// taken: their present state is asked for, or they expire.
func (j *Journal) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	var out Claimed
	var c *claiming
	id := rand.Text()
	err := j.under(ctx, LaneID{r.Client, r.Shard}, func(tx Tx, owner string) error {
		out = Claimed{ID: id}
		c = &claiming{ctx: ctx, tx: tx, j: j, req: r, out: &out, now: j.Now(), id: id, taken: map[EntityKey]bool{}}
		if err := c.look(&out); err != nil {
			return err
		}
		return c.store(owner, &out)
	})
	if err != nil {
		return Claimed{ID: id}, wrap(err, "claim jobs of client %s", r.Client)
	}
	j.expiries.add(r.Client, c.now, out.Expired)
	for _, flow := range c.probed {
		j.refusals.know(flow, c.suspensions[flow])
	}
	return out, wrap(err, "claim jobs of client %s", r.Client)
}

// mostLooked bounds the rows that one claim looks at.
const mostLooked = 4000

// look goes through the due rows. When none of those at the front can be taken
// (they are under way, too old, or of a flow that is not configured), it looks
// further, so that they hold nobody back.
func (c *claiming) look(out *Claimed) error {
	for n := c.req.Limit + c.req.InFlight; ; n = min(8*n, mostLooked) {
		rows, err := c.tx.Due(c.ctx, LaneID{c.req.Client, c.req.Shard}, c.now, n)
		if err != nil {
			return err
		}
		out.Full = len(rows) == n
		c.redelivering = nil // read again after the rows are held
		if err := c.findHeads(rows); err != nil {
			return err
		}
		for i := range rows {
			more, err := c.take(&rows[i], out)
			if err != nil {
				return err
			}
			if !more {
				out.Full = true
				return nil
			}
		}
		if !out.Full || len(out.Jobs) > 0 || n >= mostLooked {
			return nil
		}
		if err := c.putOff(); err != nil {
			return err
		}
	}
}

type claiming struct {
	ctx      context.Context
	tx       Tx
	j        *Journal
	req      ClaimRequest
	out      *Claimed
	now      time.Time
	id       string
	taken    map[EntityKey]bool
	patches  []Row
	history  []Attempt
	requests []Request
	heads    map[groupID]string // the keys of the heads of groups

	// client is what is stored of the client; nil before it was read.
	client *ClientState
	// expiring are rows that expire, unless that is too much at once.
	expiring []Row
	// redelivering says whether a flow to the client is redelivered; nil before it was read.
	redelivering *bool
	// suspensions are the flows that are suspended; nil before they were read. Of those
	// in probed a probe was taken, or they were found to be otherwise.
	suspensions map[string]Standing
	probed      []string
}

// refreshEvery is how often an unanswered request for a record is repeated.
const refreshEvery = time.Hour

// take does what is decided on one due row; more is false when the claim is complete.
func (c *claiming) take(row *Row, out *Claimed) (more bool, err error) {
	f := c.req.Flows[row.Flow]
	if f != nil && row.Reason == ReasonNoFlow {
		row.forgetNoFlow() // it has one now
	}
	d, err := decide(row, c, c.now)
	if err != nil {
		return false, err
	}
	switch d {
	case NoFlow:
		c.lackFlow(row)
	case Behind:
		row.stepBack()
		c.patches = append(c.patches, *row)
	case Redelivered:
		row.DueAt = c.now.Add(redeliverWait)
		c.patches = append(c.patches, *row)
	case FlowSuspended:
		c.suspendedRow(row)
	case Enough:
		// It has waited long enough for what it can do without.
		row.close(ReasonNone)
		c.patches = append(c.patches, *row)
	case AskAnew:
		c.ask(row, f, out)
	case Expires:
		c.expiring = append(c.expiring, *row)
	case ExpiryHeld:
		c.holdBack(row)
	case KeyMoves:
		// The key still is another record's, which has to get its new one first, or the
		// record is still being written under its old one. That wakes this row; the look
		// at the clock is for what a crash has swallowed.
		row.Reason, row.DueAt = ReasonWaiting, c.now.Add(waitAgain)
		c.patches = append(c.patches, *row)
	case Bare:
		c.bare(row, f, out)
	case Due:
		return c.include(row, f, out)
	}
	return true, nil
}

// include takes a row into the claim, if it may go together with what is in it.
func (c *claiming) include(row *Row, f *Flow, out *Claimed) (more bool, err error) {
	if singly(row, f) && len(out.Jobs) > 0 {
		return true, nil
	}
	may, err := c.probe(row)
	if err != nil {
		return false, err
	}
	if !may {
		c.suspendedRow(row)
		return true, nil
	}
	c.taken[row.EntityKey()] = true
	if row.RenamedFrom != "" {
		c.taken[EntityKey{row.Entity, row.RenamedFrom}] = true
	}
	out.Jobs = append(out.Jobs, &Job{Row: *row, ClaimID: c.id, Number: row.Attempt + 1, ClaimedAt: c.now})
	return !singly(row, f) && len(out.Jobs) < c.req.Limit, nil
}

// flow, paused, busy, moving, redelivered, suspended and expiryHeld make claiming a view.
func (c *claiming) flow(row *Row) *Flow { return c.req.Flows[row.Flow] }

func (c *claiming) paused() time.Time { return c.req.Paused }

// singly reports whether a row is claimed by itself: after it was lost, and always
// where nobody could find out what became of it. A crash then leaves no more of
// these in doubt than may have been on the wire.
func singly(row *Row, f *Flow) bool { return row.Solo || f.Strategy == connectors.AtMostOnce }

// moving reports whether the record that had row's key is still to get its new
// one, or row's own is being written under the key that it had before, by another
// lane. If a move was given up, whatever stands under the key is row's from now on.
func (c *claiming) moving(row *Row) (bool, error) {
	load := func(id RowID) (*Row, error) { return oneRow(c.ctx, c.tx, id) }
	heir, gaveUp, err := row.heir(load)
	if gaveUp != nil {
		if err := giveBack(c.ctx, c.tx, gaveUp, row); err != nil {
			return false, err
		}
		c.patches = append(c.patches, *gaveUp)
	}
	if err != nil || heir != nil || row.RenamedFrom == "" || mutant.On("written-twice") {
		return heir != nil, err
	}
	old, err := load(RowID{row.Flow, row.RenamedFrom})
	if err != nil || old == nil {
		return false, err
	}
	running, err := claimed(c.ctx, c.tx, []Row{*old})
	return running[old.RowID], err
}

// busy reports whether the row's record is being written, under the key that it
// had before too.
func (c *claiming) busy(row *Row) bool {
	under := func(key string) bool {
		k := EntityKey{row.Entity, key}
		return c.taken[k] || c.req.Busy != nil && c.req.Busy(RowID{row.Flow, key}, k)
	}
	return under(row.Key) || row.RenamedFrom != "" && under(row.RenamedFrom)
}

// ask asks the source for the present state of a row that is too old to be sent as
// it is.
func (c *claiming) ask(row *Row, f *Flow, out *Claimed) {
	out.Refreshed++
	if tooOldToSend(row, f, c.now) {
		o := overMaxAge(f)
		if row.Reason != ReasonRefresh {
			o.Message += "; superseded by the record's present state, which the source is asked for"
			c.history = append(c.history, entry(row.RowID, row.Attempt, row.Generation, c.now, o))
		}
		row.LastClass, row.LastCode, row.LastMessage, row.LastAt = o.Class, o.Code, clip(o.Message), c.now
	}
	row.Reason, row.DueAt = ReasonRefresh, c.now.Add(refreshEvery)
	c.requests = append(c.requests, Request{Client: f.SourceClient, Flow: f.Name, SourceID: row.SourceID,
		Kind: Refresh, Key: row.Key, At: c.now, DueAt: c.now})
	c.patches = append(c.patches, *row)
}

// expireOne ends a row that is too old to be sent.
func (c *claiming) expireOne(row *Row) {
	f := c.req.Flows[row.Flow]
	o := overMaxAge(f)
	c.out.Expired++
	expireRow(row, f, c.now, o.Code, o.Message+" and its source cannot be asked for one record")
	c.out.Ended.count(row, o)
	c.history = append(c.history, entry(row.RowID, row.Attempt, row.Generation, c.now, o))
	c.patches = append(c.patches, *row)
}

func overMaxAge(f *Flow) connectors.Outcome {
	return connectors.Fail(connectors.Expired, "max_age", "older than max_age %s", f.MaxAge)
}

// putOff stores what was decided on the rows that are not taken.
func (c *claiming) putOff() error {
	if err := c.expire(); err != nil {
		return err
	}
	if err := c.tx.PatchRows(c.ctx, c.patches); err != nil {
		return err
	}
	if err := c.tx.AddAttempts(c.ctx, c.history); err != nil {
		return err
	}
	if err := c.tx.AddRequests(c.ctx, c.requests); err != nil {
		return err
	}
	c.patches, c.history, c.requests = nil, nil, nil
	return nil
}

func (c *claiming) store(owner string, out *Claimed) error {
	if err := c.noteLacking(); err != nil {
		return err
	}
	if err := c.putOff(); err != nil || len(out.Jobs) == 0 {
		return err
	}
	keys := make([]EntityKey, 0, len(out.Jobs))
	cl := Claim{ID: c.id, Client: c.req.Client, Shard: c.req.Shard, Owner: owner, At: c.now, Open: len(out.Jobs)}
	for _, jb := range out.Jobs {
		keys = append(keys, jb.EntityKey())
		cl.Jobs = append(cl.Jobs, ClaimedJob{RowID: jb.RowID, Generation: jb.Generation, Attempt: jb.Number,
			Hash: jb.Hash, Gone: jb.Gone})
	}
	links, err := c.tx.Links(c.ctx, c.req.Client, keys)
	if err != nil {
		return err
	}
	byKey := make(map[EntityKey]string, len(links))
	for _, l := range links {
		byKey[l.EntityKey] = l.Link
	}
	for _, jb := range out.Jobs {
		jb.Link = byKey[jb.EntityKey()]
	}
	if err := c.shareDoubt(out.Jobs); err != nil {
		return err
	}
	if err := c.noteSent(out.Jobs); err != nil {
		return err
	}
	return c.tx.AddClaim(c.ctx, cl)
}

// shareDoubt puts in doubt what another flow's write of the same record left in
// doubt: the record is one, whichever flow's create it was whose answer was lost.
func (c *claiming) shareDoubt(js []*Job) error {
	var ids []RowID
	byKey := map[EntityKey]*Job{}
	for _, jb := range js {
		for _, f := range c.req.Flows {
			if f.Entity == jb.Entity && f.Name != jb.Flow {
				ids = append(ids, RowID{f.Name, jb.Key})
				byKey[jb.EntityKey()] = jb
			}
		}
	}
	if len(ids) == 0 {
		return c.shareKeys(js, nil)
	}
	rows, err := c.tx.Rows(c.ctx, ids, false)
	if err != nil {
		return err
	}
	for i := range rows {
		if jb := byKey[rows[i].EntityKey()]; jb != nil && rows[i].Unresolved() {
			jb.UnresolvedAt = later(jb.UnresolvedAt, rows[i].UnresolvedAt)
		}
	}
	return c.shareKeys(js, rows)
}

// Recover settles the claims that earlier owners of a lane left behind: each of
// their jobs that is not settled counts one lost attempt and is unresolved, because
// its write may have been sent up to the moment that owner ended. It must run
// before the first Claim under a lease, and may run at any time under it. Jobs that were
// put off for want of one of flows are due again. A journal
// without leases settles all claims, its own too, which is right only while nothing
// is under way.
func (j *Journal) Recover(ctx context.Context, lane LaneID, flows map[string]*Flow) (Recovered, error) {
	lost, err := j.recoverUnder(ctx, lane, lane, flows)
	if err == nil {
		err = j.passOver(ctx, lane, flows)
	}
	if err == nil {
		err = j.takeUp(ctx, lane, flows)
	}
	return lost, wrap(err, "recover the claims of client %s", lane)
}

// Recovered is what was left under way.
type Recovered struct {
	// Jobs counts those whose outcome was not known; Ended are those of them that are
	// not tried again by themselves.
	Jobs  int
	Ended Ended
}

// recoverUnder settles under the lease of one lane the claims that were left behind in
// another one, which nobody has, or in itself.
func (j *Journal) recoverUnder(ctx context.Context, mine, lane LaneID, flows map[string]*Flow) (Recovered, error) {
	var lost Recovered
	err := j.under(ctx, mine, func(tx Tx, owner string) error {
		lost = Recovered{}
		cs, err := tx.Claims(ctx, lane.Client)
		if err != nil {
			return err
		}
		for _, c := range cs {
			if c.Shard != lane.Shard || c.Owner == owner && owner != j.owner {
				continue
			}
			o := connectors.Fail(connectors.Lost, "lost", "the daemon ended while this write was under way; claimed at %s", c.At.Format(time.RFC3339))
			if mutant.On("lost-is-unsent") {
				o.Class = connectors.Paused
			}
			if err := j.recoverClaim(ctx, tx, c, flows, o, &lost); err != nil {
				return err
			}
		}
		return nil
	})
	return lost, err
}

// RecoverOwn takes back claims of this daemon whose commit was never confirmed,
// so that nothing of them was sent: those named, or all when none is, which must
// be asked for only while nothing of the lane is under way. It comes before
// the next Claim, which could name the same attempts once more.
func (j *Journal) RecoverOwn(ctx context.Context, lane LaneID, flows map[string]*Flow, only ...string) (int, error) {
	var back Recovered
	err := j.under(ctx, lane, func(tx Tx, owner string) error {
		back = Recovered{}
		cs, err := tx.Claims(ctx, lane.Client)
		if err != nil {
			return err
		}
		for _, c := range cs {
			if c.Owner != owner || c.Shard != lane.Shard || len(only) > 0 && !slices.Contains(only, c.ID) {
				continue
			}
			o := connectors.Fail(connectors.Paused, "unclaimed", "nothing was sent: the claim was not confirmed")
			if err := j.recoverClaim(ctx, tx, c, flows, o, &back); err != nil {
				return err
			}
		}
		return nil
	})
	return back.Jobs, wrap(err, "take back unconfirmed claims of client %s", lane)
}

func (j *Journal) recoverClaim(ctx context.Context, tx Tx, c Claim, flows map[string]*Flow, o connectors.Outcome, sum *Recovered) error {
	ids := make([]RowID, len(c.Jobs))
	byID := make(map[RowID]ClaimedJob, len(c.Jobs))
	for i, cj := range c.Jobs {
		ids[i], byID[cj.RowID] = cj.RowID, cj
	}
	rows, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return err
	}
	b := &settlement{ctx: ctx, tx: tx, client: c.Client, now: j.Now(), rows: make(map[RowID]*Row, len(rows))}
	for i := range rows {
		b.rows[rows[i].RowID] = &rows[i]
	}
	for i := range rows {
		row, cj := &rows[i], byID[rows[i].RowID]
		if row.Attempt >= cj.Attempt {
			continue
		}
		sum.Jobs++
		f := flows[row.Flow]
		if f == nil {
			if f, err = formerly(ctx, tx, row.Flow); err != nil {
				return err
			}
		}
		jb := &Job{Row: Row{RowID: row.RowID, Generation: cj.Generation, Hash: cj.Hash, Gone: cj.Gone}, Number: cj.Attempt}
		if err := b.one(row, Settlement{Job: jb, Flow: f, Outcome: o, SentAt: b.now, Batch: true}, j.rnd); err != nil {
			return err
		}
		sum.Ended.count(row, o)
	}
	if err := b.store(); err != nil {
		return err
	}
	_, err = tx.ReduceClaim(ctx, c.ID, c.Owner, c.Open)
	return err
}

// formerly is a flow that is not configured, as far as its records know it.
func formerly(ctx context.Context, tx Tx, flow string) (*Flow, error) {
	meta, err := tx.Meta(ctx)
	if err != nil {
		return nil, err
	}
	was, _, err := boundTo(ctx, tx, meta, flow, Binding{})
	return &Flow{Name: flow, Strategy: was.Strategy, Retry: DefaultRetry()}, err
}

// NextDue returns when the next job of a lane is due; zero when none is open.
func (j *Journal) NextDue(ctx context.Context, lane LaneID) (t time.Time, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		next, err := tx.NextDue(ctx, []LaneID{lane})
		if err == nil {
			t = next[0]
		}
		return err
	})
	return t, wrap(err, "find the next due job of client %s", lane)
}

// ToDo is what waits for a daemon.
type ToDo struct {
	// Lanes are those in which a job is due.
	Lanes []LaneID
	// Asked are the source clients to which a request is due.
	Asked []string
	// Errands are the clients of which an errand is open.
	Errands []string
}

// Look returns what there is to do in some lanes, for some source clients, and of all
// errands.
func (j *Journal) Look(ctx context.Context, lanes []LaneID, sources []string) (do ToDo, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		do = ToDo{}
		next, err := tx.NextDue(ctx, lanes)
		if err != nil {
			return err
		}
		for i, at := range next {
			if !at.IsZero() && !at.After(j.Now()) {
				do.Lanes = append(do.Lanes, lanes[i])
			}
		}
		if do.Asked, err = tx.Asked(ctx, sources, j.Now()); err != nil {
			return err
		}
		rs, err := tx.Runs(ctx, true, mostRuns)
		for i := range rs {
			do.Errands = append(do.Errands, rs[i].Client)
		}
		return err
	})
	return do, wrap(err, "look for what is due")
}
