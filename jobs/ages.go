package jobs

import (
	"time"

	"syncd/connectors"
)

// Age tells how long jobs of a flow wait, and for what.
type Age struct {
	Flow string
	// Reason is "" for jobs that are due and could be written, else what withholds them: a
	// Reason or a Decision.
	Reason string
	// Oldest is since when the first of the due ones is due; of withheld ones, since
	// when the oldest job is open of those that stand alike, some of which are withheld.
	Oldest time.Time
}

// Ages tells what is due from what is withheld, by flow and reason, each once. Jobs of a
// flow that stand alike are judged as Why judges one of them, which has their oldest times.
func (o Overview) Ages(flows map[string]*Flow) []Age {
	around := o.around(flows)
	type place struct{ flow, reason string }
	at := map[place]int{}
	var out []Age
	add := func(flow, reason string, t time.Time) {
		p := place{flow, reason}
		i, ok := at[p]
		if !ok {
			i = len(out)
			at[p], out = i, append(out, Age{Flow: flow, Reason: reason, Oldest: t})
		}
		if t.Before(out[i].Oldest) {
			out[i].Oldest = t
		}
	}
	for _, c := range o.Counts {
		if c.State != Ready || c.N == 0 {
			continue
		}
		s := around(c.Flow)
		row := Row{RowID: RowID{Flow: c.Flow}, State: Ready, Reason: c.Reason, LastClass: connectors.Class(c.Class), OpenSince: c.OldestOpen, DueAt: c.OldestDue, Body: anyBody}
		if c.Due > 0 {
			// Of those that are due the oldest may be young: only the others were put off for their age.
			if reason := withheld(&row, s, o.At); reason != "" {
				add(c.Flow, reason, c.OldestOpen)
			} else {
				add(c.Flow, "", c.OldestDue)
			}
			row.DueAt = o.At.Add(time.Microsecond)
		}
		if c.Due < c.N {
			row.ReadAt = c.OldestOpen
			reason := Why(&row, s, o.At).Reason
			if reason == "" {
				reason = string(NotYet)
			}
			add(c.Flow, reason, c.OldestOpen)
		}
	}
	return out
}

// anyBody stands for the body of a row that has one.
var anyBody = []byte("{}")

// withheld is what withholds a row whose time has come; "" if a claim would do something
// about it.
func withheld(row *Row, s Surroundings, now time.Time) string {
	switch d, _ := decide(row, s, now); d { // nothing that is asked here can fail
	case NoFlow, Behind, ClientPaused, FlowSuspended, Redelivered:
		return Why(row, s, now).Reason
	}
	return ""
}

// around returns what decides over rows of a flow beyond themselves.
func (o Overview) around(flows map[string]*Flow) func(flow string) Surroundings {
	suspended, gates, redelivered := map[string]Standing{}, map[string]ClientState{}, map[string]bool{}
	for _, f := range o.Flows {
		suspended[f.Flow] = f.Suspended
	}
	for _, c := range o.Clients {
		gates[c.Client] = c
	}
	for _, name := range o.Redelivered {
		if f := flows[name]; f != nil {
			redelivered[f.Client] = true
		}
	}
	return func(flow string) Surroundings {
		s := Surroundings{Flow: flows[flow], Suspended: suspended[flow]}
		if f := s.Flow; f != nil {
			s.Target, s.Source, s.Redelivered = gates[f.Client], gates[f.SourceClient], redelivered[f.Client]
		}
		return s
	}
}
