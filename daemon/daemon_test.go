package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

func TestEveryRecordReachesTheTargetOnceInItsNewestState(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 25 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","v":1}`, i))
		}
		w.start()
		w.pass(5 * time.Second)
		for i := range 25 {
			w.shop.put(fmt.Sprint(i), 2, fmt.Sprintf(`{"key":"K%d","v":2}`, i))
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","v":1}`, i)) // late
		}
		w.pass(10 * time.Second)
		for i := range 25 {
			w.holds(w.orders, fmt.Sprintf("K%d", i), fmt.Sprintf(`{"key":"K%d","v":2}`, i))
		}
		if n := len(w.orders.Effects()); n != 50 {
			t.Errorf("%d effects, want 50: one per record and version", n)
		}
	})
}

func TestAnswersLostAfterTheWriteDoubleNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.orders.Script(faketarget.Fault{Kind: faketarget.LoseAnswer}, faketarget.Fault{Kind: faketarget.LoseAnswer}, faketarget.Fault{Kind: faketarget.LoseAnswer})
		for i := range 3 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(30 * time.Second)
		if n := len(w.orders.Calls()); n != 3 {
			t.Fatalf("%d calls before the writes had settled, want 3", n)
		}
		w.pass(10 * time.Minute)
		for i := range 3 {
			w.holds(w.orders, fmt.Sprintf("K%d", i), fmt.Sprintf(`{"key":"K%d"}`, i))
			if w.row("orders", fmt.Sprintf("K%d", i)).State != jobs.Done {
				t.Errorf("K%d is not done", i)
			}
		}
	})
}

func TestRecordThatCannotBeMappedHoldsNobodyBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
		w.shop.put("1", 1, `{"key":"A"}`)
		w.shop.put("2", 1, `{"key":"B","bad":true}`)
		w.shop.put("3", 1, `{"key":"C"}`)
		w.start()
		w.pass(3 * time.Second)
		w.holds(w.orders, "A", `{"key":"A"}`)
		w.holds(w.orders, "C", `{"key":"C"}`)
		if r := w.row("orders", "@2"); r.State != jobs.Dead || r.Reason != jobs.ReasonMapping {
			t.Fatalf("the bad record is %s %s", r.State, r.Reason)
		}
		w.shop.put("2", 2, `{"key":"B"}`)
		w.pass(3 * time.Second)
		w.holds(w.orders, "B", `{"key":"B"}`)
	})
}

func TestReplayOfADeadLetterOfMappingReadsTheSourceAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
		w.shop.put("2", 1, `{"key":"B","bad":true}`)
		w.start()
		w.pass(3 * time.Second)
		w.shop.mu.Lock()
		w.shop.present["2"] = connectors.Event{SourceID: "2", Version: 1, Body: json.RawMessage(`{"key":"B"}`)}
		w.shop.mu.Unlock()
		if _, err := w.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "@2"}}, w.plan.JobFlows()); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		w.holds(w.orders, "B", `{"key":"B"}`)
		if r := w.row("orders", "@2"); r.State != jobs.Done {
			t.Fatalf("the dead letter is still %s", r.State)
		}
	})
}

func TestPausedClientIsNotCalledAndItsJobsKeepTheirAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		refused := w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.plan.Clients["erp"].Concurrency = 1
		for i := range 20 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(9 * time.Minute)
		if n := refused.calls(); n != 1 {
			t.Fatalf("%d calls while paused, want the 1 that was refused", n)
		}
		if r := w.row("orders", "K0"); r.Tries != 0 {
			t.Fatalf("throttling cost %d attempts", r.Tries)
		}
		w.pass(2 * time.Minute)
		if n := w.orders.Len(); n != 20 {
			t.Fatalf("%d records after the pause, want 20", n)
		}
	})
}

func TestPauseSurvivesARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		refused := w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 10 * time.Minute})
		w.plan.Clients["erp"].Concurrency = 1
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		w.end()
		w.start()
		w.pass(5 * time.Minute)
		if n := refused.calls(); n != 1 {
			t.Fatalf("%d calls, want 1: the pause was forgotten", n)
		}
		w.pass(6 * time.Minute)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}

func TestRefusedCredentialsSuspendTheClientAndProbeIt(t *testing.T) {
	inWorld(t, func(w *world) {
		no := connectors.Outcome{Class: connectors.Auth, Code: "http_401"}
		refused := w.refuse(no, no)
		w.plan.Clients["erp"].Concurrency = 1
		for i := range 5 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(9 * time.Minute)
		if n := refused.calls(); n > 2 {
			t.Fatalf("%d calls with refused credentials in 9 minutes, want a probe every five", n)
		}
		w.pass(10 * time.Minute)
		if n := w.orders.Len(); n != 5 {
			t.Fatalf("%d records, want 5", n)
		}
	})
}

