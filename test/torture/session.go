package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"syncd/internal/crash"
)

// row is one fault, how often it is to happen, and what came of it.
type row struct {
	fault   string
	planned int
	// kill says that the daemon alone is killed.
	kill bool
	// apart says that a world with servers of its own is needed, because they are stopped.
	apart bool
	// restores says that the journal is put back from a backup, after which much is in doubt for long: that is done in worlds apart.
	restores bool
	// point is where the daemon, or a command, kills itself; nil for another fault.
	point *crash.Point
	// inject, nil where the daemon kills itself, does the fault to a running daemon. It returns how long it took from the end of the fault to the next confirmed write; 0
	// where the daemon is dead, and the next one shows it.
	inject func(ctx context.Context, s *session) (time.Duration, error)

	mu                   sync.Mutex // worlds go on beside each other
	cycles               int
	lost, doubled, stale int
	recoveries           []time.Duration
}

// did counts a cycle.
func (r *row) did() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cycles++
}

// recovered notes how long it took until syncd worked again.
func (r *row) recovered(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recoveries = append(r.recoveries, took)
}

// session does faults to one world, one after the other.
type session struct {
	w     *world
	disk  disk // the journal's own; nil for none
	rnd   *rand.Rand
	order []*row
	say   func(format string, args ...any)
	told  string // what there was in the world

	// owed are the rows whose recovery is not measured yet.
	owed   []*row
	cycles []cycle
	found  map[string]bool
	// examples are some of the findings.
	examples []finding
}

// cycle is when one fault was done.
type cycle struct {
	row *row
	at  time.Time
}

// run does the faults in their order, and then has everything arrive.
func (s *session) run(ctx context.Context) error {
	s.w.trade(ctx)
	for _, r := range s.order {
		if err := s.cycle(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.fault, err)
		}
	}
	return s.quiesce(ctx)
}

// tries is how often a daemon is started to die at a point before that counts as missed.
const tries = 5

// cycle starts a daemon, waits until it works, and does one fault to it.
func (s *session) cycle(ctx context.Context, r *row) error {
	if s.w.daemon != nil {
		s.w.daemon.kill() // after a fault that it survived
	}
	if r.inject != nil {
		if err := s.revive(ctx, ""); err != nil {
			return err
		}
		s.begin(r)
		took, err := r.inject(ctx, s)
		if err != nil {
			return err
		}
		r.did()
		if took > 0 {
			r.recovered(took)
		} else {
			s.owed = append(s.owed, r)
		}
		return nil
	}
	for range tries {
		died, err := s.die(ctx, r)
		if err != nil {
			return err
		}
		if died {
			r.did()
			s.owed = append(s.owed, r)
			return nil
		}
		s.w.daemon.kill()
		s.say("%s: not reached in %s", r.fault, dieTime)
	}
	return nil // the verdict is about it
}

// begin books what goes wrong from now on to a fault.
func (s *session) begin(r *row) { s.cycles = append(s.cycles, cycle{r, time.Now()}) }

// dieTime is how long a daemon may take to pass its point.
const dieTime = 15 * time.Second

// die has a daemon die at a point, and reports whether it did in time.
func (s *session) die(ctx context.Context, r *row) (bool, error) {
	if r.starts() {
		// Not twice in a row without a working daemon in between, or the second one would find nothing new.
		if n := len(s.cycles); n == 0 || s.cycles[n-1].row.starts() {
			if err := s.revive(ctx, ""); err != nil {
				return false, err
			}
			s.w.daemon.kill()
		}
		s.begin(r)
		if strings.HasPrefix(r.point.Name, "reshard.") {
			s.w.shards = 3 - s.w.shards
		}
		var err error
		if s.w.daemon, err = s.w.start(s.passing(r.point), true); err != nil {
			return false, err
		}
		return s.w.daemon.dies(ctx, dieTime)
	}
	if err := s.revive(ctx, s.passing(r.point)); err != nil {
		return false, err
	}
	s.begin(r)
	defer s.lure(r.point)()
	if err := s.w.daemon.arm(); err != nil {
		return false, err
	}
	if r.point.When == crash.AtEnd {
		if err := s.w.daemon.sleep(ctx, s.upTo(500*time.Millisecond)); err != nil {
			return false, err
		}
		return s.w.daemon.diesStopping(ctx)
	}
	return s.w.daemon.dies(ctx, dieTime)
}

