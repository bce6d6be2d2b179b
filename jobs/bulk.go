package jobs

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// bulkStep is how many rows one step of a command over many rows changes: few enough
// that nobody waits long for the rows that it holds.
const bulkStep = 500

// countStep is how many rows are looked at in one go to count them.
const countStep = 5000

// Selection chooses the rows that an operator's command is about. Empty fields
// choose everything but State, of which there is always one.
type Selection struct {
	Flow   string
	State  State
	Reason Reason
	Class  string // LastClass
	// KeyPrefix is what the key begins with; only with Flow.
	KeyPrefix string
	// Since and Before bound LastAt: not earlier, and earlier or zero.
	Since, Before time.Time
}

// has reports whether a row is chosen.
func (s *Selection) has(r *Row) bool {
	return (s.Flow == "" || r.Flow == s.Flow) && r.State == s.State && (s.Reason == "" || r.Reason == s.Reason) &&
		(s.Class == "" || string(r.LastClass) == s.Class) && strings.HasPrefix(r.Key, s.KeyPrefix) &&
		!r.LastAt.Before(s.Since) && (s.Before.IsZero() || r.LastAt.Before(s.Before))
}

// page returns chosen rows behind after, in the order of flow and key, without
// bodies; over says that there are no more behind the last one. It may return none
// and not be over.
func (s *Selection) page(ctx context.Context, tx Tx, after RowID, limit int) (rows []Row, over bool, err error) {
	f := Filter{Flow: s.Flow, State: s.State, Reason: s.Reason, Class: s.Class, Since: s.Since, Before: s.Before, After: after, Limit: limit}
	if s.KeyPrefix != "" && (after.Flow != s.Flow || after.Key < s.KeyPrefix) {
		// Keys are in the order of their bytes, so those that begin alike stand together,
		// behind the key that is the beginning itself.
		one := f
		one.After, one.Keys = RowID{}, []string{s.KeyPrefix}
		if rows, err = tx.List(ctx, one); err != nil {
			return nil, false, err
		}
		f.After = RowID{s.Flow, s.KeyPrefix}
	}
	more, err := tx.List(ctx, f)
	if err != nil {
		return nil, false, err
	}
	over = len(more) < limit
	if i := slices.IndexFunc(more, func(r Row) bool { return !strings.HasPrefix(r.Key, s.KeyPrefix) }); i >= 0 {
		more, over = more[:i], true
	}
	return append(rows, more...), over, nil
}

// Chosen is how many chosen rows stand where.
type Chosen struct {
	Flow   string
	State  State
	Reason Reason
	Class  string
	N      int64
}

// Choose counts the rows of a selection, by flow, reason and class.
func (j *Journal) Choose(ctx context.Context, s Selection) ([]Chosen, error) {
	counts := map[Chosen]int64{}
	var after RowID
	for over := false; !over; {
		// A look for each page: one over all of them could hold a database up for long.
		err := j.engine.View(ctx, func(tx Tx) error {
			rows, last, err := s.page(ctx, tx, after, countStep)
			if err != nil {
				return err
			}
			for i := range rows {
				r := &rows[i]
				counts[Chosen{Flow: r.Flow, State: r.State, Reason: r.Reason, Class: string(r.LastClass)}]++
				after = r.RowID
			}
			over = last
			return nil
		})
		if err != nil {
			return nil, wrap(err, "count the chosen rows")
		}
	}
	out := make([]Chosen, 0, len(counts))
	for c, n := range counts {
		c.N = n
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y Chosen) int {
		return cmp.Or(strings.Compare(x.Flow, y.Flow), strings.Compare(string(x.Reason), string(y.Reason)), strings.Compare(x.Class, y.Class))
	})
	return out, nil
}

// BulkStep is what one step of a command over many rows did.
type BulkStep struct {
	Acted
	// After is the last row that is behind it, with which the next step goes on.
	After RowID
	// Over says that no more rows are chosen.
	Over bool
}

// spared does something to rows but for those that were given up, which have to be
// asked for by that reason: what is done with all that was written does not bring them back.
func (s *Selection) spared(rows []Row, do func([]Row) (Acted, error)) (Acted, error) {
	var spared []Skip
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		is := r.State == Done && r.Reason == ReasonDiscarded && s.Reason != ReasonDiscarded
		if is {
			spared = append(spared, Skip{r.RowID, "it was given up; --reason-is discarded chooses what was"})
		}
		return is
	})
	out, err := do(rows)
	out.Skipped = append(out.Skipped, spared...)
	return out, err
}

// ReplayStep does to the next chosen rows behind after what Replay does.
func (j *Journal) ReplayStep(ctx context.Context, s Selection, after RowID, flows map[string]*Flow) (BulkStep, error) {
	st, err := j.bulk(ctx, s, after, func(tx Tx, rows []Row) (Acted, error) {
		return s.spared(rows, func(rows []Row) (Acted, error) { return j.replay(ctx, tx, rows, flows) })
	})
	return st, wrap(err, "replay the rows behind %s", after)
}

// DiscardStep does to the next chosen rows behind after what Discard does.
func (j *Journal) DiscardStep(ctx context.Context, s Selection, after RowID, reason string) (BulkStep, error) {
	st, err := j.bulk(ctx, s, after, func(tx Tx, rows []Row) (Acted, error) { return j.discard(ctx, tx, rows, reason) })
	return st, wrap(err, "discard the rows behind %s", after)
}

// RemapStep does to the next chosen rows behind after what Remap does.
func (j *Journal) RemapStep(ctx context.Context, s Selection, after RowID, flows map[string]*Flow) (BulkStep, error) {
	st, err := j.bulk(ctx, s, after, func(tx Tx, rows []Row) (Acted, error) {
		return s.spared(rows, func(rows []Row) (Acted, error) { return j.remap(ctx, tx, rows, flows) })
	})
	return st, wrap(err, "have the rows behind %s mapped again", after)
}

func (j *Journal) bulk(ctx context.Context, s Selection, after RowID, do func(Tx, []Row) (Acted, error)) (BulkStep, error) {
	var out BulkStep
	err := j.engine.Update(ctx, func(tx Tx) error {
		out = BulkStep{After: after}
		seen, over, err := s.page(ctx, tx, after, bulkStep)
		if err != nil {
			return err
		}
		out.Over = over
		if len(seen) == 0 {
			return nil
		}
		ids := make([]RowID, len(seen))
		for i := range seen {
			ids[i] = seen[i].RowID
		}
		out.After = ids[len(ids)-1]
		rows, err := tx.Rows(ctx, ids, false)
		if err != nil {
			return err
		}
		// What was chosen may have moved on before it was held.
		rows = slices.DeleteFunc(rows, func(r Row) bool { return !s.has(&r) })
		out.Acted, err = do(tx, rows)
		return err
	})
	return out, err
}
