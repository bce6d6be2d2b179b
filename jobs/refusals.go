package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// Where the target refuses one record after the other in the same way, the cause is
// the flow's and not theirs: a field was made mandatory, a path is wrong. Then the
// flow is suspended. Its jobs stay ready, also those that were refused, and keep
// their attempts; one at a time goes on as a probe, and the first that succeeds ends
// the suspension.

const (
	// refusalsInRow is how many different records must be refused in the same way, and
	// none written between them.
	refusalsInRow = 20
	// probeFirst is the time before the first probe; it doubles up to probeMost.
	probeFirst = time.Minute
	probeMost  = 10 * time.Minute
	// probeWait is how long other jobs wait for the outcome of a probe that was just
	// taken, before they are put off to the next one.
	probeWait = 10 * time.Second
	// probeBehind is how far behind the next probe's time a job is due that was tried, so
	// that another one is tried next: one bad record must not keep the flow suspended.
	probeBehind = time.Second
	// probeRefused is how far a job is that was refused before its flow was suspended.
	probeRefused = 10 * time.Millisecond
	// suspensionsKept is how long this process goes by what it read of suspensions; what
	// other daemons do is known that much later.
	suspensionsKept = time.Second
)

// refusals is what a daemon remembers of how writing its flows goes. What is lost
// with the process costs at most some more dead letters before a flow is suspended.
type refusals struct {
	mu sync.Mutex
	// rows are the refusals since the last success, by flow.
	rows map[string]refusedRow
	// freed are the last suspensions that a success has ended, by flow.
	freed map[string]freed
	// suspended are suspensions as they were read at.
	suspended map[string]Standing
	at        time.Time
}

// freed is the end of a suspension. A record that was refused before it, and is refused in
// the same way after it, is refused for its own sake: the flow has written another one.
type freed struct {
	code string
	at   time.Time
}

// own reports whether a refusal is the record's own fault.
func (f freed) own(s *Settlement) bool {
	return s.Job.LastClass == connectors.Invalid && s.Job.LastCode == f.code && s.Outcome.Code == f.code && s.Job.LastAt.Before(f.at)
}

// refusedRow is a row of refusals of one kind.
type refusedRow struct {
	code string
	ids  []RowID // each once
}

// with adds a refusal, which begins a new row if it is of another kind.
func (r refusedRow) with(code string, id RowID) refusedRow {
	if r.code != code {
		return refusedRow{code, []RowID{id}}
	}
	if !slices.Contains(r.ids, id) {
		r.ids = append(slices.Clip(r.ids), id)
	}
	return r
}

// read returns the suspensions of all flows, as of a second ago at most.
func (x *refusals) read(ctx context.Context, tx Tx, now time.Time) (map[string]Standing, error) {
	x.mu.Lock()
	known, at := x.suspended, x.at
	x.mu.Unlock()
	if known != nil && !now.Before(at) && now.Sub(at) < suspensionsKept {
		return maps.Clone(known), nil
	}
	fs, err := tx.Flows(ctx)
	if err != nil {
		return nil, err
	}
	known = map[string]Standing{}
	for _, f := range fs {
		if f.Suspended.Is() {
			known[f.Flow] = f.Suspended
		}
	}
	x.mu.Lock()
	x.suspended, x.at = maps.Clone(known), now
	x.mu.Unlock()
	return known, nil
}

// know takes over what a transaction that is committed has found or changed.
func (x *refusals) know(flow string, s Standing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.suspended == nil {
		return // read when it is needed
	}
	if s.Is() {
		x.suspended[flow] = s
	} else {
		delete(x.suspended, flow)
	}
}

// suspended implements view.
func (c *claiming) suspended(row *Row) (Standing, error) {
	if c.suspensions == nil {
		var err error
		if c.suspensions, err = c.j.refusals.read(c.ctx, c.tx, c.now); err != nil {
			return Standing{}, err
		}
	}
	return c.suspensions[row.Flow], nil
}

