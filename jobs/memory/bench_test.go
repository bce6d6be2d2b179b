package memory_test

import (
	"testing"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/memory"
)

func BenchmarkEngine(b *testing.B) {
	conformance.EngineBench(b, func(*testing.B) jobs.Engine { return memory.Open(memory.Options{}) })
}
