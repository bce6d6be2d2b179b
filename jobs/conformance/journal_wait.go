package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// waitFor has the claimed jobs wait for each other as pairs of keys say.
func (b *bench) waitFor(pairs ...string) {
	b.Helper()
	on := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		on[pairs[i]] = pairs[i+1]
	}
	for _, jb := range b.claim() {
		o := connectors.Fail(connectors.Waiting, "reference", "not there yet")
		o.WaitEntity, o.WaitKey = "order", on[jb.Key]
		b.settle(jb, o)
	}
}

func (b *bench) circles() string {
	b.Helper()
	cs, err := b.journal.Circles(context.Background(), b.flows)
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, c := range cs {
		var names []string
		for _, id := range c {
			names = append(names, id.String())
		}
		out = append(out, strings.Join(names, " "))
	}
	return strings.Join(out, ", ")
}

func (b *bench) awaited(key string) jobs.Await {
	b.Helper()
	a, err := b.journal.Awaited(context.Background(), *b.row(key), b.flows)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

var waitRules = []rule{
	{"records that wait for each other are found, from each of them and from behind", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"), b.ev("3", 10, "C", "x"))
		b.waitFor("A", "B", "B", "A", "C", "A")
		is(b, "circles", b.circles(), "orders/A orders/B")
		for _, key := range []string{"A", "B", "C"} {
			if a := b.awaited(key); !a.Circle || len(a.Rows) != 2 {
				b.Errorf("%s waits for %+v", key, a)
			}
		}
	}},
	{"a record that waits for one which is not there is in no circle", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"))
		b.waitFor("A", "Z")
		is(b, "circles", b.circles(), "")
		a := b.awaited("A")
		is(b, "missing", a.Missing, jobs.EntityKey{Entity: "order", Key: "Z"})
		is(b, "writers", strings.Join(a.Writers, " "), "orders")
	}},
	{"a circle ends when max_age is over, where the source cannot be asked", func(b *bench) {
		b.flow.MaxAge = time.Hour
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		b.waitFor("A", "B", "B", "A")
		b.pass(time.Hour + time.Minute)
		b.none()
		b.want("A", jobs.Dead, jobs.ReasonExpired)
		b.want("B", jobs.Dead, jobs.ReasonExpired)
		is(b, "circles", b.circles(), "")
	}},
	{"who claims a key that another has is told with its row", func(b *bench) {
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "A", "y"), b.ev("3", 10, "B", "z"))
		rows, _, err := b.journal.List(context.Background(), jobs.Filter{Contended: true})
		if err != nil || len(rows) != 1 || rows[0].Key != "A" {
			b.Fatalf("%d contended rows, %v", len(rows), err)
		}
		cs, err := b.journal.Claimants(context.Background(), []jobs.Row{rows[0], *b.row("B")})
		if err != nil {
			b.Fatal(err)
		}
		owner := rows[0].SourceID
		is(b, "rows with claimants", len(cs), 1)
		is(b, "claimants of A", strings.Join(cs[rows[0].RowID], " "), map[string]string{"1": "2", "2": "1"}[owner])
	}},
	{"the dead letter of a refused key says what can be done with this source", func(b *bench) {
		for asked, want := range map[bool][]string{
			true:  {", then replay this row", "and so does a replay"},
			false: {", then its next version at the source is written so", "it cannot be replayed: its source cannot be asked for one record; with on_rename: recreate, its next version at the source is written under the new key"},
		} {
			b.flow.CanRefresh = asked
			old, now := fmt.Sprint("old-", asked), fmt.Sprint("new-", asked)
			b.admit(b.ev(old, 10, old, "x"))
			b.apply()
			b.pass(time.Second)
			b.admit(b.ev(old, 11, now, "x"))
			row := b.row(now)
			if row.State != jobs.Dead || !strings.HasSuffix(row.LastMessage, want[0]) {
				b.Errorf("%s: %s", row.State, row.LastMessage)
			}
			e := jobs.Why(row, jobs.Surroundings{Flow: b.flow}, b.at)
			if !strings.HasSuffix(e.Next, want[1]) || e.Replay != asked {
				b.Errorf("next %s, replay %v", e.Next, e.Replay)
			}
			got, err := b.journal.Replay(context.Background(), []jobs.RowID{row.RowID}, b.flows)
			if err != nil || asked != (len(got.Skipped) == 0) {
				b.Errorf("replay: %+v, %v", got, err)
			}
		}
	}},
	{"a circle that another flow will open is none", func(b *bench) {
		other := *b.flow
		other.Name = "stock"
		b.flows["stock"] = &other
		b.admit(b.ev("1", 10, "A", "x"), b.ev("2", 10, "B", "x"))
		b.waitFor("A", "B", "B", "A")
		orders := b.flow
		b.flow = &other
		b.admit(b.ev("9", 10, "A", "y"))
		b.flow = orders
		is(b, "circles", b.circles(), "")
		if a := b.awaited("B"); a.Circle || len(a.Rows) != 1 || a.Rows[0].Flow != "stock" {
			b.Errorf("B waits for %+v", a)
		}
	}},
}