// probe takes the one probe of a suspended flow, unless another lane has taken it by
// now; a row of a flow that is not suspended may always be taken.
func (c *claiming) probe(row *Row) (may bool, err error) {
	if !c.suspensions[row.Flow].Is() {
		return true, nil
	}
	fs, err := c.tx.LockFlow(c.ctx, row.Flow)
	if err != nil {
		return false, err
	}
	s := &fs.Suspended
	may = !s.Is() || !s.Until.After(c.now)
	if s.Is() && may {
		if !mutant.On("all-probe") {
			s.Until = c.now.Add(probeEvery(s.Tries + 1))
		}
		s.Tries++
		if err := c.tx.SaveFlow(c.ctx, fs); err != nil {
			return false, err
		}
	}
	c.suspensions[row.Flow] = *s
	c.probed = append(c.probed, row.Flow)
	return may, nil
}

// probeEvery is the time from the n-th probe to the next; n from 0 for the time
// before the first.
func probeEvery(n int) time.Duration {
	return min(probeFirst<<min(n, 10), probeMost)
}

// suspendedRow puts a row of a suspended flow off: to the next probe, and shortly
// after one was taken to when its outcome may be there.
func (c *claiming) suspendedRow(row *Row) {
	s := c.suspensions[row.Flow]
	row.DueAt = row.nextProbe(s, c.now)
	if taken := s.Until.Add(-probeEvery(s.Tries)); s.Tries > 0 && c.now.Sub(taken) < probeWait {
		row.DueAt = taken.Add(probeWait)
	}
	c.patches = append(c.patches, *row)
}

// nextProbe is when a row of a suspended flow is due: first those that were not refused
// for what suspends it, for one of them may well be written, then the others, the later they
// were tried since the suspension began.
func (r *Row) nextProbe(s Standing, now time.Time) time.Time {
	tried := r.LastAt.After(s.Since) && now.After(s.Since)
	if !tried && (r.LastClass != connectors.Invalid || r.LastCode != s.Code) {
		return s.Until
	}
	share := 0.0
	if tried {
		share = float64(r.LastAt.Sub(s.Since)) / float64(now.Sub(s.Since))
	}
	return micro(s.Until.Add(probeRefused + time.Duration(min(share, 1)*float64(probeBehind-probeRefused))))
}

// weighing is what a group of outcomes means for its flows.
type weighing struct {
	// states are the flows that may be suspended or freed by it, held.
	states map[string]*FlowState
	rows   map[string]refusedRow
	freed  map[string]freed
	// ends names the settlement that suspended or freed a flow in the end.
	turned map[string]int
	before map[string]Standing
	// flows are those of the outcomes, settled the rows that they were of.
	flows   map[string]*Flow
	settled map[RowID]bool
}

// weigh begins to look at a group of outcomes. It holds the flows that may be
// suspended or freed by it, before any row is held.
func (j *Journal) weigh(ctx context.Context, tx Tx, ss []Settlement) (*weighing, error) {
	w := &weighing{states: map[string]*FlowState{}, rows: map[string]refusedRow{}, freed: map[string]freed{}, turned: map[string]int{}, before: map[string]Standing{},
		flows: map[string]*Flow{}, settled: map[RowID]bool{}}
	x := &j.refusals
	x.mu.Lock()
	may := map[string]bool{}
	for i := range ss {
		flow := ss[i].Job.Flow
		if _, ok := w.rows[flow]; !ok {
			w.rows[flow], w.freed[flow] = x.rows[flow], x.freed[flow]
		}
		switch {
		case x.suspended[flow].Is():
			may[flow] = may[flow] || refused(&ss[i]) || succeeded(&ss[i])
		case refused(&ss[i]) && w.freed[flow].own(&ss[i]):
		case refused(&ss[i]):
			w.rows[flow] = w.rows[flow].with(ss[i].Outcome.Code, ss[i].Job.RowID)
			may[flow] = may[flow] || len(w.rows[flow].ids) >= refusalsInRow
		case succeeded(&ss[i]):
			w.rows[flow] = refusedRow{}
		}
	}
	for flow := range w.rows {
		w.rows[flow] = x.rows[flow] // what counts is said by weighed, outcome by outcome
	}
	x.mu.Unlock()
	for _, flow := range slices.Sorted(maps.Keys(may)) {
		if !may[flow] {
			continue
		}
		fs, err := tx.LockFlow(ctx, flow)
		if err != nil {
			return nil, err
		}
		w.states[flow], w.before[flow] = &fs, fs.Suspended
	}
	return w, nil
}

