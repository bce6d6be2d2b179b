package jobs

import (
	"context"
	"time"
)

// Detail is everything the journal knows of one row.
type Detail struct {
	Row Row
	// Running names the attempt under way; nil when none is.
	Running *ClaimedJob
	// RunningSince is when its claim was made.
	RunningSince time.Time
	Link         string
	Contenders   []Contender
	Attempts     []Attempt
	Source       *SourceRecord
	// Newer, Heir and Suspended are those of Surroundings.
	Newer, Heir *Row
	Suspended   Standing
}

// Get returns one row with its history; ok is false when there is none.
func (j *Journal) Get(ctx context.Context, id RowID) (d Detail, ok bool, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		rows, err := tx.Rows(ctx, []RowID{id}, true)
		if err != nil || len(rows) == 0 {
			return err
		}
		ok = true
		d = Detail{Row: rows[0]}
		if d.Attempts, err = tx.Attempts(ctx, id, 50); err != nil {
			return err
		}
		ls, err := tx.Links(ctx, d.Row.Client, []EntityKey{d.Row.EntityKey()})
		if err != nil {
			return err
		}
		if len(ls) > 0 {
			d.Link = ls[0].Link
		}
		if d.Contenders, err = tx.Contenders(ctx, id.Flow, []string{id.Key}); err != nil {
			return err
		}
		if d.Row.SourceID != "" {
			srcs, err := tx.Sources(ctx, id.Flow, []string{d.Row.SourceID})
			if err != nil {
				return err
			}
			if len(srcs) > 0 {
				d.Source = &srcs[0]
			}
		}
		if err := d.newer(ctx, tx); err != nil {
			return err
		}
		if err := d.held(ctx, tx); err != nil {
			return err
		}
		return d.running(ctx, tx)
	})
	return d, ok, wrap(err, "read %s", id)
}

// held finds what holds a ready row up beyond itself and its client.
func (d *Detail) held(ctx context.Context, tx Tx) error {
	if d.Row.State != Ready {
		return nil
	}
	fs, err := tx.LockFlow(ctx, d.Row.Flow) // in a View it only reads
	if err != nil {
		return err
	}
	d.Suspended = fs.Suspended
	d.Heir, _, err = d.Row.heir(func(id RowID) (*Row, error) {
		rows, err := tx.Rows(ctx, []RowID{id}, false)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return &rows[0], nil
	})
	return err
}

// Surround reads a row and all that decides over it; ok is false when there is no
// such row.
func (j *Journal) Surround(ctx context.Context, id RowID, flows map[string]*Flow) (d Detail, s Surroundings, ok bool, err error) {
	if d, ok, err = j.Get(ctx, id); err != nil || !ok {
		return d, s, ok, err
	}
	s = Surroundings{Running: d.Running, RunningSince: d.RunningSince, Flow: flows[id.Flow],
		Suspended: d.Suspended, Heir: d.Heir, Newer: d.Newer}
	clients, err := j.Clients(ctx)
	if err != nil {
		return d, s, ok, err
	}
	s.Target.Client = d.Row.Client
	for _, cs := range clients {
		if cs.Client == d.Row.Client {
			s.Target = cs
		}
		if s.Flow != nil && cs.Client == s.Flow.SourceClient {
			s.Source = cs
		}
	}
	for _, n := range d.Contenders {
		s.Claimants = append(s.Claimants, n.SourceID)
	}
	if s.Ahead, err = j.Ahead(ctx, &d.Row, s.Flow); err != nil {
		return d, s, ok, err
	}
	err = j.engine.View(ctx, func(tx Tx) error {
		if s.Redelivered, err = redelivered(ctx, tx, d.Row.Client, flows); err != nil {
			return err
		}
		rs, err := restores(ctx, tx)
		s.Restored = rs[d.Row.Flow]
		return err
	})
	if err != nil {
		return d, s, ok, wrap(err, "read what was restored of flow %s and client %s", d.Row.Flow, d.Row.Client)
	}
	if s.Await, err = j.Awaited(ctx, d.Row, flows); err != nil {
		return d, s, ok, err
	}
	if s.Flow != nil {
		s.Asked, err = j.Asked(ctx, &d.Row, s.Flow.SourceClient)
	}
	return d, s, ok, err
}

