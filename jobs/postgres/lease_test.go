package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/postgres"
)

var exclusive = postgres.Options{Exclusive: true, MaxConns: 2}

var erp = jobs.LaneID{Client: "erp"}

// take takes the lane erp for an hour, in the place of the lease with the token was.
func take(t *testing.T, e *postgres.Engine, token, was string) {
	t.Helper()
	if ok, err := tryTake(t, e, token, was); err != nil || !ok {
		t.Fatalf("the lane was not given (%v)", err)
	}
}

func tryTake(t *testing.T, e *postgres.Engine, token, was string) (ok bool, err error) {
	t.Helper()
	err = e.Update(jobs.Urgent(t.Context()), func(tx jobs.Tx) (err error) {
		ok, err = tx.TakeLease(t.Context(), jobs.Lease{LaneID: erp, Owner: "the one with " + token, Token: token}, was, time.Hour)
		return err
	})
	return ok, err
}

// renew renews a lease and reports whether it is still there.
func renew(t *testing.T, e *postgres.Engine, token string) bool {
	t.Helper()
	var lost []string
	if err := e.Update(jobs.Urgent(t.Context()), func(tx jobs.Tx) (err error) {
		lost, err = tx.RenewLeases(t.Context(), []string{token}, time.Hour)
		return err
	}); err != nil {
		t.Fatalf("renew: %v", err)
	}
	return len(lost) == 0
}

// under runs fn in a transaction of the holder of a lease.
func under(t *testing.T, e *postgres.Engine, token string, fn func(tx jobs.Tx) error) error {
	t.Helper()
	return e.Update(t.Context(), func(tx jobs.Tx) error {
		if err := tx.Fence(t.Context(), jobs.Fence{LaneID: erp, Token: token}); err != nil {
			return err
		}
		return fn(tx)
	})
}

func TestDaemonsShareAJournalAndOneThatLostItsLaneWritesNothing(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	for _, pooler := range []bool{false, true} {
		o := exclusive
		o.Pooler = pooler
		zombie, successor := opened(t, dsn, o), opened(t, dsn, o)
		was := map[bool]string{true: "second"}[pooler]
		take(t, zombie, "first", was)
		write := func(e *postgres.Engine, token, key string) error {
			return under(t, e, token, func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row(key)}) })
		}
		if err := write(zombie, "first", "A"); err != nil {
			t.Fatal(err)
		}
		do(t, session(t, dsn), `UPDATE syncd.leases SET expires_at = clock_timestamp() - interval '1 s'`)
		// Nobody has taken it: the holder may go on, and renew it.
		if err := write(zombie, "first", "A"); err != nil {
			t.Errorf("write under a lease that lapsed and that nobody took: %v", err)
		}
		if !renew(t, zombie, "first") {
			t.Error("a lease that lapsed and that nobody took is lost")
		}
		take(t, successor, "second", "first")
		before := ask[int](t, session(t, dsn), `SELECT count(*) FROM syncd.jobs`)
		for what, fn := range map[string]func(tx jobs.Tx) error{
			"writes": func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("too late")}) },
			"writes and does not look at errors": func(tx jobs.Tx) error {
				_ = tx.PutRows(t.Context(), []jobs.Row{row("too late")})
				return nil
			},
			"adds an errand":  func(tx jobs.Tx) error { _, err := tx.AddRun(t.Context(), jobs.Run{}); return err },
			"only looks":      func(tx jobs.Tx) error { _, err := tx.Due(t.Context(), erp, zombie.Now(), 10); return err },
			"does nothing":    func(jobs.Tx) error { return nil },
			"fences too late": func(jobs.Tx) error { return nil },
		} {
			err := under(t, zombie, "first", fn)
			if what == "fences too late" {
				err = zombie.Update(t.Context(), func(tx jobs.Tx) error {
					if err := tx.PutRows(t.Context(), []jobs.Row{row("too late")}); err != nil {
						return err
					}
					return tx.Fence(t.Context(), jobs.Fence{LaneID: erp, Token: "first"})
				})
			}
			if !errors.Is(err, jobs.ErrFenced) {
				t.Errorf("one that lost the lane %s, and the error is %v", what, err)
			}
		}
		if n := ask[int](t, session(t, dsn), `SELECT count(*) FROM syncd.jobs`); n != before {
			t.Errorf("one that lost the lane wrote %d rows", n-before)
		}
		if renew(t, zombie, "first") {
			t.Error("one that lost the lane renewed its lease")
		}
		if err := write(successor, "second", "B"); err != nil {
			t.Error(err)
		}
		put(t, zombie, "without a lease")
	}
}

