package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// generous is a shop that gives all it has in one answer, whatever it is asked for.
type generous struct{ *shop }

func (g generous) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	req.Limit = 1 << 30
	return g.shop.Pull(ctx, req)
}

// generously opens the shop as a generous one.
type generously struct{ *settings }

func (g generously) Open(context.Context, connectors.Env) (connectors.Instance, error) { return g, nil }
func (g generously) Source() connectors.Source                                         { return generous{g.shop} }

// admissions is an engine that looks on at what is admitted, and can fail.
type admissions struct {
	soleEngine
	mu     sync.Mutex
	rows   []int    // rows of each admission
	cursor []string // and the cursor before it
	failAt int      // the admission that fails, counted from 1; 0 for none
}

type admissionTx struct {
	jobs.Tx
	e *admissions
}

func (e *admissions) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return e.soleEngine.Update(ctx, func(tx jobs.Tx) error { return fn(admissionTx{tx, e}) })
}

func (t admissionTx) PutRows(ctx context.Context, rows []jobs.Row) error {
	if len(rows) == 0 {
		return t.Tx.PutRows(ctx, rows)
	}
	fs, err := t.Tx.LockFlow(ctx, "orders")
	if err != nil {
		return err
	}
	t.e.mu.Lock()
	t.e.rows = append(t.e.rows, len(rows))
	t.e.cursor = append(t.e.cursor, string(fs.Cursor))
	fails := len(t.e.rows) == t.e.failAt
	t.e.mu.Unlock()
	if fails {
		return errors.New("the disk is full")
	}
	return t.Tx.PutRows(ctx, rows)
}

// part is a slice in these tests.
const part = 20

// flood puts records into the shop that come in one answer, and looks on.
func (w *world) flood(records, failAt int) *admissions {
	w.Helper()
	e := &admissions{soleEngine: w.engine, failAt: failAt}
	w.slice = part
	w.journal = jobs.New(e, jobs.Options{Owner: "first"})
	w.plan.Clients["shop"].Settings = generously{&settings{shop: w.shop}}
	for i := range records {
		w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
	}
	return e
}

func TestPageOfAllThereIsIsAdmittedInSlicesAndTheCursorMovesWithTheLast(t *testing.T) {
	for _, c := range []struct {
		records int
		want    []int
	}{{part, []int{part}}, {part + 1, []int{part, 1}}, {2*part + part/2, []int{part, part, part / 2}}} {
		t.Run(fmt.Sprint(c.records), func(t *testing.T) {
			inWorld(t, func(w *world) {
				e := w.flood(c.records, 0)
				w.start()
				w.pass(30 * time.Second)
				e.mu.Lock()
				defer e.mu.Unlock()
				if !slices.Equal(e.rows[:len(c.want)], c.want) || slices.ContainsFunc(e.cursor[:len(c.want)], func(s string) bool { return s != "" }) {
					t.Errorf("admitted %v after cursors %q, want %v", e.rows, e.cursor, c.want)
				}
				fs, err := w.journal.Cursor(context.Background(), "orders")
				if err != nil || string(fs.Cursor) != strconv.Itoa(c.records) || fs.PageStarts != 0 {
					t.Errorf("in the end the cursor is %s, the page begun %d times, %v", fs.Cursor, fs.PageStarts, err)
				}
			})
		})
	}
}

func TestPageOfWhichSomeSlicesWereAdmittedIsReadAgainAndNothingIsDoubled(t *testing.T) {
	for failAt := 1; failAt <= 3; failAt++ {
		t.Run(fmt.Sprint(failAt), func(t *testing.T) {
			inWorld(t, func(w *world) {
				e := w.flood(2*part+10, failAt)
				w.start()
				w.pass(3 * time.Minute)
				for _, key := range []string{"K0", fmt.Sprint("K", part), fmt.Sprint("K", 2*part+9)} {
					w.holds(w.orders, key, fmt.Sprintf(`{"key":%q}`, key))
					if r := w.row("orders", key); r.Generation != 1 || r.State != jobs.Done {
						t.Errorf("%s is %s, generation %d", key, r.State, r.Generation)
					}
				}
				if n := w.orders.Len(); n != 2*part+10 || w.shop.pulled() < 2 {
					t.Errorf("%d records after %d pulls", n, w.shop.pulled())
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				if len(e.rows) != 4 { // the three slices, and the one that failed
					t.Errorf("rows were stored in parts of %v", e.rows)
				}
			})
		})
	}
}

func TestEventThatEndsTheDaemonInALaterSliceIsFound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.flood(part+10, 0)
		deadly := strconv.Itoa(part + 5)
		page, err := generous{w.shop}.Pull(context.Background(), connectors.PullRequest{})
		if err != nil {
			t.Fatal(err)
		}
		page.Events[part+5].Problem = death
		d := New(w.journal, Options{Redact: func(s string) string {
			if s == death {
				panic(death)
			}
			return s
		}})
		d.slice = w.slice
		lives := 0
		for done := false; !done && lives < 20; lives++ {
			func() {
				defer func() { _ = recover() }()
				p := newPoller(d, nil, w.plan.Flows["orders"], nil, func(string) {}) // of a new process
				done = p.admitPage(context.Background(), 0, pulled{page: page}) == nil
			}()
		}
		if lives > 2*deaths+4 { // twenty are halved three times
			t.Errorf("it took %d lives", lives)
		}
		if r := w.row("orders", "@"+deadly); r.State != jobs.Dead {
			t.Errorf("the deadly event is %s", r.State)
		}
		w.row("orders", fmt.Sprint("K", part+9))
	})
}

func TestAPageIsReadNoFurtherWhileTooMuchOfItsFlowIsOpen(t *testing.T) {
	inWorld(t, func(w *world) {
		const records = 5 * part
		e := w.flood(records, 0)
		w.plan.Flows["orders"].MaxOpen = 2 * part
		w.plan.Clients["erp"].Concurrency = 1
		refused := w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.start()
		w.pass(9 * time.Minute)
		fs := w.state()
		if n := w.count(jobs.Ready); n < 2*part || n > 3*part || !fs.Full.Is() || fs.PageStarts != 0 {
			t.Fatalf("%d open with room for %d, full: %+v, begun %d times, %d calls", n, 2*part, fs.Full, fs.PageStarts, refused.calls())
		}
		if n := w.shop.pulled(); n > 2 {
			t.Errorf("%d pulls of a page that waits", n)
		}
		w.pass(11 * time.Minute)
		if n := w.count(jobs.Done); n != records || w.state().Full.Is() {
			t.Errorf("after the pause: %d of %d done, full %+v", n, records, w.state().Full)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !slices.Equal(e.rows, []int{part, part, part, part, part}) {
			t.Errorf("rows were stored in parts of %v", e.rows)
		}
	})
}
