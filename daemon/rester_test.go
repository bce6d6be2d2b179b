package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"syncd/jobs"
)

// A daemon that rests looks for what others ask of all its clients at once, every second.
func TestOneThatRestsBeginsWhatOthersAskWithinASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Minute)
		ask := func(id string) {
			w.Helper()
			r := jobs.Request{Client: "shop", Flow: "orders", SourceID: id, Kind: jobs.Refresh, At: time.Now().UTC(), DueAt: time.Now().UTC()}
			if err := w.engine.Update(context.Background(), func(tx jobs.Tx) error { return tx.AddRequests(context.Background(), []jobs.Request{r}) }); err != nil {
				t.Fatal(err)
			}
		}
		fetched := func(want int, when string) {
			w.Helper()
			if n := w.shop.fetched(); n != want {
				w.Errorf("%s the source was asked %d times for a record, want %d", when, n, want)
			}
		}
		ask("1")
		w.pass(lookEvery + 100*time.Millisecond)
		fetched(1, "a second after it was wished for")

		// What cannot be read now is tried again when it is due.
		w.pass(2 * time.Minute)
		w.shop.panicking(true)
		ask("1")
		w.pass(lookEvery + 100*time.Millisecond)
		fetched(2, "while the source fails,")
		w.shop.panicking(false)
		w.pass(10*time.Second + lookEvery)
		fetched(3, "when the put off request was due again,")

		// An errand that another process has opened.
		run, _, err := w.journal.StartRun(context.Background(), jobs.Run{Kind: jobs.RunRemap, Flow: "orders", Client: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(lookEvery + 100*time.Millisecond)
		if rs, err := w.journal.Runs(context.Background(), false, 10); err != nil || len(rs) != 1 || rs[0].ID != run.ID || rs[0].Done == 0 {
			t.Errorf("a second after it was opened the errand stands at %+v, %v", rs, err)
		}
	})
}

// When the look for all fails each looks for itself and so comes to know, and tells, what is wrong.
func TestWhatIsAskedIsAnsweredWhenTheLookForAllFails(t *testing.T) {
	inWorld(t, func(w *world) {
		broken := &unseen{soleEngine: w.engine}
		w.journal = jobs.New(broken, jobs.Options{Owner: "first"})
		w.start()
		w.pass(time.Minute)
		broken.on = true
		r := jobs.Request{Client: "shop", Flow: "orders", SourceID: "1", Kind: jobs.Refresh, At: time.Now().UTC(), DueAt: time.Now().UTC()}
		if err := w.engine.Update(context.Background(), func(tx jobs.Tx) error { return tx.AddRequests(context.Background(), []jobs.Request{r}) }); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * lookEvery)
		if n := w.shop.fetched(); n != 1 {
			t.Errorf("the source was asked %d times for the record, want once", n)
		}
	})
}

// unseen is a journal that fails to say who is asked for something.
type unseen struct {
	soleEngine
	on bool
}

func (b *unseen) View(ctx context.Context, do func(jobs.Tx) error) error {
	return b.soleEngine.View(ctx, func(tx jobs.Tx) error { return do(unasked{tx, b.on}) })
}

type unasked struct {
	jobs.Tx
	on bool
}

func (u unasked) Asked(ctx context.Context, clients []string, now time.Time) ([]string, error) {
	if u.on {
		return nil, errors.New("not now")
	}
	return u.Tx.Asked(ctx, clients, now)
}
