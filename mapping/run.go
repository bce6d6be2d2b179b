package mapping

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// Limits of one event's run besides those of Source. They exist so that a
// clumsy or hostile program ends with an error instead of ending the process.
const (
	// maxSteps bounds jq's own steps and the steps of the functions added to
	// it; an order of 100 lines takes some ten thousand.
	maxSteps = 10_000_000
	// maxProduced bounds what a run builds, in bytes, garbage included.
	maxProduced = 512 << 20
	// maxText bounds one string that a program builds.
	maxText = 32 << 20
	// maxIndex bounds an array index, because assigning to index n makes n
	// elements.
	maxIndex = 1_000_000
	// maxNodes bounds a value handed to a function of jq that walks it whole
	// and cannot be interrupted. A body of 16 MiB fits.
	maxNodes = 10_000_000
	// maxValueDepth bounds the nesting of a value a function walks.
	maxValueDepth = 1000
	// checkEvery is the number of steps between two looks at the clock.
	checkEvery = 1024
	// maxCached bounds the zones, and the regular expressions, remembered.
	maxCached = 200
)

var (
	errTimeout   = errors.New("took too long")
	errSteps     = errors.New("took more than 10 million steps")
	errProduced  = errors.New("built more than 512 MiB of values")
	errTextSize  = errors.New("text is longer than 32 MiB")
	errTooDeep   = errors.New("value is nested deeper than 1000 levels")
	errTooLarge  = errors.New("value has more than 10 million parts")
	errArrayHuge = errors.New("array index is above 1000000")
)

// run is the state of one event's evaluation. It serves gojq as its context:
// gojq asks Done before each step, which is where steps are counted and the
// clock is watched, so no timer and no second goroutine is needed.
type run struct {
	parent   context.Context
	deadline time.Time
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
	} else if r.steps > maxSteps {
		r.over = errSteps
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
	if n < 0 || n > maxProduced {
		return r.stop(errProduced)
	}
	if r.produced += n; r.produced > maxProduced {
		return r.stop(errProduced)
	}
	return nil
}

// text counts a string of n bytes that a function is about to build.
func (r *run) text(n int) error {
	if n < 0 || n > maxText {
		return r.stop(errTextSize)
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
	case w.nodes+n > maxNodes:
		return w.run.stop(errTooLarge)
	}
	w.bytes += n * elementBytes
	return w.run.spend(n)
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
