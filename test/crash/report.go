package crash

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Print writes the report as a table.
func (r Report) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, v any) { fmt.Fprintf(tw, "%s\t%v\n", name, v) }
	row("seed", r.Seed)
	row("kills", r.Kills)
	row("kills that left writes in doubt", r.Doubts)
	row("writes in doubt after a kill", r.InDoubt)
	row("time of killing", r.Traded.Round(100*time.Millisecond))
	row("time to finish", r.Drained.Round(100*time.Millisecond))
	row("writes with an effect in the ERP", r.Audit.Writes)
	for _, m := range []struct {
		who    string
		faults map[string]int
	}{{"shop", r.Shop}, {"ERP", r.ERP}} {
		for _, k := range slices.Sorted(maps.Keys(m.faults)) {
			row(m.who+": "+k, m.faults[k])
		}
	}
	row("", "")
	row("records expected", r.Audit.Expected)
	row("found", r.Audit.Found)
	row("lost", r.Audit.Lost)
	row("doubled", r.Audit.Doubled)
	row("stale", r.Audit.Stale)
	row("foreign", r.Audit.Foreign)
	row("older states written over newer ones", r.Audit.WentBack)
	row("jobs not done", r.Open)
	for _, e := range r.Audit.Examples {
		row("for example", e)
	}
	return tw.Flush()
}
