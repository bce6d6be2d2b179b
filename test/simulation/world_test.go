package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/jobs/memory"
	"syncd/ratelimit"
)

// world is what one history is about.
type world struct {
	st     *stage
	engine *memory.Engine
	source *source
	flows  map[string]*flow
	// shards is into how many lanes the target client is split, settings counts the
	// changes of the mapping: daemons that start now are configured so.
	shards, settings int
	nodes            []*node
	started          int
	// ahead is by how much the journal's clock is off; jumps says that it may jump.
	ahead time.Duration
	jumps bool
	// together says that the daemons run on one machine, and know of each other's end.
	together bool
	// refusing is until when the target refuses all records alike.
	refusing time.Time
	// restores counts how often the target was put back to a backup.
	restores int
	// errand is what a person has on hand; "" for nothing.
	errand string
	// wrote are the newest attempts of which a write was sent.
	wrote map[jobs.RowID]int64
	// newest are the newest attempts of which anything was sent.
	newest map[jobs.RowID]*jobs.Job
	// pauses are the moments when what is stored of clients' pauses was committed.
	pauses map[string]int
	// beside is a person's way to the journal.
	beside *jobs.Journal
}

// flow is one flow with the entity that it writes, which no other flow does.
type flow struct {
	jobs.Flow
	w    *world
	e    *faketarget.Entity
	kind kind
	// logged says that it reads each state of a record.
	logged bool
	// blind: the target cannot be asked for a record.
	blind bool
	// refers is the entity of which each record names one; optional says that it can be
	// written without.
	refers   string
	optional bool
	// freed are events that a person had written out of their order.
	freed map[string]bool
}

const (
	shop = "shop"
	erp  = "erp"
	// settle is how long a write may be at work in the target after its answer is given up.
	settle = 5 * time.Second
)

func newWorld(st *stage) *world {
	w := &world{st: st, wrote: map[jobs.RowID]int64{}, newest: map[jobs.RowID]*jobs.Job{}, flows: map[string]*flow{},
		pauses: map[string]int{}}
	w.source = &source{st: st, ids: 4, newest: map[string]*state{}, logged: st.r.IntN(2) == 0, global: st.r.IntN(2) == 0}
	w.engine = memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(w.ahead).UTC().Truncate(time.Microsecond) }})
	w.beside = jobs.New(besides{w.engine, w}, jobs.Options{Owner: "a person", Rand: st.r.Float64})
	w.together = st.r.IntN(4) == 0
	w.shards = 1 + st.r.IntN(2)
	if w.errand = w.anErrand(); w.errand == "remap" {
		w.source.logged = false // a log is read again only from its beginning
	}
	// Whether a record is there again since it was gone, is told by the clock alone where
	// its versions need not tell.
	w.jumps = w.source.logged && w.errand != "redeliver" && w.errand != "pause" && st.r.IntN(2) == 0
	w.someFlows()
	for range 2 {
		w.source.change()
	}
	if w.source.lasting {
		w.source.changeOne("0")
		w.source.changeOne("1")
	}
	return w
}

// lanes of a configuration with so many shards; the shop's comes first.
func lanes(shards int) []jobs.LaneID {
	out := []jobs.LaneID{{Client: shop}}
	for n := range shards {
		out = append(out, jobs.LaneID{Client: erp, Shard: n})
	}
	return out
}

// configured are the flows as the journal knows them, with so many shards.
func (w *world) configured(shards int) map[string]*jobs.Flow {
	out := make(map[string]*jobs.Flow, len(w.flows))
	for name, f := range w.flows {
		c := f.Flow
		c.Shards = shards
		out[name] = &c
	}
	return out
}

