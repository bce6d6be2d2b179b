package memory

import (
	"errors"
	"fmt"
	"time"

	"syncd/jobs"
)

// tx implements jobs.Tx on a state of its own.
type tx struct {
	s    state
	now  func() time.Time
	edit edit
	// write is false in a View.
	write bool
	// ended is set when fn has returned.
	ended bool
	// failed is the first error of a verb. A transaction that met one is undone even
	// when fn swallows it.
	failed error
}

var (
	errEnded = errors.New("the transaction has ended")
	errView  = errors.New("a View changes nothing")
)

func (t *tx) run(fn func(jobs.Tx) error) error {
	defer func() { t.ended = true }()
	if err := fn(t); err != nil {
		return err
	}
	return t.failed
}

// reads reports whether the transaction can be read.
func (t *tx) reads() error {
	if t.ended {
		return errEnded
	}
	return nil
}

// writes reports whether the transaction can be written.
func (t *tx) writes() error {
	switch {
	case t.ended:
		return errEnded
	case !t.write:
		return errView
	}
	return nil
}

// fail notes an error of a verb and says what was being done.
func (t *tx) fail(err error, format string, args ...any) error {
	err = fmt.Errorf(format+": %w", append(args, err)...)
	if t.failed == nil {
		t.failed = err
	}
	return err
}
