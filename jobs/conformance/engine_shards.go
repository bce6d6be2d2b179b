package conformance

import (
	"context"
	"slices"
	"time"

	"syncd/jobs"
)

var shardSentences = []sentence{
	{"each shard of a client has its own due rows", func(t *engineTest) {
		row := func(key string, shard int, at time.Time) jobs.Row {
			r := plain(key)
			r.Shard, r.DueAt = shard, at
			return r
		}
		other := row("D", 1, noon.Add(-time.Hour))
		other.Client = "crm"
		t.put(row("A", 0, noon), row("B", 1, noon), row("C", 1, noon.Add(-time.Minute)), other, row("E", 2, noon.Add(time.Minute)))
		for _, c := range []struct {
			lane jobs.LaneID
			want []string
			next time.Time
		}{
			{jobs.LaneID{Client: "erp"}, []string{"A"}, noon},
			{jobs.LaneID{Client: "erp", Shard: 1}, []string{"C", "B"}, noon.Add(-time.Minute)},
			{jobs.LaneID{Client: "erp", Shard: 2}, nil, noon.Add(time.Minute)},
			{jobs.LaneID{Client: "erp", Shard: 3}, nil, time.Time{}},
			{jobs.LaneID{Client: "crm"}, nil, time.Time{}},
			{jobs.LaneID{Client: "crm", Shard: 1}, []string{"D"}, noon.Add(-time.Hour)},
		} {
			for name, run := range map[string]func(func(context.Context, jobs.Tx) error){"a View": t.view, "an Update": t.update} {
				run(func(ctx context.Context, tx jobs.Tx) error {
					rows, err := tx.Due(ctx, c.lane, noon, 10)
					if err != nil {
						return err
					}
					t.same("what is due in "+c.lane.String()+" in "+name, keysOf(rows), c.want)
					next, err := nextDue(ctx, tx, c.lane)
					if next != c.next {
						t.Errorf("in %s the next due time of %s is %v, want %v", name, c.lane, next, c.next)
					}
					return err
				})
			}
		}
	}},
	{"the next due times of many lanes come in their order", func(t *engineTest) {
		a, b, c := plain("A"), plain("B"), plain("C")
		a.DueAt, a.Shard = noon.Add(-time.Hour), 2
		b.DueAt = noon.Add(time.Minute)
		c.DueAt, c.Client = time.Time{}, "an \x1aodd\xff one"
		t.put(a, b, c)
		lanes := []jobs.LaneID{{Client: "nobody"}, {Client: "erp", Shard: 2}, {Client: c.Client}, {Client: "erp", Shard: 1}, {Client: "erp"}, {Client: "erp", Shard: 2}}
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			next, err := tx.NextDue(ctx, lanes)
			t.same("the next due times", next, []time.Time{{}, a.DueAt, {}, {}, b.DueAt, a.DueAt})
			if none, err := tx.NextDue(ctx, nil); len(none) != 0 || err != nil {
				t.Errorf("of no lane it is %v, %v", none, err)
			}
			return err
		})
	}},
	{"a row that changes its shard is due there at once", func(t *engineTest) {
		a, b := plain("A"), plain("B")
		a.DueAt = noon.Add(-time.Hour)
		t.put(a, b)
		t.same("what is due at first", t.due(jobs.LaneID{Client: "erp"}), []string{"A", "B"})
		a.Shard = 5
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{a}) })
		b.Shard = 5
		t.put(b)
		t.same("what is due where they were", t.due(jobs.LaneID{Client: "erp"}), []string(nil))
		t.same("what is due where they are", t.due(jobs.LaneID{Client: "erp", Shard: 5}), []string{"A", "B"})
	}},
	{"waking reaches the rows of all shards", func(t *engineTest) {
		for i, key := range []string{"A", "B"} {
			r := plain(key)
			r.Shard, r.DueAt, r.WaitEntity, r.WaitKey = i, noon.Add(time.Hour), "party", "VC-1"
			t.put(r)
		}
		var n int
		t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
			n, err = tx.Wake(ctx, "erp", []jobs.EntityKey{{Entity: "party", Key: "VC-1"}}, noon)
			return err
		})
		if n != 2 {
			t.Errorf("%d rows were woken, want 2", n)
		}
		for shard, want := range []string{"A", "B"} {
			t.same("what is due", t.due(jobs.LaneID{Client: "erp", Shard: shard}), []string{want})
		}
	}},
	{"resharding brings the ready rows of a client to the shards of their records, so many at a time", func(t *engineTest) {
		rows := map[jobs.RowID]jobs.Row{}
		entities := []string{"sale", "", "Ünter\x00\xff", "party"}
		for i, key := range append(numbered(40), "", "ä", "\x00", "\x1a", "\xff\xfe", "a\x00b") {
			r := full(key)
			r.State, r.Entity, r.Shard = jobs.Ready, entities[i%len(entities)], i%3
			rows[r.RowID] = r
		}
		stays := func(key string, change func(*jobs.Row)) {
			r := full(key)
			r.State, r.Shard = jobs.Ready, 17
			change(&r)
			rows[r.RowID] = r
		}
		stays("done", func(r *jobs.Row) { r.State = jobs.Done })
		stays("dead", func(r *jobs.Row) { r.State = jobs.Dead })
		stays("held", func(r *jobs.Row) { r.State = jobs.Held })
		stays("another's", func(r *jobs.Row) { r.Client = "crm" })
		ids := make([]jobs.RowID, 0, len(rows))
		for id, r := range rows {
			ids = append(ids, id)
			t.put(r)
		}
		for _, shards := range []int{4, 64, 7, 1, 0} {
			moved := 0
			for id, r := range rows {
				if want := jobs.ShardOf(r.EntityKey(), shards); r.State == jobs.Ready && r.Client == "erp" && r.Shard != want {
					moved++
					r.Shard = want
					rows[id] = r
				}
			}
			for left := moved; ; {
				n := 0
				t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
					n, err = tx.Reshard(ctx, "erp", shards, 9)
					return err
				})
				if want := min(left, 9); n != want {
					t.Fatalf("to %d shards: %d rows were moved with %d to move, want %d", shards, n, left, want)
				}
				if left -= n; n == 0 {
					break
				}
			}
			t.same("the rows", t.get(ids...), rows)
		}
		if n := len(t.due(jobs.LaneID{Client: "erp"})); n != 46 {
			t.Errorf("%d rows are due in the one shard, want 46", n)
		}
	}},
	{"the ready rows of a flow are counted no further than asked", func(t *engineTest) {
		var rows []jobs.Row
		for i, k := range numbered(30) {
			r := plain(k)
			r.Shard, r.DueAt = i%2, noon.Add(time.Duration(i)*time.Hour)
			if i%3 == 0 {
				r.Client = "crm"
			}
			rows = append(rows, r)
		}
		for i, s := range []jobs.State{jobs.Done, jobs.Dead, jobs.Held} {
			rows[i].State = s
		}
		other := plain("another flow's")
		other.Flow = "products"
		t.put(append(rows, other)...)
		for _, c := range []struct {
			flow       string
			most, want int
		}{{"orders", 100, 27}, {"orders", 27, 27}, {"orders", 26, 26}, {"orders", 1, 1}, {"orders", 0, 0}, {"products", 100, 1}, {"nothing\x00", 100, 0}} {
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				n, err := tx.CountReady(ctx, c.flow, c.most)
				if n != c.want {
					t.Errorf("of %s are ready, counted to %d, %d; want %d", c.flow, c.most, n, c.want)
				}
				return err
			})
		}
	}},
}

// due are the keys of what is due in a lane at noon, in its order.
func (t *engineTest) due(lane jobs.LaneID) (keys []string) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) error {
		rows, err := tx.Due(ctx, lane, noon.Add(anHour), 1000)
		keys = slices.Clip(keysOf(rows))
		return err
	})
	return keys
}
