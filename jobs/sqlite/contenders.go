package sqlite

import (
	"context"
	"fmt"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

const contenderColumns = `c.flow, c.key, c.source_id, c.epoch, c.version, c.observed, c.changed_at, c.hash, c.body, c.since`

func readContender(v row) (jobs.Contender, error) {
	var in stored.ReadIDs
	c := jobs.Contender{RowID: jobs.RowID{Flow: in.ID(v.text(0)), Key: in.ID(v.text(1))}, SourceID: in.ID(v.text(2)),
		Stamp:     connectors.Stamp{Epoch: v.int(3), Version: v.int(4), Observed: v.time(5)},
		ChangedAt: v.time(6), Hash: v.blob(7), Since: v.time(9)}
	body, err := stored.Unpack(v.blob(8))
	if err != nil {
		return c, fmt.Errorf("contender %s for %s: %w", c.SourceID, c.RowID, err)
	}
	c.Body = body
	return c, in.Err
}

// Contenders implements jobs.Tx.
func (t *tx) Contenders(ctx context.Context, flow string, keys []string) (out []jobs.Contender, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = t.query(ctx, `SELECT `+contenderColumns+`
		FROM json_each(?2) k CROSS JOIN contenders c ON c.flow = ?1 AND c.key = k.value ORDER BY c.since, c.key, c.source_id`,
		[]any{id(flow), list(stored.Strings(keys))}, func(v row) error {
			c, err := readContender(v)
			out = append(out, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read the contenders for %d keys of flow %s: %w", len(keys), flow, err)
	}
	return out, nil
}

// PutContender implements jobs.Tx.
func (t *tx) PutContender(ctx context.Context, c jobs.Contender) error {
	var pack stored.Packer
	body, err := pack.Pack(c.Body)
	if err == nil {
		err = stored.Fit(c.Key, c.SourceID)
	}
	if err == nil {
		_, err = t.exec(ctx, `INSERT INTO contenders (flow, key, source_id, epoch, version, observed, changed_at, hash, body, since)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (flow, key, source_id) DO UPDATE SET epoch = excluded.epoch,
			version = excluded.version, observed = excluded.observed, changed_at = excluded.changed_at, hash = excluded.hash,
			body = excluded.body, since = excluded.since`,
			id(c.Flow), id(c.Key), id(c.SourceID), c.Stamp.Epoch, c.Stamp.Version, stamp(c.Stamp.Observed), stamp(c.ChangedAt),
			blob(c.Hash), blob(body), stamp(c.Since))
	}
	if err != nil {
		return fmt.Errorf("store contender %s for %s: %w", c.SourceID, c.RowID, err)
	}
	return nil
}

// DeleteContender implements jobs.Tx.
func (t *tx) DeleteContender(ctx context.Context, rid jobs.RowID, sourceID string) error {
	_, err := t.exec(ctx, `DELETE FROM contenders WHERE flow = ? AND key = ? AND source_id = ?`,
		id(rid.Flow), id(rid.Key), id(sourceID))
	if err != nil {
		return fmt.Errorf("remove contender %s for %s: %w", sourceID, rid, err)
	}
	return nil
}

// CountContenders implements jobs.Tx.
func (t *tx) CountContenders(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	err := t.query(ctx, `SELECT flow, count(*) FROM contenders GROUP BY flow`, nil, func(v row) error {
		var in stored.ReadIDs
		out[in.ID(v.text(0))] = int(v.int(1))
		return in.Err
	})
	if err != nil {
		return nil, fmt.Errorf("count contenders: %w", err)
	}
	return out, nil
}
