package upsert_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

// standing makes a world in which key "a" was applied as v1 an hour ago.
func standing(t *testing.T, f *jobs.Flow, o faketarget.Options, less func(*faketarget.Entity) connectors.Entity) *world {
	t.Helper()
	w := mustWorld(t, f, o, less)
	w.want("a", v1)
	if o := w.one(t); o.Class != connectors.Applied {
		t.Fatalf("the first write: %+v", o)
	}
	w.wait(time.Hour)
	return w
}

func TestUpdateGoesThroughTheLink(t *testing.T) {
	tests := map[string]struct {
		fault faketarget.Kind
		class connectors.Class
		code  string
		link  string
	}{
		"confirmed":            {faketarget.None, connectors.Applied, "", "1"},
		"refused":              {faketarget.Refuse, connectors.Invalid, "http_422", "1"},
		"throttled":            {faketarget.Throttle, connectors.Throttled, "http_429", "1"},
		"not sent":             {faketarget.NotSent, connectors.Transient, "connect", "1"},
		"not answered":         {faketarget.LoseAnswer, connectors.Unknown, "timeout", "1"},
		"a panic":              {faketarget.PanicAfter, connectors.Unknown, upsert.CodePanic, "1"},
		"answered for another": {faketarget.Foreign, connectors.Unknown, upsert.CodeForeignAnswer, "1"},
		"no class":             {faketarget.Short, connectors.Unknown, upsert.CodeBadAnswer, "1"},
	}
	for name, s := range creating() {
		for what, tt := range tests {
			t.Run(name+"/"+what, func(t *testing.T) {
				w := standing(t, defaults(s), options(s), nil)
				w.want("a", v2)
				w.target.Script(faketarget.Fault{Kind: tt.fault})
				expect(t, w.one(t), tt.class, tt.code, false, tt.link)
				if n := len(w.target.Calls(faketarget.Create)); n != 1 {
					t.Errorf("%d creates", n)
				}
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				standsOnce(t, w, v2)
			})
		}
	}
}

func TestUpdateInDoubtIsWaitedFor(t *testing.T) {
	tests := map[string]struct {
		guarded, advances bool
		onDelete          string
		waits             bool
	}{
		"without a guard":                              {onDelete: "ignore", waits: true},
		"a target that refuses older stamps":           {guarded: true, onDelete: "ignore"},
		"which may delete the record with its stamp":   {guarded: true, onDelete: "delete", waits: true},
		"which archives and keeps the stamp":           {guarded: true, onDelete: "archive"},
		"of which the steps after the fields know not": {guarded: true, advances: true, onDelete: "ignore", waits: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := defaults(connectors.ExternalRef)
			f.OnDelete = tt.onDelete
			less := withoutAdvance
			if tt.advances {
				less = withAdvance
			}
			w := standing(t, f, faketarget.Options{Unique: true, Guarded: tt.guarded}, less)
			w.careless = true
			w.want("a", v2)
			w.target.Script(plans(faketarget.Late)...)
			w.one(t)
			w.want("a", `{"v":3}`)
			o := w.one(t)
			if tt.waits {
				expect(t, o, connectors.Transient, jobs.CodeSettling, false, "1")
			} else {
				expect(t, o, connectors.Applied, "", true, "1")
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, `{"v":3}`)
		})
	}
}

func TestLinkThatLeadsNowhereIsToldAsMissing(t *testing.T) {
	w := standing(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.target.Drop("a")
	w.want("a", v2)
	expect(t, w.one(t), connectors.Missing, "http_404", false, "")
	expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
	expect(t, w.one(t), connectors.Applied, "", false, "2")
}

func TestKeyUnderAnotherIDIsFoundAgain(t *testing.T) {
	for name, s := range creating() {
		t.Run(name, func(t *testing.T) {
			w := standing(t, defaults(s), options(s), nil)
			w.target.Drop("a")
			w.target.Seed("a", `{"v":"by hand"}`)
			w.want("a", v2)
			expect(t, w.one(t), connectors.Missing, "http_404", false, "")
			expect(t, w.one(t), connectors.Applied, "", false, "2")
			standsOnce(t, w, v2)
		})
	}
}

func TestReplicaThatHasNotHeardOfTheRecordIsNotBelieved(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{IndexLag: 20 * time.Second}, nil)
	w.want("a", v1)
	w.one(t)
	w.want("a", v2)
	w.target.Script(plans(faketarget.NotThere)...)
	o := w.one(t)
	expect(t, o, connectors.Transient, jobs.CodeSettling, false, "1")
	if o.RetryAfter != settleTime {
		t.Errorf("retry after %s", o.RetryAfter)
	}
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	standsOnce(t, w, v2)
}

