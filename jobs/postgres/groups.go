package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// Heads implements jobs.Tx.
func (t *tx) Heads(ctx context.Context, flow string, groups []string, passed ...jobs.State) ([]jobs.Row, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	states := make([]string, len(passed))
	for i, s := range passed {
		states[i] = string(s)
	}
	out, err := t.readRows(ctx, t.q.heads, len(groups), stored.ID(flow), stored.IDs(stored.Strings(groups)), states)
	if err != nil {
		return nil, fmt.Errorf("read the heads of %d groups of flow %s: %w", len(groups), flow, err)
	}
	return out, nil
}

// Groups implements jobs.Tx.
func (t *tx) Groups(ctx context.Context, flow string, groups []string) ([]jobs.Group, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	out, err := t.readGroups(ctx, t.q.groups, stored.ID(flow), stored.IDs(stored.Strings(groups)))
	if err != nil {
		return nil, fmt.Errorf("read %d groups of flow %s: %w", len(groups), flow, err)
	}
	return out, nil
}

func (t *tx) readGroups(ctx context.Context, sql string, args ...any) (out []jobs.Group, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var g jobs.Group
		var observed pgtype.Timestamptz
		if err := rows.Scan(&g.Flow, &g.Name, &g.Sent.Epoch, &g.Sent.Version, &observed, &g.SentKey); err != nil {
			return err
		}
		var in stored.ReadIDs
		g.Flow, g.Name, g.SentKey, g.Sent.Observed = in.ID(g.Flow), in.ID(g.Name), in.ID(g.SentKey), moment(observed)
		out = append(out, g)
		return in.Err
	}, sql, args...)
	return out, err
}

// PutGroups implements jobs.Tx.
func (t *tx) PutGroups(ctx context.Context, gs []jobs.Group) error {
	if len(gs) == 0 {
		return nil
	}
	for i := range gs {
		if err := stored.Fit(gs[i].Name, gs[i].SentKey); err != nil {
			return fmt.Errorf("store a group of flow %s: %w", gs[i].Flow, err)
		}
	}
	gs = stored.Groups(gs)
	_, err := t.exec(ctx, t.q.groupsPut,
		column(gs, func(g *jobs.Group) string { return stored.ID(g.Flow) }),
		column(gs, func(g *jobs.Group) string { return stored.ID(g.Name) }),
		column(gs, func(g *jobs.Group) int64 { return g.Sent.Epoch }),
		column(gs, func(g *jobs.Group) int64 { return g.Sent.Version }),
		column(gs, func(g *jobs.Group) pgtype.Timestamptz { return stamp(g.Sent.Observed) }),
		column(gs, func(g *jobs.Group) string { return stored.ID(g.SentKey) }))
	if err != nil {
		return fmt.Errorf("store %d groups: %w", len(gs), err)
	}
	return nil
}

// Pins implements jobs.Tx.
func (t *tx) Pins(ctx context.Context, ids []jobs.RowID) ([]jobs.Pin, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := t.readPins(ctx, t.q.pins, keyArgs(stored.RowIDs(ids))...)
	if err != nil {
		return nil, fmt.Errorf("read what is pinned for %d rows: %w", len(ids), err)
	}
	return out, nil
}

func (t *tx) readPins(ctx context.Context, sql string, args ...any) (out []jobs.Pin, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var p jobs.Pin
		var sent pgtype.Timestamptz
		var body []byte
		if err := rows.Scan(&p.Flow, &p.RowID.Key, &p.Operation, &p.Epoch, &p.Key, &body, &p.Generation, &p.Hash, &sent); err != nil {
			return err
		}
		var in stored.ReadIDs
		p.RowID, p.Operation, p.Key = jobs.RowID{Flow: in.ID(p.Flow), Key: in.ID(p.RowID.Key)}, in.ID(p.Operation), in.ID(p.Key)
		p.FirstSentAt = moment(sent)
		if in.Err != nil {
			return in.Err
		}
		var err error
		if p.Body, err = stored.Unpack(body); err != nil {
			return fmt.Errorf("what is pinned for %s: %w", p.RowID, err)
		}
		out = append(out, p)
		return nil
	}, sql, args...)
	return out, err
}

// PutPins implements jobs.Tx.
func (t *tx) PutPins(ctx context.Context, ps []jobs.Pin) error {
	ps = stored.Pins(ps)
	for len(ps) > 0 {
		n, err := t.putSomePins(ctx, ps)
		if err != nil {
			return fmt.Errorf("pin what was sent for %d rows: %w", len(ps), err)
		}
		ps = ps[n:]
	}
	return nil
}

// putSomePins stores as many of the first pins as one statement takes, and returns how many.
func (t *tx) putSomePins(ctx context.Context, ps []jobs.Pin) (int, error) {
	var pack stored.Packer
	var bodies [][]byte
	size := 0
	for len(bodies) < min(len(ps), maxRows) && size < maxBytes {
		p := &ps[len(bodies)]
		body, err := pack.Pack(p.Body)
		if err == nil {
			err = stored.Fit(p.RowID.Key, p.Operation)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.RowID, err)
		}
		bodies = append(bodies, blob(body))
		size += len(body)
	}
	ps = ps[:len(bodies)]
	_, err := t.exec(ctx, t.q.pinsPut,
		column(ps, func(p *jobs.Pin) string { return stored.ID(p.Flow) }),
		column(ps, func(p *jobs.Pin) string { return stored.ID(p.RowID.Key) }),
		column(ps, func(p *jobs.Pin) string { return stored.ID(p.Operation) }),
		column(ps, func(p *jobs.Pin) int64 { return p.Epoch }),
		column(ps, func(p *jobs.Pin) string { return stored.ID(p.Key) }),
		bodies,
		column(ps, func(p *jobs.Pin) int64 { return p.Generation }),
		column(ps, func(p *jobs.Pin) []byte { return blob(p.Hash) }),
		column(ps, func(p *jobs.Pin) pgtype.Timestamptz { return stamp(p.FirstSentAt) }))
	return len(ps), err
}

// DeletePins implements jobs.Tx.
func (t *tx) DeletePins(ctx context.Context, ids []jobs.RowID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, t.q.pinsDelete, keyArgs(stored.RowIDs(ids))...); err != nil {
		return fmt.Errorf("remove what is pinned for %d rows: %w", len(ids), err)
	}
	return nil
}
