package jobs

import (
	"context"
	"crypto/rand"
	"time"

	"syncd/connectors"
)

// ClaimRequest asks for due jobs of a target client.
type ClaimRequest struct {
	Client string
	// Limit is the largest number of jobs wanted.
	Limit int
	// Flows are those that write to the client now. Rows of others are put off.
	Flows map[string]*Flow
	// Busy reports whether a record is being written already. It is called with
	// nothing locked but the journal's transaction.
	Busy func(RowID, EntityKey) bool
	// InFlight is how many jobs of the client are claimed and not settled yet.
	InFlight int
}

// Claimed is what a claim brought.
type Claimed struct {
	// Jobs in order of their due time.
	Jobs []*Job
	// Refreshed and Expired count jobs that were too old to be sent.
	Refreshed, Expired int
	// Full says that more may be due.
	Full bool
}

// Claim takes due jobs of a client and records them in one durable claim,
// before anything of them is sent. Jobs past their flow's max_age are never
// taken: their present state is asked for, or they expire.
func (j *Journal) Claim(ctx context.Context, r ClaimRequest) (Claimed, error) {
	var out Claimed
	id := rand.Text()
	err := j.engine.Update(ctx, func(tx Tx) error {
		out = Claimed{}
		now := j.Now()
		rows, err := tx.Due(ctx, r.Client, now, r.Limit+r.InFlight)
		if err != nil {
			return err
		}
		out.Full = len(rows) == r.Limit+r.InFlight
		c := &claiming{ctx: ctx, tx: tx, req: r, now: now, id: id, taken: map[EntityKey]bool{}}
		for i := range rows {
			if !c.take(&rows[i], &out) {
				out.Full = true
				break
			}
		}
		return c.store(j.owner, &out)
	})
	return out, wrap(err, "claim jobs of client %s", r.Client)
}

type claiming struct {
	ctx      context.Context
	tx       Tx
	req      ClaimRequest
	now      time.Time
	id       string
	taken    map[EntityKey]bool
	patches  []Row
	history  []Attempt
	requests []Request
}

// refreshEvery is how often an unanswered request for a record is repeated.
const refreshEvery = time.Hour

// take decides on one due row; it returns false when the claim is complete.
func (c *claiming) take(row *Row, out *Claimed) bool {
	f := c.req.Flows[row.Flow]
	switch {
	case f == nil:
		row.DueAt = c.now.Add(10 * time.Minute)
		c.patches = append(c.patches, *row)
		return true
	case c.req.Busy != nil && c.req.Busy(row.RowID, row.EntityKey()), c.taken[row.EntityKey()]:
		return true
	case f.MaxAge > 0 && !row.Gone && row.Age(c.now) > f.MaxAge:
		c.tooOld(row, f, out)
		return true
	case row.Solo && len(out.Jobs) > 0:
		return true
	}
	c.taken[row.EntityKey()] = true
	out.Jobs = append(out.Jobs, &Job{Row: *row, ClaimID: c.id, Number: row.Attempt + 1, ClaimedAt: c.now})
	return !row.Solo && len(out.Jobs) < c.req.Limit
}

// tooOld asks the source for a record's present state, or ends the job.
func (c *claiming) tooOld(row *Row, f *Flow, out *Claimed) {
	o := connectors.Fail(connectors.Expired, "max_age", "older than max_age %s", f.MaxAge)
	row.LastClass, row.LastCode, row.LastAt = o.Class, o.Code, c.now
	if f.CanRefresh && row.SourceID != "" {
		out.Refreshed++
		if row.Reason != ReasonRefresh {
			o.Message += "; superseded by the record's present state, which the source is asked for"
			c.history = append(c.history, entry(row.RowID, row.Attempt, row.Generation, c.now, o))
		}
		row.LastMessage = clip(o.Message)
		row.Reason, row.DueAt = ReasonRefresh, c.now.Add(refreshEvery)
		c.requests = append(c.requests, Request{Client: f.SourceClient, Flow: f.Name, SourceID: row.SourceID,
			Kind: Refresh, Key: row.Key, At: c.now, DueAt: c.now})
	} else {
		out.Expired++
		expireRow(row, f, c.now, o.Code, o.Message+" and its source cannot be asked for one record")
		c.history = append(c.history, entry(row.RowID, row.Attempt, row.Generation, c.now, o))
	}
	c.patches = append(c.patches, *row)
}

