package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/postgres"
)

func TestTheEngineKeepsItsPromises(t *testing.T) {
	conformance.Engine(t, schemas(t, postgres.Options{Exclusive: true}))
}

func TestTheEngineKeepsItsPromisesBehindAPooler(t *testing.T) {
	conformance.Engine(t, schemas(t, postgres.Options{Exclusive: true, Pooler: true}))
}

// schemas opens engines in one database, each in a schema of its own: a schema is
// made in a tenth of the time of a database.
func schemas(t *testing.T, o postgres.Options) func(*testing.T) jobs.Engine {
	t.Helper()
	dsn := pgtest.DSN(t)
	var n atomic.Int64
	return func(t *testing.T) jobs.Engine {
		o := o
		o.Schema = fmt.Sprint("journal_", n.Add(1))
		return opened(t, dsn, o)
	}
}

// opened is an open engine that is closed when the test ends.
func opened(t *testing.T, dsn string, o postgres.Options) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), dsn, o)
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
