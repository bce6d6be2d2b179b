package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 5000, "how many fresh seeds to play")
	seed  = flag.Uint64("seed", 0, "play this seed alone, and show its history")
	from  = flag.Uint64("from", 0, "play the seeds after this one instead of fresh ones")
	most  = flag.Int64("failures", 5, "end after so many histories that broke promises")
)

// A history is small, and garbage of it is soon gone: collecting it at each few
// megabytes would cost a quarter of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

func itoa(n int) string { return strconv.Itoa(n) }

// outcome is what became of a history.
type outcome struct {
	wrong []string
	steps int
	// met counts what has come about.
	met map[string]int
}

// mostSteps bounds what a history takes to become quiet once nothing fails any more.
const mostSteps = 200_000

// play plays the history of a seed.
func play(t *testing.T, seed uint64, trace func(string)) outcome {
	st := newStage(seed, trace)
	st.met = map[string]int{}
	return playOn(t, st)
}

func playOn(t *testing.T, st *stage) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		st.back = make(chan struct{})
		w := newWorld(st)
		for range 1 + st.r.IntN(3) {
			w.startOne()
		}
		st.act(nil, "person", w.person)
		if w.errand != "" {
			st.act(nil, "operator", w.operator)
		}
		steps, n := 400+st.r.IntN(1200), 0
		st.play(steps, func() {
			w.happens()
			if n++; n%20 == 0 {
				w.land()
				w.atWork()
			}
		}, func() bool { return false })
		w.calm()
		begun, k := time.Now(), 0
		if !st.play(mostSteps, func() {}, func() bool { k++; return k%50 == 0 && w.quiet() }) {
			st.violation("I2: after %s without faults there is still something to do: %s", time.Since(begun).Round(time.Second), w.open())
		}
		w.judge()
		w.close()
		out = outcome{wrong: st.wrong, steps: steps, met: st.met}
	})
	return out
}

// calm ends all that goes wrong.
func (w *world) calm() {
	st := w.st
	st.calm = true
	st.note("calm")
	for _, n := range w.nodes {
		n.frozen, n.cut = time.Time{}, time.Time{}
	}
	if w.source.keys > 0 {
		w.source.part()
	}
	for _, n := range w.nodes {
		if !n.dead && n.shards != w.shards { // nobody else may run while it does
			w.end(n)
		}
	}
	w.startOne()
}

// close ends everybody.
func (w *world) close() {
	for _, n := range w.nodes {
		if !n.dead {
			w.st.kill(n)
		}
		n.close()
	}
	for _, a := range w.st.actors {
		if !a.done { // the person
			a.node = &node{dead: true}
			w.st.turnOf(a)
		}
	}
}

func TestPromisesHoldInEveryHistory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		*seeds = min(*seeds, 200)
	}
	if *seed != 0 {
		out := play(t, *seed, func(line string) { fmt.Println(line) })
		for _, v := range out.wrong {
			t.Error(v)
		}
		return
	}
	for _, s := range failedBefore(t) {
		if *from != 0 {
			break
		}
		if out := play(t, s, nil); len(out.wrong) > 0 {
			t.Errorf("seed %d fails again: %s", s, strings.Join(out.wrong, "\n  "))
		}
	}
	var next, failed atomic.Int64
	base := uint64(time.Now().UnixNano()) &^ 0xffffff // fresh ones each time
	if *from != 0 {
		base = *from
	}
	met := make([]map[string]int, runtime.GOMAXPROCS(0))
	t.Run("play", func(t *testing.T) {
		for n := range met {
			met[n] = map[string]int{}
			t.Run(fmt.Sprintf("worker %d", n), func(t *testing.T) {
				t.Parallel()
				for {
					i := next.Add(1)
					if i > int64(*seeds) || failed.Load() >= *most {
						return
					}
					s := base + uint64(i)
					out := play(t, s, nil)
					if len(out.wrong) > 0 {
						failed.Add(1)
						t.Errorf("seed %d broke promises; play it again with: go test ./test/simulation -seed %d\n  %s", s, s, strings.Join(out.wrong, "\n  "))
					}
					for what, times := range out.met {
						met[n][what] += times
					}
				}
			})
		}
	})
	if *seeds < 3000 || failed.Load() > 0 {
		return
	}
	for _, what := range reached {
		n := 0
		for _, m := range met {
			n += m[what]
		}
		if t.Logf("%7d times: %s", n, what); n == 0 {
			t.Errorf("in %d histories it has never come about that %s", *seeds, what)
		}
	}
}

