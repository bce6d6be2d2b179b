package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"syncd/jobs"
)

const (
	// surveyEvery is how often a daemon looks who runs what. A lane whose lease has
	// lapsed is taken over that much later at most.
	surveyEvery = time.Second
	// surveySoon is the same while a lane is about to change hands.
	surveySoon = 100 * time.Millisecond
	// ownTime bounds one look or change of hands, which renewals do not wait for.
	ownTime = 5 * time.Second
	// beginAgain is how long a lane that could not be run is left alone.
	beginAgain = time.Minute
	// reshardAgain is the same for one that waits to be split anew.
	reshardAgain = 2 * time.Second
)

// run is one plan being run.
type run struct {
	plan *Plan

	mu      sync.Mutex
	tenures map[jobs.LaneID]*tenure
	// leaving are tenures that are about to end.
	leaving map[jobs.LaneID]*tenure
	// failed says when a lane that could not be run is tried again.
	failed map[jobs.LaneID]time.Time
	// idle says since when a lane is seen free.
	idle map[jobs.LaneID]time.Time
	// lacked are the flows of which it was said that they are wanting.
	lacked sync.Map
	wg     sync.WaitGroup
	// unlook ends look.
	unlook context.CancelFunc
}

// all are the tenures that are not over, in the order of their lanes.
func (r *run) all() []*tenure {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*tenure
	for _, m := range []map[jobs.LaneID]*tenure{r.tenures, r.leaving} {
		for _, t := range m {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *tenure) int { return compareLanes(a.hold.LaneID, b.hold.LaneID) })
	return out
}

// wake has the lanes of a client that this daemon runs look for due jobs. Those of
// others look for themselves, every second.
func (r *run) wake(client string) {
	for _, t := range r.all() {
		if t.lane != nil && t.hold.Client == client {
			t.lane.wake()
		}
	}
}

// lack returns what says, once for a flow, that jobs of it wait because this daemon does
// not have it. Of one that rests nothing is said.
func (r *run) lack(log *slog.Logger) func(client, flow string) {
	return func(client, flow string) {
		if slices.Contains(r.plan.Resting, flow) {
			return
		}
		if _, said := r.lacked.LoadOrStore(flow, true); !said {
			log.Warn("jobs wait because this daemon writes to their client and does not have their flow; reload it with the configuration that has the flow, and they go on at once", "client", client, "flow", flow)
		}
	}
}

// lookEvery is how often a daemon looks for what others have left to do for those of
// its clients that rest.
const lookEvery = time.Second

// look wakes what rests when there is something to do for it: another daemon or the
// command line may have made it so. One look for all costs a fraction of one for each.
func (r *run) look(ctx context.Context, d *Daemon) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		lanes, asked, errands := map[jobs.LaneID]*rester{}, map[string]*rester{}, map[string]*rester{}
		for _, t := range r.all() {
			if t.lane != nil && t.lane.idles() {
				lanes[t.hold.LaneID] = &t.lane.rester
			}
			if t.asked != nil && t.asked.idles() {
				asked[t.hold.Client] = t.asked
			}
			if t.errands != nil && t.errands.idles() {
				errands[t.hold.Client] = t.errands
			}
		}
		if len(lanes)+len(asked)+len(errands) == 0 {
			continue
		}
		short, cancel := context.WithTimeout(ctx, ownTime)
		do, err := d.journal.Look(short, slices.Collect(maps.Keys(lanes)), slices.Collect(maps.Keys(asked)))
		cancel()
		if err != nil && ctx.Err() == nil {
			d.log.Debug("looking for what is to do failed", "error", err)
			// Each looks for itself, and tells what is wrong.
			wakeAll(lanes, slices.Collect(maps.Keys(lanes)))
			wakeAll(asked, slices.Collect(maps.Keys(asked)))
			continue
		}
		wakeAll(lanes, do.Lanes)
		wakeAll(asked, do.Asked)
		wakeAll(errands, do.Errands)
	}
}

func wakeAll[K comparable](all map[K]*rester, which []K) {
	for _, k := range which {
		if r := all[k]; r != nil {
			r.wake()
		}
	}
}

// cut ends all that is under way.
func (r *run) cut() {
	for _, t := range r.all() {
		t.hard()
	}
}

