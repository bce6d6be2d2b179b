package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

const flowColumns = `flow, cursor, epoch, page_starts, suspect, moved_at, read_at,
	failing_since, fail_class, fail_code, fail_message, more`

func readFlow(v row) (jobs.FlowState, error) {
	var in stored.ReadIDs
	s := jobs.FlowState{Flow: in.ID(v.text(0)), Epoch: v.int(2), PageStarts: int(v.int(3)), Suspect: in.ID(v.text(4)),
		MovedAt: v.time(5), ReadAt: v.time(6),
		Failing: jobs.Failing{Since: v.time(7), Class: connectors.Class(v.text(8)), Code: v.text(9), Message: v.text(10)}}
	if v[1] != nil {
		s.Cursor = json.RawMessage(in.ID(v.text(1)))
	}
	if in.Err != nil {
		return s, in.Err
	}
	return s, stored.ReadFlowMore(v.text(11), &s)
}

// LockFlow implements jobs.Tx. The one writer holds every flow.
func (t *tx) LockFlow(ctx context.Context, flow string) (jobs.FlowState, error) {
	s := jobs.FlowState{Flow: flow}
	if t.write {
		if _, err := t.exec(ctx, `INSERT INTO cursors (flow, epoch, page_starts, suspect) VALUES (?, 0, 0, '')
			ON CONFLICT DO NOTHING`, id(flow)); err != nil {
			return s, fmt.Errorf("hold flow %s: %w", flow, err)
		}
	}
	err := t.query(ctx, `SELECT `+flowColumns+` FROM cursors WHERE flow = ?`, []any{id(flow)}, func(v row) (err error) {
		s, err = readFlow(v)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("read the state of flow %s: %w", flow, err)
	}
	return s, nil
}

// SaveFlow implements jobs.Tx.
func (t *tx) SaveFlow(ctx context.Context, s jobs.FlowState) error {
	var cursor any
	if s.Cursor != nil {
		cursor = id(string(s.Cursor))
	}
	more, err := stored.FlowMore(&s)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `INSERT INTO cursors (`+flowColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (flow) DO UPDATE SET cursor = excluded.cursor, epoch = excluded.epoch, page_starts = excluded.page_starts,
		suspect = excluded.suspect, moved_at = excluded.moved_at, read_at = excluded.read_at, failing_since = excluded.failing_since,
		fail_class = excluded.fail_class, fail_code = excluded.fail_code, fail_message = excluded.fail_message,
		more = excluded.more`,
		id(s.Flow), cursor, s.Epoch, int64(s.PageStarts), id(s.Suspect), stamp(s.MovedAt), stamp(s.ReadAt),
		stamp(s.Failing.Since), string(s.Failing.Class), stored.Message(s.Failing.Code), stored.Message(s.Failing.Message), more)
	if err != nil {
		return fmt.Errorf("store the state of flow %s: %w", s.Flow, err)
	}
	return nil
}

// Flows implements jobs.Tx.
func (t *tx) Flows(ctx context.Context) (out []jobs.FlowState, err error) {
	err = t.query(ctx, `SELECT `+flowColumns+` FROM cursors ORDER BY flow`, nil, func(v row) error {
		s, err := readFlow(v)
		out = append(out, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the states of all flows: %w", err)
	}
	return out, nil
}

const sourceColumns = `s.id, s.epoch, s.version, s.observed, s.gone, s.keys`

func readSource(v row) (jobs.SourceRecord, error) {
	var in stored.ReadIDs
	r := jobs.SourceRecord{ID: in.ID(v.text(0)),
		Stamp: connectors.Stamp{Epoch: v.int(1), Version: v.int(2), Observed: v.time(3)}, Gone: v.bool(4)}
	if in.Err != nil {
		return r, in.Err
	}
	var err error
	if r.Keys, err = stored.ParseKeys(v.text(5)); err != nil {
		return r, fmt.Errorf("source record %s: %w", r.ID, err)
	}
	return r, nil
}

// Sources implements jobs.Tx.
func (t *tx) Sources(ctx context.Context, flow string, ids []string) ([]jobs.SourceRecord, error) {
	out := make([]jobs.SourceRecord, 0, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	ids = stored.Strings(ids)
	err := t.query(ctx, `SELECT `+sourceColumns+`
		FROM json_each(?2) k CROSS JOIN sources s ON s.flow = ?1 AND s.id = k.value`,
		[]any{id(flow), list(ids)}, func(v row) error {
			r, err := readSource(v)
			out = append(out, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read %d source records of flow %s: %w", len(ids), flow, err)
	}
	if t.write {
		named := make([]jobs.RowID, len(ids))
		for i := range ids {
			named[i] = jobs.RowID{Flow: flow, Key: ids[i]}
		}
		stored.Note(t.absentSources, named, out, sourceOf(flow))
	}
	return out, nil
}

// sourceOf names a source record among those that are absent.
func sourceOf(flow string) func(*jobs.SourceRecord) jobs.RowID {
	return func(r *jobs.SourceRecord) jobs.RowID { return jobs.RowID{Flow: flow, Key: r.ID} }
}

// addSources adds source records that are not there.
var addSources = `INSERT INTO sources (flow, epoch, observed, gone, id, version, keys) VALUES ` +
	times(many, func(int) string { return "(?1, ?2, ?3, ?4, ?, ?, ?)" })

// addSources adds source records that are not there, many at a time, and returns
// those that are left.
func (t *tx) addSources(ctx context.Context, flow string, rs []jobs.SourceRecord) (left []jobs.SourceRecord, err error) {
	for len(rs) > 0 {
		first, n := &rs[0], 1
		for n < min(many, len(rs)) && rs[n].Stamp.Epoch == first.Stamp.Epoch && rs[n].Stamp.Observed.Equal(first.Stamp.Observed) && rs[n].Gone == first.Gone {
			n++
		}
		if n < many {
			left, rs = append(left, rs[:n]...), rs[n:]
			continue
		}
		args := append(make([]any, 0, 4+3*many), id(flow), first.Stamp.Epoch, stamp(first.Stamp.Observed), first.Gone)
		for i := range rs[:many] {
			if err := stored.Fit(rs[i].ID); err != nil {
				return nil, fmt.Errorf("store source record %s of flow %s: %w", rs[i].ID, flow, err)
			}
			args = append(args, id(rs[i].ID), rs[i].Stamp.Version, stored.Keys(rs[i].Keys))
		}
		if _, err := t.exec(ctx, addSources, args...); err != nil {
			return nil, fmt.Errorf("store %d source records of flow %s: %w", many, flow, err)
		}
		rs = rs[many:]
	}
	return left, nil
}

// PutSources implements jobs.Tx.
func (t *tx) PutSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	fresh, rs := stored.Part(t.absentSources, stored.Sources(rs), sourceOf(flow))
	fresh, err := t.addSources(ctx, flow, fresh)
	if err != nil {
		return err
	}
	if err := t.putSources(ctx, flow, fresh); err != nil {
		return err
	}
	return t.putSources(ctx, flow, rs)
}

func (t *tx) putSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	for _, r := range rs {
		err := stored.Fit(r.ID)
		if err == nil {
			_, err = t.exec(ctx, `INSERT INTO sources (flow, id, epoch, version, observed, gone, keys) VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (flow, id) DO UPDATE SET epoch = excluded.epoch, version = excluded.version,
				observed = excluded.observed, gone = excluded.gone, keys = excluded.keys`,
				id(flow), id(r.ID), r.Stamp.Epoch, r.Stamp.Version, stamp(r.Stamp.Observed), r.Gone, stored.Keys(r.Keys))
		}
		if err != nil {
			return fmt.Errorf("store source record %s of flow %s: %w", r.ID, flow, err)
		}
	}
	return nil
}
