package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"syncd/jobs"
)

// TestACommitThatTheServerRefusesIsRunAgain has a trigger that runs at COMMIT
// refuse the first ones. A sequence counts them, since it is not rolled back.
func TestACommitThatTheServerRefusesIsRunAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		runs       int // in all; 1 for not again
	}{
		{"not serializable", "40001", 3},
		{"deadlock", "40P01", 3},
		{"a constraint", "23514", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := made(t)
			e := opened(t, dsn, exclusive)
			do(t, session(t, dsn), fmt.Sprintf(`CREATE SEQUENCE public.commits;
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('public.commits') < 3 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '%s'; END IF;
  RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON syncd.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.refuse()`, c.code))
			runs := 0
			err := e.Update(t.Context(), func(tx jobs.Tx) error {
				runs++
				return tx.PutRows(t.Context(), []jobs.Row{row(fmt.Sprint("run ", runs))})
			})
			var refused *pgconn.PgError
			if runs != c.runs || (err == nil) != (c.runs == 3) || err != nil && (!errors.As(err, &refused) || errors.Is(err, jobs.ErrCommitUnknown)) {
				t.Errorf("it was run %d times and ended with %v, want %d runs", runs, err, c.runs)
			}
			want := int64(0)
			if c.runs == 3 {
				want = 1
			}
			if n := count(t, e); n != want {
				t.Errorf("%d rows are there, want %d", n, want)
			}
		})
	}
}
