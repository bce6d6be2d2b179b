package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var pruneSentences = []sentence{
	{"the oldest entries of all histories go, so many at a time", func(t *engineTest) {
		var all []jobs.Attempt
		for i := range 20 {
			all = append(all, jobs.Attempt{RowID: rid(fmt.Sprint("K-", i%3)), Number: int64(i), At: noon.Add(time.Duration(i) * time.Second), Class: connectors.Transient})
		}
		t.addAttempts(all...)
		left := func(from int) {
			t.Helper()
			got := 0
			for k := range 3 {
				for _, a := range t.attempts(rid(fmt.Sprint("K-", k))) {
					if got++; a.Number < int64(from) {
						t.Errorf("attempt %d is still there, want those from %d on", a.Number, from)
					}
				}
			}
			if got != len(all)-from {
				t.Errorf("%d entries are left, want %d", got, len(all)-from)
			}
		}
		before := noon.Add(15 * time.Second)
		for _, step := range []struct{ limit, n, left int }{{0, 0, 0}, {4, 4, 4}, {1, 1, 5}, {10, 10, 15}, {10, 0, 15}} {
			if n := t.prune(before, step.limit); n != step.n {
				t.Errorf("of at most %d were removed %d, want %d", step.limit, n, step.n)
			}
			left(step.left)
		}
		if n := t.prune(noon.Add(anHour), 100); n != 5 {
			t.Errorf("of those left were removed %d, want 5", n)
		}
		left(20)
	}},
	{"an entry from another time holds up none behind it", func(t *engineTest) {
		at := func(n int64, at time.Time) jobs.Attempt { return jobs.Attempt{RowID: rid("A"), Number: n, At: at} }
		// A clock that jumped, and one that was at no time.
		t.addAttempts(at(1, noon.Add(-time.Second)), at(2, noon.AddDate(10, 0, 0)), at(3, time.Time{}), at(4, noon.Add(-time.Microsecond)), at(5, noon), at(6, noon.Add(-time.Minute)))
		n := 0
		for range 3 {
			n += t.prune(noon, 100)
		}
		if n != 4 {
			t.Errorf("%d were removed, want 4", n)
		}
		var left []int64
		for _, a := range t.attempts(rid("A")) {
			left = append(left, a.Number)
		}
		t.same("those left", left, []int64{5, 2})
	}},
	{"what tells of a write in doubt, and of a record between two keys, stays", func(t *engineTest) {
		doubt, moved, done, held := plain("DOUBT\x00"), plain("MOVED"), plain("DONE"), plain("HELD")
		doubt.UnresolvedAt, moved.RenamedFrom, held.State = noon, "OLD", jobs.Held
		t.put(doubt, moved, done, held)
		other := jobs.RowID{Flow: "products", Key: doubt.Key}
		ids := []jobs.RowID{doubt.RowID, moved.RowID, done.RowID, held.RowID, other, rid("erased")}
		for n := range 2 {
			for _, id := range ids {
				t.addAttempts(jobs.Attempt{RowID: id, Number: int64(n), At: noon})
			}
		}
		t.addAttempts(jobs.Attempt{RowID: doubt.RowID, Number: 7, At: noon.Add(anHour)})
		var after int64
		var removed []int
		for range 10 {
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				n, last, err := tx.PruneAttempts(ctx, after, noon.Add(time.Second), 3)
				if n > 0 && last == after || last < after {
					t.Errorf("%d removed, and the last looked at is %d after %d", n, last, after)
				}
				removed, after = append(removed, n), last
				return err
			})
		}
		t.same("removed", removed, []int{1, 3, 1, 3, 0, 0, 0, 0, 0, 0})
		for i, want := range []int{3, 2, 0, 0, 0, 0} {
			if n := len(t.attempts(ids[i])); n != want {
				t.Errorf("the history of %q has %d entries, want %d", ids[i], n, want)
			}
		}
	}},
	{"the histories of rows go as a whole", func(t *engineTest) {
		for _, id := range []jobs.RowID{rid("A"), rid("B"), {Flow: "products", Key: "A"}, rid("\x00\xff")} {
			t.addAttempts(jobs.Attempt{RowID: id, Number: 1, At: noon}, jobs.Attempt{RowID: id, Number: 2, At: noon})
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.DeleteAttempts(ctx, []jobs.RowID{rid("A"), rid("\x00\xff"), rid("A"), rid("none"), {Flow: "products", Key: "B"}})
		})
		for id, want := range map[jobs.RowID]int{rid("A"): 0, rid("B"): 2, {Flow: "products", Key: "A"}: 2, rid("\x00\xff"): 0} {
			if n := len(t.attempts(id)); n != want {
				t.Errorf("the history of %q has %d entries, want %d", id, n, want)
			}
		}
	}},
	{"bodies go without the rest of their rows, and are counted", func(t *engineTest) {
		a, b, bare := full("A"), full("B"), plain("C\x00")
		bare.Body = nil
		other := full("A")
		other.Flow = "products"
		t.put(a, b, bare, other)
		drop := func(want int, ids ...jobs.RowID) {
			t.Helper()
			n := 0
			t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
				n, err = tx.DropBodies(ctx, ids)
				return err
			})
			if n != want {
				t.Errorf("%d bodies were removed of %q, want %d", n, ids, want)
			}
		}
		drop(1, rid("A"), bare.RowID, rid("none"), rid("A"))
		drop(0, rid("A"))
		a.Body = nil
		t.same("the rows", t.get(a.RowID, b.RowID, bare.RowID, other.RowID),
			map[jobs.RowID]jobs.Row{a.RowID: a, b.RowID: b, bare.RowID: bare, other.RowID: other})
		drop(2, rid("B"), other.RowID)
		a.Body = []byte(`"anew"`)
		t.put(a)
		t.same("the row that was put anew", t.get(a.RowID)[a.RowID], a)
	}},
}

func (t *engineTest) addAttempts(as ...jobs.Attempt) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddAttempts(ctx, as) })
}

// attempts is a row's whole history, newest first.
func (t *engineTest) attempts(id jobs.RowID) (out []jobs.Attempt) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Attempts(ctx, id, 1000)
		return err
	})
	return out
}

func (t *engineTest) prune(before time.Time, limit int) (n int) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
		n, _, err = tx.PruneAttempts(ctx, 0, before, limit)
		return err
	})
	return n
}
