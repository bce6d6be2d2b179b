package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"syncd/jobs"
)

func (x *both) LockFlow(ctx context.Context, flow string) (jobs.FlowState, error) {
	x.flow(flow)
	return look(x, "flow "+flow, as, func(tx jobs.Tx) (jobs.FlowState, error) { return tx.LockFlow(ctx, flow) })
}

func (x *both) SaveFlow(ctx context.Context, s jobs.FlowState) error {
	x.flow(s.Flow)
	return x.change("SaveFlow", func(tx jobs.Tx) error { return tx.SaveFlow(ctx, s) })
}

func (x *both) Flows(ctx context.Context) ([]jobs.FlowState, error) {
	return look(x, "Flows", by(func(s jobs.FlowState) string { return s.Flow }), func(tx jobs.Tx) ([]jobs.FlowState, error) { return tx.Flows(ctx) })
}

func (x *both) Sources(ctx context.Context, flow string, ids []string) ([]jobs.SourceRecord, error) {
	return look(x, "Sources", by(func(r jobs.SourceRecord) string { return r.ID }),
		func(tx jobs.Tx) ([]jobs.SourceRecord, error) { return tx.Sources(ctx, flow, ids) })
}

func (x *both) PutSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	x.flow(flow)
	return x.change("PutSources", func(tx jobs.Tx) error { return tx.PutSources(ctx, flow, rs) })
}

func (x *both) Rows(ctx context.Context, ids []jobs.RowID, bodies bool) ([]jobs.Row, error) {
	return look(x, "Rows", by(rowName), func(tx jobs.Tx) ([]jobs.Row, error) { return tx.Rows(ctx, ids, bodies) })
}

func (x *both) PutRows(ctx context.Context, rows []jobs.Row) error {
	x.noteRows(rows)
	return x.change("PutRows", func(tx jobs.Tx) error { return tx.PutRows(ctx, rows) })
}

func (x *both) PatchRows(ctx context.Context, rows []jobs.Row) error {
	x.noteRows(rows)
	return x.change("PatchRows", func(tx jobs.Tx) error { return tx.PatchRows(ctx, rows) })
}

// closing is the answer of CloseRows.
type closing struct {
	closed []jobs.RowID
	rest   []jobs.Row
}

func (x *both) CloseRows(ctx context.Context, client string, cs []jobs.Closing, now time.Time) ([]jobs.RowID, []jobs.Row, error) {
	x.client(client)
	got, err := compared(x, "CloseRows", func(m, d closing) string {
		ids := by(jobs.RowID.String)
		return difference(ids(m.closed), ids(d.closed)) + difference(by(rowName)(m.rest), by(rowName)(d.rest))
	}, closeIn(ctx, client, cs, now), closeIn(ctx, client, cs, now))
	return got.closed, got.rest, err
}

func closeIn(ctx context.Context, client string, cs []jobs.Closing, now time.Time) func(jobs.Tx) (closing, error) {
	return func(tx jobs.Tx) (c closing, err error) {
		c.closed, c.rest, err = tx.CloseRows(ctx, client, cs, now)
		return c, err
	}
}

func (x *both) Due(ctx context.Context, lane jobs.LaneID, now time.Time, limit int) ([]jobs.Row, error) {
	x.client(lane.Client)
	due := func(tx jobs.Tx) ([]jobs.Row, error) { return tx.Due(ctx, lane, now, limit) }
	return compared(x, fmt.Sprint("Due of ", lane), ranked(limit, func(r jobs.Row) time.Time { return r.DueAt }, rowName), due, due)
}

func (x *both) NextDue(ctx context.Context, lanes []jobs.LaneID) ([]time.Time, error) {
	for _, lane := range lanes {
		x.client(lane.Client)
	}
	return look(x, fmt.Sprint("NextDue of ", lanes), as, func(tx jobs.Tx) ([]time.Time, error) { return tx.NextDue(ctx, lanes) })
}

