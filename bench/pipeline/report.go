package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"syncd/bench/internal/lab"
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
	Target      string  `json:"target"`
	Events      int     `json:"events"`
	PerSecond   float64 `json:"events_per_second"`
	Slowest     float64 `json:"events_per_second_min"`
	Fastest     float64 `json:"events_per_second_max"`
	CPU         float64 `json:"cpu_us_per_event"`
	DatabaseCPU float64 `json:"database_cpu_us_per_event"`
	ServerCPU   float64 `json:"http_server_cpu_us_per_event"`
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
	f := figures{Build: v.build, Journal: v.journal, Target: v.target, Events: v.full[0].events,
		PerSecond: lab.Median(rates), Slowest: slices.Min(rates), Fastest: slices.Max(rates),
		CPU:         lab.Median(each(v.full, func(s sample) float64 { return float64(s.cpu.Microseconds()) / float64(s.events) })),
		DatabaseCPU: lab.Median(each(v.full, func(s sample) float64 { return float64(s.database.Microseconds()) / float64(s.events) })),
		ServerCPU:   lab.Median(each(v.full, func(s sample) float64 { return float64(s.server.Microseconds()) / float64(s.events) })),
		Peak:        lab.Median(each(v.full, peak)), PeakFifth: lab.Median(each(v.fifth, peak))}
	var firsts, rests, cpus []float64
	for i, r := range v.rests {
		firsts = append(firsts, float64(r.first.Microseconds())/1000)
		if i%starts == starts-1 {
			rests = append(rests, float64(r.rss)/mib)
			cpus = append(cpus, 100*r.cpu.Seconds()/restTime.Seconds())
		}
	}
	if len(v.rests) > 0 {
		f.First, f.Rest, f.RestCPU = lab.Median(firsts), lab.Median(rests), lab.Median(cpus)
	}
	return f
}

func (r *report) checks() []lab.Check {
	cs := []lab.Check{lab.AtMost("size of the binary", float64(r.binary)/mib, maxBinary/mib, "MiB")}
	for _, v := range r.variants {
		if v.build != "this" {
			continue
		}
		f := v.figures()
		cs = append(cs, lab.AtMost(v.journal+" to "+v.target+": peak memory of all events over that of a fifth", f.Peak/f.PeakFifth, maxGrowth, "times"))
		if len(v.rests) > 0 {
			cs = append(cs, lab.AtMost(v.journal+": start to first request", f.First, float64(maxFirst.Milliseconds()), "ms"),
				lab.AtMost(v.journal+": memory at rest", f.Rest, maxRest/mib, "MiB"))
		}
	}
	return cs
}

// Missed reports whether a limit is missed.
func (r *report) Missed() bool { return lab.Missed(r.checks()) }

// JSON is what was measured, and what was wanted.
func (r *report) JSON() any {
	var fs []figures
	for _, v := range r.variants {
		fs = append(fs, v.figures())
	}
	return map[string]any{"rounds": r.settings.rounds, "size": r.settings.size, "figures": fs, "limits": r.checks()}
}

// WriteText writes a table, and then what is held and missed.
func (r *report) WriteText(out io.Writer) error {
	t := lab.NewTable(out)
	fmt.Fprintf(t, "build\tjournal\ttarget\tevents/s\tmin–max\tsyncd µs/event\tdatabase µs/event\tHTTP server µs/event\tpeak MiB\tof a fifth\tfirst request ms\tat rest MiB\tat rest CPU %%\t\n")
	for _, v := range r.variants {
		f := v.figures()
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f–%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t\n", f.Build, f.Journal, f.Target, f.PerSecond, f.Slowest, f.Fastest,
			f.CPU, f.DatabaseCPU, f.ServerCPU, f.Peak, f.PeakFifth, f.First, f.Rest, f.RestCPU)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return lab.WriteChecks(out, r.checks())
}