// reached are the things that come about in many histories, each of which would prove
// nothing any more if it did not.
var reached = []string{"a breaker is open at the start of a lane", "a breaker opens", "a client is paused at the start of a lane",
	"a client is paused by throttling", "a commit is lost", "a daemon cannot reach the journal", "a daemon dies", "a daemon is stopped",
	"a dead letter is replayed", "a flow goes on", "a flow is suspended", "a held job is resolved", "a held job meets a redelivery", "a lane is given back",
	"a lane waits for another split", "a link comes too late", "a redelivery begins while writes are under way", "a record is read anew for refresh", "a record is read anew for remap",
	"a record is written without what it refers to", "a record waits for what it refers to", "a suspended flow is probed",
	"an answer comes late", "an event comes late", "errand: pause", "errand: redeliver", "errand: refused",
	"errand: remap", "errand: shards", "errand: source-reset", "events come again", "fresh_within", "max_age", "on_dead: hold", "on_dead: skip",
	"on_rename: recreate", "on_rename: rename", "references",
	"target: fail_done", "target: fail_undone", "target: late", "target: lose_answer",
	"target: lose_request", "target: no_link", "target: not_sent", "target: panic_after", "target: panic_before", "target: refuse",
	"target: short", "target: throttle", "the answer to a commit is lost", "the journal is away", "the journal's clock jumps",
	"the lane of a daemon that is known to have ended is taken", "two records swap keys"}

// mostCalls bounds the calls to the journal of a history in which each of them goes wrong
// once in each way: one of several times as many takes minutes.
const mostCalls = 120

// TestEachCallToTheJournalMayFail has one call after the other go wrong, in each way, in
// histories in which nothing else does.
func TestEachCallToTheJournalMayFail(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		t.Skip("one seed is to be seen")
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	for range max(1, *seeds/2500) {
		s, calls := uint64(0), mostCalls+1
		for calls > mostCalls {
			var quiet []string
			s = r.Uint64()
			if quiet, calls = playQuiet(t, s, -1, committed); len(quiet) > 0 || calls < 10 {
				t.Fatalf("seed %d: %d calls, and without a fault: %s", s, calls, strings.Join(quiet, "\n  "))
			}
		}
		for n := 1; n <= calls; n++ {
			for _, as := range []fate{neverBegun, undone, unheard, lastBefore, lastAfter} {
				if wrong, _ := playQuiet(t, s, n, as); len(wrong) > 0 {
					t.Errorf("seed %d, call %d of %d, %s: %s", s, n, calls, as, strings.Join(wrong, "\n  "))
				}
			}
		}
	}
}

// playQuiet plays a short history in which one call to the journal goes wrong, and
// returns how many there were.
func playQuiet(t *testing.T, seed uint64, failAt int, as fate) (wrong []string, calls int) {
	synctest.Test(t, func(*testing.T) {
		st := newStage(seed, nil)
		st.back, st.calm, st.failAt, st.failAs = make(chan struct{}), true, failAt, as
		w := newWorld(st)
		for range 6 {
			w.source.change()
		}
		if w.source.keys > 0 {
			w.source.part()
		}
		w.startOne()
		st.act(nil, "person", w.person)
		if w.errand != "" {
			st.act(nil, "operator", w.operator)
		}
		k := 0
		if !st.play(mostSteps, func() {}, func() bool { k++; return k%50 == 0 && w.quiet() }) {
			st.violation("I2: there is still something to do: %s", w.open())
		}
		w.judge()
		w.close()
		wrong, calls = st.wrong, st.calls
	})
	return wrong, calls
}

func TestASeedPlaysTheSameHistoryAgain(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		t.Skip("one seed is to be seen")
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range min(*seeds/25, 200) + 1 {
		s := r.Uint64()
		var sums [2]uint64
		for i := range sums {
			st := newStage(s, nil)
			st.history = fnv.New64a()
			playOn(t, st)
			sums[i] = st.history.Sum64()
		}
		if sums[0] != sums[1] {
			t.Fatalf("seed %d played two histories", s)
		}
	}
}

// failedBefore are the seeds of histories that once broke a promise.
func failedBefore(t *testing.T) (out []uint64) {
	f, err := os.Open("testdata/failed.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		text, _, _ := strings.Cut(s.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}