func TestStepsAfterTheFields(t *testing.T) {
	fail := func(w *world, k faketarget.Kind) {
		done := false
		w.target.Plan(func(c faketarget.Call) faketarget.Fault {
			if c.Op != faketarget.Advance || done {
				return faketarget.Fault{}
			}
			done = true
			return faketarget.Fault{Kind: k, Delay: time.Minute}
		})
	}
	tests := map[string]struct {
		fault faketarget.Kind
		class connectors.Class
		code  string
	}{
		"that are refused":      {faketarget.Refuse, connectors.Invalid, "http_422"},
		"that are not sent":     {faketarget.NotSent, connectors.Transient, "connect"},
		"that are throttled":    {faketarget.Throttle, connectors.Throttled, "http_429"},
		"that are not answered": {faketarget.LoseAnswer, connectors.Unknown, "timeout"},
		"that come late":        {faketarget.Late, connectors.Unknown, "timeout"},
		"that panic":            {faketarget.PanicBefore, connectors.Unknown, upsert.CodePanic},
	}
	for _, s := range []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef, connectors.Lookup} {
		for name, tt := range tests {
			t.Run(string(s)+"/"+name, func(t *testing.T) {
				w := mustWorld(t, defaults(s), options(s), withAdvance)
				w.want("a", v2)
				fail(w, tt.fault)
				expect(t, w.one(t), tt.class, tt.code, false, "1")
				if w.links["a"] != "1" {
					t.Error("the link is not known")
				}
				if err := w.finish(); err != nil {
					t.Fatal(err)
				}
				standsOnce(t, w, v2)
				if st := w.target.Records("a")[0].State; st != "confirmed" {
					t.Errorf("the document ends in state %q", st)
				}
			})
		}
	}
	t.Run("after a doubt, the fields written resolve it", func(t *testing.T) {
		w := standing(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), withAdvance)
		w.want("a", v2)
		w.target.Script(plans(faketarget.LoseRequest)...)
		w.one(t)
		fail(w, faketarget.NotSent)
		expect(t, w.one(t), connectors.Transient, "connect", true, "1")
	})
	t.Run("of an upsert that names no record are not begun", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.NaturalKey), faketarget.Options{}, withAdvance)
		w.want("a", v2)
		w.target.Script(plans(faketarget.NoLink)...)
		expect(t, w.one(t), connectors.Unknown, upsert.CodeNoLink, false, "")
		if n := len(w.target.Calls(faketarget.Advance)); n != 0 {
			t.Errorf("%d steps", n)
		}
	})
}

func TestDocumentThatCanNoLongerBeChanged(t *testing.T) {
	const posted = `{"v":1,"state":"posted"}`
	// frozenThere makes a target whose update refuses every posted document, also
	// one that is as asked.
	frozenThere := func(e *faketarget.Entity) connectors.Entity { return refuser{e} }
	start := func(t *testing.T) *world {
		w := mustWorld(t, defaults(connectors.ExternalRef), options(connectors.ExternalRef), frozenThere)
		w.want("a", posted)
		w.target.Plan(func(c faketarget.Call) faketarget.Fault {
			if c.Op == faketarget.Advance {
				return faketarget.Fault{Kind: faketarget.LoseAnswer}
			}
			return faketarget.Fault{}
		})
		w.one(t)
		w.target.Plan(nil)
		return w
	}
	t.Run("because of our own last step is done", func(t *testing.T) {
		w := start(t)
		expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
	})
	t.Run("and differs is frozen", func(t *testing.T) {
		w := start(t)
		w.want("a", v2)
		expect(t, w.one(t), connectors.Frozen, "posted", false, "1")
	})
	t.Run("and cannot be looked at is tried again", func(t *testing.T) {
		w := start(t)
		w.target.Script(plans(faketarget.FailUndone)...)
		expect(t, w.one(t), connectors.Transient, "http_500", false, "1")
	})
	t.Run("is looked at again when the look-up may be behind", func(t *testing.T) {
		w := start(t)
		w.rows["a"].UnresolvedAt = time.Time{}
		w.rows["a"].DueAt = w.now
		expect(t, w.one(t), connectors.Transient, jobs.CodeSettling, false, "1")
		expect(t, w.one(t), connectors.AlreadyApplied, "", false, "1")
	})
}

