package jobs

import (
	"testing"
	"time"

	"syncd/connectors"
)

func TestDeadLetterIsExplainedByWhatEndsIt(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	row := func(key, source string, why Reason) Row {
		return Row{RowID: RowID{"orders", key}, SourceID: source, State: Dead, Reason: why, LastClass: connectors.Invalid, LastMessage: "m"}
	}
	flow := &Flow{CanRefresh: true}
	asked := &Request{Client: "shop", At: now.Add(-time.Minute), DueAt: now.Add(-time.Minute)}
	later := *asked
	later.DueAt = now.Add(time.Minute)
	paused := ClientState{Client: "shop", PausedUntil: now.Add(time.Hour), Reason: "throttled"}
	for name, c := range map[string]struct {
		row    Row
		s      Surroundings
		text   string
		next   string
		until  time.Time
		replay bool
	}{
		"an event without a source id": {row("@?1", "", ReasonMapping), Surroundings{Flow: flow}, "its event could not be mapped: m",
			"nothing happens by itself: correct it at the source, then syncd discard orders/@?1", time.Time{}, false},
		"a record that its source no longer has": {row("A", "", ReasonExpired), Surroundings{Flow: flow}, "m",
			"nothing, unless the record comes back at the source; syncd discard orders/A ends it", time.Time{}, false},
		"an event with one": {row("@1", "1", ReasonMapping), Surroundings{Flow: flow}, "its event could not be mapped: m",
			"a newer version of the record heals it; or mend the cause and replay it", time.Time{}, true},
		"a refused record that the source can be asked for": {row("A", "1", ReasonFailed), Surroundings{Flow: flow}, "attempt 0 ended it (invalid: m)",
			"a newer version of the record heals it; or mend the cause and replay it (with --remap if that was the mapping)", time.Time{}, true},
		"a refused record that it cannot be asked for": {row("A", "1", ReasonFailed), Surroundings{Flow: &Flow{}}, "attempt 0 ended it (invalid: m)",
			"a newer version of the record heals it; or mend the cause and replay it", time.Time{}, true},
		"asked for, source paused": {row("@1", "1", ReasonMapping), Surroundings{Flow: flow, Asked: asked, Source: paused},
			"its event could not be mapped: m; asked of the source at 2026-11-29T11:59:00Z, which waits for client shop until 2026-11-29T13:00:00Z (throttled)",
			"mapped anew when the source has answered", paused.PausedUntil, false},
		"asked for, put off": {row("B", "1", ReasonRenamed), Surroundings{Flow: flow, Asked: &later},
			"m; asked of the source at 2026-11-29T11:59:00Z, which waits for client shop; it is asked again at 2026-11-29T12:01:00Z",
			"mapped anew when the source has answered", later.DueAt, false},
		"asked for": {row("B", "1", ReasonRenamed), Surroundings{Flow: flow, Asked: asked},
			"m; asked of the source at 2026-11-29T11:59:00Z, which waits for client shop and for the daemon",
			"mapped anew when the source has answered", time.Time{}, false},
		"a changed key in an entity that cannot change it": {row("B", "1", ReasonRenamed), Surroundings{Flow: flow}, "m",
			"with on_rename: recreate in its flow, a newer version of the record heals it, and so does a replay", time.Time{}, true},
		"a changed key in an entity that can": {row("B", "1", ReasonRenamed), Surroundings{Flow: &Flow{CanRename: true}}, "m",
			"with on_rename: rename or recreate in its flow, a newer version of the record heals it; it cannot be replayed: " +
				"its source cannot be asked for one record; with on_rename: rename or recreate, its next version at the source is written under the new key", time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := Why(&c.row, c.s, now)
			if e.Text != c.text || e.Next != c.next || !e.Until.Equal(c.until) || e.Replay != c.replay {
				t.Errorf("text %q\nwant %q\nnext %q\nwant %q\nuntil %s, replay %v", e.Text, c.text, e.Next, c.next, e.Until, e.Replay)
			}
		})
	}
}

func TestAJobThatWasGivenUpSaysHowToTakeThatBack(t *testing.T) {
	row := Row{RowID: RowID{"orders", "A"}, SourceID: "1", State: Done, Reason: ReasonDiscarded, LastClass: connectors.Invalid, LastAt: time.Now()}
	e := Why(&row, Surroundings{Flow: &Flow{}}, time.Now())
	if want := "nothing, until the source has a newer version; or a replay takes that back"; e.Next != want || !e.Replay || !e.Since.IsZero() {
		t.Errorf("next %q, want %q; replay %v, since %s, which is when it failed", e.Next, want, e.Replay, e.Since)
	}
	if e = Why(&row, Surroundings{}, time.Now()); e.Replay {
		t.Error("it can be replayed although its flow is not run")
	}
}

func TestOldKeyOfARecordWhoseNewerStateIsDeadPointsToIt(t *testing.T) {
	row := Row{RowID: RowID{"orders", "A"}, SourceID: "1", State: Done, LastClass: connectors.Applied}
	e := Why(&row, Surroundings{Flow: &Flow{}, Newer: &Row{RowID: RowID{"orders", "B"}}}, time.Now())
	if want := "nothing; a newer state of its source record is dead: see syncd explain orders/B"; e.Next != want {
		t.Errorf("next %q, want %q", e.Next, want)
	}
}
