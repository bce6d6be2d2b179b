package upsert_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

var secret = []byte("a secret of thirty-two characters")

// Secret makes world the Pins of its strategy.
func (w *world) Secret(context.Context) ([]byte, error) { return secret, nil }

// PutPin keeps a pin, under the rules of the journal.
func (w *world) PutPin(ctx context.Context, client string, p jobs.Pin) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	row, have := w.rows[p.RowID.Key], w.pins[p.RowID.Key]
	switch {
	case client != "erp" || row == nil:
		w.broken = fmt.Sprintf("pin of %s %s", client, p.RowID)
	case p.Epoch < row.KeyEpoch:
		w.broken = fmt.Sprintf("a pin of epoch %d, and the row's is %d", p.Epoch, row.KeyEpoch)
	case row.Unresolved() && have != nil && have.Epoch >= p.Epoch:
		w.broken = fmt.Sprintf("a pin of epoch %d in place of one of epoch %d, which is in doubt", p.Epoch, have.Epoch)
	case p.FirstSentAt.After(w.now):
		w.broken = "a pin from the future"
	}
	if w.broken != "" {
		return errors.New(w.broken)
	}
	if w.failPins > 0 {
		w.failPins--
		w.tell("  pin %s of epoch %d not stored", p.Key, p.Epoch)
		return errors.New("the journal is away")
	}
	w.tell("  pin %s of epoch %d", p.Key, p.Epoch)
	w.pins[p.RowID.Key] = &p
	row.KeyEpoch = p.Epoch
	return nil
}

// resolve is a person who looks at what the target holds of a held record, once it
// has settled, and says so.
func (w *world) resolve(key string) {
	row := w.rows[key]
	if at := row.UnresolvedAt.Add(settleTime); w.now.Before(at) {
		w.now = at
	}
	rs := w.target.Records(key)
	w.tell("a person sees %d records of %s: %+v", len(rs), key, rs)
	row.UnresolvedAt = time.Time{}
	if p := w.pins[key]; p != nil {
		row.KeyEpoch = p.Epoch + 1
		delete(w.pins, key)
	}
	row.AppliedHash = nil
	switch {
	case len(rs) == 0 && row.Gone:
		delete(w.links, key)
		row.AppliedGone = row.AppliedGeneration > 0
		row.State = jobs.Done
		return
	case len(rs) == 0:
		delete(w.links, key)
		row.AppliedGone = row.AppliedGeneration > 0
	default:
		w.links[key] = rs[0].Link()
		row.AppliedGeneration, row.AppliedGone = max(row.AppliedGeneration, 1), false
		if rs[0].Body == string(row.Body) && !rs[0].Archived && (!w.advances || rs[0].State == fieldState(row.Body)) {
			row.AppliedGeneration, row.AppliedHash = row.Generation, row.Hash
			row.State = jobs.Done
			return
		}
	}
	row.State = jobs.Ready
	if row.Gone && w.flow.OnDelete == "ignore" {
		row.State = jobs.Done
	}
	w.due(row, w.now)
}

// Entities that cannot be asked for a record.
type (
	noFind struct {
		connectors.Entity
		connectors.Creator
		connectors.Composer
		connectors.Updater
	}
	noFindAdvance struct {
		connectors.Entity
		connectors.Creator
		connectors.Composer
		connectors.Updater
		connectors.Advancer
	}
)

func withoutFind(e *faketarget.Entity) connectors.Entity { return noFind{e, e, e, e} }

func withoutFindButAdvance(e *faketarget.Entity) connectors.Entity {
	return noFindAdvance{e, e, e, e, e}
}
