package upsert_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

// keyedWorld is a flow with idempotency keys over a target of the zoo.
func keyedWorld(t *testing.T, keys string, less func(*faketarget.Entity) connectors.Entity) *world {
	t.Helper()
	k := faketarget.Zoo()[keys]
	return mustWorld(t, defaults(connectors.IdempotencyKey), faketarget.Options{Keys: &k}, less)
}

// seen wraps a target and notes what creates bear.
type seen struct {
	noAdvance
	keys, sent []string
	// late has the clock pass while a create is on its way.
	before func()
}

func (s *seen) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	s.keys, s.sent = append(s.keys, w.IdempotencyKey), append(s.sent, string(w.Sent))
	if s.before != nil {
		s.before()
	}
	return s.noAdvance.Create(ctx, w)
}

func watch(s *seen) func(*faketarget.Entity) connectors.Entity {
	return func(e *faketarget.Entity) connectors.Entity {
		s.noAdvance = noAdvance{e, e, e, e, e, e, e}
		return s
	}
}

// blindly is watch for a target that cannot be asked for a record.
type blindly struct {
	connectors.Entity
	connectors.Composer
	connectors.Updater
	connectors.Creator
}

func watchBlind(s *seen) func(*faketarget.Entity) connectors.Entity {
	return func(e *faketarget.Entity) connectors.Entity {
		s.noAdvance = noAdvance{e, e, e, e, e, e, e}
		return blindly{e, e, e, s}
	}
}

func TestALostCreateIsSentAgainInTheSameBytesUnderTheSameKey(t *testing.T) {
	for name := range faketarget.Zoo() {
		if name == "says nothing" {
			continue // nothing is sent again there
		}
		t.Run(name, func(t *testing.T) {
			var s seen
			w := keyedWorld(t, name, watchBlind(&s))
			w.want("a", v1)
			w.target.Script(faketarget.Fault{Kind: faketarget.LoseAnswer})
			expect(t, w.one(t), connectors.Unknown, "timeout", false, "")
			w.want("a", v2) // it waits
			if o := w.one(t); o.Class != connectors.Applied || o.Link != "1" || !o.Resolved {
				t.Errorf("the outcome is %+v", o)
			}
			if len(s.keys) != 2 || s.keys[0] != s.keys[1] || s.sent[0] != s.sent[1] {
				t.Errorf("creates bore the keys %q and the bytes %q", s.keys, s.sent)
			}
			standsOnce(t, w, v2)
			if w.rows["a"].KeyEpoch != 1 || w.pins["a"] != nil {
				t.Errorf("key epoch %d, pin %+v", w.rows["a"].KeyEpoch, w.pins["a"])
			}
		})
	}
}

func TestWhatIsSentIsPinnedBefore(t *testing.T) {
	var s seen
	w := keyedWorld(t, "keeps all", watch(&s))
	s.before = func() {
		p := w.pins["a"]
		if p == nil || string(p.Body) != s.sent[0] || p.Key != s.keys[0] || p.FirstSentAt.After(w.now) || p.Generation != 1 {
			t.Errorf("when the create is sent, the pin is %+v", p)
		}
	}
	w.want("a", v1)
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	if len(s.keys) != 1 {
		t.Errorf("%d creates", len(s.keys))
	}
}

func TestNothingIsSentThatCouldNotBePinned(t *testing.T) {
	w := keyedWorld(t, "keeps all", nil)
	w.failPins = 1
	w.want("a", v1)
	expect(t, w.one(t), connectors.Paused, upsert.CodePinNotStored, false, "")
	if n := len(w.target.Calls(faketarget.Create)); n != 0 {
		t.Errorf("%d creates were sent", n)
	}
	expect(t, w.one(t), connectors.Applied, "", false, "1")
}

