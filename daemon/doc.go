// Package daemon puts syncd together: it opens the clients, runs a poller per
// flow and a lane per target client, and ends them gracefully. The way of the
// data can be read in it from top to bottom: poller.go pulls, maps and admits;
// lane.go claims and dispatches; apply.go writes by strategy; settler.go
// commits what came of it. The command line calls it; no other package does.
package daemon
