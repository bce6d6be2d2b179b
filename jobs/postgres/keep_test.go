package postgres_test

import (
	"testing"
	"time"
)

// TestTheLeaseIsRenewedWithoutBeingAsked lets a daemon do nothing for the time
// of a renewal, as one does whose target works long on a request.
func TestTheLeaseIsRenewedWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	e := opened(t, dsn, exclusive)
	trusted := e.TrustedUntil()
	s := session(t, dsn)
	expires := ask[time.Time](t, s, `SELECT expires_at FROM syncd.daemons`)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !e.TrustedUntil().After(trusted) {
		if now := <-look.C; now.After(trusted) {
			t.Fatal("the lease lapsed and was not renewed")
		}
	}
	if later := ask[time.Time](t, s, `SELECT expires_at FROM syncd.daemons`); later.Sub(expires) < time.Second {
		t.Errorf("the daemon trusts its lease for longer, and in the database it ends at %s as before", later)
	}
	select {
	case <-e.Lost():
		t.Error("the daemon took its own renewal for a takeover")
	default:
	}
}
