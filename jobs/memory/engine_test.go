package memory_test

import (
	"testing"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/memory"
)

func TestTheEngineKeepsItsPromises(t *testing.T) {
	conformance.Engine(t, func(t *testing.T) jobs.Engine { return opened(t, memory.Options{}) })
}

// opened is an open engine that is closed when the test ends.
func opened(t *testing.T, o memory.Options) *memory.Engine {
	t.Helper()
	e := memory.Open(o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}
