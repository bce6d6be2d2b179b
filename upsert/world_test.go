package upsert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

// world is a journal of one flow in memory, a lane that applies its jobs, and a
// hostile target. It plays the rules by which the journal follows an outcome.
type world struct {
	now    time.Time
	target *faketarget.Entity
	flow   *jobs.Flow
	s      *upsert.Strategy
	rows   map[string]*jobs.Row
	links  map[string]string
	// version is the source's newest.
	version int64
	// careless lets jobs come before the time of what is in doubt.
	careless bool
	// refers says that references of the records are replaced.
	refers bool
	// forgetful: the target forgets a create that ended in an error, and cannot be asked.
	forgetful bool
	// advances: documents are brought to a state.
	advances bool
	// stored is the last link that was committed by PutLink.
	stored string
	// failLinks makes that many PutLinks fail, failPins that many PutPins.
	failLinks, failPins int
	// pins is what was sent under idempotency keys and is not known to be over.
	pins map[string]*jobs.Pin
	// broken is what a strategy asked of the journal that it must not; "" for nothing.
	broken string
	// met counts the outcomes by class and code.
	met map[string]int
	// story tells what happened, for failures.
	story []string
	// panics counts what the strategy told of panics.
	panics int
}

const settleTime = 2 * time.Minute

// start is the time at which every test begins.
var start = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

// defaults is a flow as most tests want it.
func defaults(s connectors.Strategy) *jobs.Flow {
	return &jobs.Flow{Name: "orders", Client: "erp", Entity: "thing", Strategy: s, SettleTime: settleTime,
		OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate",
		OnFrozen: "dead", OnExpire: "dead"}
}

// newWorld makes a world. less hides primitives of the target; nil shows all but Advance.
func newWorld(f *jobs.Flow, o faketarget.Options, less func(*faketarget.Entity) connectors.Entity) (*world, error) {
	w := &world{now: start, flow: f, rows: map[string]*jobs.Row{}, links: map[string]string{}, met: map[string]int{}, pins: map[string]*jobs.Pin{}}
	o.SettleTime = settleTime
	w.target = faketarget.New(o, w.clock)
	if less == nil {
		less = withoutAdvance
	}
	s, err := upsert.New(f, less(w.target), w, w.clock)
	if err != nil {
		return nil, err
	}
	s.Panicked = func(string, *jobs.Job, any, []byte) { w.panics++ }
	w.s = s
	return w, nil
}

func (w *world) clock() time.Time { return w.now }

func (w *world) wait(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, w.now.Sub(start).String()+" "+fmt.Sprintf(format, args...))
}

func (w *world) String() string { return strings.Join(w.story, "\n") }

// PutLink makes world the Links of its strategy.
func (w *world) PutLink(ctx context.Context, j *jobs.Job, link string) error {
	k := j.EntityKey()
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.Client != "erp" || k.Entity != "thing" {
		return fmt.Errorf("link for %s of %s", k, j.Client)
	}
	if w.failLinks > 0 {
		w.failLinks--
		w.tell("  link %s=%s not stored", k.Key, link)
		return errors.New("the journal is away")
	}
	w.tell("  link %s=%s", k.Key, link)
	w.links[k.Key], w.stored = link, link
	return nil
}

// want admits a new desired state of a key; body "" means gone.
func (w *world) want(key, body string) {
	w.version++
	row := w.rows[key]
	if row == nil {
		row = &jobs.Row{RowID: jobs.RowID{Flow: w.flow.Name, Key: key}, Client: w.flow.Client, Entity: w.flow.Entity, State: jobs.Done}
		w.rows[key] = row
	}
	if row.Gone && body == "" {
		return
	}
	row.Generation++
	row.Desired = connectors.Stamp{Version: w.version, Observed: w.now}
	row.Gone, row.Body, row.Hash = body == "", nil, []byte("gone")
	open := true
	if row.Gone {
		_, linked := w.links[key]
		open = row.Unresolved() || w.flow.OnDelete != "ignore" && (row.Applied() || linked)
	} else {
		row.Body, row.Hash = json.RawMessage(body), []byte(body)
		open = row.Unresolved() || !row.Applied() || !bytes.Equal(row.AppliedHash, row.Hash)
	}
	w.tell("want %s %q as version %d, open %v", key, body, w.version, open)
	if !open {
		if !row.Gone {
			row.AppliedGeneration = row.Generation
		}
		row.State = jobs.Done
		return
	}
	if row.State == jobs.Held {
		return
	}
	row.State, row.DueAt = jobs.Ready, w.now
	w.due(row, w.now)
}

