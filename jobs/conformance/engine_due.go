package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var dueSentences = []sentence{
	{"due are the ready rows of the client whose time has come, in its order", func(t *engineTest) {
		row := func(key string, at time.Time, change func(*jobs.Row)) jobs.Row {
			r := plain(key)
			r.DueAt = at
			if change != nil {
				change(&r)
			}
			return r
		}
		second := row("3 second", noon.Add(-time.Second), nil)
		second.Flow = "products"
		t.put(
			row("1 now", noon, nil), row("2 first", noon.Add(-time.Hour), nil), second,
			row("4 a microsecond late", noon.Add(time.Microsecond), nil),
			row("5 done", noon, func(r *jobs.Row) { r.State = jobs.Done }), row("6 dead", noon, func(r *jobs.Row) { r.State = jobs.Dead }),
			row("7 held", noon, func(r *jobs.Row) { r.State = jobs.Held }), row("8 another's", noon, func(r *jobs.Row) { r.Client = "crm" }),
			row("9 at no time", time.Time{}, nil),
		)
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 10)
			t.same("what is due", keysOf(rows), []string{"9 at no time", "2 first", "3 second", "1 now"})
			if err == nil {
				t.same("a due row", rows[2], second)
			}
			return err
		})
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 2)
			t.same("the first two", keysOf(rows), []string{"9 at no time", "2 first"})
			return err
		})
	}},
	{"the next due time is that of the earliest ready row", func(t *engineTest) {
		next := func(client string) (at time.Time) {
			t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
				at, err = nextDue(ctx, tx, jobs.LaneID{Client: client})
				return err
			})
			return at
		}
		if got := next("erp"); !got.IsZero() {
			t.Errorf("with no rows it is %v, want zero", got)
		}
		late, done, other := plain("late"), plain("done"), plain("other")
		late.DueAt = noon.Add(time.Hour + time.Microsecond)
		done.State = jobs.Done
		other.Client = "crm"
		t.put(late, done, other)
		if got := next("erp"); got != late.DueAt {
			t.Errorf("it is %v, want %v", got, late.DueAt)
		}
		late.State = jobs.Dead
		t.put(late)
		if got := next("erp"); !got.IsZero() {
			t.Errorf("after the last ready row died it is %v, want zero", got)
		}
	}},
	{"a row that is settled is due no more, one put off is due later", func(t *engineTest) {
		t.put(plain("A"), plain("B"), plain("C"))
		a, b := plain("A"), plain("B")
		a.State = jobs.Done
		b.DueAt = noon.Add(time.Minute)
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{a, b}) })
		for _, c := range []struct {
			at   time.Time
			want []string
		}{{noon, []string{"C"}}, {noon.Add(time.Minute), []string{"C", "B"}}} {
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, c.at, 10)
				t.same(fmt.Sprint("due at ", c.at), keysOf(rows), c.want)
				return err
			})
		}
	}},
	{"a transaction sees as due what it has made so, where nothing was due before", func(t *engineTest) {
		const shards = 2
		lane := func(r *jobs.Row) jobs.LaneID {
			return jobs.LaneID{Client: "erp", Shard: jobs.ShardOf(r.EntityKey(), shards)}
		}
		row := func(key string, at time.Time) *jobs.Row {
			r := plain(key)
			r.Shard, r.DueAt = jobs.ShardOf(r.EntityKey(), shards), at
			return &r
		}
		written, moved, woken := row("written", noon.Add(-time.Hour)), row("moved", noon.Add(-time.Hour)), row("woken", noon.Add(time.Hour))
		moved.Shard = 1 - moved.Shard
		woken.WaitEntity, woken.WaitKey = "party", "P"
		t.put(*woken)
		for _, c := range []struct {
			row *jobs.Row
			do  func(context.Context, jobs.Tx) error
		}{
			{written, func(ctx context.Context, tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{*written}) }},
			{moved, func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.Reshard(ctx, "erp", shards, 10)
				return err
			}},
			{woken, func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.Wake(ctx, "erp", []jobs.EntityKey{{Entity: "party", Key: "P"}}, noon.Add(-2*time.Hour))
				return err
			}},
		} {
			due := func(ctx context.Context, tx jobs.Tx) ([]jobs.Row, error) { return tx.Due(ctx, lane(c.row), noon, 10) }
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				rows, err := due(ctx, tx)
				t.same("due before "+c.row.Key, slices.Contains(keysOf(rows), c.row.Key), false)
				return err
			})
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				if err := c.do(ctx, tx); err != nil {
					return err
				}
				rows, err := due(ctx, tx)
				t.same("due after "+c.row.Key, slices.Contains(keysOf(rows), c.row.Key), true)
				return err
			})
			done := *c.row
			done.State = jobs.Done
			t.put(done) // so that the next one meets a lane without due rows
			if c.row == written {
				t.put(*moved)
			}
		}
	}},
	{"a row made due earlier by another transaction is seen at once", func(t *engineTest) {
		look := func(want ...string) {
			t.Helper()
			for name, run := range map[string]func(func(context.Context, jobs.Tx) error){"a View": t.view, "an Update": t.update} {
				run(func(ctx context.Context, tx jobs.Tx) error {
					next, err := nextDue(ctx, tx, jobs.LaneID{Client: "erp"})
					if err != nil {
						return err
					}
					rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 10)
					t.same("what is due in "+name, keysOf(rows), want)
					if len(rows) > 0 && next != rows[0].DueAt {
						t.Errorf("in %s the next due time is %v, and that of the first row %v", name, next, rows[0].DueAt)
					}
					return err
				})
			}
		}
		set := func(rows ...jobs.Row) {
			t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, rows) })
		}
		a, b, c := plain("A"), plain("B"), plain("C")
		b.State = jobs.Dead
		c.DueAt, c.WaitEntity, c.WaitKey = noon.Add(time.Hour), "party", "VC-1"
		t.put(a, b, c)
		look("A")
		b.State, b.DueAt = jobs.Ready, noon.Add(-24*time.Hour)
		set(b)
		look("B", "A")
		a.State, b.State = jobs.Done, jobs.Done
		set(a, b)
		look()
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			_, err := tx.Wake(ctx, "erp", []jobs.EntityKey{{Entity: "party", Key: "VC-1"}}, noon.Add(-time.Minute))
			return err
		})
		look("C")
		// One that was held meanwhile, and left as it was.
		_ = t.e.Update(t.Context(), func(tx jobs.Tx) error {
			if _, err := tx.Rows(t.Context(), []jobs.RowID{rid("C")}, false); err != nil {
				return err
			}
			looked := make(chan error)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				looked <- t.e.Update(ctx, func(tx jobs.Tx) error {
					_, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 10)
					return err
				})
			}()
			<-looked
			return errOwn
		})
		look("C")
	}},
	{"a row whose change was undone is due as before, whatever the transaction found due", func(t *engineTest) {
		const shards = 2
		key := jobs.EntityKey{Entity: "party", Key: "VC-1"}
		put := func(change func(*jobs.Row)) func(context.Context, jobs.Tx, jobs.Row) error {
			return func(ctx context.Context, tx jobs.Tx, r jobs.Row) error {
				change(&r)
				return tx.PutRows(ctx, []jobs.Row{r})
			}
		}
		for what, do := range map[string]func(context.Context, jobs.Tx, jobs.Row) error{
			"ended":                   put(func(r *jobs.Row) { r.State = jobs.Done }),
			"put off":                 put(func(r *jobs.Row) { r.DueAt = noon.Add(time.Hour) }),
			"given to another client": put(func(r *jobs.Row) { r.Client = "crm" }),
			"put into another shard":  put(func(r *jobs.Row) { r.Shard = 7 }),
			"moved to where it belongs": func(ctx context.Context, tx jobs.Tx, r jobs.Row) error {
				_, err := tx.Reshard(ctx, r.Client, shards, 10)
				return err
			},
			"patched": func(ctx context.Context, tx jobs.Tx, r jobs.Row) error {
				r.State = jobs.Dead
				return tx.PatchRows(ctx, []jobs.Row{r})
			},
			"closed": func(ctx context.Context, tx jobs.Tx, r jobs.Row) error {
				closed, _, err := tx.CloseRows(ctx, r.Client, []jobs.Closing{closingOf(&r, connectors.Applied)}, noon)
				t.same("how many were closed", len(closed), 1)
				return err
			},
			"woken": func(ctx context.Context, tx jobs.Tx, r jobs.Row) error {
				n, err := tx.Wake(ctx, r.Client, []jobs.EntityKey{key}, noon)
				t.same("how many were woken", n, 1)
				return err
			},
		} {
			// Each has a client of its own, of which nothing was looked for before.
			r := plain(what)
			r.Client, r.DueAt = "erp of what is "+what, noon.Add(-time.Hour)
			r.Shard = 1 - jobs.ShardOf(r.EntityKey(), shards)
			if what == "woken" {
				r.WaitEntity, r.WaitKey = key.Entity, key.Key
			}
			lane := jobs.LaneID{Client: r.Client, Shard: r.Shard}
			due := func(ctx context.Context, tx jobs.Tx, want ...string) error {
				rows, err := tx.Due(ctx, lane, noon.Add(-time.Minute), 10)
				t.same("due beside what is "+what, keysOf(rows), want)
				return err
			}
			t.put(r)
			t.update(func(ctx context.Context, tx jobs.Tx) error { return due(ctx, tx, r.Key) })
			err := t.e.Update(t.Context(), func(tx jobs.Tx) error {
				if err := do(t.Context(), tx, r); err != nil {
					return err
				}
				if err := due(t.Context(), tx); err != nil {
					return err
				}
				return errOwn
			})
			if !errors.Is(err, errOwn) {
				t.Fatalf("the transaction in which a row was %s ended with %v", what, err)
			}
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				next, err := nextDue(ctx, tx, lane)
				if next != r.DueAt {
					t.Errorf("once the row that was %s is as before, the next due time is %v, want %v", what, next, r.DueAt)
				}
				return err
			})
			t.update(func(ctx context.Context, tx jobs.Tx) error { return due(ctx, tx, r.Key) })
		}
	}},
	{"of ten thousand due rows the first are taken", func(t *engineTest) {
		rows := make([]jobs.Row, 10_000)
		for i, k := range numbered(len(rows)) {
			rows[i] = plain(k)
			rows[i].DueAt = noon.Add(-time.Duration(i) * time.Millisecond)
		}
		t.put(rows...)
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			got, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 500)
			if len(got) != 500 || got[0].Key != "K-09999" || got[499].Key != "K-09500" {
				t.Errorf("%d rows are due, %s first and %s last; want 500 from K-09999 to K-09500", len(got), got[0].Key, got[len(got)-1].Key)
			}
			return err
		})
	}},
	{"a due row comes with the body it was put with, whatever others write", func(t *engineTest) {
		keys := numbered(20)
		write := func(n int) error {
			rows := make([]jobs.Row, len(keys))
			for i, k := range keys {
				rows[i] = plain(k)
				rows[i].Generation, rows[i].Body = int64(n), json.RawMessage(fmt.Sprint(n))
			}
			return t.e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), rows) })
		}
		t.fail("store", write(0))
		done := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			defer close(done)
			for n := range 60 {
				t.fail("store", write(n))
			}
		})
		all.Go(func() {
			for looking := true; looking; {
				select {
				case <-done:
					looking = false
				default:
				}
				t.fail("look", t.e.Update(t.Context(), func(tx jobs.Tx) error {
					rows, err := tx.Due(t.Context(), jobs.LaneID{Client: "erp"}, noon, 100)
					for _, r := range rows {
						if string(r.Body) != fmt.Sprint(r.Generation) {
							t.Errorf("row %s of generation %d came with body %s", r.RowID, r.Generation, r.Body)
						}
					}
					return err
				}))
			}
		})
		all.Wait()
	}},
	{"what was read as due can be changed without losing what others wrote", func(t *engineTest) {
		t.put(plain("A"))
		const workers, rounds = 3, 10
		var counted atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for range rounds {
					n := 0
					t.fail("count", t.e.Update(t.Context(), func(tx jobs.Tx) error {
						n = 0
						rows, err := tx.Due(t.Context(), jobs.LaneID{Client: "erp"}, noon, 10)
						if w > 0 {
							rows, err = tx.Rows(t.Context(), []jobs.RowID{rid("A")}, false)
						}
						if err != nil || len(rows) == 0 {
							return err
						}
						n = 1
						rows[0].Tries++
						return tx.PatchRows(t.Context(), rows)
					}))
					counted.Add(int64(n))
				}
			})
		}
		all.Wait()
		if got := t.get(rid("A"))[rid("A")].Tries; int64(got) != counted.Load() {
			t.Errorf("%d of %d changes are left", got, counted.Load())
		}
	}},
	{"waking makes due what waits for the record, and counts it", func(t *engineTest) {
		later := noon.Add(time.Hour)
		row := func(key string, change func(*jobs.Row)) jobs.Row {
			r := plain(key)
			r.DueAt, r.WaitEntity, r.WaitKey = later, "party", "VC-1"
			if change != nil {
				change(&r)
			}
			return r
		}
		t.put(row("waits", nil), row("waits too", nil), row("for another key", func(r *jobs.Row) { r.WaitKey = "VC-2" }),
			row("for another entity", func(r *jobs.Row) { r.WaitEntity = "product" }), row("at another client", func(r *jobs.Row) { r.Client = "crm" }),
			row("is dead", func(r *jobs.Row) { r.State = jobs.Dead }), row("waits for nothing", func(r *jobs.Row) { r.WaitEntity, r.WaitKey = "", "" }),
			row("for a record without a name", func(r *jobs.Row) { r.WaitEntity, r.WaitKey = "", "VC-1" }))
		wake := func(keys ...jobs.EntityKey) (n int) {
			t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
				n, err = tx.Wake(ctx, "erp", keys, noon)
				return err
			})
			return n
		}
		if n := wake(jobs.EntityKey{Entity: "party", Key: "VC-9"}); n != 0 {
			t.Errorf("%d rows were woken for a record nobody waits for", n)
		}
		key := jobs.EntityKey{Entity: "party", Key: "VC-1"}
		if n := wake(jobs.EntityKey{Entity: "party", Key: "VC-9"}, key, key, jobs.EntityKey{Key: "VC-1"}); n != 2 {
			t.Errorf("%d rows were woken, want 2", n)
		}
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon, 10)
			if len(rows) != 2 || rows[0].DueAt != noon || rows[0].WaitKey != "VC-1" {
				t.Errorf("due are %v", keysOf(rows))
			}
			return err
		})
	}},
}

// nextDue is when the next row of one lane is due.
func nextDue(ctx context.Context, tx jobs.Tx, lane jobs.LaneID) (time.Time, error) {
	next, err := tx.NextDue(ctx, []jobs.LaneID{lane})
	if err != nil {
		return time.Time{}, err
	}
	return next[0], nil
}
