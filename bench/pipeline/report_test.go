package main

import "testing"

func TestAMissedLimitIsFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *report)
		missed bool
	}{
		{"all is well", func(*report) {}, false},
		{"the binary is too large", func(r *report) { r.binary = maxBinary + 1<<20 }, true},
		{"memory grows with the number of events", func(r *report) { r.variants[0].full[0].peak = 2 * 60 * mib }, true},
		{"too much memory at rest", func(r *report) { r.variants[0].rests[starts-1].rss = maxRest + mib }, true},
		{"a late first request", func(r *report) {
			for i := range r.variants[0].rests {
				r.variants[0].rests[i].first = 2 * maxFirst
			}
		}, true},
		{"another build is not held to the limits", func(r *report) {
			r.variants[0].build = "other"
			r.variants[0].rests[starts-1].rss = 2 * maxRest
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &report{binary: 20 * mib, variants: []*variant{{build: "this", journal: "sqlite",
				full: []sample{{events: 100, took: 1, peak: 60 * mib}}, fifth: []sample{{events: 20, took: 1, peak: 60 * mib}},
				rests: make([]atRest, starts)}}}
			c.change(r)
			if r.Missed() != c.missed {
				t.Errorf("missed is %v, want %v: %+v", r.Missed(), c.missed, r.checks())
			}
		})
	}
}