func (w *world) due(row *jobs.Row, at time.Time) {
	row.DueAt = at
	if u := row.UnresolvedAt.Add(w.flow.SettleTime); row.Unresolved() && !w.careless && u.After(at) {
		row.DueAt = u
	}
}

// claim takes the ready rows among keys that are due.
func (w *world) claim(keys ...string) []*jobs.Job {
	var js []*jobs.Job
	for _, k := range keys {
		row := w.rows[k]
		if row == nil || row.State != jobs.Ready || row.DueAt.After(w.now) {
			continue
		}
		js = append(js, &jobs.Job{Row: *row, ClaimID: "c", Number: row.Attempt + 1, Link: w.links[k], Pin: w.pins[k], ClaimedAt: w.now, Refers: w.refers})
		if w.flow.Strategy == connectors.AtMostOnce {
			break // claimed alone
		}
	}
	return js
}

// run applies and settles the due jobs among keys. With crash, the daemon ends
// before anything is settled.
func (w *world) run(ctx context.Context, crash bool, keys ...string) []connectors.Outcome {
	js := w.claim(keys...)
	if len(js) == 0 {
		return nil
	}
	os := w.s.Apply(ctx, js)
	w.wait(50 * time.Millisecond)
	for i, j := range js {
		w.met[string(os[i].Class)+" "+os[i].Code]++
		if crash {
			os[i] = connectors.Fail(connectors.Lost, "lost", "the daemon ended")
		}
		w.tell("attempt %d of %s generation %d link %q: %s %s %s resolved=%v link=%q", j.Number, j.Key, j.Generation, j.Link,
			os[i].Class, os[i].Code, os[i].Message, os[i].Resolved, os[i].Link)
		w.settle(w.rows[j.Key], j, os[i])
	}
	return os
}

// settle plays what the journal does with an outcome.
func (w *world) settle(row *jobs.Row, j *jobs.Job, o connectors.Outcome) {
	fol := jobs.FollowOf(o.Class)
	row.Attempt = j.Number
	doubt := row.Unresolved()
	ignored := j.Gone && w.flow.OnDelete == "ignore" // nothing was sent or looked up
	if fol.Confirms && !ignored || o.Resolved {
		row.UnresolvedAt = time.Time{}
	}
	if fol.Doubts || o.Code == jobs.CodeCreatedInDoubt {
		row.UnresolvedAt = w.now
	}
	row.LastClass, row.LastCode, row.LastAt = o.Class, o.Code, w.now
	if o.Link != "" {
		w.links[j.Key] = o.Link
	}
	newer := row.Generation > j.Generation
	if p := w.pins[j.Key]; p != nil && (!row.Unresolved() || o.Code == jobs.CodeKeptError) {
		row.KeyEpoch = p.Epoch + 1
		delete(w.pins, j.Key)
	}
	never := fol.Doubts && w.flow.Strategy == connectors.AtMostOnce
	switch {
	case row.Unresolved() && (never || o.Code == jobs.CodeUnresolvable):
		row.AppliedHash = nil
		row.State = jobs.Held
		w.met["held "]++
	case fol.Confirms:
		w.confirm(row, j, o, newer, doubt)
	case o.Class == connectors.Missing:
		delete(w.links, j.Key)
		row.AppliedGone = row.AppliedGeneration > 0
		w.due(row, w.now.Add(time.Second))
	case fol.Kills, o.Class == connectors.Frozen:
		row.AppliedHash = nil
		row.State = jobs.Dead
		if newer {
			row.State = jobs.Ready
			w.due(row, w.now)
		}
	default:
		// What was applied may be written over in part, so it is no longer known.
		row.AppliedHash = nil
		w.due(row, w.now.Add(max(o.RetryAfter, time.Second)))
	}
}

