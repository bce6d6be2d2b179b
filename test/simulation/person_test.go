package simulation

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/jobs/memory"
	"syncd/ratelimit"
)

// besides is a person's way to the journal, which nothing is wrong with.
type besides struct {
	*memory.Engine
	w *world
}

func (b besides) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	x := &witness{w: b.w}
	err := b.Engine.Update(ctx, func(tx jobs.Tx) error {
		x.Tx = tx
		return fn(x)
	})
	x.committed(err)
	return err
}

// person sees to held jobs and dead letters, as one would who looks into the target.
func (w *world) person(ctx context.Context, a *actor) {
	for {
		a.sleep(a.st.upTo(10 * time.Second))
		rows, running, err := w.beside.List(ctx, jobs.Filter{Limit: 1000})
		if err != nil {
			a.st.violation("listing failed: %v", err)
			return
		}
		for _, r := range rows {
			switch {
			case running[r.RowID]:
			case r.State == jobs.Held && a.st.r.IntN(2) == 0:
				w.resolve(ctx, a, &r)
			case r.State == jobs.Dead && (a.st.calm || a.st.r.IntN(2) == 0):
				a.st.note("replays ", r.String(), " ", r.LastCode)
				a.st.seen("a dead letter is replayed")
				acted, err := w.beside.Replay(ctx, []jobs.RowID{r.RowID}, w.configured(w.shards))
				if err != nil {
					a.st.violation("replay failed: %v", err)
				}
				if x := w.source.newest[r.SourceID]; r.Reason == jobs.ReasonRenamed && acted.Done+acted.Asked == 0 && x != nil {
					y := *x
					y.at = time.Now().UTC()
					w.source.add(&y) // only a newer version is read
				}
				if acted.Done > 0 && r.Group != "" {
					w.flows[r.Flow].replayed(&r)
				}
			}
		}
	}
}

func (w *world) resolve(ctx context.Context, a *actor, r *jobs.Row) {
	if w.engine.Now().Before(r.UnresolvedAt.Add(settle)) {
		return
	}
	v := jobs.Verdict{By: "a person", Why: "looked"}
	w.land()
	sent := w.newest[r.RowID]
	removal := sent != nil && sent.Gone && (r.Gone || r.LastCode != "restored") // what they are asked about
	if d, _, err := w.beside.Get(ctx, r.RowID); err == nil && len(d.Attempts) > 0 && d.Attempts[0].Class == connectors.Lost && d.Attempts[0].Generation == r.Generation {
		removal = r.Gone // nothing of it need have been sent
	}
	// That the record is there says that its create was done, and nothing of a change.
	switch there := w.flows[r.Flow].e.Records(r.Key); {
	case removal:
		v.Applied = len(there) == 0
	case len(there) > 0 && (!r.Applied() || bytes.Equal(jobs.HashBody([]byte(there[0].Body)), r.Hash)):
		v.Applied, v.Link = true, there[0].Link()
		// Perhaps as a backup has it.
		v.Older = !bytes.Equal(jobs.HashBody([]byte(there[0].Body)), r.Hash)
	}
	_, refused, err := w.beside.Resolve(ctx, r.RowID, v, w.configured(w.shards))
	a.st.seen("a held job is resolved")
	if a.st.told() {
		a.st.note(fmt.Sprintf("resolves %s: applied %v, refused %q, %v", r, v.Applied, refused, err))
	}
}

// anErrand is what a person will do in this history beside seeing to jobs.
func (w *world) anErrand() string {
	if w.st.r.IntN(2) == 0 {
		return ""
	}
	kinds := []string{"pause", "source-reset", "remap", "shards", "refused", "redeliver"}
	return kinds[w.st.r.IntN(len(kinds))]
}

// operator does the errand.
func (w *world) operator(ctx context.Context, a *actor) {
	defer func() { w.errand = "" }()
	a.sleep(a.st.upTo(15 * time.Second))
	a.st.note("errand: ", w.errand)
	a.st.seen("errand: " + w.errand)
	switch w.errand {
	case "pause":
		client := []string{shop, erp}[a.st.r.IntN(2)]
		w.pause(ctx, a, client, ratelimit.Forever())
		a.sleep(a.st.upTo(10 * time.Second))
		w.pause(ctx, a, client, time.Time{})
	case "redeliver":
		w.redeliver(ctx, a)
	case "source-reset":
		n := w.source.backup()
		a.sleep(a.st.upTo(10 * time.Second))
		w.source.down = true
		a.step("restores the source")
		w.source.restore(n)
		for _, f := range w.sortedFlows() {
			if _, err := w.beside.SourceReset(ctx, f.Name); err != nil {
				a.st.violation("source-reset failed: %v", err)
			}
			a.step("has reset ", f.Name)
		}
		w.source.down = false
	case "remap":
		w.settings++
		w.replaceAll(a)
		for _, f := range w.sortedFlows() {
			w.run(ctx, a, jobs.Run{Kind: jobs.RunRemap, Flow: f.Name, Client: f.SourceClient, By: "a person"})
		}
	case "shards":
		w.shards = 1 + (w.shards+a.st.r.IntN(2))%3
		w.replaceAll(a)
	case "refused":
		w.refusing = time.Now().Add(time.Minute + a.st.upTo(time.Minute))
		for n := range w.source.ids { // enough to suspend the flow
			w.source.changeOne(strconv.Itoa(n))
		}
		w.until(a, func() bool { return time.Now().After(w.refusing) })
	}
}

