package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeWay notes what is sent and when, and fails as it is told.
type fakeWay struct {
	mu    sync.Mutex
	at    []time.Time
	ids   []string
	msgs  []Message
	fault func(ctx context.Context, try int) error
}

func (f *fakeWay) name() string { return "webhook" }

func (f *fakeWay) send(ctx context.Context, id string, body []byte, now time.Time) error {
	f.mu.Lock()
	f.at, f.ids = append(f.at, now), append(f.ids, id)
	n, fault := len(f.at), f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, n); err != nil {
			return err
		}
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.msgs = append(f.msgs, m)
	return nil
}

// fails has every later try go through fault; nil for none.
func (f *fakeWay) fails(fault func(ctx context.Context, try int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// sent are the messages that arrived.
func (f *fakeWay) sent() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.msgs)
}

// tries are the times and the ids of all tries.
func (f *fakeWay) tries() ([]time.Time, []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.at), slices.Clone(f.ids)
}

type rig struct {
	*testing.T
	*Notifier
	way *fakeWay
	end func()

	tell    sync.Mutex
	results []string
	clients []Client
}

// inRig runs a notifier with a fake way under a fake clock.
func inRig(t *testing.T, s Settings, do func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, way: &fakeWay{}}
		r.Notifier = New(Options{Daemon: "host", Version: "1.2.3",
			Clients: func() []Client {
				r.tell.Lock()
				defer r.tell.Unlock()
				return r.clients
			},
			Done: func(way, result string) {
				r.tell.Lock()
				defer r.tell.Unlock()
				r.results = append(r.results, way+" "+result)
			}})
		if s.Events == nil {
			s.Events = Events()
		}
		r.set(s, []way{r.way})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Notifier.Run(ctx)
		}()
		r.end = func() {
			cancel()
			<-done
		}
		defer r.end()
		do(r)
	})
}

// came is what became of the messages.
func (r *rig) came() string {
	r.tell.Lock()
	defer r.tell.Unlock()
	return strings.Join(r.results, ", ")
}

// stand has clients stand so from now on.
func (r *rig) stand(cs ...Client) {
	r.tell.Lock()
	defer r.tell.Unlock()
	r.clients = cs
}

// kept counts the kinds of happenings that wait to be told.
func (r *rig) kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.gathered.entries)
}

func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // of the fake clock
	synctest.Wait()
}

var minutely = Settings{Coalesce: time.Minute, LongPause: 15 * time.Minute}

func dead(n int) Happening {
	return Happening{Event: Dead, Client: "erp", Flow: "orders", Class: "invalid", Code: "http_422", Count: n}
}

func TestOneMessageAnIntervalSumsUpWhatHappened(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		for range 600 { // ten minutes
			r.Tell(dead(2))
			r.pass(time.Second)
		}
		r.pass(2 * time.Minute)
		if n := len(r.way.sent()); n < 10 || n > 11 {
			t.Errorf("%d messages in ten minutes", n)
		}
		tries, _ := r.way.tries()
		sum := 0
		for i, m := range r.way.sent() {
			sum += m.Data.Happened[0].Count
			if i > 0 && tries[i].Sub(tries[i-1]) < time.Minute {
				t.Errorf("a message %s after the one before", tries[i].Sub(tries[i-1]))
			}
		}
		if sum != 1200 {
			t.Errorf("%d jobs were told of, want 1200", sum)
		}
	})
}

func TestFirstMessageComesSoonAndGathersTheRest(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.pass(time.Hour)
		r.Tell(Happening{Event: Suspended, Client: "erp", Code: "http_401"})
		r.Tell(dead(1))
		r.pass(gatherTime - time.Second)
		r.Tell(dead(3))
		if len(r.way.sent()) != 0 {
			t.Fatal("told before the rest could come")
		}
		r.pass(time.Second)
		if len(r.way.sent()) != 1 || len(r.way.sent()[0].Data.Happened) != 2 {
			t.Fatalf("sent %+v", r.way.sent())
		}
		if got, want := r.way.sent()[0].Data.Summary, "syncd on host: client erp is suspended (http_401); 4 jobs of flow orders dead (http_422)"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		r.pass(time.Hour)
		if len(r.way.sent()) != 1 {
			t.Errorf("%d messages although nothing more happened", len(r.way.sent()))
		}
		r.Tell(dead(1))
		r.pass(gatherTime)
		if len(r.way.sent()) != 2 {
			t.Errorf("%d messages, want the second one as soon as the first", len(r.way.sent()))
		}
	})
}