func TestTheKeyIsTheRecordsAndNoVersionsOrAttempts(t *testing.T) {
	keyOf := func(change func(f *jobs.Flow, w *world), o func(*faketarget.Keys)) string {
		var s seen
		f := defaults(connectors.IdempotencyKey)
		k := faketarget.Zoo()["keeps all"]
		if o != nil {
			o(&k)
		}
		w := mustWorld(t, f, faketarget.Options{Keys: &k}, watch(&s))
		w.want("a", v1)
		if change != nil {
			change(f, w)
		}
		w.one(t)
		return s.keys[0]
	}
	plain := keyOf(nil, nil)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(plain) {
		t.Errorf("%s is not in the form of a random UUID", plain)
	}
	for name, change := range map[string]func(*jobs.Flow, *world){
		"a newer version":    func(_ *jobs.Flow, w *world) { w.want("a", v2) },
		"another flow":       func(f *jobs.Flow, _ *world) { f.Name = "prices" },
		"attempts before it": func(_ *jobs.Flow, w *world) { w.rows["a"].Attempt = 7 },
	} {
		if got := keyOf(change, nil); got != plain {
			t.Errorf("%s changes the key to %s", name, got)
		}
	}
	if got := keyOf(func(_ *jobs.Flow, w *world) { w.rows["a"].KeyEpoch = 1 }, nil); got == plain {
		t.Error("a new epoch has the same key")
	}
	hexed := keyOf(nil, func(k *faketarget.Keys) { k.Form = connectors.KeyHex; k.MaxLength = 40 })
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(hexed) {
		t.Errorf("%s is not 40 hexadecimal digits", hexed)
	}
}

func TestAResendHasADeadlineAfterWhichOnlyLookUpsCount(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		again bool
	}{
		{"before it", 30*time.Minute - settleTime - time.Second, true},
		{"at it", 30*time.Minute - settleTime, false},
		{"after it", time.Hour, false},
	} {
		for _, blind := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				var s seen
				less, faults := watch(&s), []faketarget.Fault{{}, {Kind: faketarget.LoseRequest}}
				if blind {
					less, faults = watchBlind(&s), faults[1:]
				}
				w := keyedWorld(t, "ignores the body", less)
				w.want("a", v1)
				w.target.Script(faults...)
				w.one(t)
				w.now = start.Add(c.after)
				o := w.one(t)
				if again := len(s.keys) == 2; again != c.again {
					t.Fatalf("blind %v: sent again: %v; %+v", blind, again, o)
				}
				switch {
				case c.again:
					expect(t, o, connectors.Applied, "", true, "1")
				case blind:
					expect(t, o, connectors.Transient, jobs.CodeUnresolvable, false, "")
					if w.rows["a"].State != jobs.Held {
						t.Errorf("the job is %s", w.rows["a"].State)
					}
				default:
					expect(t, o, connectors.Transient, jobs.CodeAbsentOnce, false, "")
					expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
					if len(s.keys) != 2 || s.keys[0] == s.keys[1] {
						t.Errorf("the keys are %q", s.keys)
					}
				}
			})
		}
	}
}

func TestAResendIsCutOffAtItsDeadline(t *testing.T) {
	var left time.Duration
	var s seen
	w := keyedWorld(t, "ignores the body", watchBlind(&s))
	w.want("a", v1)
	w.target.Script(faketarget.Fault{Kind: faketarget.LoseRequest})
	w.one(t)
	w.now = start.Add(30*time.Minute - settleTime - 10*time.Second)
	job := w.claim("a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	less := watchDeadline{&s, &left}
	st, err := upsert.New(w.flow, blindly{w.target, w.target, w.target, less}, w, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	st.Apply(ctx, job)
	if left <= 9*time.Second || left > 10*time.Second {
		t.Errorf("the resend had %s", left)
	}
}

// watchDeadline notes how much time a create has.
type watchDeadline struct {
	*seen
	left *time.Duration
}

func (d watchDeadline) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	if at, ok := ctx.Deadline(); ok {
		*d.left = time.Until(at)
	}
	return d.seen.Create(ctx, w)
}

func TestWhereNobodySaysHowLongAKeyIsKnownItIsLookedUpFirst(t *testing.T) {
	var s seen
	w := keyedWorld(t, "says nothing", watch(&s))
	w.want("a", v1)
	w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: faketarget.LoseAnswer})
	w.one(t)
	expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
	if len(s.keys) != 1 {
		t.Errorf("%d creates were sent", len(s.keys))
	}
	standsOnce(t, w, v1)
}

