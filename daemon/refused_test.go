package daemon

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// choosy is a journal that takes everything but what is read.
type choosy struct {
	soleEngine
	// refuses is the error that admissions meet; nil for none.
	refuses atomic.Pointer[error]
}

type choosyTx struct {
	jobs.Tx
	e *choosy
}

func (t choosyTx) PutSources(ctx context.Context, flow string, rs []jobs.SourceRecord) error {
	if err := t.e.refuses.Load(); err != nil {
		return *err
	}
	return t.Tx.PutSources(ctx, flow, rs)
}

func (e *choosy) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return e.soleEngine.Update(ctx, func(tx jobs.Tx) error { return fn(choosyTx{tx, e}) })
}

// choosing puts such a journal under the world's daemon.
func (w *world) choosing() *choosy {
	e := &choosy{soleEngine: w.engine}
	w.journal = jobs.New(e, jobs.Options{Owner: "first"})
	return e
}

func TestJournalThatDoesNotTakeWhatIsReadMakesReadingFail(t *testing.T) {
	for name, refusal := range map[string]error{
		"for a fault":                    errors.New("a page of the file is not as it was"),
		"and does not know what came of": jobs.ErrCommitUnknown,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				e := w.choosing()
				w.start()
				w.pass(5 * time.Second)
				if got := w.daemon.Refused(); len(got) > 0 {
					t.Fatalf("refused %v before anything was", got)
				}
				e.refuses.Store(&refusal)
				w.shop.put("1", 1, `{"key":"A"}`)
				pulls := w.shop.pulled()
				w.pass(time.Hour)
				if n := w.shop.pulled() - pulls; n > 7200 {
					t.Errorf("the source was asked %d times in an hour", n)
				}
				if got := w.daemon.Refused(); !slices.Equal(got, []string{"orders"}) {
					t.Errorf("refused flows %v", got)
				}
				if f := w.state().Failing; f.Code != "journal" || f.Class != connectors.Transient || time.Since(f.Since) < 59*time.Minute {
					t.Errorf("the status says %+v", f)
				}
				if n := w.state().PageStarts; n > 1 {
					t.Errorf("the page counts as having ended the daemon %d times", n-1)
				}
				e.refuses.Store(nil)
				w.pass(time.Minute)
				w.holds(w.orders, "A", `{"key":"A"}`)
				if got, s := w.daemon.Refused(), w.state(); len(got) > 0 || s.Failing != (jobs.Failing{}) || s.PageStarts != 0 {
					t.Errorf("after it takes all again: refused %v, %+v", got, s)
				}
			})
		})
	}
}

func TestDaemonThatIsStoppedWhileAPageCannotBeAdmittedWasNotEndedByIt(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.choosing()
		refusal := errors.New("no")
		e.refuses.Store(&refusal)
		w.shop.put("1", 1, `{"key":"A"}`)
		for range 3 * deaths {
			w.start()
			w.pass(10 * time.Second)
			w.end()
			if n := w.state().PageStarts; n != 0 {
				t.Fatalf("%d beginnings are counted after a stop", n)
			}
		}
		w.begunInVain() // and while its events are under suspicion
		for range 3 * deaths {
			w.start()
			w.pass(10 * time.Second)
			w.end()
		}
		e.refuses.Store(nil)
		w.start()
		w.pass(time.Minute)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}
