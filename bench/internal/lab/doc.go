// Package lab is what the benchmarks share: the command that they are, a PostgreSQL server of some size, syncd built and run beside
// them, what /proc tells of processes, and limits that are held or missed.
package lab
