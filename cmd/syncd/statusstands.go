package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"syncd/jobs"
)

// standingStatus is a state of affairs of a flow or a client that a person has to
// know of.
type standingStatus struct {
	Since   time.Time  `json:"since"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
	Until   *time.Time `json:"until,omitempty"`
}

func standing(s jobs.Standing) *standingStatus {
	if !s.Is() {
		return nil
	}
	return &standingStatus{s.Since, s.Code, s.Message, at(s.Until)}
}

// standings are all that status tells.
func (s *statusJSON) standings() (out []*standingStatus) {
	for _, f := range s.Flows {
		out = append(out, f.Suspended, f.Full)
	}
	for _, c := range s.Clients {
		out = append(out, c.ExpiryHeld)
	}
	return slices.DeleteFunc(out, func(s *standingStatus) bool { return s == nil })
}

// printStandings says what stands, and what to do about it.
func (s *statusJSON) printStandings(w io.Writer) {
	for _, f := range s.Flows {
		if st := f.Suspended; st != nil {
			next := "a job of it is tried now"
			if st.Until != nil && st.Until.After(s.At) {
				next = "the next is tried at " + stamp(st.Until)
			}
			fmt.Fprintf(w, "\nsuspended: flow %s, since %s: %s\n", clean(f.Flow), stamp(&st.Since), clean(st.Message))
			fmt.Fprintf(w, "its jobs stay ready and keep their attempts; one at a time is tried, %s, and all go on when one succeeds: mend the cause at the target or in the flow, then reload (SIGHUP) or restart to try at once\n", next)
		}
		if st := f.Full; st != nil {
			fmt.Fprintf(w, "\nnot read: flow %s, since %s: %s\n", clean(f.Flow), stamp(&st.Since), clean(st.Message))
		}
	}
	for _, c := range s.Clients {
		if st := c.ExpiryHeld; st != nil {
			fmt.Fprintf(w, "\nexpiry held: client %s, since %s, until %s: %s\n", clean(c.Client), stamp(&st.Since), stamp(st.Until), clean(st.Message))
			fmt.Fprintf(w, "nothing that is written to it expires meanwhile, and nothing over-aged is sent; look at the clock, then let it expire: syncd expiry resume %s\n", clean(c.Client))
		}
	}
}
