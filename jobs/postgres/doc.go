// Package postgres keeps the journal in a schema of a PostgreSQL database:
// jobs.Engine for larger stocks and for databases that are backed up and watched
// already. It owns the schema, the settings of its connections and the lease by
// which one daemon has the journal; it knows no rule of a job's life. The daemon
// opens it with Exclusive, the command line without, beside the daemon.
//
// Nothing here depends on what a session keeps between transactions, advisory
// locks included, so a transaction pooler may stand in between (Options.Pooler).
package postgres
