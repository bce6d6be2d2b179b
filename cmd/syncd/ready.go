package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// ready says whether the daemon can do its work: it runs a configuration, and its
// journal can be written and takes what is read, without which nothing is sent. A source or a
// target in trouble is no reason: it ends by itself, a restart would not help, and
// status and metrics tell of it.
func (s *service) ready(ctx context.Context) error {
	if err := s.up(ctx); err != nil {
		return err
	}
	if s.probed.write(s.journal.Probe, s.log) != nil {
		return errors.New("the journal cannot be written")
	}
	if flows := s.daemon.Refused(); len(flows) > 0 {
		return fmt.Errorf("the journal does not take what is read of %s", strings.Join(flows, ", "))
	}
	return nil
}

// up says whether the daemon runs a configuration on a journal that answers. It is
// what systemd is told: no restart makes a full disk empty.
func (s *service) up(ctx context.Context) error {
	select {
	case <-s.stopping:
		return errors.New("stopping")
	default:
	}
	if !s.daemon.Running() {
		return errors.New("starting")
	}
	if s.readable(ctx) != nil {
		return errors.New("the journal cannot be read")
	}
	return nil
}

// readable says whether the journal answers.
func (s *service) readable(ctx context.Context) error {
	_, err := s.journal.Clients(ctx)
	return err
}

// probe remembers for a moment whether the journal could be written: those who
// ask for readiness, however many, cost a durable write now and then.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const (
	// probeGood and probeBad are how long an answer holds.
	probeGood = 10 * time.Second
	probeBad  = time.Second
	// probeTime bounds one probe. It is not the asker's time, which may be short: a
	// journal that is busy for a moment can be written.
	probeTime = 4 * time.Second
)

// write probes the journal, unless that was done just now, and logs a change.
func (p *probe) write(do func(context.Context) error, log *slog.Logger) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	good := probeGood
	if p.err != nil {
		good = probeBad
	}
	if !p.at.IsZero() && time.Since(p.at) < good {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := do(ctx)
	switch {
	case err != nil && (p.err == nil || p.err.Error() != err.Error()):
		log.Error("the journal cannot be written; nothing is read or sent until it can", "error", err)
	case err == nil && p.err != nil:
		log.Info("the journal can be written again")
	}
	p.at, p.err = time.Now(), err
	return err
}
