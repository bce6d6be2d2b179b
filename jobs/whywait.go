package jobs

import (
	"fmt"
	"strings"
)

// whyWaiting explains a row that waits for another record.
func whyWaiting(row *Row, s Surroundings, e *Explanation) {
	if row.WaitEntity == "" {
		e.Text = "waits until the record that had its key has got another one"
		if row.RenamedFrom != "" && s.Heir == nil {
			e.Text = fmt.Sprintf("waits for the end of a write under the key %s, which its record had before", row.RenamedFrom)
		}
		e.Next = "sent when that is done; looked at again when due"
		return
	}
	e.Text = fmt.Sprintf("waits for %s %s in the target", row.WaitEntity, row.WaitKey)
	e.Next = "sent as soon as that record is applied; looked for again when due"
	if row.Applied() {
		e.Text = fmt.Sprintf("stands in the target without its optional reference to %s %s, which is not there yet", row.WaitEntity, row.WaitKey)
		e.Next = "written once more as soon as that record is applied; looked for again when due"
		return
	}
	a := s.Await
	switch n := len(a.Rows); {
	case a.Circle:
		e.Text += "; " + a.path(row)
		e.Next = `nothing, because none of them can be written first; make one of the references "optional", as in ref("` + row.WaitEntity + `"; KEY; "optional")`
	case a.Missing != (EntityKey{}) && len(a.Writers) == 0:
		e.Text += a.via() + fmt.Sprintf("; no configured flow writes %s, so it has to be there already", a.Missing.Entity)
	case a.Missing != (EntityKey{}):
		e.Text += a.via() + fmt.Sprintf("; flow %s has read no record of that key yet", strings.Join(a.Writers, " or "))
	case n > 0 && a.Rows[n-1].State == Dead:
		last := a.Rows[n-1].RowID
		e.Text += a.via() + fmt.Sprintf("; %s is dead", last)
		e.Next = fmt.Sprintf("sent as soon as that record is applied, which needs a person: see syncd explain %s", last)
	case n > 0:
		last := &a.Rows[n-1]
		e.Text += a.via() + fmt.Sprintf("; %s is %s", last.RowID, strings.TrimSpace(string(last.State)+" "+string(last.Reason)))
	}
}

// via names the records between a row and what it waits for in the end.
func (a Await) via() string {
	var names []string
	for i := range a.Rows {
		if a.Rows[i].awaits() {
			names = append(names, fmt.Sprintf("%s, which waits for %s %s", a.Rows[i].RowID, a.Rows[i].WaitEntity, a.Rows[i].WaitKey))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; that is " + strings.Join(names, "; that is ")
}

// path names a circle, from the row on if it is in it.
func (a Await) path(row *Row) string {
	names := make([]string, 0, len(a.Rows)+1)
	in := false
	for i := range a.Rows {
		names = append(names, a.Rows[i].String())
		in = in || a.Rows[i].RowID == row.RowID
	}
	names = append(names, names[0])
	text := "these wait for each other in a circle: " + strings.Join(names, " -> ")
	if !in {
		text = "what it waits for waits in vain: " + text
	}
	return text
}

// mostNamed bounds the source records that an explanation names.
const mostNamed = 5

// collision says who else claims the row's key.
func (s Surroundings) collision(row *Row, e *Explanation) {
	n := len(s.Claimants)
	if n == 0 {
		return
	}
	names := NamedIDs(s.Claimants)
	who, waits := "source record "+names+" maps", "waits"
	if n > 1 {
		who, waits = "source records "+names+" map", "wait"
	}
	owner := "until it is free"
	if row.SourceID != "" {
		owner = "because source record " + row.SourceID + " has it"
	}
	drops := "drops the claim"
	if n > 1 {
		drops = "drops the claims"
	}
	if row.State == Dead || row.State == Held {
		drops = "ends this job, and a second time " + drops
	}
	e.Collision = fmt.Sprintf("%s to this key too and %s, %s; correct one of these records at the source, or the flow's key; if what waits is no longer at the source, syncd discard %s %s",
		who, waits, owner, row.RowID, drops)
}

// NamedIDs names some source records.
func NamedIDs(ids []string) string {
	n := len(ids)
	names := strings.Join(ids[:min(n, mostNamed)], ", ")
	if n > mostNamed {
		names += fmt.Sprintf(" and %d more", n-mostNamed)
	}
	return names
}
