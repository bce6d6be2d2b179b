package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
	"syncd/ratelimit"
)

// Journal speaks the verbs of a job's life over an engine's rows.
type Journal struct {
	engine Engine
	owner  string
	rnd    func() float64
	holds  holds

	refusals refusals
	expiries expiries
}

// Options of a journal.
type Options struct {
	// Owner names this daemon in claims; random per start.
	Owner string
	// Rand returns a number in [0, 1); nil for a random one.
	Rand func() float64
}

// New returns a journal over an engine.
func New(e Engine, o Options) *Journal {
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return &Journal{engine: e, owner: o.Owner, rnd: o.Rand}
}

// Now is the journal's own time.
func (j *Journal) Now() time.Time { return j.engine.Now() }

// Owner is the name under which this journal claims.
func (j *Journal) Owner() string { return j.owner }

// Describe names the engine and its place, without credentials.
func (j *Journal) Describe() string { return j.engine.Describe() }

// Close closes the engine.
func (j *Journal) Close() error { return j.engine.Close() }

// Cursor returns how far a flow has read.
func (j *Journal) Cursor(ctx context.Context, flow string) (FlowState, error) {
	var s FlowState
	err := j.engine.View(ctx, func(tx Tx) (err error) {
		s, err = tx.LockFlow(ctx, flow)
		return err
	})
	return s, wrap(err, "read the cursor of flow %s", flow)
}

// BeginPage counts durably that the mapping of the page after the flow's
// cursor begins, so that a mapping which kills the process is found. suspect
// says what is suspected when events are mapped alone; "" leaves what is noted,
// until the page is admitted. It returns the state before this beginning.
func (j *Journal) BeginPage(ctx context.Context, flow, suspect string) (FlowState, error) {
	var before FlowState
	err := j.engine.Update(ctx, func(tx Tx) error {
		s, err := tx.LockFlow(ctx, flow)
		if err != nil {
			return err
		}
		before = s
		s.PageStarts++
		if suspect != "" {
			s.Suspect = suspect
		}
		return tx.SaveFlow(ctx, s)
	})
	return before, wrap(err, "note the start of a page of flow %s", flow)
}

// PageGivenUp takes back one beginning that BeginPage counted: the process lives,
// and the page was not admitted for another reason. suspect is as in BeginPage.
func (j *Journal) PageGivenUp(ctx context.Context, flow, suspect string) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		s, err := tx.LockFlow(ctx, flow)
		if err != nil || s.PageStarts == 0 {
			return err
		}
		s.PageStarts--
		if suspect != "" {
			s.Suspect = suspect
		}
		return tx.SaveFlow(ctx, s)
	})
	return wrap(err, "note the end of a page of flow %s", flow)
}

// PutLink stores what the target calls a job's record, while the job is being written.
// It is committed when it returns. Whoever writes a job that another daemon has given
// up for lost meanwhile is told so by an error, unless nothing has become of the row
// since: the key may be another record's by then, or the target restored from a backup.
func (j *Journal) PutLink(ctx context.Context, jb *Job, link string) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		load := func(id RowID) (*Row, error) { return oneRow(ctx, tx, id) }
		row, err := load(jb.RowID)
		if err != nil {
			return err
		}
		if (row == nil || !row.still(jb)) && !mutant.On("late-link") {
			return fmt.Errorf("the write was given up for lost, and the key may be another record's by now")
		}
		k := jb.EntityKey()
		if row != nil && row.Generation > jb.Generation && !mutant.On("link-of-another") {
			heir, _, err := row.heir(load)
			if err != nil {
				return err
			}
			if heir != nil {
				k = heir.EntityKey() // the record is to have that key, and another one may be to have this
			}
		}
		if err := tx.PutLinks(ctx, jb.Client, []Link{{EntityKey: k, Link: link, SeenAt: j.Now()}}); err != nil {
			return err
		}
		_, err = tx.Wake(ctx, jb.Client, []EntityKey{k}, j.Now())
		return err
	})
	return wrap(err, "store the link of %s", jb.RowID)
}

// oneRow returns a row, held; nil when there is none.
func oneRow(ctx context.Context, tx Tx, id RowID) (*Row, error) {
	rows, err := tx.Rows(ctx, []RowID{id}, false)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// still reports whether what stands under the row's key in the target is what the job
// found or made there. Until the job is settled or given up for lost it is: whatever
// has come to the row meanwhile waits for that.
func (r *Row) still(jb *Job) bool {
	_, moved := r.movedTo()
	return r.Attempt < jb.Number || r.Attempt == jb.Number && r.Generation == jb.Generation && r.KeyEpoch == jb.KeyEpoch && !moved
}

// Links returns the known links of records of a client.
func (j *Journal) Links(ctx context.Context, client string, keys []EntityKey) (map[EntityKey]string, error) {
	out := make(map[EntityKey]string, len(keys))
	if len(keys) == 0 {
		return out, nil
	}
	err := j.engine.View(ctx, func(tx Tx) error {
		ls, err := tx.Links(ctx, client, keys)
		for _, l := range ls {
			out[l.EntityKey] = l.Link
		}
		return err
	})
	return out, wrap(err, "read links of client %s", client)
}

// SavePause stores a client's pause; it makes Journal a ratelimit.Store. A pause that a
// person has made is shortened by nobody who runs the client: a gate that has not heard
// of it yet leaves it, and its own is kept beneath it. Nor does what a breaker says take the place of a pause of another
// reason that holds. What is stored one after the other has different times, by which
// others tell it apart.
func (j *Journal) SavePause(ctx context.Context, client string, p ratelimit.Pause) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		if err := j.fenceAny(ctx, tx, client); err != nil {
			return err
		}
		// Whoever else stores one waits here, and sees this one then.
		now, err := j.lockPause(ctx, tx, client)
		if err != nil {
			return err
		}
		if j.joined() && now.was.Owner != j.owner && now.operator() && now.was.PausedUntil.After(p.Until) {
			return now.note(ctx, tx, client, p)
		}
		if p.Reason == ratelimit.ReasonBreaker && now.was.PausedUntil.After(now.now) && now.was.Reason != ratelimit.ReasonBreaker {
			return nil // a pause says more, and was stored while the breaker changed
		}
		return tx.PutPause(ctx, j.stateOf(client, p, now.at))
	})
	return wrap(err, "store the pause of client %s", client)
}

// pausedBy names the fact that orders what is stored of a client's pause.
func pausedBy(client string) string { return "paused_by/" + client }

// Clients returns what is stored of all clients' gates.
func (j *Journal) Clients(ctx context.Context) (cs []ClientState, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		cs, err = tx.Clients(ctx)
		return err
	})
	return cs, wrap(err, "read the clients' pauses")
}

// micro brings a time to what the journal can hold: UTC and microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{fmt.Errorf("journal: "+format+": %w", append(args, err)...)}
}

// Error is a failed verb of the journal: what was tried, and why it failed.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// clip cuts a message to what the journal keeps of it.
func clip(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	r := []rune(s)
	for len(string(r)) > most-3 {
		r = r[:len(r)-max(1, (len(string(r))-most)/4)]
	}
	return string(r) + "..."
}

// entry makes a history entry of an outcome.
func entry(id RowID, number, gen int64, at time.Time, o connectors.Outcome) Attempt {
	return Attempt{RowID: id, Number: number, Generation: gen, At: at, Class: o.Class, Code: o.Code, Message: clip(o.Message)}
}

var _ = json.RawMessage(nil)
