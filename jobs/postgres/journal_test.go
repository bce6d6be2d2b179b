package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/postgres"
)

func TestTheJournalKeepsItsRules(t *testing.T) {
	dsn := pgtest.DSN(t)
	var n atomic.Int64
	conformance.Journal(t, func(t *testing.T, now func() time.Time) jobs.Engine {
		return opened(t, dsn, postgres.Options{Exclusive: true, Now: now, Schema: fmt.Sprint("rules_", n.Add(1))})
	})
}
