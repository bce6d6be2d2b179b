package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

func readFlow(rows pgx.Rows) (jobs.FlowState, error) {
	var s jobs.FlowState
	var cursor *string
	var more string
	var moved, read, failing pgtype.Timestamptz
	if err := rows.Scan(&s.Flow, &cursor, &s.Epoch, &s.PageStarts, &s.Suspect, &moved, &read,
		&failing, &s.Failing.Class, &s.Failing.Code, &s.Failing.Message, &more); err != nil {
		return s, err
	}
	var in stored.ReadIDs
	s.Flow, s.Suspect, s.MovedAt, s.ReadAt = in.ID(s.Flow), in.ID(s.Suspect), moment(moved), moment(read)
	s.Failing.Since = moment(failing)
	if cursor != nil {
		s.Cursor = json.RawMessage(in.ID(*cursor))
	}
	if in.Err != nil {
		return s, in.Err
	}
	err := stored.ReadFlowMore(more, &s)
	return s, err
}

func (t *tx) readFlows(ctx context.Context, sql string, args ...any) (out []jobs.FlowState, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		s, err := readFlow(rows)
		out = append(out, s)
		return err
	}, sql, args...)
	return out, err
}

// LockFlow implements jobs.Tx.
func (t *tx) LockFlow(ctx context.Context, flow string) (jobs.FlowState, error) {
	s, err := t.lockFlow(ctx, flow)
	if err != nil {
		return s, fmt.Errorf("hold flow %s: %w", flow, err)
	}
	return s, nil
}

func (t *tx) lockFlow(ctx context.Context, flow string) (jobs.FlowState, error) {
	sql := t.q.flow
	if t.write {
		sql = t.q.flowHeld
	}
	// Looked for first: an insert that meets the row costs a write.
	for range 2 {
		found, err := t.readFlows(ctx, sql, stored.ID(flow))
		switch {
		case err != nil:
			return jobs.FlowState{Flow: flow}, err
		case len(found) > 0:
			return found[0], nil
		case !t.write:
			return jobs.FlowState{Flow: flow}, nil
		}
		if _, err := t.exec(ctx, t.q.flowMake, stored.ID(flow)); err != nil {
			return jobs.FlowState{Flow: flow}, err
		}
	}
	return jobs.FlowState{Flow: flow}, fmt.Errorf("its row is not there after it was made")
}

// SaveFlow implements jobs.Tx.
func (t *tx) SaveFlow(ctx context.Context, s jobs.FlowState) error {
	var cursor *string
	if s.Cursor != nil {
		text := stored.ID(string(s.Cursor))
		cursor = &text
	}
	more, err := stored.FlowMore(&s)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, t.q.flowSave, stored.ID(s.Flow), cursor, s.Epoch, int32(s.PageStarts), stored.ID(s.Suspect), stamp(s.MovedAt), stamp(s.ReadAt),
		stamp(s.Failing.Since), string(s.Failing.Class), stored.Message(s.Failing.Code), stored.Message(s.Failing.Message), more)
	if err != nil {
		return fmt.Errorf("store the state of flow %s: %w", s.Flow, err)
	}
	return nil
}

// Flows implements jobs.Tx.
func (t *tx) Flows(ctx context.Context) ([]jobs.FlowState, error) {
	out, err := t.readFlows(ctx, t.q.flows)
	if err != nil {
		return nil, fmt.Errorf("read the states of all flows: %w", err)
	}
	return out, nil
}

// Sources implements jobs.Tx.
func (t *tx) Sources(ctx context.Context, flow string, ids []string) (out []jobs.SourceRecord, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ids = stored.Strings(ids)
	if out, err = t.readSources(ctx, t.q.sources, stored.ID(flow), stored.IDs(ids)); err != nil {
		return nil, fmt.Errorf("read %d source records of flow %s: %w", len(ids), flow, err)
	}
	if t.absent != nil {
		stored.Note(t.absent.sources, column(ids, func(id *string) jobs.RowID { return jobs.RowID{Flow: flow, Key: *id} }), out, sourceOf(flow))
	}
	return out, nil
}

func (t *tx) readSources(ctx context.Context, sql string, args ...any) (out []jobs.SourceRecord, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var r jobs.SourceRecord
		var observed pgtype.Timestamptz
		var keys string
		if err := rows.Scan(&r.ID, &r.Stamp.Epoch, &r.Stamp.Version, &observed, &r.Gone, &keys); err != nil {
			return err
		}
		r.Stamp.Observed = moment(observed)
		if r.ID, err = stored.ParseID(r.ID); err != nil {
			return err
		}
		if r.Keys, err = stored.ParseKeys(keys); err != nil {
			return fmt.Errorf("source record %s: %w", r.ID, err)
		}
		out = append(out, r)
		return nil
	}, sql, args...)
	return out, err
}

// sourceOf names a source record in absent.
func sourceOf(flow string) func(*jobs.SourceRecord) jobs.RowID {
	return func(r *jobs.SourceRecord) jobs.RowID { return jobs.RowID{Flow: flow, Key: r.ID} }
}

