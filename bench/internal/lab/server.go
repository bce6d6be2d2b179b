package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/pgtest/pgserver"
)

// Server is a PostgreSQL server with a connection to look at it.
type Server struct {
	Admin *pgx.Conn
	Port  int
	own   *pgserver.Server // nil for one that is somebody else's
	url   *url.URL         // of one that is somebody else's
	made  map[string]bool  // databases
}

// NewServer starts a server of some size. Durability is untouched: what pgserver
// turns off for the sake of tests with many databases is as usual here.
func NewServer(ctx context.Context) (s *Server, err error) {
	s = &Server{made: map[string]bool{}}
	if s.own, err = pgserver.New(ctx, "shared_buffers=512MB", "max_wal_size=8GB", "wal_init_zero=on", "wal_recycle=on"); err != nil {
		return nil, err
	}
	if s.Admin, err = pgx.Connect(ctx, s.DSN("postgres")); err != nil {
		return nil, errors.Join(err, s.own.Close())
	}
	s.Port = s.own.Port
	return s, nil
}

// At is a server that runs already, on this machine: a postgres:// URL whose role may
// make databases. It is not stopped.
func At(ctx context.Context, dsn string) (s *Server, err error) {
	s = &Server{made: map[string]bool{}}
	if s.url, err = url.Parse(dsn); err != nil || s.url.Scheme != "postgres" {
		return nil, errors.New("the server is not named by a postgres:// URL")
	}
	if s.Admin, err = pgx.Connect(ctx, s.DSN("postgres")); err != nil {
		return nil, err
	}
	s.Port = int(s.Admin.Config().Port)
	return s, nil
}

// DSN is the URL of a database of the server.
func (s *Server) DSN(database string) string {
	if s.own != nil {
		return s.own.DSN(database)
	}
	u := *s.url
	u.Path = "/" + database
	return u.String()
}

// Close removes what was stored in the server, and stops it if it was started here.
func (s *Server) Close() error {
	var err error
	if s.own == nil {
		for name := range s.made {
			_, e := s.Admin.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			err = errors.Join(err, e)
		}
	}
	err = errors.Join(err, s.Admin.Close(context.Background()))
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// Fresh makes databases of these names, empty whatever they held.
func (s *Server) Fresh(ctx context.Context, names ...string) error {
	for _, name := range names {
		s.made[name] = true
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
