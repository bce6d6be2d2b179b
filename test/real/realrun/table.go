package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// table collects what each phase came to.
type table struct {
	rows   []row
	faults int
}

type row struct {
	phase   string
	report  report
	seconds time.Duration
}

func (t *table) add(phase string, r report, took time.Duration) {
	t.rows = append(t.rows, row{phase, r, took})
	t.faults += r.faults()
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintln(tw, "orders\tcustomers\tproducts\tchecked\tdoubled\tmissing\twrong total\twrong state\twrong content\tfrozen listed\tseconds\t  phase")
	for _, row := range t.rows {
		if err != nil {
			break
		}
		r := row.report
		_, err = fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t  %s\n", r.Orders, r.Customers, r.Products, r.Checked,
			r.Doubled, r.Missing, r.WrongTotal, r.WrongState, r.WrongContent, r.Frozen, row.seconds.Seconds(), row.phase)
	}
	if err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return tw.Flush()
}
