// Package sqlite keeps the journal in one SQLite file: jobs.Engine for a single
// daemon without a database server. It owns the file, its lock and its schema;
// it knows no rule of a job's life. The daemon opens it with Exclusive, the
// command line without, beside the daemon.
//
// The file is never opened other than through SQLite: closing a descriptor of it
// would drop the locks that this process holds on it
// (https://www.sqlite.org/howtocorrupt.html, section 2.2).
package sqlite
