package simulation

import (
	"context"
	"fmt"
	"hash"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing/synctest"
	"time"
)

// stage is where the actors of one history play. Exactly one of them runs at a time.
type stage struct {
	r      *rand.Rand
	actors []*actor
	// back is where an actor says that it has let go.
	back chan struct{}
	// calm: nothing fails any more.
	calm bool

	// history stands for all that happened; only kept where two are to be compared.
	history hash.Hash64
	// met counts what has come about; nil where nobody wants to know.
	met map[string]int
	// doomed is what is to be done as soon as nobody plays: only then a daemon can be ended.
	doomed []func()
	// moment counts the turns, of which many fall on one time.
	moment int
	// now is who plays.
	now *actor
	// calls counts the transactions of daemons. Where failAt is set, nothing goes wrong
	// but that one, as failAs says.
	calls, failAt int
	failAs        fate
	trace         func(string) // nil unless the history is to be seen
	wrong         []string
}

// actor is one thread of a history.
type actor struct {
	st   *stage
	name string
	node *node // nil for one that is no daemon's
	turn chan struct{}
	wake time.Time
	done bool
}

func newStage(seed uint64, trace func(string)) *stage {
	return &stage{r: rand.New(rand.NewPCG(seed, 7)), trace: trace}
}

// chance is true once in n times, and never when all is calm.
func (st *stage) chance(n int) bool { return !st.calm && st.r.IntN(n) == 0 }

// seen notes that something has come about.
func (st *stage) seen(what string) {
	if st.met != nil {
		st.met[what]++
	}
}

// upTo is a duration of at most d.
func (st *stage) upTo(d time.Duration) time.Duration { return time.Duration(st.r.Int64N(int64(d))) + 1 }

// violation notes that a promise was broken.
func (st *stage) violation(format string, args ...any) {
	if len(st.wrong) < 20 {
		st.wrong = append(st.wrong, fmt.Sprintf(format, args...))
	}
	st.note("VIOLATION ", fmt.Sprintf(format, args...))
}

// told reports whether anybody wants to know what happens. Most histories are played
// without, since telling costs more than the rest.
func (st *stage) told() bool { return st.history != nil || st.trace != nil }

// note adds a line to the history.
func (st *stage) note(words ...string) {
	if !st.told() {
		return
	}
	line := time.Now().Format("04:05.000000 ") + strings.Join(words, "")
	if st.history != nil {
		st.history.Write([]byte(line + "\n"))
	}
	if st.trace != nil {
		st.trace(line)
	}
}

// act adds an actor.
func (st *stage) act(n *node, name string, play func(ctx context.Context, a *actor)) {
	a := &actor{st: st, name: name, node: n, turn: make(chan struct{})}
	st.actors = append(st.actors, a)
	ctx := context.WithValue(context.Background(), actorKey{}, a)
	go func() {
		defer func() {
			a.done = true
			st.back <- struct{}{}
		}()
		<-a.turn
		a.mayDie()
		play(ctx, a)
	}()
}

type actorKey struct{}

// actorOf is the actor on whose behalf something is done.
func actorOf(ctx context.Context) *actor { return ctx.Value(actorKey{}).(*actor) }

// actorOf is that of ctx, or who plays where ctx does not tell.
func (st *stage) actorOf(ctx context.Context) *actor {
	if a, ok := ctx.Value(actorKey{}).(*actor); ok {
		return a
	}
	return st.now
}

// nobody is the context of those who look on, somebody that of who plays.
func (st *stage) nobody() context.Context { return context.Background() }
func (st *stage) somebody() context.Context {
	return context.WithValue(context.Background(), actorKey{}, st.now)
}

// mayDie ends the actor's goroutine if its daemon has died. It runs no code of the
// daemon any more but for what is deferred, which can reach nothing.
func (a *actor) mayDie() {
	if a.node != nil && a.node.dead {
		runtime.Goexit()
	}
}

// step lets go once: others may play, time may pass, the daemon may die.
func (a *actor) step(what ...string) {
	a.mayDie()
	a.st.back <- struct{}{}
	<-a.turn
	a.mayDie()
	if a.st.told() {
		a.st.note(append([]string{a.name, " "}, what...)...)
	}
}

// sleep lets go until d has passed.
func (a *actor) sleep(d time.Duration) {
	a.wake = time.Now().Add(d)
	a.step("wakes")
}

// turnOf has an actor go on until it lets go again.
func (st *stage) turnOf(a *actor) {
	before := st.now
	st.now = a
	st.moment++
	a.turn <- struct{}{}
	<-st.back
	st.now = before
}

// pass lets time go by.
func (st *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait() // what ends with a deadline has ended
}

// play plays until over, or for at most so many steps; it reports whether over was
// reached. between is called before each step.
func (st *stage) play(most int, between func(), over func() bool) bool {
	var ready []*actor
	for range most {
		for _, end := range st.doomed {
			end()
		}
		st.doomed = st.doomed[:0]
		between()
		if over() {
			return true
		}
		now := time.Now()
		ready = ready[:0]
		var next time.Time
		live := st.actors[:0]
		for _, a := range st.actors {
			if a.done {
				continue
			}
			live = append(live, a)
			wake := a.wake
			if a.node != nil && a.node.frozen.After(wake) {
				wake = a.node.frozen
			}
			if !wake.After(now) {
				ready = append(ready, a)
			} else if next.IsZero() || wake.Before(next) {
				next = wake
			}
		}
		st.actors = live
		switch {
		case len(ready) == 0 && next.IsZero():
			return over()
		case len(ready) == 0:
			st.pass(next.Sub(now))
		case st.r.IntN(10) == 0:
			st.pass(st.upTo(300 * time.Millisecond))
		default:
			st.turnOf(ready[st.r.IntN(len(ready))])
		}
	}
	return over()
}

// kill ends all actors of a daemon where they stand.
func (st *stage) kill(n *node) {
	n.dead = true
	for _, a := range st.actors {
		if a.node == n && !a.done {
			st.turnOf(a)
		}
	}
}
