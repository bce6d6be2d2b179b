package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/jobs/memory"
)

// world is what one history is about.
type world struct {
	st       *stage
	engine   *memory.Engine
	source   *source
	flows    map[string]*jobs.Flow
	entities map[string]*faketarget.Entity
	lanes    []jobs.LaneID // the shop's first
	nodes    []*node
	started  int
	// ahead is by how much the journal's clock is off; jumps says that it may jump.
	ahead time.Duration
	jumps bool
	// together says that the daemons run on one machine, and know of each other's end.
	together bool
	// blind are flows whose target cannot be asked for a record.
	blind map[string]bool
	// wrote are the newest attempts of which a write was sent.
	wrote map[jobs.RowID]int64
	// newest are the newest attempts of which anything was sent.
	newest map[jobs.RowID]*jobs.Job
	// beside is a person's way to the journal.
	beside *jobs.Journal
}

// settle is how long a write may be at work in the target after its answer is given up.
const settle = 5 * time.Second

// source is a log of the states of some records.
type source struct {
	st     *stage
	log    []jobs.Item
	newest map[string]*jobs.Item
}

func newWorld(st *stage) *world {
	w := &world{st: st, source: &source{st: st, newest: map[string]*jobs.Item{}}, blind: map[string]bool{}, wrote: map[jobs.RowID]int64{}, newest: map[jobs.RowID]*jobs.Job{}, flows: map[string]*jobs.Flow{}, entities: map[string]*faketarget.Entity{}}
	w.engine = memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(w.ahead).UTC().Truncate(time.Microsecond) }})
	w.beside = jobs.New(w.engine, jobs.Options{Owner: "a person", Rand: st.r.Float64})
	w.jumps = st.r.IntN(4) == 0
	w.together = st.r.IntN(4) == 0
	w.lanes = []jobs.LaneID{{Client: "shop"}, {Client: "erp"}}
	shards := 1 + st.r.IntN(2)
	for n := 1; n < shards; n++ {
		w.lanes = append(w.lanes, jobs.LaneID{Client: "erp", Shard: n})
	}
	strategies := connectors.Strategies()
	for range 1 + st.r.IntN(2) {
		w.flow(strategies[st.r.IntN(len(strategies))], shards)
	}
	return w
}

// flow adds a flow of a strategy, with an entity of its own that can carry it.
func (w *world) flow(s connectors.Strategy, shards int) {
	name := string(s)
	o := faketarget.Options{Name: name, SettleTime: settle}
	f := &jobs.Flow{Name: name, SourceClient: "shop", Stream: "things", Client: "erp", Entity: name, Strategy: s, Shards: shards, SettleTime: settle,
		Retry:      jobs.Retry{MaxAttempts: 100, InitialDelay: 100 * time.Millisecond, MaxDelay: 2 * time.Second, Multiplier: 2, Timeout: time.Minute, RetryFor: time.Hour},
		OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead"}
	switch s {
	case connectors.NaturalKey:
		o.MaxBatch = 1 + w.st.r.IntN(3)
		if w.st.r.IntN(2) == 0 {
			o.Guarded, f.SettleTime = true, 0
		}
	case connectors.ExternalRef:
		o.Unique = true
	case connectors.IdempotencyKey:
		zoo := faketarget.Zoo()
		names := []string{"keeps all", "ignores the body", "heeds the body", "keeps success"}
		k := zoo[names[w.st.r.IntN(len(names))]]
		o.Keys = &k
		w.blind[name] = w.st.r.IntN(2) == 0
	}
	if s != connectors.AtMostOnce && !w.blind[name] && w.st.r.IntN(3) == 0 {
		f.OnDelete, f.SettleTime = "delete", settle
	}
	w.flows[name] = f
	w.entities[name] = faketarget.New(o, func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) })
	w.entities[name].Plan(func(c faketarget.Call) faketarget.Fault {
		ft := w.fault(c)
		if ft.Kind == faketarget.FailDone && w.blind[name] && !o.Keys.KeepsErrors {
			ft.Kind = faketarget.FailUndone // nothing could help where the create is done, the answer an error, and the key forgotten
		}
		return ft
	})
}

func (w *world) sortedFlows() (out []*jobs.Flow) {
	for _, name := range slices.Sorted(maps.Keys(w.flows)) {
		out = append(out, w.flows[name])
	}
	return out
}

