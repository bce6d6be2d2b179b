// Command connectors tries the connectors vendure and tryton on the real systems of this machine (test/real/up), without the daemon: it
// reads the shop, and takes records of its own in the ERP through everything that can be done to them. It is for the hand of somebody who
// changes a connector:
//
//	. "$(test/real/up)" && go run ./test/real/connectors
//
// Every line it prints is one thing tried and what came of it; it ends with code 1 when something was not as expected. The records that it
// leaves in the ERP have codes that begin with TRY-.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"syncd/connectors"
	"syncd/connectors/tryton"
	"syncd/connectors/vendure"
	"syncd/internal/field"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

// counter is a gate that counts requests.
type counter struct{ n atomic.Int64 }

func (c *counter) Wait(ctx context.Context) error { c.n.Add(1); return ctx.Err() }
func (g *counter) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (*counter) Longest() time.Duration { return 24 * time.Hour }

func (c *counter) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

// trial is one run.
type trial struct {
	ctx    context.Context
	gate   counter
	prefix string
	failed int
}

func main() {
	t := &trial{ctx: context.Background(), prefix: fmt.Sprintf("TRY-%d", time.Now().Unix())}
	if err := errors.Join(t.shop(), t.erp()); err != nil {
		fmt.Fprintln(os.Stderr, "connectors:", err)
		os.Exit(1)
	}
	if t.failed > 0 {
		fmt.Fprintf(os.Stderr, "%d of these were not as expected\n", t.failed)
		os.Exit(1)
	}
}

func (t *trial) env() connectors.Env {
	return connectors.Env{Client: "trial", Gate: &t.gate, Timeout: time.Minute, Concurrency: 2, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().UTC() }}
}

// tell prints what came of something, with the requests it took.
func (t *trial) tell(ok bool, format string, args ...any) {
	mark := "ok  "
	if !ok {
		mark = "FAIL"
		t.failed++
	}
	fmt.Printf("%s %2d requests  %s\n", mark, t.gate.n.Swap(0), fmt.Sprintf(format, args...))
}

// shop reads every stream of the shop once, and again.
func (t *trial) shop() error {
	set := &vendure.Settings{URL: os.Getenv("REAL_SHOP_URL") + "/admin-api", Overlap: time.Minute, SweepEvery: time.Hour, SlowSweepEvery: time.Hour,
		Window: 90 * 24 * time.Hour, Auth: vendure.Auth{User: os.Getenv("REAL_SHOP_USER"), Password: field.NewSecret(os.Getenv("REAL_SHOP_PASSWORD"))}}
	i, err := set.Open(t.ctx, t.env())
	if err != nil {
		return err
	}
	defer i.Close() //nolint:errcheck // nothing is left to be lost
	for _, st := range set.Streams() {
		var cursor json.RawMessage
		for _, round := range []string{"first", "second"} {
			began, ids, pages, more := time.Now(), map[string]bool{}, 0, true
			for more {
				p, err := i.Source().Pull(t.ctx, connectors.PullRequest{Stream: st.Name, Cursor: cursor, Start: connectors.Start{All: true}, Limit: 100})
				if err != nil {
					return err
				}
				for _, e := range p.Events {
					if e.Problem != "" || e.Version == 0 {
						t.tell(false, "%s %s: %s", st.Name, e.SourceID, e.Problem)
					}
					ids[e.SourceID] = true
				}
				cursor, more, pages = p.Next, p.More, pages+1
			}
			t.tell(true, "%s, %s cycle: %d records in %d pages, %v", st.Name, round, len(ids), pages, time.Since(began).Round(time.Millisecond))
		}
	}
	for _, f := range i.Check(t.ctx, []string{"orders", "customers", "variants"}, nil) {
		t.tell(f.Problem == "", "check %s: %s%s", f.Subject, f.Note, f.Problem)
	}
	return nil
}

// is prints an outcome and compares its class.
func (t *trial) is(want connectors.Class, o connectors.Outcome, what string) connectors.Outcome {
	text := fmt.Sprintf("%s: %s", what, o.Class)
	if o.Message != "" {
		text += " (" + o.Code + ": " + o.Message + ")"
	}
	if o.Class != want {
		text += ", want " + string(want)
	}
	t.tell(o.Class == want, "%s", text)
	return o
}

// body makes a record.
func body(fields map[string]any) json.RawMessage {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return b
}

// erp takes a party, a product and sales through everything that can be done to them.
func (t *trial) erp() error {
	set := &tryton.Settings{URL: os.Getenv("REAL_TRYTON_URL"), Database: os.Getenv("REAL_TRYTON_DATABASE"), User: os.Getenv("REAL_TRYTON_USER"),
		Password: field.NewSecret(os.Getenv("REAL_TRYTON_PASSWORD")), Settle: time.Minute}
	i, err := set.Open(t.ctx, t.env())
	if err != nil {
		return err
	}
	defer i.Close() //nolint:errcheck // nothing is left to be lost
	for _, f := range i.Check(t.ctx, nil, []string{"party", "product", "sale"}) {
		t.tell(f.Problem == "", "check %s: %s%s", f.Subject, f.Note, f.Problem)
	}
	e := &desk{trial: t, entities: map[string]connectors.Entity{}}
	for _, name := range []string{"party", "product", "sale"} {
		if e.entities[name], err = i.Target().Entity(name); err != nil {
			return err
		}
	}
	e.party()
	e.product()
	e.states()
	e.refusals()
	return nil
}
