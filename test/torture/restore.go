package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/crash"
)

// putBack has the journal be put back from a backup that is some seconds old, and kills the command that says so: at a point, and then in a step of
// its errand. What was written since the backup is known to the targets alone.
func putBack(p *crash.Point) func(context.Context, *session) (time.Duration, error) {
	return func(ctx context.Context, s *session) (time.Duration, error) {
		if err := s.w.daemon.sleep(ctx, s.upTo(500*time.Millisecond)); err != nil {
			return 0, err
		}
		s.w.daemon.kill()
		asOf := time.Now()
		b, err := s.w.backUp(ctx)
		if err != nil {
			return 0, fmt.Errorf("back the journal up: %w", err)
		}
		defer func() { _ = b.drop(context.WithoutCancel(ctx)) }()
		if _, err := s.w.revive(ctx, ""); err != nil {
			return 0, err
		}
		defer s.hurry()()
		if err := s.w.daemon.sleep(ctx, s.upTo(2*time.Second)); err != nil {
			return 0, err
		}
		if s.rnd.IntN(2) == 0 {
			s.w.daemon.kill()
		} else if err := s.w.daemon.stop(ctx); err != nil {
			return 0, err
		}
		if err := b.putBack(ctx); err != nil {
			return 0, fmt.Errorf("put the journal back: %w", err)
		}
		s.w.erp.forgotten(asOf)
		s.w.wasPutBack = true
		args := []string{"restored", "--as-of", asOf.UTC().Format(time.RFC3339Nano), "--yes"}
		stages := []string{crash.Committing, crash.InFlight, crash.Committed}
		for _, point := range []string{s.passing(p), "step." + stages[s.rnd.IntN(len(stages))]} {
			died, err := s.w.dies(ctx, point, args)
			if err != nil {
				return 0, err
			}
			if !died {
				return 0, fmt.Errorf("syncd restored was over before it came to %s", point)
			}
		}
		if _, err := s.w.syncd(ctx, nil, args...); err != nil {
			return 0, err
		}
		return s.w.revive(ctx, "")
	}
}

// backup is a copy of the journal, taken while nobody works on it.
type backup interface {
	// putBack puts it in the place of the journal.
	putBack(ctx context.Context) error
	drop(ctx context.Context) error
}

func (w *world) backUp(ctx context.Context) (backup, error) {
	if w.journal != nil {
		return w.journal.backUp(ctx)
	}
	return backUpFile(w.journalFile())
}

// copiedFile is the backup of a journal in a file: what stands in it, and in its log.
type copiedFile struct {
	path  string
	parts map[string][]byte // by what is added to the path
}

func backUpFile(path string) (*copiedFile, error) {
	c := &copiedFile{path, map[string][]byte{}}
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + end)
		if errors.Is(err, fs.ErrNotExist) && end != "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.parts[end] = text
	}
	return c, nil
}

func (c *copiedFile) putBack(context.Context) error {
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(c.path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for end, text := range c.parts {
		if err := os.WriteFile(c.path+end, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *copiedFile) drop(context.Context) error { return nil }

// copiedDatabase is the backup of a journal in a database: another database on the same server.
type copiedDatabase struct {
	of   *database
	name string
}

func (d *database) backUp(ctx context.Context) (*copiedDatabase, error) {
	if d.admin == "" {
		return nil, errors.New("the journal's server is its own, and has no other databases")
	}
	c := &copiedDatabase{d, d.name + "_backup"}
	return c, connected(ctx, d.admin, func(a *pgx.Conn) error {
		// The server may not have noticed yet that the daemon is dead. With nobody else there it can be copied.
		if _, err := a.Exec(ctx, "ALTER DATABASE "+d.name+" ALLOW_CONNECTIONS false"); err != nil {
			return err
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := a.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", d.name); err != nil {
				return err
			}
			var n int
			if err := a.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", d.name).Scan(&n); err != nil {
				return err
			}
			if n == 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if _, err := a.Exec(ctx, "CREATE DATABASE "+c.name+" TEMPLATE "+d.name); err != nil {
			return err
		}
		_, err := a.Exec(ctx, "ALTER DATABASE "+d.name+" ALLOW_CONNECTIONS true")
		return err
	})
}

func (c *copiedDatabase) putBack(ctx context.Context) error {
	return connected(ctx, c.of.admin, func(a *pgx.Conn) error {
		for _, q := range []string{"DROP DATABASE " + c.of.name + " WITH (FORCE)", "ALTER DATABASE " + c.name + " RENAME TO " + c.of.name} {
			if _, err := a.Exec(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *copiedDatabase) drop(ctx context.Context) error {
	return connected(ctx, c.of.admin, func(a *pgx.Conn) error {
		_, err := a.Exec(ctx, "DROP DATABASE IF EXISTS "+c.name)
		return err
	})
}

// journalFile is where an embedded journal is.
func (w *world) journalFile() string { return filepath.Join(w.place.dir, "syncd.db") }