// Reshard goes on with both until nothing is left to do, for nobody promises which
// rows come first.
func (x *both) Reshard(ctx context.Context, client string, shards, limit int) (int, error) {
	x.client(client)
	return look(x, "Reshard", as, func(tx jobs.Tx) (sum int, err error) {
		for n := limit; n >= limit && limit > 0; sum += n {
			if n, err = tx.Reshard(ctx, client, shards, limit); err != nil {
				return sum, err
			}
		}
		return sum, nil
	})
}

func (x *both) DropBodies(ctx context.Context, ids []jobs.RowID) (int, error) {
	return look(x, "DropBodies", as, func(tx jobs.Tx) (int, error) { return tx.DropBodies(ctx, ids) })
}

func (x *both) CountReady(ctx context.Context, flow string, most int) (int, error) {
	return look(x, "CountReady of "+flow, as, func(tx jobs.Tx) (int, error) { return tx.CountReady(ctx, flow, most) })
}

func (x *both) Heads(ctx context.Context, flow string, groups []string, passed ...jobs.State) ([]jobs.Row, error) {
	return look(x, fmt.Sprintf("Heads of %s past %v", flow, passed), by(rowName),
		func(tx jobs.Tx) ([]jobs.Row, error) { return tx.Heads(ctx, flow, groups, passed...) })
}

func groupName(g jobs.Group) string { return g.Name }

func (x *both) Groups(ctx context.Context, flow string, groups []string) ([]jobs.Group, error) {
	return look(x, "Groups", by(groupName), func(tx jobs.Tx) ([]jobs.Group, error) { return tx.Groups(ctx, flow, groups) })
}

func (x *both) PutGroups(ctx context.Context, gs []jobs.Group) error {
	for _, g := range gs {
		x.flow(g.Flow)
	}
	return x.change("PutGroups", func(tx jobs.Tx) error { return tx.PutGroups(ctx, gs) })
}

func (x *both) Contenders(ctx context.Context, flow string, keys []string) ([]jobs.Contender, error) {
	cs := func(tx jobs.Tx) ([]jobs.Contender, error) { return tx.Contenders(ctx, flow, keys) }
	return compared(x, "Contenders", ranked(0, func(c jobs.Contender) time.Time { return c.Since }, contenderName), cs, cs)
}

func contenderName(c jobs.Contender) string { return c.Key + "\x00" + c.SourceID }

func (x *both) PutContender(ctx context.Context, c jobs.Contender) error {
	x.flow(c.Flow)
	return x.change("PutContender", func(tx jobs.Tx) error { return tx.PutContender(ctx, c) })
}

func (x *both) DeleteContender(ctx context.Context, id jobs.RowID, sourceID string) error {
	return x.change("DeleteContender", func(tx jobs.Tx) error { return tx.DeleteContender(ctx, id, sourceID) })
}

func (x *both) CountContenders(ctx context.Context) (map[string]int, error) {
	return look(x, "CountContenders", as, func(tx jobs.Tx) (map[string]int, error) { return tx.CountContenders(ctx) })
}

func pinName(p jobs.Pin) string { return p.Flow + "\x00" + p.RowID.Key + "\x00" + p.Operation }

func (x *both) Pins(ctx context.Context, ids []jobs.RowID) ([]jobs.Pin, error) {
	return look(x, "Pins", by(pinName), func(tx jobs.Tx) ([]jobs.Pin, error) { return tx.Pins(ctx, ids) })
}

func (x *both) PutPins(ctx context.Context, ps []jobs.Pin) error {
	return x.change("PutPins", func(tx jobs.Tx) error { return tx.PutPins(ctx, ps) })
}

func (x *both) DeletePins(ctx context.Context, ids []jobs.RowID) error {
	return x.change("DeletePins", func(tx jobs.Tx) error { return tx.DeletePins(ctx, ids) })
}

func (x *both) AddClaim(ctx context.Context, c jobs.Claim) error {
	x.client(c.Client)
	return x.change("AddClaim", func(tx jobs.Tx) error { return tx.AddClaim(ctx, c) })
}