func TestAnErrorThatTheTargetKeepsIsFollowedByAnotherKeyOnceNothingIsThere(t *testing.T) {
	for kind, done := range map[faketarget.Kind]bool{faketarget.FailUndone: false, faketarget.FailDone: true} {
		t.Run(string(kind), func(t *testing.T) {
			var s seen
			w := keyedWorld(t, "keeps all", watch(&s))
			w.want("a", v1)
			w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: kind})
			expect(t, w.one(t), connectors.Unknown, jobs.CodeKeptError, false, "")
			if done {
				expect(t, w.one(t), connectors.AlreadyApplied, "", true, "1")
			} else {
				expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
				expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
				if len(s.keys) != 2 || s.keys[0] == s.keys[1] {
					t.Errorf("the keys are %q", s.keys)
				}
				w.one(t)
			}
			standsOnce(t, w, v1)
		})
	}
	t.Run("where nothing can be looked up it is held", func(t *testing.T) {
		w := keyedWorld(t, "keeps all", withoutFind)
		w.want("a", v1)
		w.target.Script(faketarget.Fault{Kind: faketarget.FailDone})
		expect(t, w.one(t), connectors.Unknown, jobs.CodeUnresolvable, false, "")
		if w.rows["a"].State != jobs.Held {
			t.Errorf("the job is %s", w.rows["a"].State)
		}
	})
}

func TestAKeyThatIsInProgressIsInDoubt(t *testing.T) {
	w := keyedWorld(t, "keeps success", withoutFind)
	w.want("a", v1)
	w.target.Script(faketarget.Fault{Kind: faketarget.Late, Delay: 3 * settleTime})
	w.one(t)
	o := w.one(t)
	expect(t, o, connectors.Unknown, "http_409", false, "")
	w.wait(3 * settleTime)
	expect(t, w.one(t), connectors.Applied, "", true, "1")
	standsOnce(t, w, v1)
}

func TestARefusedResendProvesNothing(t *testing.T) {
	lost := []faketarget.Fault{{Kind: faketarget.LoseRequest}, {Kind: faketarget.Refuse}}
	t.Run("look-ups decide", func(t *testing.T) {
		var s seen
		w := keyedWorld(t, "keeps all", watch(&s))
		w.want("a", v1)
		w.target.Script(faketarget.Fault{}, lost[0], faketarget.Fault{}, lost[1])
		w.one(t)
		expect(t, w.one(t), connectors.Transient, jobs.CodeAbsentOnce, false, "")
		w.want("a", v2)
		w.wait(settleTime)
		expect(t, w.one(t), connectors.Transient, jobs.CodeCreatedInDoubt, false, "1")
		w.one(t)
		standsOnce(t, w, v2)
	})
	t.Run("or a person", func(t *testing.T) {
		w := keyedWorld(t, "keeps all", withoutFind)
		w.want("a", v1)
		w.target.Script(lost...)
		w.one(t)
		expect(t, w.one(t), connectors.Transient, jobs.CodeUnresolvable, false, "")
		if w.rows["a"].State != jobs.Held {
			t.Errorf("the job is %s", w.rows["a"].State)
		}
	})
}

func TestACreateAfterARefusalHasAnotherKey(t *testing.T) {
	var s seen
	w := keyedWorld(t, "keeps all", watch(&s)) // it keeps the refusal, and refuses other bytes
	w.want("a", v1)
	w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: faketarget.Refuse})
	expect(t, w.one(t), connectors.Invalid, "http_422", false, "")
	w.want("a", v2)
	expect(t, w.one(t), connectors.Applied, "", false, "1")
	if len(s.keys) != 2 || s.keys[0] == s.keys[1] {
		t.Errorf("the keys are %q", s.keys)
	}
	standsOnce(t, w, v2)
}

