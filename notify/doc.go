// Package notify tells people of what needs them, by a command or a signed webhook:
// clients and flows that are suspended, clients that are paused for long, jobs that
// are held or dead. It gathers what happens, sends at most one message per interval,
// and names flows, clients and codes in it, never keys or content of records. It is
// told of what happens by the command line's adapter of the daemon's observer; nobody
// ever waits for it, and it knows neither jobs nor connectors.
package notify