// refused reports whether the target refused the record for good.
func refused(s *Settlement) bool { return s.Outcome.Class == connectors.Invalid }

// succeeded reports whether the target took the record, or had it.
func succeeded(s *Settlement) bool {
	nothing := s.Job.Gone && s.Flow.OnDelete == "ignore"
	return FollowOf(s.Outcome.Class).Confirms && !nothing
}

// weighed takes account of the i-th outcome, which is settled.
func (w *weighing) weighed(i int, s *Settlement, now time.Time) {
	flow := s.Job.Flow
	w.flows[flow], w.settled[s.Job.RowID] = s.Flow, true
	fs := w.states[flow]
	switch {
	case succeeded(s):
		w.rows[flow] = refusedRow{}
		if fs != nil && fs.Suspended.Is() {
			w.freed[flow] = freed{fs.Suspended.Code, now}
			fs.Suspended, w.turned[flow] = Standing{}, i
		}
	case !refused(s), w.freed[flow].own(s) && (fs == nil || !fs.Suspended.Is()):
	default:
		w.rows[flow] = w.rows[flow].with(s.Outcome.Code, s.Job.RowID)
		if fs == nil || fs.Suspended.Is() || len(w.rows[flow].ids) < refusalsInRow {
			return
		}
		fs.Suspended = Standing{Since: now, Code: s.Outcome.Code, Until: now.Add(probeEvery(0)),
			Message: clip(fmt.Sprintf("%d records in a row were refused in the same way (%s), the last with: %s",
				len(w.rows[flow].ids), failureOf(s.Outcome), s.Outcome.Message))}
		w.turned[flow] = i
	}
}

func failureOf(o connectors.Outcome) string {
	if o.Code == "" {
		return string(o.Class)
	}
	return string(o.Class) + ", " + o.Code
}

// end stores what became of the flows, and spares the rows that were refused for
// what is the flow's fault: they are ready again and keep their attempts.
func (w *weighing) end(b *settlement) error {
	for _, flow := range slices.Sorted(maps.Keys(w.states)) {
		fs := w.states[flow]
		if fs.Suspended != w.before[flow] {
			if err := b.tx.SaveFlow(b.ctx, *fs); err != nil {
				return err
			}
		}
		row := w.rows[flow]
		if !fs.Suspended.Is() || row.code != fs.Suspended.Code {
			continue
		}
		if err := b.load(row.ids); err != nil {
			return err
		}
		for _, id := range row.ids {
			r := b.rows[id]
			if r == nil || r.Group != "" && w.flows[flow].OnDead == "skip" && !w.settled[id] {
				continue // its group has gone on without it
			}
			if !r.spare(fs.Suspended, b.now) {
				continue
			}
			spared := []Row{*r}
			if err := place(b.ctx, b.tx, spared); err != nil {
				return err
			}
			r.Shard = spared[0].Shard
			b.patch(r)
		}
		w.rows[flow] = refusedRow{code: row.code} // they are ready, and are counted when they are refused again
	}
	return nil
}

// spare makes a row ready again that was refused for what suspends its flow, with the
// attempt that this cost.
func (r *Row) spare(s Standing, now time.Time) bool {
	if r.State != Dead || r.Reason != ReasonFailed || r.LastClass != connectors.Invalid || r.LastCode != s.Code {
		return false
	}
	r.State, r.Reason, r.DueAt = Ready, ReasonRetry, r.nextProbe(s, now)
	if r.Unresolved() {
		r.Reason = ReasonUnresolved
	}
	if r.Tries = max(r.Tries-1, 0); r.Tries == 0 {
		r.FirstTryAt = time.Time{}
	}
	return true
}

