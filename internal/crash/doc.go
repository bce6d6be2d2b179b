// Package crash names the moments at which a daemon may die, and in a build with the tag torture lets it die there. The
// code calls At and Commit at those moments; in an ordinary build both are empty and the compiler removes them.
//
// A build with the tag reads, once, when the process starts:
//
//	TORTURE_CRASH=POINT[:N][:DELAY][:stop]   the process ends with SIGKILL when it passes POINT for the N-th time (1
//	                                         when not given), DELAY after that while it goes on; stop: SIGSTOP instead
//	TORTURE_CRASH_ONCE=FILE                  passings count only once this file is there
//	TORTURE_LEASE=DURATION                   what Shorten makes of a lease of 30 s; everything else in proportion
//
// Only test/torture sets them.
package crash