// newer finds the dead row that stands for the newest state of a done row's
// source record.
func (d *Detail) newer(ctx context.Context, tx Tx) error {
	if d.Row.State != Done || d.Source == nil {
		return nil
	}
	var ids []RowID
	for _, k := range d.Source.Keys {
		if k != d.Row.Key {
			ids = append(ids, RowID{d.Row.Flow, k})
		}
	}
	rows, err := tx.Rows(ctx, ids, false)
	for i := range rows {
		r := &rows[i]
		if r.State == Dead && r.SourceID == d.Row.SourceID && (r.Reason == ReasonRenamed || r.Reason == ReasonMapping) {
			d.Newer = r
		}
	}
	return err
}

// mostAsked bounds the requests to one client among which a row's is looked for.
const mostAsked = 10_000

// Asked returns what a source client was asked for a row and has not answered yet;
// nil for nothing.
func (j *Journal) Asked(ctx context.Context, row *Row, sourceClient string) (r *Request, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		r = nil
		rs, err := tx.Requests(ctx, sourceClient, endOfTime, mostAsked)
		for i := range rs {
			if rs[i].Flow == row.Flow && rs[i].Key == row.Key && rs[i].SourceID == row.SourceID {
				r = &rs[i]
				break
			}
		}
		return err
	})
	return r, wrap(err, "read what client %s is asked for %s", sourceClient, row.RowID)
}

// endOfTime is later than whatever is due, and not too late for an engine.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *Detail) running(ctx context.Context, tx Tx) error {
	cs, err := tx.Claims(ctx, d.Row.Client)
	if err != nil {
		return err
	}
	for _, c := range cs {
		for i, cj := range c.Jobs {
			if cj.RowID == d.Row.RowID && cj.Attempt > d.Row.Attempt {
				d.Running, d.RunningSince = &c.Jobs[i], c.At
			}
		}
	}
	return nil
}

// List returns rows that match, without bodies, and which of them are running.
func (j *Journal) List(ctx context.Context, f Filter) (rows []Row, running map[RowID]bool, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		if rows, err = tx.List(ctx, f); err != nil {
			return err
		}
		running, err = claimed(ctx, tx, rows)
		return err
	})
	return rows, running, wrap(err, "list rows")
}

// Claimants returns the source records that claim the keys of rows which others own,
// by row; rows without any are left out.
func (j *Journal) Claimants(ctx context.Context, rows []Row) (out map[RowID][]string, err error) {
	keys := map[string][]string{}
	for i := range rows {
		keys[rows[i].Flow] = append(keys[rows[i].Flow], rows[i].Key)
	}
	err = j.engine.View(ctx, func(tx Tx) error {
		out = map[RowID][]string{}
		for flow, ks := range keys {
			cs, err := tx.Contenders(ctx, flow, ks)
			if err != nil {
				return err
			}
			for _, c := range cs {
				out[c.RowID] = append(out[c.RowID], c.SourceID)
			}
		}
		return nil
	})
	return out, wrap(err, "read who claims the keys of %d rows", len(rows))
}

// Overview is the journal at a glance.
type Overview struct {
	At         time.Time
	Counts     []Count
	Flows      []FlowState
	Clients    []ClientState
	Daemons    []Daemon
	Leases     []Lease
	Contenders map[string]int
	// Redelivered names the flows that are being redelivered.
	Redelivered []string
	// Running counts the jobs under way by target client.
	Running map[string]int
	Meta    map[string]string
}

// Overview reads the journal at a glance.
func (j *Journal) Overview(ctx context.Context) (o Overview, err error) {
	o.At = j.Now()
	err = j.engine.View(ctx, func(tx Tx) error {
		if o.Counts, err = tx.Counts(ctx, o.At); err != nil {
			return err
		}
		if o.Flows, err = tx.Flows(ctx); err != nil {
			return err
		}
		if o.Clients, err = tx.Clients(ctx); err != nil {
			return err
		}
		if o.Daemons, err = tx.Daemons(ctx); err != nil {
			return err
		}
		if o.Leases, err = tx.Leases(ctx); err != nil {
			return err
		}
		if o.Contenders, err = tx.CountContenders(ctx); err != nil {
			return err
		}
		if o.Meta, err = tx.Meta(ctx); err != nil {
			return err
		}
		if o.Redelivered, err = tx.RunFlows(ctx, RunRedeliver); err != nil {
			return err
		}
		cs, err := tx.Claims(ctx, "")
		o.Running = map[string]int{}
		for _, c := range cs {
			o.Running[c.Client] += c.Open
		}
		return err
	})
	return o, wrap(err, "read the overview")
}
