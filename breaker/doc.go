// Package breaker tells when a client fails so widely that calling it is of no
// use, and then lets one call at a time through to see whether it is back. It
// is gobreaker's two-step state machine with a memory of which records failed,
// a deadline on probes, and a state that can be stored. It never calls anything
// and never pauses anything by itself: lanes and pollers ask it before each
// attempt and tell it what came of it, the daemon turns its changes into a
// stored pause.
//
// # What counts
//
// A call is a Failure when its outcome is transient or unknown: nothing could be
// sent, no answer came, the answer made no sense, the server failed. It is a
// Success when the answer shows that the client works, whatever it thinks of
// the record: applied, unchanged, and also invalid, conflict, missing, frozen,
// stale. Only a body that was read and understood is a Success; a proxy's page
// with status 200 is a Failure. Everything that says nothing about the client's
// health is to be Ignored: refusals for quota (those set a pause), refused
// credentials (those suspend), our own pauses, and our own cancellations.
//
// # When it opens
//
// Either a number of failures follow one another without a success, over
// whatever time, or a share of the calls that ended within a window failed. In
// both cases failures must have met at least MinDistinct records that have
// nothing in common, a failed reading counting as one more: however often one record or one batch fails, that is the
// record's trouble and not the client's.
package breaker
