package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// line is one row of the table as --json prints it.
type line struct {
	Fault       string `json:"fault"`
	Cycles      int    `json:"cycles"`
	Lost        int    `json:"lost"`
	Doubled     int    `json:"doubled"`
	Stale       int    `json:"stale"`
	RecoveryP95 int64  `json:"recovery_p95_ms"`
	Command     string `json:"command"`
}

// p95 is the smallest value that at least 95 of 100 do not exceed; 0 of none.
func p95(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	ds = slices.Sorted(slices.Values(ds))
	return ds[(len(ds)*95+99)/100-1]
}

func (r *row) line(command string) line {
	return line{r.fault, r.cycles, r.lost, r.doubled, r.stale, p95(r.recoveries).Milliseconds(), command}
}

// printTable writes lines for people.
func printTable(w io.Writer, ls []line) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "fault\tcycles\tlost\tdoubled\tstale\trecovery p95\tcommand")
	for _, l := range ls {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d ms\t%s\n", l.Fault, l.Cycles, l.Lost, l.Doubled, l.Stale, l.RecoveryP95, l.Command)
	}
	return tw.Flush()
}

// printJSON writes lines for programs.
func printJSON(w io.Writer, ls []line) error {
	return json.NewEncoder(w).Encode(struct {
		Rows []line `json:"rows"`
	}{ls})
}
