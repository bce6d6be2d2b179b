package postgres_test

import (
	"testing"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/postgres"
)

func BenchmarkEngine(b *testing.B) {
	for name, pooler := range map[string]bool{"sessions": false, "pooler": true} {
		b.Run(name, func(b *testing.B) {
			conformance.EngineBench(b, func(b *testing.B) jobs.Engine {
				e, err := postgres.Open(b.Context(), pgtest.DSN(b), postgres.Options{Exclusive: true, Pooler: pooler})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = e.Close() })
				return e
			})
		})
	}
}