func TestARecordThatIsDeletedAndComesBackIsCreatedUnderAnotherKey(t *testing.T) {
	var s seen
	w := keyedWorld(t, "ignores the body", watch(&s)) // it would answer with the record that was deleted
	w.want("a", v1)
	w.one(t)
	w.wait(time.Hour)
	w.target.Drop("a")
	w.want("a", v2)
	expect(t, w.one(t), connectors.Missing, "http_404", false, "")
	for w.rows["a"].State == jobs.Ready {
		w.one(t)
	}
	if !slices.ContainsFunc(s.keys[1:], func(k string) bool { return k != s.keys[0] }) {
		t.Errorf("the keys are %q", s.keys)
	}
	if rs := w.target.Records("a"); len(rs) != 1 || rs[0].Body != v2 {
		t.Errorf("the target holds %+v", rs)
	}
}

func TestWhatIsSentAtMostOnceIsNeverSentAgain(t *testing.T) {
	for _, kind := range []faketarget.Kind{faketarget.LoseAnswer, faketarget.LoseRequest, faketarget.Late, faketarget.FailDone,
		faketarget.FailUndone, faketarget.PanicBefore, faketarget.PanicAfter, faketarget.NoLink, faketarget.BadClass} {
		t.Run(string(kind), func(t *testing.T) {
			w := mustWorld(t, defaults(connectors.AtMostOnce), faketarget.Options{}, withoutFind)
			w.want("a", v1)
			w.target.Script(faketarget.Fault{Kind: kind, Delay: time.Minute})
			if o := w.one(t); o.Class != connectors.Unknown {
				t.Errorf("the outcome is %+v", o)
			}
			if w.rows["a"].State != jobs.Held {
				t.Fatalf("the job is %s", w.rows["a"].State)
			}
			w.want("a", v2)
			if w.rows["a"].State != jobs.Held {
				t.Fatalf("with a newer version the job is %s", w.rows["a"].State)
			}
			// Also where a row in doubt comes to be claimed, as after it was given up.
			w.rows["a"].State = jobs.Ready
			w.wait(time.Hour)
			expect(t, w.one(t), connectors.Transient, jobs.CodeUnresolvable, false, "")
			if n := len(w.target.Calls(faketarget.Create)); n != 1 {
				t.Errorf("it was sent %d times", n)
			}
			w.resolve("a")
			for w.rows["a"].State == jobs.Ready {
				w.one(t)
			}
			standsOnce(t, w, v2)
		})
	}
}

