// Package jobs owns the journal: one row per destination record with what it
// should be (desired), what the target confirmed (applied), and whether a
// write is unresolved. The rules of a job's life stand here as plain functions
// over rows, once for both engines; an engine (jobs/sqlite, jobs/postgres)
// only loads and stores rows inside a durable transaction. The package knows
// the contracts of package connectors and no platform. The daemon and the
// command line call it.
package jobs
