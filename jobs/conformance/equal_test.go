package conformance_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"syncd/internal/pgtest"
	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// TestMain has fewer histories played than rapid would by itself, for each is played
// on two engines and compared at every step; -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "40"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func withSQLite(t *testing.T, now func() time.Time) jobs.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Exclusive: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, e)
	return paired(t, e, now, false)
}

func withPostgreSQL(t *testing.T, now func() time.Time) jobs.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), pgtest.DSN(t), postgres.Options{Exclusive: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, e)
	return paired(t, e, now, true)
}

func closes(t *testing.T, e jobs.Engine) {
	t.Helper()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestRandomHistoriesGoAlikeInMemoryAndSQLite(t *testing.T) { conformance.Histories(t, withSQLite) }

func TestRandomHistoriesGoAlikeInMemoryAndPostgreSQL(t *testing.T) {
	conformance.Histories(t, withPostgreSQL)
}
