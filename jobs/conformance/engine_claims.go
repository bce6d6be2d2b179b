package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var claimSentences = []sentence{
	{"a claim comes back as it was added, per client and for all", func(t *engineTest) {
		a := claimOf("c-1", "erp", 2)
		b := claimOf("c-2", "crm", 0)
		for _, odd := range oddTexts() {
			b.Jobs = append(b.Jobs, jobs.ClaimedJob{RowID: jobs.RowID{Flow: odd.text, Key: odd.text}, Gone: true})
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.AddClaim(ctx, a); err != nil {
				return err
			}
			return tx.AddClaim(ctx, b)
		})
		t.same("the client's claims", t.claims("erp"), []jobs.Claim{a})
		t.same("all claims", t.claims(""), []jobs.Claim{a, b})
		t.same("another client's claims", t.claims("nobody"), []jobs.Claim(nil))
	}},
	{"a claim names thousands of jobs", func(t *engineTest) {
		want := claimOf("c-1", "erp", 5000)
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddClaim(ctx, want) })
		t.same("the claim", t.claims("erp"), []jobs.Claim{want})
	}},
	{"the same claim cannot be added twice", func(t *engineTest) {
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddClaim(ctx, claimOf("c-1", "erp", 1)) })
		err := t.e.Update(t.Context(), func(tx jobs.Tx) error { return tx.AddClaim(t.Context(), claimOf("c-1", "crm", 2)) })
		if err == nil {
			t.Error("a second claim of the same id was accepted")
		}
	}},
	{"a claim is reduced by its owner alone and goes with its last job", func(t *engineTest) {
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddClaim(ctx, claimOf("c-1", "erp", 5)) })
		reduce := func(id, owner string, n int) (ok bool) {
			t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
				ok, err = tx.ReduceClaim(ctx, id, owner, n)
				return err
			})
			return ok
		}
		for _, step := range []struct {
			name, id, owner string
			n               int
			ok              bool
			open            int // jobs left; 0 for no claim
		}{
			{"another owner", "c-1", "them", 1, false, 5},
			{"another claim", "c-9", "me", 1, false, 5},
			{"nothing off", "c-1", "me", 0, true, 5},
			{"two off", "c-1", "me", 2, true, 3},
			{"the rest off", "c-1", "me", 3, true, 0},
			{"no claim any more", "c-1", "me", 1, false, 0},
		} {
			if ok := reduce(step.id, step.owner, step.n); ok != step.ok {
				t.Errorf("%s: reported %v, want %v", step.name, ok, step.ok)
			}
			open := 0
			for _, c := range t.claims("erp") {
				open = c.Open
			}
			if open != step.open {
				t.Errorf("%s: %d jobs are open, want %d", step.name, open, step.open)
			}
		}
	}},
	{"settlers of one claim at once take it down to its end", func(t *engineTest) {
		const workers, each = 4, 5
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.AddClaim(ctx, claimOf("c-1", "erp", workers*each))
		})
		var all sync.WaitGroup
		var taken atomic.Int64
		for range workers {
			all.Go(func() {
				for range each {
					var ok bool
					t.fail("reduce the claim", t.e.Update(t.Context(), func(tx jobs.Tx) (err error) {
						ok, err = tx.ReduceClaim(t.Context(), "c-1", "me", 1)
						return err
					}))
					if ok {
						taken.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != workers*each {
			t.Errorf("%d of %d jobs were taken off", n, workers*each)
		}
		t.same("the claims left", t.claims(""), []jobs.Claim(nil))
	}},
	{"a link keeps the time it was first known while it stays the same", func(t *engineTest) {
		k := jobs.EntityKey{Entity: "party", Key: "VC-1\x00"}
		put := func(link string, at time.Time) {
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				return tx.PutLinks(ctx, "erp", []jobs.Link{{EntityKey: k, Link: link, SeenAt: at}})
			})
		}
		put(`12`, noon)
		put(`12`, noon.Add(time.Hour))
		t.same("the link seen again", t.links("erp", k), []jobs.Link{{EntityKey: k, Link: `12`, SeenAt: noon}})
		put(`"gid-7"`, noon.Add(2*time.Hour))
		t.same("the link that changed", t.links("erp", k), []jobs.Link{{EntityKey: k, Link: `"gid-7"`, SeenAt: noon.Add(2 * time.Hour)}})
	}},
	{"links are a client's, an entity's and a key's", func(t *engineTest) {
		var keys []jobs.EntityKey
		for _, e := range []string{"party", "product"} {
			for _, k := range []string{"1", "2"} {
				keys = append(keys, jobs.EntityKey{Entity: e, Key: k})
			}
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, client := range []string{"erp", "crm"} {
				ls := make([]jobs.Link, len(keys))
				for i, k := range keys {
					ls[i] = jobs.Link{EntityKey: k, Link: fmt.Sprintf("%q", client+k.Entity+k.Key), SeenAt: noon}
				}
				if err := tx.PutLinks(ctx, client, append(ls, ls[0])); err != nil {
					return err
				}
			}
			return tx.DeleteLinks(ctx, "erp", []jobs.EntityKey{keys[1], keys[2], {Entity: "party", Key: "9"}})
		})
		t.same("the links left", t.links("erp", append(keys, keys[0])...), []jobs.Link{
			{EntityKey: keys[0], Link: `"erpparty1"`, SeenAt: noon}, {EntityKey: keys[3], Link: `"erpproduct2"`, SeenAt: noon}})
		if n := len(t.links("crm", keys...)); n != 4 {
			t.Errorf("the other client has %d links, want its 4", n)
		}
	}},
	{"a row's attempts come newest first", func(t *engineTest) {
		var want []jobs.Attempt
		for i := range 5 {
			a := jobs.Attempt{RowID: rid("A"), Number: int64(i), Generation: 1 << 40, At: noon.Add(time.Duration(i) * time.Second),
				Class: connectors.Transient, Code: "http_503", Message: fmt.Sprint("attempt ", i)}
			want = append(want, a)
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				return tx.AddAttempts(ctx, []jobs.Attempt{{RowID: rid("B"), Number: 77}, a, {RowID: jobs.RowID{Flow: "products", Key: "A"}}})
			})
		}
		slices.Reverse(want)
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			got, err := tx.Attempts(ctx, rid("A"), 3)
			t.same("the attempts", got, want[:3])
			return err
		})
	}},
	{"a request is stored once until it is answered", func(t *engineTest) {
		r := jobs.Request{Client: "shop", Flow: "orders", SourceID: "gid\x001", Kind: jobs.Refresh, Key: "A", At: noon, DueAt: noon}
		again, remap := r, r
		again.At, again.DueAt = noon.Add(time.Hour), noon.Add(-time.Hour)
		remap.Kind = jobs.Remap
		for range 2 {
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				return tx.AddRequests(ctx, []jobs.Request{r, again, remap})
			})
		}
		first := t.requests(noon, 10)
		t.same("the requests", withoutIDs(first), []jobs.Request{r, remap})
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.DeleteRequests(ctx, []int64{first[0].ID, first[1].ID, 1 << 50})
		})
		t.same("after they were answered", t.requests(noon, 10), []jobs.Request(nil))
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddRequests(ctx, []jobs.Request{r}) })
		second := t.requests(noon, 10)
		if len(second) != 1 || second[0].ID <= first[1].ID {
			t.Errorf("asked anew it is %v, want one with an id that was never used", second)
		}
	}},
	{"requests are due by their time and come oldest first", func(t *engineTest) {
		var rs []jobs.Request
		for i, at := range []time.Duration{3, 1, 2} {
			rs = append(rs, jobs.Request{Client: "shop", Flow: "orders", SourceID: fmt.Sprint(i), Kind: jobs.Refresh,
				At: noon.Add(at * time.Second), DueAt: noon.Add(-at * time.Second)})
		}
		rs = append(rs, jobs.Request{Client: "shop", Flow: "orders", SourceID: "later", Kind: jobs.Refresh, At: noon, DueAt: noon.Add(time.Microsecond)},
			jobs.Request{Client: "erp", Flow: "orders", SourceID: "another's", Kind: jobs.Refresh, At: noon, DueAt: noon})
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddRequests(ctx, rs) })
		got := t.requests(noon, 2)
		t.same("the first two", withoutIDs(got), []jobs.Request{rs[1], rs[2]})
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.PostponeRequest(ctx, got[0].ID, noon.Add(time.Hour))
		})
		t.same("after the first was put off", withoutIDs(t.requests(noon, 2)), []jobs.Request{rs[2], rs[0]})
	}},
	{"who is asked for something is told of many at once", func(t *engineTest) {
		ask := func(client, id string, due time.Time) jobs.Request {
			return jobs.Request{Client: client, Flow: "orders", SourceID: id, Kind: jobs.Refresh, At: noon.Add(-time.Hour), DueAt: due}
		}
		odd := "an \x1aodd\xff one"
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.AddRequests(ctx, []jobs.Request{ask("shop", "later", noon.Add(time.Microsecond)), ask("shop", "due", noon), ask("shop", "too", noon),
				ask("erp", "later too", noon.Add(time.Microsecond)), ask(odd, "past", noon.Add(-time.Hour)), ask("unasked about", "due too", noon)})
		})
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			got, err := tx.Asked(ctx, []string{"nobody", "erp", odd, "shop"}, noon)
			slices.Sort(got)
			t.same("those who are asked", got, []string{odd, "shop"})
			if none, err := tx.Asked(ctx, nil, noon); len(none) != 0 || err != nil {
				t.Errorf("of nobody it is %v, %v", none, err)
			}
			return err
		})
	}},
}

