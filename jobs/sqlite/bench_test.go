package sqlite_test

import (
	"path/filepath"
	"testing"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/sqlite"
)

func BenchmarkEngine(b *testing.B) {
	conformance.EngineBench(b, func(b *testing.B) jobs.Engine {
		e, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "journal.db"), sqlite.Options{Exclusive: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close() })
		return e
	})
}
