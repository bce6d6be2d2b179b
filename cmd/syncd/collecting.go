package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A daemon under load makes much garbage beside little that lives, and collecting
// it takes a quarter of its processor time at Go's usual percentage (GOGC), an
// eighth at twice that. So the percentage is doubled while there is load, where
// that takes little memory; whoever sets GOGC or GOMEMLIMIT has what they set.

const (
	usualPercent = 100
	busyPercent  = 200
	// busyCycles collections or more in each of two seconds are load; a start has
	// that many in its first.
	busyCycles = 2
	// calmTime is how many seconds without any collection end it.
	calmTime = 10
	// mostLive is the live heap, in bytes, above which the percentage stays as usual:
	// as much again is what doubling it takes.
	mostLive = 64 << 20
)

// collecting decides on the percentage once a second.
type collecting struct {
	cycles uint64 // collections so far
	hot    bool   // the last second had many
	busy   bool
	calm   int // seconds without a collection
}

// second is told the collections so far and the live heap after the last one.
func (c *collecting) second(cycles, live uint64) (percent int) {
	n := cycles - c.cycles
	again := c.hot
	c.cycles, c.hot = cycles, n >= busyCycles
	c.calm++
	if n > 0 {
		c.calm = 0
	}
	switch {
	case live > mostLive || c.calm >= calmTime:
		c.busy = false
	case c.hot && again:
		c.busy = true
	}
	if c.busy {
		return busyPercent
	}
	return usualPercent
}

// collect sets the percentage until ctx ends.
func collect(ctx context.Context) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var c collecting
	percent := usualPercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		read := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(read)
		if p := c.second(read[0].Value.Uint64(), read[1].Value.Uint64()); p != percent {
			debug.SetGCPercent(p)
			percent = p
		}
	}
}
