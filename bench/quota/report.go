package main

import (
	"fmt"
	"io"
	"strings"

	"syncd/bench/internal/lab"
)

// report is everything that was measured.
type report struct {
	settings
	scenarios  []scenario
	samples    [][]sample // by scenario and round
	processors int
	busy       float64 // processors that the benchmark used
	late       float64 // within how many milliseconds 99 % of the timers ended
}

// figures are those of one scenario: medians of the rounds, and the worst.
type figures struct {
	Group     string  `json:"group"`
	Server    string  `json:"server"`
	Scenario  string  `json:"scenario"`
	Shared    bool    `json:"shared"`
	Used      float64 `json:"used_percent"`
	LeastUsed float64 `json:"least_used_percent"`
	Refused   float64 `json:"refused_per_1000"`
	Most      float64 `json:"most_refused_per_1000"`
	Calls     float64 `json:"calls"`
	Warm      float64 `json:"refused_in_warm_up"`
	WarmCalls float64 `json:"calls_in_warm_up"`
	Denied    float64 `json:"others_refused"`
	Silent    float64 `json:"silent_seconds,omitempty"`
	Missed    bool    `json:"missed"`
}

func (r *report) figures() (out []figures) {
	for i, sc := range r.scenarios {
		of := func(value func(sample) float64) (xs []float64) {
			for _, s := range r.samples[i] {
				xs = append(xs, value(s))
			}
			return xs
		}
		used := of(func(s sample) float64 { return 100 * s.used() })
		refused := of(func(s sample) float64 { return perThousand(s.steady) })
		f := figures{Group: sc.group, Server: sc.sort.String(), Scenario: string(sc.cast), Shared: sc.foreign > 0,
			Used: lab.Median(used), LeastUsed: lab.Quantile(used, 0), Refused: lab.Median(refused), Most: lab.Quantile(refused, 1),
			Calls:     lab.Median(of(func(s sample) float64 { return float64(s.steady.Calls) })),
			Warm:      lab.Median(of(func(s sample) float64 { return float64(s.warm.Refused) })),
			WarmCalls: lab.Median(of(func(s sample) float64 { return float64(s.warm.Calls) })),
			Denied:    lab.Median(of(func(s sample) float64 { return float64(s.steady.Denied) })),
			Silent:    lab.Median(of(func(s sample) float64 { return s.silent.Seconds() }))}
		f.Missed = lab.Missed(f.checks(sc))
		out = append(out, f)
	}
	return out
}

// checks are the figures that are wanted of a scenario.
func (f figures) checks(sc scenario) []lab.Check {
	cs := []lab.Check{lab.AtLeast(sc.String()+": used", f.Used, 100*sc.used, "%"), lab.AtMost(sc.String()+": refused", f.Refused, sc.refused, "of 1,000")}
	if sc.cast.event() {
		cs = append(cs, lab.AtMost(sc.String()+": without a call", f.Silent, leaseAndASecond.Seconds(), "s"))
	}
	return cs
}

// checks are the figures that are wanted, by scenario: medians where there are several rounds.
func (r *report) checks() (out []lab.Check) {
	for i, f := range r.figures() {
		out = append(out, f.checks(r.scenarios[i])...)
	}
	return out
}

// WriteText writes a table for each group, and then what is missed.
func (r *report) WriteText(out io.Writer) error {
	group := ""
	t := lab.NewTable(out)
	for i, f := range r.figures() {
		if f.Group != group {
			if err := t.Flush(); err != nil {
				return err
			}
			if group = f.Group; i > 0 {
				fmt.Fprintln(out)
			}
			sc := r.scenarios[i]
			fmt.Fprintf(out, "%s: at least %g %% used and at most %g of 1,000 refused\n", group, 100*sc.used, sc.refused)
			silent := ""
			if group == fleets {
				silent = "without a call"
			}
			fmt.Fprintln(t, strings.Join([]string{"server", "client", "others", "used %", "least", "refused of 1,000", "most", "calls", "in warm-up refused", "of calls", "others refused", silent, "", ""}, "\t"))
		}
		state := "held"
		if f.Missed {
			state = "MISSED"
		}
		silent := ""
		if r.scenarios[i].cast.event() {
			silent = fmt.Sprintf("%.2f s", f.Silent)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n", f.Server, f.Scenario, r.scenarios[i].others(),
			f.Used, f.LeastUsed, f.Refused, f.Most, f.Calls, f.Warm, f.WarmCalls, f.Denied, silent, state)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if r.scenarios[0].group != fleets {
		fmt.Fprintln(out, "without daemons:", r.timing)
	}
	if group == fleets {
		fmt.Fprintln(out, "with daemons:", r.daemons)
	}
	_, err := fmt.Fprintf(out, "the benchmark itself used %.2f of %d processors, 99 %% of its timers were at most %.1f ms late\n", r.busy, r.processors, r.late)
	return err
}

// JSON is what was measured, and what was wanted.
func (r *report) JSON() any {
	return map[string]any{"figures": r.figures(), "goals": r.checks(), "machine": map[string]float64{
		"processors": float64(r.processors), "processors_used": r.busy, "timers_late_ms": r.late}}
}

// Missed reports whether a figure is missed.
func (r *report) Missed() bool { return lab.Missed(r.checks()) }
