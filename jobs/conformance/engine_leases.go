package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"syncd/jobs"
)

// anHour is longer than a test lasts.
const anHour = time.Hour

var erpLane = jobs.LaneID{Client: "erp"}

var leaseSentences = []sentence{
	{"a lane that nobody has is taken, by the engine's clock", func(t *engineTest) {
		t.same("the leases at first", t.leases(), map[jobs.LaneID]jobs.Lease(nil))
		if !t.take(erpLane, "d-1\x00", "t-1\xff", "", anHour) {
			t.Fatal("it was not given")
		}
		l := t.leases()[erpLane]
		if l.LaneID != erpLane || l.Owner != "d-1\x00" || l.Token != "t-1\xff" || l.Lapsed {
			t.Errorf("the lease is %+v", l)
		}
		t.about("it was taken", l.Since, t.e.Now())
		t.about("it lasts", l.Until, t.e.Now().Add(anHour))
	}},
	{"a lane is given to who knows the token of its lease, and to nobody else", func(t *engineTest) {
		for _, step := range []struct {
			token, was string
			ok         bool
			holds      string
		}{
			{"t-1", "t-0", false, ""}, {"t-1", "", true, "t-1"}, {"t-2", "", false, "t-1"}, {"t-2", "t-0", false, "t-1"}, {"t-2", "t-1", true, "t-2"}, {"t-3", "t-1", false, "t-2"},
		} {
			if ok := t.take(erpLane, "owner of "+step.token, step.token, step.was, anHour); ok != step.ok {
				t.Errorf("%s in the place of %q: given is %v, want %v", step.token, step.was, ok, step.ok)
			}
			l := t.leases()[erpLane]
			if l.Token != step.holds || step.holds != "" && l.Owner != "owner of "+step.holds {
				t.Errorf("%s in the place of %q: the lease is %+v, want that of %s", step.token, step.was, l, step.holds)
			}
		}
	}},
	{"the shards of a client are lanes of their own", func(t *engineTest) {
		want := map[jobs.LaneID]string{{Client: "erp"}: "t-1", {Client: "erp", Shard: 1}: "t-2", {Client: "crm", Shard: 1}: "t-3"}
		for lane, token := range want {
			if !t.take(lane, "d-1", token, "", anHour) {
				t.Errorf("%s was not given", lane)
			}
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			// Each part of the name has to fit.
			for _, f := range []jobs.Fence{{LaneID: jobs.LaneID{Client: "crm"}, Token: "t-3"}, {LaneID: erpLane, Token: "t-2"}, {LaneID: erpLane, Token: ""}} {
				if err := tx.FreeLease(ctx, f); err != nil {
					return err
				}
			}
			return tx.FreeLease(ctx, jobs.Fence{LaneID: jobs.LaneID{Client: "erp", Shard: 1}, Token: "t-2"})
		})
		want[jobs.LaneID{Client: "erp", Shard: 1}] = ""
		got := map[jobs.LaneID]string{}
		for lane, l := range t.leases() {
			got[lane] = l.Token
		}
		t.same("the tokens", got, want)
	}},
	{"a lease given back is nobody's, and taken again", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1", "", anHour)
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.FreeLease(ctx, jobs.Fence{LaneID: erpLane, Token: "t-1"})
		})
		if l, ok := t.leases()[erpLane]; !ok || l.Owner != "" || l.Token != "" {
			t.Errorf("the lease is %+v (there: %v), want one of nobody", l, ok)
		}
		if t.take(erpLane, "d-1", "t-2", "t-1", anHour) {
			t.Error("it was given in the place of a token that was given back")
		}
		if !t.take(erpLane, "d-2", "t-2", "", anHour) {
			t.Error("it was not given anew")
		}
	}},
	{"a lease that is renewed lasts, one that is not lapses and still has its token", func(t *engineTest) {
		other := jobs.LaneID{Client: "crm"}
		t.take(erpLane, "d-1", "t-1", "", time.Microsecond)
		t.take(other, "d-1", "t-2", "", time.Microsecond)
		t.pass(t.leases()[erpLane].Until, t.leases()[other].Until)
		if ls := t.leases(); !ls[erpLane].Lapsed || !ls[other].Lapsed {
			t.Errorf("neither was renewed, and they are %+v", ls)
		}
		var lost []string
		t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
			lost, err = tx.RenewLeases(ctx, []string{"t-1", "t-9\x00", "", "t-9\x00", "t-1"}, anHour)
			return err
		})
		slices.Sort(lost)
		t.same("what is lost", lost, []string{"", "t-9\x00"})
		ls := t.leases()
		if l := ls[erpLane]; l.Lapsed || l.Token != "t-1" || l.Owner != "d-1" {
			t.Errorf("the renewed one is %+v", l)
		}
		t.about("it lasts", ls[erpLane].Until, t.e.Now().Add(anHour))
		if l := ls[other]; !l.Lapsed || l.Token != "t-2" {
			t.Errorf("the other one is %+v", l)
		}
	}},
	{"a lease that was renewed since it was seen is not taken", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1", "", time.Microsecond)
		seen := t.leases()[erpLane]
		t.pass(seen.Until)
		takeSeen := func(token string, until time.Time) (ok bool) {
			t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
				ok, err = tx.TakeLease(ctx, jobs.Lease{LaneID: erpLane, Owner: "d-2", Token: token, Until: until}, "t-1", anHour)
				return err
			})
			return ok
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			_, err := tx.RenewLeases(ctx, []string{"t-1"}, anHour)
			return err
		})
		if takeSeen("t-2", seen.Until) {
			t.Error("a lease was taken that its owner had renewed")
		}
		if l := t.leases()[erpLane]; l.Token != "t-1" || l.Owner != "d-1" {
			t.Errorf("it is %+v", l)
		}
		if !takeSeen("t-3", t.leases()[erpLane].Until) {
			t.Error("a lease was not taken that is as it was seen")
		}
	}},
	{"a lease that was given back or taken is lost to who had it", func(t *engineTest) {
		other := jobs.LaneID{Client: "crm"}
		t.take(erpLane, "d-1", "t-1", "", anHour)
		t.take(other, "d-1", "t-2", "", anHour)
		t.take(erpLane, "d-2", "t-3", "t-1", anHour)
		var lost []string
		t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
			if err := tx.FreeLease(ctx, jobs.Fence{LaneID: other, Token: "t-2"}); err != nil {
				return err
			}
			lost, err = tx.RenewLeases(ctx, []string{"t-1", "", "t-2"}, anHour)
			return err
		})
		slices.Sort(lost)
		t.same("what is lost", lost, []string{"", "t-1", "t-2"})
		if l := t.leases()[other]; l.Token != "" {
			t.Errorf("the one given back is %+v", l)
		}
	}},
	{"of many that take one lane at once one has it", func(t *engineTest) {
		for round, was := range []string{"", "round 0"} {
			var given atomic.Int64
			var all sync.WaitGroup
			var winner atomic.Value
			for n := range 8 {
				token := fmt.Sprint("t-", round, "-", n)
				all.Go(func() {
					var ok bool
					err := t.e.Update(t.Context(), func(tx jobs.Tx) (err error) {
						ok, err = tx.TakeLease(t.Context(), jobs.Lease{LaneID: erpLane, Owner: "d", Token: token}, was, anHour)
						return err
					})
					t.fail("take", err)
					if err == nil && ok {
						given.Add(1)
						winner.Store(token)
					}
				})
			}
			all.Wait()
			if given.Load() != 1 {
				t.Fatalf("round %d: it was given %d times", round, given.Load())
			}
			held := t.leases()[erpLane].Token
			if held != winner.Load() {
				t.Errorf("round %d: it was given to %v, and %s has it", round, winner.Load(), held)
			}
			if !t.take(erpLane, "d", "round 0", held, anHour) {
				t.Error("the lane was not handed over")
			}
		}
	}},
	{"what is written under a lease that is not held is undone", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1", "", anHour)
		free := jobs.LaneID{Client: "crm"}
		t.take(free, "d-1", "t-2", "", anHour)
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.FreeLease(ctx, jobs.Fence{LaneID: free, Token: "t-2"})
		})
		for name, f := range map[string]jobs.Fence{
			"another token": {LaneID: erpLane, Token: "t-9"}, "no token": {LaneID: erpLane}, "another shard": {LaneID: jobs.LaneID{Client: "erp", Shard: 1}, Token: "t-1"},
			"a lane that nobody ever had": {LaneID: jobs.LaneID{Client: "shop"}, Token: "t-1"}, "no token for a lane that nobody ever had": {LaneID: jobs.LaneID{Client: "shop"}},
			"a lease given back": {LaneID: free, Token: "t-2"}, "no token for a lease given back": {LaneID: free},
		} {
			// Also when what it did wrong is not looked at.
			if err := t.fenced(f, "A"); !errors.Is(err, jobs.ErrFenced) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		t.same("what was written", t.get(rid("A")), map[jobs.RowID]jobs.Row{})
	}},
	{"what is written under a lease stays, also when that has lapsed and nobody took it", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1\x00", "", time.Microsecond)
		t.pass(t.leases()[erpLane].Until)
		if err := t.fenced(jobs.Fence{LaneID: erpLane, Token: "t-1\x00"}, "A"); err != nil {
			t.Error(err)
		}
		t.take(erpLane, "d-2", "t-2", "t-1\x00", anHour)
		if err := t.fenced(jobs.Fence{LaneID: erpLane, Token: "t-1\x00"}, "B"); !errors.Is(err, jobs.ErrFenced) {
			t.Errorf("after it was taken the error is %v", err)
		}
		if got := t.get(rid("A"), rid("B")); len(got) != 1 {
			t.Errorf("%d rows were written, want 1", len(got))
		}
	}},
	{"several lanes' leases may stand behind one transaction", func(t *engineTest) {
		other := jobs.LaneID{Client: "crm", Shard: 3}
		t.take(erpLane, "d-1", "t-1", "", anHour)
		t.take(other, "d-1", "t-2", "", anHour)
		both := func(a, b string) error {
			return t.e.Update(t.Context(), func(tx jobs.Tx) error {
				if err := tx.Fence(t.Context(), jobs.Fence{LaneID: erpLane, Token: a}); err != nil {
					return err
				}
				if err := tx.Fence(t.Context(), jobs.Fence{LaneID: other, Token: b}); err != nil {
					return err
				}
				return tx.PutRows(t.Context(), []jobs.Row{plain("A")})
			})
		}
		t.fail("under both", both("t-1", "t-2"))
		for _, c := range [][2]string{{"t-1", "t-1"}, {"t-2", "t-2"}} {
			if err := both(c[0], c[1]); !errors.Is(err, jobs.ErrFenced) {
				t.Errorf("under %v the error is %v", c, err)
			}
		}
	}},
	{"a lane is not taken while its holder writes", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1", "", anHour)
		taken := make(chan error, 1)
		var ended atomic.Bool
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.Fence(ctx, jobs.Fence{LaneID: erpLane, Token: "t-1"}); err != nil {
				return err
			}
			if err := tx.PutRows(ctx, []jobs.Row{plain("A")}); err != nil {
				return err
			}
			go func() {
				ok := false
				err := t.e.Update(t.Context(), func(tx jobs.Tx) (err error) {
					ok, err = tx.TakeLease(t.Context(), jobs.Lease{LaneID: erpLane, Owner: "d-2", Token: "t-2"}, "t-1", anHour)
					return err
				})
				switch {
				case err == nil && !ok:
					err = errors.New("it was not given")
				case err == nil && !ended.Load():
					err = errors.New("it was given while its holder wrote")
				}
				taken <- err
			}()
			select {
			case err := <-taken:
				taken <- err
			case <-time.After(200 * time.Millisecond):
			}
			ended.Store(true)
			return nil
		})
		if err := <-taken; err != nil && !errors.Is(err, jobs.ErrBusy) {
			t.Error(err)
		}
		if len(t.get(rid("A"))) != 1 {
			t.Error("what the holder wrote is not there")
		}
	}},
	{"no owner of a lane writes after the next one has it", func(t *engineTest) {
		// Each taker writes once under its lease, and once more after the next has taken it.
		t.take(erpLane, "d", "t-0", "", anHour)
		var all sync.WaitGroup
		token := make(chan string, 1)
		token <- "t-0"
		for n := range 5 {
			all.Go(func() {
				for round := range 4 {
					was := <-token
					mine := fmt.Sprint("t-", n, "-", round)
					var ok bool
					t.fail("take", t.e.Update(t.Context(), func(tx jobs.Tx) (err error) {
						ok, err = tx.TakeLease(t.Context(), jobs.Lease{LaneID: erpLane, Owner: "d", Token: mine}, was, anHour)
						return err
					}))
					if !ok {
						t.Errorf("the lane of %s was not given", was)
					}
					if err := t.fenced(jobs.Fence{LaneID: erpLane, Token: mine}, mine); err != nil {
						t.Errorf("the holder cannot write: %v", err)
					}
					token <- mine
					if err := t.fenced(jobs.Fence{LaneID: erpLane, Token: was}, was+" late"); !errors.Is(err, jobs.ErrFenced) {
						t.Errorf("one that lost the lane got %v", err)
					}
				}
			})
		}
		all.Wait()
	}},
	{"a holder may renew its lease within what it writes", func(t *engineTest) {
		t.take(erpLane, "d-1", "t-1", "", anHour)
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.Fence(ctx, jobs.Fence{LaneID: erpLane, Token: "t-1"}); err != nil {
				return err
			}
			if err := tx.PutRows(ctx, []jobs.Row{plain("A")}); err != nil {
				return err
			}
			lost, err := tx.RenewLeases(ctx, []string{"t-1"}, 2*anHour)
			if len(lost) > 0 {
				t.Errorf("lost is %v", lost)
			}
			return err
		})
		t.about("it lasts", t.leases()[erpLane].Until, t.e.Now().Add(2*anHour))
	}},
	{"daemons come back as they were put, and go", func(t *engineTest) {
		a := jobs.Daemon{Owner: "d-1\x00", Since: noon, Leaving: true,
			Lanes: []jobs.LaneID{{Client: "erp\xff", Shard: 2}, {Client: "erp\xff"}, {Client: "crm"}}}
		if err := json.Unmarshal([]byte(`{"host": "h-1", "boot_id": "b-2", "pid_space": "pid:[4026531836]", "pid": 4294967297, "started": 9007199254740993}`), &a.Process); err != nil {
			t.Fatal(err)
		}
		b := jobs.Daemon{Owner: "d-2"}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			told := a
			told.Until, told.Lapsed = noon, true // not theirs to say
			if err := tx.PutDaemon(ctx, told, anHour); err != nil {
				return err
			}
			return tx.PutDaemon(ctx, b, time.Microsecond)
		})
		ds := t.daemons()
		t.about("the first counts as living", ds[a.Owner].Until, t.e.Now().Add(anHour))
		t.pass(ds[b.Owner].Until)
		ds = t.daemons()
		a.Until, b.Until, b.Lapsed = ds[a.Owner].Until, ds[b.Owner].Until, true
		t.same("the daemons", ds, map[string]jobs.Daemon{a.Owner: a, b.Owner: b})
		// It is replaced whole, and shows itself again.
		a = jobs.Daemon{Owner: a.Owner, Since: noon.Add(time.Second), Lanes: []jobs.LaneID{{Client: "shop"}}}
		b.Since, b.Lapsed = noon, false
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PutDaemon(ctx, a, anHour); err != nil {
				return err
			}
			return tx.PutDaemon(ctx, b, anHour)
		})
		ds = t.daemons()
		a.Until, b.Until = ds[a.Owner].Until, ds[b.Owner].Until
		t.same("the daemons that showed themselves again", ds, map[string]jobs.Daemon{a.Owner: a, b.Owner: b})
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.DeleteDaemon(ctx, "d-9"); err != nil {
				return err
			}
			return tx.DeleteDaemon(ctx, a.Owner)
		})
		t.same("the daemons after one went", t.daemons(), map[string]jobs.Daemon{b.Owner: b})
	}},
	{"a claim tells the shard it was made for", func(t *engineTest) {
		var want []jobs.Claim
		for i, shard := range []int{0, 1, 63} {
			c := claimOf(fmt.Sprint("c-", i), "erp", 1)
			c.Shard = shard
			want = append(want, c)
			t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.AddClaim(ctx, c) })
		}
		t.same("the claims", t.claims("erp"), want)
	}},
}