func (x *both) Claims(ctx context.Context, client string) ([]jobs.Claim, error) {
	return look(x, "Claims of "+client, by(func(c jobs.Claim) string { return c.ID }), func(tx jobs.Tx) ([]jobs.Claim, error) { return tx.Claims(ctx, client) })
}

func (x *both) ReduceClaim(ctx context.Context, id, owner string, n int) (bool, error) {
	return look(x, "ReduceClaim", as, func(tx jobs.Tx) (bool, error) { return tx.ReduceClaim(ctx, id, owner, n) })
}

func linkName(l jobs.Link) string { return l.Entity + "\x00" + l.Key }

func (x *both) Links(ctx context.Context, client string, keys []jobs.EntityKey) ([]jobs.Link, error) {
	return look(x, "Links", by(linkName), func(tx jobs.Tx) ([]jobs.Link, error) { return tx.Links(ctx, client, keys) })
}

func (x *both) PutLinks(ctx context.Context, client string, ls []jobs.Link) error {
	x.client(client)
	return x.change("PutLinks", func(tx jobs.Tx) error { return tx.PutLinks(ctx, client, ls) })
}

func (x *both) DeleteLinks(ctx context.Context, client string, keys []jobs.EntityKey) error {
	return x.change("DeleteLinks", func(tx jobs.Tx) error { return tx.DeleteLinks(ctx, client, keys) })
}

func (x *both) AddAttempts(ctx context.Context, as []jobs.Attempt) error {
	return x.change("AddAttempts", func(tx jobs.Tx) error { return tx.AddAttempts(ctx, as) })
}

func (x *both) Attempts(ctx context.Context, id jobs.RowID, limit int) ([]jobs.Attempt, error) {
	return look(x, "Attempts", as, func(tx jobs.Tx) ([]jobs.Attempt, error) { return tx.Attempts(ctx, id, limit) })
}

func (x *both) PruneAttempts(ctx context.Context, after int64, before time.Time, limit int) (int, int64, error) {
	type pruned struct {
		N    int
		Last int64
	}
	prune := func(after int64) func(tx jobs.Tx) (pruned, error) {
		return func(tx jobs.Tx) (p pruned, err error) {
			p.N, p.Last, err = tx.PruneAttempts(ctx, after, before, limit)
			return p, err
		}
	}
	p, err := compared(x, "PruneAttempts", func(m, d pruned) string {
		x.p.attempts[m.Last] = d.Last
		return difference(m.N, d.N)
	}, prune(after), prune(x.p.attempts[after]))
	return p.N, p.Last, err
}

func (x *both) DeleteAttempts(ctx context.Context, ids []jobs.RowID) error {
	return x.change("DeleteAttempts", func(tx jobs.Tx) error { return tx.DeleteAttempts(ctx, ids) })
}

func (x *both) Wake(ctx context.Context, client string, keys []jobs.EntityKey, now time.Time) (int, error) {
	x.client(client)
	return look(x, "Wake", as, func(tx jobs.Tx) (int, error) { return tx.Wake(ctx, client, keys, now) })
}

func requestName(r jobs.Request) string {
	return r.Flow + "\x00" + r.SourceID + "\x00" + string(r.Kind) + "\x00" + r.Key
}

func withoutID(r jobs.Request) jobs.Request {
	r.ID = 0
	return r
}

// sameRequests compares all requests, whatever their numbers, and notes these.
func (x *both) sameRequests(ctx context.Context) error {
	const all = 1 << 30
	rs := func(tx jobs.Tx) ([]jobs.Request, error) { return tx.ListRequests(ctx, 0, all) }
	_, err := compared(x, "ListRequests", func(m, d []jobs.Request) string {
		m, d = by(requestName)(m), by(requestName)(d)
		if len(m) == len(d) {
			for i := range m {
				x.p.requests[m[i].ID] = d[i].ID
			}
		}
		return difference(mapped(m, withoutID), mapped(d, withoutID))
	}, rs, rs)
	return err
}

