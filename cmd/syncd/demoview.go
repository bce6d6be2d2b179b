package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
	"syncd/ratelimit"
)

// view shows a demo as it goes: a line a second, and the remarkable between.
type view struct {
	daemon.Silent
	out     io.Writer // nil with --json
	journal *jobs.Journal
	begun   time.Time
	events  atomic.Int64
	// moved counts what changed: outcomes, and records that were new or changed.
	moved atomic.Int64

	mu       sync.Mutex
	classes  map[connectors.Class]int
	shown    time.Time // when the last line was printed
	said     int       // remarks since then
	unsaid   int
	replaced int
	paused   map[string]ratelimit.Pause
	since    time.Time      // polls that began later are counted
	polls    map[string]int // by flow, since then
}

func newView(a *app, j *jobs.Journal, begun time.Time) *view {
	v := &view{journal: j, begun: begun, classes: map[connectors.Class]int{}, paused: map[string]ratelimit.Pause{}, polls: map[string]int{}}
	if !a.json {
		v.out = a.out
	}
	return v
}

// mostSaid is how many remarks there are between two lines.
const mostSaid = 3

func (v *view) clock() string { return fmt.Sprintf("%5.1fs", time.Since(v.begun).Seconds()) }

// say prints a remark.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.print(format, args...)
}

func (v *view) print(format string, args ...any) {
	if v.out != nil {
		fmt.Fprintf(v.out, "%s  %s\n", v.clock(), clean(fmt.Sprintf(format, args...)))
	}
}

// remark prints at most a few remarks a second and counts the others. v must be locked.
func (v *view) remark(format string, args ...any) {
	if v.said++; v.said > mostSaid {
		v.unsaid++
		return
	}
	v.print("    "+format, args...)
}

func (v *view) Pulled(f *jobs.Flow, events int, took time.Duration, err error) {
	v.events.Add(int64(events))
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil && time.Now().Add(-took).After(v.since) {
		v.polls[f.Name]++
	}
}

// look begins to count polls anew.
func (v *view) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since, v.polls = time.Now(), map[string]int{}
}

// looked is how often each of so many flows has been polled at least since look.
func (v *view) looked(flows int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.polls) < flows {
		return 0
	}
	least := math.MaxInt
	for _, n := range v.polls {
		least = min(least, n)
	}
	return least
}

func (v *view) Admitted(_ *jobs.Flow, a jobs.Admitted) {
	v.moved.Add(int64(a.New + a.Changed + a.Gone + a.Rejected + a.Collided))
}

func (v *view) Claimed(_ string, _, refreshed, _ int) {
	if refreshed == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.replaced += refreshed
	v.remark("superseded: %d orders had waited longer than max_age and are read again before they are sent", refreshed)
}

func (v *view) Settled(f *jobs.Flow, s jobs.Settled, o connectors.Outcome, _ time.Duration) {
	v.moved.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.classes[o.Class]++
	switch o.Class {
	case connectors.Unknown:
		v.remark("in doubt:   %s (%s); found out about before anything is sent again", s.RowID, o.Code)
	case connectors.AlreadyApplied:
		v.remark("found:      %s had arrived; it is not sent twice", s.RowID)
	case connectors.Transient:
		if !jobs.Interim(o) {
			v.remark("retried:    %s (%s), next %s", s.RowID, o.Code, s.DueAt.Format("15:04:05.0"))
		}
	case connectors.Invalid, connectors.Frozen:
		v.remark("dead:       %s (%s) %s", s.RowID, o.Code, o.Message)
	}
}

func (v *view) Paused(client string, p ratelimit.Pause) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.paused[client].Since.Equal(p.Since) || p.Reason == "" {
		v.paused[client] = p
		return
	}
	v.paused[client] = p
	v.remark("paused:     all of client %s until %s (%s)", client, p.Until.Format("15:04:05"), p.Evidence)
}

func (v *view) Breaker(client, state, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remark("breaker:    client %s is %s: %s", client, state, why)
}

// line prints where things stand, once a second or when forced.
func (v *view) line(force bool) {
	v.mu.Lock()
	due := force || time.Since(v.shown) >= time.Second
	if due {
		v.shown = time.Now()
	}
	v.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	o, err := v.journal.Overview(ctx)
	if err != nil {
		return
	}
	var open, doubt, waiting, done int64
	for _, c := range o.Counts {
		doubt += c.Unresolved
		switch {
		case c.State == jobs.Done:
			done += c.N
		case c.Reason == jobs.ReasonWaiting:
			waiting += c.N
			open += c.N
		default:
			open += c.N
		}
	}
	gates := ""
	for _, c := range o.Clients {
		if d := c.PausedUntil.Sub(o.At); d > 0 {
			gates += fmt.Sprintf("  %s paused for %.1fs", c.Client, d.Seconds())
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	more := ""
	if v.unsaid > 0 {
		more = fmt.Sprintf("  (and %d more remarks)", v.unsaid)
	}
	v.said, v.unsaid = 0, 0
	v.print("read %-5d in step %-4d open %-3d waiting %-3d in doubt %-2d superseded %-3d%s%s", v.events.Load(), done, open, waiting, doubt, v.replaced, gates, more)
}

func (v *view) outcomes() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make(map[string]int, len(v.classes))
	for c, n := range v.classes {
		out[string(c)] = n
	}
	return out
}

func (o *demoJSON) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	list := func(title string, m map[string]int) {
		fmt.Fprintf(tw, "\n%s\n", title)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(tw, "  %s\t%d\n", k, m[k])
		}
	}
	list("what the shop did to its reader", o.Shop)
	list("what the ERP did to its writer", o.ERP)
	list("what syncd made of it: attempts by outcome", o.Outcomes)
	_ = tw.Flush()
	fmt.Fprintf(w, `
audit, read from the ERP
  expected   %d
  found      %d
  doubled    %d
  lost       %d
  stale      %d
  writes of an older state over a newer one: %d
`, o.Audit.Expected, o.Audit.Found, o.Audit.Doubled, o.Audit.Lost, o.Audit.Stale+o.Audit.Foreign, o.Audit.WentBack)
	for _, e := range o.Audit.Examples {
		fmt.Fprintln(w, "  ", e)
	}
	if o.StillOpen > 0 {
		fmt.Fprintf(w, "  %d jobs were still open when the demo ended\n", o.StillOpen)
	}
	if o.OK {
		fmt.Fprintln(w, "\nevery record is in the ERP once, in its newest state")
	}
}
