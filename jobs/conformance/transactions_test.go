package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
)

func TestRandomTransactionsDoAlikeInMemoryAndSQLite(t *testing.T) { transactions(t, withSQLite) }

func TestRandomTransactionsDoAlikeInMemoryAndPostgreSQL(t *testing.T) {
	transactions(t, withPostgreSQL)
}

// transactions runs transactions of random verbs, of which many make no sense, on a
// pair of engines. The pair compares.
func transactions(t *testing.T, open func(t *testing.T, now func() time.Time) jobs.Engine) {
	at := time.Date(2026, 11, 29, 10, 0, 0, 123456000, time.UTC)
	var e jobs.Engine
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if e == nil {
			e = open(t, func() time.Time { return at })
		}
		defer func() {
			if e.(*pair).differs != nil {
				_ = e.Close()
				e = nil // the next one, which may show the difference in fewer steps, gets another
			}
		}()
		n++
		w := &world{n: n, now: func() time.Time { return at }}
		defer w.clear(t, e)
		w.t = rt
		verbs := w.verbs(pick(rt, "topic", w.topics()...))
		rt.Repeat(map[string]func(*rapid.T){
			"transaction": func(rt *rapid.T) { w.transaction(rt, e, verbs) },
			"look": func(rt *rapid.T) {
				w.t = rt
				do := w.looks()[pick(rt, "look", slices.Sorted(maps.Keys(w.looks()))...)]()
				if err := e.View(rt.Context(), func(tx jobs.Tx) error { return do(rt.Context(), tx) }); err != nil {
					rt.Fatal(err)
				}
			},
			"time": func(rt *rapid.T) { at = at.Add(pick(rt, "passes", time.Microsecond, time.Minute, 2*time.Hour)) },
		})
	})
}

// world makes what transactions are about: few names, so that they meet. The names are
// each history's own.
type world struct {
	t      *rapid.T
	n      int
	now    func() time.Time
	serial int
}

// verb asks a transaction for something, and changes it or not.
type verb func(ctx context.Context, tx jobs.Tx) error

var errAbandoned = errors.New("abandoned")

func (w *world) transaction(rt *rapid.T, e jobs.Engine, verbs map[string]func() verb) {
	w.t = rt
	names := slices.Sorted(maps.Keys(verbs))
	var do []verb
	for range rapid.IntRange(1, 5).Draw(rt, "verbs") {
		do = append(do, verbs[pick(rt, "verb", names...)]())
	}
	abandon := rapid.IntRange(0, 5).Draw(rt, "abandoned") == 0
	err := e.Update(rt.Context(), func(tx jobs.Tx) error {
		for _, v := range do {
			if err := v(rt.Context(), tx); err != nil {
				return err
			}
		}
		if abandon {
			return errAbandoned
		}
		return nil
	})
	if p := e.(*pair); p.differs != nil {
		rt.Fatal(p.differs)
	}
	if abandon && err == nil {
		rt.Fatal("an abandoned transaction was committed")
	}
}

