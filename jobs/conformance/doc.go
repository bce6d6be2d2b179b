// Package conformance holds the tests that every journal engine passes: what
// package jobs promises of an Engine, sentence by sentence, and that what was
// acknowledged survives the death of the process. The engines' own tests call it.
package conformance
