package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// settler commits a lane's outcomes in groups: whatever came together while the
// last group was being committed.
type settler struct {
	lane *lane
	log  *slog.Logger

	mu      sync.Mutex
	queue   []jobs.Settlement
	ended   bool
	urgent  bool // there is an outcome in the queue that others may have to learn of
	arrived chan struct{}
}

// mostSettled bounds one group.
const mostSettled = 1000

func newSettler(l *lane) *settler {
	return &settler{lane: l, log: l.log, arrived: make(chan struct{}, 1)}
}

func (s *settler) add(ss []jobs.Settlement) {
	s.mu.Lock()
	s.queue = append(s.queue, ss...)
	s.urgent = s.urgent || slices.ContainsFunc(ss, func(o jobs.Settlement) bool { return !o.Outcome.Class.Confirmed() })
	s.mu.Unlock()
	s.signal()
}

// end makes run return once the queue is empty.
func (s *settler) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.signal()
}

func (s *settler) signal() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *settler) take() (group []jobs.Settlement, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), mostSettled)
	group = s.queue[:n:n]
	s.queue = s.queue[n:]
	s.urgent = s.urgent && len(s.queue) > 0
	return group, s.ended
}

const (
	// gatherTime is how long outcomes of single jobs wait at most for others to be
	// committed with, and enough how many of them do not.
	gatherTime = 5 * time.Millisecond
	enough     = 200
)

// gather waits a little for more successes while more are to come: with many calls
// in flight they come one by one, and a commit costs the journal as much as some
// thirty of them. Slots are free meanwhile, so no call waits for that.
func (s *settler) gather() {
	if !s.lane.single {
		return
	}
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	for {
		s.mu.Lock()
		n, now := len(s.queue), s.ended || s.urgent
		s.mu.Unlock()
		if now || n == 0 || n >= enough || n >= s.lane.underWay() {
			return
		}
		select {
		case <-s.arrived:
		case <-t.C:
			return
		}
	}
}

// run commits groups until end. An outcome that cannot be stored is tried again
// until hard ends; what is left then is found in its claim at the next start.
func (s *settler) run(hard context.Context) {
	for {
		s.gather()
		group, ended := s.take()
		switch {
		case len(group) > 0:
			s.commit(hard, group)
		case ended:
			return
		default:
			<-s.arrived
		}
	}
}

func (s *settler) commit(hard context.Context, group []jobs.Settlement) {
	defer s.lane.over(group)
	// A stop cuts writes off, and their outcomes are worth storing even then.
	ctx := context.WithoutCancel(hard)
	for n := 0; ; n++ {
		out, err := s.store(ctx, group)
		if err == nil {
			s.tell(group, out)
			return
		}
		if errors.Is(err, jobs.ErrFenced) {
			s.log.Warn("outcomes came after the client was another daemon's; they are found out about there", "jobs", len(group))
			return
		}
		s.log.Error("storing outcomes failed; tried again", "jobs", len(group), "error", err)
		if hard.Err() != nil && n > 2 {
			return
		}
		sleep(ctx, min(time.Duration(n+1)*200*time.Millisecond, 5*time.Second))
	}
}

func (s *settler) store(ctx context.Context, group []jobs.Settlement) ([]jobs.Settled, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.lane.d.journal.Settle(ctx, s.lane.client.name, group)
}

// tell reports settled jobs to observer and log. Successes are counted, not logged.
func (s *settler) tell(group []jobs.Settlement, out []jobs.Settled) {
	for i, o := range out {
		g := group[i]
		s.lane.d.opts.Observer.Settled(g.Flow, o, g.Outcome, g.Took)
		s.lane.turned(o)
		if o.Fenced {
			s.log.Warn("an outcome came after its claim was taken back; nothing was changed", "flow", o.Flow, "key", o.Key)
			continue
		}
		level, msg := told(g.Outcome, o)
		if !s.log.Enabled(context.Background(), level) {
			continue
		}
		args := []any{"flow", o.Flow, "key", o.Key, "attempt", g.Job.Number, "class", g.Outcome.Class, "state", o.State}
		if g.Outcome.Code != "" {
			args = append(args, "code", g.Outcome.Code)
		}
		if g.Outcome.Message != "" {
			args = append(args, "message", g.Outcome.Message)
		}
		if o.State == jobs.Ready {
			args = append(args, "next", o.DueAt.Format(time.RFC3339))
		}
		s.log.Log(context.Background(), level, msg, args...)
	}
}

// told says how loudly an outcome is told, and in which words.
func told(out connectors.Outcome, o jobs.Settled) (slog.Level, string) {
	switch {
	case o.State == jobs.Dead:
		return slog.LevelError, "dead letter"
	case o.State == jobs.Held:
		return slog.LevelError, "held until a person says whether it was written"
	case jobs.Interim(out):
		return slog.LevelDebug, "not settled yet" // nothing has failed
	case out.Class == connectors.Unknown:
		return slog.LevelWarn, "write in doubt"
	case out.Class == connectors.Transient, out.Class == connectors.Conflict, out.Class == connectors.Missing:
		return slog.LevelWarn, "write failed"
	case out.Class.Confirmed():
		return slog.LevelDebug, "written"
	default:
		return slog.LevelDebug, "not written yet"
	}
}
