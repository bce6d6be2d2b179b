package postgres_test

import (
	"context"
	"testing"
	"time"

	"syncd/jobs"
)

// after calls its hook when the clients were read in a transaction.
type after struct {
	jobs.Engine
	clients func()
}

func (a after) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return a.Engine.Update(ctx, func(tx jobs.Tx) error { return fn(afterTx{tx, a.clients}) })
}

type afterTx struct {
	jobs.Tx
	clients func()
}

func (x afterTx) Clients(ctx context.Context) ([]jobs.ClientState, error) {
	cs, err := x.Tx.Clients(ctx)
	x.clients()
	return cs, err
}

func TestAPersonsWordOnExpiryOutlivesAClaimThatExtendsTheHold(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	daemon, beside := opened(t, dsn, exclusive), opened(t, dsn, exclusive)
	watcher := session(t, dsn)
	flows := map[string]*jobs.Flow{"orders": {Name: "orders", Client: "erp", SourceClient: "shop", Entity: "order", MaxAge: time.Hour}}
	held := jobs.Standing{Code: "mass_expiry", Since: daemon.Now().Add(-2 * time.Hour), Until: daemon.Now().Add(-time.Minute)}
	if err := daemon.Update(t.Context(), func(tx jobs.Tx) error {
		old := row("A")
		old.ReadAt = daemon.Now().Add(-3 * time.Hour)
		if err := tx.PutRows(t.Context(), []jobs.Row{old}); err != nil {
			return err
		}
		return tx.PutExpiryHold(t.Context(), "erp", held)
	}); err != nil {
		t.Fatal(err)
	}
	person := jobs.New(beside, jobs.Options{Owner: "a person"})
	resumed := make(chan error, 1)
	claim := jobs.New(after{daemon, func() {
		go func() { _, err := person.ResumeExpiry(t.Context(), "erp", flows); resumed <- err }()
		until(t, "the person's word waits or is stored", func() bool {
			return len(resumed) > 0 || ask[int](t, watcher, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0
		})
	}}, jobs.Options{Owner: "daemon"})
	if _, err := claim.Claim(t.Context(), jobs.ClaimRequest{Client: "erp", Limit: 1, Flows: flows, ClockDoubted: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-resumed; err != nil {
		t.Fatal(err)
	}
	if cs, err := person.Clients(t.Context()); err != nil || len(cs) != 1 || cs[0].ExpiryHeld.Code == held.Code {
		t.Errorf("expiry is still held: %+v, %v", cs, err)
	}
}