// starts reports whether the fault is a death before the daemon works.
func (r *row) starts() bool { return r.point != nil && r.point.When == crash.AtStart }

// lure has happen what a point is passed by, where that does not happen all the time. What it returns ends that.
func (s *session) lure(p *crash.Point) (end func()) {
	switch kind, _, _ := strings.Cut(p.Name, "."); {
	case kind == "pause":
		s.w.erp.be(throttle)
		return func() { s.w.erp.be(asUsual) }
	case kind == "reading":
		s.w.shop.fail(true)
		return func() { s.w.shop.fail(false) }
	default:
		return s.hurry()
	}
}

// hurryTime is how long the ERP is late with everything at most: what is passed only after an answer must be passed, too.
const hurryTime = 600 * time.Millisecond

// hurry has, half of the time, the ERP still work on what it was sent when the daemon dies: whoever sends it again without having found out
// does it twice. What it returns ends that.
func (s *session) hurry() (end func()) {
	if s.rnd.IntN(2) == 0 {
		return func() {}
	}
	s.w.erp.be(workLate)
	t := time.AfterFunc(hurryTime, func() { s.w.erp.be(asUsual) })
	return func() {
		t.Stop()
		s.w.erp.be(asUsual)
	}
}

// often is how many passings of a point there are within a second or so at least.
func often(point string) int {
	switch kind, _, _ := strings.Cut(point, "."); kind {
	case "job", "link", "pin", "rows":
		return 2
	}
	return 4
}

// passing chooses which passing of a point is meant, and for a COMMIT on its way, where on its way.
func (s *session) passing(p *crash.Point) string {
	n := 1
	if p.When == crash.AtWork {
		n += s.rnd.IntN(often(p.Name))
	}
	if strings.HasSuffix(p.Name, "."+crash.InFlight) && p.When == crash.ByCommand {
		return fmt.Sprintf("%s:%dus", p.Name, 1+s.rnd.IntN(1000)) // it has not much more to do
	}
	if strings.HasSuffix(p.Name, "."+crash.InFlight) {
		return fmt.Sprintf("%s:%d:%dus", p.Name, n, 1+s.rnd.IntN(5000))
	}
	return fmt.Sprintf("%s:%d", p.Name, n)
}

// revive starts a daemon and books its recovery to the fault before.
func (s *session) revive(ctx context.Context, point string) error {
	took, err := s.w.revive(ctx, point)
	if err != nil {
		return err
	}
	for _, r := range s.owed {
		r.recovered(took)
	}
	s.owed = nil
	return nil
}

// quiesce has everything arrive and books what is wrong to the faults during which it went wrong.
func (s *session) quiesce(ctx context.Context) error {
	if s.w.daemon == nil || s.w.daemon.hasEnded() {
		if err := s.revive(ctx, ""); err != nil {
			return err
		}
	}
	fs, err := s.w.quiesce(ctx, s.say)
	if err != nil {
		return err
	}
	if err := s.w.daemon.stop(ctx); err != nil {
		return err
	}
	s.w.daemon = nil
	for _, f := range fs {
		s.book(f)
	}
	return nil
}

func (s *session) book(f finding) {
	if s.found[f.id()] || len(s.cycles) == 0 {
		return
	}
	if s.found == nil {
		s.found = map[string]bool{}
	}
	s.found[f.id()] = true
	i, _ := slices.BinarySearchFunc(s.cycles, f.at, func(c cycle, at time.Time) int { return c.at.Compare(at) })
	r := s.cycles[max(i-1, 0)].row
	r.mu.Lock()
	defer r.mu.Unlock()
	switch f.what {
	case lost:
		r.lost++
	case doubled:
		r.doubled++
	case stale:
		r.stale++
	}
	const most = 20
	if len(s.examples) < most {
		s.examples = append(s.examples, f)
	}
	s.say("%s (%s)", f, r.fault)
}