// A transaction under a lease holds that against a takeover until it ends, a renewal
// passes by both, and so do others under the lease.
func TestATakeoverWaitsForWhatIsUnderWayAndARenewalDoesNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first func(tx jobs.Tx) error
		ends  bool // the transaction ends while the takeover waits
	}{
		{"it ends soon", func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("A")}) }, true},
		{"it does not end", func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("A")}) }, false},
		{"its first to write returns rows", func(tx jobs.Tx) error { _, err := tx.AddRun(t.Context(), jobs.Run{}); return err }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := made(t)
			holder, taker := opened(t, dsn, exclusive), opened(t, dsn, exclusive)
			take(t, holder, "first", "")
			watcher := session(t, dsn)
			took := make(chan error, 1)
			start := time.Now()
			err := under(t, holder, "first", func(tx jobs.Tx) error {
				if err := c.first(tx); err != nil {
					return err
				}
				go func() {
					ok, err := tryTake(t, taker, "second", "first")
					if err == nil && !ok {
						err = errors.New("it was not given")
					}
					took <- err
				}()
				until(t, "the takeover waits or is done", func() bool {
					return len(took) > 0 || ask[int](t, watcher, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0
				})
				renewed := time.Now()
				if !renew(t, holder, "first") {
					t.Error("the lease is lost to its holder")
				}
				if err := under(t, holder, "first", func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("B")}) }); err != nil {
					t.Errorf("another one under the lease: %v", err)
				}
				if d := time.Since(renewed); d > 1500*time.Millisecond || len(took) > 0 {
					t.Errorf("the renewal took %v; the takeover ended before: %v", d, len(took) > 0)
				}
				if !c.ends {
					err := <-took
					if d := time.Since(start); !errors.Is(err, jobs.ErrBusy) || d > 30*time.Second {
						t.Errorf("the takeover got %v after %v", err, d)
					}
					took <- nil
				}
				return nil
			})
			if err != nil {
				t.Errorf("the transaction under the lease: %v", err)
			}
			if err := <-took; err != nil {
				t.Errorf("take over: %v", err)
			}
			if lost := !renew(t, holder, "first"); lost != c.ends {
				t.Errorf("the lease is lost to its holder: %v, want %v", lost, c.ends)
			}
		})
	}
}

func TestALeaseGivenBackIsTakenOnlyWhenNothingIsUnderWay(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	holder, taker := opened(t, dsn, exclusive), opened(t, dsn, exclusive)
	take(t, holder, "first", "")
	if err := under(t, holder, "first", func(tx jobs.Tx) error {
		if err := tx.PutRows(t.Context(), []jobs.Row{row("A")}); err != nil {
			return err
		}
		if err := holder.Update(t.Context(), func(tx jobs.Tx) error {
			return tx.FreeLease(t.Context(), jobs.Fence{LaneID: erp, Token: "first"})
		}); err != nil {
			return err
		}
		if ok, err := tryTake(t, taker, "second", ""); ok || !errors.Is(err, jobs.ErrBusy) {
			t.Errorf("while a transaction under the old lease is open it was given: %v (%v)", ok, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	take(t, taker, "second", "")
}

func TestWhatIsUrgentWaitsForNoConnection(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	o := exclusive
	o.MaxConns = 1
	e := opened(t, dsn, o)
	if err := e.Update(t.Context(), func(jobs.Tx) error {
		take(t, e, "first", "")
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for what, run := range map[string]func(context.Context, func(jobs.Tx) error) error{"Update": e.Update, "View": e.View} {
			if err := run(short, func(jobs.Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the one connection for ordinary work is in use, and the error is %v", what, err)
			}
		}
		return e.View(jobs.Urgent(t.Context()), func(tx jobs.Tx) error {
			ls, err := tx.Leases(t.Context())
			if len(ls) != 1 {
				t.Errorf("the leases are %v", ls)
			}
			return err
		})
	}); err != nil {
		t.Error(err)
	}
	put(t, e, "afterwards")
}

func TestATakeoverThatIsBusyIsNotRunAgain(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, exclusive)
	take(t, e, "first", "")
	s := session(t, dsn)
	do(t, s, `BEGIN`)
	do(t, s, `SELECT FROM syncd.leases FOR KEY SHARE`)
	runs := 0
	err := e.Update(t.Context(), func(tx jobs.Tx) error {
		runs++
		// Also when what it came to is not looked at.
		_, _ = tx.TakeLease(t.Context(), jobs.Lease{LaneID: erp, Owner: "d", Token: "second"}, "first", time.Hour)
		return nil
	})
	if runs != 1 || !errors.Is(err, jobs.ErrBusy) {
		t.Errorf("it was run %d times and ended with %v", runs, err)
	}
	do(t, s, `ROLLBACK`)
	take(t, e, "second", "first")
	// Later statements of such a transaction wait as long as all do.
	if err := e.Update(t.Context(), func(tx jobs.Tx) error {
		_, err := tx.TakeLease(t.Context(), jobs.Lease{LaneID: erp, Owner: "d", Token: "third"}, "second", time.Hour)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := postgres.SettingInUpdate(t, e, "lock_timeout"); got != "10s" {
		t.Errorf("lock_timeout is %s afterwards", got)
	}
}

// TestATransactionThatIsLeftOpenEndsBeforeItsLease: a takeover waits for it, and the daemon that left it open may never come back.
func TestATransactionThatIsLeftOpenEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	for _, pooler := range []bool{false, true} {
		e := opened(t, dsn, postgres.Options{Pooler: pooler})
		text := postgres.SettingInUpdate(t, e, "idle_in_transaction_session_timeout")
		if d, err := time.ParseDuration(text); err != nil || d <= 0 || d >= jobs.DefaultTerms().For {
			t.Errorf("pooler %v: the server ends it after %s, and the lease lapses after %s", pooler, text, jobs.DefaultTerms().For)
		}
	}
}

func TestDaemonsOfAllEnginesSeeEachOther(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	a, b := opened(t, dsn, exclusive), opened(t, dsn, exclusive)
	for owner, e := range map[string]*postgres.Engine{"a": a, "b": b} {
		if err := e.Update(t.Context(), func(tx jobs.Tx) error {
			return tx.PutDaemon(t.Context(), jobs.Daemon{Owner: owner, Lanes: []jobs.LaneID{erp}}, time.Hour)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []*postgres.Engine{a, b} {
		var owners []string
		if err := e.View(t.Context(), func(tx jobs.Tx) error {
			ds, err := tx.Daemons(t.Context())
			owners = nil
			for _, d := range ds {
				owners = append(owners, d.Owner)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(owners, []string{"a", "b"}) {
			t.Errorf("the daemons are %v", owners)
		}
	}
}
