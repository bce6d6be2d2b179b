package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/ratelimit"
)

// death is what a mapping that ends the process does in a test.
const death = "the process ends here"

// mortal maps part by part and dies at those whose problem is death.
func (w *world) mortal(page connectors.Page) (items []jobs.Item, lives int) {
	w.Helper()
	d := New(w.journal, Options{Redact: func(s string) string {
		if s == death {
			panic(death)
		}
		return s
	}})
	for lives = 1; lives < 50; lives++ {
		if func() (died bool) {
			defer func() {
				r := recover()
				if r != nil && r != death {
					panic(r)
				}
				died = r != nil
			}()
			m, _, err := d.beginPage(context.Background(), w.plan.Flows["orders"], page, nil, nil)
			if err == nil {
				items, err = m.take(context.Background(), page.Events)
			}
			if err != nil {
				w.Fatal(err)
			}
			return false
		}() {
			continue
		}
		return items, lives
	}
	w.Fatalf("the page was not mapped in %d lives", lives)
	return nil, 0
}

// begunInVain is a page that was begun so often that its events are under suspicion.
func (w *world) begunInVain() {
	w.Helper()
	for range deaths {
		if _, err := w.journal.BeginPage(context.Background(), "orders", ""); err != nil {
			w.Fatal(err)
		}
	}
}

func pageOf(ids ...string) (p connectors.Page) {
	for _, id := range ids {
		p.Events = append(p.Events, connectors.Event{SourceID: id, Version: 1, Body: json.RawMessage(fmt.Sprintf(`{"key":"K%s"}`, id))})
	}
	return p
}

func TestSeveralDeadlyEventsOfOnePageAreAllFound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begunInVain()
		page := pageOf("0", "1", "2", "3", "4")
		page.Events[1].Problem, page.Events[3].Problem = death, death
		items, lives := w.mortal(page)
		for i, it := range items {
			if deadly := i == 1 || i == 3; deadly != (it.Problem != "") {
				t.Errorf("event %d: problem %q", i, it.Problem)
			}
		}
		if lives > 2*(deaths+1)+1 { // of five, one is alone after one halving
			t.Errorf("it took %d lives, want %d for each deadly event", lives, deaths+1)
		}
	})
}

func TestPageThatCannotBeStoredMakesNoDeadLetter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.begunInVain()
		for range 3 * deaths { // mapped each time, and never admitted
			items, _ := w.mortal(pageOf("0", "1", "2"))
			for i, it := range items {
				if it.Problem != "" {
					t.Fatalf("event %d became a dead letter: %s", i, it.Problem)
				}
			}
		}
	})
}

func TestDeadLetterMappedAgainTooLateBringsNothingBack(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.flow("orders", "order", `if $event.bad then error("price is missing") else . end`, `.key`)
		f.Source.CanFetch, f.CanRefresh = false, false
		w.plan.Flows["orders"] = f
		w.shop.put("1", 1, `{"key":"A","bad":true}`)
		w.start()
		w.pass(3 * time.Second)
		w.end()
		ctx := context.Background()
		if a, err := w.journal.Replay(ctx, []jobs.RowID{{Flow: "orders", Key: "@1"}}, w.plan.JobFlows()); err != nil || a.Asked != 1 {
			t.Fatalf("replayed %+v, %v", a, err)
		}
		// Before the daemon gets to it the record is deleted, and the mapping is mended.
		gone := jobs.Item{SourceID: "1", Observed: time.Now().UTC(), Gone: true}
		if _, err := jobs.New(w.engine, jobs.Options{Owner: "beside"}).Admit(ctx, jobs.Admission{Flow: &f.Flow, Items: []jobs.Item{gone}}); err != nil {
			t.Fatal(err)
		}
		mended := w.flow("orders", "order", `.`, `.key`)
		mended.Source.CanFetch, mended.CanRefresh = false, false
		w.plan.Flows["orders"] = mended
		w.start()
		w.pass(10 * time.Second)
		if n := w.orders.Len(); n != 0 {
			t.Fatalf("a deleted record was created from its kept event")
		}
	})
}

func TestEventThatCouldNotBeReadIsNotMappedFromWhatIsKeptOfIt(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.flow("orders", "order", `.`, `.key`)
		f.Source.CanFetch, f.CanRefresh = false, false
		w.plan.Flows["orders"] = f
		// A record that is gone, at a time that the connector could not read.
		w.shop.put("1", 0, `{"key":"A","deleted":true}`)
		w.shop.changes[0].Gone, w.shop.changes[0].Problem = true, "the time is none"
		w.start()
		w.pass(3 * time.Second)
		ctx := context.Background()
		id := jobs.RowID{Flow: "orders", Key: "@1"}
		if r := w.row("orders", "@1"); r.State != jobs.Dead || r.LastCode != "unreadable" {
			t.Fatalf("it is %s, %s", r.State, r.LastCode)
		}
		if a, err := w.journal.Replay(ctx, []jobs.RowID{id}, w.plan.JobFlows()); err != nil || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "could not be read") {
			t.Errorf("replayed %+v, %v", a, err)
		}
		// Nor where it was asked for before, by who knew no better.
		err := w.engine.Update(ctx, func(tx jobs.Tx) error {
			return tx.AddRequests(ctx, []jobs.Request{{Client: "shop", Flow: "orders", SourceID: "1", Kind: jobs.Remap, Key: "@1", At: time.Now().UTC(), DueAt: time.Now().UTC()}})
		})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		if n := w.orders.Len(); n != 0 {
			t.Fatal("a record that is gone was created from what could be read of its event")
		}
		if left, err := w.journal.Requests(ctx, "shop", 10); err != nil || len(left) != 0 {
			t.Fatalf("%d requests are left, %v", len(left), err)
		}
	})
}

