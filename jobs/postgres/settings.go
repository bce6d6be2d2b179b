package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/jobs"
)

type setting struct{ name, value string }

// sessionSettings are what the journal's statements need of their session.
//
// While statistics say that a table is small, the planner joins a batch of keys to
// it by reading it all; every statement here has an index made for it, so the
// other ways are closed. jit would be set off by the cost of a closed way.
func sessionSettings() []setting {
	return []setting{
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"jit", "off"},
		{"statement_timeout", "60s"},
		{"lock_timeout", lockTimeout},
		{"idle_in_transaction_session_timeout", strconv.FormatInt(leftOpenTime().Milliseconds(), 10) + "ms"},
	}
}

// leftOpenTime is how long the server keeps a transaction open of which it hears nothing. A daemon that is frozen, or whose
// machine is cut off, may have one open under its lease, and a takeover waits for it: so it ends within the
// term of a lease.
func leftOpenTime() time.Duration { return jobs.DefaultTerms().For * 5 / 6 }

// begin is what starts a transaction. Behind a pooler the settings come with it,
// in the same message.
func (e *Engine) begin(characteristics string) string {
	if !e.o.Pooler {
		return "BEGIN " + characteristics
	}
	var b strings.Builder
	b.WriteString("BEGIN " + characteristics)
	for _, s := range sessionSettings() {
		fmt.Fprintf(&b, "; SET LOCAL %s = '%s'", s.name, s.value)
	}
	if e.syncCommit {
		b.WriteString("; SET LOCAL synchronous_commit = on")
	}
	return b.String()
}

// oldestServer is the oldest version that is served, as server_version_num.
const oldestServer = 130000

// server is what has to be known of a server before it is trusted.
type server struct {
	version                           int
	fsync, fullPages, syncCommit, jit string
	encoding                          string
	standby                           bool
	readOnly                          string
}

const serverQuery = `SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
	current_setting('synchronous_commit'), current_setting('jit'), current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only')`

func askServer(ctx context.Context, c *pgx.Conn) (s server, err error) {
	err = c.QueryRow(ctx, serverQuery, pgx.QueryExecModeSimpleProtocol).
		Scan(&s.version, &s.fsync, &s.fullPages, &s.syncCommit, &s.jit, &s.encoding, &s.standby, &s.readOnly)
	if err != nil {
		err = fmt.Errorf("read the server's settings: %w", err)
	}
	return s, err
}

// check refuses a server on which a commit may not survive a power cut.
func (s server) check(readOnly bool) error {
	switch {
	case s.version < oldestServer:
		return fmt.Errorf("the server is PostgreSQL %d; syncd needs 13 or newer", s.version/10000)
	case s.fsync != "on":
		return fmt.Errorf("%w: the server has fsync = %s, so that a power cut loses or damages what was committed; set fsync = on in postgresql.conf and reload it", jobs.ErrUnsafe, s.fsync)
	case s.fullPages != "on":
		return fmt.Errorf("%w: the server has full_page_writes = %s, so that a power cut can damage the data; set full_page_writes = on in postgresql.conf and reload it", jobs.ErrUnsafe, s.fullPages)
	case s.encoding != "UTF8" && s.encoding != "SQL_ASCII": // the latter keeps the bytes that it is given
		return fmt.Errorf("the database's encoding is %s, which lacks characters that keys may have; make it anew by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", s.encoding)
	case s.standby:
		return fmt.Errorf("%w: the server is a standby, which may lag behind; connect to the primary (target_session_attrs=read-write chooses it among several hosts)", jobs.ErrUnsafe)
	case s.readOnly == "on" && !readOnly:
		return fmt.Errorf("the server lets this role read only (default_transaction_read_only); connect to a server and with a role that may write")
	}
	return nil
}

// durable reports values of synchronous_commit with which a commit has reached
// this server's disk before it is acknowledged.
func durable(syncCommit string) bool { return syncCommit != "off" }

// greet looks at each new connection before it is used: after a failover the
// address may lead to a standby, or to a server with other settings.
func (e *Engine) greet(ctx context.Context, c *pgx.Conn) error {
	s, err := askServer(ctx, c)
	if err != nil {
		return err
	}
	if err := s.check(e.o.ReadOnly); err != nil {
		return err
	}
	if e.o.Pooler || durable(s.syncCommit) {
		return nil
	}
	if _, err := c.Exec(ctx, "SET synchronous_commit = on"); err != nil {
		return fmt.Errorf("turn synchronous_commit on: %w", err)
	}
	if s, err = askServer(ctx, c); err != nil {
		return err
	}
	if !durable(s.syncCommit) {
		return fmt.Errorf("%w: synchronous_commit is %s after it was set to on", jobs.ErrUnsafe, s.syncCommit)
	}
	return nil
}

// checkServer looks at the settings as a transaction has them. A pooler that
// drops or mixes up settings is found here.
func (e *Engine) checkServer(ctx context.Context) error {
	c, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if e.o.Pooler {
		s, err := askServer(ctx, c.Conn())
		if err != nil {
			return err
		}
		e.syncCommit = !durable(s.syncCommit)
	}
	tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: e.begin("")})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	s, err := askServer(ctx, tx.Conn())
	if err != nil {
		return err
	}
	if !durable(s.syncCommit) {
		return fmt.Errorf("%w: synchronous_commit is %s in the journal's transactions; let the role or the database default to on "+
			"(ALTER ROLE … SET synchronous_commit = on)", jobs.ErrUnsafe, s.syncCommit)
	}
	if s.jit != "off" {
		return fmt.Errorf("the connection's settings are not kept: jit is %s after it was set to off; if a pooler stands between, set pooler: true", s.jit)
	}
	return nil
}