// load reads rows that are not in the working set.
func (b *settlement) load(ids []RowID) error {
	var want []RowID
	for _, id := range ids {
		if b.rows[id] == nil {
			want = append(want, id)
		}
	}
	if len(want) == 0 {
		return nil
	}
	rows, err := b.tx.Rows(b.ctx, want, false)
	for i := range rows {
		b.rows[rows[i].RowID] = &rows[i]
	}
	return err
}

// patch stores a row as it is by now, in the place of what was to be stored of it.
func (b *settlement) patch(row *Row) {
	b.patches = slices.DeleteFunc(b.patches, func(p Row) bool { return p.RowID == row.RowID })
	b.patches = append(b.patches, *row)
}

// keep remembers what a group of outcomes that is committed came to, and tells it
// with the settlement that turned it.
func (w *weighing) keep(x *refusals, out []Settled) {
	x.mu.Lock()
	if x.rows == nil {
		x.rows, x.freed = map[string]refusedRow{}, map[string]freed{}
	}
	maps.Copy(x.freed, w.freed)
	for flow, row := range w.rows {
		if len(row.ids) > 0 {
			x.rows[flow] = row
		} else {
			delete(x.rows, flow)
		}
	}
	x.mu.Unlock()
	for flow, fs := range w.states {
		x.know(flow, fs.Suspended)
		i, turned := w.turned[flow]
		switch {
		case !turned || fs.Suspended.Is() == w.before[flow].Is():
		case fs.Suspended.Is():
			out[i].Suspended = fs.Suspended
		default:
			out[i].Freed = w.before[flow]
		}
	}
}

// ProbeNow has each of these flows that is suspended tried at once, and the time to
// the next probes begin anew: a person may have mended the cause.
func (j *Journal) ProbeNow(ctx context.Context, flows map[string]*Flow) error {
	err := j.engine.View(ctx, func(tx Tx) error {
		j.refusals.mu.Lock()
		j.refusals.suspended = nil
		j.refusals.mu.Unlock()
		_, err := j.refusals.read(ctx, tx, j.Now())
		return err
	})
	if err != nil {
		return wrap(err, "read which flows are suspended")
	}
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		j.refusals.mu.Lock()
		was := j.refusals.suspended[name]
		j.refusals.mu.Unlock()
		if !was.Is() {
			continue
		}
		var fs FlowState
		err := j.engine.Update(ctx, func(tx Tx) (err error) {
			if fs, err = tx.LockFlow(ctx, name); err != nil || !fs.Suspended.Is() {
				return err
			}
			fs.Suspended.Until, fs.Suspended.Tries = j.Now(), 0
			return tx.SaveFlow(ctx, fs)
		})
		if err == nil {
			j.refusals.know(name, fs.Suspended)
			err = j.hastenProbe(ctx, name, was)
		}
		if err != nil {
			return wrap(err, "have flow %s tried", name)
		}
	}
	return nil
}

// hastenProbe makes that job of a flow due which comes next among those that were put
// off to the next probe.
func (j *Journal) hastenProbe(ctx context.Context, flow string, was Standing) error {
	var next *Row
	_, err := j.hasten(ctx, flow, 0, func(r *Row, _ time.Time) bool {
		if was.putOff(r) && (next == nil || r.DueAt.Before(next.DueAt)) {
			next = r
		}
		return false
	})
	if err != nil || next == nil {
		return err
	}
	_, err = j.hasten(ctx, flow, 1, func(r *Row, _ time.Time) bool { return r.RowID == next.RowID })
	return err
}

// putOff reports whether a row was put off to the next probe of its flow.
func (s Standing) putOff(r *Row) bool {
	return !r.DueAt.Before(s.Until) && !r.DueAt.After(s.Until.Add(probeBehind))
}

// AfterSuspension makes the jobs of a flow due that were put off while it was
// suspended.
func (j *Journal) AfterSuspension(ctx context.Context, flow string, was Standing) error {
	_, err := j.hasten(ctx, flow, 0, func(r *Row, _ time.Time) bool { return was.putOff(r) })
	return wrap(err, "go on with flow %s", flow)
}
