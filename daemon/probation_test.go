package daemon

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/ratelimit"
)

// doorman stands before a client: each call takes a second, or as long as takes, and is
// refused while the credentials are bad.
type doorman struct {
	takes time.Duration

	mu    sync.Mutex
	good  bool
	calls int
}

func (d *doorman) admits(ctx context.Context) connectors.Outcome {
	select {
	case <-time.After(cmp.Or(d.takes, time.Second)):
	case <-ctx.Done():
		return connectors.Fail(connectors.Unknown, "canceled", "cut off")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.good {
		return connectors.Outcome{}
	}
	return connectors.Outcome{Class: connectors.Auth, Code: "http_401"}
}

func (d *doorman) called() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *doorman) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.good = true
}

type guardedEntity struct {
	*faketarget.Entity
	*doorman
}

func (g guardedEntity) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	if o := g.admits(ctx); o.Class != "" {
		return o
	}
	return g.Entity.Create(ctx, w)
}

type guardedSettings struct {
	*settings
	*doorman
}

func (g guardedSettings) Open(context.Context, connectors.Env) (connectors.Instance, error) {
	return g, nil
}
func (g guardedSettings) Source() connectors.Source { return g }
func (g guardedSettings) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	if o := g.admits(ctx); o.Class != "" {
		return connectors.Page{}, &connectors.Error{Outcome: o}
	}
	return g.shop.Pull(ctx, req)
}
func (g guardedSettings) Fetch(ctx context.Context, stream, id string) (connectors.Event, error) {
	return g.shop.Fetch(ctx, stream, id)
}

// guard puts a doorman before the ERP or the shop, and gives both much to do.
func (w *world) guard(client string) *doorman {
	d := &doorman{}
	for i := range 20 {
		w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
	}
	if client == "erp" {
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = guardedEntity{w.orders, d}
		return d
	}
	for _, name := range []string{"second", "third"} {
		w.plan.Flows[name] = w.flow(name, "party", `.`, `.key`)
	}
	w.plan.Clients["shop"].Settings = guardedSettings{w.plan.Clients["shop"].Settings.(*settings), d}
	return d
}

func (w *world) stored(client string) jobs.ClientState {
	w.Helper()
	cs, err := w.journal.Clients(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range cs {
		if c.Client == client {
			return c
		}
	}
	return jobs.ClientState{}
}

func TestRefusedCredentialsAreTriedByOneCallAtEachStartAndReload(t *testing.T) {
	for _, client := range []string{"erp", "shop"} {
		t.Run(client, func(t *testing.T) {
			inWorld(t, func(w *world) {
				door := w.guard(client)
				w.start()
				w.pass(20 * time.Second)
				before := door.called()
				again := map[string]func(){
					"a start":      func() { w.end(); w.start() },
					"a reload":     func() { w.reload <- Reload{Plan: w.plan} },
					"five minutes": func() { w.pass(5 * time.Minute) },
				}
				for range 2 {
					for what, happens := range again {
						happens()
						w.pass(20 * time.Second)
						if n := door.called() - before; n != 1 {
							t.Fatalf("%d calls with refused credentials after %s, want 1", n, what)
						}
						before = door.called()
						if s := w.stored(client); s.Reason != ratelimit.ReasonSuspended || !s.PausedUntil.After(w.journal.Now()) {
							t.Fatalf("after %s the journal has %+v, want the suspension", what, s)
						}
					}
				}
				door.mend()
				w.reload <- Reload{Plan: w.plan}
				w.pass(30 * time.Second)
				if n := w.orders.Len(); n != 20 {
					t.Errorf("%d records half a minute after the credentials were mended, want 20", n)
				}
				if s := w.stored(client); s.Reason != "" {
					t.Errorf("the journal still has %+v", s)
				}
			})
		})
	}
}

func TestCredentialsNotTriedBeforeAStopAreTriedByOneCallAfterIt(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		w.pass(20 * time.Second)
		before := door.called()
		w.end()
		// Nothing calls the ERP in this run, which opens the gate all the same.
		flow := w.plan.Flows["orders"]
		delete(w.plan.Flows, "orders")
		w.start()
		w.pass(10 * time.Minute)
		w.end()
		w.plan.Flows["orders"] = flow
		w.start()
		w.pass(time.Minute)
		if n := door.called() - before; n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

func TestLaneIsWideAgainOnceTheCredentialsAreGood(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		w.pass(20 * time.Second)
		door.mend()
		w.end()
		w.start()
		w.pass(8 * time.Second) // one call of a second, then four at a time
		if n := w.orders.Len(); n != 20 {
			t.Errorf("%d records, want 20", n)
		}
	})
}

func TestSuspensionIsToldFromTheFirstRefusalToTheAnswerThatEndsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		door := w.guard("erp")
		w.start()
		since := func() time.Time {
			for _, c := range w.daemon.Clients() {
				if c.Client == "erp" {
					return c.Suspended
				}
			}
			return time.Time{}
		}
		w.pass(20 * time.Second)
		first := since()
		if first.IsZero() || w.journal.Now().Sub(first) > 20*time.Second {
			t.Fatalf("suspended since %s at %s", first, w.journal.Now())
		}
		for range 70 {
			w.pass(10 * time.Second) // two calls try the credentials meanwhile
			if got := since(); !got.Equal(first) {
				t.Fatalf("suspended since %s, and now since %s", first, got)
			}
		}
		w.end()
		w.start()
		w.pass(20 * time.Second)
		if since().IsZero() {
			t.Error("after a restart the client does not count as suspended")
		}
		door.mend()
		w.pass(6 * time.Minute)
		if got := since(); !got.IsZero() {
			t.Errorf("suspended since %s although the credentials are good", got)
		}
	})
}

func TestReadingGoesOnWhereRefusedCredentialsEndedIt(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 50 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.shop.fails(3, connectors.Errorf(connectors.Auth, "http_401", "access token has just expired"))
		w.start()
		w.pass(14 * time.Minute)
		if s := w.state(); string(s.Cursor) != "20" || s.Failing.Class != connectors.Auth {
			t.Errorf("the cursor is %s, failing %+v, want that of the second page and the reason", s.Cursor, s.Failing)
		}
		if n := w.shop.pulled(); n > 2+1+3 {
			t.Errorf("%d pages were asked for with credentials that are refused", n-2)
		}
		before := w.shop.pulled()
		w.shop.fails(0, nil)
		w.pass(6 * time.Minute)
		if s := w.state(); string(s.Cursor) != "50" {
			t.Errorf("after they were mended the cursor is %s", s.Cursor)
		}
		for i := range 50 {
			w.holds(w.orders, fmt.Sprint("K", i), fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		if n := len(w.orders.Effects()); n != 50 || w.shop.pulled() < before+3 {
			t.Errorf("%d effects, %d pages", n, w.shop.pulled()-before)
		}
	})
}
