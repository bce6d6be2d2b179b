package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"syncd/admin"
	"syncd/config"
	"syncd/daemon"
	"syncd/jobs"
)

func (a *app) runCmd() *cobra.Command {
	var grace time.Duration
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: `run does the work: it reads the streams, writes the records, and answers on the
listen address until it is told to stop.

SIGTERM or SIGINT ends it gracefully: writes under way finish, nothing new is
begun; a second signal ends it at once. SIGHUP reads the configuration again and
keeps the old one if there is a mistake in it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), grace) },
	}
	c.Flags().DurationVar(&grace, "grace", 30*time.Second, "how long writes under way may take after a stop")
	return c
}

// service is a running daemon with what stands around it.
type service struct {
	app     *app
	config  *config.Config
	log     *slog.Logger
	secrets *redactor
	journal *jobs.Journal
	daemon  *daemon.Daemon
	reload  chan *daemon.Plan
}

func (a *app) run(ctx context.Context, grace time.Duration) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	log, secrets := logger(c, a.err)
	slog.SetDefault(log)
	// From here on a first signal is a graceful stop.
	ctx, stop := signals(ctx, log)
	defer stop()
	j, eng, err := a.journal(ctx, c, owning)
	if err != nil {
		return err
	}
	defer func() {
		if err := j.Close(); err != nil {
			log.Error("closing the journal failed", "error", err)
		}
	}()
	plan, err := daemon.PlanOf(c, j.Now())
	if err != nil {
		return exit(exitConfig, err)
	}
	metrics := admin.NewMetrics(version())
	s := &service{app: a, config: c, log: log, secrets: secrets, journal: j, reload: make(chan *daemon.Plan)}
	s.daemon = daemon.New(j, daemon.Options{Log: log, Observer: metrics, Grace: grace, UserAgent: "syncd/" + version()})
	metrics.Watch(admin.State{Journal: j, Clients: s.clients})
	if c.Listen != "" {
		srv, err := admin.Listen(c.Listen, metrics, admin.Health{Ready: s.ready}, log)
		if err != nil {
			return exit(exitConfig, err)
		}
		defer srv.Close()
		go func() {
			if err := srv.Serve(); err != nil {
				log.Error("metrics and health are no longer served", "error", err)
			}
		}()
		log.Info("listening", "address", srv.Addr())
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go s.watch(ctx, hup, lost(eng), lose)
	log.Info("syncd runs", "version", version(), "config", c.Path, "journal", j.Describe(), "clients", len(plan.Clients), "flows", len(plan.Flows))
	err = s.daemon.Run(ctx, plan, s.reload)
	notify(log, systemd.SdNotifyStopping)
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, jobs.ErrInUse) {
		return exit(exitJournal, cause)
	}
	if err != nil {
		return exit(exitConfig, redacted(c, err))
	}
	log.Info("syncd has stopped")
	return nil
}

// signals ends ctx at the first SIGTERM or SIGINT and the process at the second.
func signals(ctx context.Context, log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case s := <-ch:
			log.Info("stopping; writes under way finish, a second signal ends them", "signal", s.String())
			cancel()
		case <-ctx.Done():
			return
		}
		s := <-ch
		log.Warn("ended at once; writes under way are found out about at the next start", "signal", s.String())
		os.Exit(128 + int(s.(syscall.Signal)))
	}()
	return ctx, func() { signal.Stop(ch); cancel() }
}

// lost is closed when the engine no longer has the journal for itself.
func lost(e jobs.Engine) <-chan struct{} {
	if l, ok := e.(interface{ Lost() <-chan struct{} }); ok {
		return l.Lost()
	}
	return nil
}

// watch tells systemd how it goes, and acts on SIGHUP and on the loss of the journal.
func (s *service) watch(ctx context.Context, hup <-chan os.Signal, lost <-chan struct{}, lose context.CancelCauseFunc) {
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog setting of systemd cannot be read", "error", err)
	}
	// Readiness is looked for often until it has been told once.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
			s.log.Error("another daemon has the journal; stopping")
			lose(jobs.ErrInUse)
			return
		case <-hup:
			s.reread(ctx)
		case <-tick.C:
			if s.ready(ctx) != nil {
				continue
			}
			if !told {
				notify(s.log, systemd.SdNotifyReady)
				told = true
				tick.Reset(max(every/3, time.Second))
			}
			if every > 0 {
				notify(s.log, systemd.SdNotifyWatchdog)
			}
		}
	}
}

func notify(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("telling systemd failed", "error", err)
	}
}

// reread takes the configuration anew, or keeps the old one when it has mistakes.
func (s *service) reread(ctx context.Context) {
	notify(s.log, systemd.SdNotifyReloading+fmt.Sprintf("\nMONOTONIC_USEC=%d", monotonic()))
	defer notify(s.log, systemd.SdNotifyReady)
	c, err := s.app.load()
	if err != nil {
		s.log.Error("the new configuration has mistakes; the old one stays", "problems", err.Error())
		return
	}
	if c.Journal.Describe() != s.config.Journal.Describe() || c.Listen != s.config.Listen || c.Log != s.config.Log {
		s.log.Warn("journal, listen and log are read at start only; restart syncd for a change of them")
	}
	s.secrets.add(c)
	plan, err := daemon.PlanOf(c, s.journal.Now())
	if err != nil {
		s.log.Error("the new configuration cannot be run; the old one stays", "error", err)
		return
	}
	select {
	case s.reload <- plan:
		s.log.Info("configuration read again", "config", filepath.Clean(c.Path))
	case <-ctx.Done():
	}
}

// monotonic is the time systemd compares reloads by, in microseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1000
}

// ready says whether the daemon does its work.
func (s *service) ready(ctx context.Context) error {
	if !s.daemon.Running() {
		return errors.New("starting or stopping")
	}
	if _, err := s.journal.Clients(ctx); err != nil {
		return errors.New("the journal cannot be read; see the log")
	}
	return nil
}

// clients tells the metrics of the clients' gates.
func (s *service) clients() []admin.Client {
	var out []admin.Client
	for _, c := range s.daemon.Clients() {
		ac := admin.Client{Name: c.Client, Breaker: c.Breaker.State.String(), InFlight: c.InFlight}
		if !c.Gate.Open {
			ac.Paused, ac.PausedUntil = c.Gate.Pause.Reason, c.Gate.Pause.Until
		}
		out = append(out, ac)
	}
	return out
}
