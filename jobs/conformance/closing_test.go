package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/memory"
)

// reading is an engine that closes nothing where it is: each row is read, settled
// and stored.
type reading struct{ jobs.Engine }

func (e reading) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return e.Engine.Update(ctx, func(tx jobs.Tx) error { return fn(readingTx{tx}) })
}

type readingTx struct{ jobs.Tx }

func (t readingTx) CloseRows(ctx context.Context, _ string, cs []jobs.Closing, _ time.Time) ([]jobs.RowID, []jobs.Row, error) {
	var ids []jobs.RowID
	for _, c := range cs {
		ids = append(ids, c.RowID)
	}
	rows, err := t.Rows(ctx, ids, false)
	return nil, rows, err
}

// counting is an engine that counts what it closes where it is.
type counting struct {
	jobs.Engine
	closed *int
}

func (e counting) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	return e.Engine.Update(ctx, func(tx jobs.Tx) error { return fn(countingTx{tx, e.closed}) })
}

type countingTx struct {
	jobs.Tx
	closed *int
}

func (t countingTx) CloseRows(ctx context.Context, client string, cs []jobs.Closing, now time.Time) ([]jobs.RowID, []jobs.Row, error) {
	closed, rest, err := t.Tx.CloseRows(ctx, client, cs, now)
	*t.closed += len(closed)
	return closed, rest, err
}

// Whether rows are closed where they are or read, settled and stored: the same is
// answered, and the journal is the same afterwards.
func TestClosingARowWhereItIsComesToTheSameAsSettlingIt(t *testing.T) {
	total, closed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		for range 10 { // rapid's own runs are few here
			s := drawSettling(rt)
			total += len(s.ss)
			now := noon.Add(time.Hour)
			engine := func() jobs.Engine { return memory.Open(memory.Options{Now: func() time.Time { return now }}) }
			quick, slow := engine(), engine()
			a := s.play(rt, counting{quick, &closed})
			b := s.play(rt, reading{slow})
			if d := difference(a, b); d != "" {
				rt.Fatalf("closed where they are (-) and settled (+) differ:\n%s", d)
			}
		}
	})
	if closed < total/20 || closed > total*19/20 {
		t.Errorf("%d of %d rows were closed where they are: that proves little", closed, total)
	}
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// settlingCase is a journal with claims, and outcomes of the jobs claimed.
type settlingCase struct {
	rows  []jobs.Row
	claim []jobs.Claim
	ss    []jobs.Settlement
	links []jobs.Link
}

