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

const (
	v1 = `{"v":1,"state":"open"}`
	v2 = `{"v":2,"state":"confirmed"}`
)

// mustWorld makes a world or ends the test.
func mustWorld(t *testing.T, f *jobs.Flow, o faketarget.Options, less func(*faketarget.Entity) connectors.Entity) *world {
	t.Helper()
	w, err := newWorld(f, o, less)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w)
		}
	})
	return w
}

// one runs the job of key "a" at its due time and returns its outcome.
func (w *world) one(t *testing.T) connectors.Outcome {
	t.Helper()
	row := w.rows["a"]
	if row.State != jobs.Ready {
		t.Fatalf("the job is %s, not ready", row.State)
	}
	if row.DueAt.After(w.now) {
		w.now = row.DueAt
	}
	return w.run(t.Context(), false, "a")[0]
}

// expect compares what matters of an outcome.
func expect(t *testing.T, o connectors.Outcome, c connectors.Class, code string, resolved bool, link string) {
	t.Helper()
	if o.Class != c || o.Code != code || o.Resolved != resolved || o.Link != link {
		t.Errorf("the outcome is %s (%s) resolved %v link %q, and should be %s (%s) resolved %v link %q: %s",
			o.Class, o.Code, o.Resolved, o.Link, c, code, resolved, link, o.Message)
	}
}

// standsOnce checks that key "a" has one record and ever had only one.
func standsOnce(t *testing.T, w *world, body string) {
	t.Helper()
	rs := w.target.Records("a")
	if len(rs) != 1 || rs[0].Body != body || w.target.MostAtOnce("a") != 1 {
		t.Errorf("the target holds %+v (at most %d at once), and should hold one record %s", rs, w.target.MostAtOnce("a"), body)
	}
}

func creating() map[string]connectors.Strategy {
	return map[string]connectors.Strategy{"external_ref": connectors.ExternalRef, "lookup": connectors.Lookup}
}

func options(s connectors.Strategy) faketarget.Options {
	return faketarget.Options{Unique: s != connectors.Lookup}
}

func plans(ks ...faketarget.Kind) []faketarget.Fault {
	fs := make([]faketarget.Fault, len(ks))
	for i, k := range ks {
		fs[i] = faketarget.Fault{Kind: k, Delay: 45 * time.Second}
	}
	return fs
}

// creates plans what happens to creates only.
func creates(w *world, ks ...faketarget.Kind) {
	fs := plans(ks...)
	w.target.Plan(func(c faketarget.Call) faketarget.Fault {
		if c.Op != faketarget.Create || len(fs) == 0 {
			return faketarget.Fault{}
		}
		f := fs[0]
		fs = fs[1:]
		return f
	})
}

func TestCreateWithoutAReadAnswerIsFoundOutBeforeAnythingIsSentAgain(t *testing.T) {
	for name, s := range creating() {
		for _, k := range []faketarget.Kind{faketarget.LoseRequest, faketarget.LoseAnswer, faketarget.Late, faketarget.FailUndone,
			faketarget.FailDone, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.NoLink, faketarget.BadClass, faketarget.Short} {
			t.Run(fmt.Sprintf("%s/%s", name, k), func(t *testing.T) {
				w := mustWorld(t, defaults(s), options(s), nil)
				creates(w, k)
				w.want("a", v1)
				if o := w.one(t); o.Class != connectors.Unknown || o.Resolved {
					t.Fatalf("the outcome is %+v", o)
				}
				sent := w.rows["a"].UnresolvedAt
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				standsOnce(t, w, v1)
				for _, c := range w.target.Calls(faketarget.Create, faketarget.Update)[1:] {
					if c.At.Before(sent.Add(settleTime)) {
						t.Errorf("%s was sent %s after the write in doubt", c.Op, c.At.Sub(sent))
					}
				}
				if op := after(w, faketarget.Create); op != faketarget.Find {
					t.Errorf("after the write in doubt came %s", op)
				}
			})
		}
	}
}

