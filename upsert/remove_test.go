package upsert_test

import (
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

func strategies() []connectors.Strategy {
	return []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef, connectors.Lookup}
}

func removing(s connectors.Strategy, how string) *jobs.Flow {
	f := defaults(s)
	f.OnDelete = how
	return f
}

func TestRecordThatIsGoneAtTheSource(t *testing.T) {
	for _, s := range strategies() {
		t.Run(string(s)+"/is archived", func(t *testing.T) {
			w := standing(t, removing(s, "archive"), options(s), nil)
			w.want("a", "")
			expect(t, w.one(t), connectors.Applied, "", false, "1")
			if rs := w.target.Records("a"); len(rs) != 1 || !rs[0].Archived {
				t.Errorf("the target holds %+v", rs)
			}
			w.want("a", v1) // and comes back as it was
			expect(t, w.one(t), connectors.Applied, "", false, "1")
			if rs := w.target.Records("a"); len(rs) != 1 || rs[0].Archived {
				t.Errorf("the target holds %+v", rs)
			}
		})
		t.Run(string(s)+"/is deleted", func(t *testing.T) {
			w := standing(t, removing(s, "delete"), options(s), nil)
			w.want("a", "")
			expect(t, w.one(t), connectors.Applied, "", false, "1")
			if rs := w.target.Records("a"); len(rs) != 0 {
				t.Errorf("the target holds %+v", rs)
			}
		})
		t.Run(string(s)+"/is left alone", func(t *testing.T) {
			w := standing(t, defaults(s), options(s), nil)
			w.want("a", v2)
			w.target.Script(plans(faketarget.LoseRequest)...)
			w.one(t)
			calls := len(w.target.Calls())
			w.want("a", "")
			w.rows["a"].DueAt = w.now // too early
			expect(t, w.one(t), connectors.Transient, jobs.CodeSettling, false, "1")
			expect(t, w.one(t), connectors.Unchanged, "ignored", false, "1")
			if len(w.target.Calls()) != calls {
				t.Error("something was sent")
			}
		})
		t.Run(string(s)+"/was never written", func(t *testing.T) {
			w := mustWorld(t, removing(s, "delete"), options(s), nil)
			w.target.Seed("a", `{"v":"theirs"}`)
			w.want("a", v1)
			w.target.Script(plans(faketarget.NotSent)...)
			if s != connectors.ExternalRef { // which creates first, and meets theirs
				w.one(t)
				w.want("a", "")
				w.rows["a"].State = jobs.Ready
				expect(t, w.one(t), connectors.Unchanged, "never_written", false, "")
				standsOnce(t, w, `{"v":"theirs"}`)
			}
		})
		t.Run(string(s)+"/while its create is in doubt", func(t *testing.T) {
			for _, k := range []faketarget.Kind{faketarget.LoseAnswer, faketarget.LoseRequest, faketarget.Late} {
				w := mustWorld(t, removing(s, "delete"), options(s), nil)
				w.want("a", v1)
				w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: k, Delay: time.Minute})
				if s != connectors.Lookup {
					w.target.Script(faketarget.Fault{Kind: k, Delay: time.Minute})
				}
				w.one(t)
				w.want("a", "")
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				if rs := w.target.Records("a"); len(rs) != 0 {
					t.Errorf("%s: the target holds %+v", k, rs)
				}
			}
		})
		t.Run(string(s)+"/and comes back while its removal is in doubt", func(t *testing.T) {
			for _, k := range []faketarget.Kind{faketarget.LoseAnswer, faketarget.LoseRequest, faketarget.Late} {
				f := removing(s, "delete")
				f.OnMissing = "dead" // a deletion of our own is no reason to give up
				w := standing(t, f, options(s), nil)
				w.careless = true
				w.want("a", "")
				w.target.Script(faketarget.Fault{Kind: k, Delay: time.Minute})
				w.one(t)
				w.want("a", v1)
				for range 10 {
					if w.rows["a"].State == jobs.Ready {
						if o := w.one(t); o.Class == connectors.Missing {
							t.Fatalf("%s: told as missing", k)
						}
					}
				}
				w.wait(time.Hour)
				standsOnce(t, w, v1)
			}
		})
	}
}