// someFlows adds what the history is about.
func (w *world) someFlows() {
	r := w.st.r
	strategies := connectors.Strategies()
	one := func() connectors.Strategy { return strategies[r.IntN(len(strategies))] }
	finding := func() connectors.Strategy {
		return []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef, connectors.Lookup}[r.IntN(3)]
	}
	switch x := r.IntN(10); {
	case w.errand == "redeliver":
		if r.IntN(3) == 0 {
			w.source.lasting = true
			w.referring(finding)
			break
		}
		for range 1 + r.IntN(2) {
			w.flow(one(), records)
		}
	case w.errand == "refused":
		w.source.ids = 24
		w.flow(one(), records)
	case x < 2 && w.errand != "source-reset": // whoever had a key after the backup would have it for ever
		w.renaming(finding())
	case x < 4:
		s := one()
		for s == connectors.Lookup {
			s = one()
		}
		f := w.flow(s, events)
		f.Order, f.Group, f.OnDead = "every", ".id", []string{"hold", "skip"}[r.IntN(2)]
		f.OnDelete, f.OnVanish = "ignore", "keep"
		w.st.seen("on_dead: " + f.OnDead)
		w.flow(one(), records)
	case x < 5:
		w.source.lasting = true
		w.referring(finding)
	default:
		for range 1 + r.IntN(2) {
			f := w.flow(one(), records)
			if r.IntN(3) == 0 && !f.logged {
				f.MaxAge, f.CanRefresh = 8*time.Second, true
				w.st.seen("max_age")
			}
			if r.IntN(4) == 0 && !f.logged {
				f.FreshWithin, f.CanRefresh = 4*time.Second, true
				w.st.seen("fresh_within")
			}
		}
	}
}

// renaming adds a flow of records whose keys change hands.
func (w *world) renaming(s connectors.Strategy) {
	w.source.keys = 3 + w.st.r.IntN(3)
	f := w.flow(s, renaming)
	f.OnRename = []string{"rename", "recreate"}[w.st.r.IntN(2)]
	w.st.seen("on_rename: " + f.OnRename)
}

// referring adds two flows whose records refer to each other's, if they write two entities.
func (w *world) referring(s func() connectors.Strategy) {
	a, b := w.flow(s(), records), w.flow(s(), records)
	if a != b {
		a.refers, b.refers, b.optional = b.Entity, a.Entity, true
		w.st.seen("references")
	}
}

// flow adds a flow of a strategy, with an entity of its own that can carry it.
func (w *world) flow(s connectors.Strategy, k kind) *flow {
	r := w.st.r
	name := string(s)
	if k == events {
		name = "events-" + name
	}
	o := faketarget.Options{Name: name, SettleTime: settle}
	f := &flow{w: w, kind: k, logged: w.source.logged || k == events, Flow: jobs.Flow{Name: name, SourceClient: shop, Stream: "things", Client: erp, Entity: name, Strategy: s, SettleTime: settle,
		Retry:      jobs.Retry{MaxAttempts: 100, InitialDelay: 100 * time.Millisecond, MaxDelay: 2 * time.Second, Multiplier: 2, Timeout: time.Minute, RetryFor: time.Hour},
		OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead", CanRename: true,
	}}
	f.CanRefresh = !f.logged && (w.errand == "remap" || r.IntN(2) == 0)
	switch s {
	case connectors.NaturalKey:
		o.MaxBatch = 1 + r.IntN(3)
		if r.IntN(2) == 0 {
			o.Guarded, f.SettleTime = true, 0
		}
	case connectors.ExternalRef:
		o.Unique = true
	case connectors.AtMostOnce:
		f.blind = w.errand == "redeliver" && r.IntN(2) == 0
	case connectors.IdempotencyKey:
		zoo := faketarget.Zoo()
		names := []string{"keeps all", "ignores the body", "heeds the body", "keeps success"}
		kk := zoo[names[r.IntN(len(names))]]
		o.Keys = &kk
		f.blind = r.IntN(2) == 0
	}
	f.CanFind = !f.blind
	if (s != connectors.AtMostOnce || w.errand == "redeliver") && !f.blind && (r.IntN(3) == 0 || k == renaming) {
		f.OnDelete, f.SettleTime = "delete", settle
	}
	f.e = faketarget.New(o, func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) })
	f.e.Plan(func(c faketarget.Call) faketarget.Fault {
		ft := w.fault(f, c)
		if ft.Kind == faketarget.FailDone && f.blind && o.Keys != nil && !o.Keys.KeepsErrors {
			ft.Kind = faketarget.FailUndone // nothing could help where the create is done, the answer an error, and the key forgotten
		}
		return ft
	})
	w.flows[name] = f
	return f
}