func TestOrderWaitsForItsCustomerAndIsWrittenOnceThatIsThere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `select(.total) | {key, party: ref("party"; .customer)}`, `.key`)
		w.plan.Flows["parties"] = w.flow("parties", "party", `select(.name) | {key, name}`, `.key`)
		w.shop.put("1", 1, `{"key":"O1","total":"5","customer":"C1"}`)
		w.start()
		w.pass(5 * time.Second)
		r := w.row("orders", "O1")
		if r.Reason != jobs.ReasonWaiting || r.WaitKey != "C1" || r.Tries != 0 {
			t.Fatalf("the order is %s %s for %q after %d tries", r.State, r.Reason, r.WaitKey, r.Tries)
		}
		w.shop.put("2", 1, `{"key":"C1","name":"Ada"}`)
		w.pass(3 * time.Second)
		w.holds(w.orders, "O1", `{"key":"O1","party":1}`)
	})
}

func TestReferenceToARecordThatOnlyTheTargetKnowsIsLookedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `{key, party: ref("party"; .customer)}`, `.key`)
		link := w.parties.Seed("C9", `{}`)
		w.shop.put("1", 1, `{"key":"O1","customer":"C9"}`)
		w.start()
		w.pass(3 * time.Second)
		w.holds(w.orders, "O1", `{"key":"O1","party":`+link+`}`)
	})
}

func TestOptionalReferenceIsFilledInLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `select(.total) | {key, party: ref("party"; .customer; "optional")}`, `.key`)
		w.plan.Flows["parties"] = w.flow("parties", "party", `select(.name) | {key, name}`, `.key`)
		w.shop.put("1", 1, `{"key":"O1","total":"5","customer":"C1"}`)
		w.start()
		w.pass(5 * time.Second)
		w.holds(w.orders, "O1", `{"key":"O1","party":null}`)
		w.shop.put("2", 1, `{"key":"C1","name":"Ada"}`)
		w.pass(5 * time.Second)
		w.holds(w.orders, "O1", `{"key":"O1","party":1}`)
		if r := w.row("orders", "O1"); r.State != jobs.Done {
			t.Fatalf("the order is still %s", r.State)
		}
	})
}

func TestGracefulStopLetsWritesUnderWayFinish(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, 8 * time.Second}
		w.plan.Clients["erp"].Concurrency = 2
		for i := range 6 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		w.start()
		w.pass(2 * time.Second)
		w.end()
		for i := range 6 {
			r := w.row("orders", fmt.Sprintf("K%d", i))
			if r.Unresolved() {
				t.Errorf("K%d is in doubt after a graceful stop", i)
			}
		}
		if n := w.orders.Len(); n != 2 {
			t.Errorf("%d records, want the 2 whose writes were under way", n)
		}
	})
}

func TestWritesCutOffByAStopAreInDoubtAndResolvedAtTheNextStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, time.Hour}
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(2 * time.Second)
		w.end()
		if r := w.row("orders", "A"); !r.Unresolved() {
			t.Fatalf("a write that was cut off is %s %s, not in doubt", r.State, r.LastClass)
		}
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = w.orders
		w.start()
		w.pass(10 * time.Minute)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}

func TestPanicInAConnectorLeavesTheJobInDoubtAndTheDaemonRunning(t *testing.T) {
	inWorld(t, func(w *world) {
		w.orders.Script(faketarget.Fault{Kind: faketarget.PanicAfter})
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(5 * time.Second)
		if r := w.row("orders", "A"); !r.Unresolved() || r.LastCode != "panic" {
			t.Fatalf("after a panic the job is %s %s", r.LastClass, r.LastCode)
		}
		w.pass(10 * time.Minute)
		w.holds(w.orders, "A", `{"key":"A"}`)
	})
}