// PutSources implements jobs.Tx.
func (t *tx) PutSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	rs = stored.Sources(rs)
	var fresh []jobs.SourceRecord
	if t.absent != nil {
		fresh, rs = stored.Part(t.absent.sources, rs, sourceOf(flow))
	}
	if err := t.putSources(ctx, t.q.sourcesAdd, flow, fresh); err != nil {
		return t.mistaken(err)
	}
	return t.putSources(ctx, t.q.sourcesPut, flow, rs)
}

func (t *tx) putSources(ctx context.Context, sql, flow string, rs []jobs.SourceRecord) error {
	if len(rs) == 0 {
		return nil
	}
	for i := range rs {
		if err := stored.Fit(rs[i].ID); err != nil {
			return fmt.Errorf("store a source record of flow %s: %w", flow, err)
		}
	}
	_, err := t.exec(ctx, sql, stored.ID(flow),
		column(rs, func(r *jobs.SourceRecord) string { return stored.ID(r.ID) }),
		column(rs, func(r *jobs.SourceRecord) int64 { return r.Stamp.Epoch }),
		column(rs, func(r *jobs.SourceRecord) int64 { return r.Stamp.Version }),
		column(rs, func(r *jobs.SourceRecord) pgtype.Timestamptz { return stamp(r.Stamp.Observed) }),
		column(rs, func(r *jobs.SourceRecord) bool { return r.Gone }),
		column(rs, func(r *jobs.SourceRecord) string { return stored.Keys(r.Keys) }))
	if err != nil {
		return fmt.Errorf("store %d source records of flow %s: %w", len(rs), flow, err)
	}
	return nil
}

// Contenders implements jobs.Tx.
func (t *tx) Contenders(ctx context.Context, flow string, keys []string) (out []jobs.Contender, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if out, err = t.readContenders(ctx, t.q.contenders, stored.ID(flow), stored.IDs(stored.Strings(keys))); err != nil {
		return nil, fmt.Errorf("read the contenders for %d keys of flow %s: %w", len(keys), flow, err)
	}
	return out, nil
}

func (t *tx) readContenders(ctx context.Context, sql string, args ...any) (out []jobs.Contender, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		c, err := readContender(rows)
		out = append(out, c)
		return err
	}, sql, args...)
	return out, err
}

func readContender(rows pgx.Rows) (c jobs.Contender, err error) {
	var observed, changed, since pgtype.Timestamptz
	var body []byte
	if err := rows.Scan(&c.Flow, &c.Key, &c.SourceID, &c.Stamp.Epoch, &c.Stamp.Version, &observed, &changed, &c.Hash, &body, &since); err != nil {
		return c, err
	}
	var in stored.ReadIDs
	c.RowID, c.SourceID = jobs.RowID{Flow: in.ID(c.Flow), Key: in.ID(c.Key)}, in.ID(c.SourceID)
	c.Stamp = connectors.Stamp{Epoch: c.Stamp.Epoch, Version: c.Stamp.Version, Observed: moment(observed)}
	c.ChangedAt, c.Since = moment(changed), moment(since)
	if in.Err != nil {
		return c, in.Err
	}
	if c.Body, err = stored.Unpack(body); err != nil {
		return c, fmt.Errorf("contender %s for %s: %w", c.SourceID, c.RowID, err)
	}
	return c, nil
}

// PutContender implements jobs.Tx.
func (t *tx) PutContender(ctx context.Context, c jobs.Contender) error {
	var pack stored.Packer
	body, err := pack.Pack(c.Body)
	if err == nil {
		err = stored.Fit(c.Key, c.SourceID)
	}
	if err == nil {
		_, err = t.exec(ctx, t.q.contenderPut, stored.ID(c.Flow), stored.ID(c.Key), stored.ID(c.SourceID), c.Stamp.Epoch, c.Stamp.Version,
			stamp(c.Stamp.Observed), stamp(c.ChangedAt), blob(c.Hash), blob(body), stamp(c.Since))
	}
	if err != nil {
		return fmt.Errorf("store contender %s for %s: %w", c.SourceID, c.RowID, err)
	}
	return nil
}

// DeleteContender implements jobs.Tx.
func (t *tx) DeleteContender(ctx context.Context, id jobs.RowID, sourceID string) error {
	if _, err := t.exec(ctx, t.q.contenderDelete, stored.ID(id.Flow), stored.ID(id.Key), stored.ID(sourceID)); err != nil {
		return fmt.Errorf("remove contender %s for %s: %w", sourceID, id, err)
	}
	return nil
}

// CountContenders implements jobs.Tx.
func (t *tx) CountContenders(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	err := t.query(ctx, func(rows pgx.Rows) error {
		var flow string
		var n int
		if err := rows.Scan(&flow, &n); err != nil {
			return err
		}
		flow, err := stored.ParseID(flow)
		out[flow] = n
		return err
	}, t.q.contendersCount)
	if err != nil {
		return nil, fmt.Errorf("count contenders: %w", err)
	}
	return out, nil
}
