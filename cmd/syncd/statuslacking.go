package main

import (
	"fmt"
	"slices"

	"syncd/config"
	"syncd/jobs"
)

// lacking tells of flows that are to run and have jobs which wait because the daemon that
// writes to their client does not have the flow. Where none writes to it now, the next
// one may have it.
func (s *statusJSON) lacking(c *config.Config) {
	for _, f := range s.Flows {
		n := f.OpenBy[string(jobs.ReasonNoFlow)]
		if n == 0 || !f.Configured || f.Disabled {
			continue
		}
		client := c.Flows[f.Flow].To.Client
		i := slices.IndexFunc(s.Clients, func(cs clientStatus) bool { return cs.Client == client })
		if i < 0 || !slices.ContainsFunc(s.Clients[i].Owners, func(l laneStatus) bool { return l.Owner != "" && !l.Lapsed }) {
			continue
		}
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d jobs of flow %s wait: the daemon that writes to client %s (%s) does not have the flow; "+
			"reload it with this configuration, and they go on at once", n, f.Flow, client, s.Clients[i].owner()))
	}
}