func TestRemovalFindsTheRecordWhoseLinkLeadsNowhere(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := standing(t, removing(s, "delete"), options(s), func(e *faketarget.Entity) connectors.Entity { return strict{e} })
			w.target.Drop("a")
			w.target.Seed("a", v1)
			w.want("a", "")
			expect(t, w.one(t), connectors.Applied, "", false, "2")
			if rs := w.target.Records("a"); len(rs) != 0 {
				t.Errorf("the target holds %+v", rs)
			}
		})
		t.Run(name+", which is nowhere", func(t *testing.T) {
			w := standing(t, removing(s, "delete"), options(s), func(e *faketarget.Entity) connectors.Entity { return strict{e} })
			w.target.Drop("a")
			w.want("a", "")
			expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
			expect(t, w.one(t), connectors.Unchanged, "not_there", false, "")
		})
		t.Run(name+", of several", func(t *testing.T) {
			w := standing(t, removing(s, "delete"), options(s), nil)
			w.target.Seed("a", v1)
			delete(w.links, "a")
			w.want("a", "")
			expect(t, w.one(t), connectors.Invalid, upsert.CodeAmbiguous, false, "")
			if rs := w.target.Records("a"); len(rs) != 2 {
				t.Errorf("the target holds %+v", rs)
			}
		})
	}
}

func TestRemovalOfARecordCreatedAnewUnderAnIDThatWeNeverLearnt(t *testing.T) {
	for _, s := range strategies() {
		t.Run(string(s), func(t *testing.T) {
			w := standing(t, removing(s, "delete"), options(s), nil)
			w.target.Drop("a")
			w.want("a", v2)
			// The update meets nothing, and whoever created the record again was lost.
			w.rows["a"].UnresolvedAt = w.now
			w.target.Seed("a", v2)
			w.want("a", "")
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			if rs := w.target.Records("a"); len(rs) != 0 {
				t.Errorf("the target holds %+v", rs)
			}
		})
	}
}

func TestRemovalInDoubtIsNotTakenForACreateThatHasArrived(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, removing(s, "delete"), options(s), nil)
			w.want("a", v1)
			creates(w, faketarget.LoseAnswer)
			w.one(t)
			w.want("a", "")
			w.target.Plan(func(c faketarget.Call) faketarget.Fault {
				if c.Op == faketarget.Remove {
					return faketarget.Fault{Kind: faketarget.Late, Delay: time.Minute}
				}
				return faketarget.Fault{}
			})
			expect(t, w.one(t), connectors.Unknown, "timeout", false, "1")
			w.target.Plan(nil)
			// It comes back as it was, and still stands when it is looked at.
			delete(w.links, "a") // the settlement that told the link was lost
			if w.stored != "1" {
				t.Fatalf("before the removal was sent the link stored was %q", w.stored)
			}
			w.links["a"] = w.stored
			w.careless = true
			w.want("a", v1)
			expect(t, w.one(t), connectors.Transient, jobs.CodeSettling, false, "1")
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			if rs := w.target.Records("a"); len(rs) != 1 || w.target.MostAtOnce("a") != 1 {
				t.Errorf("the target holds %+v", rs)
			}
		})
	}
}

func TestNewerVersionIsNotRemoved(t *testing.T) {
	w := standing(t, removing(connectors.Lookup, "delete"), faketarget.Options{Versions: true}, nil)
	w.target.Edit("1", func(r *faketarget.Record) { r.Stamp.Version = 99 })
	delete(w.links, "a")
	w.want("a", "")
	expect(t, w.one(t), connectors.Stale, "newer_version", false, "1")
}

func TestTargetRestoredFromABackup(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(s), options(s), nil)
			backup := w.target.Snapshot()
			w.want("a", v1)
			w.want("b", v1)
			w.one(t)
			w.run(t.Context(), false, "b")
			w.wait(time.Hour)
			w.target.Restore(backup)
			// Ids are given out again, so the links of that time are void, and what was
			// applied is no longer known.
			w.target.Seed("other", `{}`)
			for _, k := range w.keys() {
				delete(w.links, k)
				w.rows[k].AppliedHash, w.rows[k].UnresolvedAt = nil, w.now
				w.want(k, v1)
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v1)
			if n := w.target.Len(); n != 3 {
				t.Errorf("%d records", n)
			}
		})
	}
}

// strict tells a removal through a link that leads nowhere as missing.
type strict struct{ *faketarget.Entity }

func TestUpsertThatMayHaveCreatedTheRecordAnewLearnsItsID(t *testing.T) {
	w := standing(t, removing(connectors.NaturalKey, "delete"), options(connectors.NaturalKey), nil)
	w.want("a", "")
	w.target.Script(plans(faketarget.LoseAnswer)...)
	w.one(t) // removed, and nobody knows
	w.want("a", v2)
	w.target.Script(plans(faketarget.NoLink)...)
	expect(t, w.one(t), connectors.Applied, "", true, "2")
	w.want("a", "")
	expect(t, w.one(t), connectors.Applied, "", false, "2")
	if rs := w.target.Records("a"); len(rs) != 0 {
		t.Errorf("the target holds %+v", rs)
	}
}
