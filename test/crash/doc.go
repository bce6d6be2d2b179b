// Package crash kills a real syncd again and again at moments nobody chose, and
// looks in the end whether anything was lost, doubled or turned back. Between a
// sandbox shop that trades and a sandbox ERP that hangs, resets and works on
// requests whose caller has gone, the daemon is killed with SIGKILL, started
// again on the same journal, and at last left to finish. Its test runs with all
// others; cmd is the same for as long as one likes.
package crash
