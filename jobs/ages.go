package jobs

import "time"

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

// Ages tells what is due from what is withheld, by flow and reason, each once. What is
// due is withheld too while its flow is suspended, is not configured, or its client
// is paused.
func (o Overview) Ages(flows map[string]*Flow) []Age {
	suspended, paused := map[string]bool{}, map[string]bool{}
	for _, f := range o.Flows {
		suspended[f.Flow] = f.Suspended.Is()
	}
	for _, c := range o.Clients {
		paused[c.Client] = c.PausedUntil.After(o.At)
	}
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
		f := flows[c.Flow]
		beyond := ""
		switch {
		case f == nil:
			beyond = string(NoFlow)
		case suspended[c.Flow]:
			beyond = string(FlowSuspended)
		case paused[f.Client]:
			beyond = string(ClientPaused)
		}
		if beyond != "" {
			add(c.Flow, beyond, c.OldestOpen)
			continue
		}
		if c.Due > 0 {
			add(c.Flow, "", c.OldestDue)
		}
		if c.Due < c.N {
			reason := string(c.Reason)
			if c.Reason == ReasonNone {
				reason = string(NotYet)
			}
			add(c.Flow, reason, c.OldestOpen)
		}
	}
	return out
}
