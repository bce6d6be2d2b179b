package sqlite_test

import (
	"path/filepath"
	"testing"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/sqlite"
)

func TestTheEngineKeepsItsPromises(t *testing.T) {
	conformance.Engine(t, func(t *testing.T) jobs.Engine { return opened(t, place(t), sqlite.Options{Exclusive: true}) })
}

// place is a path for a journal of this test alone.
func place(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "journal.db")
}

// opened is an open engine that is closed when the test ends.
func opened(t *testing.T, path string, o sqlite.Options) *sqlite.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}
