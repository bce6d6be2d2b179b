// Package faketarget is a target in memory that behaves badly on request. It
// keeps records, does what each primitive of package connectors asks, and
// spoils single calls with the faults that a test plans: nothing sent, refused,
// done but not answered, done much later, answered for another record, a panic.
// It counts what only the target can know: how many records ever stood under
// one key at once, and whether an older state was written over a newer one.
//
// It is for tests of strategies, of the conformance suite and of the daemon. It
// opens no connection and never looks at the real clock.
package faketarget
