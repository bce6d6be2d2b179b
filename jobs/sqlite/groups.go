package sqlite

import (
	"context"
	"fmt"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// Heads implements jobs.Tx.
func (t *tx) Heads(ctx context.Context, flow string, groups []string, passed ...jobs.State) (out []jobs.Row, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	states := make([]string, len(passed))
	for i, s := range passed {
		states[i] = string(s)
	}
	err = t.query(ctx, t.sql.heads, []any{id(flow), list(stored.Strings(groups)), list(states)}, func(v row) error {
		r, err := readRow(v)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the heads of %d groups of flow %s: %w", len(groups), flow, err)
	}
	return out, nil
}

const groupColumns = `g.flow, g.name, g.epoch, g.version, g.observed, g.sent_key`

func readGroup(v row) (jobs.Group, error) {
	var in stored.ReadIDs
	g := jobs.Group{Flow: in.ID(v.text(0)), Name: in.ID(v.text(1)),
		Sent: connectors.Stamp{Epoch: v.int(2), Version: v.int(3), Observed: v.time(4)}, SentKey: in.ID(v.text(5))}
	return g, in.Err
}

// Groups implements jobs.Tx.
func (t *tx) Groups(ctx context.Context, flow string, groups []string) (out []jobs.Group, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	err = t.query(ctx, `SELECT `+groupColumns+` FROM json_each(?2) k CROSS JOIN groups g ON g.flow = ?1 AND g.name = k.value`,
		[]any{id(flow), list(stored.Strings(groups))}, func(v row) error {
			g, err := readGroup(v)
			out = append(out, g)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read %d groups of flow %s: %w", len(groups), flow, err)
	}
	return out, nil
}

// PutGroups implements jobs.Tx.
func (t *tx) PutGroups(ctx context.Context, gs []jobs.Group) error {
	for _, g := range stored.Groups(gs) {
		err := stored.Fit(g.Name, g.SentKey)
		if err == nil {
			_, err = t.exec(ctx, `INSERT INTO groups (flow, name, epoch, version, observed, sent_key) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (flow, name) DO UPDATE SET epoch = excluded.epoch, version = excluded.version,
				observed = excluded.observed, sent_key = excluded.sent_key`,
				id(g.Flow), id(g.Name), g.Sent.Epoch, g.Sent.Version, stamp(g.Sent.Observed), id(g.SentKey))
		}
		if err != nil {
			return fmt.Errorf("store group %s of flow %s: %w", g.Name, g.Flow, err)
		}
	}
	return nil
}
