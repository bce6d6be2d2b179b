package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/sqlite"
)

func TestADaemonThatBeginsFreesWhatAnEndedOneHad(t *testing.T) {
	t.Parallel()
	path := place(t)
	lane := jobs.LaneID{Client: "erp", Shard: 1}
	update := func(e *sqlite.Engine, fn func(ctx context.Context, tx jobs.Tx) error) error {
		return e.Update(t.Context(), func(tx jobs.Tx) error { return fn(t.Context(), tx) })
	}
	take := func(e *sqlite.Engine, token string) (ok bool) {
		t.Helper()
		if err := update(e, func(ctx context.Context, tx jobs.Tx) (err error) {
			if err := tx.PutDaemon(ctx, jobs.Daemon{Owner: "owner of " + token}, time.Hour); err != nil {
				return err
			}
			ok, err = tx.TakeLease(ctx, jobs.Lease{LaneID: lane, Owner: "owner of " + token, Token: token}, "", time.Hour)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	look := func(e *sqlite.Engine, daemons int, token string) {
		t.Helper()
		if err := e.View(t.Context(), func(tx jobs.Tx) error {
			ds, err := tx.Daemons(t.Context())
			if err != nil {
				return err
			}
			ls, err := tx.Leases(t.Context())
			if len(ds) != daemons || len(ls) != 1 || ls[0].LaneID != lane || ls[0].Token != token || (ls[0].Owner == "") != (token == "") {
				t.Errorf("there are %d daemons and the leases %+v, want %d and the token %q", len(ds), ls, daemons, token)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if !take(first, "t-1") {
		t.Fatal("the first daemon was not given its lane")
	}
	// A command that opens the journal beside it, or a second daemon that may not, takes nothing from it.
	opened(t, path, sqlite.Options{})
	opened(t, path, sqlite.Options{ReadOnly: true})
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true}); !errors.Is(err, jobs.ErrInUse) {
		t.Fatalf("a second daemon got %v", err)
	}
	look(first, 1, "t-1")
	// It ends without giving anything back.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := opened(t, path, sqlite.Options{Exclusive: true})
	look(next, 0, "")
	if err := update(next, func(ctx context.Context, tx jobs.Tx) error {
		return tx.Fence(ctx, jobs.Fence{LaneID: lane, Token: "t-1"})
	}); !errors.Is(err, jobs.ErrFenced) {
		t.Errorf("one that writes as the ended daemon got %v", err)
	}
	if !take(next, "t-2") {
		t.Error("the next daemon was not given the lane")
	}
	look(next, 1, "t-2")
}

func TestLeasesLapseByTheEnginesClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	e := opened(t, place(t), sqlite.Options{Exclusive: true, Now: func() time.Time { return now }})
	if err := e.Update(t.Context(), func(tx jobs.Tx) error {
		if err := tx.PutDaemon(t.Context(), jobs.Daemon{Owner: "d"}, time.Minute); err != nil {
			return err
		}
		_, err := tx.TakeLease(t.Context(), jobs.Lease{LaneID: jobs.LaneID{Client: "erp"}, Owner: "d", Token: "t"}, "", time.Minute)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	until := now.Add(time.Minute)
	for at, lapsed := range map[time.Time]bool{now: false, until.Add(-time.Microsecond): false, until: true, until.Add(time.Hour): true} {
		now = at
		if err := e.View(t.Context(), func(tx jobs.Tx) error {
			ls, err := tx.Leases(t.Context())
			if err != nil {
				return err
			}
			ds, err := tx.Daemons(t.Context())
			if ls[0].Until != until || ds[0].Until != until || ls[0].Lapsed != lapsed || ds[0].Lapsed != lapsed {
				t.Errorf("at %v they are %+v and %+v, want lapsed %v", at, ls[0], ds[0], lapsed)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
