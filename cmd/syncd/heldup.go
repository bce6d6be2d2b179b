package main

import (
	"context"
	"fmt"
	"time"

	"syncd/jobs"
)

// heldUp is a group of a flow with order: every in which nothing is written before a
// person acts.
type heldUp struct {
	Group string    `json:"group"`
	Job   string    `json:"job"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// mostHeldUp bounds the groups of a flow that status names.
const mostHeldUp = 10

// heldUp looks for groups that are held up, in flows in which any job stands behind another.
func (s *statusJSON) heldUp(ctx context.Context, j *jobs.Journal, flows map[string]*jobs.Flow) error {
	for i := range s.Flows {
		f := &s.Flows[i]
		jf := flows[f.Flow]
		if jf == nil || !jf.Every() || f.Dead == 0 || f.Open == 0 {
			continue
		}
		hs, err := j.HeldUp(ctx, jf)
		if err != nil {
			return err
		}
		f.GroupsHeldUp = len(hs)
		for _, h := range hs[:min(len(hs), mostHeldUp)] {
			f.HeldUp = append(f.HeldUp, heldUp{Group: h.Group, Job: h.Head.RowID.String(), State: string(h.Head.State), Since: h.Head.LastAt})
		}
	}
	return nil
}

// heldUpLines says which groups of the flow are held up, a line each.
func (f *flowStatus) heldUpLines() (lines []string) {
	for _, h := range f.HeldUp {
		do := "replay or discard it"
		if h.State == string(jobs.Held) {
			do = "find out what became of it, and say so with syncd resolve"
		}
		lines = append(lines, fmt.Sprintf("held up: group %s of flow %s waits for %s, which is %s since %s; %s", h.Group, f.Flow, h.Job, h.State, h.Since.Format(time.RFC3339), do))
	}
	if n := f.GroupsHeldUp - len(f.HeldUp); n > 0 {
		lines = append(lines, fmt.Sprintf("held up: %d more groups of flow %s", n, f.Flow))
	}
	return lines
}
