package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
	"syncd/upsert"
)

// lane writes to one target client: it claims due jobs while the client's gate
// is open, applies them in units, and has their outcomes committed in groups.
type lane struct {
	d      *Daemon
	id     jobs.LaneID
	client *client
	flows  map[string]*jobs.Flow
	doers  map[string]*upsert.Strategy
	batch  int // the largest unit of any flow
	// single: every flow writes one record per call, by calls that may be repeated.
	single  bool
	log     *slog.Logger
	lookups *lookups

	rester
	slots chan struct{}
	// lacking is told of flows that the lane is run without and that have due jobs.
	lacking func(client, flow string)

	mu      sync.Mutex
	rows    map[jobs.RowID]bool
	records map[jobs.EntityKey]bool

	settler *settler
	freed   []jobs.Settled // flows whose suspension ended; under mu

	// finished counts jobs whose units have ended; since and before are the time and the
	// count at the last claim, which are the turn's own.
	finished atomic.Int64
	since    time.Time
	before   int64
	// claiming is how long the last claim took; the turn's own.
	claiming time.Duration

	// unsure names claims that may or may not have been stored; it is the turn's own.
	unsure []string
}

// mostClaimed bounds the jobs of one claim, and so what is in doubt after a crash.
const mostClaimed = 1000

func newLane(d *Daemon, c *client, id jobs.LaneID, flows map[string]*jobs.Flow) (*lane, error) {
	l := &lane{d: d, id: id, client: c, flows: flows, doers: map[string]*upsert.Strategy{}, batch: 1, single: true, log: c.log,
		rester: rester{woken: make(chan struct{}, 1)}, slots: make(chan struct{}, max(c.plan.Concurrency, 1)), lacking: func(string, string) {},
		rows: map[jobs.RowID]bool{}, records: map[jobs.EntityKey]bool{}, lookups: newLookups()}
	if c.target == nil {
		return nil, fmt.Errorf("client %s cannot be written to", c.name)
	}
	for name, f := range flows {
		e, err := c.target.Entity(f.Entity)
		if err != nil {
			return nil, fmt.Errorf("flow %s: %w", name, err)
		}
		s, err := upsert.New(f, e, d.journal, d.journal.Now)
		if err != nil {
			return nil, fmt.Errorf("flow %s: %w", name, err)
		}
		s.Panicked = func(op string, jb *jobs.Job, value any, stack []byte) {
			l.log.Error("a connector panicked", "flow", jb.Flow, "key", jb.Key, "step", op, "kind", fmt.Sprintf("%T", value), "stack", string(stack))
		}
		l.doers[name] = s
		l.batch = max(l.batch, s.MaxBatch())
		l.single = l.single && s.MaxBatch() == 1 && s.Repeats()
	}
	l.settler = newSettler(l)
	return l, nil
}

// run claims and dispatches until soft ends, then waits for what is under way.
func (l *lane) run(soft, hard context.Context) {
	settled := make(chan struct{})
	go func() {
		l.settler.run(hard)
		close(settled)
	}()
	var units sync.WaitGroup
	for soft.Err() == nil {
		if !l.turn(soft, hard, &units) {
			break
		}
	}
	units.Wait()
	l.settler.end()
	<-settled
}