func mapped[T any](vs []T, f func(T) T) []T {
	out := slices.Clone(vs)
	for i := range out {
		out[i] = f(out[i])
	}
	return out
}

// translated are the durable engine's numbers; one that was never given stays so.
func translated(ids []int64, of map[int64]int64) []int64 {
	out := make([]int64, len(ids))
	for i, n := range ids {
		if out[i] = of[n]; out[i] == 0 {
			out[i] = n + 1<<40
		}
	}
	return out
}

func (x *both) AddRequests(ctx context.Context, rs []jobs.Request) error {
	err := x.change("AddRequests", func(tx jobs.Tx) error { return tx.AddRequests(ctx, rs) })
	if err != nil {
		return err
	}
	return x.sameRequests(ctx)
}

func (x *both) Requests(ctx context.Context, client string, now time.Time, limit int) ([]jobs.Request, error) {
	rs := func(tx jobs.Tx) ([]jobs.Request, error) { return tx.Requests(ctx, client, now, limit) }
	return compared(x, "Requests", func(m, d []jobs.Request) string {
		return ranked(limit, func(r jobs.Request) time.Time { return r.At }, requestName)(mapped(m, withoutID), mapped(d, withoutID))
	}, rs, rs)
}

func (x *both) Asked(ctx context.Context, clients []string, now time.Time) ([]string, error) {
	return look(x, "Asked", func(cs []string) []string { return slices.Sorted(slices.Values(cs)) },
		func(tx jobs.Tx) ([]string, error) { return tx.Asked(ctx, clients, now) })
}

func (x *both) PostponeRequest(ctx context.Context, id int64, due time.Time) error {
	post := func(id int64) func(jobs.Tx) (struct{}, error) {
		return func(tx jobs.Tx) (struct{}, error) { return struct{}{}, tx.PostponeRequest(ctx, id, due) }
	}
	_, err := compared(x, "PostponeRequest", alike, post(id), post(translated([]int64{id}, x.p.requests)[0]))
	return err
}

func alike[T any](m, d T) string { return difference(m, d) }

func (x *both) DeleteRequests(ctx context.Context, ids []int64) error {
	remove := func(ids []int64) func(jobs.Tx) (struct{}, error) {
		return func(tx jobs.Tx) (struct{}, error) { return struct{}{}, tx.DeleteRequests(ctx, ids) }
	}
	_, err := compared(x, "DeleteRequests", alike, remove(ids), remove(translated(ids, x.p.requests)))
	return err
}

func (x *both) Clients(ctx context.Context) ([]jobs.ClientState, error) {
	return look(x, "Clients", by(func(c jobs.ClientState) string { return c.Client }), func(tx jobs.Tx) ([]jobs.ClientState, error) { return tx.Clients(ctx) })
}

func (x *both) PutPause(ctx context.Context, c jobs.ClientState) error {
	return x.change("PutPause", func(tx jobs.Tx) error { return tx.PutPause(ctx, c) })
}

func (x *both) PutExpiryHold(ctx context.Context, client string, s jobs.Standing) error {
	return x.change("PutExpiryHold", func(tx jobs.Tx) error { return tx.PutExpiryHold(ctx, client, s) })
}

func (x *both) Fence(ctx context.Context, f jobs.Fence) error {
	return x.change("Fence", func(tx jobs.Tx) error { return tx.Fence(ctx, f) })
}

func (x *both) Leases(ctx context.Context) ([]jobs.Lease, error) {
	return look(x, "Leases", func(ls []jobs.Lease) []jobs.Lease {
		return by(func(l jobs.Lease) string { return l.String() })(mapped(ls, func(l jobs.Lease) jobs.Lease {
			if x.p.itsOwnClock || l.Token == "" {
				l.Since, l.Until, l.Lapsed = time.Time{}, time.Time{}, false
			}
			return l
		}))
	}, func(tx jobs.Tx) ([]jobs.Lease, error) { return tx.Leases(ctx) })
}

