package conformance

import (
	"context"
	"fmt"
	"time"

	"syncd/jobs"
)

// admitMany admits n records, K0000 and so on, under keys of the same names.
func (b *bench) admitMany(n int) {
	b.Helper()
	var items []jobs.Item
	for i := range n {
		k := fmt.Sprintf("K%04d", i)
		items = append(items, b.ev(k, 10, k, "x"))
	}
	b.admit(items...)
}

// remapRules are what an errand does that maps a flow again.
var remapRules = []rule{
	{"mapping a flow again begins anew when the mapping is another than it began with", func(b *bench) {
		ctx := context.Background()
		b.flow.CanRefresh, b.flow.Mapping = true, "before"
		const n = 150
		b.admitMany(n)
		id := b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop", Total: n})
		asked := map[string]int{}
		answer := func() {
			rs, err := b.journal.Requests(ctx, "shop", 1000)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range rs {
				asked[r.SourceID]++
				if err := b.journal.DropRequest(ctx, r.ID); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.step(id)
		answer()
		is(b, "asked with the old mapping", len(asked), 100)
		clear(asked)
		b.flow.Mapping = "after"
		for range 10 {
			st := b.step(id)
			answer()
			if !st.Run.Open() {
				is(b, "done", st.Run.Done, int64(n))
				is(b, "asked with the new mapping", len(asked), n)
				return
			}
		}
		b.Fatalf("the errand does not end")
	}},
	{"a flow is mapped again a window at a time, each source record once", func(b *bench) {
		ctx := context.Background()
		b.flow.CanRefresh = true
		const n = 230
		var items []jobs.Item
		for i := range n {
			id := fmt.Sprintf("S%04d", i)
			items = append(items, b.ev(id, 10, id+"a", "x", id+"b", "x"))
		}
		b.admit(items...)
		gone := b.ev("S0001", 11)
		gone.Gone = true
		b.admit(gone)
		total, err := b.journal.CountSources(ctx, "orders")
		if err != nil || total != n {
			b.Fatalf("counted %d, %v", total, err)
		}
		id := b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop", Total: total - 5}) // those have come since they were counted
		asked := map[string]int{}
		for range 20 {
			st := b.step(id)
			rs, err := b.journal.Requests(ctx, "shop", 1000)
			if err != nil {
				b.Fatal(err)
			}
			if len(rs) > 100 {
				b.Fatalf("%d are asked for at a time", len(rs))
			}
			if !st.Run.Open() {
				is(b, "done", st.Run.Done, int64(n))
				is(b, "of", st.Run.Total, int64(n))
				is(b, "asked", len(asked), n-1)
				return
			}
			is(b, "asked once more", b.step(id).Run.Open(), true)
			for i, r := range rs {
				asked[r.SourceID]++
				is(b, "times asked", asked[r.SourceID], 1)
				is(b, "kind", r.Kind, jobs.Remap)
				if i == 0 {
					// One that the source cannot give holds up none of the others.
					if err := b.journal.PostponeRequest(ctx, r.ID, 10*time.Hour); err != nil {
						b.Fatal(err)
					}
					continue
				}
				if err := b.journal.DropRequest(ctx, r.ID); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Fatal("it does not end")
	}},
	{"a source that cannot be asked for one record is not mapped again, and that is said", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		st := b.step(b.begin(jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop", Total: 1}))
		is(b, "message", st.Run.Message, "nothing was read: "+jobs.NoRemap(b.flow))
	}},
}
