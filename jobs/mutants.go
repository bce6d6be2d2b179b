package jobs

import "context"

// moveAlone moves the cursor to the end of a page in a transaction of its own. No build that is shipped calls it: it
// is what some mutants do.
func (j *Journal) moveAlone(ctx context.Context, ad *Admission) {
	_ = j.under(ctx, LaneID{Client: ad.Flow.SourceClient}, func(tx Tx, _ string) error {
		fs, err := tx.LockFlow(ctx, ad.Flow.Name)
		if err != nil || !ad.Move || !cursorsEqual(fs.Cursor, ad.From) {
			return err
		}
		fs.Cursor, ad.From = ad.Next, ad.Next
		return tx.SaveFlow(ctx, fs)
	})
}
