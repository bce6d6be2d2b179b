package upsert_test

import (
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

func TestKeyOfSeveralRecordsIsNeverWrittenTo(t *testing.T) {
	tests := map[string]struct {
		strategy connectors.Strategy
		prepare  func(*testing.T, *world)
	}{
		"lookup":                               {connectors.Lookup, func(*testing.T, *world) {}},
		"external_ref, refused as a duplicate": {connectors.ExternalRef, func(*testing.T, *world) {}},
		"external_ref, tried before": {connectors.ExternalRef, func(t *testing.T, w *world) {
			w.target.Script(plans(faketarget.NotSent)...)
			w.one(t)
		}},
		"external_ref, in doubt and early": {connectors.ExternalRef, func(t *testing.T, w *world) {
			w.careless = true
			w.target.Script(plans(faketarget.LoseRequest)...)
			w.one(t)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(tt.strategy), options(tt.strategy), nil)
			w.want("a", v1)
			w.want("b", v1)
			w.target.Seed("a", `{"v":"x"}`)
			w.target.Seed("a", `{"v":"y"}`)
			tt.prepare(t, w)
			o := w.one(t)
			expect(t, o, connectors.Invalid, upsert.CodeAmbiguous, false, "")
			if !strings.Contains(o.Message, "1, 2") {
				t.Errorf("the message names no ids: %s", o.Message)
			}
			for _, e := range w.target.Effects() {
				if e.Op != "seed" {
					t.Errorf("the target was changed: %+v", e)
				}
			}
			if o := w.run(t.Context(), false, "b")[0]; o.Class != connectors.Applied {
				t.Errorf("another key: %+v", o)
			}
		})
	}
}

func TestRecordThatIsListedTwiceIsOneRecord(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, func(e *faketarget.Entity) connectors.Entity {
		n := withoutAdvance(e).(noAdvance)
		n.Finder = twice{e}
		return n
	})
	w.target.Seed("a", v1)
	w.want("a", v1)
	expect(t, w.one(t), connectors.Unchanged, "", false, "1")
}

func TestRefusedDuplicate(t *testing.T) {
	tests := map[string]struct {
		existing string
		refuse   bool
		faults   []faketarget.Kind
		lag      time.Duration
		class    connectors.Class
		code     string
		link     string
		message  string
	}{
		"that is as asked is adopted":               {existing: v1, class: connectors.Unchanged, link: "1"},
		"that differs is adopted and updated":       {existing: `{}`, class: connectors.Applied, link: "1"},
		"that cannot be looked up is tried again":   {existing: v1, faults: []faketarget.Kind{faketarget.None, faketarget.FailUndone}, class: connectors.Transient, code: "http_500"},
		"that is not there is a refusal of its own": {existing: v1, lag: time.Minute, class: connectors.Invalid, code: "duplicate", message: "the key a is taken"},
		"that was there before us is refused": {existing: v1, refuse: true, class: connectors.Invalid, code: upsert.CodeExists,
			message: "the target already holds thing a, as 1, and flow orders says on_existing: refuse; remove it there, or say on_existing: adopt, then replay this job"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := defaults(connectors.ExternalRef)
			if tt.refuse {
				f.OnExisting = "refuse"
			}
			w := mustWorld(t, f, faketarget.Options{Unique: true, IndexLag: tt.lag}, nil)
			if tt.lag > 0 { // known to the index only later
				w.target.Create(t.Context(), connectors.Write{Key: "a", Body: []byte(tt.existing)})
			} else {
				w.target.Seed("a", tt.existing)
			}
			w.want("a", v1)
			w.target.Script(plans(tt.faults...)...)
			o := w.one(t)
			expect(t, o, tt.class, tt.code, false, tt.link)
			if tt.message != "" && o.Message != tt.message {
				t.Errorf("the message is %q", o.Message)
			}
			if tt.refuse && w.links["a"] != "" {
				t.Error("the link of another's record was stored")
			}
		})
	}
}

func TestCreateOfARecordThatMustBeNewLooksFirst(t *testing.T) {
	// After a create whose answer is lost, a record that was there before could
	// not be told from our own.
	f := defaults(connectors.ExternalRef)
	f.OnExisting = "refuse"
	w := mustWorld(t, f, options(connectors.ExternalRef), nil)
	w.target.Seed("a", `{"v":"before us"}`)
	w.want("a", v1)
	creates(w, faketarget.LoseRequest)
	expect(t, w.one(t), connectors.Invalid, upsert.CodeExists, false, "")
	standsOnce(t, w, `{"v":"before us"}`)
}

func TestRecordThatAlwaysMakesTheTargetFailIsTold(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(s), options(s), nil)
			creates(w, faketarget.FailUndone, faketarget.FailUndone, faketarget.FailUndone)
			w.want("a", v1)
			o := w.one(t)
			expect(t, o, connectors.Unknown, "http_500", false, "")
			for range 2 {
				for o = w.one(t); o.Code == jobs.CodeAbsentOnce; o = w.one(t) {
				}
				// The write before was not applied, and this one failed in the same way.
				expect(t, o, connectors.Unknown, "http_500", true, "")
				if !o.Answered {
					t.Error("the answer is no longer told as one")
				}
			}
		})
	}
}

