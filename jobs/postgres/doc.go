// Package postgres keeps the journal in a schema of a PostgreSQL database:
// jobs.Engine for larger stocks and for databases that are backed up and watched
// already. It owns the schema, the settings of its connections and the leases by
// which daemons share one journal; it knows no rule of a job's life. A daemon opens
// it with Exclusive, the command line without, beside the daemons.
//
// A transaction of a lane names its lease (Tx.Fence). The lease's row is looked at
// along with the first statement that writes, and held FOR KEY SHARE: that makes
// neither others under the lease wait nor a renewal, which changes no key, but a
// takeover, which asks for the row FOR UPDATE.
//
// Nothing here depends on what a session keeps between transactions, advisory
// locks included, so a transaction pooler may stand in between (Options.Pooler).
package postgres
