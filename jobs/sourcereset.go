package jobs

import (
	"context"
	"encoding/json"
)

// SourceReset begins a new epoch of a flow's source and has its stream read anew
// from the flow's start: the source was restored from a backup, or begun anew, so
// that its versions may be lower than those seen before and count as newer all the
// same. Nothing is forgotten: what is read as it was changes nothing.
//
// A page that was pulled before is not admitted afterwards: it names the old epoch.
// It returns the state after it.
func (j *Journal) SourceReset(ctx context.Context, flow string) (s FlowState, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		if s, err = tx.LockFlow(ctx, flow); err != nil {
			return err
		}
		s.Epoch++
		s.Cursor = json.RawMessage(nil)
		s.PageStarts, s.Suspect = 0, ""
		return tx.SaveFlow(ctx, s)
	})
	return s, wrap(err, "begin a new epoch of the source of flow %s", flow)
}
