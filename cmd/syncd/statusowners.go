package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/config"
	processes "syncd/internal/process"
	"syncd/jobs"
)

// daemonStatus is one daemon that works on the journal.
type daemonStatus struct {
	Owner string    `json:"owner"`
	Host  string    `json:"host"`
	PID   int64     `json:"pid"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Lanes is how many it runs.
	Lanes int `json:"lanes"`
	// State is running, leaving, silent (its time is over) or ended (for certain).
	State string `json:"state"`
}

func (d *daemonStatus) name() string { return fmt.Sprintf("process %d on %s", d.PID, d.Host) }

// laneStatus is one lane of a client and the daemon that runs it.
type laneStatus struct {
	Shard int       `json:"shard"`
	Owner string    `json:"owner,omitempty"`
	Host  string    `json:"host,omitempty"`
	PID   int64     `json:"pid,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Lapsed: its owner has not renewed the lease in time.
	Lapsed bool `json:"lapsed,omitempty"`
	// Pace is what the daemon that runs or ran it last showed of its gate.
	Pace *paceStatus `json:"pace,omitempty"`
}

// daemons are those that have shown themselves, the oldest first.
func daemons(o jobs.Overview) []daemonStatus {
	out := []daemonStatus{}
	me := processes.This()
	for _, m := range o.Daemons {
		d := daemonStatus{Owner: m.Owner, Host: m.Process.Host, PID: m.Process.PID, Since: m.Since, Until: m.Until, State: "running"}
		for _, l := range o.Leases {
			if l.Owner == m.Owner && l.Token != "" && !l.Lapsed {
				d.Lanes++
			}
		}
		switch {
		case m.Process.Ended(me):
			d.State = "ended"
		case m.Lapsed:
			d.State = "silent"
		case m.Leaving:
			d.State = "leaving"
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b daemonStatus) int { return a.Since.Compare(b.Since) })
	return out
}

// owners tells who runs the lanes of a client.
func owners(c *config.Client, o jobs.Overview) []laneStatus {
	out := []laneStatus{}
	for shard := range max(c.Shards, 1) {
		l := laneStatus{Shard: shard, Pace: pace(&o, jobs.LaneID{Client: c.Name, Shard: shard})}
		i := slices.IndexFunc(o.Leases, func(x jobs.Lease) bool { return x.LaneID == jobs.LaneID{Client: c.Name, Shard: shard} })
		if i >= 0 && o.Leases[i].Token != "" {
			x := o.Leases[i]
			l.Owner, l.Until, l.Lapsed = x.Owner, x.Until, x.Lapsed
			if m := slices.IndexFunc(o.Daemons, func(m jobs.Daemon) bool { return m.Owner == x.Owner }); m >= 0 {
				l.Host, l.PID = o.Daemons[m].Process.Host, o.Daemons[m].Process.PID
			}
		}
		out = append(out, l)
	}
	return out
}

// owner names the daemons that run the client, for people.
func (c *clientStatus) owner() string {
	var names []string
	for _, l := range c.Owners {
		name := ""
		switch {
		case l.Owner == "":
			continue
		case l.PID == 0:
			name = "daemon " + l.Owner
		default:
			name = fmt.Sprintf("%d on %s", l.PID, l.Host)
		}
		if l.Lapsed {
			name += " (silent)"
		}
		if len(c.Owners) > 1 {
			name = fmt.Sprintf("#%d %s", l.Shard, name)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
