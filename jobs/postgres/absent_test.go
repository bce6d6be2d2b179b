package postgres_test

import (
	"testing"

	"syncd/jobs"
)

// TestWhatSomebodyElseMakesMeanwhileIsSeen has another transaction make a row, its body
// and its source record between the look for them and their storing.
func TestWhatSomebodyElseMakesMeanwhileIsSeen(t *testing.T) {
	t.Parallel()
	e := opened(t, made(t), exclusive)
	mine, other := row("run"), row("run")
	mine.Body, other.Body = []byte(`"mine"`), []byte(`"other"`)
	store := func(tx jobs.Tx, r jobs.Row) error {
		if err := tx.PutSources(t.Context(), r.Flow, []jobs.SourceRecord{{ID: "s", Keys: []string{string(r.Body)}}}); err != nil {
			return err
		}
		return tx.PutRows(t.Context(), []jobs.Row{r})
	}
	var seen []int
	err := e.Update(t.Context(), func(tx jobs.Tx) error {
		rows, err := tx.Rows(t.Context(), []jobs.RowID{mine.RowID}, true)
		if err != nil {
			return err
		}
		records, err := tx.Sources(t.Context(), mine.Flow, []string{"s"})
		if err != nil {
			return err
		}
		if seen = append(seen, len(rows), len(records)); len(seen) == 2 {
			if err := e.Update(t.Context(), func(tx jobs.Tx) error { return store(tx, other) }); err != nil {
				return err
			}
		}
		return store(tx, mine)
	})
	if err != nil || len(seen) != 4 || seen[0]+seen[1] != 0 || seen[2]+seen[3] != 2 {
		t.Errorf("two looks saw %v rows and source records and ended with %v, want 0 0 1 1", seen, err)
	}
	err = e.View(t.Context(), func(tx jobs.Tx) error {
		rows, err := tx.Rows(t.Context(), []jobs.RowID{mine.RowID}, true)
		if err == nil && (len(rows) != 1 || string(rows[0].Body) != `"mine"`) {
			t.Errorf("what is stored is %+v, want the body that was stored last", rows)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestARowIsStoredTwiceInOneTransaction: what was not there is there from then on.
func TestARowIsStoredTwiceInOneTransaction(t *testing.T) {
	t.Parallel()
	e := opened(t, made(t), exclusive)
	runs := 0
	err := e.Update(t.Context(), func(tx jobs.Tx) error {
		runs++
		r := row("twice")
		if _, err := tx.Rows(t.Context(), []jobs.RowID{r.RowID}, false); err != nil {
			return err
		}
		if err := tx.PutRows(t.Context(), []jobs.Row{r}); err != nil {
			return err
		}
		r.Generation++
		return tx.PutRows(t.Context(), []jobs.Row{r})
	})
	if err != nil || runs != 1 {
		t.Errorf("it was run %d times and ended with %v, want once", runs, err)
	}
}
