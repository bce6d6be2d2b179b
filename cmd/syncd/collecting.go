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
	// lookTime is how often is looked whether something was collected.
	lookTime = 250 * time.Millisecond
	// busyLooks in a row that each found a collection are load; a start has fewer.
	busyLooks = 3
	// calmLooks in a row that found none end it.
	calmLooks = 12
	// mostLive is the live heap, in bytes, above which the percentage stays as usual:
	// as much again is what doubling it takes.
	mostLive = 64 << 20
)

// collecting decides on the percentage.
type collecting struct {
	cycles    uint64 // collections so far
	hot, calm int    // looks in a row that found a collection, and that found none
	busy      bool
}

// look is told the collections so far and the live heap after the last one.
func (c *collecting) look(cycles, live uint64) (percent int) {
	if cycles != c.cycles {
		c.hot, c.calm = c.hot+1, 0
	} else {
		c.hot, c.calm = 0, c.calm+1
	}
	c.cycles = cycles
	switch {
	case live > mostLive || c.calm >= calmLooks:
		c.busy = false
	case c.hot >= busyLooks:
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
	tick := time.NewTicker(lookTime)
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
		if p := c.look(read[0].Value.Uint64(), read[1].Value.Uint64()); p != percent {
			debug.SetGCPercent(p)
			if percent = p; p == usualPercent {
				debug.FreeOSMemory() // nothing else would collect what the load has left
			}
		}
	}
}
