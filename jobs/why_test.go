package jobs

import (
	"testing"
	"time"

	"syncd/connectors"
)

func waiting(flow, key, entity, awaited string) Row {
	return Row{RowID: RowID{flow, key}, Client: "erp", Entity: flow, State: Ready, Reason: ReasonWaiting, WaitEntity: entity, WaitKey: awaited}
}

func TestWaitingIsExplainedToItsEnd(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	order := waiting("orders", "A", "parties", "P")
	stands := order
	stands.AppliedGeneration = 1
	moving := order
	moving.WaitEntity, moving.WaitKey = "", ""
	renamed := moving
	renamed.RenamedFrom = "OLD"
	const look = "sent as soon as that record is applied; looked for again when due"
	for name, c := range map[string]struct {
		row        Row
		await      Await
		text, next string
	}{
		"nobody writes it": {order, Await{Missing: EntityKey{"parties", "P"}},
			"waits for parties P in the target; no configured flow writes parties, so it has to be there already", look},
		"not read yet": {order, Await{Missing: EntityKey{"parties", "P"}, Writers: []string{"customers", "guests"}},
			"waits for parties P in the target; flow customers or guests has read no record of that key yet", look},
		"dead": {order, Await{Rows: []Row{{RowID: RowID{"customers", "P"}, State: Dead, Reason: ReasonFailed}}},
			"waits for parties P in the target; customers/P is dead", "sent as soon as that record is applied, which needs a person: see syncd explain customers/P"},
		"on its way": {order, Await{Rows: []Row{{RowID: RowID{"customers", "P"}, State: Ready, Reason: ReasonRetry}}},
			"waits for parties P in the target; customers/P is ready retry", look},
		"further on": {order, Await{Rows: []Row{waiting("customers", "P", "lands", "XX"), {RowID: RowID{"lands", "XX"}, State: Dead}}},
			"waits for parties P in the target; that is customers/P, which waits for lands XX; lands/XX is dead",
			"sent as soon as that record is applied, which needs a person: see syncd explain lands/XX"},
		"in a circle": {order, Await{Circle: true, Rows: []Row{order, waiting("parties", "P", "orders", "A")}},
			"waits for parties P in the target; these wait for each other in a circle: orders/A -> parties/P -> orders/A",
			`nothing, because none of them can be written first; make one of the references "optional", as in ref("parties"; KEY; "optional")`},
		"behind a circle": {order, Await{Circle: true, Rows: []Row{waiting("parties", "P", "lands", "L"), waiting("lands", "L", "parties", "P")}},
			"waits for parties P in the target; what it waits for waits in vain: these wait for each other in a circle: parties/P -> lands/L -> parties/P",
			`nothing, because none of them can be written first; make one of the references "optional", as in ref("parties"; KEY; "optional")`},
		"optional": {stands, Await{}, "stands in the target without its optional reference to parties P, which is not there yet",
			"written once more as soon as that record is applied; looked for again when due"},
		"a key that moves":  {moving, Await{}, "waits until the record that had its key has got another one", "sent when that is done; looked at again when due"},
		"a key that it had": {renamed, Await{}, "waits for the end of a write under the key OLD, which its record had before", "sent when that is done; looked at again when due"},
	} {
		t.Run(name, func(t *testing.T) {
			c.row.DueAt = now.Add(time.Minute)
			e := Why(&c.row, Surroundings{Flow: &Flow{}, Await: c.await}, now)
			if e.Text != c.text || e.Next != c.next {
				t.Errorf("text %q\nwant %q\nnext %q\nwant %q", e.Text, c.text, e.Next, c.next)
			}
		})
	}
}

func TestCollisionIsExplainedInEveryState(t *testing.T) {
	for _, state := range []State{Ready, Done, Dead, Held} {
		row := Row{RowID: RowID{"orders", "A"}, SourceID: "1", State: state, LastClass: connectors.Applied}
		e := Why(&row, Surroundings{Flow: &Flow{}, Claimants: []string{"2", "3"}}, time.Now())
		drops := "drops the claims"
		if state == Dead || state == Held {
			drops = "ends this job, and a second time drops the claims"
		}
		if want := "source records 2, 3 map to this key too and wait, because source record 1 has it; correct one of these records at the source, or the flow's key; " +
			"if what waits is no longer at the source, syncd discard orders/A " + drops; e.Collision != want {
			t.Errorf("%s: %s", state, e.Collision)
		}
	}
	row := Row{RowID: RowID{"orders", "A"}, State: Done}
	e := Why(&row, Surroundings{Flow: &Flow{}, Claimants: []string{"2", "3", "4", "5", "6", "7", "8"}}, time.Now())
	if want := "source records 2, 3, 4, 5, 6 and 2 more map to this key too and wait, until it is free; correct one of these records at the source, or the flow's key; " +
		"if what waits is no longer at the source, syncd discard orders/A drops the claims"; e.Collision != want {
		t.Errorf("%s, want %s", e.Collision, want)
	}
	if e := Why(&row, Surroundings{Flow: &Flow{}}, time.Now()); e.Collision != "" {
		t.Error(e.Collision)
	}
}