func claimOf(id, client string, n int) jobs.Claim {
	c := jobs.Claim{ID: id, Client: client, Owner: "me", At: noon, Open: n}
	for i := range n {
		c.Jobs = append(c.Jobs, jobs.ClaimedJob{RowID: rid(fmt.Sprint("K-", i)), Generation: 1 << 62, Attempt: int64(i), Hash: []byte{0, byte(i)}, Gone: i%2 == 1})
	}
	return c
}

func (t *engineTest) claims(client string) (out []jobs.Claim) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Claims(ctx, client)
		return err
	})
	slices.SortFunc(out, func(a, b jobs.Claim) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	return out
}

func (t *engineTest) links(client string, keys ...jobs.EntityKey) (out []jobs.Link) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Links(ctx, client, keys)
		return err
	})
	slices.SortFunc(out, func(a, b jobs.Link) int {
		return slices.Compare([]byte(a.Entity+"/"+a.Key), []byte(b.Entity+"/"+b.Key))
	})
	return out
}

func (t *engineTest) requests(now time.Time, limit int) (out []jobs.Request) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Requests(ctx, "shop", now, limit)
		return err
	})
	return out
}

func withoutIDs(rs []jobs.Request) []jobs.Request {
	out := slices.Clone(rs)
	for i := range out {
		out[i].ID = 0
	}
	return out
}
