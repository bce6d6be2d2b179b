package daemon

import (
	"cmp"
	"slices"
	"time"

	"syncd/internal/crash"
	"syncd/jobs"
)

// sharing is what decides which daemon runs which lane: everybody looks at the same
// rows and decides for itself, and a lane changes hands by giving and taking alone.
type sharing struct {
	me     jobs.Daemon
	survey jobs.Survey
	// endless: nobody else can have the journal.
	endless bool
	// held are the lanes of this daemon, with how long it has had each.
	held map[jobs.LaneID]time.Duration
	// refused are lanes that this daemon cannot run for now.
	refused map[jobs.LaneID]bool
	// idle is how long each lane has been seen free by this daemon.
	idle map[jobs.LaneID]time.Duration
}

var (
	// holdAtLeast is how long a lane is kept before it is given to another daemon for
	// the sake of an even share, so that lanes do not wander while daemons come and go.
	holdAtLeast = crash.Shorten(15 * time.Second)
	// leftOver is how long a lane is left to daemons that have less, before anybody
	// takes it.
	leftOver = crash.Shorten(3 * time.Second)
)

// offer is a lane that may be taken, with its lease as it was seen.
type offer = jobs.Lease

// decide names the lanes to take, and those to give back, at most one of which is
// given at a time.
func (s *sharing) decide() (take []offer, give []jobs.LaneID) {
	if s.me.Leaving {
		return nil, nil
	}
	others := s.others()
	var free []offer
	for _, l := range s.me.Lanes {
		if _, have := s.held[l]; have || s.refused[l] {
			continue
		}
		if was, ok := s.free(l); ok {
			free = append(free, was)
		}
	}
	// Until somebody has a lane that was given a moment ago, the shares are not known,
	// and one more would be too many.
	left := slices.Clone(free)
	room := s.fair(others) - len(s.held)
	for len(free) > 0 {
		i := s.spread(free, take)
		o := free[i]
		free = slices.Delete(free, i, i+1)
		if room > 0 || s.idle[o.LaneID] >= leftOver || !wanted(o.LaneID, others) {
			take = append(take, o)
			room--
		}
	}
	if len(take) == 0 && !slices.ContainsFunc(left, func(o offer) bool { return s.idle[o.LaneID] < leftOver }) {
		give = s.surplus(others)
	}
	return take, give
}

// spread chooses the offer to look at next: a lane of the client of which this
// daemon has the fewest, so that the shards of one client go to many daemons.
func (s *sharing) spread(free, taken []offer) (best int) {
	has := func(client string) int {
		n := s.lanesOf(client)
		for _, o := range taken {
			if o.Client == client {
				n++
			}
		}
		return n
	}
	for i := range free {
		if has(free[i].Client) < has(free[best].Client) {
			best = i
		}
	}
	return best
}

// lanesOf counts the lanes of a client that this daemon has.
func (s *sharing) lanesOf(client string) (n int) {
	for l := range s.held {
		if l.Client == client {
			n++
		}
	}
	return n
}

// free reports whether a lane may be taken, and its lease as it was seen.
func (s *sharing) free(l jobs.LaneID) (was jobs.Lease, ok bool) {
	return s.survey.Free(l, s.me, s.endless)
}

// soon reports whether a lane is about to change hands.
func (s *sharing) soon() bool {
	return len(s.idle) > 0 || slices.ContainsFunc(s.survey.Living(s.me.Process), func(m jobs.Daemon) bool {
		return m.Leaving && m.Owner != s.me.Owner
	})
}

// others are the other daemons that live and stay.
func (s *sharing) others() []jobs.Daemon {
	out := s.survey.Living(s.me.Process)
	return slices.DeleteFunc(out, func(m jobs.Daemon) bool { return m.Owner == s.me.Owner || m.Leaving })
}

// wanted reports whether one of the daemons could run the lane.
func wanted(l jobs.LaneID, by []jobs.Daemon) bool {
	return slices.ContainsFunc(by, func(m jobs.Daemon) bool { return slices.Contains(m.Lanes, l) })
}

// fair is the largest number of lanes that this daemon should have: an even part,
// rounded up, of all that it could run.
func (s *sharing) fair(others []jobs.Daemon) int {
	n := 1
	for _, m := range others {
		if slices.ContainsFunc(m.Lanes, func(l jobs.LaneID) bool { return slices.Contains(s.me.Lanes, l) }) {
			n++
		}
	}
	return (len(s.me.Lanes) + n - 1) / n
}

// surplus is the lane to give to a daemon that has fewer, by two at least: one of
// the client of which this daemon has the most, and of those the one taken last.
func (s *sharing) surplus(others []jobs.Daemon) []jobs.LaneID {
	has := map[string]int{}
	for _, l := range s.survey.Leases {
		if l.Token != "" && !l.Lapsed {
			has[l.Owner]++
		}
	}
	var best *jobs.LaneID
	for l, since := range s.held {
		poorer := func(m jobs.Daemon) bool { return slices.Contains(m.Lanes, l) && has[m.Owner]+2 <= len(s.held) }
		if since < holdAtLeast || !slices.ContainsFunc(others, poorer) {
			continue
		}
		better := best == nil || cmp.Or(cmp.Compare(s.lanesOf(best.Client), s.lanesOf(l.Client)),
			cmp.Compare(since, s.held[*best]), compareLanes(l, *best)) < 0
		if better {
			best = &l
		}
	}
	if best == nil {
		return nil
	}
	return []jobs.LaneID{*best}
}

func compareLanes(a, b jobs.LaneID) int {
	return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Shard, b.Shard))
}
