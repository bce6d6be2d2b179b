package main

import (
	"fmt"
	"io"

	"syncd/bench/internal/lab"
)

// value is one figure with its name and unit.
type value struct {
	name  string
	value float64
}

// line is what was measured of one variant of a section.
type line struct {
	section, variant string
	values           []value
}

// report is everything that was measured.
type report struct {
	lines  []line
	checks []lab.Check
}

// add notes the figures of a variant. Those of one section have the same names.
func (r *report) add(section, variant string, vs ...value) {
	r.lines = append(r.lines, line{section, variant, vs})
}

func (r *report) goal(c lab.Check) { r.checks = append(r.checks, c) }

// WriteText writes a table for each section, and then what is held and missed.
func (r *report) WriteText(out io.Writer) error {
	t := lab.NewTable(out)
	last := ""
	for _, l := range r.lines {
		if l.section != last {
			if err := t.Flush(); err != nil {
				return err
			}
			if last != "" {
				fmt.Fprintln(out)
			}
			fmt.Fprintf(t, "%s\t", l.section)
			for _, v := range l.values {
				fmt.Fprintf(t, "%s\t", v.name)
			}
			fmt.Fprintln(t)
			last = l.section
		}
		fmt.Fprintf(t, "%s\t", l.variant)
		for _, v := range l.values {
			fmt.Fprintf(t, "%s\t", number(v.value))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return lab.WriteChecks(out, r.checks)
}

// number shows as many digits as can be relied on.
func number(x float64) string {
	switch {
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// JSON is what was measured, and what was wanted.
func (r *report) JSON() any {
	type figures struct {
		Section string             `json:"section"`
		Variant string             `json:"variant"`
		Values  map[string]float64 `json:"values"`
	}
	fs := []figures{}
	for _, l := range r.lines {
		vs := map[string]float64{}
		for _, v := range l.values {
			vs[v.name] = v.value
		}
		fs = append(fs, figures{l.section, l.variant, vs})
	}
	return map[string]any{"figures": fs, "goals": r.checks}
}
