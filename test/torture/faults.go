package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/crash"
	"syncd/internal/pgtest/pgserver"
)

// kills are the rows of a daemon that is killed: at each of its points, and at moments that nobody chose.
func kills(engine string) (at []*row, anywhen *row) {
	for _, p := range crash.Points() {
		if engine == "sqlite" && strings.HasPrefix(p.Name, "reshard.") {
			continue // the one daemon of an SQLite journal has nobody to share a client with
		}
		r := &row{fault: "SIGKILL at " + p.Name, kill: true, point: &p}
		switch {
		case p.When == crash.ByCommand && strings.HasPrefix(p.Name, "restored."):
			r.inject, r.restores = putBack(&p), true
		case p.When == crash.ByCommand:
			r.inject = halfDone(&p)
		}
		at = append(at, r)
	}
	return at, &row{fault: "SIGKILL at a random moment", kill: true, inject: func(ctx context.Context, s *session) (time.Duration, error) {
		defer s.hurry()()
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
		{fault: "target database killed", apart: true, inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := crashDatabase(ctx, s, s.w.warehouse.server); err != nil {
				return 0, err
			}
			return s.stocked(ctx)
		}},
		{fault: "target database disconnects", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := disconnect(ctx, s, s.w.warehouse.dsn); err != nil {
				return 0, err
			}
			return s.stocked(ctx)
		}},
		{fault: "SIGSTOP for a while", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := doze(ctx, s.w.daemon, s.upTo(leaseTime/2)); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
	}
	if engine != "postgres" {
		return rows
	}
	return append(rows,
		&row{fault: "journal database killed", apart: true, inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := crashDatabase(ctx, s, s.w.journal.server); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
		&row{fault: "journal database disconnects", inject: func(ctx context.Context, s *session) (time.Duration, error) {
			if err := disconnect(ctx, s, s.w.journal.dsn); err != nil {
				return 0, err
			}
			return s.w.serves(ctx, s.w.watch())
		}},
		&row{fault: "SIGSTOP past the lease, another daemon takes over", inject: overtake},
		&row{fault: "two daemons, SIGKILL of one", inject: beside(func(context.Context, *session, *process) error { return nil })},
		&row{fault: "two daemons, one stops well", inject: beside(func(ctx context.Context, _ *session, victim *process) error { return victim.stop(ctx) })},
		&row{fault: "two daemons, SIGSTOP of one past its leases", inject: beside(func(ctx context.Context, s *session, victim *process) error {
			if err := doze(ctx, victim, leaseTime+s.upTo(leaseTime)); err != nil {
				return err
			}
			return victim.sleep(ctx, 500*time.Millisecond+s.upTo(time.Second))
		})},
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
		if _, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'syncd%'`); err != nil {
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

// overtake stops a daemon until its leases have lapsed and another has taken over and works; then it wakes the first one, which must do no
// more harm. The recovery counts from the stop, and so has the rest of the lease in it.
func overtake(ctx context.Context, s *session) (time.Duration, error) {
	if err := s.w.daemon.sleep(ctx, s.upTo(200*time.Millisecond)); err != nil {
		return 0, err
	}
	old := s.w.daemon
	if err := send(syscall.SIGSTOP, old.cmd.Process.Pid); err != nil {
		return 0, err
	}
	defer old.kill()
	if err := stopped(ctx, old.cmd.Process.Pid); err != nil {
		return 0, err
	}
	first := s.w.watch()
	var err error
	if s.w.daemon, err = s.w.start("", false); err != nil {
		return 0, err
	}
	took, err := s.w.serves(ctx, first)
	if err != nil {
		return 0, err
	}
	if err := send(syscall.SIGCONT, old.cmd.Process.Pid); err != nil {
		return 0, err
	}
	// Long enough for the old one to do what it was about to do, and to find out that it must not.
	return took, s.w.daemon.sleep(ctx, 500*time.Millisecond+s.upTo(time.Second))
}

// beside starts a second daemon, waits until the two share the lanes, and does something to one of them. Afterwards the other one goes on alone.
func beside(do func(ctx context.Context, s *session, victim *process) error) func(context.Context, *session) (time.Duration, error) {
	return func(ctx context.Context, s *session) (time.Duration, error) {
		victim, err := s.w.start("", false)
		if err != nil {
			return 0, err
		}
		defer func() { victim.kill() }()
		t := time.NewTimer(recoverTime)
		defer t.Stop()
		select {
		case <-victim.took:
		case <-victim.ended:
			return 0, victim.strange("ended by itself")
		case <-t.C:
			return 0, fmt.Errorf("a second daemon got nothing to do for %s; the end of its log:\n%s", recoverTime, victim.tail())
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if s.rnd.IntN(2) == 0 {
			victim, s.w.daemon = s.w.daemon, victim
		}
		if err := victim.sleep(ctx, s.upTo(500*time.Millisecond)); err != nil {
			return 0, err
		}
		if err := do(ctx, s, victim); err != nil {
			return 0, err
		}
		victim.kill()
		return s.w.serves(ctx, s.w.watch())
	}
}

// doze stops a daemon for a time with SIGSTOP.
func doze(ctx context.Context, p *process, d time.Duration) error {
	if err := send(syscall.SIGSTOP, p.cmd.Process.Pid); err != nil {
		return err
	}
	err := p.sleep(ctx, d)
	if e := send(syscall.SIGCONT, p.cmd.Process.Pid); err == nil {
		err = e
	}
	return err
}
