package connectors

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestWhatNobodyAnsweredIsNoAnswer(t *testing.T) {
	open := []Class{Transient, Unknown, Throttled, Paused}
	for _, c := range Classes() {
		err := fmt.Errorf("wrapped: %w", Errorf(c, "code", "message"))
		if got, want := Unanswered(err), slices.Contains(open, c); got != want {
			t.Errorf("%s: %v, want %v", c, got, want)
		}
	}
	if Unanswered(nil) || Unanswered(errors.New("of another kind")) {
		t.Error("an error without a class counts as no answer")
	}
}