func (x *both) TakeLease(ctx context.Context, l jobs.Lease, was string, d time.Duration) (bool, error) {
	return look(x, "TakeLease", as, func(tx jobs.Tx) (bool, error) { return tx.TakeLease(ctx, l, was, d) })
}

func (x *both) RenewLeases(ctx context.Context, tokens []string, d time.Duration) ([]string, error) {
	return look(x, "RenewLeases", by(as[string]), func(tx jobs.Tx) ([]string, error) { return tx.RenewLeases(ctx, tokens, d) })
}

func (x *both) FreeLease(ctx context.Context, f jobs.Fence) error {
	return x.change("FreeLease", func(tx jobs.Tx) error { return tx.FreeLease(ctx, f) })
}

func (x *both) Daemons(ctx context.Context) ([]jobs.Daemon, error) {
	return look(x, "Daemons", func(ms []jobs.Daemon) []jobs.Daemon {
		return by(func(m jobs.Daemon) string { return m.Owner })(mapped(ms, func(m jobs.Daemon) jobs.Daemon {
			if x.p.itsOwnClock {
				m.Until, m.Lapsed = time.Time{}, false
			}
			return m
		}))
	}, func(tx jobs.Tx) ([]jobs.Daemon, error) { return tx.Daemons(ctx) })
}

func (x *both) PutDaemon(ctx context.Context, m jobs.Daemon, d time.Duration) error {
	return x.change("PutDaemon", func(tx jobs.Tx) error { return tx.PutDaemon(ctx, m, d) })
}

func (x *both) DeleteDaemon(ctx context.Context, owner string) error {
	return x.change("DeleteDaemon", func(tx jobs.Tx) error { return tx.DeleteDaemon(ctx, owner) })
}

func (x *both) AddRun(ctx context.Context, r jobs.Run) (int64, error) {
	add := func(tx jobs.Tx) (int64, error) { return tx.AddRun(ctx, r) }
	return compared(x, "AddRun", func(m, d int64) string { x.p.runs[m] = d; return "" }, add, add)
}

func (x *both) PutRun(ctx context.Context, r jobs.Run) error {
	put := func(r jobs.Run) func(jobs.Tx) (struct{}, error) {
		return func(tx jobs.Tx) (struct{}, error) { return struct{}{}, tx.PutRun(ctx, r) }
	}
	mine := put(r)
	r.ID = translated([]int64{r.ID}, x.p.runs)[0]
	_, err := compared(x, "PutRun", alike, mine, put(r))
	return err
}

func (x *both) Runs(ctx context.Context, open bool, limit int) ([]jobs.Run, error) {
	rs := func(tx jobs.Tx) ([]jobs.Run, error) { return tx.Runs(ctx, open, limit) }
	return compared(x, "Runs", func(m, d []jobs.Run) string {
		return difference(mapped(m, func(r jobs.Run) jobs.Run { r.ID = x.p.runs[r.ID]; return r }), d)
	}, rs, rs)
}

func (x *both) RunFlows(ctx context.Context, kind string) ([]string, error) {
	flows := func(tx jobs.Tx) ([]string, error) {
		fs, err := tx.RunFlows(ctx, kind)
		slices.Sort(fs)
		return fs, err
	}
	return compared(x, "RunFlows", func(m, d []string) string { return difference(m, d) }, flows, flows)
}

func (x *both) DeleteRuns(ctx context.Context, ids []int64) error {
	remove := func(ids []int64) func(jobs.Tx) (struct{}, error) {
		return func(tx jobs.Tx) (struct{}, error) { return struct{}{}, tx.DeleteRuns(ctx, ids) }
	}
	_, err := compared(x, "DeleteRuns", alike, remove(ids), remove(translated(ids, x.p.runs)))
	return err
}

func (x *both) List(ctx context.Context, f jobs.Filter) ([]jobs.Row, error) {
	return look(x, fmt.Sprintf("List of %+v", f), as, func(tx jobs.Tx) ([]jobs.Row, error) { return tx.List(ctx, f) })
}