func TestWayThatHangsHoldsNobodyUpAndFillsNoMemory(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.way.fails(func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.Tell(dead(1))
		r.pass(gatherTime)
		begun := time.Now()
		for i := range 100_000 {
			r.Tell(Happening{Event: Dead, Flow: fmt.Sprint("flow", i), Count: 1})
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("telling waited for %s", took)
		}
		if n := r.kept(); n != mostKinds {
			t.Errorf("%d kinds are kept, want %d", n, mostKinds)
		}
		// Four tries of ten seconds, and the waits between them.
		r.pass(4*tryTime + 42*time.Second - time.Nanosecond)
		if r.came() != "" {
			t.Fatalf("given up early: %q", r.came())
		}
		r.pass(time.Nanosecond)
		if r.came() != "webhook failed" {
			t.Fatalf("got %q", r.came())
		}
		r.way.fails(nil)
		r.pass(time.Minute)
		if len(r.way.sent()) != 1 || len(r.way.sent()[0].Data.Happened) != mostKinds || r.way.sent()[0].Data.LeftOut != 100_000-mostKinds {
			t.Errorf("the next message has %d kinds, and leaves %d out", len(r.way.sent()[0].Data.Happened), r.way.sent()[0].Data.LeftOut)
		}
		if n := len(r.way.sent()[0].Data.Summary); n > mostSummary {
			t.Errorf("a summary of %d bytes", n)
		}
	})
}

func TestMessageIsTriedAgainUnderItsIdAtTheTimeOfTheTry(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.way.fails(func(_ context.Context, try int) error {
			if try < 4 {
				return errors.New("it answered 500")
			}
			return nil
		})
		r.Tell(dead(1))
		r.pass(time.Minute)
		tries, ids := r.way.tries()
		if len(tries) != 4 || len(r.way.sent()) != 1 || r.came() != "webhook sent" {
			t.Fatalf("%d tries, %d sent, %q", len(tries), len(r.way.sent()), r.came())
		}
		for i := range 3 {
			if ids[i] != ids[3] || tries[i+1].Sub(tries[i]) != pausesBetween()[i] {
				t.Errorf("tries %v with ids %v", tries, ids)
			}
		}
		if !strings.HasPrefix(ids[0], "msg_") || strings.Contains(ids[0], ".") {
			t.Errorf("the id is %s", ids[0])
		}
		r.Tell(dead(1))
		r.pass(2 * time.Minute)
		if _, later := r.way.tries(); later[4] == ids[0] {
			t.Error("two messages have one id")
		}
	})
}

func TestWhatIsRefusedForItselfIsNotSentAgain(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.way.fails(func(context.Context, int) error { return fmt.Errorf("post: %w", permanent{errors.New("404")}) })
		r.Tell(dead(1))
		r.pass(10 * time.Minute)
		tries, _ := r.way.tries()
		if len(tries) != 1 || r.came() != "webhook failed" {
			t.Errorf("%d tries, %q", len(tries), r.came())
		}
	})
}

func TestWhatIsLeftIsTriedOnceAtTheEnd(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.Tell(dead(1))
		r.pass(10 * time.Second)
		r.Tell(dead(7))
		r.end()
		if len(r.way.sent()) != 2 || r.way.sent()[1].Data.Happened[0].Count != 7 {
			t.Errorf("sent %+v", r.way.sent())
		}
	})
	inRig(t, minutely, func(r *rig) {
		r.way.fails(func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		r.Tell(dead(1))
		begun := time.Now()
		r.end()
		tries, _ := r.way.tries()
		if took := time.Since(begun); took != lastTime || len(tries) != 1 {
			t.Errorf("the end took %s with %d tries", took, len(tries))
		}
	})
}

func TestNobodyIsToldOfOtherEventsOrWithoutAWay(t *testing.T) {
	s := minutely
	s.Events = []Event{Held}
	inRig(t, s, func(r *rig) {
		r.Tell(dead(1))
		r.pass(time.Hour)
		r.Tell(Happening{Event: Held, Flow: "orders", Count: 1})
		r.pass(time.Hour)
		if len(r.way.sent()) != 1 || r.way.sent()[0].Data.Happened[0].Event != Held {
			t.Errorf("sent %+v", r.way.sent())
		}
		r.Tell(Happening{Event: Held, Flow: "orders", Count: 1})
		r.Set(Settings{Events: Events()}) // a reload that takes notify out
		r.Tell(dead(1))
		r.pass(time.Hour)
		if len(r.way.sent()) != 1 || r.kept() != 0 {
			t.Errorf("sent %+v", r.way.sent())
		}
	})
}

func TestWhatHappenedBeforeNotifyWasTakenOutIsNotToldLater(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.Tell(dead(1))
		s := minutely
		s.Events = Events()
		r.set(s, nil)
		r.set(s, []way{r.way})
		r.pass(time.Hour)
		if len(r.way.sent()) != 0 {
			t.Errorf("sent %+v", r.way.sent())
		}
	})
}