// turn is one look for due jobs; it returns false when soft has ended.
func (l *lane) turn(soft, hard context.Context, units *sync.WaitGroup) bool {
	// It asks the journal alone: while the client is paused, too, what was never sent is
	// not to look as if it were being written.
	if !l.recover(soft) {
		return l.rest(soft, time.Second)
	}
	if l.client.open(soft) != nil {
		return false
	}
	if len(l.slots) == cap(l.slots) {
		return l.rest(soft, time.Second)
	}
	// What cannot be sent yet stays ready: it is not claimed, so that everybody sees what it waits for.
	if l.client.gate.Ready(soft, ratelimit.Ask{Kind: ratelimit.Writing}) != nil {
		return soft.Err() == nil
	}
	if !l.thin(soft) {
		return false
	}
	l.goOn(soft)
	probing := l.client.onProbation()
	if probing && l.underWay() > 0 {
		return l.rest(soft, time.Second)
	}
	free := cap(l.slots) - len(l.slots)
	limit := min(free*l.batch+l.ahead(), mostClaimed)
	if n := l.client.gate.Within(lateTime, ratelimit.Ask{Kind: ratelimit.Writing}); n > 0 {
		limit = min(limit, n*l.batch)
	}
	alone := probing || l.client.breaker.State().State != breaker.Closed
	if alone {
		limit = 1 // a probe
	}
	asked := time.Now()
	got, err := l.d.journal.Claim(soft, jobs.ClaimRequest{Client: l.id.Client, Shard: l.id.Shard, Limit: limit, Flows: l.flows,
		Busy: l.busy, InFlight: l.underWay(), Paused: l.client.gate.State(l.client.now()).Pause.Until, ClockDoubted: l.d.clockDoubted()})
	if err != nil {
		l.unsure = append(l.unsure, got.ID)
		if soft.Err() != nil {
			l.recover(hard)
			return false
		}
		l.log.Error("claiming jobs failed; nothing is sent", "error", err)
		return l.rest(soft, time.Second)
	}
	l.claiming = time.Since(asked)
	if len(got.Jobs)+got.Refreshed+got.Expired > 0 {
		l.d.opts.Observer.Claimed(l.client.name, len(got.Jobs), got.Refreshed, got.Expired)
	}
	if len(got.Ended) > 0 {
		l.d.opts.Observer.Ended(l.client.name, got.Ended)
	}
	for flow := range got.NoFlow {
		l.lacking(l.id.Client, flow)
	}
	l.expiry(soft, got)
	if len(got.Jobs) == 0 {
		return l.untilDue(soft)
	}
	begin, end := context.WithTimeout(soft, lateTime)
	defer end()
	for _, u := range l.units(got.Jobs) {
		l.start(begin, hard, u, units)
	}
	if alone { // what is claimed before that one is on its way would only be turned away
		sleep(soft, probeLook)
	}
	return soft.Err() == nil
}

// lateTime is for how long after a claim what is in it may be begun. What is claimed
// ahead waits longer where the target has become slow, and is given back: something
// else may be wanted by then, or nothing so old any more.
const lateTime = time.Second

const (
	// aheadTime is for how long jobs are claimed beyond the slots that are free, at least;
	// where a claim takes longer than half of it for twice as long as that took, so that slots do not
	// stand empty while the next one is stored.
	aheadTime = 50 * time.Millisecond
	// mostAhead is for how long at most.
	mostAhead = 250 * time.Millisecond
)

// ahead is how many more jobs than there are free slots for are worth claiming: as
// many as end in a moment at the rate of the last turn. A fast target takes one
// record after another while a claim is being stored, and claims of a few jobs each
// cost the journal more than the jobs. A slow one has nothing claimed ahead, so that
// what changes meanwhile is still written once; nor has one whose writes are found
// out about after a crash, by a look-up each or by a person.
func (l *lane) ahead() int {
	now, finished := l.client.now(), l.finished.Load()
	took, n := now.Sub(l.since), finished-l.before
	l.since, l.before = now, finished
	if !l.single {
		return 0
	}
	return expected(n, took, aheadFor(l.claiming))
}

// aheadFor is for how long jobs are claimed ahead where a claim takes so long.
func aheadFor(claim time.Duration) time.Duration { return min(max(2*claim, aheadTime), mostAhead) }

// expected is how many jobs end in a time where n ended in the time that was taken.
func expected(n int64, took, in time.Duration) int {
	return int(min(n*int64(in)/int64(max(took, time.Millisecond)), mostClaimed))
}

// recoverTime bounds the taking back of unconfirmed claims, which a stop may wait for.
const recoverTime = 5 * time.Second

// recover takes back claims of which it is not known whether they were stored;
// nothing of them was sent. It comes before the next claim, which would name the
// same attempts again, and reports whether that may be made.
func (l *lane) recover(ctx context.Context) bool {
	if len(l.unsure) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	if _, err := l.d.journal.RecoverOwn(ctx, l.id, l.flows, l.unsure...); err != nil {
		l.log.Error("taking back unconfirmed claims failed; nothing is claimed before that", "error", err)
		return false
	}
	l.unsure = nil
	return true
}

const (
	// mostUnderWay is how many jobs of batches may be under way for more to be
	// claimed at once.
	mostUnderWay = mostClaimed / 2
	// thinTime is how long a claim waits at most for that.
	thinTime = 100 * time.Millisecond
)

// thin waits a little for batches under way to be settled: until then they are
// due as far as the journal knows, and every claim reads past them. A fast target
// settles most within that time; one that is slow gets all of its calls after it.
func (l *lane) thin(soft context.Context) bool {
	if l.batch == 1 {
		return true
	}
	t := time.NewTimer(thinTime)
	defer t.Stop()
	for l.underWay() > mostUnderWay {
		select {
		case <-l.woken:
		case <-t.C:
			return true
		case <-soft.Done():
			return false
		}
	}
	return true
}

