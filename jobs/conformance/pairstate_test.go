package conformance_test

import (
	"context"
	"time"

	"syncd/jobs"
)

const most = 1 << 20

// farOff is later than whatever is due in a test.
var farOff = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// compare looks at all that both hold: of what is told by flow or client that of the
// latest of them, of all else everything.
func (p *pair) compare(ctx context.Context) error {
	return p.View(ctx, func(tx jobs.Tx) error {
		for _, f := range p.seen.last(p.seen.flows) {
			if err := p.compareFlow(ctx, tx, f); err != nil {
				return err
			}
		}
		for _, c := range p.seen.last(p.seen.clients) {
			if err := compareClient(ctx, tx, c); err != nil {
				return err
			}
		}
		return firstError(
			func() error { _, err := tx.Flows(ctx); return err },
			func() error { _, err := tx.CountContenders(ctx); return err },
			func() error { _, err := tx.ListPins(ctx, jobs.Pin{}, most); return err },
			func() error { _, err := tx.Claims(ctx, ""); return err },
			func() error { return p.compareAttempts(ctx, tx) },
			func() error { _, err := tx.ListRequests(ctx, 0, most); return err },
			func() error { _, err := tx.Clients(ctx); return err },
			func() error { _, err := tx.Leases(ctx); return err },
			func() error { _, err := tx.Daemons(ctx); return err },
			func() error { _, err := tx.Runs(ctx, false, most); return err },
			func() error { _, err := tx.Runs(ctx, true, 2); return err },
			func() error { _, err := tx.RunFlows(ctx, "audit"); return err },
			func() error { _, err := tx.Counts(ctx, p.Now()); return err },
			func() error { _, err := tx.Meta(ctx); return err },
			func() error { _, err := tx.LinkClients(ctx); return err },
		)
	})
}

func firstError(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) compareFlow(ctx context.Context, tx jobs.Tx, flow string) error {
	rows, err := tx.List(ctx, jobs.Filter{Flow: flow, Limit: most})
	if err != nil {
		return err
	}
	ids := make([]jobs.RowID, len(rows))
	for i := range rows {
		ids[i] = rows[i].RowID
	}
	groups := p.seen.last(p.seen.groups)
	return firstError(
		func() error { _, err := tx.Rows(ctx, ids, true); return err },
		func() error { _, err := tx.ListSources(ctx, flow, "", most); return err },
		func() error { _, err := tx.ListContenders(ctx, flow, jobs.Contender{}, most); return err },
		func() error { _, err := tx.ListGroups(ctx, flow, "", most); return err },
		func() error { _, err := tx.Heads(ctx, flow, groups); return err },
		func() error { _, err := tx.Heads(ctx, flow, groups, jobs.Dead); return err },
		func() error { _, err := tx.CountReady(ctx, flow, most); return err },
		func() error { _, err := tx.Destinations(ctx, flow); return err },
	)
}

func compareClient(ctx context.Context, tx jobs.Tx, client string) error {
	if _, err := tx.ListLinks(ctx, client, jobs.EntityKey{}, most); err != nil {
		return err
	}
	var lanes []jobs.LaneID
	for shard := range 3 {
		lane := jobs.LaneID{Client: client, Shard: shard}
		lanes = append(lanes, lane)
		if _, err := tx.Due(ctx, lane, farOff, most); err != nil {
			return err
		}
	}
	_, err := tx.NextDue(ctx, lanes)
	return err
}

// compareAttempts goes through all histories, but for what is far behind.
func (p *pair) compareAttempts(ctx context.Context, tx jobs.Tx) error {
	const many = 300
	after := p.behind
	if p.seen.all {
		after = 0
	}
	as, last, err := tx.ListAttempts(ctx, after, most)
	if len(as) > many {
		p.behind = last
	}
	return err
}