// fault is what goes wrong with a call of the target.
func (w *world) fault(c faketarget.Call) faketarget.Fault {
	if w.st.calm || w.st.r.IntN(4) > 0 {
		return faketarget.Fault{}
	}
	kinds := []faketarget.Kind{faketarget.NotSent, faketarget.Throttle, faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.LoseAnswer,
		faketarget.FailUndone, faketarget.FailDone, faketarget.NoLink, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.Short, faketarget.Late, faketarget.Late}
	if w.jumps { // how long a write was at work cannot be told by a clock that jumps
		kinds = kinds[:len(kinds)-2]
	}
	// A code of its own each time: a record that always fails alike becomes a dead letter.
	return faketarget.Fault{Kind: kinds[w.st.r.IntN(len(kinds))], Delay: w.st.upTo(settle - time.Second), Code: fmt.Sprint("http_", w.st.r.IntN(100000))}
}

// change changes a record at the source.
func (s *source) change() {
	id := strconv.Itoa(s.st.r.IntN(4))
	it := jobs.Item{SourceID: id, Version: 1, Versioned: true, Log: true, ChangedAt: time.Now().UTC()}
	if old := s.newest[id]; old != nil {
		it.Version = old.Version + 1
	}
	if s.newest[id] != nil && !s.newest[id].Gone && s.st.r.IntN(6) == 0 {
		it.Gone = true
	} else {
		body := fmt.Sprintf(`{"key":"K%s","n":%d}`, id, s.st.r.IntN(4)) // a record may become again what it was
		it.Pairs = []jobs.Pair{{Key: "K" + id, Body: json.RawMessage(body)}}
	}
	s.newest[id] = &it
	s.log = append(s.log, it)
}

// pull returns what comes after a cursor; sometimes it begins with old events again,
// or ends with one that comes late.
func (s *source) pull(cursor json.RawMessage, observed time.Time) ([]jobs.Item, json.RawMessage) {
	at, _ := strconv.Atoi(string(cursor))
	end := min(at+3, len(s.log))
	from := at
	if s.st.chance(8) {
		from = max(0, at-s.st.r.IntN(6))
	}
	items := slices.Clone(s.log[from:end])
	if end > 0 && s.st.chance(8) {
		items = append(items, s.log[s.st.r.IntN(end)])
	}
	for i := range items {
		items[i].Observed = observed
	}
	return items, json.RawMessage(strconv.Itoa(end))
}

// happens is what befalls the world between two steps.
func (w *world) happens() {
	st := w.st
	if st.calm {
		return
	}
	var alive []*node
	for _, n := range w.nodes {
		if !n.dead {
			alive = append(alive, n)
		}
	}
	switch x := st.r.IntN(1000); {
	case x < 25:
		w.source.change()
	case x < 28 && len(alive) > 0:
		n := alive[st.r.IntN(len(alive))]
		st.note("death of ", n.name)
		st.kill(n)
	case x < 34 && len(alive) < 3:
		w.startOne()
	case x < 36 && len(alive) > 0:
		n := alive[st.r.IntN(len(alive))]
		n.frozen = time.Now().Add(st.upTo(12 * time.Second))
		st.note("stop of ", n.name)
	case x < 38 && len(alive) > 0:
		n := alive[st.r.IntN(len(alive))]
		n.cut = time.Now().Add(st.upTo(12 * time.Second))
		st.note("journal away for ", n.name)
	case x < 40 && w.jumps:
		w.ahead += st.upTo(20*time.Second) - 10*time.Second
		st.note("the journal's clock jumps")
	}
}

// nodeNamed is a daemon by its name; nil for none.
func (w *world) nodeNamed(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (w *world) startOne() {
	w.started++
	w.start(fmt.Sprintf("d%d", w.started))
}

// land lets late writes take effect as time goes by.
func (w *world) land() {
	for _, e := range w.entities {
		e.Land()
	}
}

// person sees to held jobs and dead letters, as one would who looks into the target.
func (w *world) person(ctx context.Context, a *actor) {
	for {
		a.sleep(a.st.upTo(10 * time.Second))
		rows, running, err := w.beside.List(ctx, jobs.Filter{Limit: 100})
		if err != nil {
			a.st.violation("listing failed: %v", err)
			return
		}
		for _, r := range rows {
			switch {
			case running[r.RowID]:
			case r.State == jobs.Held && a.st.r.IntN(2) == 0:
				w.resolve(ctx, a, &r)
			case r.State == jobs.Dead:
				a.st.note("replays ", r.String(), " ", r.LastCode)
				if _, err := w.beside.Replay(ctx, []jobs.RowID{r.RowID}, w.flows); err != nil {
					a.st.violation("replay failed: %v", err)
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
	// That the record is there says that its create was done, and nothing of a change.
	if there := w.entities[r.Entity].Records(r.Key); len(there) > 0 && (!r.Applied() || bytes.Equal(jobs.HashBody([]byte(there[0].Body)), r.Hash)) {
		v.Applied, v.Link = true, there[0].Link()
	}
	_, refused, err := w.beside.Resolve(ctx, r.RowID, v, w.flows)
	a.st.note(fmt.Sprintf("resolves %s: applied %v, refused %q, %v", r, v.Applied, refused, err))
}