func TestPanicWhileReadingFailsThatReadingAndNothingElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.redact = func(s string) string { return strings.ReplaceAll(s, "s3cret", "…") }
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
		w.shop.put("1", 1, `{"key":"A"}`)
		w.shop.put("2", 1, `{"key":"B","bad":true}`)
		w.start()
		w.pass(3 * time.Second)
		w.shop.panicking(true)
		w.shop.put("3", 1, `{"key":"C"}`)
		if _, err := w.journal.Replay(context.Background(), []jobs.RowID{{Flow: "orders", Key: "@2"}}, w.plan.JobFlows()); err != nil {
			t.Fatal(err)
		}
		pulls, fetches := w.shop.pulled(), w.shop.fetched()
		w.pass(10 * time.Minute)
		if p, f := w.shop.pulled()-pulls, w.shop.fetched()-fetches; p < 5 || p > 60 || f < 5 || f > 120 {
			t.Errorf("%d readings and %d of one record in ten minutes: none, or a hot loop", p, f)
		}
		if f := w.state().Failing; f.Class != connectors.Transient || f.Code != "panic" {
			t.Errorf("reading is shown as failing with %+v", f)
		}
		if log := w.logged.String(); !strings.Contains(log, "page …") || !strings.Contains(log, "record …") || !strings.Contains(log, "fake_test.go") || strings.Contains(log, "s3cret") {
			t.Error("the log lacks a panic or its stack, or shows the secret")
		}
		w.shop.panicking(false)
		w.shop.put("2", 2, `{"key":"B"}`)
		w.pass(2 * time.Minute)
		for _, key := range []string{"A", "B", "C"} {
			w.holds(w.orders, key, fmt.Sprintf(`{"key":%q}`, key))
		}
	})
}

func TestReloadFinishesOldWritesAndRunsTheNewMapping(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, 3 * time.Second}
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(1500 * time.Millisecond)
		next := *w.plan
		next.Flows = map[string]*FlowPlan{"orders": w.flow("orders", "order", `. + {new: true}`, `.key`)}
		w.reload <- Reload{Plan: &next}
		w.pass(5 * time.Second)
		w.holds(w.orders, "A", `{"key":"A"}`)
		w.shop.put("2", 1, `{"key":"B"}`)
		w.pass(10 * time.Second)
		w.holds(w.orders, "B", `{"key":"B","new":true}`)
		if n := len(w.orders.Effects()); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

func TestJobPastMaxAgeIsReadAgainAndNeverSentAsItWas(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"].MaxAge = time.Hour
		w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 3 * time.Hour})
		w.plan.Clients["erp"].Concurrency = 1
		w.shop.put("1", 1, `{"key":"A","qty":40}`)
		w.start()
		w.pass(time.Hour)
		w.shop.mu.Lock()
		w.shop.present["1"] = connectors.Event{SourceID: "1", Version: 7, ChangedAt: time.Now().UTC(), Body: json.RawMessage(`{"key":"A","qty":3}`)}
		w.shop.mu.Unlock()
		w.pass(3 * time.Hour)
		w.holds(w.orders, "A", `{"key":"A","qty":3}`)
		for _, e := range w.orders.Effects() {
			if e.Body != `{"key":"A","qty":3}` {
				t.Errorf("the old state was written: %s", e.Body)
			}
		}
	})
}

func TestFailingSourceKeepsItsCursorAndIsReadOnAfterwards(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		w.start()
		w.pass(3 * time.Second)
		w.shop.failing(connectors.Errorf(connectors.Transient, "http_503", "down"))
		w.shop.put("2", 1, `{"key":"B"}`)
		w.pass(10 * time.Minute)
		before := w.shop.pulled()
		if before > 60 {
			t.Errorf("%d pulls of a failing source in ten minutes: that is a hot loop", before)
		}
		w.shop.failing(nil)
		w.pass(2 * time.Minute)
		w.holds(w.orders, "B", `{"key":"B"}`)
	})
}

func TestReadingThatEndsInTheMiddleIsNoCompleteOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
		w.plan.Flows["orders"].OnDelete = "delete"
		for i := range 50 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","bad":%v}`, i, i == 3))
		}
		w.shop.fails(3, connectors.Errorf(connectors.Invalid, "http_400", "page 3 is refused"))
		w.start()
		w.pass(30 * time.Minute)
		if s := w.state(); string(s.Cursor) != "20" || s.Failing.Code != "http_400" {
			t.Errorf("the cursor is %s, failing %+v, want that of the second page and the reason", s.Cursor, s.Failing)
		}
		if n := w.orders.Len(); n != 19 {
			t.Errorf("the target has %d records, want the 19 good ones of two pages", n)
		}
		// What was read is told in full: each event is one of these.
		if got, want := strings.Count(w.logged.String(), "msg=read flow=orders events=10 records=9 new=9 rejected=1"), 1; got != want {
			t.Errorf("the first page is told %d times with all it brought", got)
		}
		w.shop.fails(0, nil)
		w.pass(5 * time.Minute)
		if s := w.state(); string(s.Cursor) != "50" || s.Failing != (jobs.Failing{}) {
			t.Errorf("after it came back the cursor is %s, failing %+v", s.Cursor, s.Failing)
		}
		if n := w.orders.Len(); n != 49 || len(w.orders.Effects()) != 49 {
			t.Errorf("the target has %d records after %d effects, want 49 and no deletion", n, len(w.orders.Effects()))
		}
	})
}