// after is what the target was asked next after its first call of op.
func after(w *world, op faketarget.Op) faketarget.Op {
	cs := w.target.Calls()
	for i, c := range cs[:len(cs)-1] {
		if c.Op == op {
			return cs[i+1].Op
		}
	}
	return ""
}

func TestKillAfterTheLinkWasStoredLeadsToThatRecord(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(s), options(s), nil)
			w.want("a", v1)
			w.run(t.Context(), true, "a")
			class := connectors.Unchanged
			if s == connectors.Lookup { // the key is looked up first: there may be two
				class = connectors.AlreadyApplied
			}
			expect(t, w.one(t), class, "", true, "1")
			standsOnce(t, w, v1)
			if n := len(w.target.Calls(faketarget.Create)); n != 1 {
				t.Errorf("%d creates were sent", n)
			}
		})
	}
}

func TestLinkIsStoredBeforeTheDocumentIsAdvanced(t *testing.T) {
	w := mustWorld(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), withAdvance)
	var stored string
	w.target.Plan(func(c faketarget.Call) faketarget.Fault {
		if c.Op == faketarget.Advance {
			stored = w.links["a"]
		}
		return faketarget.Fault{}
	})
	w.want("a", v2)
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	if stored != "1" {
		t.Errorf("at the time of the first step the link stored was %q", stored)
	}
}

func TestLinkThatCannotBeStored(t *testing.T) {
	t.Run("after a create it leaves the create in doubt", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), withAdvance)
		w.failLinks = 1
		w.want("a", v2)
		expect(t, w.one(t), connectors.Unknown, upsert.CodeLinkNotStored, false, "1")
		if n := len(w.target.Calls(faketarget.Advance)); n != 0 {
			t.Error("the document was advanced all the same")
		}
	})
	t.Run("after a look-up nothing was done", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
		w.target.Seed("a", v1)
		w.failLinks = 1
		w.want("a", v2)
		expect(t, w.one(t), connectors.Transient, upsert.CodeLinkNotStored, false, "")
		if n := len(w.target.Calls(faketarget.Update)); n != 0 {
			t.Error("the record was updated all the same")
		}
	})
}

func TestRecordFoundWhileTheWriteIsInDoubtIsOurs(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			f := defaults(s)
			f.OnExisting = "refuse"
			w := mustWorld(t, f, options(s), nil)
			w.careless = true
			w.want("a", v1)
			creates(w, faketarget.LoseAnswer)
			w.one(t)
			// The same state was asked for: nothing is left to do.
			expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
			standsOnce(t, w, v1)
		})
		t.Run(name+", newer version", func(t *testing.T) {
			w := mustWorld(t, defaults(s), options(s), nil)
			w.careless = true
			w.want("a", v1)
			creates(w, faketarget.LoseAnswer)
			w.one(t)
			w.want("a", v2)
			// The record is ours, but may not be written to yet.
			o := w.one(t)
			expect(t, o, connectors.Transient, jobs.CodeSettling, false, "1")
			if w.links["a"] != "1" || len(w.target.Calls(faketarget.Update)) != 0 {
				t.Errorf("link %q, updates %v", w.links["a"], w.target.Calls(faketarget.Update))
			}
			w.wait(o.RetryAfter)
			expect(t, w.one(t), connectors.Applied, "", true, "1")
			standsOnce(t, w, v2)
		})
	}
}

func TestAbsenceIsNotBelievedBeforeSettleTime(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(s), options(s), nil)
			w.careless = true
			w.want("a", v1)
			creates(w, faketarget.Late) // 45 s
			w.one(t)
			for range 3 {
				w.wait(10 * time.Second)
				w.rows["a"].DueAt = w.now
				o := w.one(t)
				expect(t, o, connectors.Transient, jobs.CodeSettling, false, "")
				if left := w.rows["a"].UnresolvedAt.Add(settleTime).Sub(w.rows["a"].LastAt); o.RetryAfter < left {
					t.Errorf("retry after %s, and %s are left", o.RetryAfter, left)
				}
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v1)
		})
	}
}

