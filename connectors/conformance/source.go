package conformance

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"syncd/connectors"
)

// Source runs the suite for sources.
func Source(t *testing.T, start SourceHarness) {
	t.Helper()
	m := start(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, m SourceModel)
		// needs tells whether the model can play the case; nil for every model.
		needs func(m SourceModel) bool
	}{
		{name: "everything arrives", run: everythingArrives},
		{name: "an empty stream is no error", run: emptyStream},
		{name: "a reading goes on from every cursor after a restart", run: restartsAnywhere},
		{name: "equal stamps at the border of a page", run: equalStamps},
		{name: "more records with one stamp than a page holds", run: manyEqualStamps},
		{name: "a change reaches the reader after all was read", run: changesArrive},
		{name: "a record changes while the listing is read", run: changesWhileReading},
		{name: "every record changes while the listing is read", run: churnWhileReading},
		{name: "new records arrive while the listing is read", run: insertsWhileReading},
		{name: "ids keep their digits", run: longIDs},
		{name: "an older record appears late", run: lateRecord, needs: func(m SourceModel) bool { return m.Late > 0 }},
		{name: "a record is deleted", run: deletion, needs: func(m SourceModel) bool { return m.Delete != nil && m.Tombstones }},
		{name: "a record is deleted while the listing is read", run: deletionWhileReading, needs: func(m SourceModel) bool { return m.Delete != nil }},
		{name: "a record without an id is kept apart", run: withoutID, needs: func(m SourceModel) bool { return m.NoID }},
		{name: "records without a stamp arrive", run: withoutStamp, needs: func(m SourceModel) bool { return m.NoTime }},
		{name: "our clock does not matter", run: clockSkew, needs: func(m SourceModel) bool { return m.SetTime != nil }},
		{name: "a stamp in the future hides nothing", run: futureStamp, needs: func(m SourceModel) bool { return m.SetTime != nil }},
		{name: "a listing that repeats itself ends in an error", run: repeats, needs: func(m SourceModel) bool { return m.Repeat != nil }},
		{name: "a start date leaves older records out", run: startDate, needs: func(m SourceModel) bool { return !m.NoStart }},
		{name: "one record is fetched", run: fetches, needs: func(m SourceModel) bool { return m.CanFetch }},
		{name: "a foreign cursor is refused", run: foreignCursor},
		{name: "an unknown stream is refused", run: unknownStream},
		{name: "a closed gate lets nothing out", run: closedGate},
	} {
		if c.needs != nil && !c.needs(m) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, start(t)) })
	}
	t.Run("records with one stamp change while they are read", func(t *testing.T) { equalStampsChange(t, start) })
	if m.Hostile != nil {
		t.Run("faults", func(t *testing.T) { readFaults(t, start) })
	}
}

// fill puts n records into the model, a minute apart, and returns their values.
func fill(m SourceModel, n int) map[string]string {
	setTime(m, at(3600))
	values := map[string]string{}
	for i := 1; i <= n; i++ {
		put(m, values, strconv.Itoa(i), at(60*i), fmt.Sprintf("first %d", i))
	}
	return values
}

func put(m SourceModel, values map[string]string, id string, changed time.Time, value string) {
	m.Put(Record{ID: id, ChangedAt: changed, Value: value})
	values[id] = value
}

func setTime(m SourceModel, now time.Time) {
	if m.SetTime != nil {
		m.SetTime(now)
	}
}

func everythingArrives(t *testing.T, m SourceModel) {
	values := fill(m, 7)
	r := newReader(t, m)
	r.drain()
	r.want(values)
	r.drain()
	r.want(values)
	if len(r.problems) > 0 {
		t.Errorf("problems: %q", r.problems)
	}
}

func emptyStream(t *testing.T, m SourceModel) {
	setTime(m, at(60))
	r := newReader(t, m)
	r.drain()
	r.want(nil)
	setTime(m, at(120))
	values := map[string]string{}
	put(m, values, "1", at(90), "the first")
	r.drain()
	r.want(values)
}

// restartsAnywhere crashes after every page and goes on, with a fresh instance,
// from that cursor: what was admitted before the crash and what comes after
// must together be all.
func restartsAnywhere(t *testing.T, m SourceModel) {
	values := fill(m, 7)
	r := newReader(t, m)
	var stops []*reader
	for range maxPulls {
		more, err := r.pull()
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, r.fork())
		if !more {
			break
		}
	}
	put(m, values, "2", at(1200), "second 2")
	put(m, values, "8", at(1260), "first 8")
	for i, s := range stops {
		t.Run(fmt.Sprintf("page %d", i+1), func(t *testing.T) {
			s.t = t
			s.restart()
			s.drain()
			// The change may belong to the next reading, never to none.
			s.drain()
			s.want(values)
		})
	}
}

