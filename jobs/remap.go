package jobs

import "context"

// Remap has rows mapped again as their flow maps now: each one's source record is
// read again, and what it maps to is written whatever was written before. It works
// for dead and done rows, as Replay does. The others, and those whose source cannot
// be asked for one record, are left alone.
func (j *Journal) Remap(ctx context.Context, ids []RowID, flows map[string]*Flow) (Acted, error) {
	out, err := j.act(ctx, ids, func(tx Tx, rows []Row) (Acted, error) { return j.remap(ctx, tx, rows, flows) })
	return out, wrap(err, "have %d rows mapped again", len(ids))
}

func (j *Journal) remap(ctx context.Context, tx Tx, rows []Row, flows map[string]*Flow) (out Acted, err error) {
	var asks []Request
	for i := range rows {
		row := &rows[i]
		f := flows[row.Flow]
		why := replayable(row, f, j.Now())
		switch {
		case why != "":
		case row.SourceID == "":
			why = "no record of the source stands behind it"
		case !f.CanRefresh && row.Reason != ReasonMapping:
			why = NoRemap(f)
		}
		if why != "" {
			out.Skipped = append(out.Skipped, Skip{row.RowID, why})
			continue
		}
		out.Asked++
		asks = append(asks, ask(row, f, Remap, j.Now()))
	}
	return out, tx.AddRequests(ctx, asks)
}

// NoRemap says why a flow whose source cannot be asked for one record cannot be
// mapped again, and what can be done instead.
func NoRemap(f *Flow) string {
	return "its source cannot be asked for one record; syncd source-reset " + f.Name + " has the stream read anew"
}