func TestBurstDoesNotHoldUpTheNextMessage(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		r.Tell(dead(1))
		r.pass(time.Second)
		r.Tell(dead(1))
		r.pass(70 * time.Second)
		if len(r.way.sent()) != 1 {
			t.Fatalf("%d messages, want 1", len(r.way.sent()))
		}
		r.Tell(dead(1))
		r.pass(gatherTime)
		if len(r.way.sent()) != 2 {
			t.Errorf("%d messages %s after the second happening, want 2", len(r.way.sent()), gatherTime)
		}
	})
}

func TestClientThatComesBackFromAnotherDaemonIsToldAnew(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	long := []Client{{Name: "erp", Reason: "throttled", Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}}
	p := pauses{}
	for i, clients := range [][]Client{long, nil, long} {
		if n := len(p.turn(clients, 15*time.Minute, now)); n != (i+1)%2 {
			t.Errorf("look %d: told of %d", i, n)
		}
	}
}

func TestLongPauseIsToldOnceAndItsEndToo(t *testing.T) {
	inRig(t, minutely, func(r *rig) {
		begun := time.Now()
		r.stand(Client{Name: "erp", Reason: "throttled", Since: begun, Until: begun.Add(time.Minute)}, Client{Name: "shop"})
		r.pass(14 * time.Minute)
		if len(r.way.sent()) != 0 {
			t.Fatalf("told of a pause of 14 minutes: %+v", r.way.sent())
		}
		r.pass(time.Hour) // it was lengthened over and over
		if len(r.way.sent()) != 1 {
			t.Fatalf("told %d times of one pause", len(r.way.sent()))
		}
		e := r.way.sent()[0].Data.Happened[0]
		if e.Event != Paused || e.Over || e.Client != "erp" || e.Code != "throttled" || !e.Since.Equal(begun.Truncate(time.Millisecond)) {
			t.Errorf("told %+v", e)
		}
		r.stand(Client{Name: "erp"})
		r.pass(time.Minute)
		if len(r.way.sent()) != 2 || !r.way.sent()[1].Data.Happened[0].Over {
			t.Fatalf("sent %+v", r.way.sent())
		}
	})
}

func TestTurnsOfPauses(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	erp := func(reason string, since, until time.Duration) Client {
		return Client{Name: "erp", Reason: reason, Since: now.Add(since), Until: now.Add(until)}
	}
	known := pauses{"erp": {"throttled", now.Add(-time.Hour)}}
	for name, c := range map[string]struct {
		known   pauses
		clients []Client
		want    string
	}{
		"a short one":                          {nil, []Client{erp("throttled", -time.Minute, time.Minute)}, ""},
		"one that is going to be long":         {nil, []Client{erp("throttled", 0, time.Hour)}, "paused erp"},
		"one that has been long":               {nil, []Client{erp("throttled", -time.Hour, time.Second)}, "paused erp"},
		"an outage":                            {nil, []Client{{Name: "erp", Reason: "breaker", Since: now.Add(-time.Hour)}}, "paused erp"},
		"a person's":                           {nil, []Client{erp("operator", -time.Hour, time.Hour)}, ""},
		"a suspension":                         {nil, []Client{erp("suspended", -time.Hour, time.Minute)}, ""},
		"a suspension after one":               {known, []Client{erp("suspended", -time.Hour, time.Minute)}, ""},
		"one that has become too long":         {known, []Client{erp("beyond_max_pause", -time.Hour, 48*time.Hour)}, "paused erp"},
		"one that no call has followed yet":    {known, []Client{{Name: "erp", Unproved: true}}, ""},
		"the end of one":                       {known, []Client{{Name: "erp"}}, "over erp"},
		"a client of another daemon":           {known, nil, ""},
		"one part of a client that is split":   {nil, []Client{{Name: "erp"}, erp("throttled", -time.Hour, time.Hour), {Name: "erp"}}, "paused erp"},
		"the end in a part only":               {known, []Client{{Name: "erp"}, erp("throttled", -time.Hour, time.Hour)}, ""},
		"parts, of which one is paused longer": {nil, []Client{erp("throttled", -time.Minute, time.Minute), erp("throttled", -time.Hour, time.Minute)}, "paused erp"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pauses{}
			for k, v := range c.known {
				p[k] = v
			}
			var got []string
			for _, h := range p.turn(c.clients, 15*time.Minute, now) {
				what := "paused "
				if h.Over {
					what = "over "
				}
				got = append(got, what+h.Client)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
			if len(p.turn(c.clients, 15*time.Minute, now)) != 0 {
				t.Error("told again")
			}
		})
	}
}
