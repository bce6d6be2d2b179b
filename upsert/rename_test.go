package upsert_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

// rename gives the record of one key another, as the journal does.
func (w *world) rename(from, to, body string) {
	old := w.rows[from]
	next := &jobs.Row{RowID: jobs.RowID{Flow: w.flow.Name, Key: to}, Client: w.flow.Client, Entity: w.flow.Entity}
	if r := w.rows[to]; r != nil {
		next = r
	}
	w.rows[to] = next
	next.RenamedFrom = from
	next.AppliedGeneration, next.AppliedGone, next.AppliedHash, next.AppliedAt = old.AppliedGeneration, old.AppliedGone, nil, old.AppliedAt
	next.UnresolvedAt = old.UnresolvedAt
	next.Generation = max(next.Generation, old.Generation)
	if l, ok := w.links[from]; ok {
		w.links[to] = l
		delete(w.links, from)
	}
	old.State, old.Gone, old.AppliedGone, old.UnresolvedAt = jobs.Done, true, true, time.Time{}
	w.tell("rename %s to %s", from, to)
	w.want(to, body)
}

func renaming(s connectors.Strategy) *jobs.Flow {
	f := defaults(s)
	f.OnRename, f.OnDelete = "rename", "delete"
	return f
}

// linkless is a target whose upserts do not say under which id they wrote.
type linkless struct{ noAdvance }

// A create under a key is in doubt when another record is moved to the key: what is then gone
// at the source stands in the target twice, under the link of the one and by the key of the other.
func TestWhatIsGoneIsRemovedBesideARecordThatWasMovedToItsKey(t *testing.T) {
	for _, s := range []connectors.Strategy{connectors.ExternalRef, connectors.Lookup} {
		t.Run(string(s), func(t *testing.T) {
			w := standing(t, renaming(s), options(s), nil)
			w.target.Seed("b", v1) // the create whose answer was lost
			w.rename("a", "b", v2)
			w.rows["b"].UnresolvedAt = w.now.Add(-time.Hour)
			w.want("b", "")
			expect(t, w.run(t.Context(), false, "b")[0], connectors.Applied, "", true, "2")
			if n := w.target.Len(); n != 0 {
				t.Errorf("%d records still stand in the target: %+v, %+v", n, w.target.Records("a"), w.target.Records("b"))
			}
		})
	}
}

// The move gives way to what the create in doubt has made: one record stands, and it is as wanted.
func TestAMoveGivesWayToACreateInDoubtUnderItsNewKey(t *testing.T) {
	for _, s := range []connectors.Strategy{connectors.ExternalRef, connectors.Lookup} {
		t.Run(string(s), func(t *testing.T) {
			w := standing(t, renaming(s), options(s), nil)
			w.target.Seed("b", v1)
			w.rename("a", "b", v2)
			w.rows["b"].UnresolvedAt = w.now.Add(-time.Hour)
			expect(t, w.run(t.Context(), false, "b")[0], connectors.Applied, "", true, "2")
			if w.target.Len() != 1 || len(w.target.Records("b")) != 1 || w.target.Records("b")[0].Body != v2 {
				t.Errorf("the target holds %+v and %+v", w.target.Records("a"), w.target.Records("b"))
			}
		})
		t.Run(string(s)+"/not to a record of somebody else", func(t *testing.T) {
			f := renaming(s)
			f.OnExisting = "refuse"
			w := standing(t, f, options(s), nil)
			w.target.Seed("b", v1)
			w.rename("a", "b", v2)
			o := w.run(t.Context(), false, "b")[0]
			if n := w.target.Len(); n != 2 || s == connectors.ExternalRef && o.Class != connectors.Invalid {
				t.Errorf("%s, and %d records stand in the target", o.Class, n)
			}
		})
	}
}

