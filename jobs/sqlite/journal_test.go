package sqlite_test

import (
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/sqlite"
)

func TestTheJournalKeepsItsRules(t *testing.T) {
	conformance.Journal(t, func(t *testing.T, now func() time.Time) jobs.Engine {
		return opened(t, place(t), sqlite.Options{Exclusive: true, Now: now})
	})
}

func TestRandomHistoriesKeepThePromisesOfAJobsLife(t *testing.T) {
	conformance.Histories(t, func(t *testing.T, now func() time.Time) jobs.Engine {
		return opened(t, place(t), sqlite.Options{Exclusive: true, Now: now})
	})
}

func TestRandomHistoriesOfEventsKeepTheirOrder(t *testing.T) {
	conformance.EventHistories(t, func(t *testing.T, now func() time.Time) jobs.Engine {
		return opened(t, place(t), sqlite.Options{Exclusive: true, Now: now})
	})
}
