package main

import (
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// failingStatus says since when and why a flow's source cannot be read.
type failingStatus struct {
	Since   time.Time `json:"since"`
	Class   string    `json:"class,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// reading notes how reading of the flow goes.
func (f *flowStatus) reading(s jobs.FlowState) {
	f.LastRead = at(s.ReadAt)
	if t := s.Failing; !t.Since.IsZero() {
		f.Failing = &failingStatus{Since: t.Since, Class: string(t.Class), Code: t.Code, Message: t.Message}
	}
}

// readingPatience is how long a failure that may pass by itself is nobody's business.
const readingPatience = 15 * time.Minute

// finding reports whether a person is needed: at once for a refusal, which a wrong
// path or missing rights are, after a while for what may be an outage.
func (f *failingStatus) finding(now time.Time) bool {
	if f == nil {
		return false
	}
	switch connectors.Class(f.Class) {
	case connectors.Transient, connectors.Unknown, connectors.Throttled, connectors.Paused, "":
		return now.Sub(f.Since) >= readingPatience
	default:
		return true
	}
}

// text says it in a sentence.
func (f *failingStatus) text(flow string, now time.Time) string {
	why := f.Class
	if f.Code != "" {
		why += " (" + f.Code + ")"
	}
	if f.Message != "" {
		if why != "" {
			why += ": "
		}
		why += f.Message
	}
	return fmt.Sprintf("reading fails: flow %s, since %s (%s): %s", flow, f.Since.Format(time.RFC3339), ago(now, &f.Since), why)
}
