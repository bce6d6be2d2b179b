package vendure

import (
	"fmt"
	"testing"
)

// found tells whether a lease remembers the record.
func found(l *lease) bool { return l.same("1", "paid") }

func TestWhatWasMarkedHoldsOnlyForTheCursorAfterIt(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m *memory)
		ask  string
		want bool
	}{
		{"the next cursor", func(m *memory) { mark1(m, "r", "a", "b") }, "b", true},
		{"the same cursor again: its page was not stored", func(m *memory) { mark1(m, "r", "a", "b") }, "a", false},
		{"an older cursor, after a page was pulled ahead", func(m *memory) { mark1(m, "r", "a", "b"); m.take("r", "b").give("c") }, "b", false},
		{"after a pull that failed", func(m *memory) { mark1(m, "r", "a", "b"); m.take("r", "b").give("b") }, "b", true},
		{"another reader", func(m *memory) { mark1(m, "s", "a", "b") }, "b", false},
		{"a pull with the same cursor is still under way", func(m *memory) { mark1(m, "r", "a", "b"); m.take("r", "b") }, "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			c.do(m)
			if got := found(m.take("r", c.ask)); got != c.want {
				t.Errorf("remembered: %v", got)
			}
		})
	}
}

// mark1 plays a pull that marks record 1.
func mark1(m *memory, reader, cursor, next string) {
	l := m.take(reader, cursor)
	l.note("1", "paid", 1)
	l.give(next)
}

// A pull that was given up may end after one that was begun later from the same
// cursor; what it marked was never stored.
func TestAPullThatWasOvertakenLeavesNoMarks(t *testing.T) {
	for _, lateLast := range []bool{true, false} {
		m := newMemory()
		m.take("r", "").give("a")
		late, later := m.take("r", "a"), m.take("r", "a")
		late.note("1", "paid", 1)
		if lateLast {
			later.give("b")
			late.give("b")
		} else {
			late.give("b")
			later.give("b")
		}
		if found(m.take("r", "b")) {
			t.Errorf("late last %v: what the overtaken pull marked is remembered", lateLast)
		}
	}
}

func TestOnlyAFewReadersAreRemembered(t *testing.T) {
	m := newMemory()
	for i := range 3 * mostReaders {
		mark1(m, fmt.Sprint(i), "a", "b")
		mark1(m, "steady", "b", "b")
	}
	if len(m.slots) > mostReaders {
		t.Errorf("%d readers are remembered", len(m.slots))
	}
	if !found(m.take("steady", "b")) {
		t.Error("the reader that comes again and again was forgotten")
	}
}

func TestRecordsThatASweepNoLongerSeesAreForgotten(t *testing.T) {
	m := newMemory()
	l := m.take("r", "")
	l.note("1", "paid", 1)
	l.note("2", "paid", 1)
	l.ended(1)
	l.note("2", "paid", 2)
	l.ended(2)
	if l.same("1", "paid") || !l.same("2", "paid") || l.same("2", "sent") {
		t.Errorf("remembered: %+v", l.marks)
	}
}
