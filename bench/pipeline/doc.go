// Command pipeline measures what syncd costs from end to end: the real binary
// moves orders from a file through its journal into a table of a private
// PostgreSQL server, or with one PUT for each into an HTTP server, everything durable.
// It tells events per second, processor time per event and memory, and holds the size of the binary, the memory at
// rest and the time to the first request against their limits.
//
//	go run ./bench/pipeline [--events 100000] [--size 4096] [--journal both] [--target both] [--rounds 3]
//
// It ends with code 1 when a limit is missed. See docs/performance.md for how to
// read its figures.
package main
