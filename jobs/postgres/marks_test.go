package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/internal/pgtest"
	"syncd/jobs"
)

func TestClaimsDoNotSlowDownWhileAnOldSnapshotIsHeld(t *testing.T) {
	t.Parallel()
	p := newPlanTest(t, false)
	if _, err := p.setup.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`); err != nil {
		t.Fatal(err)
	}
	const rounds, each = 80, 50
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	pages := make([]int64, rounds)
	for round := range rounds {
		now := start.Add(time.Duration(round) * time.Second)
		rows := make([]jobs.Row, each)
		for i := range rows {
			rows[i] = jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: fmt.Sprint(round, "-", i)}, Client: "erp", State: jobs.Ready, DueAt: now}
		}
		update := func(fn func(ctx context.Context, tx jobs.Tx) error) {
			t.Helper()
			if err := p.e.Update(t.Context(), func(tx jobs.Tx) error { return fn(t.Context(), tx) }); err != nil {
				t.Fatal(err)
			}
		}
		update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutRows(ctx, rows) })
		var due []jobs.Row
		p.plans = nil
		update(func(ctx context.Context, tx jobs.Tx) (err error) {
			due, err = tx.Due(ctx, jobs.LaneID{Client: "erp"}, now, 2*each)
			return err
		})
		if len(due) != each {
			t.Fatalf("round %d: %d rows are due, want %d", round, len(due), each)
		}
		for _, plan := range p.plans {
			if strings.Contains(plan, "SKIP LOCKED") {
				pages[round] = planOf(t, plan).Blocks
			}
		}
		for i := range due {
			due[i].State = jobs.Done
		}
		update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, due) })
	}
	// Now and then a search begins at the very first row; the least of some is that of the others.
	first, last := min(pages[2], pages[3], pages[4]), min(pages[rounds-3], pages[rounds-2], pages[rounds-1])
	if first == 0 || last > 2*first {
		t.Errorf("a search looked at %d pages at first and at %d in the end: %v", first, last, pages)
	}
}

func TestWhatAnotherProcessMakesDueIsFoundSoon(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	daemon, err := Open(t.Context(), dsn, Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Close() }()
	now := daemon.Now()
	row := func(key string, at time.Time) jobs.Row {
		return jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", State: jobs.Ready, DueAt: at}
	}
	put := func(e *Engine, r jobs.Row) {
		t.Helper()
		if err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{r}) }); err != nil {
			t.Fatal(err)
		}
	}
	due := func() (keys []string) {
		if err := daemon.Update(t.Context(), func(tx jobs.Tx) error {
			rows, err := tx.Due(t.Context(), jobs.LaneID{Client: "erp"}, now, 10)
			keys = nil
			for _, r := range rows {
				keys = append(keys, r.Key)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	put(daemon, row("new", now))
	due()
	due() // the mark stands at the new row now
	other, err := Open(t.Context(), dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	put(other, row("old", now.Add(-time.Hour)))
	start := time.Now()
	for len(due()) < 2 {
		if time.Since(start) > 30*time.Second {
			t.Fatal("it was not found within 30 s")
		}
	}
	if got := due(); got[0] != "old" {
		t.Errorf("due are %v", got)
	}
}

func TestAMarkIsNotRaisedOverRowsThatASearchCouldNotSee(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	erp := jobs.LaneID{Client: "erp", Shard: 2}
	touched := func(lane jobs.LaneID, at time.Time) touches {
		w := newTouches()
		w.add(&jobs.Row{Client: lane.Client, Shard: lane.Shard, State: jobs.Ready, DueAt: at})
		return w
	}
	for _, c := range []struct {
		name string
		do   func(m *marks)
		want time.Time
	}{
		{"raised by a search", func(m *marks) { m.end(erp, m.begin(erp), at(9)) }, at(9)},
		{"lowered by a transaction", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			m.lower(touched(erp, at(3)))
		}, at(3)},
		{"a transaction ends during a search", func(m *marks) {
			s := m.begin(erp)
			m.lower(touched(erp, at(3)))
			m.end(erp, s, at(9))
		}, time.Time{}},
		{"another lane's transaction ends during a search", func(m *marks) {
			s := m.begin(erp)
			m.lower(touched(jobs.LaneID{Client: "erp", Shard: 1}, at(3)))
			m.end(erp, s, at(9))
		}, at(9)},
		{"rows of the client are woken during a search", func(m *marks) {
			s := m.begin(erp)
			w := newTouches()
			w.woke("erp", at(3))
			m.lower(w)
			m.end(erp, s, at(9))
		}, time.Time{}},
		{"rows of the client were woken", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			w := newTouches()
			w.woke("erp", at(3))
			m.lower(w)
		}, at(3)},
		{"a transaction that changed rows which it had not read is undone", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			w := touched(jobs.LaneID{Client: "crm"}, at(3))
			w.unread = true
			m.undone(w)
		}, time.Time{}},
		{"a transaction that only read what it held is undone", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			m.undone(touched(erp, at(3)))
		}, at(3)},
		{"such a transaction is undone during a search", func(m *marks) {
			m.end(erp, m.begin(erp), at(5))
			s := m.begin(erp)
			w := newTouches()
			w.unread = true
			m.undone(w)
			m.end(erp, s, at(9))
		}, time.Time{}},
		{"rows of another client were woken", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			w := newTouches()
			w.woke("crm", at(3))
			m.lower(w)
		}, at(9)},
		{"a look finds an earlier row", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			m.found(erp, m.begin(erp), true, at(4))
		}, at(4)},
		{"a look finds nothing", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			m.found(erp, m.begin(erp), false, time.Time{})
		}, at(9)},
		{"a look finds a later row", func(m *marks) {
			m.end(erp, m.begin(erp), at(9))
			m.found(erp, m.begin(erp), true, at(20))
		}, at(9)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMarks()
			c.do(m)
			if got := m.of(erp).low; got != c.want {
				t.Errorf("the mark stands at %v, want %v", got, c.want)
			}
		})
	}
}

// Who searches while rows are being changed passes over them, and remembers that there
// is nothing due before what was found.
func TestRowsWhoseChangeWasUndoneAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), pgtest.DSN(t), Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	ctx := t.Context()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for what, change := range map[string]func(tx jobs.Tx, r jobs.Row) error{
		"put": func(tx jobs.Tx, r jobs.Row) error {
			r.Client = "crm"
			return tx.PutRows(ctx, []jobs.Row{r})
		},
		"patched": func(tx jobs.Tx, r jobs.Row) error {
			r.State = jobs.Dead
			return tx.PatchRows(ctx, []jobs.Row{r})
		},
		"closed": func(tx jobs.Tx, r jobs.Row) error {
			closed, _, err := tx.CloseRows(ctx, r.Client, []jobs.Closing{{RowID: r.RowID, Generation: 1, Attempt: 1, Class: "applied"}}, start)
			if len(closed) != 1 {
				t.Errorf("%d rows were closed, want 1", len(closed))
			}
			return err
		},
		"woken": func(tx jobs.Tx, r jobs.Row) error {
			n, err := tx.Wake(ctx, r.Client, []jobs.EntityKey{{Entity: "party", Key: "P"}}, start.Add(2*time.Hour))
			if n != 1 {
				t.Errorf("%d rows were woken, want 1", n)
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			row := func(key string, due time.Time) jobs.Row {
				return jobs.Row{RowID: jobs.RowID{Flow: what, Key: key}, Client: what, State: jobs.Ready, Generation: 1, DueAt: due}
			}
			a, b := row("A", start), row("B", start.Add(time.Minute))
			if what == "woken" {
				a.WaitEntity, a.WaitKey = "party", "P"
			}
			due := func(want ...string) {
				t.Helper()
				var keys []string
				err := e.Update(ctx, func(tx jobs.Tx) error {
					rows, err := tx.Due(ctx, jobs.LaneID{Client: what}, start.Add(time.Hour), 10)
					keys = nil
					for _, r := range rows {
						keys = append(keys, r.Key)
					}
					return err
				})
				if err != nil || !slices.Equal(keys, want) {
					t.Errorf("due are %v (%v), want %v", keys, err, want)
				}
			}
			if err := e.Update(ctx, func(tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{a, b}) }); err != nil {
				t.Fatal(err)
			}
			due("A", "B") // the first search goes without a mark
			e.marks.mu.Lock()
			e.marks.of(jobs.LaneID{Client: what}).look = time.Now().Add(time.Hour) // the next ones do not
			e.marks.mu.Unlock()
			undone := errors.New("undone")
			err := e.Update(ctx, func(tx jobs.Tx) error {
				if err := change(tx, a); err != nil {
					return err
				}
				due("B")
				return undone
			})
			if !errors.Is(err, undone) {
				t.Fatal(err)
			}
			due("A", "B")
		})
	}
}

func TestASearchThatWasSlowHidesWhatOthersWroteForHalfAMinuteAtMost(t *testing.T) {
	lane := jobs.LaneID{Client: "erp"}
	m := newMarks()
	s := m.begin(lane)
	if !s.whole {
		t.Fatal("the first search goes by a mark")
	}
	s.start = s.start.Add(-time.Hour)
	m.end(lane, s, time.Now())
	if pause := time.Until(m.of(lane).look); pause > lookMost || pause < lookAgain {
		t.Errorf("the next search without the mark is %s later", pause)
	}
}