// start takes the lanes that this daemon should run, takes back what ended daemons
// left under way in them, and sets them going.
func (d *Daemon) start(ctx context.Context, plan *Plan) (*run, error) {
	r := &run{plan: plan, tenures: map[jobs.LaneID]*tenure{}, leaving: map[jobs.LaneID]*tenure{}, failed: map[jobs.LaneID]time.Time{}, idle: map[jobs.LaneID]time.Time{}}
	lanes := plan.Lanes()
	if err := d.journal.Join(ctx, lanes, d.opts.Terms); err != nil {
		return nil, err
	}
	for _, h := range d.journal.Holds() {
		if slices.Contains(lanes, h.LaneID) {
			continue
		}
		if err := d.journal.Release(ctx, h); err != nil {
			return nil, err
		}
	}
	s, err := d.journal.Survey(ctx)
	if err != nil {
		return nil, err
	}
	sh := d.sharing(r, s)
	take, _ := sh.decide()
	for _, o := range take {
		if _, err := d.journal.Take(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, h := range d.journal.Holds() {
		if err := d.recover(ctx, r, h); errors.Is(err, jobs.ErrFenced) {
			d.log.Warn("the lease of a client ended before it could be run; it is tried again", "client", h.LaneID.String())
		} else if err != nil {
			return nil, err
		}
	}
	if err := d.unchanged(ctx, plan); err != nil {
		return nil, err
	}
	var ready []*tenure
	fail := func(err error) (*run, error) {
		for _, t := range ready {
			t.end()
		}
		return nil, err
	}
	for _, h := range d.journal.Holds() {
		t, err := d.prepare(ctx, r, h)
		if err != nil {
			return fail(err)
		}
		ready = append(ready, t)
	}
	// A change of a flow is accepted by a daemon that can run it.
	if err := d.bind(ctx, plan); err != nil {
		return fail(err)
	}
	for _, t := range ready {
		if err := d.split(ctx, r, t.hold); err != nil {
			t.end()
			d.later(r, t.hold, err)
			continue
		}
		d.enter(r, t)
	}
	d.others(s, lanes)
	looking, unlook := context.WithCancel(context.Background())
	r.unlook = unlook
	r.wg.Go(func() { r.look(looking, d) })
	d.mu.Lock()
	d.current = r
	d.mu.Unlock()
	return r, nil
}

// unchanged refuses a plan with flows that are not as their records were made,
// unless that is accepted.
func (d *Daemon) unchanged(ctx context.Context, plan *Plan) error {
	cs, err := d.journal.Changes(ctx, plan.JobFlows())
	if err != nil {
		return err
	}
	if cs = slices.DeleteFunc(cs, func(c jobs.Change) bool { return c.Accepted }); len(cs) > 0 {
		return &jobs.ChangedError{Changes: cs}
	}
	return nil
}

// bind ties the flows to their records.
func (d *Daemon) bind(ctx context.Context, plan *Plan) error {
	accepted, err := d.journal.Bind(ctx, plan.JobFlows())
	if err != nil {
		return err
	}
	for _, c := range accepted {
		for _, f := range c.Differences {
			d.log.Warn("the flow was changed, and the change is accepted", "flow", c.Flow, "field", f.Field, "was", f.Was, "is", f.Is)
		}
	}
	return nil
}

// recover takes back what earlier owners of a lane left under way.
func (d *Daemon) recover(ctx context.Context, r *run, h *jobs.Hold) error {
	lost, err := d.journal.Recover(ctx, h.LaneID, r.plan.targets(h.Client))
	if err == nil && lost.Jobs > 0 {
		d.log.Warn("found writes that an ended daemon left in doubt", "client", h.LaneID.String(), "jobs", lost.Jobs)
	}
	if err == nil && len(lost.Ended) > 0 {
		d.opts.Observer.Ended(h.Client, lost.Ended)
	}
	return err
}

// enter begins a tenure, and sees to its end when the lease is lost.
func (d *Daemon) enter(r *run, t *tenure) {
	r.mu.Lock()
	r.tenures[t.hold.LaneID] = t
	r.mu.Unlock()
	t.begin()
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		t.watch()
		select {
		case <-t.done: // it was ended
		default:
			d.end(r, t, false)
		}
	}()
}

// end ends a tenure, once, and gives its lane back if it is to be given.
func (d *Daemon) end(r *run, t *tenure, give bool) {
	lane := t.hold.LaneID
	r.mu.Lock()
	mine := r.tenures[lane] == t
	if mine {
		delete(r.tenures, lane)
		r.leaving[lane] = t
	}
	r.mu.Unlock()
	if !mine {
		<-t.done
		return
	}
	d.show(t.status())
	t.end()
	if give || !t.hold.Valid() {
		ctx, cancel := context.WithTimeout(context.Background(), ownTime)
		if err := d.journal.Release(ctx, t.hold); err != nil {
			d.log.Warn("a lane could not be given back", "client", lane.String(), "error", err)
		}
		cancel()
	}
	r.mu.Lock()
	delete(r.leaving, lane)
	r.mu.Unlock()
}

// stop ends all tenures of a run, and keeps the leases unless they are to be given.
func (d *Daemon) stop(r *run, give bool) {
	r.unlook()
	var wg sync.WaitGroup
	for _, t := range r.all() {
		wg.Go(func() { d.end(r, t, give) })
	}
	wg.Wait()
	r.wg.Wait()
	d.mu.Lock()
	d.current = nil
	d.mu.Unlock()
}

// leave tells the others that this daemon is about to end.
func (d *Daemon) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownTime)
	defer cancel()
	if err := d.journal.Leave(ctx); err != nil {
		d.log.Debug("the end of this daemon could not be announced", "error", err)
	}
}

