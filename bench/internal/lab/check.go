package lab

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Check is a limit and what was measured.
type Check struct {
	What  string  `json:"what"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Least says that the limit is the least value wanted, and not the greatest.
	Least  bool `json:"least,omitempty"`
	Missed bool `json:"missed"`
}

// AtMost is a check of what must not be greater than its limit.
func AtMost(what string, value, limit float64, unit string) Check {
	return Check{What: what, Limit: limit, Value: value, Unit: unit, Missed: !(value <= limit)}
}

// AtLeast is a check of what must not be less than its limit.
func AtLeast(what string, value, limit float64, unit string) Check {
	return Check{What: what, Limit: limit, Value: value, Unit: unit, Least: true, Missed: !(value >= limit)}
}

// Missed reports whether any of the checks is missed.
func Missed(cs []Check) bool {
	return slices.ContainsFunc(cs, func(c Check) bool { return c.Missed })
}

// WriteChecks writes a line for each check.
func WriteChecks(out io.Writer, cs []Check) error {
	t := NewTable(out)
	for _, c := range cs {
		state, most := "held", "at most"
		if c.Missed {
			state = "MISSED"
		}
		if c.Least {
			most = "at least"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s %.2f %s\t%s\t\n", c.What, c.Value, most, c.Limit, c.Unit, state)
	}
	return t.Flush()
}

// NewTable aligns columns that are ended by tabs.
func NewTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// Median of some values; of an even number the lower one in the middle, so that it is one that was measured.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }

// Quantile is the least of some values, at least one, that is not exceeded by a
// share of them.
func Quantile(xs []float64, share float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[min(max(int(share*float64(len(xs))+0.999999)-1, 0), len(xs)-1)]
}