// clear takes away what is listed over all flows and clients, so that the next history
// need not go through it.
func (w *world) clear(t *testing.T, e jobs.Engine) {
	ctx := context.Background()
	err := e.Update(ctx, func(tx jobs.Tx) error {
		as, _, err := tx.ListAttempts(ctx, 0, most)
		if err != nil {
			return err
		}
		var rows []jobs.RowID
		for _, a := range as {
			rows = append(rows, a.RowID)
		}
		if err := tx.DeleteAttempts(ctx, rows); err != nil {
			return err
		}
		rs, err := tx.ListRequests(ctx, 0, most)
		if err != nil {
			return err
		}
		var ids []int64
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		if err := tx.DeleteRequests(ctx, ids); err != nil {
			return err
		}
		runs, err := tx.Runs(ctx, false, most)
		if err != nil {
			return err
		}
		ids = nil
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		if err := tx.DeleteRuns(ctx, ids); err != nil {
			return err
		}
		cs, err := tx.Claims(ctx, "")
		for _, c := range cs {
			if _, err := tx.ReduceClaim(ctx, c.ID, c.Owner, c.Open); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil && e.(*pair).differs == nil {
		t.Errorf("clear: %v", err)
	}
}

func pick[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

func some[T any](w *world, what string, one func() T) []T {
	var out []T
	for range rapid.IntRange(0, 3).Draw(w.t, what) {
		out = append(out, one())
	}
	return out
}

func (w *world) own(what string, of ...string) string {
	return pick(w.t, what, of...) + fmt.Sprint("-", w.n)
}

func (w *world) flow() string   { return w.own("flow", "f", "g") }
func (w *world) client() string { return w.own("client", "erp", "erp", "erp", "shop\x00") }
func (w *world) entity() string { return pick(w.t, "entity", "sale", "party") }
func (w *world) key() string    { return pick(w.t, "key", "A", "A", "B", "B", "é\xff\x00") }
func (w *world) source() string { return pick(w.t, "source", "1", "2", "3\xff") }
func (w *world) group() string  { return pick(w.t, "group", "G", "H\x00") }
func (w *world) bool() bool     { return rapid.Bool().Draw(w.t, "so") }
func (w *world) limit() int     { return pick(w.t, "limit", 0, 1, 2, 3, 100) }
func (w *world) rowID() jobs.RowID {
	return jobs.RowID{Flow: w.flow(), Key: w.key()}
}

func (w *world) entityKey() jobs.EntityKey {
	return jobs.EntityKey{Entity: w.entity(), Key: w.key()}
}

func (w *world) lane() jobs.LaneID {
	return jobs.LaneID{Client: w.client(), Shard: rapid.IntRange(0, 2).Draw(w.t, "shard")}
}

func (w *world) fence() jobs.Fence {
	l := w.lane()
	return jobs.Fence{LaneID: l, Token: w.token(l)}
}

func (w *world) token(l jobs.LaneID) string { return l.String() + pick(w.t, "token", " 1", " 2") }

// when is a moment near now, or never.
func (w *world) when() time.Time {
	d := pick(w.t, "when", -time.Hour, -time.Microsecond, 0, 0, 1234*time.Nanosecond, time.Hour, 1<<62)
	if d == 1<<62 {
		return time.Time{}
	}
	return w.now().Add(d)
}

// alone is a moment that nothing else has.
func (w *world) alone() time.Time {
	w.serial++
	d := time.Duration(w.serial) * time.Microsecond
	if w.bool() {
		d = -d
	}
	return w.now().Add(d)
}

func (w *world) small() int64 { return rapid.Int64Range(-1, 3).Draw(w.t, "number") }

func (w *world) stamp() connectors.Stamp {
	return connectors.Stamp{Epoch: w.small(), Version: w.small(), Observed: w.when()}
}

func (w *world) hash() []byte { return pick(w.t, "hash", nil, []byte{}, []byte{0, 255}, []byte{1}) }

func (w *world) body() json.RawMessage {
	return json.RawMessage(pick(w.t, "body", "", `{"n": 1.10}`, `"`+strings.Repeat("long ", 50)+`"`))
}

func (w *world) class() connectors.Class {
	return pick(w.t, "class", "", connectors.Applied, connectors.Transient)
}

func (w *world) standing() jobs.Standing {
	return pick(w.t, "standing", jobs.Standing{}, jobs.Standing{Since: w.now(), Code: "c", Message: "it said \x00\xff"},
		jobs.Standing{Until: w.now(), Tries: 3})
}

func (w *world) row() jobs.Row {
	r := jobs.Row{RowID: w.rowID(), Client: w.client(), Entity: w.entity(), Shard: rapid.IntRange(0, 2).Draw(w.t, "shard"),
		SourceID: pick(w.t, "source", "", "1", "2\xff"), Group: pick(w.t, "group", "", "G", "H\x00"),
		State:      pick(w.t, "state", jobs.Ready, jobs.Ready, jobs.Ready, jobs.Done, jobs.Dead, jobs.Held),
		Reason:     pick(w.t, "reason", jobs.ReasonNone, jobs.ReasonWaiting, jobs.ReasonFailed),
		Generation: w.small(), Desired: w.stamp(), Hash: w.hash(), Body: w.body(), Gone: w.bool(), Attempt: w.small(), DueAt: w.when(),
		OpenSince: w.when(), UnresolvedAt: w.when(), LastAt: w.when(), LastClass: w.class(), LastMessage: pick(w.t, "message", "", "m\x00\xff"),
		WaitEntity: pick(w.t, "waits for a", "", "sale", "sale", "party"), WaitKey: w.key(), KeyEpoch: w.small()}
	r.ChangedAt, r.ReadAt, r.FirstTryAt, r.AppliedAt = r.LastAt, r.DueAt, r.OpenSince, r.UnresolvedAt
	r.AppliedHash, r.AppliedGone, r.AppliedGeneration, r.Solo = r.Hash, !r.Gone, r.Generation-1, r.Gone
	r.Tries, r.Streak, r.Misses, r.MissCode, r.LastCode, r.RenamedFrom = int(r.Attempt)+1, 2, 3, "x", "y", r.WaitKey
	if rapid.IntRange(0, 40).Draw(w.t, "refused") == 0 {
		r.State = "nonsense"
	}
	return r
}

func (w *world) rowIDs() []jobs.RowID { return some(w, "ids", w.rowID) }
func (w *world) groups() []string     { return some(w, "groups", w.group) }
