package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
)

// Histories plays random histories against a journal and a small target: records
// that change, vanish, come back and change keys, readings that are admitted
// late, claims that are settled in part, twice, or never, writes that take effect
// long after their answer was lost, daemons that die, and an operator who edits
// the flow in the middle of all that. After each step, and when
// everything has come to rest, the promises of a job's life are held against it.
func Histories(t *testing.T, open func(t *testing.T, now func() time.Time) jobs.Engine) {
	s := &stage{at: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	rapid.Check(t, func(rt *rapid.T) {
		if s.engine == nil {
			s.engine = open(t, func() time.Time { return s.at })
		}
		defer func() {
			// One that failed leaves its journal to nobody: the next, which may show the
			// fault in fewer steps, gets another.
			if rt.Failed() {
				_ = s.engine.Close()
				s.engine = nil
			}
		}()
		s.n++
		h := newHistory(rt, s)
		acts := h.acts()
		acts[""] = func(*rapid.T) { h.look() }
		rt.Repeat(acts)
		h.rest()
		h.judge()
	})
}

// stage is one journal on which history after history is played, each with
// clients and flows of its own.
type stage struct {
	engine jobs.Engine
	at     time.Time
	n      int
}

// truth is a record at its source.
type truth struct {
	flow    *jobs.Flow
	id      string
	version int64
	content int
	keys    []string
	there   bool
}

// reading is what was read of a record, not admitted yet.
type reading struct {
	src  *truth
	item jobs.Item
}

// sent is a claimed job and, once it was sent, what came of it.
type sent struct {
	job  *jobs.Job
	flow *jobs.Flow
	at   time.Time
	o    *connectors.Outcome
}

// zombie is a daemon that was taken for dead, with what it has not settled.
type zombie struct {
	journal *jobs.Journal
	jobs    []*sent
}

type history struct {
	*rapid.T
	s        *stage
	journal  *jobs.Journal
	starts   int
	client   string
	flows    map[string]*jobs.Flow
	sources  []*truth
	readings []reading
	under    []*sent
	zombies  []zombie
	target   *target
	two      bool
	doubts   map[jobs.RowID]bool
	attempts map[jobs.RowID]int64
	// touched says that a person has meddled, so that every record has to be
	// changed once more before it can be asked of the target.
	touched bool
	calm    bool
	// ever is what the flows said at some time; see edits.
	ever edits
}

const settleTime = 30 * time.Second

func newHistory(t *rapid.T, s *stage) *history {
	h := &history{T: t, s: s, client: fmt.Sprint("erp-", s.n), flows: map[string]*jobs.Flow{},
		target: &target{s: s}, doubts: map[jobs.RowID]bool{}, attempts: map[jobs.RowID]int64{}}
	h.start()
	two := rapid.Bool().Draw(t, "two flows")
	f := jobs.Flow{SourceClient: fmt.Sprint("shop-", s.n), Stream: "orders", Client: h.client, Entity: "order",
		Strategy: connectors.Lookup, SettleTime: settleTime, Retry: jobs.DefaultRetry(), CanRefresh: true,
		OnExisting: "adopt", OnVanish: "gone", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead",
		OnDelete: "ignore", OnRename: "recreate"}
	f.Retry.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "attempts")
	f.Retry.RetryFor = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "retry for")
	f.MaxAge = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "max age")
	h.two = two
	if !two {
		h.ever.rename = rapid.IntRange(0, 2).Draw(t, "may be renamed") == 0
		f.OnRename = rapid.SampledFrom(h.choices("on_rename")).Draw(t, "on_rename")
		f.OnDelete = rapid.SampledFrom(h.choices("on_delete")).Draw(t, "on_delete")
	}
	if h.ever.rename {
		// What is left in the target under its old key, because it is too old to be
		// sent or because deletions are ignored, is for a person to move.
		f.MaxAge = 0
	}
	if f.MaxAge == 0 {
		f.CanRefresh = rapid.Bool().Draw(t, "one record can be asked for")
	}
	for _, name := range []string{"a", "b"}[:1+btoi(two)] {
		g := f
		g.Name = fmt.Sprint(name, "-", s.n)
		h.flows[g.Name] = &g
		for i := range 3 {
			h.sources = append(h.sources, &truth{flow: &g, id: fmt.Sprint(i)})
		}
	}
	h.note()
	return h
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (h *history) start() {
	h.starts++
	h.journal = jobs.New(h.s.engine, jobs.Options{Owner: fmt.Sprint("daemon-", h.s.n, "-", h.starts), Rand: func() float64 { return 0.5 }})
}

