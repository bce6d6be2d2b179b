package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"syncd/jobs"
)

var errOwn = errors.New("the caller's own error")

var transactionSentences = []sentence{
	{"an error undoes everything and comes back", func(t *engineTest) {
		err := t.e.Update(t.Context(), func(tx jobs.Tx) error {
			if err := tx.PutRows(t.Context(), []jobs.Row{plain("A")}); err != nil {
				return err
			}
			if err := tx.SaveFlow(t.Context(), jobs.FlowState{Flow: "orders"}); err != nil {
				return err
			}
			return fmt.Errorf("half-way: %w", errOwn)
		})
		if !errors.Is(err, errOwn) {
			t.Errorf("the error is %v", err)
		}
		if n := len(t.get(rid("A"))) + len(t.flows()); n != 0 {
			t.Errorf("%d things were stored", n)
		}
	}},
	{"an error of a statement undoes everything even when it is swallowed", func(t *engineTest) {
		bad := plain("B")
		bad.State = "nonsense"
		err := t.e.Update(t.Context(), func(tx jobs.Tx) error {
			if err := tx.PutRows(t.Context(), []jobs.Row{plain("A")}); err != nil {
				return err
			}
			_ = tx.PutRows(t.Context(), []jobs.Row{bad})
			return nil
		})
		if err == nil {
			t.Error("the transaction reports success")
		}
		if len(t.get(rid("A"))) != 0 {
			t.Error("the row before the error was stored")
		}
		t.put(plain("C"))
	}},
	{"a panic undoes everything and goes on", func(t *engineTest) {
		for _, run := range []func(func(jobs.Tx) error) error{
			func(fn func(jobs.Tx) error) error { return t.e.Update(t.Context(), fn) },
			func(fn func(jobs.Tx) error) error { return t.e.View(t.Context(), fn) },
		} {
			for range 10 { // more often than there are connections
				func() {
					defer func() {
						if r := recover(); r != errOwn {
							t.Errorf("recovered %v, want the panic's value", r)
						}
					}()
					_ = run(func(tx jobs.Tx) error {
						_ = tx.PutRows(t.Context(), []jobs.Row{plain("A")})
						panic(errOwn)
					})
				}()
			}
		}
		if len(t.get(rid("A"))) != 0 {
			t.Error("the row was stored")
		}
		t.put(plain("B"))
	}},
	{"a context that ends undoes everything", func(t *engineTest) {
		ctx, cancel := context.WithCancel(t.Context())
		err := t.e.Update(ctx, func(tx jobs.Tx) error {
			if err := tx.PutRows(ctx, []jobs.Row{plain("A")}); err != nil {
				return err
			}
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		for name, run := range map[string]func(context.Context, func(jobs.Tx) error) error{"Update": t.e.Update, "View": t.e.View} {
			err := run(ctx, func(jobs.Tx) error { t.Errorf("%s ran its function although its context had ended", name); return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error of %s is %v", name, err)
			}
		}
		if len(t.get(rid("A"))) != 0 {
			t.Error("the row was stored")
		}
		t.put(plain("B"))
	}},
	{"a context that ends frees one who waits for a record", func(t *engineTest) {
		held, release := make(chan struct{}), make(chan struct{})
		t.put(plain("A"))
		var all sync.WaitGroup
		all.Go(func() {
			t.fail("hold", t.e.Update(t.Context(), func(tx jobs.Tx) error {
				_, err := tx.Rows(t.Context(), []jobs.RowID{rid("A")}, false)
				close(held)
				<-release
				return err
			}))
		})
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := t.e.Update(ctx, func(tx jobs.Tx) error {
			_, err := tx.Rows(ctx, []jobs.RowID{rid("A")}, false)
			return err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		close(release)
		all.Wait()
		t.put(plain("B"))
	}},
	{"transactions that get into each other's way all succeed", func(t *engineTest) {
		t.put(plain("A"), plain("B"))
		// Each takes first what the other takes second, and waits, when it can, until
		// the other has taken its first too.
		orders := [][]string{{"A", "B"}, {"B", "A"}}
		var all sync.WaitGroup
		met := make(chan struct{}, len(orders))
		for _, order := range orders {
			all.Go(func() {
				first := true
				t.fail("count", t.e.Update(t.Context(), func(tx jobs.Tx) error {
					for _, k := range order {
						rows, err := tx.Rows(t.Context(), []jobs.RowID{rid(k)}, false)
						if err != nil {
							return err
						}
						rows[0].Tries++
						if err := tx.PatchRows(t.Context(), rows); err != nil {
							return err
						}
						if first {
							first = false
							meet(met, 200*time.Millisecond)
						}
					}
					return nil
				}))
			})
		}
		all.Wait()
		for id, r := range t.get(rid("A"), rid("B")) {
			if r.Tries != len(orders) {
				t.Errorf("row %s was counted up %d times, want %d", id, r.Tries, len(orders))
			}
		}
	}},
	{"batches in different order do not block each other", func(t *engineTest) {
		keys := numbered(60)
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for round := range 6 {
					rows := make([]jobs.Row, len(keys))
					for i := range rows {
						// Forwards, backwards, and two ways of skipping.
						at := []int{i, len(keys) - 1 - i, i * 7 % len(keys), i * 13 % len(keys)}[w]
						rows[i] = plain(keys[at])
						rows[i].Generation = int64(round)
					}
					runs := 0
					t.fail("store", t.e.Update(t.Context(), func(tx jobs.Tx) error {
						runs++
						return tx.PutRows(t.Context(), rows)
					}))
					if runs > 1 {
						t.Errorf("a batch had to be run %d times", runs)
					}
				}
			})
		}
		all.Wait()
	}},
	{"a transaction is over when its function has returned", func(t *engineTest) {
		var kept jobs.Tx
		t.update(func(_ context.Context, tx jobs.Tx) error { kept = tx; return nil })
		if err := kept.PutRows(t.Context(), []jobs.Row{plain("A")}); err == nil {
			t.Error("a write after the end succeeded")
		}
		if _, err := kept.Flows(t.Context()); err == nil {
			t.Error("a read after the end succeeded")
		}
	}},
	{"a View changes nothing", func(t *engineTest) {
		// What there is to be changed.
		seed := full("seed")
		seed.State = jobs.Ready
		t.put(seed)
		t.putPins(pin(rid("seed"), "create"))
		t.addAttempts(jobs.Attempt{RowID: rid("seed"), At: noon})
		t.take(erpLane, "d", "t-1", "", anHour)
		t.addRun(jobs.Run{Kind: "x"})
		for name, do := range map[string]func(context.Context, jobs.Tx) error{
			"SaveFlow": func(ctx context.Context, tx jobs.Tx) error { return tx.SaveFlow(ctx, jobs.FlowState{Flow: "x"}) },
			"PutSources": func(ctx context.Context, tx jobs.Tx) error {
				return tx.PutSources(ctx, "x", []jobs.SourceRecord{{ID: "1"}})
			},
			"PutRows":     func(ctx context.Context, tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{plain("A")}) },
			"PatchRows":   func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{plain("A")}) },
			"AddClaim":    func(ctx context.Context, tx jobs.Tx) error { return tx.AddClaim(ctx, claimOf("c", "erp", 1)) },
			"ReduceClaim": func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ReduceClaim(ctx, "c", "me", 1); return err },
			"PutLinks":    func(ctx context.Context, tx jobs.Tx) error { return tx.PutLinks(ctx, "erp", []jobs.Link{{Link: "1"}}) },
			"PutPause":    func(ctx context.Context, tx jobs.Tx) error { return tx.PutPause(ctx, jobs.ClientState{Client: "x"}) },
			"PutExpiryHold": func(ctx context.Context, tx jobs.Tx) error {
				return tx.PutExpiryHold(ctx, "x", jobs.Standing{Code: "c"})
			},
			"Reshard": func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Reshard(ctx, "erp", 1, 10); return err },
			"DropBodies": func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.DropBodies(ctx, []jobs.RowID{rid("seed")})
				return err
			},
			"PutGroups": func(ctx context.Context, tx jobs.Tx) error {
				return tx.PutGroups(ctx, []jobs.Group{{Flow: "x", Name: "g"}})
			},
			"PutPins":    func(ctx context.Context, tx jobs.Tx) error { return tx.PutPins(ctx, []jobs.Pin{pin(rid("seed"), "x")}) },
			"DeletePins": func(ctx context.Context, tx jobs.Tx) error { return tx.DeletePins(ctx, []jobs.RowID{rid("seed")}) },
			"PruneAttempts": func(ctx context.Context, tx jobs.Tx) error {
				_, _, err := tx.PruneAttempts(ctx, 0, noon.Add(anHour), 10)
				return err
			},
			"DeleteAttempts": func(ctx context.Context, tx jobs.Tx) error { return tx.DeleteAttempts(ctx, []jobs.RowID{rid("seed")}) },
			"TakeLease": func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.TakeLease(ctx, jobs.Lease{LaneID: erpLane, Owner: "d", Token: "t-2"}, "t-1", anHour)
				return err
			},
			"RenewLeases": func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.RenewLeases(ctx, []string{"t-1"}, anHour)
				return err
			},
			"FreeLease": func(ctx context.Context, tx jobs.Tx) error {
				return tx.FreeLease(ctx, jobs.Fence{LaneID: erpLane, Token: "t-1"})
			},
			"PutDaemon":    func(ctx context.Context, tx jobs.Tx) error { return tx.PutDaemon(ctx, jobs.Daemon{Owner: "d"}, anHour) },
			"DeleteDaemon": func(ctx context.Context, tx jobs.Tx) error { return tx.DeleteDaemon(ctx, "d") },
			"AddRun":       func(ctx context.Context, tx jobs.Tx) error { _, err := tx.AddRun(ctx, jobs.Run{Kind: "x"}); return err },
			"PutRun":       func(ctx context.Context, tx jobs.Tx) error { return tx.PutRun(ctx, jobs.Run{ID: 1}) },
			"DeleteRuns":   func(ctx context.Context, tx jobs.Tx) error { return tx.DeleteRuns(ctx, []int64{1}) },
		} {
			if err := t.e.View(t.Context(), func(tx jobs.Tx) error { return do(t.Context(), tx) }); err == nil {
				t.Errorf("%s succeeded in a View", name)
			}
		}
		t.put(plain("A"))
	}},
	{"a View sees one state and neither waits nor is waited for", func(t *engineTest) {
		t.put(plain("A"))
		count := func(tx jobs.Tx) int {
			rows, err := tx.List(t.Context(), jobs.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PutRows(ctx, []jobs.Row{plain("B")}); err != nil {
				return err
			}
			// While this transaction is open, others look.
			t.view(func(_ context.Context, tx jobs.Tx) error {
				if n := count(tx); n != 1 {
					t.Errorf("while a row is being added a View sees %d rows, want 1", n)
				}
				return nil
			})
			return nil
		})
		t.view(func(_ context.Context, tx jobs.Tx) error {
			before := count(tx)
			t.put(plain("C"))
			if after := count(tx); before != 2 || after != before {
				t.Errorf("a View saw %d rows and then %d, want 2 and 2", before, after)
			}
			return nil
		})
	}},
	{"the time is UTC with microseconds and goes on", func(t *engineTest) {
		before := t.e.Now()
		if before.Location() != time.UTC || before != before.Truncate(time.Microsecond) {
			t.Errorf("it is %v", before)
		}
		if d := time.Until(before).Abs(); d > time.Hour {
			t.Errorf("it differs from this machine's by %v", d)
		}
		t.pass(before)
	}},
	{"an engine says what it is", func(t *engineTest) {
		if s := t.e.Describe(); len(strings.Fields(s)) < 2 {
			t.Errorf("it describes itself as %q", s)
		}
	}},
	{"a closed engine fails, and may be closed again", func(t *engineTest) {
		for range 2 {
			if err := t.e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		for name, run := range map[string]func(context.Context, func(jobs.Tx) error) error{"Update": t.e.Update, "View": t.e.View} {
			if err := run(t.Context(), func(jobs.Tx) error { return nil }); err == nil {
				t.Errorf("%s succeeded", name)
			}
		}
	}},
	{"many at once are served", func(t *engineTest) {
		var all sync.WaitGroup
		for w := range 24 {
			all.Go(func() {
				r := plain(fmt.Sprint("K-", w))
				t.fail("store", t.e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{r}) }))
				t.fail("read", t.e.View(t.Context(), func(tx jobs.Tx) error {
					rows, err := tx.Rows(t.Context(), []jobs.RowID{r.RowID}, true)
					if len(rows) != 1 {
						t.Errorf("row %s is not there after it was stored", r.RowID)
					}
					return err
				}))
			})
		}
		all.Wait()
	}},
}

// meet returns when as many have come as met has room for, or after patience: an
// engine that lets one in after the other never brings them together.
func meet(met chan struct{}, patience time.Duration) {
	met <- struct{}{}
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(met) < cap(met) {
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}
