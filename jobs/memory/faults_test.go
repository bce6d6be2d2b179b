package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"syncd/jobs"
	"syncd/jobs/memory"
)

var errDisk = errors.New("the disk failed")

func ready(key string) jobs.Row {
	return jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "sale", State: jobs.Ready, DueAt: time.Unix(1, 0)}
}

func put(ctx context.Context, e jobs.Engine, key string) error {
	return e.Update(ctx, func(tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{ready(key)}) })
}

func keys(t *testing.T, e jobs.Engine) (out []string) {
	t.Helper()
	err := e.View(t.Context(), func(tx jobs.Tx) error {
		rows, err := tx.List(t.Context(), jobs.Filter{})
		for _, r := range rows {
			out = append(out, r.Key)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestATransactionThatIsRefusedBeforeItBeginsIsNotRun(t *testing.T) {
	t.Parallel()
	var seen []string
	refuse := false
	e := opened(t, memory.Options{Before: func(n int64, write bool) error {
		seen = append(seen, fmt.Sprint(n, write))
		if refuse {
			return errDisk
		}
		return nil
	}})
	if err := put(t.Context(), e, "A"); err != nil {
		t.Fatal(err)
	}
	refuse = true
	for i, run := range []func(context.Context, func(jobs.Tx) error) error{e.Update, e.View} {
		if err := run(t.Context(), func(jobs.Tx) error { t.Error("it was run"); return nil }); !errors.Is(err, errDisk) {
			t.Errorf("the error of %d is %v", i, err)
		}
	}
	refuse = false
	if err := put(t.Context(), e, "B"); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, e); !slices.Equal(got, []string{"A", "B"}) {
		t.Errorf("the rows are %v", got)
	}
	if want := []string{"1 true", "2 true", "3 false", "4 true", "5 false"}; !slices.Equal(seen, want) {
		t.Errorf("the transactions were %q, want %q", seen, want)
	}
}

func TestACommitDoesWhatItIsTold(t *testing.T) {
	t.Parallel()
	type fate struct {
		commit bool
		err    error
	}
	unknown := fmt.Errorf("the answer was lost: %w", jobs.ErrCommitUnknown)
	fates := map[int64]fate{1: {true, nil}, 2: {true, unknown}, 3: {false, unknown}, 4: {false, errDisk}, 6: {true, nil}}
	e := opened(t, memory.Options{Commit: func(n int64) (bool, error) {
		f, ok := fates[n]
		if !ok {
			t.Errorf("transaction %d came to its commit", n)
		}
		return f.commit, f.err
	}})
	for n, key := range []string{"", "A", "B", "C", "D"} {
		if n == 0 {
			continue
		}
		if err := put(t.Context(), e, key); !errors.Is(err, fates[int64(n)].err) {
			t.Errorf("transaction %d gave %v, want %v", n, err, fates[int64(n)].err)
		}
	}
	// One that failed by itself has no commit to decide on.
	if err := e.Update(t.Context(), func(jobs.Tx) error { return errDisk }); !errors.Is(err, errDisk) {
		t.Errorf("it gave %v", err)
	}
	if err := put(t.Context(), e, "E"); err != nil {
		t.Error(err)
	}
	if got := keys(t, e); !slices.Equal(got, []string{"A", "B", "E"}) {
		t.Errorf("the rows are %v, want A, B, E", got)
	}
}

func TestWhoWaitsForTheWriterLetsTimeGoOnInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		slow := true
		e := memory.Open(memory.Options{Before: func(_ int64, write bool) error {
			if write && slow {
				slow = false
				time.Sleep(time.Hour)
			}
			return nil
		}})
		start := e.Now()
		done := make(chan error)
		for _, key := range []string{"A", "B", "C"} {
			go func() { done <- put(ctx, e, key) }()
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		synctest.Wait()
		if err := put(short, e, "D"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that waits no longer than a minute got %v", err)
		}
		if got := keys(t, e); len(got) != 0 {
			t.Errorf("while the writer waits there are %v", got)
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := e.Now().Sub(start); took != time.Hour {
			t.Errorf("it took %v, want an hour", took)
		}
		if got := keys(t, e); len(got) != 3 {
			t.Errorf("the rows are %v", got)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
