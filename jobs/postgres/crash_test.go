package postgres_test

import (
	"context"
	"testing"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/postgres"
)

func TestMain(m *testing.M) { conformance.Main(m, daemon) }

// daemon opens a journal as the daemon does.
func daemon(ctx context.Context, place string) (jobs.Engine, error) {
	return postgres.Open(ctx, place, postgres.Options{Exclusive: true})
}

func TestWhatWasAcknowledgedSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	conformance.EngineCrash(t, pgtest.DSN(t), daemon, true)
}
