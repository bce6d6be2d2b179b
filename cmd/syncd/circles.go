package main

import (
	"context"

	"syncd/jobs"
)

// mostCircles bounds the circles that status shows.
const mostCircles = 10

// circles looks for records that wait for each other, where any wait.
func (s *statusJSON) circles(ctx context.Context, j *jobs.Journal, flows map[string]*jobs.Flow) error {
	waiting := false
	for _, f := range s.Flows {
		waiting = waiting || f.OpenBy[string(jobs.ReasonWaiting)] > 0
	}
	if !waiting {
		return nil
	}
	cs, err := j.Circles(ctx, flows)
	for _, c := range cs[:min(len(cs), mostCircles)] {
		var names []string
		for _, id := range c {
			names = append(names, id.String())
		}
		s.Circles = append(s.Circles, names)
	}
	return err
}