func TestLookUpReadsTwiceBeforeItCreatesAgain(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.want("a", v1)
	creates(w, faketarget.LoseRequest)
	w.one(t)
	sent := w.rows["a"].UnresolvedAt
	o := w.one(t)
	expect(t, o, connectors.Transient, jobs.CodeAbsentOnce, false, "")
	if o.RetryAfter != settleTime {
		t.Errorf("the second look comes after %s", o.RetryAfter)
	}
	t.Run("a look that comes too early is a first one again", func(t *testing.T) {
		w.wait(time.Second)
		w.rows["a"].DueAt = w.now
		o := w.one(t)
		expect(t, o, connectors.Transient, jobs.CodeAbsentOnce, false, "")
		if o.RetryAfter != settleTime {
			t.Errorf("the next look comes after %s", o.RetryAfter)
		}
	})
	t.Run("a failure in between makes the next look a first one", func(t *testing.T) {
		w.target.Script(plans(faketarget.Throttle)...)
		expect(t, w.one(t), connectors.Throttled, "http_429", false, "")
		expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
	})
	expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
	finds, create := w.target.Calls(faketarget.Find), w.target.Calls(faketarget.Create)[1]
	last, before := finds[len(finds)-1], finds[len(finds)-2]
	if before.At.Sub(sent) < settleTime || last.At.Sub(before.At) < settleTime || create.At.Before(last.At) {
		t.Errorf("sent at %s, looked at %s and %s, created at %s", sent, before.At, last.At, create.At)
	}
	expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
	finds = w.target.Calls(faketarget.Find)
	if last := finds[len(finds)-1]; last.At.Sub(create.At) < settleTime {
		t.Errorf("created at %s, looked at once more at %s", create.At, last.At)
	}
	standsOnce(t, w, v1)
}

func TestTwoRecordsAreToldOfWhenTheFirstCreateComesAfterAll(t *testing.T) {
	create := func(t *testing.T, late time.Duration) *world {
		w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
		w.want("a", v1)
		first := true
		w.target.Plan(func(c faketarget.Call) faketarget.Fault {
			if c.Op != faketarget.Create || !first {
				return faketarget.Fault{}
			}
			first = false
			return faketarget.Fault{Kind: faketarget.Late, Delay: late}
		})
		w.one(t)
		expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
		expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
		return w
	}
	t.Run("it comes", func(t *testing.T) {
		w := create(t, 2*settleTime+settleTime/2)
		o := w.one(t)
		expect(t, o, connectors.Invalid, upsert.CodeAmbiguous, false, "1")
		if n := len(w.target.Calls(faketarget.Update)); n != 0 || w.rows["a"].State != jobs.Dead || !w.rows["a"].Unresolved() {
			t.Errorf("%d updates; the row is %s", n, w.rows["a"].State)
		}
	})
	t.Run("a newer version finds it too", func(t *testing.T) {
		w := create(t, 2*settleTime+settleTime/2)
		w.careless = true
		w.want("a", v2)
		expect(t, w.one(t), connectors.Transient, jobs.CodeSettling, false, "1")
		w.wait(settleTime)
		expect(t, w.one(t), connectors.Invalid, upsert.CodeAmbiguous, false, "1")
	})
	t.Run("a newer version is written where it does not come", func(t *testing.T) {
		w := create(t, 100*settleTime)
		w.want("a", v2)
		expect(t, w.one(t), connectors.Applied, "", true, "1")
	})
}

func TestLookUpCreatesAtOnceWhatNobodyHasTriedBefore(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.want("a", v1)
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	if cs := w.target.Calls(); len(cs) != 2 || cs[0].Op != faketarget.Find {
		t.Errorf("the calls were %+v", cs)
	}
}
