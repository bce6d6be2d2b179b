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

// scenarios are all that are measured. Those of one group are told in one table.
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