func TestRecordThatChangesItsKey(t *testing.T) {
	known := map[bool]string{true: "its link known", false: "its link not known"}
	for _, s := range strategies() {
		for isKnown, name := range known {
			t.Run(fmt.Sprintf("%s/%s", s, name), func(t *testing.T) {
				w := standing(t, renaming(s), options(s), nil)
				if !isKnown {
					delete(w.links, "a")
				}
				w.rename("a", "b", v2)
				o := w.run(t.Context(), false, "b")[0]
				expect(t, o, connectors.Applied, "", false, "1")
				if w.target.Len() != 1 || len(w.target.Records("b")) != 1 || w.target.Records("b")[0].Body != v2 {
					t.Errorf("the target holds %+v and %+v", w.target.Records("a"), w.target.Records("b"))
				}
			})
			for _, says := range []string{"recreate", "refuse"} {
				t.Run(fmt.Sprintf("%s/%s, although its flow says %s by now", s, name, says), func(t *testing.T) {
					w := standing(t, renaming(s), options(s), nil)
					if !isKnown {
						delete(w.links, "a")
					}
					w.rename("a", "b", v2)
					w.flow.OnRename, w.flow.OnDelete = says, "ignore"
					w.run(t.Context(), false, "b")
					if w.target.Len() != 1 || len(w.target.Records("b")) != 1 || w.target.Records("b")[0].Body != v2 {
						t.Errorf("the target holds %+v and %+v", w.target.Records("a"), w.target.Records("b"))
					}
				})
			}
			t.Run(fmt.Sprintf("%s/%s, and is gone before that was written", s, name), func(t *testing.T) {
				w := standing(t, renaming(s), options(s), nil)
				if !isKnown {
					delete(w.links, "a")
				}
				w.rename("a", "b", v2)
				w.want("b", "")
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				if n := w.target.Len(); n != 0 {
					t.Errorf("the target holds %d records", n)
				}
			})
		}
		t.Run(string(s)+"/to one that another record has", func(t *testing.T) {
			w := standing(t, renaming(s), options(s), nil)
			w.target.Seed("b", `{"v":"theirs"}`)
			delete(w.links, "a")
			w.rename("a", "b", v2)
			o := w.run(t.Context(), false, "b")[0]
			expect(t, o, connectors.Invalid, upsert.CodeExists, false, "")
			if want := "thing a cannot get the key b: it is 1, and 2 has that key; leave the key to one of them, then replay this job"; o.Message != want {
				t.Errorf("the message is %q", o.Message)
			}
			if w.target.Records("a")[0].Body != v1 || w.target.Records("b")[0].Body != `{"v":"theirs"}` {
				t.Error("a record was changed")
			}
		})
		t.Run(string(s)+"/while a write of it is in doubt", func(t *testing.T) {
			w := mustWorld(t, renaming(s), options(s), nil)
			w.careless = true
			w.want("a", v1)
			w.target.Plan(func(c faketarget.Call) faketarget.Fault {
				if c.Op == faketarget.Find {
					return faketarget.Fault{}
				}
				return faketarget.Fault{Kind: faketarget.Late, Delay: time.Minute}
			})
			w.one(t)
			w.rename("a", "b", v2)
			expect(t, w.run(t.Context(), false, "b")[0], connectors.Transient, jobs.CodeSettling, false, "")
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			if w.target.Len() != 1 || len(w.target.Records("b")) != 1 {
				t.Errorf("the target holds %+v and %+v", w.target.Records("a"), w.target.Records("b"))
			}
		})
	}
}

