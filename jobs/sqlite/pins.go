package sqlite

import (
	"context"
	"fmt"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

const pinColumns = `p.flow, p.key, p.operation, p.epoch, p.sent_key, p.body, p.generation, p.hash, p.first_sent_at`

func readPin(v row) (jobs.Pin, error) {
	var in stored.ReadIDs
	p := jobs.Pin{RowID: jobs.RowID{Flow: in.ID(v.text(0)), Key: in.ID(v.text(1))}, Operation: in.ID(v.text(2)), Epoch: v.int(3),
		Key: in.ID(v.text(4)), Generation: v.int(6), Hash: v.blob(7), FirstSentAt: v.time(8)}
	if in.Err != nil {
		return p, in.Err
	}
	var err error
	if p.Body, err = stored.Unpack(v.blob(5)); err != nil {
		return p, fmt.Errorf("what was sent of %s: %w", p.RowID, err)
	}
	return p, nil
}

// Pins implements jobs.Tx.
func (t *tx) Pins(ctx context.Context, ids []jobs.RowID) (out []jobs.Pin, err error) {
	for flow, keys := range byFlow(ids) {
		err := t.query(ctx, `SELECT `+pinColumns+` FROM json_each(?2) k CROSS JOIN idempotency_keys p ON p.flow = ?1 AND p.key = k.value`,
			[]any{id(flow), list(keys)}, func(v row) error {
				p, err := readPin(v)
				out = append(out, p)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("read what was sent of %d rows of flow %s: %w", len(keys), flow, err)
		}
	}
	return out, nil
}

// PutPins implements jobs.Tx.
func (t *tx) PutPins(ctx context.Context, ps []jobs.Pin) error {
	var pack stored.Packer
	for _, p := range stored.Pins(ps) {
		body, err := pack.Pack(p.Body)
		if err == nil {
			err = stored.Fit(p.RowID.Key, p.Operation)
		}
		if err == nil {
			_, err = t.exec(ctx, `INSERT INTO idempotency_keys (flow, key, operation, epoch, sent_key, body, generation, hash, first_sent_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (flow, key, operation) DO UPDATE SET epoch = excluded.epoch,
				sent_key = excluded.sent_key, body = excluded.body, generation = excluded.generation, hash = excluded.hash,
				first_sent_at = excluded.first_sent_at`,
				id(p.Flow), id(p.RowID.Key), id(p.Operation), p.Epoch, id(p.Key), blob(body), p.Generation, blob(p.Hash), stamp(p.FirstSentAt))
		}
		if err != nil {
			return fmt.Errorf("store what is sent of %s to %s it: %w", p.RowID, p.Operation, err)
		}
	}
	return nil
}

// DeletePins implements jobs.Tx.
func (t *tx) DeletePins(ctx context.Context, ids []jobs.RowID) error {
	for _, rid := range stored.RowIDs(ids) {
		if _, err := t.exec(ctx, `DELETE FROM idempotency_keys WHERE flow = ? AND key = ?`, id(rid.Flow), id(rid.Key)); err != nil {
			return fmt.Errorf("remove what was sent of %s: %w", rid, err)
		}
	}
	return nil
}
