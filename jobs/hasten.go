package jobs

import (
	"context"
	"time"
)

// hastenAtOnce bounds the rows of one transaction.
const hastenAtOnce = 500

// hasten makes ready rows of a flow due whose due time lies ahead and which want
// chooses; at most most of them, and all for 0. It goes through the ready rows in parts, so it takes
// its time where there are many.
func (j *Journal) hasten(ctx context.Context, flow string, most int, want func(r *Row, now time.Time) bool) (int, error) {
	n, after := 0, RowID{}
	for {
		var last RowID
		part := 0
		err := j.engine.Update(ctx, func(tx Tx) error {
			last, part = RowID{}, 0
			listed, err := tx.List(ctx, Filter{Flow: flow, State: Ready, After: after, Limit: hastenAtOnce})
			if err != nil || len(listed) == 0 {
				return err
			}
			last = listed[len(listed)-1].RowID
			now := j.Now()
			ahead := func(r *Row) bool {
				return r.State == Ready && r.Reason != ReasonBehind && r.DueAt.After(now) && want(r, now)
			}
			var ids []RowID
			for i := range listed {
				if ahead(&listed[i]) && (most == 0 || len(ids) < most-n) {
					ids = append(ids, listed[i].RowID)
				}
			}
			rows, err := tx.Rows(ctx, ids, false)
			if err != nil {
				return err
			}
			var patches []Row
			for i := range rows {
				if r := &rows[i]; ahead(r) {
					r.DueAt = now
					patches = append(patches, *r)
				}
			}
			part = len(patches)
			return tx.PatchRows(ctx, patches)
		})
		n, after = n+part, last
		if err != nil || last == (RowID{}) || most > 0 && n >= most {
			return n, err
		}
	}
}
