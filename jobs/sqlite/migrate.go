package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"syncd/jobs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// recognise returns the version of the journal in the file; 0 for an empty file.
// It refuses what is not a journal.
func recognise(ctx context.Context, c *conn, path string) (int64, error) {
	app, err := c.one(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	tables, err := c.one(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	ours := app == int64(applicationID)
	if tables == int64(0) && (ours || app == int64(0)) {
		return 0, nil
	}
	if !ours {
		return 0, fmt.Errorf("%s is an SQLite file of another program (application_id %v, %v tables and indexes); give the journal a file of its own", path, app, tables)
	}
	version, err := c.one(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version")
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	n, _ := version.(int64)
	return n, nil
}

// mayUse decides what a journal of version have is to a program that knows
// version want. Only the daemon makes a journal or brings it up to date, under its lock.
func (e *Engine) mayUse(have, want int64) error {
	switch {
	case have > want:
		return fmt.Errorf("%w: its schema is version %d and this syncd knows up to %d; install the newer syncd again", jobs.ErrNewer, have, want)
	case have == want || e.o.Exclusive:
		return nil
	case have == 0:
		return fmt.Errorf("%w at %s; `syncd run` makes it when it starts for the first time", jobs.ErrAbsent, e.path)
	default:
		return fmt.Errorf("%w: its schema is version %d and this syncd needs %d; `syncd run` of this version brings it up to date when it starts", jobs.ErrOlder, have, want)
	}
}

// up runs the migrations, each in a transaction of its own.
func (e *Engine) up(ctx context.Context, ms []*goose.Migration) error {
	connector, err := sqlite.NewConnector(e.dsn())
	if err != nil {
		return err
	}
	db := sql.OpenDB(settled{connector})
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	// The mark comes first, so that a file left half-way is known as ours.
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(ms...), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// settled opens connections with the journal's settings, so that migrations are
// as durable as everything else.
type settled struct{ driver.Connector }

func (s settled) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := newConn(raw)
	if err := settings(ctx, c, false); err != nil {
		return nil, errors.Join(err, c.close())
	}
	for _, st := range c.stmts {
		if err := st.Close(); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
	}
	return raw, nil
}

// sign writes the journal's own facts once.
func (e *Engine) sign(ctx context.Context, c *conn) error {
	for name, value := range jobs.FirstFacts(e.Now()) {
		if _, err := c.execWaiting(ctx, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING`, name, value); err != nil {
			return fmt.Errorf("write the journal's own facts: %w", err)
		}
	}
	return nil
}