func (c *claiming) store(owner string, out *Claimed) error {
	if err := c.tx.PatchRows(c.ctx, c.patches); err != nil {
		return err
	}
	if err := c.tx.AddAttempts(c.ctx, c.history); err != nil {
		return err
	}
	if err := c.tx.AddRequests(c.ctx, c.requests); err != nil {
		return err
	}
	if len(out.Jobs) == 0 {
		return nil
	}
	keys := make([]EntityKey, 0, len(out.Jobs))
	cl := Claim{ID: c.id, Client: c.req.Client, Owner: owner, At: c.now, Open: len(out.Jobs)}
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
	return c.tx.AddClaim(c.ctx, cl)
}

// Recover settles the claims that an ended daemon left behind: each of their
// jobs that is not settled counts one lost attempt and is unresolved, because
// its write may have been sent up to the moment the daemon ended. It must run
// before the first Claim of a client, and only while no other daemon lives.
func (j *Journal) Recover(ctx context.Context, client string, flows map[string]*Flow) (int, error) {
	lost := 0
	err := j.engine.Update(ctx, func(tx Tx) error {
		lost = 0
		cs, err := tx.Claims(ctx, client)
		if err != nil {
			return err
		}
		for _, c := range cs {
			if c.Owner == j.owner {
				continue
			}
			o := connectors.Fail(connectors.Lost, "lost", "the daemon ended while this write was under way; claimed at %s", c.At.Format(time.RFC3339))
			n, err := j.recoverClaim(ctx, tx, c, flows, o)
			if err != nil {
				return err
			}
			lost += n
		}
		return nil
	})
	return lost, wrap(err, "recover the claims of client %s", client)
}

// RecoverOwn takes back claims of this daemon whose commit was never confirmed,
// so that nothing of them was sent. It must be called only while nothing of the
// client is under way.
func (j *Journal) RecoverOwn(ctx context.Context, client string, flows map[string]*Flow) (int, error) {
	n := 0
	err := j.engine.Update(ctx, func(tx Tx) error {
		n = 0
		cs, err := tx.Claims(ctx, client)
		if err != nil {
			return err
		}
		for _, c := range cs {
			if c.Owner != j.owner {
				continue
			}
			m, err := j.recoverClaim(ctx, tx, c, flows, connectors.Fail(connectors.Paused, "unclaimed", "nothing was sent: the claim was not confirmed"))
			if err != nil {
				return err
			}
			n += m
		}
		return nil
	})
	return n, wrap(err, "take back unconfirmed claims of client %s", client)
}

func (j *Journal) recoverClaim(ctx context.Context, tx Tx, c Claim, flows map[string]*Flow, o connectors.Outcome) (int, error) {
	ids := make([]RowID, len(c.Jobs))
	byID := make(map[RowID]ClaimedJob, len(c.Jobs))
	for i, cj := range c.Jobs {
		ids[i], byID[cj.RowID] = cj.RowID, cj
	}
	rows, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return 0, err
	}
	now := j.Now()
	var patches []Row
	var history []Attempt
	for i := range rows {
		row, cj := &rows[i], byID[rows[i].RowID]
		if row.Attempt >= cj.Attempt {
			continue
		}
		f := flows[row.Flow]
		if f == nil {
			f = &Flow{Name: row.Flow, Retry: DefaultRetry()}
		}
		jb := &Job{Row: Row{RowID: row.RowID, Generation: cj.Generation, Hash: cj.Hash, Gone: cj.Gone}, Number: cj.Attempt}
		s := &settling{now: now, rnd: j.rnd, row: row, s: Settlement{Job: jb, Flow: f, Outcome: o, SentAt: now, Batch: true}}
		s.settle()
		patches = append(patches, *row)
		history = append(history, entry(row.RowID, cj.Attempt, cj.Generation, now, o))
	}
	if err := tx.PatchRows(ctx, patches); err != nil {
		return 0, err
	}
	if err := tx.AddAttempts(ctx, history); err != nil {
		return 0, err
	}
	_, err = tx.ReduceClaim(ctx, c.ID, c.Owner, c.Open)
	return len(patches), err
}

// NextDue returns when the next job of a client is due; zero when none is open.
func (j *Journal) NextDue(ctx context.Context, client string) (t time.Time, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		t, err = tx.NextDue(ctx, client)
		return err
	})
	return t, wrap(err, "find the next due job of client %s", client)
}
