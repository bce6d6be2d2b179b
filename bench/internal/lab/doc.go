// Package lab is what the benchmarks share: a PostgreSQL server of some size, what
// /proc tells of processes, and limits that are held or missed.
package lab
