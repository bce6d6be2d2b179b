package main

import (
	"fmt"
	"time"

	"syncd/internal/quota"
)

// casting is who calls the server.
type casting string

const (
	alone    casting = "alone"
	restart  casting = "restart"
	takeover casting = "takeover"
	beside   casting = "two clients"
	halved   casting = "halved"
	doubled  casting = "doubled"
)

// Those with daemons.
const (
	single    casting = "one daemon"
	pair      casting = "two daemons"
	restarted casting = "killed, restarted"
	taken     casting = "killed, taken over"
	lapsed    casting = "frozen, taken over"
	handed    casting = "handed over"
)

// daemons is how many there are at first.
func (c casting) daemons() int {
	switch c {
	case single, restarted:
		return 1
	}
	return 2
}

// event reports whether a daemon is replaced by another one.
func (c casting) event() bool {
	switch c {
	case restarted, taken, lapsed, handed:
		return true
	}
	return false
}

// scenario is a server and who calls it.
type scenario struct {
	group   string
	sort    quota.Sort
	telling quota.Telling
	cast    casting
	foreign float64 // part of the quota that others take
	used    float64 // at least, of 1
	refused float64 // of 1,000 calls, at most
}

func (s scenario) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", s.group, s.sort, s.cast, s.others())
}

func (s scenario) others() string {
	if s.foreign > 0 {
		return "shared"
	}
	return "unshared"
}

// change is by what the quota is multiplied in the middle; 0 for not at all.
func (s scenario) change() float64 {
	switch s.cast {
	case halved:
		return 0.5
	case doubled:
		return 2
	}
	return 0
}

// quarter is what others take where they share the quota.
const quarter = 0.25

// fleets is the group of scenarios with daemons.
const fleets = "daemons"

// daemonScenarios are those in which daemons call servers that tell their quota in headers. Those of one cast stand together.
func daemonScenarios() (out []scenario) {
	for _, cast := range []casting{single, pair, restarted, taken, lapsed, handed} {
		for _, sort := range []quota.Sort{quota.Bucket, quota.Window} {
			for _, foreign := range []float64{0, quarter} {
				out = append(out, scenario{fleets, sort, quota.Headers, cast, foreign, 0.99, 0})
			}
		}
	}
	return out
}

// scenarios are all that are measured without daemons. Those of one group are told in one table.
func scenarios() (out []scenario) {
	for _, g := range []struct {
		group         string
		telling       quota.Telling
		casts         []casting
		used, refused float64
	}{
		{"quota told", quota.Headers, []casting{alone, restart, takeover, beside}, 0.99, 0},
		{"429 and Retry-After", quota.RetryAfter, []casting{alone}, 0.95, 4},
		{"429 alone", quota.Nothing, []casting{alone}, 0.85, 6},
		{"quota told and changed", quota.Headers, []casting{halved, doubled}, 0.95, 0},
	} {
		for _, cast := range g.casts {
			for _, sort := range []quota.Sort{quota.Bucket, quota.Window, quota.Cost} {
				for _, foreign := range []float64{0, quarter} {
					out = append(out, scenario{g.group, sort, g.telling, cast, foreign, g.used, g.refused})
				}
			}
		}
	}
	return out
}

const (
	// latency is how long a server works on a call.
	latency = 20 * time.Millisecond
	workers = 16
	// costly is how many points a call of the server with costs takes on average.
	costly = 5
)

// size is the limit of a server and what comes back in a second.
func (s scenario) size(t timing) (limit, rate float64) {
	rate = 200 * t.scale
	if s.sort == quota.Cost {
		rate *= costly
	}
	return rate * t.length.Seconds(), rate
}