// drawSettling draws rows of which most have nothing unusual, and claims of states of
// them that most rows still have.
func drawSettling(t *rapid.T) (s settlingCase) {
	// rapid draws small numbers more often than others.
	seldom := func(what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 7 }
	flow := &jobs.Flow{Name: "orders", Client: "erp", Entity: "order", OnDelete: pick(t, "on_delete", "ignore", "archive", "delete"), OnMissing: "recreate",
		OnFrozen: "dead", Retry: jobs.DefaultRetry(), Strategy: pick(t, "strategy", connectors.NaturalKey, connectors.NaturalKey, connectors.NaturalKey, connectors.IdempotencyKey)}
	s.claim = []jobs.Claim{{ID: "C-1", Client: "erp", Owner: "me", At: noon}, {ID: "C-2", Client: "erp", Owner: "me", At: noon}}
	if seldom("a claim of others") {
		s.claim[1].Owner = "they"
	}
	keys := []string{"A", "B", "C", "D", "E"}
	for i, key := range keys {
		r := jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "order", SourceID: key, State: jobs.Ready,
			Generation: rapid.Int64Range(1, 2).Draw(t, "generation"), Attempt: rapid.Int64Range(0, 1).Draw(t, "attempt"), DueAt: noon, OpenSince: noon, ReadAt: noon,
			Body: json.RawMessage(`1`), LastClass: pick(t, "last", "", "", connectors.Applied, connectors.Stale)}
		r.Hash = []byte{byte(r.Generation)}
		odd := func(what string, do func()) {
			if rapid.IntRange(0, 29).Draw(t, what) == 17 {
				do()
			}
		}
		odd("gone", func() { r.Gone = true })
		odd("failed", func() {
			r.LastClass, r.LastCode, r.LastMessage, r.Reason, r.Tries, r.Streak, r.LastAt = connectors.Transient, "c", "m", jobs.ReasonRetry, 1, 2, noon
		})
		odd("in doubt", func() { r.UnresolvedAt, r.Reason, r.Misses, r.MissCode = noon, jobs.ReasonUnresolved, 1, "c" })
		odd("misses", func() { r.Misses, r.MissCode, r.Solo, r.FirstTryAt, r.KeyEpoch = 1, "c", true, noon, 3 })
		odd("applied", func() {
			r.AppliedGeneration, r.AppliedHash, r.AppliedAt, r.AppliedGone = 1, []byte{1}, noon, rapid.Bool().Draw(t, "applied gone")
		})
		odd("waits", func() { r.Reason, r.WaitEntity, r.WaitKey = jobs.ReasonWaiting, "order", pick(t, "for", keys...) })
		odd("moves", func() { r.RenamedFrom = pick(t, "from", keys...) })
		odd("moved", func() { r.WaitEntity, r.WaitKey = "order", pick(t, "to", keys...) })
		odd("group", func() { r.Group = "G" })
		odd("sharded", func() { r.Shard = 1 })
		job := &jobs.Job{Row: r, ClaimID: pick(t, "claim", "C-1", "C-2"), Number: r.Attempt + 1}
		o := connectors.Outcome{Class: pick(t, "class", connectors.Applied, connectors.Applied, connectors.Applied, connectors.Unchanged, connectors.AlreadyApplied, connectors.Stale,
			connectors.Transient, connectors.Unknown, connectors.Invalid, connectors.Missing, connectors.Waiting)}
		odd("resolved", func() { o.Resolved = true })
		odd("code", func() { o.Code = pick(t, "code", "c", jobs.CodeCreatedInDoubt) })
		odd("message", func() { o.Message = "m" })
		if rapid.Bool().Draw(t, "link") {
			o.Link = fmt.Sprint(i)
		}
		if o.Class == connectors.Waiting {
			o.WaitEntity, o.WaitKey = "order", pick(t, "for", keys...)
		}
		st := jobs.Settlement{Job: job, Flow: flow, Outcome: o, SentAt: noon, Batch: true, Served: noon}
		odd("reopen", func() { st.Reopen = jobs.EntityKey{Entity: "order", Key: pick(t, "reference", keys...)} })
		// What happens to the row after its job was claimed.
		odd("newer", func() { r.Generation++; r.Hash = []byte{byte(r.Generation)} })
		odd("newer and gone", func() { r.Generation++; r.Hash, r.Gone = []byte("gone"), true })
		odd("tried since", func() { r.Attempt++ })
		odd("closed since", func() { r.State, r.OpenSince, r.DueAt = jobs.Done, time.Time{}, time.Time{} })
		odd("dead since", func() { r.State, r.Reason = jobs.Dead, jobs.ReasonFailed })
		odd("held since", func() { r.State, r.UnresolvedAt = jobs.Held, noon })
		odd("in doubt since", func() { r.UnresolvedAt = noon })
		odd("failed since", func() { r.LastClass = connectors.Lost })
		odd("renamed since", func() { r.RenamedFrom = pick(t, "from", keys...) })
		odd("moved since", func() { r.WaitEntity, r.WaitKey = "order", pick(t, "to", keys...) })
		odd("a key to wait for", func() { r.WaitKey = pick(t, "to", keys...) })
		odd("in a group since", func() { r.Group = "G" })
		if !seldom("pruned") {
			s.rows = append(s.rows, r)
		}
		s.ss = append(s.ss, st)
		odd("twice", func() { s.ss = append(s.ss, st) })
		for i := range s.claim {
			if s.claim[i].ID == job.ClaimID {
				s.claim[i].Jobs = append(s.claim[i].Jobs, jobs.ClaimedJob{RowID: r.RowID, Generation: job.Generation, Attempt: job.Number, Hash: job.Hash})
			}
		}
		odd("a link before", func() { s.links = append(s.links, jobs.Link{EntityKey: r.EntityKey(), Link: `"old"`, SeenAt: noon}) })
	}
	for i := range s.claim {
		s.claim[i].Open = len(s.claim[i].Jobs) + rapid.IntRange(0, 1).Draw(t, "more open")
	}
	return s
}

// play settles the case on an engine, and returns what was answered and all that
// the engine holds then.
func (s settlingCase) play(t *rapid.T, e jobs.Engine) (all struct {
	Settled  []jobs.Settled
	Rows     []jobs.Row
	Claims   []jobs.Claim
	Links    []jobs.Link
	Attempts []jobs.Attempt
}) {
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	pins := []jobs.Pin{{RowID: jobs.RowID{Flow: "orders", Key: "A"}, Operation: "create", Epoch: 4}}
	must(e.Update(ctx, func(tx jobs.Tx) error {
		must(tx.PutRows(ctx, s.rows))
		must(tx.PutLinks(ctx, "erp", s.links))
		must(tx.PutPins(ctx, pins))
		for _, c := range s.claim {
			must(tx.AddClaim(ctx, c))
		}
		return nil
	}))
	j := jobs.New(e, jobs.Options{Owner: "me", Rand: func() float64 { return 0.5 }})
	var err error
	all.Settled, err = j.Settle(ctx, "erp", s.ss)
	must(err)
	must(e.View(ctx, func(tx jobs.Tx) (err error) {
		all.Rows, err = tx.List(ctx, jobs.Filter{Flow: "orders"})
		must(err)
		all.Claims, err = tx.Claims(ctx, "")
		must(err)
		all.Links, err = tx.ListLinks(ctx, "erp", jobs.EntityKey{}, 100)
		must(err)
		all.Attempts, _, err = tx.ListAttempts(ctx, 0, 100)
		return err
	}))
	return all
}
