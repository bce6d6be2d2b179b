package connectors

import (
	"context"
	"errors"
)

// Trial is a record that a check would like to know of whether its entity would take it.
type Trial struct {
	// Write is what would be written. Body lacks the fields that hold references,
	// because what stands in their place is known only when they are resolved.
	Write
	// Linked are these fields.
	Linked []string
}

// Verifier is an entity that can say of records, without writing anything,
// whether the target would take them.
type Verifier interface {
	// Verify returns, for each record in order, everything that would keep it from
	// being written; none is no promise that it will be. Its error is of type *Error
	// and says that the target could not be asked.
	Verify(ctx context.Context, ts []Trial) (problems [][]error, err error)
}

// Unanswered reports whether an error of a check leaves open what was asked:
// nobody answered, the client is paused, or it was asked for fewer calls.
func Unanswered(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Class {
	case Transient, Unknown, Throttled, Paused:
		return true
	}
	return false
}