// acts are what may happen.
func (h *history) acts() map[string]func(*rapid.T) {
	acts := map[string]func(*rapid.T){
		"change": func(*rapid.T) { h.change() }, "change again": func(*rapid.T) { h.change() },
		"vanish":      func(*rapid.T) { h.one("source").there = false },
		"read":        func(*rapid.T) { h.read(h.one("source"), false) },
		"read badly":  func(*rapid.T) { h.read(h.one("source"), true) },
		"admit":       func(*rapid.T) { h.admitSome() },
		"poll":        func(*rapid.T) { h.poll() },
		"ask":         func(*rapid.T) { h.answer() },
		"claim":       func(*rapid.T) { h.claim() },
		"claim again": func(*rapid.T) { h.claim() },
		"unsure":      func(*rapid.T) { h.unsure() },
		"send":        func(*rapid.T) { h.sendSome() },
		"settle":      func(*rapid.T) { h.settleSome() },
		"die":         func(*rapid.T) { h.die() },
		"late":        func(*rapid.T) { h.zombie() },
		"replay":      func(*rapid.T) { h.replay() },
		"edit":        func(*rapid.T) { h.edit() },
		"second":      func(*rapid.T) { h.pass(time.Second) },
		"minute":      func(*rapid.T) { h.pass(time.Minute) },
		"hours":       func(*rapid.T) { h.pass(2 * time.Hour) },
	}
	if !h.renames() && rapid.Bool().Draw(h.T, "a person meddles") { // who gives up a record between two keys is told where to look, and has to
		acts["discard"] = func(*rapid.T) { h.discard() }
		acts["vandal"] = func(*rapid.T) { h.vandal() }
	}
	return acts
}

func (h *history) pass(d time.Duration) {
	h.s.at = h.s.at.Add(d)
	h.target.land()
}

func (h *history) one(what string) *truth {
	return h.sources[rapid.IntRange(0, len(h.sources)-1).Draw(h.T, what)]
}

// change gives a record a new state at its source, mostly with a new version.
func (h *history) change() {
	src := h.one("source")
	src.there = true
	src.content++
	if src.version == 0 || rapid.IntRange(0, 3).Draw(h.T, "coarse clock") > 0 {
		src.version++
	}
	n := rapid.SampledFrom([]int{1, 1, 1, 1, 2, 0}).Draw(h.T, "records")
	if h.renames() {
		n = 1
	}
	if rapid.IntRange(0, 2).Draw(h.T, "same keys") > 0 && len(src.keys) == n {
		return
	}
	src.keys = rapid.Permutation([]string{"A", "B", "C", "D"}).Draw(h.T, "keys")[:n]
}

// renames reports whether records may be between two keys at some time.
func (h *history) renames() bool { return h.ever.rename }

// item is what is read of a record now.
func (h *history) item(src *truth, badly bool) jobs.Item {
	it := jobs.Item{SourceID: src.id, Version: src.version, Observed: h.s.at}
	switch {
	case !src.there:
		it.Version, it.Gone = 0, true
	case badly:
		it.Problem, it.Raw = "cannot be mapped", json.RawMessage(fmt.Sprint(src.content))
	default:
		for _, k := range src.keys {
			it.Pairs = append(it.Pairs, jobs.Pair{Key: k, Body: src.body(k)})
		}
	}
	return it
}

