package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// walk goes through what list lists in steps of 1, 3 and many, each time beginning behind
// the last; every step is a transaction of its own. It must come by the same things
// in the same order each time, and returns them sorted by name.
func walk[T, A any](t *engineTest, what string, after func(T) A, name func(T) string, list func(ctx context.Context, tx jobs.Tx, after A, limit int) ([]T, error)) (all []T) {
	t.Helper()
	var first []string
	for _, limit := range []int{1000, 3, 1} {
		var at A
		var names []string
		all = nil
		for steps := 0; ; steps++ {
			var part []T
			t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
				part, err = list(ctx, tx, at, limit)
				return err
			})
			if len(part) > limit || steps > 1000 {
				t.Fatalf("%s: step %d of at most %d has %d", what, steps, limit, len(part))
			}
			if len(part) == 0 {
				break
			}
			for _, x := range part {
				names = append(names, name(x))
			}
			all = append(all, part...)
			at = after(part[len(part)-1])
		}
		if first == nil {
			first = names
		}
		t.same(fmt.Sprintf("%s in steps of %d", what, limit), names, first)
	}
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return all
}

// oddNames are some that are ordered, written and read in unlike ways.
func oddNames() []string {
	names := []string{"a", "B", "b", "10", "9", "a b", "a\x00b", "a\x1ab", "\x00", "ab"}
	for _, odd := range oddTexts() {
		names = append(names, odd.text)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var walkSentences = []sentence{
	{"all source records of a flow are come by", func(t *engineTest) {
		var want []jobs.SourceRecord
		for i, id := range oddNames() {
			want = append(want, jobs.SourceRecord{ID: id, Stamp: connectors.Stamp{Epoch: 1, Version: int64(i), Observed: noon}, Gone: i%2 == 0, Keys: []string{id, "A"}})
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PutSources(ctx, "products", []jobs.SourceRecord{{ID: "another flow's"}}); err != nil {
				return err
			}
			return tx.PutSources(ctx, "orders", want)
		})
		name := func(r jobs.SourceRecord) string { return r.ID }
		t.same("the source records", walk(t, "source records", name, name, func(ctx context.Context, tx jobs.Tx, after string, limit int) ([]jobs.SourceRecord, error) {
			return tx.ListSources(ctx, "orders", after, limit)
		}), want)
	}},
	{"all contenders of a flow are come by", func(t *engineTest) {
		var want []jobs.Contender
		for i, id := range oddNames() {
			for _, c := range [][2]string{{id, "S"}, {"A", id}} {
				want = append(want, jobs.Contender{RowID: rid(c[0]), SourceID: c[1], Stamp: connectors.Stamp{Version: int64(i), Observed: noon},
					ChangedAt: noon, Hash: []byte{byte(i), 0}, Body: json.RawMessage(`{"n": 1.0}`), Since: noon.Add(time.Duration(-i) * time.Second)})
			}
		}
		other := want[0]
		other.Flow = "products"
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, c := range append(want, other) {
				if err := tx.PutContender(ctx, c); err != nil {
					return err
				}
			}
			return nil
		})
		name := func(c jobs.Contender) string { return fmt.Sprintf("%q %q", c.Key, c.SourceID) }
		slices.SortFunc(want, func(a, b jobs.Contender) int { return cmp.Compare(name(a), name(b)) })
		t.same("the contenders", walk(t, "contenders",
			func(c jobs.Contender) jobs.Contender {
				return jobs.Contender{RowID: jobs.RowID{Key: c.Key}, SourceID: c.SourceID}
			}, name,
			func(ctx context.Context, tx jobs.Tx, after jobs.Contender, limit int) ([]jobs.Contender, error) {
				return tx.ListContenders(ctx, "orders", after, limit)
			}), want)
	}},
	{"all links of a client are come by, and all clients that have any", func(t *engineTest) {
		var want []jobs.Link
		for i, key := range oddNames() {
			for _, entity := range []string{"party", "\x00\xff"} {
				want = append(want, jobs.Link{EntityKey: jobs.EntityKey{Entity: entity, Key: key}, Link: fmt.Sprint(i), SeenAt: noon})
			}
		}
		clients := []string{"", "crm", "erp", "erp2", "\x00\xff"}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, c := range clients {
				if err := tx.PutLinks(ctx, c, append(slices.Clone(want[:1]), jobs.Link{EntityKey: jobs.EntityKey{Entity: "sale", Key: "A"}, Link: "1"})); err != nil {
					return err
				}
				if err := tx.DeleteLinks(ctx, c, []jobs.EntityKey{{Entity: "sale", Key: "A"}}); err != nil {
					return err
				}
			}
			if err := tx.DeleteLinks(ctx, "crm", []jobs.EntityKey{want[0].EntityKey}); err != nil {
				return err
			}
			return tx.PutLinks(ctx, "erp", want)
		})
		name := func(l jobs.Link) string { return fmt.Sprintf("%q %q", l.Entity, l.Key) }
		slices.SortFunc(want, func(a, b jobs.Link) int { return cmp.Compare(name(a), name(b)) })
		t.same("the links", walk(t, "links", func(l jobs.Link) jobs.EntityKey { return l.EntityKey }, name,
			func(ctx context.Context, tx jobs.Tx, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
				return tx.ListLinks(ctx, "erp", after, limit)
			}), want)
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			got, err := tx.LinkClients(ctx)
			slices.Sort(got)
			t.same("the clients with links", got, []string{"", "\x00\xff", "erp", "erp2"})
			return err
		})
	}},
	{"all groups of a flow are come by", func(t *engineTest) {
		var want []jobs.Group
		for i, n := range oddNames() {
			want = append(want, jobs.Group{Flow: "orders", Name: n, Sent: connectors.Stamp{Version: int64(i)}, SentKey: n})
		}
		t.putGroups(append(slices.Clone(want), jobs.Group{Flow: "products", Name: "another flow's"})...)
		name := func(g jobs.Group) string { return g.Name }
		t.same("the groups", walk(t, "groups", name, name, func(ctx context.Context, tx jobs.Tx, after string, limit int) ([]jobs.Group, error) {
			return tx.ListGroups(ctx, "orders", after, limit)
		}), want)
	}},
	{"all pins of all flows are come by", func(t *engineTest) {
		var want []jobs.Pin
		for i, key := range oddNames() {
			want = append(want, pin(rid(key), "create"), pin(jobs.RowID{Flow: "\x00\xff", Key: "A"}, fmt.Sprint("step ", i)), pin(rid(key), "confirm"))
		}
		t.putPins(want...)
		name := func(p jobs.Pin) string { return fmt.Sprintf("%q %q %q", p.Flow, p.RowID.Key, p.Operation) }
		slices.SortFunc(want, func(a, b jobs.Pin) int { return cmp.Compare(name(a), name(b)) })
		t.same("the pins", walk(t, "pins", func(p jobs.Pin) jobs.Pin { return jobs.Pin{RowID: p.RowID, Operation: p.Operation} }, name,
			func(ctx context.Context, tx jobs.Tx, after jobs.Pin, limit int) ([]jobs.Pin, error) {
				return tx.ListPins(ctx, after, limit)
			}), want)
	}},
	{"all histories are come by in the order in which they grew", func(t *engineTest) {
		list := func(after int64, limit int) (as []jobs.Attempt, last int64) {
			t.Helper()
			t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
				as, last, err = tx.ListAttempts(ctx, after, limit)
				return err
			})
			return as, last
		}
		if as, last := list(0, 10); len(as) != 0 || last != 0 {
			t.Errorf("at first there are %d, and the last is %d", len(as), last)
		}
		var want []jobs.Attempt
		for i, key := range oddNames() {
			want = append(want, jobs.Attempt{RowID: rid(key), Number: int64(-i), Generation: 1 << 40, At: noon.Add(time.Duration(-i) * time.Second),
				Class: connectors.Invalid, Code: "c", Message: "m"}, jobs.Attempt{RowID: jobs.RowID{Flow: key, Key: "A"}, Number: int64(i)})
		}
		for i := 0; i < len(want); i += 2 {
			t.addAttempts(want[i : i+2]...)
		}
		for _, limit := range []int{1000, 7, 1} {
			var got []jobs.Attempt
			after := int64(0)
			for {
				as, last := list(after, limit)
				if len(as) > limit {
					t.Fatalf("%d came of at most %d", len(as), limit)
				}
				if len(as) == 0 {
					if last != after {
						t.Errorf("behind the last it goes on behind %d, want %d", last, after)
					}
					break
				}
				if last <= after {
					t.Fatalf("it goes on behind %d after %d", last, after)
				}
				got, after = append(got, as...), last
			}
			t.same(fmt.Sprint("the attempts in steps of ", limit), got, want)
			if limit == 1 {
				more := jobs.Attempt{RowID: rid("A"), Number: 1}
				t.addAttempts(more)
				as, _ := list(after, limit)
				t.same("what came later", as, []jobs.Attempt{more})
			}
		}
	}},
	{"all requests are come by, due or not, of all clients", func(t *engineTest) {
		var want []jobs.Request
		for i, id := range oddNames() {
			want = append(want, jobs.Request{Client: fmt.Sprint("shop ", i%3), Flow: "orders", SourceID: id, Kind: jobs.Refresh, Key: id,
				At: noon.Add(time.Duration(-i) * time.Second), DueAt: noon.AddDate(i, 0, 0)})
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddRequests(ctx, want) })
		got := walk(t, "requests", func(r jobs.Request) int64 { return r.ID }, func(r jobs.Request) string { return fmt.Sprintf("%020d", r.ID) },
			func(ctx context.Context, tx jobs.Tx, after int64, limit int) ([]jobs.Request, error) {
				return tx.ListRequests(ctx, after, limit)
			})
		for i := 1; i < len(got); i++ {
			if got[i].ID <= got[i-1].ID {
				t.Errorf("request %d came behind %d", got[i].ID, got[i-1].ID)
			}
		}
		byID := func(a, b jobs.Request) int { return cmp.Compare(a.SourceID, b.SourceID) }
		slices.SortFunc(got, byID)
		t.same("the requests", withoutIDs(got), want)
	}},
	{"a walk passes over nothing that stays while things come and go", func(t *engineTest) {
		keys := numbered(60)
		link := func(key string) jobs.Link {
			return jobs.Link{EntityKey: jobs.EntityKey{Entity: "party", Key: key}, Link: `"` + key + `"`, SeenAt: noon}
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, k := range keys {
				if err := tx.PutLinks(ctx, "erp", []jobs.Link{link(k)}); err != nil {
					return err
				}
			}
			return nil
		})
		seen := map[string]int{}
		after := jobs.EntityKey{}
		for {
			var part []jobs.Link
			t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
				part, err = tx.ListLinks(ctx, "erp", after, 7)
				return err
			})
			if len(part) == 0 {
				break
			}
			for _, l := range part {
				seen[l.Key]++
			}
			after = part[len(part)-1].EntityKey
			// The very one that it goes on behind goes, and others come before and behind.
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				if err := tx.DeleteLinks(ctx, "erp", []jobs.EntityKey{after}); err != nil {
					return err
				}
				if len(after.Key) > len(keys[0]) {
					return nil
				}
				return tx.PutLinks(ctx, "erp", []jobs.Link{link("A-" + after.Key), link(after.Key + "-behind")})
			})
		}
		for _, k := range keys {
			if seen[k] != 1 {
				t.Errorf("%s was come by %d times", k, seen[k])
			}
		}
	}},
}