func (x *both) Destinations(ctx context.Context, flow string) ([]jobs.Destination, error) {
	return look(x, "Destinations", by(func(d jobs.Destination) string { return d.Client + "\x00" + d.Entity }),
		func(tx jobs.Tx) ([]jobs.Destination, error) { return tx.Destinations(ctx, flow) })
}

func (x *both) Counts(ctx context.Context, now time.Time) ([]jobs.Count, error) {
	return look(x, "Counts", by(func(c jobs.Count) string {
		return c.Flow + "\x00" + string(c.State) + "\x00" + string(c.Reason) + "\x00" + c.Class
	}), func(tx jobs.Tx) ([]jobs.Count, error) { return tx.Counts(ctx, now) })
}

func (x *both) Meta(ctx context.Context) (map[string]string, error) {
	return look(x, "Meta", func(m map[string]string) map[string]string {
		out := map[string]string{}
		for name, value := range m {
			if !slices.Contains([]string{"epoch", "created_at", "idempotency_secret"}, name) { // each has its own
				out[name] = value
			}
		}
		return out
	}, func(tx jobs.Tx) (map[string]string, error) { return tx.Meta(ctx) })
}

func (x *both) PutMeta(ctx context.Context, name, value string) error {
	return x.change("PutMeta", func(tx jobs.Tx) error { return tx.PutMeta(ctx, name, value) })
}

func (x *both) ListSources(ctx context.Context, flow, after string, limit int) ([]jobs.SourceRecord, error) {
	return look(x, "ListSources of "+flow, as, func(tx jobs.Tx) ([]jobs.SourceRecord, error) { return tx.ListSources(ctx, flow, after, limit) })
}

func (x *both) ListContenders(ctx context.Context, flow string, after jobs.Contender, limit int) ([]jobs.Contender, error) {
	return look(x, "ListContenders of "+flow, as, func(tx jobs.Tx) ([]jobs.Contender, error) { return tx.ListContenders(ctx, flow, after, limit) })
}

func (x *both) ListLinks(ctx context.Context, client string, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
	return look(x, "ListLinks of "+client, as, func(tx jobs.Tx) ([]jobs.Link, error) { return tx.ListLinks(ctx, client, after, limit) })
}

func (x *both) ListGroups(ctx context.Context, flow, after string, limit int) ([]jobs.Group, error) {
	return look(x, "ListGroups of "+flow, as, func(tx jobs.Tx) ([]jobs.Group, error) { return tx.ListGroups(ctx, flow, after, limit) })
}

func (x *both) ListPins(ctx context.Context, after jobs.Pin, limit int) ([]jobs.Pin, error) {
	return look(x, "ListPins", as, func(tx jobs.Tx) ([]jobs.Pin, error) { return tx.ListPins(ctx, after, limit) })
}

// listed is what ListAttempts answers.
type listed struct {
	As   []jobs.Attempt
	Last int64
}

func (x *both) ListAttempts(ctx context.Context, after int64, limit int) ([]jobs.Attempt, int64, error) {
	list := func(after int64) func(tx jobs.Tx) (listed, error) {
		return func(tx jobs.Tx) (l listed, err error) {
			l.As, l.Last, err = tx.ListAttempts(ctx, after, limit)
			return l, err
		}
	}
	l, err := compared(x, "ListAttempts", func(m, d listed) string {
		x.p.attempts[m.Last] = d.Last
		return difference(m.As, d.As)
	}, list(after), list(x.p.attempts[after]))
	return l.As, l.Last, err
}

// ListRequests compares all of them: their numbers, and so their order, are each engine's own.
func (x *both) ListRequests(ctx context.Context, after int64, limit int) ([]jobs.Request, error) {
	if err := x.sameRequests(ctx); err != nil {
		return nil, err
	}
	return x.m.ListRequests(ctx, after, limit)
}

func (x *both) LinkClients(ctx context.Context) ([]string, error) {
	return look(x, "LinkClients", by(as[string]), func(tx jobs.Tx) ([]string, error) { return tx.LinkClients(ctx) })
}
