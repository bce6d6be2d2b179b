package upsert_test

import (
	"fmt"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

// byUpsert makes a world of keys a, b and c under natural_key.
func byUpsert(t *testing.T, f *jobs.Flow, o faketarget.Options) *world {
	t.Helper()
	w := mustWorld(t, f, o, nil)
	for _, k := range []string{"a", "b", "c"} {
		w.want(k, v1)
	}
	return w
}

// spoil plans what happens to the upserts of one key.
func spoil(w *world, key string, k faketarget.Kind) {
	w.target.Plan(func(c faketarget.Call) faketarget.Fault {
		if c.Op == faketarget.Upsert && c.Key == key {
			return faketarget.Fault{Kind: k, Delay: time.Minute}
		}
		return faketarget.Fault{}
	})
}

func TestBatchHasAnOutcomePerRecord(t *testing.T) {
	tests := map[faketarget.Kind]connectors.Class{
		faketarget.Refuse:      connectors.Invalid,
		faketarget.LoseRequest: connectors.Unknown,
		faketarget.FailDone:    connectors.Unknown, // an error of the item, although it was created
		faketarget.BadClass:    connectors.Unknown,
		faketarget.Throttle:    connectors.Throttled,
	}
	for k, class := range tests {
		t.Run(string(k), func(t *testing.T) {
			w := byUpsert(t, defaults(connectors.NaturalKey), faketarget.Options{MaxBatch: 10})
			spoil(w, "b", k)
			os := w.run(t.Context(), false, "a", "b", "c")
			for i, want := range []connectors.Class{connectors.Applied, class, connectors.Applied} {
				if os[i].Class != want {
					t.Errorf("outcome %d is %+v", i, os[i])
				}
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"a", "b", "c"} {
				if n := w.target.MostAtOnce(key); n != 1 {
					t.Errorf("%d records of %s", n, key)
				}
			}
		})
	}
}

func TestBatchThatIsNotAnsweredForAllIsInDoubtAsAWhole(t *testing.T) {
	tests := map[faketarget.Kind]struct{ code, message string }{
		faketarget.Short:       {upsert.CodeShortAnswer, "3 records were sent and 2 answered, so no answer can be told to be this record's"},
		faketarget.PanicBefore: {upsert.CodePanic, "a defect of the connector: it panicked in upsert (string) of 3 records"},
		faketarget.PanicAfter:  {upsert.CodePanic, "a defect of the connector: it panicked in upsert (string) of 3 records"},
	}
	for k, tt := range tests {
		t.Run(string(k), func(t *testing.T) {
			w := byUpsert(t, defaults(connectors.NaturalKey), faketarget.Options{MaxBatch: 10})
			spoil(w, "b", k)
			for _, o := range w.run(t.Context(), false, "a", "b", "c") {
				expect(t, o, connectors.Unknown, tt.code, false, "")
				if o.Message != tt.message {
					t.Errorf("the message is %q", o.Message)
				}
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v1)
		})
	}
}

func TestMoreJobsThanABatchHoldsGoInSeveral(t *testing.T) {
	w := byUpsert(t, defaults(connectors.NaturalKey), faketarget.Options{MaxBatch: 2})
	spoil(w, "a", faketarget.PanicBefore)
	os := w.run(t.Context(), false, "a", "b", "c")
	got := fmt.Sprintf("%s %s %s", os[0].Class, os[1].Class, os[2].Class)
	if got != "unknown unknown applied" {
		t.Errorf("the outcomes are %s", got)
	}
}

func TestUpsertInDoubt(t *testing.T) {
	tests := map[string]struct {
		guarded bool
		refers  bool
		waits   bool
	}{
		"is waited for where nothing guards the record":                     {false, false, true},
		"is sent again at once where older stamps are refused":              {true, false, false},
		"is waited for where one of the same stamp may have sent other ids": {true, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(connectors.NaturalKey), faketarget.Options{Guarded: tt.guarded}, nil)
			w.careless, w.refers = true, tt.refers
			w.want("a", v1)
			spoil(w, "a", faketarget.Late)
			w.one(t)
			w.target.Plan(nil)
			w.want("a", v2)
			o := w.one(t)
			if tt.waits {
				expect(t, o, connectors.Transient, jobs.CodeSettling, false, "")
			} else {
				expect(t, o, connectors.Applied, "", true, "1")
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v2)
			for _, e := range w.target.Effects() {
				if e.Back {
					t.Errorf("an older state came back: %+v", e)
				}
			}
		})
	}
}

func TestRefusalOfAnUpsertDoesNotResolveWhatWasInDoubt(t *testing.T) {
	// Whether the write before it was applied is still not known.
	w := mustWorld(t, defaults(connectors.NaturalKey), faketarget.Options{}, nil)
	w.want("a", v1)
	spoil(w, "a", faketarget.LoseAnswer)
	w.one(t)
	spoil(w, "a", faketarget.Refuse)
	w.want("a", v2)
	expect(t, w.one(t), connectors.Invalid, "http_422", false, "")
}

func TestUpsertThatMustNotTouchWhatWasThere(t *testing.T) {
	refusing := func() *jobs.Flow {
		f := defaults(connectors.NaturalKey)
		f.OnExisting = "refuse"
		return f
	}
	t.Run("finds a record of another hand", func(t *testing.T) {
		w := mustWorld(t, refusing(), faketarget.Options{}, nil)
		w.target.Seed("a", `{"v":"theirs"}`)
		w.want("a", v1)
		expect(t, w.one(t), connectors.Invalid, upsert.CodeExists, false, "")
		standsOnce(t, w, `{"v":"theirs"}`)
	})
	t.Run("cannot look", func(t *testing.T) {
		w := mustWorld(t, refusing(), faketarget.Options{}, nil)
		w.want("a", v1)
		w.target.Script(plans(faketarget.FailUndone)...)
		expect(t, w.one(t), connectors.Transient, "http_500", false, "")
	})
	t.Run("does not look for what may be its own", func(t *testing.T) {
		w := mustWorld(t, refusing(), faketarget.Options{}, nil)
		w.want("a", v1)
		spoil(w, "a", faketarget.LoseAnswer)
		w.one(t)
		expect(t, w.one(t), connectors.Unknown, "timeout", false, "")
		w.target.Plan(nil)
		expect(t, w.one(t), connectors.Unchanged, "", true, "1")
		w.want("a", v2)
		expect(t, w.one(t), connectors.Applied, "", false, "1")
		if n := len(w.target.Calls(faketarget.Find)); n != 1 {
			t.Errorf("%d look-ups", n)
		}
	})
}
