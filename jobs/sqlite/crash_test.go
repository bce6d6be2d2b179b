package sqlite_test

import (
	"context"
	"testing"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/sqlite"
)

func TestMain(m *testing.M) { conformance.Main(m, daemon) }

// daemon opens a journal as the daemon does.
func daemon(ctx context.Context, place string) (jobs.Engine, error) {
	return sqlite.Open(ctx, place, sqlite.Options{Exclusive: true})
}

func TestWhatWasAcknowledgedSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	conformance.EngineCrash(t, place(t), daemon, false)
}
