package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// Rows implements jobs.Tx.
func (t *tx) Rows(_ context.Context, ids []jobs.RowID, bodies bool) ([]jobs.Row, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Row
	for _, id := range stored.RowIDs(ids) {
		if r, ok := t.s.rows.get(rowKey(id)); ok {
			out = append(out, rowOut(r, bodies))
		}
	}
	return out, nil
}

// PutRows implements jobs.Tx.
func (t *tx) PutRows(_ context.Context, rows []jobs.Row) error {
	return t.storeRows(rows, func(r *jobs.Row, _ *jobs.Row) bool {
		r.Body = blob(r.Body)
		return true
	})
}

// PatchRows implements jobs.Tx.
func (t *tx) PatchRows(_ context.Context, rows []jobs.Row) error {
	return t.storeRows(rows, func(r *jobs.Row, old *jobs.Row) bool {
		if old != nil {
			r.Body = old.Body
		}
		return old != nil
	})
}

// CloseRows implements jobs.Tx.
func (t *tx) CloseRows(_ context.Context, client string, cs []jobs.Closing, now time.Time) (closed []jobs.RowID, rest []jobs.Row, err error) {
	if err := t.writes(); err != nil {
		return nil, nil, err
	}
	for _, c := range cs {
		r, ok := t.s.rows.get(rowKey(c.RowID))
		switch {
		case !ok:
		case c.Fits(client, r):
			done := *r
			c.Close(&done, moment(now))
			t.s.setRow(t.edit, &done)
			closed = append(closed, c.RowID)
		default:
			rest = append(rest, rowOut(r, false))
		}
	}
	return closed, rest, nil
}

// storeRows stores those of rows for which decide says so, the last of equal ones.
// decide gets the row that is there, or nil, and sets the body.
func (t *tx) storeRows(rows []jobs.Row, decide func(r, old *jobs.Row) bool) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, given := range stored.Rows(rows) {
		err := stored.FitRow(&given)
		r := rowIn(given)
		old, _ := t.s.rows.get(rowKey(r.RowID))
		if err == nil && decide(r, old) {
			if err = fit(r); err == nil {
				t.s.setRow(t.edit, r)
			}
		}
		if err != nil {
			return t.fail(err, "store row %s", given.RowID)
		}
	}
	return nil
}

// fit refuses what the durable engines cannot store.
func fit(r *jobs.Row) error {
	switch r.State {
	case jobs.Ready, jobs.Done, jobs.Dead, jobs.Held:
	default:
		return fmt.Errorf("there is no state %q", r.State)
	}
	if n := len(r.Body); n > stored.MaxBody {
		return fmt.Errorf("%w: it has %d bytes", stored.ErrTooLarge, n)
	}
	return nil
}

// Due implements jobs.Tx. Of rows that are due at the same time the first by flow
// and key comes first.
func (t *tx) Due(_ context.Context, lane jobs.LaneID, now time.Time, limit int) ([]jobs.Row, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first, end := dueKey{lane: laneOf(lane), at: math.MinInt64}, now.UnixMicro()
	var out []jobs.Row
	for k, r := range t.s.due.from(first) {
		if k.lane != first.lane || k.at > end || len(out) >= limit {
			break
		}
		out = append(out, rowOut(r, true))
	}
	return out, nil
}

// NextDue implements jobs.Tx.
func (t *tx) NextDue(_ context.Context, lanes []jobs.LaneID) ([]time.Time, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	next := make([]time.Time, len(lanes))
	for i, lane := range lanes {
		first := dueKey{lane: laneOf(lane), at: math.MinInt64}
		for k, r := range t.s.due.from(first) {
			if k.lane == first.lane {
				next[i] = r.DueAt
			}
			break
		}
	}
	return next, nil
}

// Wake implements jobs.Tx.
func (t *tx) Wake(_ context.Context, client string, keys []jobs.EntityKey, now time.Time) (int, error) {
	if err := t.writes(); err != nil {
		return 0, err
	}
	var waiting []*jobs.Row
	for _, k := range stored.EntityKeys(keys) {
		first := quint{id(client), id(k.Entity), id(k.Key)}
		waiting = append(waiting, among(&t.s.waiting, first, func(q quint) bool { return [3]string(q[:3]) == [3]string(first[:3]) }, same)...)
	}
	for _, r := range waiting {
		woken := *r
		woken.DueAt = moment(now)
		t.s.setRow(t.edit, &woken)
	}
	return len(waiting), nil
}

// Reshard implements jobs.Tx.
func (t *tx) Reshard(_ context.Context, client string, shards, limit int) (int, error) {
	if err := t.writes(); err != nil {
		return 0, err
	}
	lane := laneKey{id(client), math.MinInt}
	var astray []*jobs.Row
	for k, r := range t.s.due.from(dueKey{lane: lane, at: math.MinInt64}) {
		if k.lane.client != lane.client || len(astray) >= limit {
			break
		}
		if r.Shard != jobs.ShardOf(r.EntityKey(), shards) {
			astray = append(astray, r)
		}
	}
	for _, r := range astray {
		moved := *r
		moved.Shard = jobs.ShardOf(r.EntityKey(), shards)
		t.s.setRow(t.edit, &moved)
	}
	return len(astray), nil
}

// DropBodies implements jobs.Tx.
func (t *tx) DropBodies(_ context.Context, ids []jobs.RowID) (n int, err error) {
	if err := t.writes(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if r, ok := t.s.rows.get(rowKey(id)); ok && r.Body != nil {
			bare := *r
			bare.Body = nil
			t.s.setRow(t.edit, &bare)
			n++
		}
	}
	return n, nil
}

// CountReady implements jobs.Tx.
func (t *tx) CountReady(_ context.Context, flow string, most int) (int, error) {
	if err := t.reads(); err != nil {
		return 0, err
	}
	n, _ := t.s.ready.get(text(id(flow)))
	return min(n, most), nil
}

// Heads implements jobs.Tx.
func (t *tx) Heads(_ context.Context, flow string, groups []string, passed ...jobs.State) ([]jobs.Row, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Row
	for _, g := range stored.Strings(groups) {
		first := headKey{flow: id(flow), group: id(g), epoch: math.MinInt64, version: math.MinInt64, observed: math.MinInt64}
		for k, r := range t.s.heads.from(first) {
			if k.flow != first.flow || k.group != first.group {
				break
			}
			if !slices.Contains(passed, r.State) {
				out = append(out, rowOut(r, false))
				break
			}
		}
	}
	return out, nil
}

// Groups implements jobs.Tx.
func (t *tx) Groups(_ context.Context, flow string, groups []string) ([]jobs.Group, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Group
	for _, name := range stored.Strings(groups) {
		if g, ok := t.s.groups.get(pair{id(flow), id(name)}); ok {
			out = append(out, g)
		}
	}
	return out, nil
}

// PutGroups implements jobs.Tx.
func (t *tx) PutGroups(_ context.Context, gs []jobs.Group) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, g := range gs {
		if err := stored.Fit(g.Name, g.SentKey); err != nil {
			return t.fail(err, "store group %s of flow %s", g.Name, g.Flow)
		}
		t.s.groups.put(t.edit, pair{id(g.Flow), id(g.Name)}, groupIn(g))
	}
	return nil
}