// untilDue rests until the next job is due, or until one was made due by whomever.
func (l *lane) untilDue(soft context.Context) bool {
	next, err := l.d.journal.NextDue(soft, l.id)
	if err != nil {
		return l.rest(soft, time.Second)
	}
	d := longestIdle
	if !next.IsZero() {
		d = min(max(next.Sub(l.d.journal.Now()), 20*time.Millisecond), longestIdle)
	}
	return l.idle(soft, d)
}

// unit is what is written in one go: a batch of one flow, or one job.
type unit struct {
	flow *jobs.Flow
	jobs []*jobs.Job
}

// units groups claimed jobs by flow into what their strategies take at once.
func (l *lane) units(js []*jobs.Job) []unit {
	var out []unit
	open := map[string]int{}
	for _, jb := range js {
		most := l.doers[jb.Flow].MaxBatch()
		if i, ok := open[jb.Flow]; ok && len(out[i].jobs) < most && !jb.Solo {
			out[i].jobs = append(out[i].jobs, jb)
			continue
		}
		out = append(out, unit{flow: l.flows[jb.Flow], jobs: []*jobs.Job{jb}})
		if !jb.Solo {
			open[jb.Flow] = len(out) - 1
		}
	}
	return out
}

// start applies a unit as soon as a slot is free, or gives it back once begin has ended.
func (l *lane) start(begin, hard context.Context, u unit, units *sync.WaitGroup) {
	l.mu.Lock()
	for _, jb := range u.jobs {
		l.rows[jb.RowID], l.records[jb.EntityKey()] = true, true
	}
	l.mu.Unlock()
	l.client.inFlight.Add(int64(len(u.jobs)))
	again := slices.ContainsFunc(u.jobs, retries)
	if again && !l.client.budget.retry() {
		l.settleAll(u, l.postponed())
		return
	}
	if !l.slot(begin) {
		if again {
			l.client.budget.came(true, connectors.Fail(connectors.Paused, codeLate, "not sent"))
		}
		l.giveBack(begin, u)
		return
	}
	units.Add(1)
	go func() {
		defer units.Done()
		ss := l.apply(hard, u)
		<-l.slots
		l.client.budget.came(again, worst(ss))
		l.finished.Add(int64(len(ss)))
		l.settler.add(ss)
		l.wake()
	}()
}

// slot waits for a free slot until begin ends.
func (l *lane) slot(begin context.Context) bool {
	if begin.Err() != nil {
		return false
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-begin.Done():
		return false
	}
}

// codeLate is a job that was claimed ahead of a target that became slow.
const codeLate = "late"

// giveBack settles jobs of which nothing was sent when begin ended.
func (l *lane) giveBack(begin context.Context, u unit) {
	o := connectors.Fail(connectors.Paused, upsert.CodeStopping, "not sent: the daemon stops, or another configuration is run")
	if errors.Is(begin.Err(), context.DeadlineExceeded) {
		o = connectors.Fail(connectors.Paused, codeLate, "not sent: the target did not take it in time; it is looked at anew")
	}
	l.settleAll(u, o)
}

// settleAll settles all jobs of a unit alike.
func (l *lane) settleAll(u unit, o connectors.Outcome) {
	ss := make([]jobs.Settlement, len(u.jobs))
	for i, jb := range u.jobs {
		ss[i] = jobs.Settlement{Job: jb, Flow: u.flow, Outcome: o, Served: l.client.lastServed()}
	}
	l.settler.add(ss)
}

// postponed is a retry for which the budget has nothing left.
func (l *lane) postponed() connectors.Outcome {
	o := connectors.Fail(connectors.Paused, codeBudget, "not sent: too many of the client's writes fail, so that retries are held back until more go well at once")
	o.RetryAfter = budgetRest + time.Duration(rand.Int64N(int64(budgetRest)))
	return o
}

// worst is the outcome that tells most of the target's health: a failure before anything else.
func worst(ss []jobs.Settlement) connectors.Outcome {
	i := slices.IndexFunc(ss, func(s jobs.Settlement) bool { return verdict(s.Outcome) == breaker.Failure })
	if i < 0 {
		i = max(slices.IndexFunc(ss, func(s jobs.Settlement) bool { return verdict(s.Outcome) == breaker.Success }), 0)
	}
	return ss[i].Outcome
}

func (l *lane) busy(id jobs.RowID, k jobs.EntityKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[id] || l.records[k]
}

func (l *lane) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows)
}

// over forgets jobs that are settled.
func (l *lane) over(ss []jobs.Settlement) {
	l.mu.Lock()
	for _, s := range ss {
		delete(l.rows, s.Job.RowID)
		delete(l.records, s.Job.EntityKey())
	}
	l.mu.Unlock()
	l.client.inFlight.Add(int64(-len(ss)))
	l.wake()
}