func equalStamps(t *testing.T, m SourceModel) {
	setTime(m, at(3600))
	values := map[string]string{}
	for id, second := range map[string]int{"1": 0, "2": 5, "3": 5, "4": 5, "5": 9} {
		put(m, values, id, at(second), "value "+id)
	}
	r := newReader(t, m)
	r.drain()
	r.want(values)
}

func manyEqualStamps(t *testing.T, m SourceModel) {
	setTime(m, at(3600))
	values := map[string]string{}
	for i := 1; i <= 11; i++ {
		put(m, values, strconv.Itoa(i), at(5), "value "+strconv.Itoa(i))
	}
	put(m, values, "12", at(7), "the last")
	r := newReader(t, m)
	r.drain()
	r.want(values)
	r.drain()
	r.want(values)
}

// equalStampsChange changes the first of a large group of equal stamps, long
// past, while the group is read.
func equalStampsChange(t *testing.T, start SourceHarness) {
	for after := 1; after <= 5; after++ {
		m := start(t)
		setTime(m, at(3600))
		values := map[string]string{}
		for i := 1; i <= 9; i++ {
			put(m, values, strconv.Itoa(i), at(5), "first")
		}
		put(m, values, "50", at(3500), "the last")
		r := newReader(t, m)
		for range after {
			if _, err := r.pull(); err != nil {
				t.Fatal(err)
			}
		}
		setTime(m, at(3602))
		put(m, values, "1", at(3601), "second")
		r.drain()
		setTime(m, at(3700))
		r.drain()
		r.want(values)
	}
}

func changesArrive(t *testing.T, m SourceModel) {
	values := fill(m, 5)
	r := newReader(t, m)
	r.drain()
	for round := 1; round <= 3; round++ {
		setTime(m, at(3600+60*round))
		put(m, values, "3", at(3600+60*round-10), fmt.Sprintf("changed %d", round))
		put(m, values, strconv.Itoa(10+round), at(3600+60*round-5), "new")
		r.drain()
		r.want(values)
	}
}

// changesWhileReading changes a record that was read already, which moves it
// in a listing sorted by time and pulls another across the border of a page.
func changesWhileReading(t *testing.T, m SourceModel) {
	for _, after := range []int{1, 2, 3} {
		values := fill(m, 9)
		r := newReader(t, m)
		for range after {
			if _, err := r.pull(); err != nil {
				t.Fatal(err)
			}
		}
		setTime(m, at(3602))
		put(m, values, "1", at(3601), "second 1")
		r.drain()
		setTime(m, at(3700))
		r.drain()
		r.want(values)
	}
}

// churnWhileReading changes one more record after each page.
func churnWhileReading(t *testing.T, m SourceModel) {
	values := fill(m, 9)
	r := newReader(t, m)
	for i := 1; i <= 9; i++ {
		if _, err := r.pull(); err != nil {
			t.Fatal(err)
		}
		setTime(m, at(3600+10*i))
		put(m, values, strconv.Itoa(i), at(3600+10*i-1), "second "+strconv.Itoa(i))
	}
	r.drain()
	setTime(m, at(4000))
	r.drain()
	r.want(values)
}

func insertsWhileReading(t *testing.T, m SourceModel) {
	values := fill(m, 9)
	r := newReader(t, m)
	for i := 1; i <= 4; i++ {
		if _, err := r.pull(); err != nil {
			t.Fatal(err)
		}
		setTime(m, at(3600+10*i))
		put(m, values, strconv.Itoa(100+i), at(3600+10*i-1), "inserted")
	}
	r.drain()
	setTime(m, at(4000))
	r.drain()
	r.want(values)
}

func longIDs(t *testing.T, m SourceModel) {
	setTime(m, at(3600))
	values := map[string]string{}
	put(m, values, "9007199254740992", at(10), "an even one")
	put(m, values, "9007199254740993", at(20), "an odd one")
	put(m, values, "1780921717355446273", at(30), "a long one")
	r := newReader(t, m)
	r.drain()
	r.want(values)
}

func lateRecord(t *testing.T, m SourceModel) {
	values := fill(m, 5)
	r := newReader(t, m)
	r.drain()
	late := at(300).Add(-m.Late / 2).Truncate(time.Second)
	put(m, values, "99", late, "late")
	r.drain()
	r.want(values)
}

func deletion(t *testing.T, m SourceModel) {
	values := fill(m, 5)
	r := newReader(t, m)
	r.drain()
	setTime(m, at(3700))
	m.Delete("3", at(3650))
	delete(values, "3")
	r.drain()
	r.want(values)
	if !r.state["3"].gone {
		t.Error("the deleted record was not read as gone")
	}
	setTime(m, at(3800))
	put(m, values, "3", at(3750), "again")
	r.drain()
	r.want(values)
}

func deletionWhileReading(t *testing.T, m SourceModel) {
	values := fill(m, 9)
	r := newReader(t, m)
	if _, err := r.pull(); err != nil {
		t.Fatal(err)
	}
	setTime(m, at(3602))
	m.Delete("1", at(3601))
	delete(values, "1")
	r.drain()
	setTime(m, at(3700))
	r.drain()
	if !m.Tombstones {
		delete(r.state, "1")
	}
	r.want(values)
}

