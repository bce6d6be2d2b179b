package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"syncd/internal/crash"
)

// row is one fault, how often it is to happen, and what came of it.
type row struct {
	fault   string
	planned int
	// kill says that the daemon alone is killed.
	kill bool
	// point is where the daemon kills itself; nil for another fault.
	point *crash.Point
	// inject does the fault to a running daemon. It returns how long it took from the end of the fault to the next confirmed write; 0
	// where the daemon is dead, and the next one shows it.
	inject func(ctx context.Context, s *session) (time.Duration, error)

	cycles, missed       int
	lost, doubled, stale int
	recoveries           []time.Duration
}

// session does faults to one world, one after the other.
type session struct {
	w    *world
	disk disk // the journal's own; nil for none
	rnd  *rand.Rand
	rows []*row
	say  func(format string, args ...any)

	// owed is the row whose recovery is not measured yet.
	owed   *row
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

// quietEvery is after how many cycles everything has to arrive, so that what is lost is known near to the fault.
const quietEvery = 150

// run does all faults in a random order.
func (s *session) run(ctx context.Context) error {
	var order []*row
	for _, r := range s.rows {
		for range r.planned {
			order = append(order, r)
		}
	}
	s.rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	s.w.trade(ctx)
	for n, r := range order {
		if err := s.cycle(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.fault, err)
		}
		if n++; n%25 == 0 && n < len(order) {
			s.say("%d of %d faults", n, len(order))
		}
		if n%quietEvery == 0 && n < len(order) {
			if err := s.quiesce(ctx); err != nil {
				return err
			}
			s.w.trade(ctx)
		}
	}
	return s.quiesce(ctx)
}

// cycle starts a daemon, waits until it works, and does one fault to it.
func (s *session) cycle(ctx context.Context, r *row) error {
	point := ""
	if r.point != nil {
		point = s.order(r.point)
	}
	early := r.point != nil && r.point.Start
	if s.w.daemon != nil {
		s.w.daemon.kill() // after a fault that it survived
	}
	if early {
		point = ""
	}
	if err := s.revive(ctx, point); err != nil {
		return err
	}
	s.cycles = append(s.cycles, cycle{r, time.Now()})
	switch {
	case r.point == nil:
		took, err := r.inject(ctx, s)
		if err != nil {
			return err
		}
		r.cycles++
		if took > 0 {
			r.recoveries = append(r.recoveries, took)
		} else {
			s.owed = r
		}
		return nil
	case early:
		s.w.daemon.kill()
		if strings.HasPrefix(r.point.Name, "reshard.") {
			s.w.shards = 3 - s.w.shards
		}
		var err error
		if s.w.daemon, err = s.w.start(s.order(r.point), true); err != nil {
			return err
		}
	}
	return s.die(ctx, r)
}

// dieTime is how long a daemon may take to pass its point.
const dieTime = 15 * time.Second

// die lets the passings of a point count and waits for the daemon's death.
func (s *session) die(ctx context.Context, r *row) error {
	if !r.point.Start {
		if err := s.w.daemon.arm(); err != nil {
			return err
		}
	}
	kind, _, _ := strings.Cut(r.point.Name, ".")
	switch {
	case r.point.Rare && kind == "pause":
		s.w.erp.be(throttle)
		defer s.w.erp.be(asUsual)
	case r.point.Rare && kind == "reading":
		s.w.shop.fail(true)
		defer s.w.shop.fail(false)
	default:
		defer s.hurry()()
	}
	died, err := s.w.daemon.dies(ctx, dieTime)
	if err != nil {
		return err
	}
	if !died {
		s.w.daemon.kill()
		r.missed++
		return nil
	}
	r.cycles++
	s.owed = r
	return nil
}

// hurry has, half of the time, the ERP still work on what it was sent when the daemon dies: whoever sends it again without having found out
// does it twice. What it returns ends that.
func (s *session) hurry() (end func()) {
	if s.rnd.IntN(2) == 0 {
		return func() {}
	}
	s.w.erp.be(workLate)
	return func() { s.w.erp.be(asUsual) }
}

// order chooses which passing of a point is meant, and for a COMMIT on its way, where on its way.
func (s *session) order(p *crash.Point) string {
	n := 1 + s.rnd.IntN(4)
	if p.Rare || p.Start {
		n = 1
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
	if s.owed != nil {
		s.owed.recoveries = append(s.owed.recoveries, took)
		s.owed = nil
	}
	return nil
}

// quiesce has everything arrive and books what is wrong to the faults during which it went wrong.
func (s *session) quiesce(ctx context.Context) error {
	if s.w.daemon == nil || s.w.daemon.hasEnded() {
		if err := s.revive(ctx, ""); err != nil {
			return err
		}
	}
	fs, err := s.w.quiesce(ctx)
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