func TestNewerVersionInTheTargetIsNotOverwritten(t *testing.T) {
	tests := map[string]struct {
		epoch int64
		class connectors.Class
		code  string
	}{
		"in the source's first epoch":      {0, connectors.Stale, "newer_version"},
		"unless the source has begun anew": {1, connectors.Applied, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{Versions: true}, nil)
			w.target.Seed("a", `{"v":"newer"}`)
			w.target.Edit("1", func(r *faketarget.Record) { r.Stamp.Version = 99 })
			w.want("a", v1)
			w.rows["a"].Desired.Epoch = tt.epoch
			expect(t, w.one(t), tt.class, tt.code, false, "1")
		})
	}
}

func TestRecordWithoutAVersionIsNotTakenForANewerOneThanBelowZero(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{Versions: true}, nil)
	w.target.Seed("a", `{"v":"another's"}`)
	w.want("a", v1)
	w.rows["a"].Desired.Version = -5
	expect(t, w.one(t), connectors.Applied, "", false, "1")
}

func TestLookBeforeALaterDoubtDoesNotCount(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.want("a", v1)
	creates(w, faketarget.LoseRequest)
	w.one(t)
	expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
	// A restore of the target, say, puts the record in doubt once more.
	w.rows["a"].UnresolvedAt = w.now.Add(time.Minute)
	w.due(w.rows["a"], w.now)
	expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
	expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
}

func TestRecordFoundAfterSettleTimeIsOurs(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			f := defaults(s)
			f.OnExisting = "refuse"
			w := mustWorld(t, f, options(s), nil)
			w.want("a", v1)
			creates(w, faketarget.LoseAnswer)
			w.one(t)
			w.want("a", v2)
			expect(t, w.one(t), connectors.Applied, "", true, "1")
			standsOnce(t, w, v2)
		})
	}
}

func TestLinkInARefusalIsNotOurs(t *testing.T) {
	w := mustWorld(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), func(e *faketarget.Entity) connectors.Entity {
		n := withoutAdvance(e).(noAdvance)
		n.Creator = owned{}
		return n
	})
	w.want("a", v1)
	expect(t, w.one(t), connectors.Invalid, "duplicate", false, "")
}

func TestArchivedRecordIsBroughtBack(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.target.Seed("a", v1)
	w.target.Edit("1", func(r *faketarget.Record) { r.Archived = true })
	w.want("a", v1)
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	if w.target.Records("a")[0].Archived {
		t.Error("the record is still archived")
	}
}

func TestIndexThatDoesNotYetShowOurOwnDeletionIsNotBelieved(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			o := options(s)
			o.IndexLag = 20 * time.Second
			w := standing(t, removing(s, "delete"), o, nil)
			w.want("a", "")
			expect(t, w.one(t), connectors.Applied, "", false, "1")
			w.want("a", v1) // as the index still shows it
			expect(t, w.one(t), connectors.Transient, jobs.CodeSettling, false, "")
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v1)
		})
	}
}

func TestDuplicateThatTheIndexDoesNotShowYet(t *testing.T) {
	// inDoubt comes to a create that is refused as a duplicate of a record which
	// the look-ups do not show.
	inDoubt := func(t *testing.T) *world {
		w := mustWorld(t, defaults(connectors.ExternalRef), faketarget.Options{Unique: true, IndexLag: 20 * time.Second}, nil)
		w.want("a", v1)
		creates(w, faketarget.LoseRequest)
		w.one(t)
		w.now = w.rows["a"].DueAt
		w.target.Create(t.Context(), connectors.Write{Key: "a", Body: []byte(v1)})
		return w
	}
	t.Run("is looked for once more", func(t *testing.T) {
		w := inDoubt(t)
		expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
		if o := w.one(t); !o.Class.Confirmed() || !o.Resolved || o.Link != "1" {
			t.Errorf("the outcome is %+v", o)
		}
		standsOnce(t, w, v1)
	})
	t.Run("leaves the doubt when it cannot be looked for", func(t *testing.T) {
		w := inDoubt(t)
		w.target.Script(plans(faketarget.None, faketarget.None, faketarget.FailUndone)...)
		expect(t, w.one(t), connectors.Transient, "http_500", false, "")
	})
	t.Run("and that never shows was refused for another reason", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), func(e *faketarget.Entity) connectors.Entity {
			n := withoutAdvance(e).(noAdvance)
			n.Creator = owned{}
			return n
		})
		w.want("a", v1)
		w.rows["a"].UnresolvedAt = w.now
		w.due(w.rows["a"], w.now)
		expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
		expect(t, w.one(t), connectors.Invalid, "duplicate", true, "")
	})
}

type (
	// twice is a look-up that names each record twice.
	twice struct{ connectors.Finder }
	// owned refuses each create and names the record that has the key.
	owned struct{}
)
