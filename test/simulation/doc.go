// Package simulation plays syncd's journal, leases and strategies in one process on a
// fake clock: several daemons between a source that changes and a target that loses,
// delays and doubles answers, with faults at every step. One seed is one history; the
// same seed plays the same history again.
//
// Every daemon is a handful of actors of which exactly one runs at a time. An actor
// lets go before and after each call that leaves it, to the journal and to the target,
// and the seed says who goes on, how much time passes, and what fails: so a daemon can
// die, or be stopped for longer than its lease, at each of these places, and whatever
// others do falls between any two steps.
package simulation
