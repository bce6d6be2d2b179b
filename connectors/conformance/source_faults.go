package conformance

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

func isError(err error, e **connectors.Error) bool { return errors.As(err, e) }

func wire(m SourceModel) []hostile.Entry {
	if m.Hostile == nil {
		return nil
	}
	return m.Hostile.Log()
}

// isSlow tells whether a fault makes the client wait until its timeout.
func isSlow(f hostile.Fault) bool {
	return strings.HasPrefix(f.Name, "hang") || strings.HasPrefix(f.Name, "slow")
}

func isHuge(f hostile.Fault) bool { return f.Name == "huge" || f.Name == "gzip_bomb" }

// faults are those that a suite plays: all of them; with -short one of four, and
// none that takes its time.
func faults() []hostile.Fault {
	all := hostile.Faults()
	if !testing.Short() {
		return all
	}
	var l []hostile.Fault
	for i, f := range all {
		if i%4 == 0 && !isSlow(f) && !isHuge(f) {
			l = append(l, f)
		}
	}
	return l
}

// readFaults plays each fault at each of the first requests of a reading:
// whatever the answer, nothing may be lost once the fault is gone.
func readFaults(t *testing.T, start SourceHarness) {
	for _, f := range faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			pages := []int{0, 1, 2}
			if isSlow(f) || isHuge(f) {
				pages = []int{1}
			}
			m := start(t)
			for _, page := range pages {
				readFault(t, m, f, page)
			}
		})
	}
}

func readFault(t *testing.T, m SourceModel, f hostile.Fault, page int) {
	t.Helper()
	values := fill(m, 7)
	r := newReader(t, m)
	for range page {
		if more, err := r.pull(); err != nil || !more {
			t.Fatalf("before the fault: more %v, %v", more, err)
		}
	}
	if isSlow(f) {
		r.wait = impatient
		r.restart()
	}
	m.Hostile.Next(f, m.isRead)
	before := r.events
	_, err := r.pull()
	judgeRead(t, m, f, err)
	if err != nil && r.events != before {
		t.Errorf("page %d: a page that failed gave %d events", page+1, r.events-before)
	}
	if f.Status == http.StatusTooManyRequests && !r.gate.throttled() {
		t.Errorf("page %d: the gate was not shown the refusal for quota", page+1)
	}
	if n := len(m.Hostile.Elsewhere()); n > 0 {
		t.Errorf("page %d: %d requests, with whatever they carried, went to another host", page+1, n)
	}
	m.Hostile.Calm()
	r.wait = patient
	r.restart()
	r.drain()
	r.drain()
	r.want(values)
}

// judgeRead holds the error of a page against the fault that caused it. No
// error is fine: what was lost shows at the end.
func judgeRead(t *testing.T, m SourceModel, f hostile.Fault, err error) {
	t.Helper()
	if err == nil {
		if f.Status == http.StatusUnauthorized && !m.Refreshes {
			t.Error("refused credentials went unnoticed")
		}
		return
	}
	var e *connectors.Error
	if !isError(err, &e) {
		t.Fatalf("the error is a %T, not a *connectors.Error", err)
	}
	if want := readClasses(f); !slices.Contains(want, e.Class) {
		t.Errorf("the class is %s, not one of %v: %v", e.Class, want, err)
	}
	if len(e.Message) > 1000 {
		t.Errorf("a message of %d bytes", len(e.Message))
	}
}

// readClasses are the classes that tell the truth about a failed read.
func readClasses(f hostile.Fault) []connectors.Class {
	switch s := f.Status; {
	case s == 429 || s == 509:
		return []connectors.Class{connectors.Throttled}
	case s == 401 || s == 402:
		return []connectors.Class{connectors.Auth}
	case s == 403:
		return []connectors.Class{connectors.Auth, connectors.Invalid}
	case s >= 300 && s < 400 || s == 501:
		return []connectors.Class{connectors.Invalid}
	case isHuge(f):
		// A page that is too large will be too large again, but nobody knows.
		return []connectors.Class{connectors.Invalid, connectors.Transient}
	case s >= 400 && s < 500 && s != 408:
		return []connectors.Class{connectors.Invalid, connectors.Conflict, connectors.Missing, connectors.Transient}
	}
	return []connectors.Class{connectors.Transient}
}
