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
}

// mostSteps bounds what a history takes to become quiet once nothing fails any more.
const mostSteps = 200_000

// play plays the history of a seed.
func play(t *testing.T, seed uint64, trace func(string)) outcome {
	return playOn(t, newStage(seed, trace))
}

func playOn(t *testing.T, st *stage) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		st.back = make(chan struct{})
		w := newWorld(st)
		for range 2 {
			w.source.change()
		}
		for range 1 + st.r.IntN(3) {
			w.startOne()
		}
		st.act(nil, "person", w.person)
		steps, n := 400+st.r.IntN(1200), 0
		st.play(steps, func() {
			w.happens()
			if n++; n%20 == 0 {
				w.land()
				w.atWork()
			}
		}, func() bool { return false })
		st.calm = true
		st.note("calm")
		for _, n := range w.nodes {
			n.frozen, n.cut = time.Time{}, time.Time{}
		}
		w.startOne()
		begun, k := time.Now(), 0
		if !st.play(mostSteps, func() {}, func() bool { k++; return k%50 == 0 && w.quiet() }) {
			st.violation("I2: after %s without faults there is still something to do: %s", time.Since(begun).Round(time.Second), w.open())
		}
		w.end()
		for _, n := range w.nodes {
			if !n.dead {
				st.kill(n)
			}
		}
		for _, a := range st.actors {
			if !a.done { // the person
				a.node = &node{dead: true}
				st.turnOf(a)
			}
		}
		out = outcome{wrong: st.wrong, steps: steps}
	})
	return out
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
	workers := runtime.GOMAXPROCS(0)
	for n := range workers {
		t.Run(fmt.Sprintf("worker %d", n), func(t *testing.T) {
			t.Parallel()
			for {
				i := next.Add(1)
				if i > int64(*seeds) || failed.Load() >= *most {
					return
				}
				s := base + uint64(i)
				if out := play(t, s, nil); len(out.wrong) > 0 {
					failed.Add(1)
					t.Errorf("seed %d broke promises; play it again with: go test ./test/simulation -seed %d\n  %s", s, s, strings.Join(out.wrong, "\n  "))
				}
			}
		})
	}
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
