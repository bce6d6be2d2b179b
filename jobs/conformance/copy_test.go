package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// place opens an empty journal of its own.
type place struct {
	name string
	open func(t *testing.T) jobs.Engine
}

var (
	inSQLite = place{"SQLite", func(t *testing.T) jobs.Engine {
		e, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		closes(t, e)
		return e
	}}
	inPostgreSQL = place{"PostgreSQL", func(t *testing.T) jobs.Engine {
		e, err := postgres.Open(t.Context(), pgtest.DSN(t), postgres.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		closes(t, e)
		return e
	}}
)

// filled does random transactions on an engine, about everything that a journal holds.
func filled(t *testing.T, e jobs.Engine, seed int) {
	t.Helper()
	ctx := t.Context()
	at := time.Date(2026, 11, 29, 10, 0, 0, 123456000, time.UTC)
	committed := rapid.Custom(func(rt *rapid.T) (n int) {
		for world := range 3 {
			w := &worldFill{world: world, at: at}
			n += w.fill(ctx, rt, e)
		}
		return n
	}).Example(seed)
	if committed < 100 {
		t.Fatalf("only %d transactions were committed", committed)
	}
}

type worldFill struct {
	world int
	at    time.Time
}

func (x *worldFill) fill(ctx context.Context, rt *rapid.T, e jobs.Engine) (committed int) {
	w := &world{n: x.world, now: func() time.Time { return x.at }, t: rt}
	for _, topic := range w.topics() {
		verbs := w.verbs(topic)
		for _, name := range slices.Sorted(maps.Keys(verbs)) {
			for range 5 {
				do := verbs[name]()
				if e.Update(ctx, func(tx jobs.Tx) error { return do(ctx, tx) }) == nil {
					committed++
				}
			}
		}
	}
	for range 10 { // what others of these verbs have pruned
		do := w.historyVerbs()["AddAttempts"]()
		_ = e.Update(ctx, func(tx jobs.Tx) error { return do(ctx, tx) })
	}
	// A flow has no records before it was read. No daemon may be at work.
	_ = e.Update(ctx, func(tx jobs.Tx) error {
		ms, err := tx.Daemons(ctx)
		if err != nil {
			return err
		}
		for _, m := range ms {
			if err := tx.DeleteDaemon(ctx, m.Owner); err != nil {
				return err
			}
		}
		for _, f := range []string{"f", "g"} {
			if _, err := tx.LockFlow(ctx, fmt.Sprint(f, "-", x.world)); err != nil {
				return err
			}
		}
		return tx.PutMeta(ctx, "idempotency_secret", "00112233445566778899aabbccddeeff")
	})
	return committed
}

// held is all that a journal holds, but for what each has of its own.
func held(t *testing.T, e jobs.Engine) map[string]any {
	t.Helper()
	ctx := context.Background()
	out := map[string]any{}
	put := func(what string, v any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		out[what] = v
	}
	err := e.View(ctx, func(tx jobs.Tx) error {
		rows, err := tx.List(ctx, jobs.Filter{Limit: most})
		if err != nil {
			return err
		}
		ids := make([]jobs.RowID, len(rows))
		for i := range rows {
			ids[i] = rows[i].RowID
		}
		rows, err = tx.Rows(ctx, ids, true)
		put("rows", by(rowName)(rows), err)
		flows, err := tx.Flows(ctx)
		put("flows", by(func(s jobs.FlowState) string { return s.Flow })(flows), err)
		for _, f := range flows {
			srcs, err := tx.ListSources(ctx, f.Flow, "", most)
			put("sources of "+f.Flow, srcs, err)
			cs, err := tx.ListContenders(ctx, f.Flow, jobs.Contender{}, most)
			put("contenders of "+f.Flow, cs, err)
			gs, err := tx.ListGroups(ctx, f.Flow, "", most)
			put("groups of "+f.Flow, gs, err)
		}
		all, err := tx.LinkClients(ctx)
		put("clients with links", by(func(s string) string { return s })(all), err)
		for _, c := range all {
			ls, err := tx.ListLinks(ctx, c, jobs.EntityKey{}, most)
			put("links of "+c, ls, err)
		}
		pins, err := tx.ListPins(ctx, jobs.Pin{}, most)
		put("pins", pins, err)
		as, _, err := tx.ListAttempts(ctx, 0, most)
		put("attempts", as, err)
		rs, err := tx.ListRequests(ctx, 0, most)
		for i := range rs {
			rs[i].ID = 0
		}
		// Those of one moment are asked in any order.
		put("requests", by(func(r jobs.Request) string {
			return fmt.Sprint(r.At.UnixMicro(), r.Client, r.Flow, r.SourceID, r.Kind, r.Key)
		})(rs), err)
		clients, err := tx.Clients(ctx)
		put("clients", by(func(c jobs.ClientState) string { return c.Client })(clients), err)
		claims, err := tx.Claims(ctx, "")
		put("claims", by(func(c jobs.Claim) string { return c.ID })(claims), err)
		runs, err := tx.Runs(ctx, false, most)
		for i := range runs {
			runs[i].ID = 0 // its order shows
		}
		put("runs", runs, err)
		meta, err := tx.Meta(ctx)
		for _, own := range []string{"schema", "epoch", "epoch_number", "journal", "marked_by", "file", "moving", "copying"} {
			delete(meta, own)
		}
		put("facts", meta, err)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var errPower = errors.New("the power is cut")

// shaky is an engine of which transactions fail now and then, committed or not.
type shaky struct {
	jobs.Engine
	n int
}

func (s *shaky) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	s.n++
	switch s.n % 7 {
	case 3:
		if err := s.Engine.Update(ctx, fn); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", jobs.ErrCommitUnknown, errPower)
	case 6:
		return s.Engine.Update(ctx, func(tx jobs.Tx) error { return errors.Join(fn(tx), errPower) })
	}
	return s.Engine.Update(ctx, fn)
}

// copied copies a journal, each step by another process, of which some die.
func copied(t *testing.T, from, to jobs.Engine) (deaths int) {
	t.Helper()
	a, b := &shaky{Engine: from}, &shaky{Engine: to}
	for range 5000 {
		c, err := jobs.BeginCopy(t.Context(), jobs.New(a, jobs.Options{Owner: "a"}), jobs.New(b, jobs.Options{Owner: "b"}), 7)
		over := false
		for range 3 {
			if err == nil && !over {
				over, err = c.Step(t.Context())
			}
		}
		switch {
		case err == nil && over:
			return deaths
		case errors.Is(err, jobs.ErrMoved) && jobs.New(to, jobs.Options{}).Runnable(t.Context()) == nil:
			return deaths // its last step was committed, and it did not hear of it
		case err != nil && !errors.Is(err, errPower):
			t.Fatal(err)
		case errors.Is(err, jobs.ErrCommitUnknown) && jobs.New(to, jobs.Options{}).Runnable(t.Context()) == nil:
			return deaths // the same, and the next would be told jobs.ErrMoved
		case err != nil:
			deaths++
		}
		if jobs.New(to, jobs.Options{}).Runnable(t.Context()) == nil {
			t.Fatal("the copy may be run before it is complete")
		}
	}
	t.Fatal("it does not end")
	return 0
}

func TestAJournalThatIsCopiedIsTheSameInTheOtherEngine(t *testing.T) {
	for _, way := range [][2]place{{inSQLite, inPostgreSQL}, {inPostgreSQL, inSQLite}} {
		t.Run(way[0].name+" to "+way[1].name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			from, to := way[0].open(t), way[1].open(t)
			filled(t, from, 1)
			before := held(t, from)
			was, err := jobs.New(from, jobs.Options{}).Epoch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if deaths := copied(t, from, to); deaths < 5 {
				t.Errorf("it died only %d times", deaths)
			}
			after := held(t, to)
			if d := gocmp.Diff(before, after, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("the copy differs (-from +to):\n%s", d)
			}
			if d := gocmp.Diff(before, held(t, from), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("what was copied has changed:\n%s", d)
			}
			for _, what := range []string{"rows", "pins", "attempts", "requests", "claims", "runs", "clients"} {
				if b, _ := json.Marshal(after[what]); len(b) < 100 {
					t.Errorf("hardly any %s were copied: %s", what, b)
				}
			}
			// The old one is no journal to work on any more, and the new one follows on it.
			a, b := jobs.New(from, jobs.Options{Owner: "a"}), jobs.New(to, jobs.Options{Owner: "b"})
			if err := a.Join(ctx, nil, jobs.DefaultTerms()); !errors.Is(err, jobs.ErrMoved) {
				t.Errorf("a daemon joins the old journal: %v", err)
			}
			if _, err := a.Mark(ctx, jobs.Epoch{}); !errors.Is(err, jobs.ErrMoved) {
				t.Errorf("a daemon goes on with the old journal: %v", err)
			}
			if _, err := a.CancelCopy(ctx); !errors.Is(err, jobs.ErrMoved) && !errors.Is(err, jobs.ErrInUse) {
				t.Errorf("a copy that is complete is taken back: %v", err)
			}
			is, err := b.Mark(ctx, was)
			if err != nil || is.Journal != was.Journal || is.Number <= was.Number || is.ID == was.ID {
				t.Errorf("the new journal stands at %+v after %+v, %v", is, was, err)
			}
			if _, err := jobs.BeginCopy(ctx, b, a, 0); !errors.Is(err, jobs.ErrNotEmpty) {
				t.Errorf("it is copied over another: %v", err)
			}
		})
	}
}

func TestACopyIsRefusedOrEndedInWords(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to, other := inSQLite.open(t), inSQLite.open(t), inSQLite.open(t)
	a, b, c := jobs.New(from, jobs.Options{Owner: "a"}), jobs.New(to, jobs.Options{Owner: "b"}), jobs.New(other, jobs.Options{Owner: "c"})
	begin := func(what string, x, y *jobs.Journal, want error) {
		t.Helper()
		if _, err := jobs.BeginCopy(ctx, x, y, 0); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	if err := a.Join(ctx, nil, jobs.DefaultTerms()); err != nil {
		t.Fatal(err)
	}
	begin("beside a daemon", a, b, jobs.ErrInUse)
	if err := a.Runnable(ctx); err != nil {
		t.Errorf("a journal that was not copied is marked: %v", err)
	}
	if err := a.Part(ctx); err != nil {
		t.Fatal(err)
	}
	begin("once more", a, b, nil)
	begin("to another place", a, c, jobs.ErrMoved)
	begin("a copy that is not complete", b, c, jobs.ErrPartial)
	for j, want := range map[*jobs.Journal]error{a: jobs.ErrMoved, b: jobs.ErrPartial, c: nil} {
		if err := j.Runnable(ctx); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", j.Describe(), err, want)
		}
		_, _, _, err := j.BeginRestore(ctx, j.Now(), 0, "", "ann")
		if !errors.Is(err, want) {
			t.Errorf("a restore of %s: %v, want %v", j.Describe(), err, want)
		}
	}
	if ok, err := a.CancelCopy(ctx); err != nil || !ok {
		t.Fatalf("cancel: %v, %v", ok, err)
	}
	if ok, err := a.CancelCopy(ctx); err != nil || ok {
		t.Fatalf("cancel what is not there: %v, %v", ok, err)
	}
	if err := a.Runnable(ctx); err != nil {
		t.Error(err)
	}
	begin("a part of what has gone on meanwhile", a, b, jobs.ErrNotEmpty)
	if err := a.Runnable(ctx); err != nil {
		t.Errorf("marked by a copy that was refused: %v", err)
	}
}
