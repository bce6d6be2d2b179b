package jobs

import (
	"context"
	"slices"
	"strings"
)

// Await is what a row waits for, in the end.
type Await struct {
	// Rows are those waited for, one after the other: the first is what the row
	// waits for, the second what that one waits for.
	Rows []Row
	// Circle says that the last of them waits for one of those before it, or for the
	// row itself; Rows then are the circle alone, from that one on.
	Circle bool
	// Writers are the configured flows that write what is waited for last, where no
	// row of theirs is there yet.
	Writers []string
	// Missing is the record waited for last that the journal does not know.
	Missing EntityKey
}

// mostAwaited bounds how far a chain of waiting rows is followed.
const mostAwaited = 100

// Awaited follows what a row waits for. A row that waits for nothing has none.
func (j *Journal) Awaited(ctx context.Context, row Row, flows map[string]*Flow) (a Await, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		a = Await{}
		chain := []Row{row}
		for len(chain) <= mostAwaited {
			last := &chain[len(chain)-1]
			if !last.awaits() {
				break
			}
			k := EntityKey{last.WaitEntity, last.WaitKey}
			var rows []Row
			if a.Writers, rows, err = writers(ctx, tx, last.Client, k, flows); err != nil {
				return err
			}
			if len(rows) == 0 {
				a.Missing = k
				break
			}
			next := rows[0]
			if i := slices.IndexFunc(chain, func(r Row) bool { return r.RowID == next.RowID }); i >= 0 {
				a.Circle, chain = true, chain[i:]
				break
			}
			chain = append(chain, next)
		}
		a.Rows = chain
		if !a.Circle {
			a.Rows = chain[1:]
		}
		return nil
	})
	return a, wrap(err, "follow what %s waits for", row.RowID)
}

// awaits reports whether the row cannot be written before another record is there.
func (r *Row) awaits() bool {
	return r.State == Ready && r.Reason == ReasonWaiting && r.WaitEntity != "" && !r.Applied()
}

// writers are the flows that write a record and the rows that they have of it,
// those first that can still be written by themselves.
func writers(ctx context.Context, tx Tx, client string, k EntityKey, flows map[string]*Flow) (names []string, rows []Row, err error) {
	var ids []RowID
	for name, f := range flows {
		if f.Client == client && f.Entity == k.Entity {
			names = append(names, name)
			ids = append(ids, RowID{name, k.Key})
		}
	}
	slices.Sort(names)
	rows, err = tx.Rows(ctx, ids, false)
	rank := func(r Row) int {
		switch {
		case r.State == Ready && !r.awaits():
			return 0
		case r.State == Ready:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.Flow, b.Flow)
	})
	return names, rows, err
}

// mostWaiting bounds the waiting rows among which circles are looked for.
const mostWaiting = 10_000

// Circles finds rows that wait for each other, so that none of them can ever be
// written; among the first 10,000 waiting rows. Each circle begins with its first
// row by name.
func (j *Journal) Circles(ctx context.Context, flows map[string]*Flow) (out [][]RowID, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		out = nil
		rows, err := tx.List(ctx, Filter{State: Ready, Reason: ReasonWaiting, Limit: mostWaiting})
		if err != nil {
			return err
		}
		for _, c := range circles(rows) {
			stuck, err := stuck(ctx, tx, c, flows)
			if err != nil {
				return err
			}
			if stuck {
				ids := make([]RowID, len(c))
				for i := range c {
					ids[i] = c[i].RowID
				}
				out = append(out, ids)
			}
		}
		return nil
	})
	return out, wrap(err, "look for rows that wait for each other")
}

// stuck reports whether no other flow will write one of the circle's records.
func stuck(ctx context.Context, tx Tx, circle []Row, flows map[string]*Flow) (bool, error) {
	for i := range circle {
		_, rows, err := writers(ctx, tx, circle[i].Client, circle[i].EntityKey(), flows)
		if err != nil {
			return false, err
		}
		if len(rows) > 0 && rows[0].State == Ready && !rows[0].awaits() {
			return false, nil
		}
	}
	return true, nil
}

// circles finds the circles among waiting rows, of which each waits for one record.
func circles(rows []Row) (out [][]Row) {
	next := awaited(rows)
	const unseen, done = 0, -1
	walked := make([]int, len(rows)) // the walk that came by
	for i := range rows {
		var walk []int
		n := i
		for n >= 0 && walked[n] == unseen {
			walked[n] = i + 1
			walk = append(walk, n)
			n = next[n]
		}
		if n >= 0 && walked[n] == i+1 { // back at a row of this walk
			var c []Row
			for _, w := range walk[slices.Index(walk, n):] {
				c = append(c, rows[w])
			}
			out = append(out, fromFirst(c))
		}
		for _, w := range walk {
			walked[w] = done
		}
	}
	return out
}

// awaited tells of each row which one among rows it waits for; -1 for none.
func awaited(rows []Row) []int {
	type record struct {
		client string
		EntityKey
	}
	at := map[record]int{}
	for i := range rows {
		k := record{rows[i].Client, rows[i].EntityKey()}
		if _, known := at[k]; !known && rows[i].awaits() {
			at[k] = i
		}
	}
	next := make([]int, len(rows))
	for i := range rows {
		next[i] = -1
		if n, ok := at[record{rows[i].Client, EntityKey{rows[i].WaitEntity, rows[i].WaitKey}}]; ok && rows[i].awaits() {
			next[i] = n
		}
	}
	return next
}

// fromFirst turns a circle so that it begins with its first row by name.
func fromFirst(c []Row) []Row {
	first := 0
	for i := range c {
		if c[i].String() < c[first].String() {
			first = i
		}
	}
	return append(slices.Clone(c[first:]), c[:first]...)
}
