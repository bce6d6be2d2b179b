// Command cmd kills a real syncd as often as it is told and audits what is left:
//
//	go run ./test/crash/cmd --kills 200 --engine sqlite
//	go run ./test/crash/cmd --kills 200 --engine postgres
//
// It builds syncd, brings its own shop, ERP and PostgreSQL server, and needs
// nothing else. It ends with 1 if anything was lost, doubled, left stale or
// turned back.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"syncd/internal/pgtest/pgserver"
	"syncd/test/crash"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	kills := flag.Int("kills", 200, "how often the daemon is killed")
	engine := flag.String("engine", "sqlite", "where the journal is kept: sqlite or postgres")
	seed := flag.Uint64("seed", 0, "choose what goes wrong; 0 takes a new one")
	changes := flag.Int("changes", 15, "changes in the shop per second")
	flag.Parse()
	if *kills < 1 || *changes < 1 || flag.NArg() > 0 || *engine != "sqlite" && *engine != "postgres" {
		flag.Usage()
		return errors.New("not understood")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000)
	}
	dir, err := os.MkdirTemp("", "syncd-crash-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := crash.Options{Dir: dir, Kills: *kills, Seed: *seed, Changes: *changes}
	begun := time.Now()
	o.Say = func(format string, args ...any) {
		fmt.Printf("%7.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	if o.Binary, err = crash.Build(ctx, dir); err != nil {
		return err
	}
	if *engine == "postgres" {
		server, err := pgserver.New(ctx)
		if err != nil {
			return err
		}
		defer server.Close()
		o.Postgres = server.DSN("postgres")
	}
	o.Say("%d kills on %s, seed %d", *kills, *engine, *seed)
	r, err := crash.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println()
	if err := r.Print(os.Stdout); err != nil {
		return err
	}
	if !r.OK() {
		return errors.New("something was lost, doubled, left stale or turned back")
	}
	return nil
}