// body is what a record should be; its content says whose it is and which state.
func (src *truth) body(key string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`"%s.%s.%s.%d"`, src.flow.Name, src.id, key, src.content))
}

func (h *history) read(src *truth, badly bool) {
	h.readings = append(h.readings, reading{src, h.item(src, badly)})
}

// admitSome admits some of what was read, in whatever order.
func (h *history) admitSome() {
	if len(h.readings) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.readings)-1).Draw(h.T, "reading")
	f := h.readings[i].src.flow
	var items []jobs.Item
	var later []reading
	for n, r := range h.readings {
		if r.src.flow == f && (n == i || rapid.Bool().Draw(h.T, "with it")) {
			items = append(items, r.item)
		} else {
			later = append(later, r)
		}
	}
	h.readings = later
	h.admit(f, items, nil)
}

func (h *history) admit(f *jobs.Flow, items []jobs.Item, answered []int64) {
	if _, err := h.journal.Admit(context.Background(), jobs.Admission{Flow: f, Items: items, Requests: answered}); err != nil {
		h.Fatalf("admit: %v", err)
	}
}

// poll reads every record of every flow and admits it.
func (h *history) poll() {
	for _, name := range slices.Sorted(maps.Keys(h.flows)) {
		f := h.flows[name]
		var items []jobs.Item
		for _, src := range h.sources {
			if src.flow == f && (src.version > 0) {
				items = append(items, h.item(src, false))
			}
		}
		h.admit(f, items, nil)
	}
}

// answer answers what the source is asked for.
func (h *history) answer() {
	rs, err := h.journal.Requests(context.Background(), h.sources[0].flow.SourceClient, 100)
	if err != nil {
		h.Fatalf("requests: %v", err)
	}
	for _, r := range rs {
		for _, src := range h.sources {
			if src.flow.Name == r.Flow && src.id == r.SourceID {
				it := h.item(src, false)
				it.Refresh = true
				h.admit(src.flow, []jobs.Item{it}, []int64{r.ID})
			}
		}
	}
}

func (h *history) claimed() jobs.Claimed {
	c, err := h.journal.Claim(context.Background(), jobs.ClaimRequest{Client: h.client, Limit: 3, Flows: h.flows, InFlight: len(h.under),
		Busy: func(_ jobs.RowID, k jobs.EntityKey) bool {
			return slices.ContainsFunc(h.under, func(s *sent) bool { return s.job.EntityKey() == k })
		}})
	if err != nil {
		h.Fatalf("claim: %v", err)
	}
	return c
}

func (h *history) claim() int {
	js := h.claimed().Jobs
	for _, jb := range js {
		if jb.Number <= h.attempts[jb.RowID] {
			h.Fatalf("%s: attempt %d after %d", jb.RowID, jb.Number, h.attempts[jb.RowID])
		}
		h.under = append(h.under, &sent{job: jb, flow: h.flows[jb.Flow]})
	}
	return len(js)
}

// unsure is a claim whose commit was not confirmed.
func (h *history) unsure() {
	c := h.claimed()
	if _, err := h.journal.RecoverOwn(context.Background(), jobs.LaneID{Client: h.client}, h.flows, c.ID); err != nil {
		h.Fatalf("take back: %v", err)
	}
}

// die ends the daemon and starts the next one.
func (h *history) die() {
	z := zombie{journal: h.journal}
	for _, s := range h.under {
		if s.o == nil {
			h.lose(s)
		}
		z.jobs = append(z.jobs, s)
		h.doubts[s.job.RowID] = true
	}
	h.zombies = append(h.zombies, z)
	h.under = nil
	h.start()
	if _, err := h.journal.Recover(context.Background(), jobs.LaneID{Client: h.client}, h.flows); err != nil {
		h.Fatalf("recover: %v", err)
	}
	h.seen(z.jobs)
}

