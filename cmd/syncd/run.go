package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"syncd/admin"
	"syncd/config"
	"syncd/daemon"
	"syncd/jobs"
	"syncd/notify"
)

func (a *app) runCmd() *cobra.Command {
	var grace time.Duration
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: `run does the work: it reads the streams, writes the records, and answers on the
listen address until it is told to stop. It logs to standard error, with --json
as JSON whatever the configuration says.

SIGTERM or SIGINT ends it gracefully: writes under way finish, nothing new is
begun; a second signal, half a second later or more, ends it at once. SIGHUP
reads the configuration again and keeps the old one if there is a mistake in it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if grace < 0 || grace > time.Hour {
				return usage("--grace %s is not between 0s and 1h", grace)
			}
			return a.run(cmd.Context(), grace)
		},
	}
	c.Flags().DurationVar(&grace, "grace", 30*time.Second, "how long writes under way may take after a stop, up to 1h")
	return c
}

// service is a running daemon with what stands around it.
type service struct {
	app     *app
	config  *config.Config
	log     *slog.Logger
	logs    *kept
	journal *jobs.Journal
	probed  probe
	daemon  *daemon.Daemon
	reload  chan daemon.Reload
	// notifier tells people of what needs them.
	notifier *notify.Notifier
	// expect tells the metrics what a plan holds.
	expect func(*daemon.Plan)
	// retired names the flows of which nobody is told.
	retired atomic.Pointer[[]string]
	// stopping is closed when the daemon has been told to stop.
	stopping <-chan struct{}
}

func (a *app) run(ctx context.Context, grace time.Duration) error {
	// Before this a SIGHUP would end the process.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	c, err := a.load()
	if err != nil {
		return err
	}
	if a.json {
		c.Log.Format = "json"
	}
	// Whoever reads the log may end before the daemon, which has more to do than to log.
	signal.Ignore(syscall.SIGPIPE)
	logs := &kept{w: a.err}
	log := logger(c, logs, a.secrets)
	slog.SetDefault(log)
	// From here on a first signal is a graceful stop.
	ctx, stop := signals(ctx,
		func(s os.Signal) {
			log.Info("stopping; writes under way finish, a second signal ends them", "signal", s.String())
		},
		func(s os.Signal) {
			log.Warn("ended at once; writes under way are found out about at the next start", "signal", s.String())
		})
	defer stop()
	s := &service{app: a, config: c, log: log, logs: logs, reload: make(chan daemon.Reload), stopping: ctx.Done()}
	err = s.run(ctx, hup, grace)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // told to stop while it was still starting
	}
	if err != nil {
		return ended(c, log, err)
	}
	log.Info("syncd has stopped")
	return nil
}

// ended says why the daemon ends. Where the log is JSON, the last line is too.
func ended(c *config.Config, log *slog.Logger, err error) error {
	var ee *exitError
	if c.Log.Format != "json" || !errors.As(err, &ee) {
		return err
	}
	log.Error("syncd ends", "error", err.Error(), "exit_code", ee.code)
	return exit(ee.code, errSaid)
}

func (s *service) run(ctx context.Context, hup <-chan os.Signal, grace time.Duration) error {
	j, eng, err := s.app.journal(ctx, s.config, owning, s.log)
	if err != nil {
		return err
	}
	defer func() {
		if err := j.Close(); err != nil {
			s.log.Error("closing the journal failed", "error", err)
		}
	}()
	plan, err := daemon.PlanOf(s.config, j.Now())
	if err != nil {
		return exit(exitConfig, err)
	}
	seen, err := s.witness(ctx, j, eng)
	if err != nil {
		return err
	}
	if err := s.app.unchanged(ctx, j, s.config); err != nil {
		return err
	}
	if err := s.app.complete(ctx, j, s.config); err != nil {
		return err
	}
	metrics := admin.NewMetrics(version())
	s.notifier = s.newNotifier(j, metrics)
	s.notifier.Set(s.config.Notify.Settings())
	metrics.CountLost(s.logs.Lost)
	s.journal = j
	s.daemon = daemon.New(j, daemon.Options{Log: s.log, Observer: daemon.Observers{metrics, teller{tell: s.notifier.Tell}}, Grace: max(grace, time.Millisecond), UserAgent: "syncd/" + version(), Redact: s.app.secrets.cut, Conceal: s.app.secrets.learn})
	s.retired.Store(&s.config.Retired)
	metrics.Watch(admin.State{Journal: unretired{j, &s.retired}, Clients: s.clients, Ready: s.ready, Flows: s.daemon.Flows, Rules: s.daemon.Rules})
	s.expect = func(p *daemon.Plan) {
		metrics.Expect(slices.Collect(maps.Keys(p.Flows)), slices.Collect(maps.Keys(p.Clients)))
	}
	s.expect(plan)
	if s.config.Listen != "" {
		srv, err := admin.Listen(s.config.Listen, metrics, admin.Health{Ready: s.ready}, s.log)
		if err != nil {
			return exit(exitConfig, err)
		}
		defer srv.Close()
		go func() {
			if err := srv.Serve(); err != nil {
				s.log.Error("metrics and health are no longer served", "error", err)
			}
		}()
		s.log.Info("listening", "address", srv.Addr())
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go s.tell(ctx)
	go s.obey(ctx, hup, eng, lose)
	go verify(ctx, eng, s.log)
	go collect(ctx)
	// It ends after the daemon, which has something to tell while it stops.
	defer s.notifying()()
	noting := make(chan struct{})
	go func() {
		defer close(noting)
		seen.run(ctx, lose)
	}()
	s.log.Info("syncd runs", "version", version(), "config", s.config.Path, "journal", j.Describe(), "clients", len(plan.Clients), "flows", len(plan.Flows))
	err = s.daemon.Run(ctx, plan, s.reload)
	if err == nil && !errors.Is(context.Cause(ctx), jobs.ErrLost) {
		<-noting // ctx has ended
		err = seen.note(context.Background())
	}
	var je *jobs.Error
	switch {
	case errors.Is(context.Cause(ctx), jobs.ErrLost):
		return exit(exitJournal, context.Cause(ctx))
	case errors.As(err, &je):
		return exit(exitJournal, err)
	default:
		return exit(exitConfig, err)
	}
}

// verify looks through a journal that can be looked through, beside the work of the
// daemon: a damaged one may be read well for long. What is found ends the daemon as
// the loss of the journal does.
func verify(ctx context.Context, eng jobs.Engine, log *slog.Logger) {
	if err := verified(ctx, eng); err != nil && !errors.Is(err, jobs.ErrDamaged) && ctx.Err() == nil {
		log.Warn("looking through the journal failed", "error", err)
	}
}

// verified is what looking through the journal finds wrong with it; nil where the
// engine takes care of that by itself.
func verified(ctx context.Context, eng jobs.Engine) error {
	v, ok := eng.(interface{ Verify(context.Context) error })
	if !ok {
		return nil
	}
	return v.Verify(ctx)
}

// statusVerify is how long status looks through the journal; check --live does it whole.
const statusVerify = time.Second

func verifiedWithin(ctx context.Context, eng jobs.Engine, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return verified(ctx, eng)
}

// twice is how long after a first signal a second one is taken for the same: a
// terminal, timeout(1) and some supervisors send it to the process and to its
// group.
const twice = 500 * time.Millisecond

// signals ends ctx at the first SIGTERM or SIGINT and the process at the second,
// and says so before.
func signals(ctx context.Context, first, second func(os.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case s := <-ch:
			first(s)
			cancel()
		case <-ctx.Done():
			return
		}
		at := time.Now()
		for s := range ch {
			if time.Since(at) >= twice {
				second(s)
				os.Exit(128 + int(s.(syscall.Signal)))
			}
		}
	}()
	return ctx, func() { signal.Stop(ch); cancel() }
}

// obey acts on SIGHUP and on the loss of the journal.
func (s *service) obey(ctx context.Context, hup <-chan os.Signal, eng jobs.Engine, lose context.CancelCauseFunc) {
	var lost <-chan struct{}
	journal, ok := eng.(interface {
		Lost() <-chan struct{}
		LostWhy() error
	})
	if ok {
		lost = journal.Lost()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
			why := journal.LostWhy()
			what := "the journal was taken away"
			if errors.Is(why, jobs.ErrDamaged) {
				what = "the journal is damaged"
			}
			s.log.Error(what+"; stopping, and nothing more is sent", "error", why)
			lose(fmt.Errorf("%w: %w", jobs.ErrLost, why))
			return
		case <-hup:
			s.reread(ctx)
		}
	}
}

// reread takes the configuration anew, or keeps the old one when it has mistakes.
func (s *service) reread(ctx context.Context) {
	s.notifyReloading()
	defer s.notifyReady()
	c, err := s.app.load()
	if err != nil {
		s.mistakes(err)
		return
	}
	if c.Journal.Describe() != s.config.Journal.Describe() || c.Listen != s.config.Listen || c.Log.Level != s.config.Log.Level ||
		c.Log.Format != s.config.Log.Format && !s.app.json {
		s.log.Warn("journal, listen and log are read at start only; restart syncd for a change of them")
	}
	plan, err := daemon.PlanOf(c, s.journal.Now())
	if err != nil {
		s.log.Error("the new configuration cannot be run; the old one stays", "error", err)
		return
	}
	if err := s.app.unchanged(ctx, s.journal, c); err != nil {
		s.mistakes(err)
		return
	}
	if err := s.app.complete(ctx, s.journal, c); err != nil {
		s.mistakes(err)
		return
	}
	s.expect(plan)
	s.retired.Store(&c.Retired)
	s.notifier.Set(c.Notify.Settings())
	s.log.Info("the configuration was read again; writes under way finish first", "config", c.Path)
	done := make(chan error, 1)
	select {
	case s.reload <- daemon.Reload{Plan: plan, Done: done}:
	case <-ctx.Done():
		return
	}
	select {
	case <-done: // the daemon has said what came of it
	case <-ctx.Done():
	}
}

// mistakes logs what is wrong with the new configuration, a line each.
func (s *service) mistakes(err error) {
	var es *config.Errors
	if !errors.As(err, &es) {
		s.log.Error("the new configuration cannot be read; the old one stays", "error", err)
		return
	}
	for _, p := range es.Problems {
		s.log.Error("a mistake in the new configuration", "mistake", p.String())
	}
	s.log.Error("the new configuration has mistakes; the old one stays", "mistakes", len(es.Problems))
}

// clients tells the metrics of the clients' gates.
func (s *service) clients() []admin.Client {
	var out []admin.Client
	for _, c := range s.daemon.Clients() {
		ac := admin.Client{Name: c.Client, SuspendedSince: c.Suspended, Breaker: c.Breaker.State.String(), InFlight: c.InFlight, Waiting: c.Gate.Waiting, Learned: c.Gate.Learned.Rate, Budget: c.Budget, Unread: c.Gate.Unread}
		for _, q := range c.Gate.Quotas {
			ac.Quotas = append(ac.Quotas, admin.Quota{Scope: q.Scope, Limit: q.Limit, Left: q.Left})
		}
		if !c.Gate.Open {
			ac.Paused, ac.PausedSince, ac.PausedUntil = c.Gate.Pause.Reason, c.Gate.Pause.Since, c.Gate.Pause.Until
		}
		out = append(out, ac)
	}
	return out
}
