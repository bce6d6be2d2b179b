package sqlite

import (
	"context"

	"syncd/connectors"
	"syncd/jobs"
)

// closer closes rows in one transaction.
type closer struct {
	*tx
	client any
	at     int64
	closed []jobs.RowID
	others []jobs.RowID // those that did not fit
}

// groups are closings that one statement takes, many in each, and those that are left.
func (x *closer) groups(cs []jobs.Closing) (full [][]jobs.Closing, left []jobs.Closing) {
	type alike struct {
		flow                string
		generation, attempt int64
		class               connectors.Class
	}
	if len(cs) < many {
		return nil, cs
	}
	open := map[alike][]jobs.Closing{}
	for _, c := range cs {
		a := alike{c.Flow, c.Generation, c.Attempt, c.Class}
		if c.Class == "" {
			left = append(left, c)
			continue
		}
		if open[a] = append(open[a], c); len(open[a]) == many {
			full = append(full, open[a])
			delete(open, a)
		}
	}
	for _, g := range open {
		left = append(left, g...)
	}
	return full, left
}

func (x *closer) args(c *jobs.Closing) []any {
	return []any{id(c.Flow), x.client, c.Generation, c.Attempt, string(c.Class), x.at, never}
}

// many closes a group. When not all of it fit, what was done is undone and all of it
// is left, to be closed one by one: which ones fit is not told by a count.
func (x *closer) many(ctx context.Context, g []jobs.Closing, left *[]jobs.Closing) error {
	args := x.args(&g[0])
	for i := range g {
		args = append(args, id(g[i].Key))
	}
	if _, err := x.exec(ctx, "SAVEPOINT closing"); err != nil {
		return err
	}
	n, err := x.exec(ctx, x.sql.closeMany, args...)
	if err != nil {
		return err
	}
	if n == int64(len(g)) {
		for i := range g {
			x.closed = append(x.closed, g[i].RowID)
		}
	} else {
		*left = append(*left, g...)
		if _, err := x.exec(ctx, "ROLLBACK TO closing"); err != nil {
			return err
		}
	}
	_, err = x.exec(ctx, "RELEASE closing")
	return err
}

// one closes a row, if it fits.
func (x *closer) one(ctx context.Context, c *jobs.Closing) error {
	n := int64(0)
	if c.Class != "" {
		var err error
		if n, err = x.exec(ctx, x.sql.close, append(x.args(c), id(c.Key))...); err != nil {
			return err
		}
	}
	if n > 0 {
		x.closed = append(x.closed, c.RowID)
	} else {
		x.others = append(x.others, c.RowID)
	}
	return nil
}
