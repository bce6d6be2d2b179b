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
	err := t.query(ctx, `SELECT `+sourceColumns+`
		FROM json_each(?2) k CROSS JOIN sources s ON s.flow = ?1 AND s.id = k.value`,
		[]any{id(flow), list(stored.Strings(ids))}, func(v row) error {
			r, err := readSource(v)
			out = append(out, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read %d source records of flow %s: %w", len(ids), flow, err)
	}
	return out, nil
}

// PutSources implements jobs.Tx.
func (t *tx) PutSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	for _, r := range stored.Sources(rs) {
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
