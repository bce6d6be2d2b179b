package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var listSentences = []sentence{
	{"the destinations of a flow are each told once", func(t *engineTest) {
		row := func(flow, key, client, entity string) jobs.Row {
			r := plain(key)
			r.Flow, r.Client, r.Entity = flow, client, entity
			return r
		}
		t.put(row("orders", "A", "erp", "sale"), row("orders", "B", "erp", "sale"), row("orders", "C", "erp", "\x00\xff"),
			row("orders", "D", "old", "sale"), row("products", "A", "pim", "item"))
		for flow, want := range map[string][]jobs.Destination{
			"orders":   {{Client: "erp", Entity: "\x00\xff"}, {Client: "erp", Entity: "sale"}, {Client: "old", Entity: "sale"}},
			"products": {{Client: "pim", Entity: "item"}},
			"nothing":  nil,
		} {
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				got, err := tx.Destinations(ctx, flow)
				slices.SortFunc(got, func(a, b jobs.Destination) int { return strings.Compare(a.Client+a.Entity, b.Client+b.Entity) })
				t.same("the destinations of "+flow, got, want)
				return err
			})
		}
	}},
	{"a listing chooses by every field of its filter", func(t *engineTest) {
		row := func(flow, key string, change func(*jobs.Row)) jobs.Row {
			r := plain(key)
			r.Flow = flow
			change(&r)
			return r
		}
		t.put(
			row("orders", "A", func(r *jobs.Row) {
				r.State, r.Reason, r.LastClass, r.SourceID, r.LastAt = jobs.Dead, jobs.ReasonFailed, connectors.Invalid, "gid\x001", noon
			}),
			row("orders", "B", func(r *jobs.Row) {
				r.State, r.LastClass, r.UnresolvedAt, r.SourceID, r.LastAt = jobs.Held, connectors.Unknown, noon, "gid", noon.Add(-time.Microsecond)
			}),
			row("orders", "C", func(r *jobs.Row) { r.Reason, r.LastClass = jobs.ReasonRetry, connectors.Transient }),
			row("orders", "D", func(r *jobs.Row) { r.State, r.LastClass = jobs.Done, connectors.Applied }),
			row("products", "A", func(r *jobs.Row) {
				r.State, r.UnresolvedAt, r.SourceID, r.LastAt, r.Body = jobs.Done, noon, "gid\x001", noon.Add(time.Hour), nil
			}),
			row("Products", "ä\xff", func(r *jobs.Row) { r.State, r.Reason = jobs.Dead, jobs.ReasonExpired }),
		)
		for _, c := range []struct {
			name string
			f    jobs.Filter
			want []string
		}{
			{"everything", jobs.Filter{}, []string{"Products/ä\xff", "orders/A", "orders/B", "orders/C", "orders/D", "products/A"}},
			{"a flow", jobs.Filter{Flow: "orders"}, []string{"orders/A", "orders/B", "orders/C", "orders/D"}},
			{"dead", jobs.Filter{State: jobs.Dead}, []string{"Products/ä\xff", "orders/A"}},
			{"held", jobs.Filter{State: jobs.Held}, []string{"orders/B"}},
			{"ready", jobs.Filter{State: jobs.Ready}, []string{"orders/C"}},
			{"done", jobs.Filter{State: jobs.Done}, []string{"orders/D", "products/A"}},
			{"a class", jobs.Filter{Class: "transient"}, []string{"orders/C"}},
			{"a reason", jobs.Filter{Reason: jobs.ReasonExpired}, []string{"Products/ä\xff"}},
			{"keys", jobs.Filter{Keys: []string{"A", "ä\xff", "A", "Z"}}, []string{"Products/ä\xff", "orders/A", "products/A"}},
			{"unresolved", jobs.Filter{Unresolved: true}, []string{"orders/B", "products/A"}},
			{"behind a row", jobs.Filter{After: jobs.RowID{Flow: "orders", Key: "C"}}, []string{"orders/D", "products/A"}},
			{"behind a flow", jobs.Filter{After: jobs.RowID{Flow: "orders"}}, []string{"orders/A", "orders/B", "orders/C", "orders/D", "products/A"}},
			{"the first two", jobs.Filter{Limit: 2}, []string{"Products/ä\xff", "orders/A"}},
			{"all at once", jobs.Filter{Flow: "orders", State: jobs.Held, Class: "unknown", Keys: []string{"A", "B"}, Unresolved: true,
				After: jobs.RowID{Flow: "orders", Key: "A"}, Limit: 9}, []string{"orders/B"}},
			{"nothing", jobs.Filter{Flow: "orders", State: jobs.Held, Reason: jobs.ReasonFailed}, nil},
			{"what a source record owns", jobs.Filter{SourceID: "gid\x001"}, []string{"orders/A", "products/A"}},
			{"what a source record of a flow owns", jobs.Filter{Flow: "orders", SourceID: "gid"}, []string{"orders/B"}},
			{"what was not tried since", jobs.Filter{Before: noon}, []string{"Products/ä\xff", "orders/B", "orders/C", "orders/D"}},
			{"what was tried since", jobs.Filter{Since: noon}, []string{"orders/A", "products/A"}},
			{"what was tried between", jobs.Filter{Since: noon.Add(-time.Microsecond), Before: noon.Add(time.Microsecond)}, []string{"orders/A", "orders/B"}},
			{"those with bodies", jobs.Filter{Bodies: true}, []string{"Products/ä\xff", "orders/A", "orders/B", "orders/C", "orders/D"}},
			{"the first two done ones with bodies", jobs.Filter{State: jobs.Done, Bodies: true, Limit: 2}, []string{"orders/D"}},
			{"all the new at once", jobs.Filter{Flow: "orders", SourceID: "gid\x001", Since: noon, Before: noon.Add(time.Hour), Bodies: true}, []string{"orders/A"}},
		} {
			var got []string
			for _, r := range t.list(c.f) {
				got = append(got, r.String())
				if want := `{"key":"` + r.Key + `"}`; !c.f.Bodies && r.Body != nil || c.f.Bodies && string(r.Body) != want {
					t.Errorf("%s: row %s came with the body %s", c.name, r.RowID, r.Body)
				}
			}
			t.same("the listing of "+c.name, got, c.want)
		}
	}},
	{"a listing that sets no limit has a hundred rows", func(t *engineTest) {
		var rows []jobs.Row
		for _, k := range numbered(130) {
			rows = append(rows, plain(k))
		}
		t.put(rows...)
		if n := len(t.list(jobs.Filter{})); n != 100 {
			t.Errorf("it has %d rows", n)
		}
		if n := len(t.list(jobs.Filter{Limit: 120})); n != 120 {
			t.Errorf("with a limit of 120 it has %d rows", n)
		}
	}},
	{"a listing read page by page misses nothing while rows change", func(t *engineTest) {
		var rows []jobs.Row
		keys := numbered(100)
		for _, k := range keys {
			r := plain(k)
			r.State = jobs.Dead
			rows = append(rows, r)
		}
		t.put(rows...)
		var seen []string
		f := jobs.Filter{State: jobs.Dead, Limit: 7}
		for page := 0; ; page++ {
			got := t.list(f)
			for _, r := range got {
				if r.Generation == 1 {
					seen = append(seen, r.Key)
				}
			}
			if len(got) < f.Limit {
				break
			}
			f.After = got[len(got)-1].RowID
			// What was seen is changed, and new rows come before and behind.
			got[0].State = jobs.Done
			before, behind := plain(fmt.Sprint("A-", page)), plain(fmt.Sprintf("%s-%d", f.After.Key, page))
			before.State, behind.State, before.Generation, behind.Generation = jobs.Dead, jobs.Dead, 2, 2
			t.put(got[0], before, behind)
		}
		t.same("the rows seen", seen, keys)
	}},
	{"counts add up by flow, state, reason and class", func(t *engineTest) {
		var rows []jobs.Row
		for i, k := range numbered(10) {
			r := plain(k)
			r.Reason, r.LastClass = jobs.ReasonRetry, connectors.Transient
			r.DueAt, r.OpenSince = noon.Add(time.Duration(i-4)*time.Second), noon.Add(time.Duration(-i)*time.Hour)
			if i < 3 {
				r.UnresolvedAt = noon
			}
			rows = append(rows, r)
		}
		closed := func(key string, reason jobs.Reason, class connectors.Class, at time.Time) jobs.Row {
			r := plain(key)
			r.State, r.Reason, r.LastClass, r.UnresolvedAt = jobs.Done, reason, class, at
			return r
		}
		dead, other := plain("dead"), plain("other")
		dead.State, dead.LastClass = jobs.Dead, connectors.Invalid
		other.Flow = "products"
		t.put(append(rows, dead, other, closed("done", "", connectors.Applied, time.Time{}), closed("done in doubt", "", connectors.Unchanged, noon),
			closed("given up", jobs.ReasonDiscarded, connectors.Invalid, time.Time{}), closed("given up in doubt", jobs.ReasonDiscarded, connectors.Invalid, noon))...)
		want := []jobs.Count{
			{Flow: "orders", State: jobs.Dead, Class: "invalid", N: 1, OldestOpen: noon, OldestDue: noon},
			{Flow: "orders", State: jobs.Done, N: 2, Unresolved: 1},
			{Flow: "orders", State: jobs.Done, Reason: jobs.ReasonDiscarded, Class: "invalid", N: 2, Unresolved: 1},
			{Flow: "orders", State: jobs.Ready, Reason: jobs.ReasonRetry, Class: "transient", N: 10, OldestOpen: noon.Add(-9 * time.Hour),
				OldestDue: noon.Add(-4 * time.Second), Due: 5, Unresolved: 3},
			{Flow: "products", State: jobs.Ready, N: 1, OldestOpen: noon, OldestDue: noon, Due: 1},
		}
		count := func(tx jobs.Tx) []jobs.Count {
			got, err := tx.Counts(t.Context(), noon)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got, func(a, b jobs.Count) int {
				return strings.Compare(a.Flow+string(a.State)+string(a.Reason), b.Flow+string(b.State)+string(b.Reason))
			})
			return got
		}
		look := func(when string) {
			t.Helper()
			t.view(func(_ context.Context, tx jobs.Tx) error {
				t.same("the counts "+when, count(tx), want)
				return nil
			})
		}
		look("at first")
		// What was undone is not counted, and its place is taken by others.
		_ = t.e.Update(t.Context(), func(tx jobs.Tx) error {
			t.fail("put", tx.PutRows(t.Context(), []jobs.Row{closed("a", "", "", time.Time{}), closed("b", "", "", time.Time{})}))
			if got := count(tx); got[1].N != 4 {
				t.Errorf("within a transaction that adds two there are %d done rows, want 4", got[1].N)
			}
			return errOwn
		})
		look("after a transaction was undone")
		t.view(func(_ context.Context, tx jobs.Tx) error {
			t.same("the counts before a row is added", count(tx), want)
			t.put(closed("c", "", "", time.Time{}))
			t.view(func(_ context.Context, tx jobs.Tx) error {
				if got := count(tx); got[1].N != 3 {
					t.Errorf("after a row was added there are %d done rows, want 3", got[1].N)
				}
				return nil
			})
			t.same("the counts of the older state", count(tx), want)
			return nil
		})
		t.put(plain("c"))
		want[1].N = 2
		want = append(want[:3:3], jobs.Count{Flow: "orders", State: jobs.Ready, N: 1, OldestOpen: noon, OldestDue: noon, Due: 1}, want[3], want[4])
		look("after a done row was opened")
	}},
}

func (t *engineTest) list(f jobs.Filter) (out []jobs.Row) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.List(ctx, f)
		return err
	})
	return out
}