// zombie settles what its journal no longer has.
func (h *history) zombie() {
	for _, z := range h.zombies {
		for _, s := range z.jobs {
			o := connectors.Outcome{Class: connectors.Applied, Link: "0", Resolved: true}
			if s.o != nil {
				o = *s.o
			}
			out, err := z.journal.Settle(context.Background(), h.client, []jobs.Settlement{{Job: s.job, Flow: s.flow, Outcome: o, SentAt: h.s.at}})
			if err != nil || !out[0].Fenced {
				h.Fatalf("%s: a daemon taken for dead settled %+v, %v", s.job.RowID, out, err)
			}
		}
	}
	h.zombies = nil
}

// settleSome settles some of what was sent, together, perhaps twice.
func (h *history) settleSome() {
	var ss []jobs.Settlement
	var settled, under []*sent
	for _, s := range h.under {
		if s.o == nil || !h.calm && rapid.IntRange(0, 2).Draw(h.T, "not yet") == 0 {
			under = append(under, s)
			continue
		}
		settled = append(settled, s)
		served := h.s.at
		if !h.calm && rapid.Bool().Draw(h.T, "outage") {
			served = time.Time{}
		}
		ss = append(ss, jobs.Settlement{Job: s.job, Flow: s.flow, Outcome: *s.o, SentAt: s.at, Served: served, Batch: len(h.under) > 1})
	}
	h.under = under
	for i := range 1 + btoi(!h.calm && rapid.IntRange(0, 4).Draw(h.T, "twice") == 0) {
		out, err := h.journal.Settle(context.Background(), h.client, ss)
		if err != nil {
			h.Fatalf("settle: %v", err)
		}
		for _, o := range out {
			if o.Fenced != (i > 0) {
				h.Fatalf("%s: settled for the %d. time, fenced %v", o.RowID, i+1, o.Fenced)
			}
		}
	}
	for _, s := range settled {
		fol := jobs.FollowOf(s.o.Class)
		if fol.Confirms && !(s.job.Gone && s.flow.OnDelete == "ignore") || s.o.Resolved {
			delete(h.doubts, s.job.RowID)
		}
		if fol.Doubts {
			h.doubts[s.job.RowID] = true
		}
	}
	h.seen(settled)
}

// seen notes the numbers of attempts that are over.
func (h *history) seen(ss []*sent) {
	for _, s := range ss {
		h.attempts[s.job.RowID] = s.job.Number
	}
}

func (h *history) rows() []jobs.Row {
	var all []jobs.Row
	for name := range h.flows {
		rows, _, err := h.journal.List(context.Background(), jobs.Filter{Flow: name})
		if err != nil {
			h.Fatalf("list: %v", err)
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b jobs.Row) int { return slices.Compare([]string{a.Flow, a.Key}, []string{b.Flow, b.Key}) })
	return all
}

func (h *history) replay() {
	var ids []jobs.RowID
	for _, r := range h.rows() {
		// In the end, one that is done is to be left so, and one that was missed would
		// only be found missing again.
		if !h.calm || r.State == jobs.Dead && !h.missed(&r) {
			ids = append(ids, r.RowID)
		}
	}
	if _, err := h.journal.Replay(context.Background(), ids, h.flows); err != nil {
		h.Fatalf("replay: %v", err)
	}
}

func (h *history) discard() {
	rows := h.rows()
	if len(rows) == 0 {
		return
	}
	h.touched = true
	id := rows[rapid.IntRange(0, len(rows)-1).Draw(h.T, "row")].RowID
	if _, err := h.journal.Discard(context.Background(), []jobs.RowID{id}, "test"); err != nil {
		h.Fatalf("discard: %v", err)
	}
}

// vandal deletes a record in the target by hand.
func (h *history) vandal() {
	if alive := h.target.alive(); len(alive) > 0 {
		h.touched = true
		alive[rapid.IntRange(0, len(alive)-1).Draw(h.T, "record")].gone = true
	}
}
