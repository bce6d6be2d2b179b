package memory_test

import (
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/conformance"
	"syncd/jobs/memory"
)

func TestTheJournalKeepsItsRules(t *testing.T) {
	conformance.Journal(t, func(t *testing.T, now func() time.Time) jobs.Engine { return opened(t, memory.Options{Now: now}) })
}

func TestRandomHistoriesKeepThePromisesOfAJobsLife(t *testing.T) {
	conformance.Histories(t, func(t *testing.T, now func() time.Time) jobs.Engine { return opened(t, memory.Options{Now: now}) })
}

func TestRandomHistoriesOfEventsKeepTheirOrder(t *testing.T) {
	conformance.EventHistories(t, func(t *testing.T, now func() time.Time) jobs.Engine { return opened(t, memory.Options{Now: now}) })
}
