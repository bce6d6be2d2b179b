package main

import (
	"context"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// tell tells systemd that the daemon is ready, that it lives, and that it stops.
// It is the protocol of sd_notify(3); without NOTIFY_SOCKET nothing is sent.
func (s *service) tell(ctx context.Context) {
	every, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog setting of systemd cannot be read", "error", err)
	}
	// Readiness is looked for often until it has been told.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.up(ctx) != nil {
		select {
		case <-ctx.Done():
			s.notify(systemd.SdNotifyStopping)
			return
		case <-tick.C:
		}
	}
	s.notifyReady()
	if every > 0 {
		tick.Reset(every / 3)
	} else {
		tick.Stop()
	}
	mute := false
	for {
		select {
		case <-ctx.Done():
			s.notify(systemd.SdNotifyStopping)
			return
		case <-tick.C:
			mute = s.feed(ctx, every, mute)
		}
	}
}

// feed feeds the watchdog as long as the journal answers: without it nothing can
// be done, and a fresh start is worth a try. mute says that it was not fed the
// last time.
func (s *service) feed(ctx context.Context, every time.Duration, mute bool) bool {
	ctx, cancel := context.WithTimeout(ctx, every/3)
	defer cancel()
	if err := s.readable(ctx); err != nil {
		if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded {
			if !mute {
				s.log.Error("the journal cannot be read; systemd's watchdog is not fed until it can", "error", err)
			}
			return true
		}
		return mute
	}
	if mute {
		s.log.Info("the journal can be read again; systemd's watchdog is fed")
	}
	s.notify(systemd.SdNotifyWatchdog)
	return false
}

func (s *service) notifyReady() { s.notify(systemd.SdNotifyReady) }

// notifyReloading carries the time that systemd compares reloads by, in microseconds.
func (s *service) notifyReloading() {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		s.log.Warn("reading the monotonic clock failed", "error", err)
		return
	}
	s.notify(systemd.SdNotifyReloading + fmt.Sprintf("\nMONOTONIC_USEC=%d", ts.Nano()/1000))
}

func (s *service) notify(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		s.log.Warn("telling systemd failed", "error", err)
	}
}