func (w *world) confirm(row *jobs.Row, j *jobs.Job, o connectors.Outcome, newer, doubt bool) {
	removed := j.Gone && w.flow.OnDelete != "ignore"
	switch {
	case removed || !j.Gone:
		row.AppliedGeneration, row.AppliedGone, row.AppliedHash, row.AppliedAt = j.Generation, removed, j.Hash, w.now
		if o.Class == connectors.Stale {
			row.AppliedHash = nil
		}
		if removed && w.flow.OnDelete == "delete" {
			delete(w.links, j.Key)
		}
	case doubt:
		row.AppliedHash = nil // left alone, with who knows what in the target
	}
	row.State, row.DueAt = jobs.Done, time.Time{}
	if newer {
		row.State, row.DueAt = jobs.Ready, w.now
	} else {
		row.RenamedFrom = ""
	}
}

// finish lets everything end without faults: time passes to each job's due
// time, dead jobs are replayed once. It fails when a job does not end.
func (w *world) finish() error {
	w.target.Plan(nil)
	w.failLinks = 0
	w.tell("no more faults")
	w.failPins = 0
	for _, row := range w.rows {
		if row.State == jobs.Dead {
			row.State = jobs.Ready
			w.due(row, w.now)
		}
	}
	for range 30 {
		open := 0
		for _, k := range w.keys() {
			row := w.rows[k]
			if row.State == jobs.Held {
				open++
				w.resolve(k)
				continue
			}
			if row.State != jobs.Ready {
				continue
			}
			open++
			if row.DueAt.After(w.now) {
				w.now = row.DueAt
			}
			w.run(context.Background(), false, k)
		}
		if open == 0 {
			w.wait(time.Hour)
			w.target.Land()
			return nil
		}
	}
	return errors.New("a job does not end")
}

func (w *world) keys() []string {
	var ks []string
	for _, k := range []string{"a", "b", "c"} {
		if w.rows[k] != nil {
			ks = append(ks, k)
		}
	}
	return ks
}

// Entities that can do less.

type (
	noAdvance struct {
		connectors.Entity
		connectors.Upserter
		connectors.Creator
		connectors.Composer
		connectors.Finder
		connectors.Updater
		connectors.Remover
	}
	onlyUpsert struct {
		connectors.Entity
		connectors.Upserter
	}
	upsertRemove struct {
		connectors.Entity
		connectors.Upserter
		connectors.Remover
	}
	described struct {
		connectors.Entity
		info connectors.EntityInfo
	}
)

func (d described) Info() connectors.EntityInfo { return d.info }

func withoutAdvance(e *faketarget.Entity) connectors.Entity {
	return noAdvance{e, e, e, e, e, e, e}
}

func withAdvance(e *faketarget.Entity) connectors.Entity { return e }

// fieldState is the state that a body asks for.
func fieldState(body []byte) string {
	var b struct {
		State string `json:"state"`
	}
	_ = json.Unmarshal(body, &b)
	return b.State
}

func (t twice) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	fs, err := t.Finder.Find(ctx, w)
	return append(fs, fs...), err
}

func (l linkless) Upsert(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	out := l.noAdvance.Upsert(ctx, ws)
	for i := range out {
		out[i].Link = ""
	}
	return out
}

func (o owned) Create(context.Context, connectors.Write) connectors.Outcome {
	return connectors.Outcome{Class: connectors.Invalid, Code: "duplicate", MaybeDuplicate: true, Link: "77"}
}

func (s strict) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	o := s.Entity.Remove(ctx, w)
	if o.Class == connectors.Unchanged {
		return connectors.Fail(connectors.Missing, "http_404", "there is no record %s", w.Link)
	}
	return o
}
