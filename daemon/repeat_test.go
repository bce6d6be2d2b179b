package daemon

import (
	"encoding/json"
	"testing"
	"time"

	"syncd/connectors"
)

func page(bodies ...string) connectors.Page {
	var p connectors.Page
	for i, b := range bodies {
		p.Events = append(p.Events, connectors.Event{SourceID: string(rune('a' + i)), Version: 1, Body: json.RawMessage(b)})
	}
	return p
}

func TestPageThatSaysTheSameAgainIsLeftOut(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	known := digestOf(0, page(`{"v":1}`, `{"v":2}`))
	r := &repeat{}
	if r.again(known, now, 0) {
		t.Fatal("a page that was never admitted is left out")
	}
	r.admitted(known, now)
	if !r.again(known, later, 0) {
		t.Error("a page that says the same again is admitted again")
	}
	gone := page(`{"v":1}`, `{"v":2}`)
	gone.Events[1].Gone = true
	newer := page(`{"v":1}`, `{"v":2}`)
	newer.Events[1].Version = 2
	moved := page(`{"v":1}`, `{"v":2}`)
	moved.Events[1].ChangedAt = now
	problem := page(`{"v":1}`, `{"v":2}`)
	problem.Events[1].Problem = "no id"
	other := page(`{"v":1}`, `{"v":2}`)
	other.Events[1].SourceID = "c"
	for name, d := range map[string][32]byte{
		"another body":         digestOf(0, page(`{"v":1}`, `{"v":3}`)),
		"another order":        digestOf(0, page(`{"v":2}`, `{"v":1}`)),
		"one event less":       digestOf(0, page(`{"v":1}`)),
		"one event more":       digestOf(0, page(`{"v":1}`, `{"v":2}`, `{"v":2}`)),
		"a record gone":        digestOf(0, gone),
		"a newer version":      digestOf(0, newer),
		"another time":         digestOf(0, moved),
		"a problem":            digestOf(0, problem),
		"another record":       digestOf(0, other),
		"another source epoch": digestOf(1, page(`{"v":1}`, `{"v":2}`)),
	} {
		if r.again(d, later, 0) {
			t.Errorf("a page with %s is left out", name)
		}
	}
}

func TestRepeatedPageCountsAsReadWithinMaxAge(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	d := digestOf(0, page(`{}`))
	r := &repeat{}
	r.admitted(d, now)
	if !r.again(d, now.Add(14*time.Minute), time.Hour) {
		t.Error("a page is admitted again although its records are young")
	}
	if r.again(d, now.Add(15*time.Minute), time.Hour) {
		t.Error("a page is left out for so long that its records would be held too old")
	}
}

// TestNoPageIsLeftOutBesideASingleReading: of a page and a reading of one record
// the later one wins, and only what is in the journal can be compared.
func TestNoPageIsLeftOutBesideASingleReading(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	d := digestOf(0, page(`{}`))
	r := &repeat{}
	r.admitted(d, now)
	release := r.hold()
	if r.again(d, now.Add(time.Second), 0) {
		t.Error("a page is left out while a record is read by itself")
	}
	r.admitted(d, now.Add(time.Second))
	if r.again(d, now.Add(2*time.Second), 0) {
		t.Error("a page is left out while a record is still read by itself")
	}
	release()
	if r.again(d, now.Add(3*time.Second), 0) {
		t.Error("a page is left out that the record read by itself may have overtaken")
	}
	r.admitted(d, now.Add(3*time.Second))
	if !r.again(d, now.Add(4*time.Second), 0) {
		t.Error("a page is admitted again although nothing happened")
	}
}