func withoutID(t *testing.T, m SourceModel) {
	values := fill(m, 4)
	m.Put(Record{ID: "nameless", ChangedAt: at(150), Value: "lost", NoID: true})
	r := newReader(t, m)
	r.drain()
	r.want(values)
	if len(r.problems) == 0 {
		t.Error("the record without an id left no trace")
	}
}

func withoutStamp(t *testing.T, m SourceModel) {
	values := fill(m, 4)
	put(m, values, "21", time.Time{}, "timeless 21")
	put(m, values, "22", time.Time{}, "timeless 22")
	put(m, values, "23", time.Time{}, "timeless 23")
	r := newReader(t, m)
	r.drain()
	r.want(values)
	setTime(m, at(3700))
	put(m, values, "5", at(3650), "after them")
	r.drain()
	r.want(values)
}

// clockSkew polls with a clock that is wrong: nothing may be skipped for it.
func clockSkew(t *testing.T, m SourceModel) {
	values := fill(m, 3)
	for n, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute, 30 * 24 * time.Hour} {
		r := newReader(t, m)
		r.skew = skew
		r.restart()
		r.drain()
		r.drain() // sees nothing new
		for i := 1; i <= 3; i++ {
			now := 3600 + 600*n + 180*i
			setTime(m, at(now))
			put(m, values, strconv.Itoa(50+10*n+i), at(now-1), "after an empty poll")
			r.drain()
			r.want(values)
			r.drain()
		}
	}
}

// futureStamp has one record lie about its time: those that tell the truth
// afterwards must still be read.
func futureStamp(t *testing.T, m SourceModel) {
	values := fill(m, 3)
	put(m, values, "77", at(30*24*3600), "from the future")
	r := newReader(t, m)
	r.drain()
	r.want(values)
	setTime(m, at(3700))
	put(m, values, "4", at(3650), "honest")
	r.drain()
	r.want(values)
}

func repeats(t *testing.T, m SourceModel) {
	fill(m, 9)
	m.Repeat()
	r := newReader(t, m)
	if err := r.tryDrain(); err == nil {
		t.Fatal("the same page for ever was read as a complete listing")
	}
	if r.events > 2*9 {
		t.Errorf("%d events before the error: a listing that repeats itself fills the journal", r.events)
	}
	// Asking again from the same cursor fails again, and admits nothing more.
	before := r.events
	if err := r.tryDrain(); err == nil {
		t.Error("the same page for ever was read as a complete listing at the second try")
	}
	if r.events > before+2*9 {
		t.Errorf("%d more events at the second try", r.events-before)
	}
}

func startDate(t *testing.T, m SourceModel) {
	values := fill(m, 6)
	r := newReader(t, m)
	r.start = connectors.Start{From: at(60*4 - 30)}
	r.drain()
	for _, id := range []string{"1", "2", "3"} {
		delete(values, id)
	}
	r.want(values)
	setTime(m, at(3700))
	put(m, values, "2", at(3650), "changed since")
	r.start = connectors.Start{All: true} // a start counts only without a cursor
	r.drain()
	r.want(values)
}

func fetches(t *testing.T, m SourceModel) {
	fill(m, 3)
	src := newReader(t, m).source
	e, err := src.Fetch(t.Context(), m.Stream, "2")
	if err != nil {
		t.Fatal(err)
	}
	if e.SourceID != "2" || e.Gone || e.Problem != "" || m.Value(e.Body) != "first 2" {
		t.Errorf("fetched %+v", e)
	}
	if e, err = src.Fetch(t.Context(), m.Stream, "404"); err != nil || !e.Gone || e.SourceID != "404" {
		t.Errorf("a record that does not exist: %+v, %v", e, err)
	}
}

func foreignCursor(t *testing.T, m SourceModel) {
	fill(m, 3)
	r := newReader(t, m)
	r.cursor = []byte(`{"somebody":"else's"}`)
	if _, err := r.pull(); err == nil {
		t.Error("a cursor that the connector never made was taken")
	}
}

func unknownStream(t *testing.T, m SourceModel) {
	r := newReader(t, m)
	r.model.Stream = "no such stream"
	if _, err := r.pull(); err == nil {
		t.Error("a stream that does not exist was read")
	}
}

func closedGate(t *testing.T, m SourceModel) {
	values := fill(m, 3)
	r := newReader(t, m)
	r.gate.set(true)
	before := len(wire(m))
	_, err := r.pull()
	var e *connectors.Error
	if !isError(err, &e) || e.Class != connectors.Paused {
		t.Errorf("while the client is paused: %v", err)
	}
	if n := len(wire(m)) - before; n > 0 {
		t.Errorf("%d requests while the client is paused", n)
	}
	r.gate.set(false)
	r.drain()
	r.want(values)
	if r.gate.count() == 0 {
		t.Error("the gate was never asked")
	}
}