func (w *world) sortedFlows() (out []*flow) {
	for _, name := range slices.Sorted(maps.Keys(w.flows)) {
		out = append(out, w.flows[name])
	}
	return out
}

// fault is what goes wrong with a call of the target.
func (w *world) fault(f *flow, c faketarget.Call) faketarget.Fault {
	if time.Now().Before(w.refusing) && c.Op != faketarget.Find {
		return faketarget.Fault{Kind: faketarget.Refuse}
	}
	if w.st.calm || w.st.r.IntN(4) > 0 {
		return faketarget.Fault{}
	}
	kinds := []faketarget.Kind{faketarget.NotSent, faketarget.Throttle, faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.LoseAnswer,
		faketarget.FailUndone, faketarget.FailDone, faketarget.NoLink, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.Short}
	if !w.jumps { // how long a write was at work cannot be told by a clock that jumps
		kinds = append(kinds, faketarget.Late, faketarget.Late)
	}
	if f.kind == events && c.Op != faketarget.Find {
		kinds = append(kinds, faketarget.Refuse, faketarget.Refuse)
	}
	// A code of its own each time: a record that always fails alike becomes a dead letter.
	ft := faketarget.Fault{Kind: kinds[w.st.r.IntN(len(kinds))], Delay: w.st.upTo(settle - time.Second), Code: fmt.Sprint("http_", w.st.r.IntN(100000))}
	w.st.seen("target: " + string(ft.Kind))
	return ft
}

// happens is what befalls the world between two steps.
func (w *world) happens() {
	st := w.st
	if st.calm {
		return
	}
	x := st.r.IntN(1000)
	if x >= 40 {
		return
	}
	var alive []*node
	for _, n := range w.nodes {
		if !n.dead {
			alive = append(alive, n)
		}
	}
	switch {
	case x < 23 && !w.source.down:
		w.source.change()
	case x < 25 && w.source.keys > 0 && !w.source.down:
		w.source.swap()
	case x < 25 && !w.source.down:
		w.source.change()
	case x < 25:
	case x < 28 && len(alive) > 0:
		w.end(alive[st.r.IntN(len(alive))])
	case x < 34 && len(alive) < 3:
		w.startOne()
	case x < 36 && len(alive) > 0:
		n := alive[st.r.IntN(len(alive))]
		n.frozen = time.Now().Add(st.upTo(12 * time.Second))
		st.note("stop of ", n.name)
		st.seen("a daemon is stopped")
	case x < 38 && len(alive) > 0:
		n := alive[st.r.IntN(len(alive))]
		n.cut = time.Now().Add(st.upTo(12 * time.Second))
		st.note("journal away for ", n.name)
		st.seen("a daemon cannot reach the journal")
	case x < 40 && w.jumps:
		d := st.upTo(20*time.Second) - 10*time.Second
		w.ahead += d
		st.note("the journal's clock jumps by ", d.String())
		st.seen("the journal's clock jumps")
	}
}

// end kills a daemon.
func (w *world) end(n *node) {
	w.st.note("death of ", n.name)
	w.st.seen("a daemon dies")
	w.st.kill(n)
	n.close()
}

// ends has a daemon die at this moment, and another one begin.
func (w *world) ends(n *node, a *actor) {
	w.st.doomed = append(w.st.doomed, func() {
		w.end(n)
		w.startOne()
	})
	a.step("ends ", n.name)
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
	w.start("d" + strconv.Itoa(w.started))
}

// land lets late writes take effect as time goes by.
func (w *world) land() {
	for _, f := range w.flows {
		f.e.Land()
	}
}

// held reports whether a client is paused for others than the lane whose breaker it is.
func held(c jobs.ClientState, now time.Time) bool {
	return pauseOf(c).Active(now) && c.Reason != ratelimit.ReasonBreaker
}