// replaceAll has the daemons end one after the other, and others begin that are
// configured as all are from now on.
func (w *world) replaceAll(a *actor) {
	for _, n := range slices.Clone(w.nodes) {
		if !n.dead {
			a.st.doomed = append(a.st.doomed, func() { w.end(n) })
			a.step("ends ", n.name)
			if a.st.r.IntN(2) == 0 {
				w.startOne()
			}
			a.sleep(a.st.upTo(time.Second))
		}
	}
	w.startOne()
}

// pause is a person's word that a client is not to be called, or may be again.
func (w *world) pause(ctx context.Context, a *actor, client string, until time.Time) {
	p := ratelimit.Pause{Until: until, Reason: ratelimit.ReasonOperator, Evidence: "wanted", Since: w.beside.Now()}
	if until.IsZero() {
		p = ratelimit.Pause{}
	}
	if err := w.beside.SavePause(ctx, client, p); err != nil {
		a.st.violation("pausing failed: %v", err)
	}
	a.st.note("pause of ", client, " until ", until.String())
}

// redeliver puts the target back to a backup, and has written again what it lost: while
// nothing is written, or beside the daemons, of which some do not know yet what became of
// their writes of before.
func (w *world) redeliver(ctx context.Context, a *actor) {
	backups := map[*flow]faketarget.Snapshot{}
	for _, f := range w.sortedFlows() {
		backups[f] = f.e.Snapshot()
	}
	since := w.beside.Now()
	a.sleep(a.st.upTo(15 * time.Second))
	beside := a.st.r.IntN(2) == 0
	if !beside {
		w.pause(ctx, a, erp, ratelimit.Forever())
		a.sleep(time.Second)
		w.until(a, func() bool { return w.heard(erp) && w.idle() })
	}
	if _, running, err := w.beside.List(ctx, jobs.Filter{Limit: 1000}); err == nil && len(running) > 0 {
		a.st.seen("a redelivery begins while writes are under way")
	}
	for f, s := range backups {
		f.e.Restore(s)
	}
	w.restores++
	a.st.note("the target is restored")
	for _, f := range w.sortedFlows() {
		n, err := w.beside.CountRedeliver(ctx, &f.Flow, since)
		if err != nil {
			a.st.violation("counting what to redeliver failed: %v", err)
		}
		w.begin(ctx, a, jobs.NewRedelivery(&f.Flow, since, n.Rows))
	}
	w.ended(ctx, a)
	if !beside {
		w.pause(ctx, a, erp, time.Time{})
	}
}

// idle reports whether nothing of the target client is under way, by a daemon or late.
func (w *world) idle() bool {
	for _, f := range w.flows {
		if len(f.e.Pending()) > 0 {
			return false
		}
	}
	_, running, err := w.beside.List(w.st.nobody(), jobs.Filter{Limit: 1000})
	return err == nil && len(running) == 0
}

// heard reports whether every lane has heard of a client's pause.
func (w *world) heard(client string) bool {
	for _, n := range w.nodes {
		for _, c := range n.clients {
			if !n.dead && c.hold.Client == client && c.heard <= w.pauses[client] {
				return false
			}
		}
	}
	return true
}

// run begins a long errand and waits for its end.
func (w *world) run(ctx context.Context, a *actor, r jobs.Run) {
	w.begin(ctx, a, r)
	w.ended(ctx, a)
}

// begin begins a long errand.
func (w *world) begin(ctx context.Context, a *actor, r jobs.Run) {
	if _, _, err := w.beside.StartRun(ctx, r); err != nil {
		a.st.violation("starting an errand failed: %v", err)
	}
}

// ended waits for the end of all errands.
func (w *world) ended(ctx context.Context, a *actor) {
	w.until(a, func() bool {
		rs, err := w.beside.Runs(ctx, true, 10)
		return err == nil && len(rs) == 0
	})
}

// until waits until something is so.
func (w *world) until(a *actor, so func() bool) {
	for !so() {
		a.sleep(a.st.upTo(time.Second))
	}
}