// part gives back what is left, and takes this daemon off the list.
func (d *Daemon) part() {
	ctx, cancel := context.WithTimeout(context.Background(), ownTime)
	defer cancel()
	for _, h := range d.journal.Holds() {
		if err := d.journal.Release(ctx, h); err != nil {
			d.log.Debug("a lane could not be given back", "client", h.LaneID.String(), "error", err)
		}
	}
	if err := d.journal.Part(ctx); err != nil {
		d.log.Debug("this daemon could not be taken off the list", "error", err)
	}
}

// renew renews the leases until stop is closed.
func (d *Daemon) renew(stop <-chan struct{}) {
	terms := d.opts.Terms
	t := time.NewTimer(terms.Renew)
	defer t.Stop()
	for failures := 0; ; {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		for _, c := range d.Clients() {
			d.show(c)
		}
		ctx, cancel := context.WithTimeout(context.Background(), ownTime)
		err := d.journal.Renew(ctx)
		cancel()
		if err == nil {
			failures = 0
			t.Reset(terms.Renew)
			continue
		}
		if failures++; failures == 1 {
			d.log.Warn("the leases could not be renewed; tried again", "error", err)
		}
		t.Reset(min(terms.Renew, terms.Renew/5+time.Millisecond))
	}
}

// sharing is what this daemon knows of who runs what.
func (d *Daemon) sharing(r *run, s jobs.Survey) *sharing {
	now := time.Now()
	sh := &sharing{me: d.journal.Me(), survey: s, endless: d.journal.Alone(), held: map[jobs.LaneID]time.Duration{}, refused: map[jobs.LaneID]bool{}, idle: map[jobs.LaneID]time.Duration{}}
	for _, h := range d.journal.Holds() {
		sh.held[h.LaneID] = now.Sub(h.Since)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.tenures {
		if _, ok := sh.held[l]; !ok {
			sh.held[l] = 0 // its lease is lost, and it is about to end
		}
	}
	for l := range r.leaving {
		sh.held[l] = 0 // it is neither free nor to be given once more
	}
	for l, until := range r.failed {
		if now.Before(until) {
			sh.refused[l] = true
		}
	}
	seen := map[jobs.LaneID]time.Time{}
	for _, l := range sh.me.Lanes {
		if _, mine := sh.held[l]; mine {
			continue
		}
		if _, free := sh.free(l); !free {
			continue
		}
		seen[l] = now
		if since, ok := r.idle[l]; ok {
			seen[l] = since
		}
		sh.idle[l] = now.Sub(seen[l])
	}
	r.idle = seen
	return sh
}

// tend takes lanes that are free and gives those that others should have, and
// returns when to look again.
func (d *Daemon) tend(ctx context.Context, r *run) time.Duration {
	short, cancel := context.WithTimeout(ctx, ownTime)
	s, err := d.journal.Survey(short)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			d.log.Debug("looking which daemon runs what failed", "error", err)
		}
		return surveyEvery
	}
	d.heed(ctx, r, s)
	if err := d.journal.Bury(ctx, &s); err != nil && ctx.Err() == nil {
		d.log.Debug("ended daemons stay on the list", "error", err)
	}
	sh := d.sharing(r, s)
	take, give := sh.decide()
	for _, o := range take {
		d.take(ctx, r, o)
	}
	for _, l := range give {
		r.mu.Lock()
		t := r.tenures[l]
		r.mu.Unlock()
		if t != nil {
			d.log.Info("handing a client over to another daemon", "client", l.String())
			r.wg.Go(func() { d.end(r, t, true) })
		}
	}
	if sh.soon() {
		return surveySoon
	}
	return surveyEvery
}

