package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"syncd/daemon"
	"syncd/internal/sandbox"
	"syncd/jobs"
)

//go:embed demo.yaml
var demoConfig string

func (a *app) demoCmd() *cobra.Command {
	d := &demo{app: a}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch syncd work between a sandbox shop and a sandbox ERP on a bad day",
		Long: `demo starts, in this process and on loopback, a sandbox shop with a quota, late and
repeated changes, and a sandbox ERP that keeps references unique and times out,
fails or goes down before and after it has done the work. It runs syncd between
them on an embedded journal and shows what happens. In the end it reads the ERP
and compares it with the shop; it exits with 1 if anything is doubled, lost or
stale.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	c.Flags().DurationVar(&d.length, "for", 30*time.Second, "how long the shop trades and the bad day lasts, 5s to 1h")
	c.Flags().IntVar(&d.perSecond, "changes", 12, "changes in the shop per second, 1 to 200")
	c.Flags().Uint64Var(&d.seed, "seed", 0, "choose what goes wrong; 0 takes a new one")
	c.Flags().StringVar(&d.dir, "dir", "", "keep the configuration and the journal in this `folder`")
	return c
}

// mostChanges bounds what the sandbox, which keeps all in memory, has to hold.
const mostChanges = 50_000

// demo is one showing.
type demo struct {
	app       *app
	length    time.Duration
	perSecond int
	seed      uint64
	dir       string

	shop *sandbox.Shop
	erp  *sandbox.ERP
	view *view
}

func (d *demo) run(ctx context.Context) error {
	switch {
	case d.length < 5*time.Second || d.length > time.Hour:
		return usage("--for %s is not between 5s and 1h", d.length)
	case d.perSecond < 1 || d.perSecond > 200:
		return usage("--changes %d is not between 1 and 200", d.perSecond)
	case float64(d.perSecond)*d.length.Seconds() > mostChanges:
		return usage("--changes %d --for %s are more than the %d changes that the sandbox holds", d.perSecond, d.length, mostChanges)
	}
	if d.seed == 0 {
		d.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	// A first Ctrl-C goes on to the audit, a second one ends.
	trading, stop := signals(ctx, func(os.Signal) {}, func(os.Signal) {})
	defer stop()
	dir, done, err := d.folder()
	if err != nil {
		return err
	}
	defer done()
	if d.shop, err = sandbox.NewShop(d.seed); err != nil {
		return exit(exitUnreachable, err)
	}
	defer d.shop.Close()
	if d.erp, err = sandbox.NewERP(d.seed + 1); err != nil {
		return exit(exitUnreachable, err)
	}
	defer d.erp.Close()
	// Quotas that let syncd catch up, however much the shop trades.
	n := float64(d.perSecond)
	d.shop.Quota(max(12, n/4), max(6.5, n/6))
	d.erp.Quota(max(30, 2.5*n), max(25, 2*n))
	return d.show(ctx, trading, dir)
}

// folder is where configuration and journal go.
func (d *demo) folder() (string, func(), error) {
	if d.dir == "" {
		dir, err := os.MkdirTemp("", "syncd-demo-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	// The configuration stays, and has to mean the same from every folder.
	dir, err := filepath.Abs(d.dir)
	if err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "syncd.db")); err == nil {
		return "", nil, usage("--dir %s holds a journal already; choose an empty folder", d.dir)
	}
	return dir, func() {}, nil
}

func (d *demo) show(ctx, trading context.Context, dir string) error {
	path := filepath.Join(dir, "syncd.yaml")
	text := strings.NewReplacer("JOURNAL", filepath.Join(dir, "syncd.db"), "SHOP_URL", d.shop.URL, "ERP_URL", d.erp.URL).Replace(demoConfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the demo's configuration: %w", err)
	}
	a := *d.app
	a.config, a.env = path, nil // the demo is the same whatever the environment says
	c, err := a.load()
	if err != nil {
		return err
	}
	j, _, err := a.journal(ctx, c, owning, quiet())
	if err != nil {
		return err
	}
	defer j.Close()
	plan, err := daemon.PlanOf(c, j.Now())
	if err != nil {
		return exit(exitConfig, err)
	}
	d.view = newView(d.app, j, time.Now())
	d.view.say("a sandbox shop at %s and a sandbox ERP at %s; what goes wrong follows seed %d", d.shop.URL, d.erp.URL, d.seed)
	dm := daemon.New(j, daemon.Options{Log: slog.New(slog.DiscardHandler), Observer: d.view, Grace: 5 * time.Second, UserAgent: "syncd/" + version()})
	running, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- dm.Run(running, plan, nil) }()
	d.trade(trading)
	d.shop.Calm()
	d.erp.Calm()
	d.view.say("the shop closes; what is open is finished, and the ERP is read")
	left := d.drain(ctx, j, len(plan.Flows))
	end()
	if err := <-ended; err != nil {
		return err
	}
	return d.audit(left, path)
}

// trade makes changes in the shop and has the ERP go down once in the middle.
func (d *demo) trade(ctx context.Context) {
	const steps = 10 // per second
	begun := time.Now()
	tick := time.NewTicker(time.Second / steps)
	defer tick.Stop()
	down, n := false, 0.0
	for ctx.Err() == nil && time.Since(begun) < d.length {
		n += float64(d.perSecond) / steps
		d.shop.Trade(int(n))
		n -= float64(int(n))
		if !down && time.Since(begun) > d.length*2/5 {
			down = true
			away := min(7*time.Second, d.length/4)
			d.erp.Maintain(away)
			d.view.say("the ERP goes down for maintenance for %s and says so with its first refusal", away.Round(time.Second))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		d.view.line(false)
	}
}

// How long the end of a demo waits. A slow machine takes longer, so it is not
// time that counts but that nothing moves any more.
const (
	// stuck is how long nothing may move before the demo gives up.
	stuck = time.Minute
	// longest bounds the wait as a whole, beside twice the time of the trade.
	longest = 10 * time.Minute
	// looks is how many polls of every flow have to find nothing new.
	looks = 3
)

// drain waits until every change is in the ERP, and says how many jobs are not done.
func (d *demo) drain(ctx context.Context, j *jobs.Journal, flows int) (left int64) {
	begun := time.Now()
	moved, at := d.view.moved.Load(), begun
	d.view.look()
	for ctx.Err() == nil && time.Since(begun) < longest+2*d.length && time.Since(at) < stuck {
		if n := d.view.moved.Load(); n != moved {
			moved, at = n, time.Now()
			d.view.look()
		}
		var open int64
		if o, err := j.Overview(ctx); err != nil {
			open = 1
		} else {
			open, left = 0, 0
			for _, c := range o.Counts {
				if c.State != jobs.Done {
					left += c.N
				}
				if c.State == jobs.Ready {
					open += c.N
				}
			}
		}
		if open == 0 && d.view.looked(flows) >= looks {
			return left
		}
		d.view.line(false)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return left
}

// demoJSON is what demo --json prints in the end.
type demoJSON struct {
	Seed      uint64         `json:"seed"`
	OK        bool           `json:"ok"`
	Audit     sandbox.Audit  `json:"audit"`
	StillOpen int64          `json:"still_open"`
	Read      int64          `json:"events_read"`
	Outcomes  map[string]int `json:"outcomes"`
	Shop      map[string]int `json:"shop_faults"`
	ERP       map[string]int `json:"erp_faults"`
}

func (d *demo) audit(left int64, path string) error {
	d.view.line(true)
	au := sandbox.Compare(d.shop, d.erp)
	out := demoJSON{Seed: d.seed, OK: au.OK() && left == 0, Audit: au, StillOpen: left, Read: d.view.events.Load(), Outcomes: d.view.outcomes(),
		Shop: d.shop.Faults(), ERP: d.erp.Faults()}
	if d.app.json {
		if err := printJSON(d.app.out, out); err != nil {
			return err
		}
	} else {
		out.print(d.app.out)
		if d.dir != "" {
			fmt.Fprintf(d.app.out, "\nlook around: syncd status --config %s\n", quote(path))
		}
	}
	if !out.OK {
		return exit(exitFinding, errSaid)
	}
	return nil
}