func TestCreateOnlyLeavesWhatIsThere(t *testing.T) {
	for _, s := range []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef, connectors.Lookup} {
		f := func() *jobs.Flow {
			f := defaults(s)
			f.CreateOnly = true
			return f
		}
		t.Run(string(s)+"/a record of another hand", func(t *testing.T) {
			w := mustWorld(t, f(), options(s), withAdvance)
			w.target.Seed("a", `{"v":"theirs"}`)
			w.want("a", v2)
			expect(t, w.one(t), connectors.Unchanged, "", false, "1")
			standsOnce(t, w, `{"v":"theirs"}`)
			if st := w.target.Records("a")[0].State; st != "" {
				t.Errorf("it was brought to state %q", st)
			}
		})
		t.Run(string(s)+"/its own record, later", func(t *testing.T) {
			w := standing(t, f(), options(s), nil)
			calls := len(w.target.Calls())
			w.want("a", v2)
			expect(t, w.one(t), connectors.Unchanged, "", false, "1")
			standsOnce(t, w, v1)
			if len(w.target.Calls()) != calls {
				t.Error("the target was asked")
			}
		})
		t.Run(string(s)+"/its own create, not yet brought to its state", func(t *testing.T) {
			w := mustWorld(t, f(), options(s), withAdvance)
			w.want("a", v2)
			w.target.Plan(func(c faketarget.Call) faketarget.Fault {
				if c.Op == faketarget.Advance {
					return faketarget.Fault{Kind: faketarget.NotSent}
				}
				return faketarget.Fault{}
			})
			expect(t, w.one(t), connectors.Transient, "connect", false, "1")
			w.target.Plan(nil)
			expect(t, w.one(t), connectors.Applied, "", false, "1")
			if st := w.target.Records("a")[0].State; st != "confirmed" {
				t.Errorf("it ends in state %q", st)
			}
		})
		t.Run(string(s)+"/its own create, in doubt", func(t *testing.T) {
			w := mustWorld(t, f(), options(s), nil)
			w.careless = true
			w.want("a", v1)
			creates(w, faketarget.LoseAnswer)
			w.one(t)
			w.want("a", v2)
			expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
			standsOnce(t, w, v1)
		})
	}
}

func TestJobsOfWhichNothingWasSentCostNothingWhenTheDaemonStops(t *testing.T) {
	gone, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the daemon stops"))
	t.Run("before anything", func(t *testing.T) {
		for _, s := range []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef, connectors.Lookup} {
			w := mustWorld(t, defaults(s), options(s), nil)
			w.want("a", v1)
			w.want("b", v1)
			for _, o := range w.run(gone, false, "a", "b") {
				expect(t, o, connectors.Paused, upsert.CodeStopping, false, "")
				if !strings.Contains(o.Message, "the daemon stops") {
					t.Errorf("the message is %q", o.Message)
				}
			}
			if cs := w.target.Calls(); len(cs) != 0 {
				t.Errorf("%s: calls %+v", s, cs)
			}
		}
	})
	t.Run("but the attempt's own time does", func(t *testing.T) {
		late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
		defer cancel()
		w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
		w.want("a", v1)
		expect(t, w.run(late, false, "a")[0], connectors.Transient, upsert.CodeTimeout, false, "")
	})
	tests := map[string]struct {
		op    faketarget.Op
		fault faketarget.Kind
		class connectors.Class
	}{
		"during the look-up":            {faketarget.Find, faketarget.FailUndone, connectors.Paused},
		"after the look-up":             {faketarget.Find, faketarget.None, connectors.Paused},
		"while the create is not out":   {faketarget.Create, faketarget.NotSent, connectors.Paused},
		"while the create is out":       {faketarget.Create, faketarget.LoseAnswer, connectors.Unknown},
		"between the create and a step": {faketarget.Create, faketarget.None, connectors.Paused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, withAdvance)
			w.want("a", v2)
			ctx, cancel := context.WithCancel(t.Context())
			w.target.Plan(func(c faketarget.Call) faketarget.Fault {
				if c.Op != tt.op {
					return faketarget.Fault{}
				}
				cancel()
				return faketarget.Fault{Kind: tt.fault}
			})
			if o := w.run(ctx, false, "a")[0]; o.Class != tt.class {
				t.Errorf("the outcome is %+v", o)
			}
			if err := w.finish(); err != nil {
				t.Fatal(err)
			}
			standsOnce(t, w, v2)
		})
	}
	t.Run("between two batches", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.NaturalKey), faketarget.Options{}, nil)
		w.want("a", v1)
		w.want("b", v1)
		ctx, cancel := context.WithCancel(t.Context())
		w.target.Plan(func(faketarget.Call) faketarget.Fault { cancel(); return faketarget.Fault{} })
		os := w.run(ctx, false, "a", "b")
		if os[0].Class != connectors.Applied || os[1].Code != upsert.CodeStopping {
			t.Errorf("the outcomes are %+v", os)
		}
	})
}

