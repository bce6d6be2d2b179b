package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// What follows reads the next page of each kind of thing that a journal holds, and
// returns what stores it in the copy and how much that is.

func (c *Copy) rows(ctx context.Context) (func(Tx) error, int, error) {
	var rows []Row
	err := c.view(ctx, func(tx Tx) error {
		seen, err := tx.List(ctx, Filter{After: RowID{c.after(0), c.after(1)}, Limit: c.rowPage})
		if err != nil || len(seen) == 0 {
			return err
		}
		ids := make([]RowID, len(seen))
		for i := range seen {
			ids[i] = seen[i].RowID
		}
		last := ids[len(ids)-1]
		c.behind(last.Flow, last.Key)
		rows, err = tx.Rows(ctx, ids, true)
		if err == nil && len(rows) != len(ids) {
			err = errors.New("the journal that is copied was changed meanwhile")
		}
		return err
	})
	size := 0
	for i := range rows {
		size += len(rows[i].Body)
	}
	if n := len(rows); n > 0 {
		c.rowPage = min(max(copyBytes/max(size/n, 1), 1), c.page)
	}
	return func(tx Tx) error { return tx.PutRows(ctx, rows) }, len(rows), err
}

// nextFlow is the first flow in the order of names, or, where one is begun, the first
// behind that.
func (c *Copy) nextFlow(ctx context.Context, tx Tx, after string, begun bool) (string, bool, error) {
	if c.flows == nil {
		names, err := flowNames(ctx, tx)
		if err != nil {
			return "", false, err
		}
		c.flows = names
	}
	for _, n := range c.flows {
		if !begun || n > after {
			return n, true, nil
		}
	}
	return "", false, nil
}

// flowNames are the flows of which the journal has anything, in order.
func flowNames(ctx context.Context, tx Tx) ([]string, error) {
	names := map[string]bool{}
	fs, err := tx.Flows(ctx)
	if err != nil {
		return nil, err
	}
	for i := range fs {
		names[fs[i].Flow] = true
	}
	colliding, err := tx.CountContenders(ctx)
	if err != nil {
		return nil, err
	}
	for f := range colliding {
		names[f] = true
	}
	counts, err := tx.Counts(ctx, time.Time{})
	for i := range counts {
		names[counts[i].Flow] = true
	}
	return slices.Sorted(maps.Keys(names)), err
}

// perFlow copies the next page of what is listed by flow.
func perFlow[T any](c *Copy, ctx context.Context, list func(tx Tx, flow string) ([]T, error), last func(T) []string, store func(tx Tx, flow string, vs []T) error) (func(Tx) error, int, error) {
	var vs []T
	flow := c.after(0)
	err := c.view(ctx, func(tx Tx) (err error) {
		more := true
		if len(c.at.After) == 0 {
			if flow, more, err = c.nextFlow(ctx, tx, "", false); err != nil {
				return err
			}
		}
		for more {
			if vs, err = list(tx, flow); err != nil || len(vs) > 0 {
				return err
			}
			if flow, more, err = c.nextFlow(ctx, tx, flow, true); err != nil {
				return err
			}
			c.at.After = nil
		}
		return nil
	})
	if len(vs) > 0 {
		c.behind(append([]string{flow}, last(vs[len(vs)-1])...)...)
	}
	return func(tx Tx) error { return store(tx, flow, vs) }, len(vs), err
}

func (c *Copy) sources(ctx context.Context) (func(Tx) error, int, error) {
	return perFlow(c, ctx, func(tx Tx, flow string) ([]SourceRecord, error) {
		return tx.ListSources(ctx, flow, c.after(1), c.page)
	}, func(r SourceRecord) []string { return []string{r.ID} }, func(tx Tx, flow string, rs []SourceRecord) error {
		return tx.PutSources(ctx, flow, rs)
	})
}

