package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"syncd/bench/internal/lab"
	"syncd/jobs"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// world is the folder and the server in which everything happens.
type world struct {
	dir    string
	server *lab.Server
	places int // how many there have been
}

// newWorld starts a PostgreSQL server, or uses the one that dsn names.
func newWorld(ctx context.Context, dsn string) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "syncd-journal-"); err != nil {
		return w, fmt.Errorf("make a folder: %w", err)
	}
	if dsn == "" {
		w.server, err = lab.NewServer(ctx)
	} else {
		w.server, err = lab.At(ctx, dsn)
	}
	return w, err
}

func (w *world) close() error {
	var err error
	if w.server != nil {
		err = w.server.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// place is a journal on one engine, open as a daemon has it.
type place struct {
	*jobs.Journal
	kind   string
	dsn    string // of PostgreSQL
	path   string // of SQLite
	engine jobs.Engine
	world  *world
}

const journalDatabase = "syncd_bench_journal"

// place makes an empty journal. There is one on PostgreSQL at a time.
func (w *world) place(ctx context.Context, kind string) (*place, error) {
	w.places++
	p := &place{kind: kind, world: w, path: filepath.Join(w.dir, fmt.Sprintf("journal-%d", w.places), "syncd.db")}
	if kind == "postgres" {
		p.dsn = w.server.DSN(journalDatabase)
		if err := w.server.Fresh(ctx, journalDatabase); err != nil {
			return nil, err
		}
		if _, err := w.server.Admin.Exec(ctx, "CHECKPOINT"); err != nil {
			return nil, fmt.Errorf("rest the server: %w", err)
		}
	} else if err := os.Mkdir(filepath.Dir(p.path), 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	return p, p.open(ctx)
}

func (p *place) open(ctx context.Context) (err error) {
	if p.kind == "postgres" {
		p.engine, err = postgres.Open(ctx, p.dsn, postgres.Options{Exclusive: true})
	} else {
		p.engine, err = sqlite.Open(ctx, p.path, sqlite.Options{Exclusive: true})
	}
	if err != nil {
		return err
	}
	p.Journal = jobs.New(p.engine, jobs.Options{Owner: "bench"})
	return nil
}

// end closes the journal and removes what it takes on the disk.
func (p *place) end() error {
	err := p.Close()
	if p.kind == "sqlite" {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(p.path)))
	}
	return err
}

// size is what the journal takes on the disk: tables and indexes, in bytes.
// SQLite's write-ahead log, which has a limit of its own, is not counted.
func (p *place) size(ctx context.Context) (n float64, err error) {
	if p.kind == "sqlite" {
		info, err := os.Stat(p.path)
		if err != nil {
			return 0, fmt.Errorf("look at the journal: %w", err)
		}
		return float64(info.Size()), nil
	}
	c, err := connect(ctx, p.dsn)
	if err != nil {
		return 0, err
	}
	err = c.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid))::float8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'syncd' AND c.relkind = 'r'`).Scan(&n)
	return n, errors.Join(err, c.Close(ctx))
}

// usage is what something took.
type usage struct {
	jobs     int
	took     time.Duration
	client   time.Duration // processor time of this process
	database time.Duration // of the PostgreSQL server; 0 with SQLite, which works in this process
}

func (u usage) rate() float64 { return float64(u.jobs) / u.took.Seconds() }

// perJob is a time per job in microseconds.
func (u usage) perJob(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(max(u.jobs, 1))
}

// measure runs fn, which returns how many jobs it did, and tells what that took. In
// a folder for profiles it leaves one under name.
func (p *place) measure(ctx context.Context, profile, name string, fn func() (int, error)) (u usage, err error) {
	before, err := p.databaseCPU(ctx)
	if err != nil {
		return u, err
	}
	if profile != "" {
		f, err := os.Create(filepath.Join(profile, strings.NewReplacer(" ", "-", ",", "").Replace(name)+".pprof"))
		if err != nil {
			return u, fmt.Errorf("write a profile: %w", err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return u, errors.Join(fmt.Errorf("write a profile: %w", err), f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
	}
	own, start := ownCPU(), time.Now()
	if u.jobs, err = fn(); err != nil {
		return u, err
	}
	u.took, u.client = time.Since(start), ownCPU()-own
	after, err := p.databaseCPU(ctx)
	u.database = after - before
	return u, err
}

func (p *place) databaseCPU(ctx context.Context) (time.Duration, error) {
	if p.kind == "sqlite" {
		return 0, nil
	}
	return p.world.server.CPU(ctx)
}

// ownCPU is what this process has used of the processors.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // there is no such error for this process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
