package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/crash"
	"syncd/internal/pgtest/pgserver"
)

// sharing says that several daemons share the lanes of a journal, each of which has a lease. While a journal has one daemon, the points of
// leases over lanes are not passed.
const sharing = false

// points are the crash points that a daemon on an engine passes.
func points(engine string) (out []crash.Point) {
	for _, p := range crash.Points() {
		if p.Postgres && engine != "postgres" || p.Shared && !sharing {
			continue
		}
		out = append(out, p)
	}
	return out
}

// kills are the rows of a daemon that is killed: at each of its points, and at moments that nobody chose.
func kills(engine string) (at []*row, anywhen *row) {
	for _, p := range points(engine) {
		at = append(at, &row{fault: "SIGKILL at " + p.Name, point: &p})
	}
	return at, &row{fault: "SIGKILL at a random moment", inject: func(ctx context.Context, s *session) (time.Duration, error) {
		if err := s.w.daemon.sleep(ctx, s.upTo(500*time.Millisecond)); err != nil {
			return 0, err
		}
		s.w.daemon.kill()
		return 0, nil
	}}
}

// others are the faults that need neither root nor a disk of their own.
func others(engine string) []*row {
	rows := []*row{
		hangs("target hangs before it has done the work", hangBefore),
		hangs("target hangs after it has done the work", hangAfter),
		hangs("target cuts the connection after it has done the work", resetAfter),
		hangs("target fails after it has done the work", failAfter),
		{fault: "target database killed", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := crashDatabase(ctx, s, s.w.warehouse.server); err != nil {
				return 0, err
			}
			return s.stocked(ctx)
		}},
		{fault: "target database disconnects", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := disconnect(ctx, s, s.w.warehouse.dsn()); err != nil {
				return 0, err
			}
			return s.stocked(ctx)
		}},
		{fault: "SIGSTOP for a while", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := s.pause(ctx, s.upTo(leaseTime/2)); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
	}
	if engine != "postgres" {
		return rows
	}
	return append(rows,
		&row{fault: "journal's database killed", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := crashDatabase(ctx, s, s.w.journal); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
		&row{fault: "journal's database disconnects", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := disconnect(ctx, s, s.w.journal.DSN("postgres")); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
		&row{fault: "SIGSTOP past the lease, another daemon takes over", inject: overtake},
	)
}

// upTo is a random duration.
func (s *session) upTo(most time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(most)))
}

// hangs has the target do something to each write for a while.
func hangs(fault string, m mood) *row {
	return &row{fault: fault, inject: func(ctx context.Context, s *session) (time.Duration, error) {
		s.w.erp.be(m)
		err := s.w.daemon.sleep(ctx, 300*time.Millisecond+s.upTo(time.Second))
		s.w.erp.be(asUsual)
		if err != nil {
			return 0, err
		}
		return s.w.serves(ctx, s.w.watch())
	}}
}

// crashDatabase stops a server as a crash does and starts it a little later.
func crashDatabase(ctx context.Context, s *session, server *pgserver.Server) error {
	if err := s.w.daemon.sleep(ctx, s.upTo(200*time.Millisecond)); err != nil {
		return err
	}
	if err := server.Stop(ctx, pgserver.Immediate); err != nil {
		return err
	}
	if err := s.w.daemon.sleep(ctx, s.upTo(500*time.Millisecond)); err != nil {
		return err
	}
	return server.Start(ctx)
}

// disconnect cuts all connections of the daemon to a database, several times.
func disconnect(ctx context.Context, s *session, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	for range 5 {
		if err := s.w.daemon.sleep(ctx, s.upTo(60*time.Millisecond)); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'syncd%'`); err != nil {
			return fmt.Errorf("disconnect the daemon: %w", err)
		}
	}
	return nil
}

// stocked waits until the table in the warehouse is written again, and returns how long that took.
func (s *session) stocked(ctx context.Context) (took time.Duration, err error) {
	begun := time.Now()
	err = s.w.warehouse.do(ctx, func(c *pgx.Conn) error {
		for s.w.daemon.sleep(ctx, 5*time.Millisecond) == nil {
			var again bool
			if err := c.QueryRow(ctx, `SELECT coalesce(max(at) > $1, false) FROM effects`, begun).Scan(&again); err != nil || again {
				took = time.Since(begun)
				return err
			}
		}
		return s.w.daemon.strange("ended by itself")
	})
	if err != nil {
		return 0, fmt.Errorf("wait for the table to be written again: %w", err)
	}
	return took, nil
}

// pause stops the daemon for a time with SIGSTOP.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	if err := s.w.daemon.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	err := s.w.daemon.sleep(ctx, d)
	if e := s.w.daemon.cmd.Process.Signal(syscall.SIGCONT); err == nil && e != nil {
		err = fmt.Errorf("wake the daemon: %w", e)
	}
	return err
}

// overtake stops a daemon until its lease has lapsed and another has taken over and works; then it wakes the first one, which must not
// do any more harm. The recovery counts from the stop, and so has the rest of the lease in it.
func overtake(ctx context.Context, s *session) (time.Duration, error) {
	if err := s.w.daemon.sleep(ctx, s.upTo(200*time.Millisecond)); err != nil {
		return 0, err
	}
	old := s.w.daemon
	if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return 0, fmt.Errorf("stop the daemon: %w", err)
	}
	defer old.kill()
	if err := stopped(ctx, old.cmd.Process.Pid); err != nil {
		return 0, err
	}
	first := s.w.watch()
	begun := time.Now()
	for {
		next, err := s.w.start("", false)
		if err != nil {
			return 0, err
		}
		s.w.daemon = next
		_, err = s.w.serves(ctx, first)
		if err == nil {
			break
		}
		// While the lease has not lapsed, a second daemon is refused.
		if !next.hasEnded() || next.cmd.ProcessState.ExitCode() != 4 || time.Since(begun) > recoverTime {
			return 0, err
		}
	}
	took := time.Since(begun)
	if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return 0, fmt.Errorf("wake the daemon: %w", err)
	}
	// Long enough for the old one to do what it was about to do, and to find out that it must not.
	if err := s.w.daemon.sleep(ctx, 500*time.Millisecond+s.upTo(time.Second)); err != nil {
		return 0, err
	}
	return took, nil
}
