// Package mutant breaks promises of syncd on purpose, so that its tests can be seen to notice. Each mutant is a mistake
// that is easily made at one guard; the code asks On there. In an ordinary build On is a constant false, and the
// compiler removes what stands behind it. In a build with the tag mutants it is true for the one mutant that the
// environment variable MUTANT_ALIVE names.
//
// Only test/mutants builds with the tag, and test/torture when it is told to.
package mutant
