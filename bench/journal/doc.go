// Command journal measures the journal by itself and a daemon's way through it, on
// both engines, everything durable: what a job costs from admission to
// settlement, how soon a change is written, and what becomes of both when tables
// are large, rows change all the time, another session holds an old snapshot,
// clients are idle, or one of them is paused with a million jobs behind it.
//
//	go run ./bench/journal [--only cycle,latency,...] [--journal both] [--full] [--json] [--check]
//
// With --check it ends with code 1 when a goal is missed. See docs/performance.md
// for how to read its figures.
package main
