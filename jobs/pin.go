package jobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"syncd/connectors"
)

// PutPin keeps what is about to be sent under an idempotency key. It is committed
// when it returns nil, before the first byte is sent. A key of a later epoch than
// the row's is the row's from then on. One that is over, and one in whose place a
// write is still in doubt, are refused: the target may know them with other bytes.
func (j *Journal) PutPin(ctx context.Context, client string, p Pin) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		rows, err := tx.Rows(ctx, []RowID{p.RowID}, false)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("there is no such row")
		}
		row := &rows[0]
		if _, err := j.fence(ctx, tx, LaneID{client, row.Shard}); err != nil {
			return err
		}
		if p.Epoch < row.KeyEpoch {
			return fmt.Errorf("key epoch %d is over, the row's is %d", p.Epoch, row.KeyEpoch)
		}
		if row.Unresolved() {
			have, err := tx.Pins(ctx, []RowID{p.RowID})
			if err != nil {
				return err
			}
			if slices.ContainsFunc(have, func(h Pin) bool { return h.Operation == p.Operation && h.Epoch >= p.Epoch }) {
				return fmt.Errorf("a write under its key of epoch %d is in doubt", p.Epoch)
			}
		}
		if p.Epoch > row.KeyEpoch {
			row.KeyEpoch = p.Epoch
			if err := tx.PatchRows(ctx, rows); err != nil {
				return err
			}
		}
		p.FirstSentAt = micro(p.FirstSentAt)
		return tx.PutPins(ctx, []Pin{p})
	})
	return wrap(err, "keep what is sent of %s under an idempotency key", p.RowID)
}

// The journal's own facts by which idempotency keys are made: the secret of this
// installation, and a fact whose writing keeps two daemons from making one each.
const (
	factSecret = "idempotency_secret"
	factMaking = "idempotency_secret_made_by"
)

// Secret is what idempotency keys are made with, beside the record that they are
// for: 32 bytes, random, made once for the life of the journal, when it is made: were
// it made when it is needed first, a backup of before would not have it, and after a
// restore creates would go by other keys than before. Nobody else can tell keys that
// are made with it.
func (j *Journal) Secret(ctx context.Context) ([]byte, error) {
	var text string
	err := j.engine.View(ctx, func(tx Tx) error {
		m, err := tx.Meta(ctx)
		text = m[factSecret]
		return err
	})
	if err == nil && text == "" { // a journal that was made without
		text, err = j.makeSecret(ctx)
	}
	if err != nil {
		return nil, wrap(err, "read the secret for idempotency keys")
	}
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) < 16 {
		return nil, wrap(fmt.Errorf("the fact %s is not what was written", factSecret), "read the secret for idempotency keys")
	}
	return secret, nil
}

func (j *Journal) makeSecret(ctx context.Context) (text string, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		// Whoever else is at this waits here until it is committed, and finds it then.
		if err := tx.PutMeta(ctx, factMaking, j.owner); err != nil {
			return err
		}
		m, err := tx.Meta(ctx)
		if err != nil {
			return err
		}
		if text = m[factSecret]; text != "" {
			return nil
		}
		text = newSecret()
		return tx.PutMeta(ctx, factSecret, text)
	})
	return text, err
}

func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// shareKeys gives jobs under idempotency keys what was sent under one and is not
// known to be over: by their own row, or by another flow's row of the same record,
// because the record is one. siblings are those rows.
func (c *claiming) shareKeys(js []*Job, siblings []Row) error {
	if err := c.forgottenKeys(js); err != nil {
		return err
	}
	of := map[RowID]*Job{}
	byKey := map[EntityKey]*Job{}
	var ids []RowID
	for _, jb := range js {
		if c.req.Flows[jb.Flow].Strategy != connectors.IdempotencyKey {
			continue
		}
		byKey[jb.EntityKey()] = jb
		if jb.Attempt > 0 {
			of[jb.RowID] = jb
			ids = append(ids, jb.RowID)
		}
	}
	for i := range siblings {
		r := &siblings[i]
		jb := byKey[r.EntityKey()]
		if jb == nil {
			continue
		}
		jb.KeyEpoch = max(jb.KeyEpoch, r.KeyEpoch)
		if r.Unresolved() {
			of[r.RowID] = jb
			ids = append(ids, r.RowID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ps, err := c.tx.Pins(c.ctx, ids)
	if err != nil {
		return err
	}
	for _, p := range ps {
		// A key of a later epoch was begun after it was known that nothing came of
		// those before it.
		if jb := of[p.RowID]; jb.Pin == nil || p.Epoch > jb.Pin.Epoch {
			jb.Pin = &p
		}
	}
	return nil
}

// forgottenKeys tells of jobs under idempotency keys since when a write may have been
// sent that the journal does not remember.
func (c *claiming) forgottenKeys(js []*Job) error {
	if !slices.ContainsFunc(js, func(jb *Job) bool {
		return jb.Unresolved() && c.req.Flows[jb.Flow].Strategy == connectors.IdempotencyKey
	}) {
		return nil
	}
	restored, err := restores(c.ctx, c.tx)
	if err != nil {
		return err
	}
	for _, jb := range js {
		if r := restored[jb.Flow]; jb.Unresolved() && jb.UnresolvedAt.Equal(r.At) {
			jb.DoubtSince = r.AsOf
		}
	}
	return nil
}

// endKeys ends the keys of a row that is not in doubt any more: none of them may
// be used for anything that is written later. A key under which the target keeps an
// error ends too: what became of the write is then for look-ups to tell.
func (b *settlement) endKeys(row *Row, f *Flow, o connectors.Outcome) error {
	if f.Strategy != connectors.IdempotencyKey || row.Unresolved() && o.Code != CodeKeptError {
		return nil
	}
	if b.pins == nil {
		b.pins = map[RowID]int64{}
		var ids []RowID
		for id := range b.rows {
			ids = append(ids, id)
		}
		ps, err := b.tx.Pins(b.ctx, ids)
		if err != nil {
			return err
		}
		for _, p := range ps {
			b.pins[p.RowID] = max(b.pins[p.RowID], p.Epoch+1)
		}
	}
	if next, ok := b.pins[row.RowID]; ok {
		row.KeyEpoch = max(row.KeyEpoch, next)
		b.unpin = append(b.unpin, row.RowID)
	}
	return nil
}

// dropKeys ends whatever key may be in use for a row.
func dropKeys(ctx context.Context, tx Tx, row *Row, f *Flow) error {
	if f == nil || f.Strategy != connectors.IdempotencyKey {
		return nil
	}
	ps, err := tx.Pins(ctx, []RowID{row.RowID})
	if err != nil || len(ps) == 0 {
		return err
	}
	for _, p := range ps {
		row.KeyEpoch = max(row.KeyEpoch, p.Epoch+1)
	}
	return tx.DeletePins(ctx, []RowID{row.RowID})
}