// heed takes over pauses that others stored.
func (d *Daemon) heed(ctx context.Context, r *run, s jobs.Survey) {
	for _, t := range r.all() {
		for _, c := range s.Clients {
			if c.Client == t.hold.Client {
				t.heed(ctx, c, d.journal.Owner())
				t.clockBack(r, c)
			}
		}
	}
}

// take takes a lane and sets it going.
func (d *Daemon) take(ctx context.Context, r *run, o offer) {
	short, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	h, err := d.journal.Take(short, o)
	if err != nil {
		d.log.Warn("a free client could not be taken; tried again", "client", o.LaneID.String(), "error", err)
		return
	}
	if h == nil {
		return
	}
	err = d.ready(short, r, h)
	var t *tenure
	if err == nil {
		t, err = d.prepare(ctx, r, h)
	}
	if err != nil {
		d.later(r, h, err)
		return
	}
	d.log.Info("running a client", "client", o.LaneID.String())
	d.enter(r, t)
}

// later gives a lane back that cannot be run now, and leaves it alone for a while.
func (d *Daemon) later(r *run, h *jobs.Hold, err error) {
	again := beginAgain
	var re *jobs.ReshardError
	if errors.As(err, &re) {
		again = reshardAgain
	}
	r.mu.Lock()
	_, before := r.failed[h.LaneID]
	r.failed[h.LaneID] = time.Now().Add(again)
	r.mu.Unlock()
	level := slog.LevelError
	if re != nil {
		level = slog.LevelInfo
		if before {
			level = slog.LevelDebug // it was said
		}
	}
	d.log.Log(context.Background(), level, "a client cannot be run yet; it is tried again", "client", h.LaneID.String(), "error", err, "again_in", again)
	ctx, cancel := context.WithTimeout(context.Background(), ownTime)
	defer cancel()
	if err := d.journal.Release(ctx, h); err != nil {
		d.log.Warn("a lane could not be given back", "client", h.LaneID.String(), "error", err)
	}
}

// split sees to it that the rows of a client are split as this daemon's
// configuration says; only the first of its lanes splits them anew.
func (d *Daemon) split(ctx context.Context, r *run, h *jobs.Hold) error {
	want := max(r.plan.Clients[h.Client].Shards, 1)
	if h.Shard == 0 {
		return d.journal.Reshard(ctx, h.Client, want, r.plan.targets(h.Client))
	}
	has, err := d.journal.Sharded(ctx, h.Client)
	if err == nil && has != want {
		err = &jobs.ReshardError{Client: h.Client, Has: has, Get: want, Why: "the first lane of it is taken up"}
	}
	return err
}

// ready makes a lane that was taken ready to run: the flows must still be tied to
// their records as they are in this daemon's configuration.
func (d *Daemon) ready(ctx context.Context, r *run, h *jobs.Hold) error {
	if err := d.recover(ctx, r, h); err != nil {
		return err
	}
	// One that is accepted was bound by whoever runs it.
	cs, err := d.journal.Changes(ctx, r.plan.JobFlows())
	if err == nil && len(cs) > 0 {
		err = &jobs.ChangedError{Changes: cs}
	}
	if err != nil {
		return err
	}
	return d.split(ctx, r, h)
}

// others says once, at the start, which clients other daemons run.
func (d *Daemon) others(s jobs.Survey, lanes []jobs.LaneID) {
	me := d.journal.Owner()
	for _, l := range s.Leases {
		if l.Owner == "" || l.Owner == me || l.Lapsed || !slices.Contains(lanes, l.LaneID) {
			continue
		}
		if _, free := s.Free(l.LaneID, d.journal.Me(), d.journal.Alone()); free {
			continue
		}
		args := []any{"client", l.String(), "until", l.Until}
		if i := slices.IndexFunc(s.Daemons, func(m jobs.Daemon) bool { return m.Owner == l.Owner }); i >= 0 {
			args = append(args, "pid", s.Daemons[i].Process.PID, "host", s.Daemons[i].Process.Host)
		}
		d.log.Info("another daemon runs a client", args...)
	}
}
