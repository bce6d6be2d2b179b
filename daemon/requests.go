package daemon

import (
	"context"
	"errors"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// serveRequests answers durable wishes for the present state of a source's
// records: a job too old to be sent, a dead letter that is to be mapped again. When
// none is left it rests.
func (d *Daemon) serveRequests(soft context.Context, c *client, plan *Plan, repeats map[string]*repeat, wake func(string), rests *rester) {
	for soft.Err() == nil {
		if c.open(soft) != nil {
			return
		}
		rs, err := d.journal.Requests(soft, c.name, 50)
		if err != nil && soft.Err() == nil {
			d.log.Warn("reading requests failed", "client", c.name, "error", err)
		}
		served := 0
		for _, r := range rs {
			if soft.Err() != nil {
				return
			}
			if !d.serve(soft, c, plan, repeats, r, wake) {
				break
			}
			served++
		}
		if served < 50 {
			// What is due by then, or could not be answered now, is found by run.look.
			rests.idle(soft, longestIdle)
		}
	}
}

// serve answers one request; it returns false when the client cannot be asked now.
func (d *Daemon) serve(ctx context.Context, c *client, plan *Plan, repeats map[string]*repeat, r jobs.Request, wake func(string)) bool {
	f := plan.Flows[r.Flow]
	if f == nil || f.SourceClient != c.name {
		return d.putOff(ctx, r, time.Hour)
	}
	defer repeats[f.Name].hold()()
	fs, err := d.journal.Cursor(ctx, f.Name)
	if err != nil {
		d.log.Warn("reading the cursor failed", "flow", r.Flow, "error", err)
		return false
	}
	ev, observed, err := d.present(ctx, c, f, r)
	var e *connectors.Error
	switch {
	case errors.Is(err, errNothing):
		if err := d.journal.DropRequest(ctx, r.ID); err != nil {
			d.log.Warn("removing a request failed", "flow", r.Flow, "key", r.Key, "error", err)
		}
		return true
	case errors.As(err, &e) && e.Class == connectors.Invalid:
		d.log.Warn("the source cannot give a record that was asked for", "flow", r.Flow, "key", r.Key, "error", err)
		return d.putOff(ctx, r, 10*time.Minute)
	case errors.Is(err, errClosed), e != nil && (e.Class == connectors.Paused || e.Class == connectors.Throttled):
		return false // the request stays due until the client may be called again
	case err != nil:
		if ctx.Err() == nil {
			d.log.Warn("reading a record again failed", "flow", r.Flow, "key", r.Key, "error", err)
			d.putOff(ctx, r, 10*time.Second)
		}
		return false
	}
	page := connectors.Page{Events: []connectors.Event{ev}, Observed: observed, ServerTime: ev.ServerTime}
	it := d.mapEvent(ctx, f, page, ev)
	// An errand over all records asks for none by its key, and what has not changed by
	// it is not written again.
	it.Refresh = r.Kind == jobs.Refresh || r.Key != ""
	items := []jobs.Item{it}
	sum, err := d.journal.Admit(ctx, jobs.Admission{Flow: &f.Flow, Epoch: fs.Epoch, Items: items, Requests: []int64{r.ID}})
	if err != nil {
		d.log.Warn("admitting a record that was asked for failed", "flow", r.Flow, "key", r.Key, "error", err)
		return d.putOff(ctx, r, time.Minute)
	}
	d.admitted(f, sum)
	d.deadLetters(f, items, 0)
	wake(f.Client)
	return true
}

func (d *Daemon) putOff(ctx context.Context, r jobs.Request, by time.Duration) bool {
	if err := d.journal.PostponeRequest(ctx, r.ID, by); err != nil && ctx.Err() == nil {
		d.log.Warn("putting off a request failed", "flow", r.Flow, "key", r.Key, "error", err)
	}
	return true
}

// errNothing says that a request has become pointless.
var errNothing = errors.New("nothing to do")

// present reads a record's present state: from the source if it can be asked
// for one record, else, to map an event again, from the journal.
func (d *Daemon) present(ctx context.Context, c *client, f *FlowPlan, r jobs.Request) (connectors.Event, time.Time, error) {
	observed := d.journal.Now()
	if f.Source.CanFetch {
		var ev connectors.Event
		err := c.read(ctx, func(ctx context.Context) (err error) {
			ev, err = c.source.Fetch(ctx, f.Stream, r.SourceID)
			return err
		}, r.SourceID)
		return ev, observed, err
	}
	det, ok, err := d.journal.Get(ctx, jobs.RowID{Flow: r.Flow, Key: r.Key})
	if err != nil {
		return connectors.Event{}, observed, err
	}
	row := &det.Row
	if !ok || r.Kind != jobs.Remap || !row.Unmapped() || row.Unread() || row.State != jobs.Dead || len(row.Body) == 0 {
		return connectors.Event{}, observed, errNothing
	}
	// It is as old as it was when it was read, so that it passes no later reading.
	return connectors.Event{SourceID: row.SourceID, Version: row.Desired.Version, Versioned: true, ChangedAt: row.ChangedAt,
		Body: row.Body}, row.Desired.Observed, nil
}
