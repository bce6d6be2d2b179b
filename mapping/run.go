package mapping

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Limits of one event's run besides those of Source. They exist so that a
// clumsy or hostile program ends with an error instead of ending the process.
//
// An array index is bounded because assigning to index n makes n elements, a
// value's size and depth because some functions of gojq walk a value whole and
// cannot be stopped.
type limits struct {
	steps    int // jq's steps and those of the functions added to it; a large order takes some ten thousand
	produced int // bytes of values built, garbage included
	text     int // bytes of one string built
	nodes    int // parts of a value that is walked whole; a body of 16 MiB has fewer
}

func defaultLimits() limits {
	return limits{steps: 10_000_000, produced: 512 << 20, text: 32 << 20, nodes: 5_000_000}
}

const (
	maxIndex = 1_000_000
	// maxValueDepth bounds the nesting of a value a function walks.
	maxValueDepth = 1000
	// checkEvery is the number of steps between two looks at the clock.
	checkEvery = 1024
	// maxCached bounds the zones, and the regular expressions, remembered.
	maxCached = 200
)

var (
	errTimeout   = errors.New("took too long")
	errTooDeep   = errors.New("value is nested deeper than 1000 levels")
	errArrayHuge = errors.New("array index is above 1000000")
)

func (l limits) errSteps() error { return fmt.Errorf("took more than %d steps", l.steps) }
func (l limits) errProduced() error {
	return fmt.Errorf("built more than %d MiB of values", l.produced>>20)
}
func (l limits) errText() error  { return fmt.Errorf("text is longer than %d MiB", l.text>>20) }
func (l limits) errNodes() error { return fmt.Errorf("value has more than %d parts", l.nodes) }

// run is the state of one event's evaluation. It serves gojq as its context:
// gojq asks Done before each step, which is where steps are counted and the
// clock is watched, so no timer and no second goroutine is needed.
type run struct {
	parent   context.Context
	deadline time.Time
	limits   limits
	steps    int
	produced int
	over     error         // the limit that was hit; ends the run for good
	ended    chan struct{} // always closed
	zones    map[string]*time.Location
	patterns map[pattern]*regexp.Regexp
	fields   []string // see rewriter.locate
}

func newRun() *run {
	r := &run{
		limits:   defaultLimits(),
		ended:    make(chan struct{}),
		zones:    map[string]*time.Location{},
		patterns: map[pattern]*regexp.Regexp{},
	}
	close(r.ended)
	return r
}

func (r *run) reset(ctx context.Context, timeout time.Duration) {
	r.parent, r.deadline = ctx, time.Now().Add(timeout)
	r.steps, r.produced, r.over, r.fields = 0, 0, nil, nil
}

// Done implements context.Context.
func (r *run) Done() <-chan struct{} {
	r.steps++
	if r.over == nil && r.steps%checkEvery != 0 {
		return nil
	}
	if r.check() != nil {
		return r.ended
	}
	return nil
}

// Err implements context.Context.
func (r *run) Err() error { return r.over }

// Deadline implements context.Context.
func (r *run) Deadline() (time.Time, bool) { return r.deadline, true }

// Value implements context.Context.
func (r *run) Value(any) any { return nil }

func (r *run) check() error {
	if r.over != nil {
		return r.over
	}
	if err := r.parent.Err(); err != nil {
		r.over = err
	} else if r.steps > r.limits.steps {
		r.over = r.limits.errSteps()
	} else if time.Now().After(r.deadline) {
		r.over = errTimeout
	}
	return r.over
}

// spend counts n steps of work done inside a function.
func (r *run) spend(n int) error {
	before := r.steps / checkEvery
	r.steps += n
	if r.over == nil && r.steps/checkEvery == before {
		return nil
	}
	return r.check()
}

// produce counts n bytes of values that a function is about to build.
func (r *run) produce(n int) error {
	if n < 0 || n > r.limits.produced {
		return r.stop(r.limits.errProduced())
	}
	if r.produced += n; r.produced > r.limits.produced {
		return r.stop(r.limits.errProduced())
	}
	return nil
}

// text counts a string of n bytes that a function is about to build.
func (r *run) text(n int) error {
	if n < 0 || n > r.limits.text {
		return r.stop(r.limits.errText())
	}
	return r.produce(n)
}

// stop ends the run with err: gojq is told at its next step, and no try or //
// of the program can go on from it.
func (r *run) stop(err error) error {
	if r.over == nil {
		r.over = err
	}
	return r.over
}

// The sizes that stand for Go's own bookkeeping in produce.
const (
	elementBytes = 16  // of an array
	memberBytes  = 48  // of an object
	frameBytes   = 512 // of a call of a function the program defines
)

// weigh walks a value that a function of jq is going to walk and cannot be
// stopped in, and charges for it. A value that becomes text may hold no ref.
func (r *run) weigh(v any, text bool) error {
	w := weight{run: r}
	if err := w.add(v, 0); err != nil {
		return err
	}
	if text && w.refs > 0 {
		return errRefInText
	}
	return r.produce(w.bytes)
}

type weight struct {
	run          *run
	nodes, bytes int
	refs         int
}

func (w *weight) add(v any, depth int) error {
	w.nodes++
	switch v := v.(type) {
	case string:
		w.bytes += len(v)
	case []any:
		if err := w.open(len(v), depth); err != nil {
			return err
		}
		for _, e := range v {
			if err := w.add(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		if inner, ok := v[refMember].(map[string]any); ok && inner[proofMember] != nil {
			w.refs++
		}
		if err := w.open(len(v), depth); err != nil {
			return err
		}
		for k, e := range v {
			w.bytes += len(k)
			if err := w.add(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// open enters an array or object of n parts.
func (w *weight) open(n, depth int) error {
	switch {
	case depth >= maxValueDepth:
		return w.run.stop(errTooDeep)
	case w.nodes+n > w.run.limits.nodes:
		return w.run.stop(w.run.limits.errNodes())
	}
	w.bytes += n * elementBytes
	return w.run.spend(n / 8) // a part costs far less than a step of jq
}

// charge counts what a function of jq builds out of v without walking into
// its parts.
func (r *run) charge(v any) error {
	switch v := v.(type) {
	case string:
		return r.text(len(v))
	case []any:
		return r.produce(len(v) * elementBytes)
	case map[string]any:
		return r.produce(len(v) * memberBytes)
	}
	return nil
}
