package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"syncd/bench/internal/lab"
	"syncd/internal/quota"
)

// sample is what was measured of a scenario once.
type sample struct {
	warm, steady quota.Counts
	// drained is what lay in a bucket when the steady state began and not when it ended.
	drained float64
	// silent is how long no call came when a daemon was replaced, and 0 where none was.
	silent time.Duration
}

// used is the part of what others left that was used, of 1.
func (s sample) used() float64 {
	return s.steady.Ours / (s.steady.Allowed + s.drained - s.steady.Others)
}

// perThousand is how many of 1,000 calls were refused.
func perThousand(c quota.Counts) float64 {
	if c.Calls == 0 {
		return 0
	}
	return 1000 * float64(c.Refused) / float64(c.Calls)
}

// measure plays the scenarios that are wanted.
func (s settings) measure(ctx context.Context, progress io.Writer) (*report, error) {
	chosen := s.chosen()
	r := &report{settings: s, scenarios: chosen, samples: make([][]sample, len(chosen)), processors: runtime.NumCPU()}
	watch := newWatch()
	n := slices.IndexFunc(chosen, func(sc scenario) bool { return sc.group == fleets })
	if n < 0 {
		n = len(chosen)
	}
	for round := range s.rounds {
		for first := 0; first < n; first += s.atOneTime {
			some := chosen[first:min(first+s.atOneTime, n)]
			fmt.Fprintf(progress, "round %d of %d, scenarios %d to %d of %d\n", round+1, s.rounds, first+1, first+len(some), n)
			got, err := s.timing.together(ctx, some, round)
			if err != nil {
				return nil, err
			}
			for i, g := range got {
				r.samples[first+i] = append(r.samples[first+i], g)
			}
		}
	}
	if err := s.withDaemons(ctx, chosen[n:], r.samples[n:], progress); err != nil {
		return nil, err
	}
	r.busy, r.late = watch.end()
	return r, nil
}

// withDaemons plays scenarios with daemons, those of one cast side by side.
func (s settings) withDaemons(ctx context.Context, chosen []scenario, samples [][]sample, progress io.Writer) (err error) {
	if len(chosen) == 0 {
		return nil
	}
	w, err := newWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for first := 0; first < len(chosen); {
		cast := chosen[first].cast
		n := 1
		for first+n < len(chosen) && chosen[first+n].cast == cast {
			n++
		}
		fmt.Fprintf(progress, "daemons: %s\n", cast)
		got, err := w.play(ctx, s.daemons, chosen[first:first+n])
		if err != nil {
			return err
		}
		for i, g := range got {
			samples[first+i] = append(samples[first+i], g)
		}
		first += n
	}
	return nil
}

// together plays scenarios side by side.
func (t timing) together(ctx context.Context, some []scenario, round int) ([]sample, error) {
	out, errs := make([]sample, len(some)), make([]error, len(some))
	var wg sync.WaitGroup
	for i, sc := range some {
		wg.Go(func() { out[i], errs[i] = t.play(ctx, sc, round) })
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// phases are where in a window, of 1, a client is replaced, or a quota changed, round after round.
var phases = []float64{0.5, 0.3, 0.8}

// play plays one scenario.
func (t timing) play(ctx context.Context, sc scenario, round int) (out sample, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	begin := time.Now()
	p, err := open(sc, t, begin)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.server.Close()) }()
	first, last := &quota.Mark{At: begin.Add(t.warm)}, &quota.Mark{At: begin.Add(t.warm + t.lasts)}
	phase := time.Duration(phases[round%len(phases)] * float64(t.length))
	turn := begin.Add((t.warm + t.lasts/2).Truncate(t.length) + phase)
	if sc.change() > 0 {
		// A window has passed when measuring begins, at the beginning of the next one.
		turn = begin.Add((t.warm + t.lasts/4).Truncate(t.length) + phase)
		first.At = turn.Add(2*t.length - phase)
		last.At = first.At.Add(max(last.At.Sub(first.At).Truncate(t.length), t.length))
	}
	changed := &quota.Mark{At: turn}
	if sc.change() > 0 {
		p.quota.Mark(changed)
	}
	p.quota.Mark(first, last)
	if sc.foreign > 0 {
		others.Go(func() { p.share(ctx, t) })
	}
	var callers []*caller
	defer func() {
		for _, c := range callers {
			err = errors.Join(err, c.stop(true))
		}
	}()
	enter := func(workers int) error {
		c, err := call(ctx, p, workers)
		if err == nil {
			callers = append(callers, c)
		}
		return err
	}
	switch sc.cast {
	case beside:
		err = errors.Join(enter(workers/2), enter(workers/2))
	default:
		err = enter(workers)
	}
	if err != nil || !until(ctx, turn) {
		return out, errors.Join(err, ctx.Err())
	}
	switch sc.cast {
	case restart, takeover:
		err = callers[0].stop(sc.cast == restart)
		callers = nil
		err = errors.Join(err, enter(workers))
	case halved, doubled:
		p.quota.Change(time.Now(), sc.change())
	}
	// A little more, so that the server has passed the last mark.
	if err != nil || !until(ctx, last.At.Add(10*time.Millisecond)) {
		return out, errors.Join(err, ctx.Err())
	}
	p.quota.Counts(time.Now())
	return p.sampled(first.Counts.Sub(changed.Counts), first, last), nil
}

// sampled is what was measured between two moments that the server has passed.
func (p *shop) sampled(warm quota.Counts, first, last *quota.Mark) sample {
	s := sample{warm: warm, steady: last.Counts.Sub(first.Counts)}
	if p.sort != quota.Window {
		s.drained = max(first.Left-last.Left, 0)
	}
	return s
}

// until waits for a moment; it returns false when ctx ends before.
func until(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch looks at how busy the machine is.
type watch struct {
	begin time.Time
	used  time.Duration
	stop  chan struct{}
	done  chan []float64
}

func newWatch() *watch {
	w := &watch{begin: time.Now(), used: processor(), stop: make(chan struct{}), done: make(chan []float64)}
	go func() {
		var late []float64
		for {
			due := time.Now().Add(latency)
			t := time.NewTimer(latency)
			select {
			case <-t.C:
				late = append(late, float64(time.Since(due))/float64(time.Millisecond))
			case <-w.stop:
				t.Stop()
				w.done <- append(late, 0)
				return
			}
		}
	}()
	return w
}

// end tells what part of one processor was used, and within how many milliseconds 99 % of the timers ended.
func (w *watch) end() (busy, late float64) {
	close(w.stop)
	lates := <-w.done
	return (processor() - w.used).Seconds() / time.Since(w.begin).Seconds(), lab.Quantile(lates, 0.99)
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
