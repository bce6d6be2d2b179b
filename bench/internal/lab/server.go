package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/pgtest/pgserver"
)

// Server is a private PostgreSQL server with a connection to look at it.
type Server struct {
	*pgserver.Server
	Admin *pgx.Conn
}

// NewServer starts a server of some size. Durability is untouched: what pgserver
// turns off for the sake of tests with many databases is as usual here.
func NewServer(ctx context.Context) (s *Server, err error) {
	s = &Server{}
	if s.Server, err = pgserver.New(ctx, "shared_buffers=512MB", "max_wal_size=8GB", "wal_init_zero=on", "wal_recycle=on"); err != nil {
		return nil, err
	}
	if s.Admin, err = pgx.Connect(ctx, s.DSN("postgres")); err != nil {
		return nil, errors.Join(err, s.Server.Close())
	}
	return s, nil
}

// Close stops the server and removes what it has stored.
func (s *Server) Close() error {
	return errors.Join(s.Admin.Close(context.Background()), s.Server.Close())
}

// Fresh makes databases of these names, empty whatever they held.
func (s *Server) Fresh(ctx context.Context, names ...string) error {
	for _, name := range names {
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
			if _, err := s.Admin.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
	}
	return nil
}

// CPU is the processor time that the server has used up to now.
func (s *Server) CPU(ctx context.Context) (time.Duration, error) { return ServerCPU(ctx, s.Admin) }
