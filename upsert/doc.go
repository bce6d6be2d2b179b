// Package upsert makes writes safe to repeat, or sends them once. It owns the
// strategies natural_key, external_ref, idempotency_key, lookup and at_most_once,
// written once over the primitives of package connectors: it decides what to look
// up, what to send and what an answer proves. It keeps no state, repeats nothing by
// itself and knows no platform; the lanes of package daemon call it with claimed
// jobs and hand its outcomes to the journal.
//
// # What it relies on
//
// One writer per record: no two jobs of one (client, entity, key) are applied
// at the same time, whichever flow they belong to. UnresolvedAt is not earlier
// than the last moment at which a write in doubt may have been sent. The now
// given to New is the journal's own clock. SettleTime is true: a write that was
// sent has had all its effects, and shows in every read, SettleTime later.
// A write in doubt was sent by the same strategy, or has had SettleTime to end.
// RenamedFrom names a key that no other source record has taken meanwhile.
//
// # What an outcome says
//
// A confirmed outcome (Applied, Unchanged, AlreadyApplied, Stale) is returned
// only when no earlier write of the record can take effect any more, so it
// always resolves a record in doubt.
//
// Resolved is set only on outcomes of records that were in doubt when they were
// claimed, in these cases:
//
//   - the outcome is confirmed;
//   - the record proved to be absent (two negative reads where the target
//     would take a second record, one otherwise, none of them earlier than UnresolvedAt + SettleTime). This is
//     the only case in which an Unknown carries Resolved: the earlier write was
//     not applied, and the one sent in this attempt is in doubt. A journal that
//     counts how often a record makes its target fail counts just these;
//   - the fields were written, and the steps after them failed.
//
// Unknown means that a write of this attempt may have been done. It is never
// turned into anything else here, and a read that fails never becomes one.
//
// Link is set whenever the record's link is known, whatever the class; the
// journal stores it. Where more is done to a record after its link is known, it
// has been committed through Links before that.
//
// What is sent under an idempotency key has been committed through Pins before its
// first byte. Job.Pin is sent again as it is or not at all, until the record is known
// to be there, or not to be.
//
// An outcome other than a confirmed one can leave the record partly written:
// its fields written and its document not yet brought to its state. What the
// journal remembers as applied is then no longer what the target holds.
//
// # Codes
//
// Beside the codes of connectors, outcomes carry the codes declared in this
// package. With those of jobs.Interim, which are Transient, nothing failed: they
// cost no attempt and say nothing of the client's health.
package upsert