func (c *Copy) contenders(ctx context.Context) (func(Tx) error, int, error) {
	return perFlow(c, ctx, func(tx Tx, flow string) ([]Contender, error) {
		return tx.ListContenders(ctx, flow, Contender{RowID: RowID{flow, c.after(1)}, SourceID: c.after(2)}, max(c.page/10, 1))
	}, func(x Contender) []string { return []string{x.Key, x.SourceID} }, func(tx Tx, _ string, xs []Contender) error {
		for _, x := range xs {
			if err := tx.PutContender(ctx, x); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Copy) groups(ctx context.Context) (func(Tx) error, int, error) {
	return perFlow(c, ctx, func(tx Tx, flow string) ([]Group, error) {
		return tx.ListGroups(ctx, flow, c.after(1), c.page)
	}, func(g Group) []string { return []string{g.Name} }, func(tx Tx, _ string, gs []Group) error {
		return tx.PutGroups(ctx, gs)
	})
}

func (c *Copy) links(ctx context.Context) (func(Tx) error, int, error) {
	var ls []Link
	client := c.after(0)
	err := c.view(ctx, func(tx Tx) error {
		all, err := tx.LinkClients(ctx)
		if err != nil {
			return err
		}
		slices.Sort(all)
		for _, name := range all {
			after := EntityKey{}
			switch {
			case len(c.at.After) > 0 && name < client:
				continue
			case len(c.at.After) > 0 && name == client:
				after = EntityKey{c.after(1), c.after(2)}
			}
			if ls, err = tx.ListLinks(ctx, name, after, c.page); err != nil {
				return err
			}
			if len(ls) > 0 {
				client = name
				return nil
			}
		}
		return nil
	})
	if len(ls) > 0 {
		last := ls[len(ls)-1]
		c.behind(client, last.Entity, last.Key)
	}
	return func(tx Tx) error { return tx.PutLinks(ctx, client, ls) }, len(ls), err
}

func (c *Copy) pins(ctx context.Context) (func(Tx) error, int, error) {
	var ps []Pin
	err := c.view(ctx, func(tx Tx) (err error) {
		ps, err = tx.ListPins(ctx, Pin{RowID: RowID{c.after(0), c.after(1)}, Operation: c.after(2)}, max(c.page/10, 1))
		return err
	})
	if len(ps) > 0 {
		last := ps[len(ps)-1]
		c.behind(last.Flow, last.RowID.Key, last.Operation)
	}
	return func(tx Tx) error { return tx.PutPins(ctx, ps) }, len(ps), err
}

func (c *Copy) attempts(ctx context.Context) (func(Tx) error, int, error) {
	var as []Attempt
	err := c.view(ctx, func(tx Tx) (err error) {
		as, c.at.N, err = tx.ListAttempts(ctx, c.at.N, c.page)
		return err
	})
	return func(tx Tx) error { return tx.AddAttempts(ctx, as) }, len(as), err
}

func (c *Copy) requests(ctx context.Context) (func(Tx) error, int, error) {
	var rs []Request
	err := c.view(ctx, func(tx Tx) (err error) {
		rs, err = tx.ListRequests(ctx, c.at.N, c.page)
		return err
	})
	if len(rs) > 0 {
		c.at.N = rs[len(rs)-1].ID
	}
	return func(tx Tx) error { return tx.AddRequests(ctx, rs) }, len(rs), err
}

// rest copies what is so little that one page holds it. Leases and daemons stay behind.
func (c *Copy) rest(ctx context.Context) (func(Tx) error, int, error) {
	if c.at.N > 0 {
		return nil, 0, nil // it was one page
	}
	var flows []FlowState
	var clients []ClientState
	var claims []Claim
	var runs []Run
	var facts map[string]string
	err := c.view(ctx, func(tx Tx) error {
		return firstOf(
			func() (err error) { flows, err = tx.Flows(ctx); return err },
			func() (err error) { clients, err = tx.Clients(ctx); return err },
			func() (err error) { claims, err = tx.Claims(ctx, ""); return err },
			func() (err error) { runs, err = tx.Runs(ctx, false, 1<<20); return err },
			func() (err error) { facts, err = tx.Meta(ctx); return err },
		)
	})
	c.at.N = 1
	slices.Reverse(runs)
	store := func(tx Tx) error {
		for i := range flows {
			if _, err := tx.LockFlow(ctx, flows[i].Flow); err != nil {
				return err
			}
			if err := tx.SaveFlow(ctx, flows[i]); err != nil {
				return err
			}
		}
		for i := range clients {
			if err := tx.PutPause(ctx, clients[i]); err != nil {
				return err
			}
			if err := tx.PutExpiryHold(ctx, clients[i].Client, clients[i].ExpiryHeld); err != nil {
				return err
			}
		}
		for i := range claims {
			if err := tx.AddClaim(ctx, claims[i]); err != nil {
				return err
			}
		}
		for i := range runs {
			if err := addRunAs(ctx, tx, runs[i]); err != nil {
				return err
			}
		}
		for name, value := range facts {
			if slices.Contains(ownFacts, name) {
				continue
			}
			if err := tx.PutMeta(ctx, name, value); err != nil {
				return err
			}
		}
		return nil
	}
	return store, len(flows) + len(clients) + len(claims) + len(runs) + 1, err
}