func TestEventWhoseMappingKilledTheDaemonIsFoundAndTheOthersPass(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 3 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		ctx := context.Background()
		for range deaths { // the page was begun, and the process ended
			if _, err := w.journal.BeginPage(ctx, "orders", ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.journal.BeginPage(ctx, "orders", `{"1":3}`); err != nil { // of three, one is alone from the first: event 1 was begun three times
			t.Fatal(err)
		}
		w.start()
		w.pass(5 * time.Second)
		w.holds(w.orders, "K0", `{"key":"K0"}`)
		w.holds(w.orders, "K2", `{"key":"K2"}`)
		if r := w.row("orders", "@1"); r.State != jobs.Dead {
			t.Fatalf("the deadly event is %s", r.State)
		}
	})
}

// killed maps a page under suspicion again and again, as far as it gets before the process ends, and returns the dead letters.
func killed(t *testing.T, n, most int, dies func(part []int) bool) (dead []int, lives int) {
	t.Helper()
	events := make([]connectors.Event, n)
	for i := range events {
		events[i].SourceID = fmt.Sprint(i)
	}
	begun := map[string]int{}
	for lives = 1; lives <= most; lives++ {
		dead, over := dead[:0], true
		for _, p := range suspicion(events, begun) {
			if p.n >= p.most {
				dead = append(dead, p.at...)
				continue
			}
			if dies(p.at) {
				for _, i := range p.at {
					begun[events[i].SourceID]++
				}
				over = false
				break
			}
		}
		if over {
			return dead, lives
		}
	}
	t.Fatalf("the page is not mapped after %d lives", most)
	return nil, 0
}

func TestDeadlyEventsAreFoundAmongManyAndNoOther(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100, 1000} {
		for _, deadly := range [][]int{{}, {0}, {n - 1}, {n / 3, n / 2}} {
			want := slices.Compact(slices.Clone(deadly))
			got, lives := killed(t, n, 60, func(part []int) bool {
				return slices.ContainsFunc(part, func(i int) bool { return slices.Contains(deadly, i) })
			})
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("of %d events %v are found in %d lives, want %v", n, got, lives, want)
			}
		}
	}
}

// A machine that is short of memory, or a supervisor with too little patience, ends a daemon a moment after each start.
func TestDaemonThatIsKilledAMomentAfterEachStartBlamesNoEvent(t *testing.T) {
	for _, moment := range []int{1, 2, 3} {
		n, life := 0, 0
		dead, _ := killed(t, 200, 200, func([]int) bool {
			if n++; n < moment+life%4 || life >= 60 {
				return false
			}
			n, life = 0, life+1
			return true
		})
		if len(dead) > 0 {
			t.Errorf("killed over part %d and the next ones, %d events are dead letters", moment, len(dead))
		}
	}
}

func TestVersionBeyondTheSourcesClockDoesNotShadowLaterOnes(t *testing.T) {
	f := &FlowPlan{Source: connectors.StreamInfo{VersionIsTime: true}}
	server := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	page := connectors.Page{ServerTime: server}
	far := item(f, page, connectors.Event{Version: server.Add(48 * time.Hour).UnixMicro()})
	if far.Version != server.UnixMicro() {
		t.Errorf("a version two days ahead was kept")
	}
	near := item(f, page, connectors.Event{Version: server.Add(time.Minute).UnixMicro()})
	if near.Version != server.Add(time.Minute).UnixMicro() {
		t.Errorf("a version within the slack was changed")
	}
}

// slow is an entity that takes its time, and gives up with its context.
type slow struct {
	*faketarget.Entity
	takes time.Duration
}

func (s slow) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	t := time.NewTimer(s.takes)
	defer t.Stop()
	select {
	case <-t.C:
		return s.Entity.Create(ctx, w)
	case <-ctx.Done():
		return connectors.Fail(connectors.Unknown, "canceled", "cut off")
	}
}

// refusing is an entity whose first creates are answered as scripted.
type refusing struct {
	*faketarget.Entity
	mu      *sync.Mutex
	script  *[]connectors.Outcome
	creates *int
}

// refuse puts an entity in front of the orders that answers the first creates so.
func (w *world) refuse(os ...connectors.Outcome) refusing {
	r := refusing{w.orders, &sync.Mutex{}, &os, new(int)}
	w.plan.Clients["erp"].Settings.(*settings).entities["order"] = r
	return r
}

func (r refusing) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.creates
}

func (r refusing) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.creates++
	if len(*r.script) > 0 {
		o := (*r.script)[0]
		*r.script = (*r.script)[1:]
		return o
	}
	return r.Entity.Create(ctx, w)
}
