package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/pgtest/pgserver"
)

// database is one on a server that others use too, or one with a server of its own, which may be stopped.
type database struct {
	dsn    string
	server *pgserver.Server // nil where others use it
	// admin is the connection string to the server's first database; "" where the server is the database's own.
	admin, name string
}

// newDatabase makes an empty database on a shared server, or where there is none, on one of its own with its data in dir, "" for anywhere.
func newDatabase(ctx context.Context, dir, shared string) (*database, error) {
	if shared == "" {
		s, err := pgserver.NewIn(ctx, dir)
		if err != nil {
			return nil, err
		}
		return &database{dsn: s.DSN("postgres"), server: s}, nil
	}
	u, err := url.Parse(shared)
	if err != nil {
		return nil, fmt.Errorf("the address of the database server: %w", err)
	}
	d := &database{admin: shared, name: "torture_" + strings.ToLower(rand.Text())}
	u.Path = "/" + d.name
	d.dsn = u.String()
	return d, connected(ctx, shared, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+d.name+" TEMPLATE template0")
		return err
	})
}

func (d *database) close() error {
	if d.server != nil {
		return d.server.Close()
	}
	ctx := context.Background()
	return connected(ctx, d.admin, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
		return err
	})
}

// do works on a connection of its own.
func (d *database) do(ctx context.Context, f func(*pgx.Conn) error) error {
	return connected(ctx, d.dsn, f)
}

func connected(ctx context.Context, dsn string, f func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	return f(c)
}
