// Command quota measures, on real HTTP servers on the loopback, what part of a server's quota is used and how many calls are refused for it.
//
//	go run ./bench/quota [--full] [--json] [--only text]
//	go run ./bench/quota --only daemons
//
// Each server has a quota of one sort: a token bucket of 400 that fills at 200 a second; a window of 400 calls in each 2 s; or a bucket of 2,000
// points that fills at 1,000 a second, of which calls take 1, 5 or 9 and which tells of them in the body of its answers as Shopify's GraphQL API
// does: at first it takes twice what a call costs and gives half of it back. It answers after 20 ms, and refuses at once. Sixteen workers call it
// through package httpx with a gate of package ratelimit as often as the gate lets them. Where others share the quota, another program takes a
// quarter of it, steadily and unannounced.
//
// What is used is the part, of what the server could have let through less what the others got, that our calls took between two moments in the
// steady state. Both moments are at the same phase of the window, and the server itself keeps the counts as of them; of a bucket, what lay in it
// at the first moment and was spent by the second counts as allowed, too. Refusals are told per 1,000 calls in that time. The steady state begins
// after a warm-up; what was refused in that is told apart.
//
// In the middle of the time that is measured the client may be replaced: in a restart it is thrown away with its calls under way, and one with a fresh gate
// goes on at once; in a takeover it ends its calls first, as a daemon that hands a lease over. Beside another one, two clients of 8 workers that do not
// know of each other share the server for the whole time. Where the quota changes, the server halves or doubles it in the middle of a window, and measuring
// begins at the first moment of that phase when one window has passed; refusals before that are those of the warm-up.
//
// Without --full all scenarios go side by side at three quarters of the rates, for 42 s. With it, a third of them at a time go at full rates for 70 s, three times:
// medians are told, and the worst. Each report says how much of the processors the benchmark took, and how late its own timers were: when 99 % of them are not
// within 10 ms the machine is too busy for the figures to mean anything.
//
// The scenarios named daemons have real ones: the binary, built here, writes orders of a file with a PUT each through connector rest, with 16 calls at a time and a
// journal in a PostgreSQL server that is started here. They are played with --full, or with --only daemons, at full rates and once. There is one daemon, or two that share
// four clients; or the daemon that has the client ends in the middle of a window: killed and started again at once; killed, so that a second one takes over; frozen (SIGSTOP), so that
// nobody can tell that it will never go on, and the second one takes over when the lease has lapsed; or told to end (SIGTERM). Refusals are counted from just before that on, and what is used
// from the first call of the next daemon on, in a window from the next one on. No call comes for as long as is told, and 31 s at most: a lease and a second.
//
// It ends with code 1 when a figure is missed, and with 2 when the command line is wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"syncd/bench/internal/lab"
)

func main() { program.Main() }

var program = lab.Program[settings]{Name: "quota", Declare: declare, Check: (*settings).check, Measure: measured}

// settings are what the command line asks for, and what follows from it.
type settings struct {
	full bool
	only string
	timing
	daemons timing // of the scenarios with daemons
}

// timing is how long scenarios last, and how fast their servers are.
type timing struct {
	scale     float64       // of the rates and limits
	length    time.Duration // of a window, and in how long an empty bucket is full
	warm      time.Duration // windows fit in both
	lasts     time.Duration
	rounds    int
	atOneTime int
}

func (t timing) String() string {
	return fmt.Sprintf("warm-up %s, measured for %s, %d rounds; rates times %g", t.warm, t.lasts, t.rounds, t.scale)
}

var (
	short   = timing{scale: 0.75, length: 2 * time.Second, warm: 22 * time.Second, lasts: 20 * time.Second, rounds: 1, atOneTime: 100}
	full    = timing{scale: 1, length: 2 * time.Second, warm: 30 * time.Second, lasts: 40 * time.Second, rounds: 3, atOneTime: 16}
	working = timing{scale: 1, length: 2 * time.Second, warm: 26 * time.Second, lasts: 40 * time.Second, rounds: 1}
	trial   = timing{scale: 0.25, length: 500 * time.Millisecond, warm: time.Second, lasts: 1500 * time.Millisecond, rounds: 1, atOneTime: 100}
)

func declare(f *flag.FlagSet, s *settings) {
	f.BoolVar(&s.full, "full", false, "full rates, longer, three times, and with daemons; some 19 minutes")
	f.StringVar(&s.only, "only", "", "only scenarios whose name contains this `text`")
}

func (s *settings) check() error {
	s.timing, s.daemons = short, working
	if s.full {
		s.timing = full
	}
	if len(s.chosen()) == 0 {
		return fmt.Errorf("--only %s: no scenario is called so", s.only)
	}
	return nil
}

// chosen are the scenarios that are played.
func (s settings) chosen() (out []scenario) {
	all := scenarios()
	if s.full || strings.Contains(s.only, fleets) {
		all = append(all, daemonScenarios()...)
	}
	for _, sc := range all {
		if strings.Contains(sc.String(), s.only) {
			out = append(out, sc)
		}
	}
	return out
}

// measured is what was measured; nothing when something failed.
func measured(ctx context.Context, s settings, progress io.Writer) (lab.Report, error) {
	r, err := s.measure(ctx, progress)
	if err != nil {
		return nil, err
	}
	return r, nil
}