func TestSourceThatDoesNotMoveOnIsNotPulledWithoutAPause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		stuck := &stuckShop{shop: w.shop}
		w.plan.Clients["shop"].Settings = &stuckSettings{w.plan.Clients["shop"].Settings.(*settings), stuck}
		w.start()
		w.pass(time.Minute)
		if n := stuck.pulls.Load(); n > 200 {
			t.Fatalf("%d pulls in a minute of a source that says more and stays where it is", n)
		}
	})
}

// stuckShop says that there is more and gives the same cursor again.
type stuckShop struct {
	*shop
	pulls atomic.Int64
}

func (s *stuckShop) Pull(_ context.Context, req connectors.PullRequest) (connectors.Page, error) {
	if s.pulls.Add(1) > 1000 {
		return connectors.Page{}, connectors.Errorf(connectors.Transient, "enough", "pulled too often")
	}
	return connectors.Page{Next: json.RawMessage(`1`), More: true}, nil
}

type stuckSettings struct {
	*settings
	source *stuckShop
}

func (s *stuckSettings) Open(context.Context, connectors.Env) (connectors.Instance, error) {
	return s, nil
}
func (s *stuckSettings) Source() connectors.Source { return s.source }

func TestProofOfLifeIsToldInTheJournalsTime(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	c := &client{now: func() time.Time { return now }}
	c.lives()
	if got := c.lastServed(); !got.Equal(now) {
		t.Errorf("served at %s, want %s", got, now)
	}
}

// unsure is an engine whose commits of claims can be of unknown outcome.
type unsure struct {
	soleEngine
	armed atomic.Bool
	// lasts is how long the journal takes no write after one.
	lasts time.Duration
	away  atomic.Int64 // until when, in Unix nanoseconds
}

type watchedTx struct {
	jobs.Tx
	claimed bool
}

func (t *watchedTx) AddClaim(ctx context.Context, c jobs.Claim) error {
	t.claimed = true
	return t.Tx.AddClaim(ctx, c)
}

func (e *unsure) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	if time.Now().UnixNano() < e.away.Load() {
		return errors.New("the journal is away")
	}
	claimed := false
	err := e.soleEngine.Update(ctx, func(tx jobs.Tx) error {
		w := &watchedTx{Tx: tx}
		err := fn(w)
		claimed = w.claimed
		return err
	})
	if err == nil && claimed && e.armed.CompareAndSwap(true, false) {
		e.away.Store(time.Now().Add(e.lasts).UnixNano())
		return jobs.ErrCommitUnknown
	}
	return err
}

func TestClaimOfUnknownOutcomeIsTakenBackAlthoughOthersAreUnderWay(t *testing.T) {
	inWorld(t, func(w *world) {
		e := &unsure{soleEngine: w.engine}
		w.journal = jobs.New(e, jobs.Options{Owner: "first"})
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, 20 * time.Second}
		w.shop.put("0", 1, `{"key":"K0"}`)
		w.start()
		w.pass(2 * time.Second)
		e.armed.Store(true)
		w.shop.put("1", 1, `{"key":"K1"}`)
		w.pass(2 * time.Minute)
		w.holds(w.orders, "K0", `{"key":"K0"}`)
		w.holds(w.orders, "K1", `{"key":"K1"}`)
		if n := len(w.orders.Effects()); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
		o, err := w.journal.Overview(context.Background())
		if err != nil || o.Running["erp"] != 0 {
			t.Errorf("%d jobs are still claimed, %v", o.Running["erp"], err)
		}
		if e.armed.Load() {
			t.Error("no claim was made unsure")
		}
		d, _, err := w.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: "K1"})
		if err != nil || slices.ContainsFunc(d.Attempts, func(a jobs.Attempt) bool { return a.Class == connectors.Lost }) {
			t.Errorf("a job of which nothing was sent counts as lost: %+v, %v", d.Attempts, err)
		}
	})
}

func TestClaimOfUnknownOutcomeIsTakenBackAlthoughTheClientIsPaused(t *testing.T) {
	inWorld(t, func(w *world) {
		e := &unsure{soleEngine: w.engine, lasts: 10 * time.Second}
		w.journal = jobs.New(e, jobs.Options{Owner: "first"})
		w.start()
		w.pass(2 * time.Second)
		e.armed.Store(true)
		w.shop.put("1", 1, `{"key":"K1"}`)
		w.pass(2 * time.Second)
		if e.armed.Load() {
			t.Fatal("no claim was made unsure")
		}
		person := jobs.New(w.engine, jobs.Options{Owner: "a person"})
		if err := person.SavePause(context.Background(), "erp", ratelimit.Pause{Until: ratelimit.Forever(), Reason: ratelimit.ReasonOperator, Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		o, err := w.journal.Overview(context.Background())
		if err != nil || o.Running["erp"] != 0 {
			t.Errorf("%d jobs are still claimed, %v", o.Running["erp"], err)
		}
		if n := len(w.orders.Effects()); n != 0 {
			t.Errorf("%d effects although the client is paused", n)
		}
	})
}