// TestRenamedRecordStaysOne plays random histories of one source record whose
// key changes, on targets that tell their ids and on one that does not.
func TestRenamedRecordStaysOne(t *testing.T) {
	for _, s := range strategies() {
		t.Run(string(s), rapid.MakeCheck(func(t *rapid.T) {
			f := renaming(s)
			f.OnDelete = rapid.SampledFrom([]string{"ignore", "archive", "delete"}).Draw(t, "on_delete")
			o := options(s)
			o.Guarded = rapid.Bool().Draw(t, "guarded")
			o.IndexLag = rapid.SampledFrom([]time.Duration{0, 20 * time.Second}).Draw(t, "index_lag")
			less := withoutAdvance
			if s == connectors.NaturalKey && rapid.Bool().Draw(t, "linkless") {
				less = func(e *faketarget.Entity) connectors.Entity { return linkless{withoutAdvance(e).(noAdvance)} }
			}
			w, err := newWorld(f, o, less)
			if err != nil {
				t.Fatal(err)
			}
			w.careless = rapid.Bool().Draw(t, "careless lane")
			key := "a"
			w.want(key, bodies[0])
			for range rapid.IntRange(2, 25).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"run", "run", "want", "rename", "run", "wait"}).Draw(t, "step") {
				case "want":
					w.want(key, rapid.SampledFrom(bodies).Draw(t, "body"))
				case "rename":
					to := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "to")
					row := w.rows[key]
					if to != key && row.RenamedFrom == "" && (row.Applied() || row.Unresolved() || w.links[key] != "") {
						w.rename(key, to, rapid.SampledFrom(bodies).Draw(t, "body"))
						key = to
					}
				case "wait":
					w.wait(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
				default:
					w.attempt(t, settleTime-o.IndexLag, key)
				}
			}
			if rapid.Bool().Draw(t, "gone") {
				w.want(key, "")
			}
			if err := w.finish(); err != nil {
				t.Fatalf("%v\n%v", err, w)
			}
			row := w.rows[key]
			if row.State != jobs.Done || row.Unresolved() && !(row.Gone && f.OnDelete == "ignore") {
				t.Fatalf("row %s ends %s after %s %s\n%v", key, row.State, row.LastClass, row.LastCode, w)
			}
			rs := w.target.Records(key)
			switch n := w.target.Len(); {
			case row.Gone && f.OnDelete == "delete" && n != 0:
				t.Fatalf("it is gone, and %d records stand\n%v", n, w)
			case n > 1:
				t.Fatalf("%d records stand\n%v", n, w)
			case !row.Gone && (len(rs) != 1 || rs[0].Body != string(row.Body) || rs[0].Archived):
				t.Fatalf("%s is desired as %s, and the target holds %+v\n%v", key, row.Body, rs, w)
			}
		}))
	}
}

func TestRecordThatWasRemovedAndCreatedAnewChangesItsKeyAllTheSame(t *testing.T) {
	for _, s := range strategies() {
		t.Run(string(s), func(t *testing.T) {
			w := standing(t, renaming(s), options(s), nil)
			w.want("a", "")
			w.target.Script(plans(faketarget.LoseAnswer)...)
			w.one(t) // removed, and nobody knows
			// Created anew by a write whose answer was lost, while its key changed.
			w.target.Seed("a", v1)
			w.rename("a", "b", v2)
			w.wait(time.Hour)
			o := w.run(t.Context(), false, "b")[0]
			expect(t, o, connectors.Applied, "", true, "2")
			if w.target.Len() != 1 || len(w.target.Records("b")) != 1 {
				t.Errorf("the target holds %+v and %+v", w.target.Records("a"), w.target.Records("b"))
			}
		})
	}
}

func TestRecordCreatedAnewUnderItsNewKeyByAnUpsertLearnsItsID(t *testing.T) {
	w := standing(t, renaming(connectors.NaturalKey), options(connectors.NaturalKey), nil)
	w.want("a", "")
	w.target.Script(plans(faketarget.LoseAnswer)...)
	w.one(t) // removed, and nobody knows
	w.rename("a", "b", v2)
	w.wait(time.Hour)
	w.target.Plan(func(c faketarget.Call) faketarget.Fault {
		if c.Op == faketarget.Upsert {
			return faketarget.Fault{Kind: faketarget.NoLink}
		}
		return faketarget.Fault{}
	})
	expect(t, w.run(t.Context(), false, "b")[0], connectors.Applied, "", true, "2")
}
