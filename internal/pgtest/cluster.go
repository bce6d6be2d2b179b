package pgtest

import (
	"context"
	"testing"

	"syncd/internal/pgtest/pgserver"
)

// Ways to stop a Server.
const (
	Fast      = pgserver.Fast
	Immediate = pgserver.Immediate
	Kill      = pgserver.Kill
)

// Server is a PostgreSQL server that belongs to one test. Its methods end the test when they fail, so
// call them from the test's own goroutine.
type Server struct {
	// Port is the loopback port; it stays the same over Stop and Start.
	Port int

	t      testing.TB
	server *pgserver.Server
}

// Cluster starts a server for this test alone, for tests that stop, kill or reconfigure it. settings are NAME=VALUE
// pairs of postgresql.conf. It takes about a second; where a database is enough, use DSN.
func Cluster(t testing.TB, settings ...string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, err := pgserver.New(ctx, settings...)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return &Server{Port: server.Port, t: t, server: server}
}

// Stop stops the server and returns when it is gone.
func (s *Server) Stop(mode pgserver.Mode) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.server.Stop(ctx, mode); err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}

// Start starts the server again after a Stop, on the same port, and returns when it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.server.Start(ctx); err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}

// Standby has the server begin its next Start as a standby, which answers questions and takes no writes, or as a
// primary again. It must have been made with wal_level=replica, and be stopped.
func (s *Server) Standby(on bool) {
	s.t.Helper()
	if err := s.server.Standby(on); err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}

// DSN returns the connection string of a database, which it makes if it is not there yet. The server must be running.
func (s *Server) DSN(database string) string {
	s.t.Helper()
	if database != "postgres" {
		if err := makeDatabase(s.server.DSN("postgres"), database); err != nil {
			s.t.Fatalf("pgtest: %v", err)
		}
	}
	return s.server.DSN(database)
}
