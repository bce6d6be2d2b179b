package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// The limits that are held.
const (
	maxBinary = 35 << 20
	maxRest   = 40 << 20
	maxFirst  = 300 * time.Millisecond
	// maxGrowth is how much more memory five times as many events may take at the
	// peak. It leaves room for the page caches of SQLite, which a fifth may not fill.
	maxGrowth = 1.5
)

// report is everything that was measured.
type report struct {
	settings settings
	binary   int64 // bytes
	variants []*variant
}

// figures are the medians of a variant.
type figures struct {
	Build       string  `json:"build"`
	Journal     string  `json:"journal"`
	Events      int     `json:"events"`
	PerSecond   float64 `json:"events_per_second"`
	Slowest     float64 `json:"events_per_second_min"`
	Fastest     float64 `json:"events_per_second_max"`
	CPU         float64 `json:"cpu_us_per_event"`
	DatabaseCPU float64 `json:"database_cpu_us_per_event"`
	Peak        float64 `json:"peak_rss_mib"`
	PeakFifth   float64 `json:"peak_rss_mib_fifth_of_events"`
	First       float64 `json:"start_to_first_request_ms,omitempty"`
	Rest        float64 `json:"rest_rss_mib,omitempty"`
	RestCPU     float64 `json:"rest_cpu_percent,omitempty"`
}

const mib = 1 << 20

func (v *variant) figures() figures {
	each := func(ss []sample, f func(sample) float64) []float64 {
		out := make([]float64, len(ss))
		for i, s := range ss {
			out[i] = f(s)
		}
		return out
	}
	rates := each(v.full, func(s sample) float64 { return float64(s.events) / s.took.Seconds() })
	peak := func(s sample) float64 { return float64(s.peak) / mib }
	f := figures{Build: v.build, Journal: v.journal, Events: v.full[0].events,
		PerSecond: median(rates), Slowest: slices.Min(rates), Fastest: slices.Max(rates),
		CPU:         median(each(v.full, func(s sample) float64 { return float64(s.cpu.Microseconds()) / float64(s.events) })),
		DatabaseCPU: median(each(v.full, func(s sample) float64 { return float64(s.database.Microseconds()) / float64(s.events) })),
		Peak:        median(each(v.full, peak)), PeakFifth: median(each(v.fifth, peak))}
	var firsts, rests, cpus []float64
	for i, r := range v.rests {
		firsts = append(firsts, float64(r.first.Microseconds())/1000)
		if i%starts == starts-1 {
			rests = append(rests, float64(r.rss)/mib)
			cpus = append(cpus, 100*r.cpu.Seconds()/restTime.Seconds())
		}
	}
	if len(v.rests) > 0 {
		f.First, f.Rest, f.RestCPU = median(firsts), median(rests), median(cpus)
	}
	return f
}

// median of some values; of an even number the lower one in the middle, so that it is one that was measured.
func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[(len(xs)-1)/2]
}

// check is a limit and what was measured.
type check struct {
	What   string  `json:"what"`
	Limit  float64 `json:"limit"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Missed bool    `json:"missed"`
}

func (r *report) checks() []check {
	cs := []check{{What: "size of the binary", Limit: maxBinary / mib, Value: float64(r.binary) / mib, Unit: "MiB"}}
	for _, v := range r.variants {
		if v.build != "this" {
			continue
		}
		f := v.figures()
		cs = append(cs, check{What: v.journal + ": peak memory of all events over that of a fifth", Limit: maxGrowth, Value: f.Peak / f.PeakFifth, Unit: "times"})
		if len(v.rests) > 0 {
			cs = append(cs, check{What: v.journal + ": start to first request", Limit: float64(maxFirst.Milliseconds()), Value: f.First, Unit: "ms"},
				check{What: v.journal + ": memory at rest", Limit: maxRest / mib, Value: f.Rest, Unit: "MiB"})
		}
	}
	for i := range cs {
		cs[i].Missed = cs[i].Value > cs[i].Limit
	}
	return cs
}

func (r *report) missed() bool {
	return slices.ContainsFunc(r.checks(), func(c check) bool { return c.Missed })
}

func (r *report) writeJSON(out io.Writer) error {
	var fs []figures
	for _, v := range r.variants {
		fs = append(fs, v.figures())
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"rounds": r.settings.rounds, "size": r.settings.size, "figures": fs, "limits": r.checks()})
}

func (r *report) writeText(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "build\tjournal\tevents/s\tmin–max\tsyncd µs/event\tdatabase µs/event\tpeak MiB\tof a fifth\tfirst request ms\tat rest MiB\tat rest CPU %%\t\n")
	for _, v := range r.variants {
		f := v.figures()
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f–%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t\n", f.Build, f.Journal, f.PerSecond, f.Slowest, f.Fastest,
			f.CPU, f.DatabaseCPU, f.Peak, f.PeakFifth, f.First, f.Rest, f.RestCPU)
	}
	fmt.Fprintf(t, "\n")
	for _, c := range r.checks() {
		state := "held"
		if c.Missed {
			state = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.2f\tof %.2f %s\t%s\t\n", c.What, c.Value, c.Limit, c.Unit, state)
	}
	return t.Flush()
}
