package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

var flowSentences = []sentence{
	{"a flow is made when it is first held", func(t *engineTest) {
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			s, err := tx.LockFlow(ctx, "orders")
			t.same("its state", s, jobs.FlowState{Flow: "orders"})
			return err
		})
		t.same("the flows", t.flows(), []jobs.FlowState{{Flow: "orders"}})
	}},
	{"looking at a flow that is not there makes none", func(t *engineTest) {
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			s, err := tx.LockFlow(ctx, "orders")
			t.same("its state", s, jobs.FlowState{Flow: "orders"})
			return err
		})
		t.same("the flows", t.flows(), []jobs.FlowState(nil))
	}},
	{"a flow's state comes back as it was saved", func(t *engineTest) {
		want := []jobs.FlowState{
			{Flow: "a", Cursor: json.RawMessage(`{"after": 12345678901234567890, "at":"2026-11-29T12:00:00.10Z"}`), Epoch: 1 << 60, PageStarts: 3,
				Suspect: "gid\x00://\xff", MovedAt: noon, ReadAt: noon.Add(time.Microsecond),
				Failing:   jobs.Failing{Since: noon.Add(time.Second), Class: connectors.Transient, Code: "http_503", Message: "not now"},
				Suspended: jobs.Standing{Since: noon.Add(time.Minute), Code: "refused", Message: "a field \"x\" is missing"},
				Full:      jobs.Standing{Since: noon.Add(time.Hour), Code: "backlog"}},
			{Flow: "b"},
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, s := range want {
				if err := tx.SaveFlow(ctx, s); err != nil {
					return err
				}
			}
			return nil
		})
		t.same("the flows", t.flows(), want)
		if got := t.flows()[1].Cursor; got != nil {
			t.Errorf("a cursor that was never set is %q, want nil", got)
		}
		want[0].Cursor, want[0].Failing, want[0].Suspended = nil, jobs.Failing{}, jobs.Standing{}
		want[1].Full.Since = time.Unix(0, 0).UTC()
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.SaveFlow(ctx, want[0]); err != nil {
				return err
			}
			return tx.SaveFlow(ctx, want[1])
		})
		t.same("the flows after the cursor was taken back", t.flows(), want)
		for _, w := range want {
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				s, err := tx.LockFlow(ctx, w.Flow)
				t.same("the flow "+w.Flow, s, w)
				return err
			})
		}
	}},
	{"what stands of a flow or a client is kept to the microsecond, and loses what cannot be shown", func(t *engineTest) {
		s := jobs.Standing{Since: time.Date(2026, 3, 29, 2, 30, 0, 123456789, time.FixedZone("CET", 3600)), Code: "x\x00y", Message: "it said \x00\xff\u2028<&>",
			Until: time.Date(2026, 3, 29, 2, 31, 0, 999, time.FixedZone("CET", 3600)), Tries: 7}
		want := jobs.Standing{Since: time.Date(2026, 3, 29, 1, 30, 0, 123456000, time.UTC), Code: "xy", Message: "it said \ufffd\u2028<&>",
			Until: time.Date(2026, 3, 29, 1, 31, 0, 0, time.UTC), Tries: 7}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PutExpiryHold(ctx, "erp", s); err != nil {
				return err
			}
			return tx.SaveFlow(ctx, jobs.FlowState{Flow: "orders", Suspended: s, Full: s})
		})
		t.same("the flow", t.flows(), []jobs.FlowState{{Flow: "orders", Suspended: want, Full: want}})
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			got, err := tx.Clients(ctx)
			t.same("the client", got, []jobs.ClientState{{Client: "erp", ExpiryHeld: want}})
			return err
		})
	}},
	{"admissions of one flow come one after the other", func(t *engineTest) {
		const workers, rounds = 4, 10
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range rounds {
					t.fail("move the cursor", t.e.Update(t.Context(), func(tx jobs.Tx) error {
						s, err := tx.LockFlow(t.Context(), "orders")
						if err != nil {
							return err
						}
						s.Epoch++
						return tx.SaveFlow(t.Context(), s)
					}))
				}
			})
		}
		all.Wait()
		if got := t.flows()[0].Epoch; got != workers*rounds {
			t.Errorf("%d of %d moves are left", got, workers*rounds)
		}
	}},
	{"source records come back as they were put, per flow", func(t *engineTest) {
		rs := []jobs.SourceRecord{
			{ID: "1", Stamp: connectors.Stamp{Epoch: 1, Version: 2, Observed: noon}, Keys: []string{"A", "B\"\x00", "Ü"}},
			{ID: "2\x00", Gone: true},
		}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PutSources(ctx, "products", []jobs.SourceRecord{{ID: "1", Keys: []string{"other"}}}); err != nil {
				return err
			}
			return tx.PutSources(ctx, "orders", append(rs, jobs.SourceRecord{ID: "1"}, rs[0]))
		})
		t.same("the source records", t.sources("orders", "1", "2\x00", "1", "3"), map[string]jobs.SourceRecord{"1": rs[0], "2\x00": rs[1]})
		rs[0].Keys = nil
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutSources(ctx, "orders", rs[:1]) })
		t.same("the replaced record", t.sources("orders", "1"), map[string]jobs.SourceRecord{"1": rs[0]})
	}},
	{"contenders for keys come oldest first", func(t *engineTest) {
		c := func(key, source string, since time.Time) jobs.Contender {
			return jobs.Contender{RowID: rid(key), SourceID: source, Stamp: connectors.Stamp{Epoch: 1, Version: 7, Observed: noon}, ChangedAt: noon,
				Hash: []byte{1, 0}, Body: json.RawMessage(`{"n":1.10}`), Since: since}
		}
		cs := []jobs.Contender{c("A", "late", noon.Add(time.Hour)), c("A", "early", noon), c("B", "middle", noon.Add(time.Minute)), c("C", "none of these", noon),
			{RowID: jobs.RowID{Flow: "products", Key: "A"}, SourceID: "other flow", Since: noon}}
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for _, c := range append(cs, cs[0]) {
				if err := tx.PutContender(ctx, c); err != nil {
					return err
				}
			}
			return nil
		})
		t.same("the contenders", t.contenders("A", "B", "A"), []jobs.Contender{cs[1], cs[2], cs[0]})
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.DeleteContender(ctx, rid("A"), "early"); err != nil {
				return err
			}
			return tx.DeleteContender(ctx, rid("A"), "never there")
		})
		t.same("the contenders left", t.contenders("A"), cs[:1])
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			n, err := tx.CountContenders(ctx)
			t.same("their numbers", n, map[string]int{"orders": 3, "products": 1})
			return err
		})
	}},
	{"clients come back as they were put", func(t *engineTest) {
		want := []jobs.ClientState{
			{Client: "erp", PausedUntil: noon, Reason: "throttled", Evidence: "429", Since: noon.Add(-time.Second), Strikes: 3, Owner: "d-1", SeenAt: noon.Add(time.Second),
				ExpiryHeld: jobs.Standing{Since: noon, Code: "mass_expiry", Message: "1000 in a minute"}},
			{Client: "shop"},
		}
		for range 2 {
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				for _, c := range want {
					if err := errors.Join(tx.PutPause(ctx, c), tx.PutExpiryHold(ctx, c.Client, c.ExpiryHeld)); err != nil {
						return err
					}
				}
				return nil
			})
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				got, err := tx.Clients(ctx)
				t.same("the clients", got, want)
				return err
			})
			want[0].PausedUntil, want[0].Strikes, want[0].ExpiryHeld = time.Time{}, 0, jobs.Standing{}
		}
	}},
	{"a pause and a hold on expiry that are stored at once both stay", func(t *engineTest) {
		pause := jobs.ClientState{Client: "erp", PausedUntil: noon, Reason: "throttled", Evidence: "429", Since: noon, Strikes: 2, Owner: "d-1", SeenAt: noon}
		hold := jobs.Standing{Since: noon, Code: "mass_expiry", Message: "1000 in a minute", Until: noon.Add(time.Hour)}
		putPause := func(tx jobs.Tx) error { return tx.PutPause(t.Context(), pause) }
		putHold := func(tx jobs.Tx) error { return tx.PutExpiryHold(t.Context(), "erp", hold) }
		for _, puts := range [][2]func(jobs.Tx) error{{putPause, putHold}, {putHold, putPause}} {
			// The first has seen the client before the second is stored, where the engine
			// lets them be under way at once.
			stored := make(chan error, 1)
			var once sync.Once
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.Clients(ctx)
				once.Do(func() {
					go func() { stored <- t.e.Update(ctx, puts[1]) }()
					select {
					case err := <-stored:
						stored <- err
					case <-time.After(200 * time.Millisecond):
					}
				})
				return cmp.Or(err, puts[0](tx))
			})
			t.fail("store the other", <-stored)
			want := pause
			want.ExpiryHeld = hold
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				got, err := tx.Clients(ctx)
				t.same("the client", got, []jobs.ClientState{want})
				return err
			})
			pause.Strikes++
			hold.Tries++
		}
	}},
	{"a journal says when it was made and which it is", func(t *engineTest) {
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			m, err := tx.Meta(ctx)
			if at, e := time.Parse(time.RFC3339Nano, m["created_at"]); e != nil || at.IsZero() {
				t.Errorf("created_at is %q: %v", m["created_at"], e)
			}
			if len(m["epoch"]) < 20 {
				t.Errorf("epoch is %q, want something nobody else has", m["epoch"])
			}
			if m["schema"] != "3" {
				t.Errorf("schema is %q, want 3", m["schema"])
			}
			return err
		})
	}},
	{"a fact of the journal's own is as it was written last", func(t *engineTest) {
		for _, value := range []string{"one", "two"} {
			t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutMeta(ctx, "probed_at", value) })
			t.view(func(ctx context.Context, tx jobs.Tx) error {
				m, err := tx.Meta(ctx)
				if m["probed_at"] != value || m["epoch"] == "" {
					t.Errorf("the facts are %v, want probed_at %s beside the others", m, value)
				}
				return err
			})
		}
	}},
	{"empty batches do nothing", func(t *engineTest) {
		t.put(plain("A"))
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for name, do := range map[string]func() (int, error){
				"Sources":        func() (int, error) { s, err := tx.Sources(ctx, "orders", nil); return len(s), err },
				"PutSources":     func() (int, error) { return 0, tx.PutSources(ctx, "orders", nil) },
				"Rows":           func() (int, error) { r, err := tx.Rows(ctx, nil, true); return len(r), err },
				"PutRows":        func() (int, error) { return 0, tx.PutRows(ctx, nil) },
				"PatchRows":      func() (int, error) { return 0, tx.PatchRows(ctx, nil) },
				"Contenders":     func() (int, error) { c, err := tx.Contenders(ctx, "orders", nil); return len(c), err },
				"Links":          func() (int, error) { l, err := tx.Links(ctx, "erp", nil); return len(l), err },
				"PutLinks":       func() (int, error) { return 0, tx.PutLinks(ctx, "erp", nil) },
				"DeleteLinks":    func() (int, error) { return 0, tx.DeleteLinks(ctx, "erp", nil) },
				"AddAttempts":    func() (int, error) { return 0, tx.AddAttempts(ctx, nil) },
				"Wake":           func() (int, error) { return tx.Wake(ctx, "erp", nil, noon) },
				"AddRequests":    func() (int, error) { return 0, tx.AddRequests(ctx, nil) },
				"DeleteRequests": func() (int, error) { return 0, tx.DeleteRequests(ctx, nil) },
				"DropBodies":     func() (int, error) { return tx.DropBodies(ctx, nil) },
				"Heads":          func() (int, error) { r, err := tx.Heads(ctx, "orders", nil, jobs.Dead); return len(r), err },
				"Groups":         func() (int, error) { g, err := tx.Groups(ctx, "orders", nil); return len(g), err },
				"PutGroups":      func() (int, error) { return 0, tx.PutGroups(ctx, nil) },
				"Pins":           func() (int, error) { p, err := tx.Pins(ctx, nil); return len(p), err },
				"PutPins":        func() (int, error) { return 0, tx.PutPins(ctx, nil) },
				"DeletePins":     func() (int, error) { return 0, tx.DeletePins(ctx, nil) },
				"DeleteAttempts": func() (int, error) { return 0, tx.DeleteAttempts(ctx, nil) },
				"RenewLeases":    func() (int, error) { l, err := tx.RenewLeases(ctx, nil, anHour); return len(l), err },
				"DeleteRuns":     func() (int, error) { return 0, tx.DeleteRuns(ctx, nil) },
			} {
				if n, err := do(); err != nil || n != 0 {
					return fmt.Errorf("%s of nothing gave %d: %w", name, n, err)
				}
			}
			return nil
		})
	}},
}

func (t *engineTest) flows() (out []jobs.FlowState) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Flows(ctx)
		return err
	})
	return out
}

func (t *engineTest) sources(flow string, ids ...string) map[string]jobs.SourceRecord {
	t.Helper()
	out := map[string]jobs.SourceRecord{}
	t.view(func(ctx context.Context, tx jobs.Tx) error {
		rs, err := tx.Sources(ctx, flow, ids)
		for _, r := range rs {
			out[r.ID] = r
		}
		if len(out) != len(rs) {
			t.Errorf("%d source records came for %d ids", len(rs), len(out))
		}
		return err
	})
	return out
}

func (t *engineTest) contenders(keys ...string) (out []jobs.Contender) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Contenders(ctx, "orders", keys)
		return err
	})
	return out
}
