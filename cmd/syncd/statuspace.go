package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"syncd/daemon"
	"syncd/jobs"
)

// paceStatus is how fast a lane's client may be called, as its daemon last showed it.
type paceStatus = daemon.Shown

// pace is what was shown of a lane; nil when there is nothing.
func pace(o *jobs.Overview, l jobs.LaneID) *paceStatus {
	s, ok := daemon.ReadShown(o.ShownOf(l))
	if !ok {
		return nil
	}
	return &s
}

// paceText tells people what keeps to which pace; "" when there is nothing to tell.
// Whether its breaker is open was so when it was shown: where the client may be called by now, that is over.
func paceText(s *paceStatus, paused bool) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, q := range s.Quotas {
		parts = append(parts, quotaText(q, s.At))
	}
	if s.Learned != nil {
		parts = append(parts, fmt.Sprintf("about %.3g calls/s are taken, learned from refusals", s.Learned.Rate))
	}
	for _, k := range s.Shapes {
		parts = append(parts, fmt.Sprintf("calls of %q wait until %s: %s", k.Shape, k.Until.Format(time.RFC3339), k.Evidence))
	}
	if s.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d %s for %s", s.Waiting, plural(s.Waiting, "call waits", "calls wait"), heldText(s.HeldBy)))
	}
	if s.Budget != nil && *s.Budget < 50 {
		parts = append(parts, fmt.Sprintf("%d %% of its budget for retries is left", *s.Budget))
	}
	if s.Breaker != "" && paused {
		text := "its breaker is " + s.Breaker
		if s.BreakerLast != "" {
			text += " after: " + s.BreakerLast
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func heldText(by string) string {
	switch by {
	case "rate":
		return "the configured rate"
	case "quota":
		return "the server's quota"
	case "learned":
		return "the learned rate"
	case "ramp":
		return "the answers to the first ones after a pause"
	case "at once":
		return "those under way"
	}
	return "their turn"
}

func quotaText(q daemon.ShownQuota, at time.Time) string {
	s := fmt.Sprintf("%g left", q.Left)
	if q.Limit > 0 {
		s = fmt.Sprintf("%g of %g left", q.Left, q.Limit)
	}
	if q.Scope != "" {
		s += " (" + q.Scope + ")"
	}
	if q.AtOnce {
		s += " at one time"
	}
	if q.Resets.After(at) {
		s += ", whole again at " + q.Resets.Format(time.RFC3339)
	}
	if q.Restore > 0 {
		s += fmt.Sprintf(", %g back each second", q.Restore)
	}
	if q.Others > 0 {
		s += fmt.Sprintf(", others take %g each second", q.Others)
	}
	return s
}

// printPace tells of the clients that have a pace.
func (s *statusJSON) printPace(w io.Writer) {
	first := true
	for _, c := range s.Clients {
		for _, l := range c.Owners {
			text := paceText(l.Pace, c.Paused != nil)
			if text == "" {
				continue
			}
			if first {
				fmt.Fprintln(w, "\npace:")
			}
			first = false
			name := c.Client
			if len(c.Owners) > 1 {
				name = fmt.Sprintf("%s#%d", c.Client, l.Shard)
			}
			fmt.Fprintf(w, "  %s, at %s: %s\n", clean(name), l.Pace.At.Format(time.RFC3339), clean(text))
		}
	}
}