func TestReadThatFailsLeavesNoDoubt(t *testing.T) {
	tests := map[string]struct {
		err   error
		class connectors.Class
		code  string
	}{
		"an error without a class": {errors.New("boom"), connectors.Transient, upsert.CodeFind},
		"in doubt":                 {connectors.Errorf(connectors.Unknown, "timeout", "x"), connectors.Transient, "timeout"},
		"missing":                  {connectors.Errorf(connectors.Missing, "http_404", "x"), connectors.Transient, "http_404"},
		"confirmed":                {connectors.Errorf(connectors.Applied, "", "x"), connectors.Transient, ""},
		"credentials":              {connectors.Errorf(connectors.Auth, "http_401", "x"), connectors.Auth, "http_401"},
		"the gate":                 {connectors.Errorf(connectors.Paused, "paused", "x"), connectors.Paused, "paused"},
		"a wrong path":             {connectors.Errorf(connectors.Invalid, "http_404", "x"), connectors.Invalid, "http_404"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, func(e *faketarget.Entity) connectors.Entity {
				n := withoutAdvance(e).(noAdvance)
				n.Finder = broken{tt.err}
				return n
			})
			w.want("a", v1)
			expect(t, w.one(t), tt.class, tt.code, false, "")
			if cs := w.target.Calls(); len(cs) != 0 {
				t.Errorf("after it came %+v", cs)
			}
		})
	}
	t.Run("and one that names no record", func(t *testing.T) {
		w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, func(e *faketarget.Entity) connectors.Entity {
			n := withoutAdvance(e).(noAdvance)
			n.Finder = nameless{}
			return n
		})
		w.want("a", v1)
		expect(t, w.one(t), connectors.Transient, upsert.CodeNoLink, false, "")
	})
}

func TestPanicsAreToldWithoutTheirText(t *testing.T) {
	w := mustWorld(t, defaults(connectors.Lookup), faketarget.Options{}, nil)
	w.want("a", v1)
	w.target.Script(plans(faketarget.PanicBefore)...)
	o := w.one(t)
	expect(t, o, connectors.Transient, upsert.CodePanic, false, "")
	if o.Message != "a defect of the connector: it panicked in find (string)" {
		t.Errorf("the message is %q", o.Message)
	}
	if w.panics != 1 {
		t.Errorf("%d panics were told", w.panics)
	}
}

func TestJobWithoutARecordIsRefused(t *testing.T) {
	for _, s := range []connectors.Strategy{connectors.NaturalKey, connectors.ExternalRef} {
		w := mustWorld(t, defaults(s), options(s), nil)
		w.want("a", v1)
		w.rows["a"].Body = nil
		expect(t, w.one(t), connectors.Invalid, upsert.CodeNoBody, false, "")
	}
}

type (
	// refuser refuses to update any posted document.
	refuser struct{ *faketarget.Entity }
	// broken fails each look-up.
	broken struct{ err error }
	// nameless finds records without saying which.
	nameless struct{}
)

func (r refuser) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	for _, rec := range r.Records(w.Key) {
		if rec.State == "posted" {
			return connectors.Fail(connectors.Frozen, "posted", "the document is posted")
		}
	}
	return r.Entity.Update(ctx, w)
}

func (b broken) Find(context.Context, connectors.Write) ([]connectors.Found, error) {
	return nil, b.err
}

func (nameless) Find(context.Context, connectors.Write) ([]connectors.Found, error) {
	return []connectors.Found{{}}, nil
}