// fenced writes a row under a lease, without looking at what the statements say.
func (t *engineTest) fenced(f jobs.Fence, key string) error {
	return t.e.Update(t.Context(), func(tx jobs.Tx) error {
		_ = tx.Fence(t.Context(), f)
		_ = tx.PutRows(t.Context(), []jobs.Row{plain(key)})
		return nil
	})
}

func (t *engineTest) take(lane jobs.LaneID, owner, token, was string, d time.Duration) (ok bool) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
		ok, err = tx.TakeLease(ctx, jobs.Lease{LaneID: lane, Owner: owner, Token: token}, was, d)
		return err
	})
	return ok
}

func (t *engineTest) leases() map[jobs.LaneID]jobs.Lease {
	t.Helper()
	out := map[jobs.LaneID]jobs.Lease{}
	t.view(func(ctx context.Context, tx jobs.Tx) error {
		ls, err := tx.Leases(ctx)
		for _, l := range ls {
			if _, twice := out[l.LaneID]; twice {
				t.Errorf("the lease of %s came twice", l.LaneID)
			}
			out[l.LaneID] = l
		}
		return err
	})
	return out
}

func (t *engineTest) daemons() map[string]jobs.Daemon {
	t.Helper()
	out := map[string]jobs.Daemon{}
	t.view(func(ctx context.Context, tx jobs.Tx) error {
		ds, err := tx.Daemons(ctx)
		for _, d := range ds {
			if _, twice := out[d.Owner]; twice {
				t.Errorf("daemon %q came twice", d.Owner)
			}
			out[d.Owner] = d
		}
		return err
	})
	return out
}

// about reports a moment that is not near another: two clocks may be behind them.
func (t *engineTest) about(what string, got, want time.Time) {
	t.Helper()
	if got.Sub(want).Abs() > 30*time.Second {
		t.Errorf("%s at or until %v, want about %v", what, got, want)
	}
}

// pass returns when moments are certainly over, by any clock of the engine.
func (t *engineTest) pass(ats ...time.Time) {
	t.Helper()
	last := slices.MaxFunc(ats, func(a, b time.Time) int { return cmp.Compare(a.UnixMicro(), b.UnixMicro()) }).Add(50 * time.Millisecond)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !t.e.Now().After(last) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the engine's clock does not go on")
		}
	}
}