// A look-up that finds nothing lets nothing be sent again either: that would be
// another strategy's promise.
func TestWhatIsSentAtMostOnceIsNotSentAgainAfterALookUp(t *testing.T) {
	w := mustWorld(t, defaults(connectors.AtMostOnce), faketarget.Options{}, nil)
	w.want("a", v1)
	w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: faketarget.LoseRequest})
	w.one(t)
	for range 3 {
		w.rows["a"].State = jobs.Ready
		w.wait(time.Hour)
		expect(t, w.one(t), connectors.Transient, jobs.CodeUnresolvable, false, "")
	}
	if n := len(w.target.Calls(faketarget.Create)); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestAtMostOnceWithoutAnIDChangesNothing(t *testing.T) {
	w := mustWorld(t, defaults(connectors.AtMostOnce), faketarget.Options{}, withoutFind)
	w.want("a", v1)
	w.rows["a"].AppliedGeneration = 1 // a person said so, and did not say under which id
	expect(t, w.one(t), connectors.Invalid, upsert.CodeNoLink, false, "")
	f := defaults(connectors.AtMostOnce)
	f.CreateOnly = true
	w = mustWorld(t, f, faketarget.Options{}, withoutFind)
	w.want("a", v1)
	w.rows["a"].AppliedGeneration = 1
	expect(t, w.one(t), connectors.Unchanged, "", false, "")
	if n := len(w.target.Calls()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

func TestWhatCarriesTheNewStrategies(t *testing.T) {
	appends := faketarget.Options{Children: map[string]connectors.ChildMode{"lines": connectors.Appends}}
	bad := faketarget.Zoo()["keeps all"]
	bad.MaxLength = 20
	good := faketarget.Zoo()["keeps all"]
	for _, c := range []struct {
		name     string
		strategy connectors.Strategy
		o        faketarget.Options
		less     func(*faketarget.Entity) connectors.Entity
		change   func(*jobs.Flow)
		want     string
	}{
		{"no keys", connectors.IdempotencyKey, faketarget.Options{}, nil, nil, "it cannot carry strategy idempotency_key; it can carry natural_key (by key, its primary key), lookup (by ref), at_most_once (by ref)"},
		{"keys that are too short", connectors.IdempotencyKey, faketarget.Options{Keys: &bad}, nil, nil, "a key of at most 20 characters cannot be a UUID, which has 36"},
		{"keys", connectors.IdempotencyKey, faketarget.Options{Keys: &good}, nil, nil, ""},
		{"keys, and nothing can be looked up", connectors.IdempotencyKey, faketarget.Options{Keys: &good}, withoutFind, nil, ""},
		{"no look-up and refuse", connectors.AtMostOnce, faketarget.Options{}, withoutFind, func(f *jobs.Flow) { f.OnExisting = "refuse" },
			"on_existing: refuse needs to look records up by key, and this entity cannot; take on_existing: adopt"},
		{"children that are added", connectors.IdempotencyKey, faketarget.Options{Keys: &good, Children: appends.Children}, nil, nil,
			"each write adds to lines again, so no strategy that may send a record twice can carry it; at_most_once can"},
		{"children that are added once", connectors.AtMostOnce, appends, nil, nil, "each write adds to lines again, so a change of a record would double them; say create_only: true"},
		{"children that are added once, and no change", connectors.AtMostOnce, appends, nil, func(f *jobs.Flow) { f.CreateOnly = true }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := defaults(c.strategy)
			if c.change != nil {
				c.change(f)
			}
			_, err := newWorld(f, c.o, c.less)
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "flow orders, entity thing of client erp: ")
			}
			if got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

func TestACreateIsNotTakenForDoneByItsKeyOnceItsRecordWasRemoved(t *testing.T) {
	k := faketarget.Zoo()["keeps all"]
	f := defaults(connectors.IdempotencyKey)
	f.OnDelete = "delete"
	w := mustWorld(t, f, faketarget.Options{Keys: &k}, nil)
	w.want("a", v1)
	w.run(t.Context(), true, "a") // created, and the daemon ends
	w.want("a", "")
	w.now = w.rows["a"].DueAt
	w.target.Script(faketarget.Fault{Kind: faketarget.LoseAnswer})
	if o := w.one(t); o.Class != connectors.Unknown || len(w.target.Records("a")) != 0 {
		t.Fatalf("the removal came to %+v", o)
	}
	w.want("a", v1)
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	standsOnce(t, w, v1)
}

// A create that is sent again may make the record just then, and a replica that has not heard of it
// denies it to the update behind it: the record is not to be made a second time.
func TestARecordThatAResendHasJustMadeIsBelievedWhenItIsDeniedAtOnce(t *testing.T) {
	k := faketarget.Zoo()["heeds the body"]
	w := mustWorld(t, defaults(connectors.IdempotencyKey), faketarget.Options{Keys: &k, IndexLag: 20 * time.Second}, watchBlind(&seen{}))
	w.want("a", v1)
	w.target.Script(faketarget.Fault{Kind: faketarget.LoseRequest})
	w.one(t)
	w.want("a", v2)
	w.target.Script(faketarget.Fault{}, faketarget.Fault{Kind: faketarget.NotThere})
	if o := w.one(t); o.Class != connectors.Transient || o.Code != jobs.CodeSettling || o.Link != "1" {
		t.Errorf("the outcome is %+v", o)
	}
	w.one(t)
	if rs := w.target.Records("a"); len(rs) != 1 || rs[0].Body != v2 {
		t.Errorf("the target holds %+v", rs)
	}
}
