package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"syncd/jobs"
)

// errand is one in which every field but its number is set.
func errand(kind string) jobs.Run {
	return jobs.Run{Kind: kind, Flow: "orders\x00", Client: "erp\xff", Settings: json.RawMessage(`{ "since": 12345678901234567890, "at": 1.10 }`),
		Total: 1 << 60, Done: 2, Failed: 3, After: jobs.RowID{Flow: "orders\x00", Key: "K\xff"}, At: noon, EndedAt: noon.Add(time.Second),
		By: "a person", Why: "because", Message: "it is over"}
}

var runSentences = []sentence{
	{"an errand comes back as it was added, with a number of its own", func(t *engineTest) {
		a, bare := errand("backfill"), jobs.Run{Kind: "audit"}
		told := a
		told.ID = 99 // not the caller's to say
		a.ID, bare.ID = t.addRun(told), t.addRun(bare)
		if a.ID <= 0 || bare.ID <= a.ID || a.ID == 99 {
			t.Errorf("their numbers are %d and %d", a.ID, bare.ID)
		}
		t.same("the errands", t.runs(false, 10), []jobs.Run{bare, a})
	}},
	{"errands come newest first, and open ones alone when asked", func(t *engineTest) {
		var all, open []jobs.Run
		for i := range 6 {
			r := jobs.Run{Kind: fmt.Sprint(i), At: noon.Add(time.Duration(-i) * time.Hour)}
			if i%2 == 0 {
				r.EndedAt = noon
			}
			r.ID = t.addRun(r)
			all = append(all, r)
			if i%2 == 1 {
				open = append(open, r)
			}
		}
		slices.Reverse(all)
		slices.Reverse(open)
		t.same("all", t.runs(false, 10), all)
		t.same("the newest", t.runs(false, 2), all[:2])
		t.same("those that have not ended", t.runs(true, 10), open)
		t.same("the newest that has not ended", t.runs(true, 1), open[:1])
	}},
	{"the flows for which errands of a kind go on are named, each once", func(t *engineTest) {
		over := errand("redeliver")
		over.Flow = "items"
		for _, r := range []jobs.Run{over, {Kind: "redeliver", Flow: "orders\x00"}, {Kind: "redeliver", Flow: "orders\x00"}, {Kind: "remap", Flow: "parties"}} {
			t.addRun(r)
		}
		for kind, want := range map[string][]string{"redeliver": {"orders\x00"}, "remap": {"parties"}, "audit": nil} {
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				got, err := tx.RunFlows(ctx, kind)
				t.same(kind, got, want)
				return err
			})
		}
	}},
	{"how far an errand has come replaces what was known", func(t *engineTest) {
		a, b := errand("backfill"), errand("audit")
		b.EndedAt = time.Time{}
		a.ID, b.ID = t.addRun(a), t.addRun(b)
		b.Total, b.Done, b.Failed, b.After, b.Message, b.EndedAt = 5, 4, 1, jobs.RowID{Flow: "orders", Key: "Z"}, "", noon
		b.Settings = json.RawMessage(`{"round": 2}`)
		a.EndedAt, a.After = time.Time{}, jobs.RowID{}
		away := errand("other")
		away.ID = b.ID + 1000
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, r := range []jobs.Run{a, b, away} {
				if err := tx.PutRun(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
		t.same("the errands", t.runs(false, 10), []jobs.Run{b, a})
		t.same("those that have not ended", t.runs(true, 10), []jobs.Run{a})
	}},
	{"an errand that is removed leaves its number to nobody", func(t *engineTest) {
		a, b, c := t.addRun(errand("a")), t.addRun(errand("b")), t.addRun(errand("c"))
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.DeleteRuns(ctx, []int64{c, a, c, 1 << 50}) })
		if got := t.runs(false, 10); len(got) != 1 || got[0].ID != b {
			t.Errorf("the errands are %v, want number %d alone", got, b)
		}
		if d := t.addRun(errand("d")); d <= c {
			t.Errorf("the next number is %d after %d", d, c)
		}
	}},
	{"errands that were read are held until the transaction ends", func(t *engineTest) {
		t.addRun(jobs.Run{Kind: "backfill"})
		const workers, rounds = 4, 10
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range rounds {
					t.fail("count", t.e.Update(t.Context(), func(tx jobs.Tx) error {
						rs, err := tx.Runs(t.Context(), true, 10)
						if err != nil {
							return err
						}
						rs[0].Done++
						return tx.PutRun(t.Context(), rs[0])
					}))
				}
			})
		}
		all.Wait()
		if got := t.runs(true, 1)[0].Done; got != workers*rounds {
			t.Errorf("%d of %d steps are left", got, workers*rounds)
		}
	}},
}

func (t *engineTest) addRun(r jobs.Run) (id int64) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
		id, err = tx.AddRun(ctx, r)
		return err
	})
	return id
}

func (t *engineTest) runs(open bool, limit int) (out []jobs.Run) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Runs(ctx, open, limit)
		return err
	})
	return out
}
