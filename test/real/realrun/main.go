// Command realrun proves syncd on real systems: a Vendure shop, a Tryton ERP, and their PostgreSQL, all running on this machine
// (test/real/up). It fills the shop with orders in all states, lets syncd bring them over, and compares the shop with the ERP's own
// tables; then it changes orders, kills the daemon, and stops the ERP and the database under load, and compares again each time. The
// table it prints must show no fault; otherwise it ends with code 1. test/real/run calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	syncd, config, systems, state, prefix string
	orders, customers, kills              int
	outage, patience                      time.Duration
	seed                                  uint64
	handmade                              bool
}

func parse() options {
	var o options
	flag.StringVar(&o.syncd, "syncd", "", "the syncd program")
	flag.StringVar(&o.config, "config", "", "its configuration, from Vendure to Tryton")
	flag.StringVar(&o.systems, "systems", "test/real", "the folder with the scripts up, reset and service")
	flag.StringVar(&o.state, "state", "", "folder for the daemon's state and log, emptied first (default: a temporary one)")
	flag.StringVar(&o.prefix, "party-prefix", "VC-", "what the configuration puts before a customer's id to make a party's code")
	flag.IntVar(&o.orders, "orders", 240, "orders to begin with")
	flag.IntVar(&o.customers, "customers", 40, "customers who make them")
	flag.IntVar(&o.kills, "kills", 20, "times the daemon is killed")
	flag.DurationVar(&o.outage, "outage", time.Minute, "how long the ERP, and then the database, is away")
	flag.DurationVar(&o.patience, "patience", 5*time.Minute, "how long a phase may take to come right")
	flag.Uint64Var(&o.seed, "seed", 0, "of the random choices (default: from the clock)")
	flag.BoolVar(&o.handmade, "prove-checker", false, "test the checker itself, with records made by hand, instead of syncd")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := realrun(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "realrun:", err)
		os.Exit(1)
	}
}

func realrun(ctx context.Context, o options) error {
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	r, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	r.say("seed %d", o.seed)
	phases := r.phases()
	if o.handmade {
		phases = []phase{{"seeding", r.seed}, {"checking the checker", r.proveChecker}}
	}
	for _, p := range phases {
		r.say("%s", p.name)
		if err = p.do(ctx); err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
			break
		}
	}
	if printing := r.table.print(os.Stdout); err == nil {
		err = printing
	}
	if err == nil && r.table.faults > 0 {
		err = fmt.Errorf("%d faults", r.table.faults)
	}
	return err
}

// stateFolder makes the daemon's folder, empty.
func stateFolder(path string) (string, error) {
	if path == "" {
		return os.MkdirTemp("", "syncd-real-state-")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the state folder: %w", err)
	}
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("empty the state folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make the state folder: %w", err)
	}
	return path, nil
}
